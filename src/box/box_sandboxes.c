/* Sandboxes: what lasts of a user's work. Rows in the store, folders on the shelf, settings as JSON.
 *
 * Called by the voices. Invariants: settings in the store have passed kr_box_settings_check(); a limit is never past the
 * server's ceiling, whatever an older setting says; a folder is made before anybody is told its sandbox. */
#include "box_internal.h"
#include "fd.h"
#include "json.h"
#include "log.h"
#include "report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- settings ---- */

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

static int apply_limits(const struct kr_box *b, const json_t *limits, struct kr_limits *l, struct kr_err *err)
{
    struct kr_limits ceilings = b->config.ceilings;
    const char *key;
    json_t *value;

    if (limits && !json_is_object(limits))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "limits: an object");
    json_object_foreach((json_t *)limits, key, value)
    {
        const struct kr_limit_row *row = kr_limit_find(key);
        uint64_t ceiling, *at;
        char text[64];
        int r;

        if (!row)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "limits.%.40s: there is no such limit", key);
        at = kr_limit_at(l, row);
        r = read_limit(row, value, at, err);
        if (r < 0)
            return name_limit(err, row, r);
        ceiling = *kr_limit_at(&ceilings, row);
        if (ceiling > 0 && (*at > ceiling || *at == 0))
            return kr_err_set(err, KR_ERR_INVALID, 0, "limits.%s: this server allows %s at most", key,
                              kr_limit_show(row, ceiling, text, sizeof text)),
                   -ERANGE;
    }
    return 0;
}

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
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "env: %.40s is no name for a variable", key);
        if (!json_is_string(value))
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "env.%.40s: a text", key);
        bytes += strlen(key) + json_string_length(value);
    }
    return bytes <= KR_BOX_ENV_BYTES
               ? 0
               : kr_err_set(err, KR_ERR_INVALID, E2BIG, "env: more than %u bytes", KR_BOX_ENV_BYTES);
}

static int read_mounts(const struct kr_box *b, const json_t *mounts, uint32_t *ret, struct kr_err *err)
{
    size_t i, k;
    json_t *item;

    *ret = 0;
    if (mounts && !json_is_array(mounts))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "mounts: a list of names");
    json_array_foreach((json_t *)mounts, i, item)
    {
        const char *name = json_string_value(item);

        for (k = 0; name && k < b->config.mount_count && strcmp(b->config.mounts[k], name) != 0; k++)
            ;
        if (!name || k == b->config.mount_count)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "mounts: this server has no data set %.40s",
                              name ? name : "of that kind");
        *ret |= 1u << k;
    }
    return 0;
}

static int read_word(const json_t *value, const char *member, const char *const *names, int count, int *ret,
                     struct kr_err *err)
{
    const char *word = json_string_value(value);

    for (int i = 0; word && i < count; i++)
        if (strcmp(names[i], word) == 0) {
            *ret = i;
            return 0;
        }
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%s: %s", member, word ? "there is no such one" : "a text");
}

static int read_network(const json_t *value, struct kr_net_rule *ret, struct kr_err *err)
{
    const char *text = json_string_value(value);
    int r;

    if (!text)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "network: a text");
    r = kr_net_rule_parse(text, ret, err);
    if (r >= 0)
        r = kr_net_rule_check(ret, err);
    return r < 0 ? kr_err_wrap(err, r, "network") : 0;
}

static bool has_preload(const struct kr_box *b, enum kr_preload preload)
{
    for (size_t i = 0; i < kr_engine_zygote_count(b->engine); i++)
        if (kr_engine_zygote(b->engine, i).preload == preload)
            return true;
    return false;
}

