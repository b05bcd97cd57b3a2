/* A sandbox's settings: the table, and what is done with every row alike.
 *
 * Called by box_sandboxes.c, by the voices' tables and by `krait dump`. Invariants: pure, the server's part comes as an
 * argument; an error names the setting; no limit is past the server's ceiling. */
#include "sandbox_settings.h"
#include "json.h"
#include "policy_json.h"
#include "report.h"
#include "secret_terms.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- limits ---- */

/* A limit as a client writes it: a number in the row's own unit (seconds, cores, bytes) or a text ("512M", "30s"). */
static int read_limit(const struct kr_limit_row *row, const json_t *value, uint64_t *ret, struct kr_err *err)
{
    char text[64];

    if (json_is_string(value))
        return kr_limit_parse(row, json_string_value(value), ret, err);
    if (json_is_integer(value))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, sizeof text, "%.6f", json_real_value(value));
    else
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "limits.%s: a number or a text like \"%s\"", row->name,
                          row->example);
    return kr_limit_parse(row, text, ret, err);
}

/* The parser names the flag: "--memory: …". Here it is a member. */
static int name_limit(struct kr_err *err, const struct kr_limit_row *row, int r)
{
    const char *rest = err && strncmp(err->msg, "--", 2) == 0 ? strchr(err->msg, ':') : NULL;
    char text[sizeof err->msg];

    if (!rest)
        return r;
    snprintf(text, sizeof text, "%s", rest);
    snprintf(err->msg, sizeof err->msg, "limits.%s%.*s", row->name, (int)(sizeof text - 32), text);
    return r;
}

/* Is it more than the ceiling? 0 is no limit. */
static bool is_past_ceiling(uint64_t value, uint64_t ceiling)
{
    return ceiling > 0 && (value > ceiling || value == 0);
}

static int apply_limit(const struct kr_setting_server *server, const char *name, const json_t *value,
                       struct kr_limits *l, struct kr_err *err)
{
    const struct kr_limit_row *row = kr_limit_find(name);
    struct kr_limits ceilings = server->profile->ceilings, highest = server->highest ? *server->highest : ceilings;
    uint64_t ceiling, *at;
    char text[64];
    int r;

    if (!row)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "limits.%.40s: there is no such limit", name);
    at = kr_limit_at(l, row);
    r = read_limit(row, value, at, err);
    if (r < 0)
        return name_limit(err, row, r);
    ceiling = *kr_limit_at(&ceilings, row);
    if (is_past_ceiling(*at, ceiling) && server->highest && !is_past_ceiling(*at, *kr_limit_at(&highest, row)))
        *at = ceiling; /* it was set by way of a listener with a higher one */
    else if (is_past_ceiling(*at, ceiling))
        return kr_err_set(err, KR_ERR_INVALID, 0, "limits.%s: this server allows %s at most", name,
                          kr_limit_show(row, ceiling, text, sizeof text)),
               -ERANGE;
    return 0;
}

static int apply_limits(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                        struct kr_err *err)
{
    const char *key;
    json_t *limit;
    int r = 0;

    s->limits = server->profile->limits;
    if (value && !json_is_object(value))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "limits: an object");
    json_object_foreach((json_t *)value, key, limit)
    {
        r = apply_limit(server, key, limit, &s->limits, err);
        if (r < 0)
            break;
    }
    return r;
}

static void tell_limits(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_report_limits(j, &s->limits);
}

/* ---- env, mounts ---- */

int kr_box_env_check(const json_t *env, struct kr_err *err)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;

    if (!env)
        return 0;
    if (!json_is_object(env) || json_object_size(env) > KR_BOX_ENV_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "env: an object of at most %u texts", KR_BOX_ENV_MAX);
    json_object_foreach((json_t *)env, key, value)
    {
        if (!*key || strchr(key, '=') || strlen(key) > 128 || strncmp(key, "KRAIT_", 6) == 0)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "env: %.40s is not a valid name of a variable", key);
        if (!json_is_string(value))
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "env.%.40s: a text", key);
        bytes += strlen(key) + json_string_length(value);
    }
    return bytes <= KR_BOX_ENV_BYTES
               ? 0
               : kr_err_set(err, KR_ERR_INVALID, E2BIG, "env: more than %u bytes", KR_BOX_ENV_BYTES);
}

