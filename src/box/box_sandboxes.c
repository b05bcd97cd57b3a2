/* Sandboxes: what lasts of a user's work. Rows in the store, folders on the shelf, settings as JSON.
 *
 * Called by the voices. Invariants: settings in the store have passed kr_sandbox_settings_apply(); a limit is never
 * past the server's ceiling, whatever an older setting says; a folder is made before a caller gets its sandbox. */
#include "box_internal.h"
#include "fd.h"
#include "json.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- settings ---- */

static struct kr_setting_server server_of(const struct kr_box *b, const struct kr_caller *who)
{
    struct kr_setting_server server = {.config = &b->config, .profile = kr_box_profile(b, who)};

    for (size_t i = 0; i < kr_engine_zygote_count(b->engine); i++)
        server.preloads |= 1u << kr_engine_zygote(b->engine, i).preload;
    return server;
}

static int check_settings(const struct kr_box *b, const struct kr_caller *who, const json_t *settings,
                          struct kr_err *err)
{
    struct kr_setting_server server = server_of(b, who);
    struct kr_sandbox s = {0};
    int r = kr_sandbox_settings_apply(&server, settings, &s, err);

    return r < 0 ? r : kr_box_secrets_check(b, who->user, settings, err);
}

void kr_box_sandbox_defaults(const struct kr_box *b, const struct kr_caller *who, struct kr_sandbox *ret)
{
    struct kr_setting_server server = server_of(b, who);
    struct kr_err ignored;

    (void)kr_sandbox_settings_apply(&server, NULL, ret, &ignored); /* the server's own are within its bounds */
}

