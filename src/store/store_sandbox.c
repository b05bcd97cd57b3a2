/* Sandboxes and the folders they leave behind.
 *
 * Called by the domain. Invariants: no statement finds a sandbox without its owner; a folder is at every moment that
 * of one sandbox, or doomed, or removed. */
#include "store_sandbox.h"
#include "store_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TOUCH_US (INT64_C(10) * 1000000)

#define SETTLED "default_sandboxes" /* key of the setting that says so */

bool kr_store_is_default(const char *name)
{
    return strcmp(name, KR_STORE_DEFAULT) == 0 || strncmp(name, KR_STORE_DEFAULT_OF, strlen(KR_STORE_DEFAULT_OF)) == 0;
}

static int no_such_sandbox(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such sandbox");
}

void kr_store_sandbox_done(struct kr_store_sandbox *sandbox)
{
    free((char *)sandbox->settings);
    sandbox->settings = NULL;
}

/* By SQLite's own parser, but not as a CHECK of the schema: 3.40 does not count json_valid() as safe there. */
int kr_store_settings_check(struct kr_store *s, const char *settings, struct kr_err *err)
{
    int64_t object;

    if (strnlen(settings, KR_STORE_SETTINGS_MAX + 1) > KR_STORE_SETTINGS_MAX)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "settings: at most %u bytes", KR_STORE_SETTINGS_MAX);
    object = kr_st_int(s, KR_ST_JSON_OBJECT, err, "t", settings);
    if (object < 0)
        return (int)object;
    return object ? 0 : kr_store_err(err, KR_ERR_INVALID, EINVAL, "settings: not a JSON object");
}

/* What the schema refused, in words. */
static int explain(int r, const char *name, struct kr_err *err)
{
    if (r == -EEXIST)
        return kr_store_err(err, KR_ERR_INVALID, EEXIST, "name: there is a sandbox called %s", name);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
    return r;
}

static void fill(sqlite3_stmt *st, struct kr_store_sandbox *sandbox)
{
    kr_st_text(st, 0, sandbox->id, sizeof sandbox->id);
    kr_st_text(st, 1, sandbox->owner, sizeof sandbox->owner);
    kr_st_text(st, 2, sandbox->name, sizeof sandbox->name);
    kr_st_text(st, 3, sandbox->folder, sizeof sandbox->folder);
    sandbox->created = sqlite3_column_int64(st, 4);
    sandbox->used = sqlite3_column_int64(st, 5);
    sandbox->settings = (const char *)sqlite3_column_text(st, 6);
    sandbox->settings_len = (size_t)sqlite3_column_bytes(st, 6);
}

static int get(struct kr_store *s, enum kr_st which, const char *owner, const char *by,
               struct kr_store_sandbox *ret_sandbox, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_sandbox sandbox;
    int r = kr_st_open(s, which, &st, err, "tt", by, owner);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_sandbox(err);
    fill(st, &sandbox);
    sandbox.settings = sandbox.settings ? strdup(sandbox.settings) : NULL;
    if (!sandbox.settings)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a sandbox");
    *ret_sandbox = sandbox;
    return 0;
}

static int count_rows(struct kr_store *s, enum kr_st which, uint64_t *ret_count, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, which, &st, err, "");

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    *ret_count = r > 0 ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
    return 0;
}

int kr_store_sandbox_count(struct kr_store *s, uint64_t *ret_count, struct kr_err *err)
{
    return count_rows(s, KR_ST_SANDBOX_COUNT_ALL, ret_count, err);
}

int kr_store_sandbox_count_used(struct kr_store *s, uint64_t *ret_count, struct kr_err *err)
{
    return count_rows(s, KR_ST_SANDBOX_USED, ret_count, err);
}

uint64_t kr_store_sandboxes_version(const struct kr_store *s)
{
    return s->sandboxes_version;
}

int kr_store_sandbox_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_sandbox *ret_sandbox,
                         struct kr_err *err)
{
    return get(s, KR_ST_SANDBOX_GET, owner, id, ret_sandbox, err);
}

int kr_store_sandbox_find(struct kr_store *s, const char *owner, const char *name, struct kr_store_sandbox *ret_sandbox,
                          struct kr_err *err)
{
    return get(s, KR_ST_SANDBOX_FIND, owner, name, ret_sandbox, err);
}