/* Sessions take it from the settings. */
static int apply_env(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                     struct kr_err *err)
{
    (void)server, (void)s;
    return kr_box_env_check(value, err);
}

static int apply_mounts(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                        struct kr_err *err)
{
    const struct kr_box_config *c = server->config;
    size_t i, k;
    json_t *item;

    s->mounts = 0;
    if (value && !json_is_array(value))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "mounts: a list of names");
    json_array_foreach((json_t *)value, i, item)
    {
        const char *name = json_string_value(item);

        for (k = 0; name && k < c->mount_count && strcmp(c->mounts[k], name) != 0; k++)
            ;
        if (!name || k == c->mount_count)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "mounts: this server has no data set %.40s",
                              name ? name : "of that kind");
        s->mounts |= 1u << k;
    }
    return 0;
}

/* ---- words ---- */

static const struct kr_sandbox_setting *find_setting(const char *name); /* NULL if there is none */

static const char *const preloads[] = {"basic", "data", NULL};
static_assert(sizeof preloads / sizeof *preloads == KR_PRELOAD_MAX_ + 1, "every preload has its word");

/* The number of the word; a setting that is left out has `otherwise`. Or -EINVAL. */
static int read_word(const json_t *value, const char *setting, int otherwise, struct kr_err *err)
{
    const char *word = json_string_value(value);
    const struct kr_sandbox_setting *row = find_setting(setting);

    if (!value)
        return otherwise;
    for (int i = 0; word && row->words[i]; i++)
        if (strcmp(row->words[i], word) == 0)
            return i;
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%s: %s%.40s%s; it may be %s", setting, word ? "\"" : "",
                      word ? word : "not a text", word ? "\" is not known" : "", row->bound);
}

/* More than the administrator allows, or than this server can build. */
static int check_ceiling(const struct kr_box_config *c, const struct kr_net_rule *rule, struct kr_err *err)
{
    char asked[KR_NET_RULE_ROOM], most[KR_NET_RULE_ROOM];

    kr_net_rule_text(&c->max_network, most, sizeof most);
    if (!kr_net_rule_within(rule, &c->max_network))
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "network: %.70s is more than this server allows: the server's max_network is %.70s",
                          kr_net_rule_text(rule, asked, sizeof asked), most),
               -ERANGE;
    if (rule->kind >= KR_NET_EGRESS_MIN_ && !c->egress)
        return kr_err_set(err, KR_ERR_INVALID, 0, "network: this server has no egress process, which %s needs",
                          kr_net_kind_names[rule->kind]),
               -EINVAL;
    return 0;
}

static int apply_network(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                         struct kr_err *err)
{
    const char *text = json_string_value(value);
    int r;

    s->network = server->config->network;
    if (!value)
        return 0;
    if (!text)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "network: a text");
    r = kr_net_rule_parse(text, &s->network, err);
    return r < 0 ? kr_err_wrap(err, r, "network") : check_ceiling(server->config, &s->network, err);
}

static void tell_network(struct kr_json *j, const struct kr_sandbox *s)
{
    char text[KR_NET_RULE_ROOM];

    kr_json_str(j, kr_net_rule_text(&s->network, text, sizeof text));
}

static int apply_preload(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                         struct kr_err *err)
{
    int r = read_word(value, "preload", (int)server->config->preload, err);

    if (r < 0)
        return r;
    s->preload = (enum kr_preload)r;
    if (r >= KR_PRELOAD_MAX_ || !(server->preloads & 1u << r))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "preload: this server does not have %s",
                          r < KR_PRELOAD_MAX_ ? preloads[r] : "it");
    return 0;
}

static void tell_preload(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, preloads[s->preload]);
}

