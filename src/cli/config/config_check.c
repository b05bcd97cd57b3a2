/* The configuration as a whole: what was not given is filled in, and values are checked against each other.
 *
 * Called once by kr_config_load(), when every origin has been read. Invariant: behind it no default is past its
 * ceiling, every listener has an address, a port and a dialect, and none that other machines can reach is without a
 * key unless that was said out loud. */
#include "choices.h"
#include "config_rows.h"
#include "config_tray.h"
#include "fd.h"
#include "web_address.h"
#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOPBACK "127.0.0.1"
#define KEY_FILE_MAX 4096u
#define GOOD_KEY 16u

bool kr_config_given(const struct kr_config *c, const char *flag)
{
    const struct kr_config_row *row = kr_config_row(flag);

    return row && kr_config_origin_of(c, row)->source >= KR_FROM_TOML;
}

const char *kr_config_origin(const struct kr_config *c, const char *flag, char *buf, size_t size)
{
    const struct kr_config_row *row = kr_config_row(flag);
    const struct kr_config_origin *origin = row ? kr_config_origin_of(c, row) : NULL;
    char name[64];

    if (!origin || origin->source <= KR_FROM_DEFAULT)
        snprintf(buf, size, "default");
    else if (origin->source == KR_FROM_DIALECT)
        snprintf(buf, size, "default of dialect %s", kr_dialect_names[c->dialect]);
    else if (origin->source == KR_FROM_FLAG)
        snprintf(buf, size, "%s (command line)", kr_config_origin_name(row, origin, name, sizeof name));
    else if (origin->source == KR_FROM_ENVIRONMENT)
        snprintf(buf, size, "%s", kr_config_origin_name(row, origin, name, sizeof name));
    else
        snprintf(buf, size, "%s (%s:%u)", kr_config_origin_name(row, origin, name, sizeof name), origin->file,
                 origin->line);
    return buf;
}

/* ---- defaults ---- */

static int fill_default(struct kr_config *c, const struct kr_config_row *row, struct kr_err *err)
{
    const char *text = row->section ? kr_dialect_default((enum kr_dialect)c->dialect, row->flag) : NULL;
    struct kr_config_origin origin = {.source = text ? KR_FROM_DIALECT : KR_FROM_DEFAULT};

    if (kr_config_origin_of(c, row)->source != KR_FROM_NONE)
        return 0;
    text = text ? text : row->fallback;
    return text ? kr_config_set(c, row, text, &origin, err) : 0;
}

static int fill_all(struct kr_config *c, struct kr_err *err)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);
    int r = fill_default(c, kr_config_row("dialect"), err); /* the others depend on it */

    for (size_t i = 0; i < count && r >= 0; i++)
        r = fill_default(c, &rows[i], err);
    return r;
}

static const char *path_in_environment(char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' && (*environment)[len + 1] == '/')
            return *environment + len + 1;
    return NULL;
}

/* The system's state folder as root, the user's own (XDG Base Directory Specification) otherwise. */
static int fill_data(struct kr_config *c, char *const *environment, struct kr_err *err)
{
    const char *state = path_in_environment(environment, "XDG_STATE_HOME"),
               *home = path_in_environment(environment, "HOME");
    const struct kr_config_tray *tray = c->origins->tray;
    uid_t uid = tray && tray->is_full ? tray->uid : geteuid();
    const struct passwd *pw;
    int n;

    if (c->data)
        return 0;
    if (uid == 0)
        n = asprintf(&c->data, "/var/lib/krait");
    else if (state)
        n = asprintf(&c->data, "%s/krait", state);
    else {
        if (!home && (pw = getpwuid(uid)) && pw->pw_dir && pw->pw_dir[0] == '/')
            home = pw->pw_dir;
        if (!home)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "--data: you have no home folder; name one");
        n = asprintf(&c->data, "%s/.local/state/krait", home);
    }
    if (n >= 0)
        return 0;
    c->data = NULL;
    return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the configuration");
}

static int read_key(struct kr_config *c, struct kr_err *err)
{
    const struct kr_config_row *row = kr_config_row("api-key-file");
    cleanup_free char *text = NULL;
    char origin[160];
    size_t len = 0;
    int r;

    if (!c->api_key_file)
        return 0;
    if (c->auth.api_key) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: there is an api_key as well; leave one of the two out",
                   kr_config_origin(c, "api-key-file", origin, sizeof origin));
        return -EINVAL;
    }
    r = kr_config_read_named(c->origins->tray, c->api_key_file, KEY_FILE_MAX, &text, &len, err);
    if (r < 0)
        return kr_err_wrap(err, r, "%s", kr_config_origin(c, "api-key-file", origin, sizeof origin));
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        text[--len] = '\0';
    r = memchr(text, '\0', len) ? -EINVAL
                                : kr_config_set(c, kr_config_row("api-key"), text, kr_config_origin_of(c, row), err);
    if (r < 0)
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: the file is not a key: 1 to 256 visible ASCII characters",
                   kr_config_origin(c, "api-key-file", origin, sizeof origin));
    explicit_bzero(text, len);
    return r;
}