static int insert(struct kr_store *s, const struct kr_store_sandbox_new *sandbox, const char *id, struct kr_err *err)
{
    char folder[KR_STORE_ID_ROOM];

    kr_store_new_id(folder);
    return kr_st_exec(s, KR_ST_SANDBOX_ADD, err, "ttttit", id, sandbox->owner, sandbox->name,
                      sandbox->folder ? sandbox->folder : folder, sandbox->now,
                      sandbox->settings ? sandbox->settings : "{}");
}

int kr_store_sandbox_add(struct kr_store *s, const struct kr_store_sandbox_new *sandbox,
                         struct kr_store_sandbox *ret_sandbox, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char id[KR_STORE_ID_ROOM];
    int r;

    if ((r = kr_store_text_check("name", sandbox->name, KR_STORE_NAME_MAX, err)) < 0 ||
        (r = kr_store_settings_check(s, sandbox->settings ? sandbox->settings : "{}", err)) < 0 ||
        (r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    if (sandbox->max && !kr_store_is_default(sandbox->name)) {
        r = kr_store_sandboxes_count(s, sandbox->owner, err);
        if (r < 0)
            return r;
        if ((unsigned)r >= sandbox->max)
            return kr_store_err(err, KR_ERR_LIMIT, EDQUOT, "at most %u sandboxes a user: delete one first",
                                sandbox->max);
    }
    kr_store_new_id(id);
    if ((r = insert(s, sandbox, id, err)) < 0)
        return explain(r, sandbox->name, err);
    if (sandbox->folder && (r = kr_store_doomed_done(s, sandbox->folder, err)) < 0)
        return r;
    if ((r = kr_txn_commit(&t, true, err)) < 0)
        return r;
    return ret_sandbox ? kr_store_sandbox_get(s, sandbox->owner, id, ret_sandbox, err) : 0;
}

int kr_store_sandbox_ensure(struct kr_store *s, const struct kr_store_sandbox_new *sandbox,
                            struct kr_store_sandbox *ret_sandbox, struct kr_err *err)
{
    int r = kr_store_sandbox_find(s, sandbox->owner, sandbox->name, ret_sandbox, err);

    if (r != -ENOENT)
        return r;
    r = kr_store_sandbox_add(s, sandbox, ret_sandbox, err);
    if (r == 0)
        return 1;
    if (r != -EEXIST)
        return r;
    return kr_store_sandbox_find(s, sandbox->owner, sandbox->name, ret_sandbox, err); /* another process was first */
}

int kr_store_sandbox_rename(struct kr_store *s, const char *owner, const char *id, const char *name, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    cleanup_sandbox struct kr_store_sandbox old = {0};
    int r;

    if ((r = kr_store_text_check("name", name, KR_STORE_NAME_MAX, err)) < 0 || (r = kr_txn_begin(&t, s, err)) < 0 ||
        (r = kr_store_sandbox_get(s, owner, id, &old, err)) < 0)
        return r;
    if (!strcmp(old.name, name))
        return 0;
    if (kr_store_is_default(old.name) || kr_store_is_default(name))
        return kr_store_err(err, KR_ERR_DENIED, EPERM, "the sandbox called %s keeps its name",
                            kr_store_is_default(name) ? name : old.name);
    if ((r = kr_st_exec(s, KR_ST_SANDBOX_RENAME, err, "ttt", id, owner, name)) < 0)
        return explain(r, name, err);
    return kr_txn_commit(&t, false, err);
}

int kr_store_defaults_settle(struct kr_store *s, const char *name, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char dialect[KR_STORE_NAME_ROOM];
    int r = kr_store_setting_get(s, SETTLED, dialect, sizeof dialect, err), renamed = 0, cleared = 0;

    if (r != -ENOENT)
        return r < 0 ? r : 0;
    if ((r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    r = kr_st_exec(s, KR_ST_SETTING_MAKE, err, "tb", SETTLED, name, strlen(name));
    if (r <= 0)
        return r; /* 0: another process was first */
    /* Until now a user could give such a name to a sandbox, which would be taken for a default. */
    r = cleared = kr_st_exec(s, KR_ST_SANDBOX_CLEAR, err, "");
    if (r >= 0 && strcmp(name, KR_STORE_DEFAULT) != 0)
        r = renamed = kr_st_exec(s, KR_ST_SANDBOX_SETTLE, err, "t", name);
    if (r >= 0)
        r = kr_txn_commit(&t, true, err);
    return r < 0 ? r : cleared + renamed;
}

int kr_store_sandbox_configure(struct kr_store *s, const char *owner, const char *id, const char *settings,
                               struct kr_err *err)
{
    int r = kr_store_settings_check(s, settings, err);

    if (r < 0)
        return r;
    r = kr_st_exec(s, KR_ST_SANDBOX_CONFIGURE, err, "ttt", id, owner, settings);
    return r < 0 ? r : r == 0 ? no_such_sandbox(err) : 0;
}

int kr_store_sandbox_touch(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int64_t used;
    int r = kr_st_open(s, KR_ST_SANDBOX_GET, &st, err, "tt", id, owner);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_sandbox(err);
    used = sqlite3_column_int64(st, 5);
    if (now - used < TOUCH_US)
        return 0;
    sqlite3_reset(st);
    r = kr_st_exec(s, KR_ST_SANDBOX_TOUCH, err, "tti", id, owner, now);
    return r < 0 ? r : 0;
}

int kr_store_sandbox_reset(struct kr_store *s, const char *owner, const char *id, char ret_folder[KR_STORE_ID_ROOM],
                           int64_t now, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char folder[KR_STORE_ID_ROOM];
    int r;

    if ((r = kr_txn_begin(&t, s, err)) < 0 || (r = kr_st_exec(s, KR_ST_SANDBOX_DOOM, err, "tti", id, owner, now)) < 0)
        return r;
    if (r == 0)
        return no_such_sandbox(err);
    kr_store_new_id(folder);
    if ((r = kr_st_exec(s, KR_ST_SANDBOX_FOLDER, err, "ttt", id, owner, folder)) < 0 ||
        (r = kr_txn_commit(&t, true, err)) < 0)
        return r;
    memcpy(ret_folder, folder, sizeof folder);
    return 0;
}

int kr_store_sandbox_delete(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r;

    if ((r = kr_txn_begin(&t, s, err)) < 0 || (r = kr_st_exec(s, KR_ST_SANDBOX_DOOM, err, "tti", id, owner, now)) < 0)
        return r;
    if (r == 0)
        return no_such_sandbox(err);
    if ((r = kr_st_exec(s, KR_ST_SANDBOX_DELETE, err, "tt", id, owner)) < 0)
        return r;
    return kr_txn_commit(&t, true, err);
}

int kr_store_sandboxes_count(struct kr_store *s, const char *owner, struct kr_err *err)
{
    return (int)kr_st_int(s, KR_ST_SANDBOX_COUNT, err, "t", owner);
}

int kr_store_sandboxes_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                            void (*on_sandbox)(void *data, const struct kr_store_sandbox *sandbox), void *data,
                            struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_sandbox sandbox;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_SANDBOX_LIST, &st, err, "tit", owner, w.time, w.id)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0 && kr_walk_more(&w, true)) {
        fill(st, &sandbox);
        kr_walk_at(&w, sandbox.created, sandbox.id);
        on_sandbox(data, &sandbox);
    }
    return r < 0 ? r : (int)w.given;
}

/* ---- folders ---- */

int kr_store_folder_known(struct kr_store *s, const char *folder, struct kr_err *err)
{
    return (int)kr_st_int(s, KR_ST_FOLDER_KNOWN, err, "t", folder);
}

int kr_store_doomed_list(struct kr_store *s, int64_t now, unsigned limit,
                         void (*on_folder)(void *data, const char *folder), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int count = 0, r = kr_st_open(s, KR_ST_DOOMED_LIST, &st, err, "ii", (int64_t)limit, now);

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0) {
        count++;
        on_folder(data, (const char *)sqlite3_column_text(st, 0));
    }
    return r < 0 ? r : count;
}

int kr_store_folder_lease(struct kr_store *s, const char *folder, int64_t until, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_DOOMED_ADD, err, "ti", folder, until);

    return r < 0 ? r : 0;
}

int kr_store_doomed_done(struct kr_store *s, const char *folder, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_DOOMED_DONE, err, "t", folder);

    return r < 0 ? r : 0;
}