static int apply_background(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                            struct kr_err *err)
{
    int r = read_word(value, "background", KR_BACKGROUND_KEEP, err);

    (void)server;
    if (r < 0)
        return r;
    s->background = (enum kr_background)r;
    return 0;
}

static void tell_background(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, kr_background_names[s->background]);
}

/* ---- policy ---- */

static int ask_policy(const json_t *settings, struct kr_policy_ask *ask, struct kr_err *err)
{
    return kr_policy_ask_json(ask, json_object_get(settings, "policy"), json_object_get(settings, "profiles"),
                              json_object_get(settings, "allowed_imports"), err);
}

static void take_policy(struct kr_sandbox *s, const struct kr_policy_spec *policy)
{
    s->policy = *policy;
    if (!kr_policy_has(policy, KR_POLICY_NETWORK))
        s->network = (struct kr_net_rule){.kind = KR_NET_NONE};
}

/* Three rows that count together, when each of them is known to be well formed. */
static int narrow_policy(const struct kr_setting_server *server, const json_t *settings, struct kr_sandbox *s,
                         struct kr_err *err)
{
    struct kr_policy_ask ask = {0};
    struct kr_policy_spec made;
    int r = ask_policy(settings, &ask, err);

    if (r < 0)
        return r;
    if (server->highest) /* they were set by way of a listener with a wider one, or under one */
        kr_policy_clip(&server->profile->policy, &ask, &made);
    else if ((r = kr_policy_narrow(&server->profile->policy, &ask, "the server", &made, err)) < 0)
        return r;
    take_policy(s, &made);
    return 0;
}

void kr_sandbox_settings_keep_policy(const struct kr_setting_server *server, const json_t *settings,
                                     struct kr_sandbox *s)
{
    struct kr_policy_ask ask = {0};
    struct kr_policy_spec made;
    struct kr_err ignored;

    if (ask_policy(settings, &ask, &ignored) < 0) {
        ask = (struct kr_policy_ask){.has_mode = true, .mode = KR_POLICY_RESTRICTED};
        kr_policy_ask_no_imports(&ask);
    }
    kr_policy_clip(&server->profile->policy, &ask, &made);
    take_policy(s, &made);
}

/* Whether its own part is well formed. */
static int apply_policy(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                        struct kr_err *err)
{
    struct kr_policy_ask ask = {0};

    (void)server, (void)s;
    return kr_policy_ask_json(&ask, value, NULL, NULL, err);
}

static int apply_profiles(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                          struct kr_err *err)
{
    struct kr_policy_ask ask = {0};

    (void)server, (void)s;
    return kr_policy_ask_json(&ask, NULL, value, NULL, err);
}

static int apply_imports(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                         struct kr_err *err)
{
    struct kr_policy_ask ask = {0};

    (void)server, (void)s;
    return kr_policy_ask_json(&ask, NULL, NULL, value, err);
}

static void tell_policy(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, kr_policy_names[s->policy.mode]);
}

static void tell_profiles(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_policy_write_profiles(j, &s->policy);
}

static void tell_imports(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_policy_write_imports(j, &s->policy);
}

/* ---- yes and no ---- */

static const char *const answers[] = {"no", "yes", NULL};

static int apply_allow_build(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                             struct kr_err *err)
{
    int r = read_word(value, "allow_build", 0, err);

    (void)server;
    s->allow_build = r > 0;
    return r < 0 ? r : 0;
}

static void tell_allow_build(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, answers[s->allow_build]);
}

static int apply_auto_install(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                              struct kr_err *err)
{
    int r = read_word(value, "auto_install", 0, err);

    (void)server;
    s->auto_install = r > 0;
    return r < 0 ? r : 0;
}

static void tell_auto_install(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, answers[s->auto_install]);
}

/* ---- secrets ---- */