/* Fills what the settings say; what they leave out is the server's. */
static int apply_settings(const struct kr_box *b, const json_t *settings, struct kr_sandbox *s, struct kr_err *err)
{
    static const char *const known[] = {"limits", "env", "mounts", "network", "preload"};
    int preload = (int)b->config.preload, r;
    const char *key;
    json_t *value;

    s->limits = b->config.limits;
    if (!json_is_object(settings))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "settings: an object");
    json_object_foreach((json_t *)settings, key, value)
    {
        size_t i = 0;

        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%.40s: there is no such setting of a sandbox", key);
    }
    value = json_object_get(settings, "network");
    s->network = b->config.network;
    r = value ? read_network(value, &s->network, err) : 0;
    value = json_object_get(settings, "preload");
    if (r >= 0 && value)
        r = read_word(value, "preload", kr_preload_names, KR_PRELOAD_MAX_, &preload, err);
    if (r >= 0 && !has_preload(b, (enum kr_preload)preload))
        r = kr_err_set(err, KR_ERR_INVALID, EINVAL, "preload: this server does not have %s", kr_preload_names[preload]);
    s->preload = (enum kr_preload)preload;
    if (r >= 0)
        r = apply_limits(b, json_object_get(settings, "limits"), &s->limits, err);
    if (r >= 0)
        r = kr_box_env_check(json_object_get(settings, "env"), err);
    return r < 0 ? r : read_mounts(b, json_object_get(settings, "mounts"), &s->mounts, err);
}

int kr_box_settings_check(const struct kr_box *b, const json_t *settings, struct kr_err *err)
{
    struct kr_sandbox s = {0};

    return apply_settings(b, settings, &s, err);
}

/* Settings that have become wrong (a ceiling lowered, a data set gone) must not lock their owner out. */
static int fill(const struct kr_box *b, struct kr_sandbox *s, struct kr_err *err)
{
    json_error_t where;
    struct kr_err ignored;

    s->settings = json_loadb(s->row.settings, s->row.settings_len, JSON_REJECT_DUPLICATES, &where);
    if (!s->settings)
        return kr_err_set(err, KR_ERR_INTERNAL, 0, "settings of sandbox %s cannot be read", s->row.id);
    if (apply_settings(b, s->settings, s, &ignored) < 0) {
        kr_log(KR_LOG_WARN, "settings of a sandbox are out of bounds, using the server's", "sandbox=%s why=\"%s\"",
               s->row.id, ignored.msg);
        s->limits = b->config.limits;
        s->network = b->config.network;
        s->preload = b->config.preload;
        s->mounts = 0;
    }
    return 0;
}

void kr_sandbox_done(struct kr_sandbox *s)
{
    kr_store_sandbox_done(&s->row);
    json_decref(s->settings);
    s->settings = NULL;
}

/* ---- folders ---- */

static int make_folder(struct kr_box *b, const char *folder, struct kr_err *err)
{
    char path[KR_STORE_ID_ROOM + 8];

    snprintf(path, sizeof path, "%s/files", folder);
    if (mkdirat(b->shelf, folder, 0700) < 0 && errno != EEXIST)
        return kr_err_set_disk(err, errno, "make the folder of a sandbox");
    if (mkdirat(b->shelf, path, 0755) < 0 && errno != EEXIST)
        return kr_err_set_disk(err, errno, "make the folder of a sandbox");
    return 0;
}

bool kr_box_is_host(const struct kr_box *b, const struct kr_sandbox *s)
{
    return b->host >= 0 && strcmp(s->row.name, KR_STORE_DEFAULT) == 0;
}

int kr_box_sandbox_folder(struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err)
{
    char path[KR_STORE_ID_ROOM + 8];
    int r = make_folder(b, s->row.folder, err), fd;

    if (r < 0)
        return r;
    if (kr_box_is_host(b, s)) {
        fd = fcntl(b->host, F_DUPFD_CLOEXEC, 3);
        return fd < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "open the workspace") : fd;
    }
    snprintf(path, sizeof path, "%s/files", s->row.folder);
    fd = openat(b->shelf, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder of a sandbox") : fd;
}