/* Settings that have become wrong (a ceiling lowered, a data set gone) must not lock their owner out. */
static int read_settings(const struct kr_box *b, const struct kr_caller *who, struct kr_sandbox *s, struct kr_err *err)
{
    struct kr_setting_server server = server_of(b, who);
    json_error_t where;
    struct kr_err ignored;

    server.highest = &b->ceilings;
    s->settings = json_loadb(s->row.settings, s->row.settings_len, JSON_REJECT_DUPLICATES, &where);
    if (!s->settings)
        return kr_err_set(err, KR_ERR_INTERNAL, 0, "settings of sandbox %s cannot be read", s->row.id);
    if (kr_sandbox_settings_apply(&server, s->settings, s, &ignored) < 0) {
        kr_log(KR_LOG_WARN, "settings of a sandbox are out of bounds, using the server's", "sandbox=%s why=\"%s\"",
               s->row.id, ignored.msg);
        kr_box_sandbox_defaults(b, who, s);
        kr_sandbox_settings_keep_policy(&server, s->settings, s); /* the server's may be wider than the sandbox's */
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

/* 0; 1: it is being made, and sessions wait for it; or -errno. */
static int make_folder(struct kr_box *b, const char *folder, struct kr_err *err)
{
    char path[KR_STORE_ID_ROOM + 8];

    snprintf(path, sizeof path, "%s/files", folder);
    if (kr_shelf_place(b, folder) == 1)
        return 1;
    if (mkdirat(b->shelf, folder, 0700) < 0 && errno != EEXIST)
        return kr_err_set_disk(err, errno, "make the folder of a sandbox");
    if (mkdirat(b->shelf, path, 0755) < 0 && errno != EEXIST)
        return kr_err_set_disk(err, errno, "make the folder of a sandbox");
    return 0;
}

bool kr_box_is_host(const struct kr_box *b, const struct kr_sandbox *s)
{
    return b->host >= 0 && strcmp(s->row.name, b->config.profiles[b->config.dialect].sandbox) == 0;
}

int kr_box_sandbox_folder(struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err)
{
    char path[KR_STORE_ID_ROOM + 8];
    int r = make_folder(b, s->row.folder, err), fd;

    if (r < 0)
        return r;
    if (r == 1)
        return kr_err_set(err, KR_ERR_BUSY, 0, "the folder of the sandbox is being made: try again in a moment");
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
    if (strcmp(session->sandbox, s->row.id) == 0 && !session->current)
        kr_changes_forget(session);
}

/* ---- rows ---- */

int kr_box_sandbox_find(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_sandbox *ret,
                        struct kr_err *err)
{
    const char *own = kr_box_profile(b, who)->sandbox;
    struct kr_sandbox s = {0};
    int r;

    if (!id_or_name || !*id_or_name || strcmp(id_or_name, KR_STORE_DEFAULT) == 0 || strcmp(id_or_name, own) == 0) {
        struct kr_store_sandbox_new made = {.owner = who->user, .name = own, .now = kr_store_now()};

        r = kr_store_sandbox_ensure(b->config.store, &made, &s.row, err);
    } else {
        r = kr_store_sandbox_get(b->config.store, who->user, id_or_name, &s.row, err);
        if (r == -ENOENT)
            r = kr_store_sandbox_find(b->config.store, who->user, id_or_name, &s.row, err);
    }
    if (r >= 0 && (r = make_folder(b, s.row.folder, err)) >= 0)
        r = read_settings(b, who, &s, err);
    if (r >= 0)
        kr_shelf_limit(b, who->user, s.row.folder, &s.limits);
    if (r < 0) {
        kr_sandbox_done(&s);
        return r == -ENOENT ? kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no sandbox of that id or name"),
               -ENOENT      : r;
    }
    *ret = s;
    return 0;
}

int kr_box_sandbox_check(const struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                         struct kr_limits *ret_limits, struct kr_err *err)
{
    struct kr_setting_server server = server_of(b, who);
    struct kr_sandbox s = {0};
    int r = kr_sandbox_settings_apply(&server, settings, &s, err);

    if (r < 0 || (r = kr_box_secrets_check(b, who->user, settings, err)) < 0)
        return r;
    if (name && strcmp(name, KR_STORE_DEFAULT) != 0 && kr_store_is_default(name))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL,
                          "name: %.64s: names that begin with " KR_STORE_DEFAULT_OF " are krait's own", name);
    *ret_limits = s.limits;
    return 0;
}

int kr_box_sandbox_make(struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                        const char *folder, struct kr_sandbox *ret, struct kr_err *err)
{
    char made_up[KR_STORE_ID_ROOM], *text = NULL;
    struct kr_store_sandbox_new row = {.owner = who->user,
                                       .name = name,
                                       .folder = folder,
                                       .max = (unsigned)kr_box_profile(b, who)->max_sandboxes_per_user,
                                       .now = kr_store_now()};
    struct kr_sandbox s = {0};
    struct kr_limits limits;
    int r = kr_box_sandbox_check(b, who, name, settings, &limits, err);

    if (r < 0)
        return r;
    if (!name || !*name) {
        kr_store_new_id(made_up);
        row.name = made_up;
    } else if (strcmp(name, KR_STORE_DEFAULT) == 0) {
        row.name = kr_box_profile(b, who)->sandbox;
    }
    if (settings)
        row.settings = text = json_dumps(settings, JSON_COMPACT);
    r = settings && !text ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings")
                          : kr_store_sandbox_add(b->config.store, &row, &s.row, err);
    free(text);
    if (r >= 0 && (r = make_folder(b, s.row.folder, err)) >= 0)
        r = read_settings(b, who, &s, err);
    if (r < 0) {
        kr_sandbox_done(&s);
        return r;
    }
    kr_shelf_limit(b, who->user, s.row.folder, &s.limits);
    kr_box_audit(b, who, "sandbox.create", s.row.id, "ok", NULL);
    *ret = s;
    return 0;
}

int kr_box_sandbox_create(struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                          struct kr_sandbox *ret, struct kr_err *err)
{
    return kr_box_sandbox_make(b, who, name, settings, NULL, ret, err);
}

int kr_box_sandbox_rename(struct kr_box *b, const struct kr_caller *who, const char *id, const char *name,
                          struct kr_err *err)
{
    int r = kr_store_sandbox_rename(b->config.store, who->user, id, name, err);
    struct kr_box_session *session;

    if (r < 0)
        return r;
    TAILQ_FOREACH(session, &b->sessions, link)
    if (strcmp(session->sandbox, id) == 0)
        snprintf(session->sandbox_name, sizeof session->sandbox_name, "%s", name);
    kr_box_audit(b, who, "sandbox.rename", id, "ok", NULL);
    return 0;
}

/* A changed limit of the disk holds from now on, also for sessions that run: looking for the sandbox sets it. */
static int limit_at_once(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};

    return kr_shelf_enforces(b) ? kr_box_sandbox_find(b, who, id, &s, err) : 0;
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
    if (!settings || kr_sandbox_settings_change(settings, changes) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings");
    if (r >= 0)
        r = check_settings(b, who, settings, err);
    if (r >= 0)
        text = json_dumps(settings, JSON_COMPACT);
    json_decref(settings);
    if (r >= 0)
        r = text ? kr_store_sandbox_configure(b->config.store, who->user, s.row.id, text, err) : -ENOMEM;
    free(text);
    if (r < 0)
        return r;
    kr_box_audit(b, who, "sandbox.configure", s.row.id, "ok", NULL);
    return limit_at_once(b, who, s.row.id, err);
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
    if (r >= 0)
        r = make_folder(b, folder, err);
    if (r >= 0)
        kr_box_audit(b, who, "sandbox.reset", s.row.id, "ok", NULL);
    return r < 0 ? r : 0;
}

int kr_box_sandbox_delete(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    int r = kr_box_sandbox_find(b, who, id, &s, err);

    if (r < 0 || (r = refuse_host(b, &s, err)) < 0)
        return r;
    if (kr_store_is_default(s.row.name))
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "the sandbox called %s stays: a reset empties it", s.row.name);
    kr_box_sessions_end_sandbox(b, s.row.id);
    r = kr_store_sandbox_delete(b->config.store, who->user, s.row.id, kr_store_now(), err);
    if (r >= 0)
        kr_box_audit(b, who, "sandbox.delete", s.row.id, "ok", NULL);
    return r;
}

void kr_box_sandbox_json(const struct kr_box *b, struct kr_json *j, const struct kr_sandbox *s)
{
    const struct kr_box_session *session;
    unsigned sessions = 0;

    TAILQ_FOREACH(session, &b->sessions, link)
    sessions += strcmp(session->sandbox, s->row.id) == 0 && session->state == KR_BOX_SESSION_LIVE;
    kr_json_object(j);
    kr_json_key_str(j, "id", s->row.id);
    kr_json_key_str(j, "sandbox_id", s->row.id);
    kr_json_key_str(j, "name", s->row.name);
    kr_json_key_str(j, "state", KR_STORE_SANDBOX_STATE);
    kr_json_key_double(j, "created_at", (double)s->row.created / 1e6);
    kr_json_key_double(j, "last_used_at", (double)s->row.used / 1e6);
    kr_sandbox_settings_tell(j, s);
    kr_json_key(j, "settings");
    kr_sandbox_settings_json(j, s->settings);
    kr_json_key_uint(j, "sessions", sessions);
    kr_json_object_end(j);
}