/* Variables and names of secrets; whether the user has these is for kr_box_secrets_check(). */
static int apply_secrets(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                         struct kr_err *err)
{
    const char *key;
    json_t *name;

    (void)s;
    if (value && (!json_is_object(value) || json_object_size(value) > KR_SECRETS_MAX))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "secrets: an object of at most %u names of secrets",
                          KR_SECRETS_MAX);
    if (json_object_size(value) > 0 && !server->config->egress)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL,
                          "secrets: this server has no egress process, which puts their values in");
    json_object_foreach((json_t *)value, key, name)
    {
        if (!*key || strchr(key, '=') || strlen(key) > 128 || strncmp(key, "KRAIT_", 6) == 0)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "secrets: %.40s is not a valid name of a variable", key);
        if (!json_is_string(name) || kr_secret_name_check(json_string_value(name), NULL) < 0)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "secrets.%.40s: the name of a secret", key);
    }
    return 0;
}

static int apply_secrets_tls(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s,
                             struct kr_err *err)
{
    int r = read_word(value, "secrets_tls", 0, err);

    s->secrets_tls = r > 0;
    if (r <= 0 || (server->config->ca_bundle && server->config->python))
        return r < 0 ? r : 0;
    return kr_err_set(err, KR_ERR_INVALID, EINVAL,
                      "secrets_tls: this server has no certificate authority for it (it needs the egress process, "
                      "certificates of the system and a Python of cells)");
}

static void tell_secrets_tls(struct kr_json *j, const struct kr_sandbox *s)
{
    kr_json_str(j, answers[s->secrets_tls]);
}

/* ---- the table ---- */