void kr_box_sandbox_touched(struct kr_box *b, const struct kr_sandbox *s)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (strcmp(session->sandbox, s->row.id) == 0 && !session->current) {
        kr_snapshot_free(session->before);
        session->before = NULL;
        session->looked = false;
    }
}

/* ---- rows ---- */

int kr_box_sandbox_find(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_sandbox *ret,
                        struct kr_err *err)
{
    struct kr_sandbox s = {0};
    int r;

    if (!id_or_name || !*id_or_name || strcmp(id_or_name, KR_STORE_DEFAULT) == 0) {
        struct kr_store_sandbox_new made = {.owner = who->user, .name = KR_STORE_DEFAULT, .now = kr_store_now()};

        r = kr_store_sandbox_ensure(b->config.store, &made, &s.row, err);
    } else {
        r = kr_store_sandbox_get(b->config.store, who->user, id_or_name, &s.row, err);
        if (r == -ENOENT)
            r = kr_store_sandbox_find(b->config.store, who->user, id_or_name, &s.row, err);
    }
    if (r >= 0 && (r = make_folder(b, s.row.folder, err)) >= 0)
        r = fill(b, &s, err);
    if (r < 0) {
        kr_sandbox_done(&s);
        return r == -ENOENT ? kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no sandbox of that id or name"),
               -ENOENT      : r;
    }
    *ret = s;
    return 0;
}

int kr_box_sandbox_create(struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                          struct kr_sandbox *ret, struct kr_err *err)
{
    char made_up[KR_STORE_ID_ROOM], *text = NULL;
    struct kr_store_sandbox_new row = {
        .owner = who->user, .name = name, .max = b->config.max_sandboxes_per_user, .now = kr_store_now()};
    struct kr_sandbox s = {0};
    int r = settings ? kr_box_settings_check(b, settings, err) : 0;

    if (r < 0)
        return r;
    if (!name || !*name) {
        kr_store_new_id(made_up);
        row.name = made_up;
    }
    if (settings)
        row.settings = text = json_dumps(settings, JSON_COMPACT);
    r = settings && !text ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings")
                          : kr_store_sandbox_add(b->config.store, &row, &s.row, err);
    free(text);
    if (r >= 0 && (r = make_folder(b, s.row.folder, err)) >= 0 && (r = fill(b, &s, err)) >= 0)
        r = kr_box_commit(b, err);
    if (r < 0) {
        kr_sandbox_done(&s);
        return r;
    }
    kr_box_audit(b, who, "sandbox.create", s.row.id, "ok", NULL);
    *ret = s;
    return 0;
}

int kr_box_sandbox_rename(struct kr_box *b, const struct kr_caller *who, const char *id, const char *name,
                          struct kr_err *err)
{
    int r = kr_store_sandbox_rename(b->config.store, who->user, id, name, err);
    struct kr_box_session *session;

    if (r >= 0)
        r = kr_box_commit(b, err);
    if (r < 0)
        return r;
    TAILQ_FOREACH(session, &b->sessions, link)
    if (strcmp(session->sandbox, id) == 0)
        snprintf(session->sandbox_name, sizeof session->sandbox_name, "%s", name);
    kr_box_audit(b, who, "sandbox.rename", id, "ok", NULL);
    return 0;
}

static int merge(json_t *into, const json_t *changes)
{
    const char *key;
    json_t *value;
    int r = 0;

    json_object_foreach((json_t *)changes, key, value)
    {
        json_t *old = json_object_get(into, key);

        if (json_is_null(value)) {
            json_object_del(into, key);
        } else if (json_is_object(value)) { /* also into nothing: what is null in it is not to be kept */
            if (!json_is_object(old) && json_object_set_new(into, key, old = json_object()) < 0)
                return -1;
            r |= merge(old, value);
        } else {
            r |= json_object_set(into, key, value);
        }
    }
    return r;
}