/* ---- limits ---- */

struct pair {
    const struct kr_limit_row *limit;
    const struct kr_config_row *value_row, *ceiling_row;
    bool value_given, ceiling_given;
};

static struct pair pair_of(const struct kr_config *c, const struct kr_limit_row *limit)
{
    struct pair p = {.limit = limit};
    char key[40];

    p.value_row = kr_config_by_key("limits", limit->name);
    snprintf(key, sizeof key, "max_%s", limit->name);
    p.ceiling_row = kr_config_by_key("limits", key);
    p.value_given = kr_config_given(c, p.value_row->flag);
    p.ceiling_given = kr_config_given(c, p.ceiling_row->flag);
    return p;
}

/* Is a past b, where 0 may be no limit? */
static bool is_past(const struct kr_limit_row *limit, uint64_t a, uint64_t b)
{
    if (limit->zero_is_none && (a == 0 || b == 0))
        return a == 0 && b != 0;
    return a > b;
}

static int refuse_past(const struct kr_config *c, const struct pair *p, uint64_t value, uint64_t ceiling,
                       struct kr_err *err)
{
    char where[96], there[96], a[32], b[32];

    kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s is past its ceiling, %s by %s",
               kr_config_origin(c, p->value_row->flag, where, sizeof where),
               kr_config_show_number(p->value_row, value, a, sizeof a),
               kr_config_show_number(p->ceiling_row, ceiling, b, sizeof b),
               kr_config_origin(c, p->ceiling_row->flag, there, sizeof there));
    return -EINVAL;
}

static int fit_limit(const struct kr_config *c, const struct kr_limit_row *limit, struct kr_profile *profile,
                     struct kr_err *err)
{
    struct pair p = pair_of(c, limit);
    uint64_t *value = kr_limit_at(&profile->limits, limit), *ceiling = kr_limit_at(&profile->ceilings, limit);

    if (kr_dialects[profile->dialect].max_timeout_is_timeout && strcmp(limit->name, "timeout") == 0 &&
        p.ceiling_given && !p.value_given)
        *value = *ceiling;
    if (!is_past(limit, *value, *ceiling))
        return 0;
    if (p.value_given && p.ceiling_given)
        return refuse_past(c, &p, *value, *ceiling, err);
    if (p.value_given)
        *ceiling = *value; /* more for every run is more that a run may ask for */
    else
        *value = *ceiling;
    return 0;
}

/* ---- profiles ---- */

void *kr_config_in_profile(struct kr_profile *profile, const struct kr_config_row *row)
{
    size_t first = offsetof(struct kr_config, profile);

    return row->offset >= first && row->offset < first + sizeof *profile ? (char *)profile + (row->offset - first)
                                                                         : NULL;
}

bool kr_config_is_of_profile(const struct kr_config_row *row)
{
    struct kr_profile any;

    return kr_config_in_profile(&any, row) != NULL;
}

/* What holds in a dialect: what was given, else what its document says, else krait's default. */
static void fill_profile(const struct kr_config *c, struct kr_profile *profile)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++) {
        const char *text = kr_dialect_default(profile->dialect, rows[i].flag);
        void *at = kr_config_in_profile(profile, &rows[i]);

        if (!at || kr_config_given(c, rows[i].flag))
            continue;
        text = text ? text : rows[i].fallback; /* both parse: unit tests */
        if (rows[i].type == KR_SET_BOOL)
            *(bool *)at = kr_config_bool(text) > 0;
        else if (rows[i].type == KR_SET_CHOICE)
            *(int *)at = kr_config_choice(&rows[i], text);
        else
            (void)kr_config_number(&rows[i], text, at);
    }
    if (kr_config_given(c, "max-sessions"))
        profile->max_sessions = 0; /* it is the bound of all profiles together */
}