const struct kr_sandbox_setting kr_sandbox_settings[] = {
    {
        .name = "limits",
        .type = KR_SETTING_LIMITS,
        .merge = KR_SETTING_JOINS,
        .run_fields = "timeout,max_output",
        .apply = apply_limits,
        .tell = tell_limits,
        .bound = "limits by name (limits.md), each at most the server's ceiling",
        .help = "Limits of its sessions, by name.",
        .example = "{\"memory\":\"512M\",\"timeout\":120}",
    },
    {
        .name = "env",
        .type = KR_SETTING_TEXTS,
        .merge = KR_SETTING_JOINS,
        .max = KR_BOX_ENV_MAX,
        .secret = true,
        .run_fields = "env",
        .apply = apply_env,
        .bound = "at most 64 variables and 32 KiB; a name must not begin with `KRAIT_`",
        .help = "Environment variables of its sessions; values are never shown again.",
        .example = "{\"MODE\":\"test\"}",
    },
    {
        .name = "mounts",
        .type = KR_SETTING_NAMES,
        .merge = KR_SETTING_REPLACES,
        .max = 32,
        .apply = apply_mounts,
        .bound = "data sets that this server has",
        .help = "The server's data sets that it sees beneath /data, read-only.",
        .example = "[]",
    },
    {
        .name = "network",
        .type = KR_SETTING_RULE,
        .merge = KR_SETTING_REPLACES,
        .max = KR_NET_RULE_ROOM - 1,
        .apply = apply_network,
        .tell = tell_network,
        .bound = "none, loopback, index, allow:HOST,… or open; at most the server's `max_network`",
        .run_fields = "network",
        .help = "`none`; `loopback`: 127.0.0.1 of its own; `index`: the package index; `allow:HOST,…`: those hosts; "
                "`open`: all public.",
        .example = "none",
    },
    {
        .name = "preload",
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = preloads,
        .apply = apply_preload,
        .tell = tell_preload,
        .bound = "basic or data, if the server has it",
        .help = "Imported already; `data`: numpy, pandas, matplotlib.",
        .example = "data",
    },
    {
        .name = "background",
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = kr_background_names,
        .apply = apply_background,
        .tell = tell_background,
        .bound = "keep, freeze or end; it needs control groups (`krait doctor`)",
        .help = "Processes that a run leaves: `keep` them within `background_cpu`, `freeze` them until the next run, "
                "or `end` them.",
        .example = "end",
    },
    {
        .name = "allow_build",
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = answers,
        .apply = apply_allow_build,
        .tell = tell_allow_build,
        .bound = "yes or no; it needs the server's `allow_build`",
        .help = "Whether packages that have no wheel are built from source.",
        .example = "yes",
    },
    {
        .name = "auto_install",
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = answers,
        .apply = apply_auto_install,
        .tell = tell_auto_install,
        .bound = "yes or no",
        .help = "Whether a module that a run does not find is installed, once, and the run begins anew.",
        .example = "yes",
    },
    {
        .name = "policy",
        .unlisted = true,
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = kr_policy_names,
        .run_fields = "policy",
        .apply = apply_policy,
        .tell = tell_policy,
        .bound = "open or restricted; not wider than the server's `policy`",
        .help = "`restricted`: code is judged before it runs and watched while it runs.",
        .example = "restricted",
    },
    {
        .name = "profiles",
        .unlisted = true,
        .type = KR_SETTING_NAMES,
        .merge = KR_SETTING_REPLACES,
        .words = kr_policy_profile_names,
        .max = KR_POLICY_PROFILE_MAX_,
        .run_fields = "profiles",
        .apply = apply_profiles,
        .tell = tell_profiles,
        .bound = "of basic, data_science, network, filesystem those that the server's policy has",
        .help = "Under `restricted`: what it may import, reach and write. Asks for `restricted`.",
        .example = "[\"basic\",\"data_science\"]",
    },
    {
        .name = "allowed_imports",
        .unlisted = true,
        .type = KR_SETTING_NAMES,
        .merge = KR_SETTING_REPLACES,
        .max = KR_POLICY_IMPORTS_MAX,
        .run_fields = "allowed_imports",
        .apply = apply_imports,
        .tell = tell_imports,
        .bound = "modules that the server's policy allows, 128 at most",
        .help = "Modules that may be imported, in the place of those of the profiles. Asks for `restricted`.",
        .example = "[\"math\",\"xml.etree\"]",
    },
    {
        .name = "secrets",
        .type = KR_SETTING_TEXTS,
        .merge = KR_SETTING_JOINS,
        .max = KR_SECRETS_MAX,
        .rest_only = true,
        .apply = apply_secrets,
        .bound = "at most 8 variables, each with the name of a secret of one's own",
        .help = "Variables that hold a placeholder of a secret, whose value the proxy puts into requests to its hosts.",
        .example = "{\"SERVICE_KEY\":\"service\"}",
    },
    {
        .name = "secrets_tls",
        .type = KR_SETTING_WORD,
        .merge = KR_SETTING_REPLACES,
        .words = answers,
        .rest_only = true,
        .apply = apply_secrets_tls,
        .tell = tell_secrets_tls,
        .bound = "yes or no",
        .help = "Whether TLS to hosts of its secrets ends in the proxy, which speaks TLS to the host itself.",
        .example = "yes",
    },
};
const size_t kr_sandbox_settings_count = sizeof kr_sandbox_settings / sizeof *kr_sandbox_settings;
static_assert(sizeof kr_sandbox_settings / sizeof *kr_sandbox_settings <= KR_SANDBOX_SETTINGS_MAX,
              "derived tables fit");
static_assert(KR_BOX_ENV_MAX == 64 && KR_BOX_ENV_BYTES == 32768, "the text of env's bound says so");

static const struct kr_sandbox_setting *find_setting(const char *name)
{
    for (size_t i = 0; i < kr_sandbox_settings_count; i++)
        if (strcmp(kr_sandbox_settings[i].name, name) == 0)
            return &kr_sandbox_settings[i];
    return NULL;
}

/* ---- every row alike ---- */

int kr_sandbox_settings_apply(const struct kr_setting_server *server, const json_t *settings, struct kr_sandbox *s,
                              struct kr_err *err)
{
    const char *key;
    json_t *value;
    int r = 0;

    if (settings && !json_is_object(settings))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "settings: an object");
    json_object_foreach((json_t *)settings, key, value)
    {
        if (!find_setting(key))
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%.40s: there is no such setting of a sandbox", key);
    }
    for (size_t i = 0; i < kr_sandbox_settings_count && r >= 0; i++)
        r = kr_sandbox_settings[i].apply(server, json_object_get(settings, kr_sandbox_settings[i].name), s, err);
    return r < 0 ? r : narrow_policy(server, settings, s, err);
}