int kr_box_sandbox_configure(struct kr_box *b, const struct kr_caller *who, const char *id, const json_t *changes,
                             struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    json_t *settings;
    char *text = NULL;
    int r = kr_box_sandbox_find(b, who, id, &s, err);

    if (r < 0)
        return r;
    settings = json_deep_copy(s.settings);
    if (!settings || merge(settings, changes) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings");
    if (r >= 0)
        r = kr_box_settings_check(b, settings, err);
    if (r >= 0)
        text = json_dumps(settings, JSON_COMPACT);
    json_decref(settings);
    if (r >= 0)
        r = text ? kr_store_sandbox_configure(b->config.store, who->user, s.row.id, text, err) : -ENOMEM;
    free(text);
    if (r >= 0)
        r = kr_box_commit(b, err);
    if (r >= 0)
        kr_box_audit(b, who, "sandbox.configure", s.row.id, "ok", NULL);
    return r;
}

static int refuse_host(const struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err)
{
    if (!kr_box_is_host(b, s))
        return 0;
    return kr_err_set(err, KR_ERR_CONFLICT, 0,
                      "its files are the folder %.150s of this machine, which krait does not delete: end its sessions "
                      "instead, or delete files one by one",
                      b->config.workspace);
}

int kr_box_sandbox_reset(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    char folder[KR_STORE_ID_ROOM];
    int r = kr_box_sandbox_find(b, who, id, &s, err);

    if (r < 0 || (r = refuse_host(b, &s, err)) < 0)
        return r;
    kr_box_sessions_end_sandbox(b, s.row.id);
    r = kr_store_sandbox_reset(b->config.store, who->user, s.row.id, folder, kr_store_now(), err);
    if (r >= 0 && (r = make_folder(b, folder, err)) >= 0)
        r = kr_box_commit(b, err);
    if (r >= 0)
        kr_box_audit(b, who, "sandbox.reset", s.row.id, "ok", NULL);
    return r;
}

int kr_box_sandbox_delete(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    int r = kr_box_sandbox_find(b, who, id, &s, err);

    if (r < 0 || (r = refuse_host(b, &s, err)) < 0)
        return r;
    kr_box_sessions_end_sandbox(b, s.row.id);
    r = kr_store_sandbox_delete(b->config.store, who->user, s.row.id, kr_store_now(), err);
    if (r >= 0)
        r = kr_box_commit(b, err);
    if (r >= 0)
        kr_box_audit(b, who, "sandbox.delete", s.row.id, "ok", NULL);
    return r;
}

/* As they were set; of the environment only the names. */
static void write_settings(struct kr_json *j, const json_t *settings)
{
    const char *key, *name;
    json_t *value, *secret;

    kr_json_object(j);
    json_object_foreach((json_t *)settings, key, value)
    {
        kr_json_key(j, key);
        if (strcmp(key, "env") != 0) {
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

void kr_box_sandbox_json(const struct kr_box *b, struct kr_json *j, const struct kr_sandbox *s)
{
    const struct kr_box_session *session;
    char network[KR_NET_RULE_ROOM];
    unsigned sessions = 0;

    TAILQ_FOREACH(session, &b->sessions, link)
    sessions += strcmp(session->sandbox, s->row.id) == 0 && session->state == KR_BOX_SESSION_LIVE;
    kr_json_object(j);
    kr_json_key_str(j, "id", s->row.id);
    kr_json_key_str(j, "name", s->row.name);
    kr_json_key_str(j, "state", kr_store_sandbox_state_names[s->row.state]);
    kr_json_key_double(j, "created_at", (double)s->row.created / 1e6);
    kr_json_key_double(j, "last_used_at", (double)s->row.used / 1e6);
    kr_json_key_str(j, "network", kr_net_rule_text(&s->network, network, sizeof network));
    kr_json_key_str(j, "preload", kr_preload_names[s->preload]);
    kr_json_key(j, "settings");
    write_settings(j, s->settings);
    kr_json_key(j, "limits");
    kr_report_limits(j, &s->limits);
    kr_json_key_uint(j, "sessions", sessions);
    kr_json_object_end(j);
}