static int make_profiles(struct kr_config *c, struct kr_err *err)
{
    int r = 0;

    c->box.max_sessions = kr_config_given(c, "max-sessions") ? (uint32_t)c->profile.max_sessions : 0;
    for (int d = 0; d < KR_DIALECT_MAX_ && r >= 0; d++) {
        struct kr_profile *profile = &c->profiles[d];

        *profile = c->profile;
        profile->dialect = (enum kr_dialect)d;
        snprintf(profile->sandbox, sizeof profile->sandbox, "%s%s",
                 d == KR_DIALECT_KRAIT ? KR_STORE_DEFAULT : KR_STORE_DEFAULT_OF,
                 d == KR_DIALECT_KRAIT ? "" : kr_dialect_names[d]);
        fill_profile(c, profile);
        for (size_t i = 0; i < kr_limit_rows_count && r >= 0; i++)
            r = fit_limit(c, &kr_limit_rows[i], profile, err);
    }
    c->profile.limits = c->profiles[c->dialect].limits;
    c->profile.ceilings = c->profiles[c->dialect].ceilings;
    return r;
}

/* As for a limit: what was given moves the other one; two that contradict each other are refused. */
static int fit_network(struct kr_config *c, struct kr_err *err)
{
    struct kr_net_rule *value = &c->box.network, *ceiling = &c->box.max_network;
    bool value_given = kr_config_given(c, "network"), ceiling_given = kr_config_given(c, "max-network");
    char where[96], there[96], low[KR_NET_RULE_ROOM], high[KR_NET_RULE_ROOM];

    if (kr_net_rule_within(value, ceiling))
        return 0;
    if (value_given && ceiling_given)
        return kr_err_set(err, KR_ERR_INVALID, 0, "%s: %.40s is past its ceiling, %.40s by %s",
                          kr_config_origin(c, "network", where, sizeof where), kr_net_rule_text(value, low, sizeof low),
                          kr_net_rule_text(ceiling, high, sizeof high),
                          kr_config_origin(c, "max-network", there, sizeof there)),
               -EINVAL;
    if (value_given)
        *ceiling = *value;
    else
        *value = *ceiling;
    return 0;
}

int kr_config_split_index(char *url, char **ret_credentials)
{
    char user[KR_WEB_USER_ROOM], password[KR_WEB_USER_ROOM];
    cleanup_free char *rest = malloc(strlen(url) + 1);
    int r = 0;

    *ret_credentials = NULL;
    if (!rest)
        return -ENOMEM;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return 0;
    r = kr_web_address_split_user(url, rest, strlen(url) + 1, user, password);
    if (r == 0 && (*user || *password)) {
        r = asprintf(ret_credentials, "%s:%s", user, password) < 0 ? -ENOMEM : 0;
        explicit_bzero(url, strlen(url));
        memcpy(url, rest, strlen(rest) + 1);
    }
    explicit_bzero(user, sizeof user);
    explicit_bzero(password, sizeof password);
    return r;
}

/* Credentials in the index's address are its credentials, and leave the address, which is shown. */
static int take_credentials(struct kr_config *c, struct kr_err *err)
{
    char *found = NULL;
    int r = c->egress.index_url ? kr_config_split_index((char *)c->egress.index_url, &found) : 0;

    if (r < 0)
        return kr_err_set(err, r == -EINVAL ? KR_ERR_INVALID : KR_ERR_SYSTEM, -r, KR_CONFIG_SPLIT_FAILED);
    if (found && !c->index_credentials)
        c->index_credentials = found;
    else
        free(found);
    return 0;
}

/* ---- listeners ---- */

bool kr_config_is_loopback(const char *address)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, address, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, address, &six) != 1)
        return false;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == 127);
}

static int wrong_listener(const struct kr_config *c, const char *text, struct kr_err *err)
{
    char where[96];

    kr_err_set(err, KR_ERR_INVALID, 0, "%s: \"%.60s\" is not [ADDRESS:]PORT[=DIALECT]; for example 127.0.0.1:8642",
               kr_config_origin(c, "listen", where, sizeof where), text);
    return -EINVAL;
}

/* "[::1]:80" and "127.0.0.1:80" into their parts; "80" has no address (""). */
static int split(const char *text, size_t len, char *address, size_t size, char *port, size_t port_size)
{
    const char *colon = memrchr(text, ':', len);
    size_t host_len = colon ? (size_t)(colon - text) : 0, port_len = colon ? len - host_len - 1 : len;

    if (colon && host_len >= 2 && text[0] == '[' && text[host_len - 1] == ']') {
        text++;
        host_len -= 2;
    } else if (colon && memchr(text, ':', host_len)) {
        return -EINVAL; /* an IPv6 address has brackets: which colon is the port's? */
    }
    if ((colon && host_len == 0) || host_len >= size || port_len == 0 || port_len >= port_size)
        return -EINVAL;
    snprintf(address, size, "%.*s", (int)host_len, text);
    snprintf(port, port_size, "%.*s", (int)port_len, colon ? colon + 1 : text);
    return 0;
}