/* Members into an object, where null takes one away. 0 or -1. */
static int join_members(json_t *into, const json_t *changes)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)changes, key, value)
    {
        if (json_is_null(value))
            json_object_del(into, key);
        else
            r |= json_object_set(into, key, value);
    }
    return r;
}

/* A joined setting, which may not be there yet. 0 or -1. */
static int join_setting(json_t *settings, const char *key, const json_t *changes)
{
    json_t *old = json_object_get(settings, key);

    if (!json_is_object(old) && json_object_set_new(settings, key, old = json_object()) < 0)
        return -1;
    return join_members(old, changes);
}

int kr_sandbox_settings_change(json_t *settings, const json_t *changes)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)changes, key, value)
    {
        const struct kr_sandbox_setting *row = find_setting(key);

        if (json_is_null(value))
            json_object_del(settings, key);
        else if (row && row->merge == KR_SETTING_JOINS && json_is_object(value))
            r |= join_setting(settings, key, value);
        else
            r |= json_object_set(settings, key, value); /* whether it is right is for kr_sandbox_settings_apply() */
    }
    return r < 0 ? -ENOMEM : 0;
}

void kr_sandbox_settings_json(struct kr_json *j, const json_t *settings)
{
    const char *key, *name;
    json_t *value, *secret;

    kr_json_object(j);
    json_object_foreach((json_t *)settings, key, value)
    {
        const struct kr_sandbox_setting *row = find_setting(key);

        kr_json_key(j, key);
        if (row && !row->secret) {
            kr_report_value(j, value);
            continue;
        }
        kr_json_object(j);
        json_object_foreach(value, name, secret)
        {
            kr_json_key_str(j, name, "***");
        }
        kr_json_object_end(j);
    }
    kr_json_object_end(j);
}

void kr_sandbox_settings_tell(struct kr_json *j, const struct kr_sandbox *s)
{
    for (size_t i = 0; i < kr_sandbox_settings_count; i++)
        if (kr_sandbox_settings[i].tell) {
            kr_json_key(j, kr_sandbox_settings[i].name);
            kr_sandbox_settings[i].tell(j, s);
        }
}

/* ---- the page ---- */

void kr_sandbox_settings_dump(FILE *out)
{
    static const char *const types[] = {[KR_SETTING_WORD] = "word",
                                        [KR_SETTING_RULE] = "text of a network rule",
                                        [KR_SETTING_LIMITS] = "object of numbers or texts",
                                        [KR_SETTING_TEXTS] = "object of texts",
                                        [KR_SETTING_NAMES] = "list of texts"};
    static const char *const merges[] = {[KR_SETTING_REPLACES] = "replaced", [KR_SETTING_JOINS] = "member by member"};

    static_assert(sizeof types / sizeof *types == KR_SETTING_TYPE_MAX_, "every type has its words");
    static_assert(sizeof merges / sizeof *merges == KR_SETTING_MERGE_MAX_, "every merge has its words");
    fprintf(out,
            "# Settings of a sandbox\n\n"
            "Members of `POST /api/v1/sandboxes` and `PATCH /api/v1/sandboxes/{sandbox_id}`, arguments of the tool\n"
            "`create_sandbox`. What a sandbox leaves out is the server's default; in a change, null takes a setting\n"
            "(or, where it is merged member by member, a member) away. A session has what its sandbox had when the\n"
            "session was opened. A run changes what the last column names, for itself. `secrets` and `secrets_tls`\n"
            "are set over REST alone: no tool takes them.\n\n");
    fprintf(
        out,
        "| setting | type | allowed | a change is | example | | fields of a run |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < kr_sandbox_settings_count; i++) {
        const struct kr_sandbox_setting *row = &kr_sandbox_settings[i];

        fprintf(out, "| `%s` | %s | %s | %s | `%s` | %s | %s |\n", row->name, types[row->type], row->bound,
                merges[row->merge], row->example, row->help, row->run_fields ? row->run_fields : "");
    }
}