/* The address of a listener that names none: what was given as host, else its document's. */
static const char *own_host(const struct kr_config *c, enum kr_dialect dialect, bool *ret_is_default)
{
    const char *host = kr_dialect_default(dialect, "host");

    *ret_is_default = !kr_config_given(c, "host");
    return !*ret_is_default ? c->host : host ? host : LOOPBACK;
}

static int read_listener(const struct kr_config *c, const char *text, struct kr_config_listener *ret,
                         bool *ret_is_default, struct kr_err *err)
{
    const char *equals = strchr(text, '='), *host;
    int alone = kr_dialect_find(text), dialect = equals ? kr_dialect_find(equals + 1) : c->dialect;
    const struct kr_config_row *port_row = kr_config_row("port");
    char address[64] = "", port[16];
    uint64_t number;

    *ret_is_default = false;
    if (alone >= 0) {
        const char *own = kr_dialect_default((enum kr_dialect)alone, "port");

        dialect = alone;
        snprintf(port, sizeof port, "%s", own ? own : port_row->fallback);
    } else if (dialect < 0 || split(text, equals ? (size_t)(equals - text) : strlen(text), address, sizeof address,
                                    port, sizeof port) < 0) {
        return wrong_listener(c, text, err);
    }
    if (kr_config_number(port_row, port, &number) < 0)
        return wrong_listener(c, text, err);
    host = address[0] ? address : own_host(c, (enum kr_dialect)dialect, ret_is_default);
    if (strcasecmp(host, "localhost") == 0)
        host = LOOPBACK;
    if (inet_pton(AF_INET, host, &(struct in_addr){0}) != 1 && inet_pton(AF_INET6, host, &(struct in6_addr){0}) != 1)
        return wrong_listener(c, text, err);
    *ret = (struct kr_config_listener){.port = (uint16_t)number, .dialect = (enum kr_dialect)dialect};
    snprintf(ret->address, sizeof ret->address, "%.*s", (int)sizeof ret->address - 1, host);
    return 0;
}

/* One that others can reach needs a key, or the word that it needs none. A document's default gives way; an address
 * that was given does not. */
static int guard(struct kr_config *c, struct kr_config_listener *l, bool is_default, const char *flag,
                 struct kr_err *err)
{
    char where[96];

    l->is_loopback = kr_config_is_loopback(l->address);
    if (l->is_loopback || c->auth_on || c->allow_anonymous)
        return 0;
    if (!is_default) {
        kr_err_set(err, KR_ERR_INVALID, 0,
                   "%s: others can reach %s, and no key is asked for; give --api-key, --require-auth or "
                   "--allow-anonymous",
                   kr_config_origin(c, flag, where, sizeof where), l->address);
        return -EINVAL;
    }
    kr_config_note(c,
                   "dialect %s listens on %s by default, which needs a key: on %s instead; --api-key, "
                   "--require-auth or --allow-anonymous opens it",
                   kr_dialect_names[l->dialect], l->address, LOOPBACK);
    snprintf(l->address, sizeof l->address, LOOPBACK);
    l->is_loopback = true;
    return 0;
}

static int add_listener(struct kr_config *c, const char *text, struct kr_err *err)
{
    struct kr_config_listener l = {.port = (uint16_t)c->port, .dialect = (enum kr_dialect)c->dialect};
    bool is_default = !text && !kr_config_given(c, "host");
    int r = 0;

    if (c->listener_count == KR_CONFIG_LISTENERS_MAX) {
        kr_err_set(err, KR_ERR_INVALID, 0, "--listen: there may be %u", KR_CONFIG_LISTENERS_MAX);
        return -EINVAL;
    }
    if (text)
        r = read_listener(c, text, &l, &is_default, err);
    else
        snprintf(l.address, sizeof l.address, "%s", c->host);
    if (r >= 0)
        r = guard(c, &l, is_default, text && kr_config_given(c, "listen") ? "listen" : "host", err);
    for (size_t i = 0; r >= 0 && l.port != 0 && i < c->listener_count; i++)
        if (c->listeners[i].port == l.port && strcmp(c->listeners[i].address, l.address) == 0) {
            kr_err_set(err, KR_ERR_INVALID, 0, "--listen: %s:%u is there twice", l.address, l.port);
            r = -EINVAL;
        }
    if (r >= 0)
        c->listeners[c->listener_count++] = l;
    return r;
}

static int make_listeners(struct kr_config *c, struct kr_err *err)
{
    int r = 0;

    if (c->listen.count == 0)
        return add_listener(c, NULL, err);
    for (size_t i = 0; i < c->listen.count && r >= 0; i++)
        r = add_listener(c, c->listen.items[i], err);
    return r;
}

/* NAME, or NAME:MODULE+MODULE (in a file of settings MODULE,MODULE too). */
static int read_preload(const char *text, struct kr_config_preload *ret, struct kr_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789.,";
    const char *colon = strchr(text, ':');
    size_t name = colon ? (size_t)(colon - text) : strlen(text);
    char *modules = ret->modules;

    if (name == 0 || name >= sizeof ret->template || (colon && strlen(colon + 1) >= sizeof ret->modules))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%.80s: not NAME or NAME:MODULE+MODULE, or too long", text);
    memcpy(ret->template, text, name);
    snprintf(modules, sizeof ret->modules, "%s", colon ? colon + 1 : "");
    for (char *plus; (plus = strchr(modules, '+'));)
        *plus = ',';
    if (colon && (strspn(modules, letters) != strlen(modules) || strchr(",.0123456789", *modules) || !*modules))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%.80s: %.80s are not names of modules", text, modules);
    return 0;
}

static int read_preloads(struct kr_config *c, struct kr_err *err)
{
    char where[160];

    if (c->template_preload.count > c->template_max_zygotes)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL,
                          "%s: %zu templates, and templates.max_zygotes is %llu: name fewer, or raise that",
                          kr_config_origin(c, "template-preload", where, sizeof where), c->template_preload.count,
                          (unsigned long long)c->template_max_zygotes);
    for (size_t i = 0; i < c->template_preload.count; i++) {
        int r = read_preload(c->template_preload.items[i], &c->preloads[i], err);

        if (r < 0)
            return kr_err_wrap(err, r, "%s", kr_config_origin(c, "template-preload", where, sizeof where));
    }
    c->preload_count = c->template_preload.count;
    return 0;
}

/* Several users, whom one another's sessions must not crowd out? All who have api_key are one. */
static bool has_users(const struct kr_config *c)
{
    bool several =
        c->require_auth || kr_config_given(c, "max-memory-per-user") || kr_config_given(c, "max-processes-per-user");

    for (size_t i = 0; i < c->listener_count; i++) /* a document that lets clients register may have no listener here */
        several |= c->profiles[c->listeners[i].dialect].allow_registration;
    return several && c->transport == KR_TRANSPORT_HTTP;
}

static void advise(struct kr_config *c)
{
    char where[96];

    for (size_t i = 0; c->auth.api_key && i < c->listener_count; i++)
        if (!c->listeners[i].is_loopback && strlen(c->auth.api_key) < GOOD_KEY) {
            kr_config_note(
                c, "%s: the key is short for an address that others can reach; `openssl rand -hex 32` makes one",
                kr_config_origin(c, "api-key", where, sizeof where));
            break;
        }
    for (size_t i = 0; !c->auth_on && i < c->listener_count; i++)
        if (!c->listeners[i].is_loopback) {
            kr_config_note(c, "every client that reaches %s:%u can run code: no key is asked for (%s)",
                           c->listeners[i].address, c->listeners[i].port,
                           kr_config_origin(c, "allow-anonymous", where, sizeof where));
            break;
        }
}

/* --debug is a log level as well, unless one is given. */
static int follow_debug(struct kr_config *c, struct kr_err *err)
{
    const struct kr_config_row *row = kr_config_row("log-level");

    if (!c->api.debug || kr_config_given(c, "log-level"))
        return 0;
    return kr_config_set(c, row, "debug", kr_config_origin_of(c, kr_config_row("debug")), err);
}

int kr_config_finish(struct kr_config *c, char *const *environment, struct kr_err *err)
{
    int r = follow_debug(c, err);

    if (r >= 0)
        r = fill_all(c, err);
    if (r >= 0)
        r = fill_data(c, environment, err);
    if (r >= 0)
        r = read_key(c, err);
    if (r >= 0)
        r = kr_config_read_policy_file(c, err);
    if (r >= 0)
        r = make_profiles(c, err);
    if (r >= 0)
        r = fit_network(c, err);
    if (r >= 0)
        r = take_credentials(c, err);
    c->auth_on = c->auth.api_key || c->require_auth;
    if (r >= 0)
        r = make_listeners(c, err);
    if (r >= 0)
        r = kr_config_fit_policies(c, err);
    if (r >= 0)
        r = read_preloads(c, err);
    c->box.user_groups = has_users(c);
    if (r >= 0)
        advise(c);
    return r;
}
