/* Users and rights.
 *
 * Called by the server's accounts and by `krait users`. Invariant: root is always there, enabled, with every right. */
#include "store_user.h"
#include "password.h"
#include "store_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct kr_right_row kr_right_rows[] = {
    {KR_RIGHT_READ, "read", "See one's own sandboxes, sessions, runs and files."},
    {KR_RIGHT_RUN, "run", "Run code, and change sandboxes and files."},
    {KR_RIGHT_ADMIN, "admin", "See and change users, everybody's keys and the audit log."},
};
const size_t kr_right_rows_count = sizeof kr_right_rows / sizeof kr_right_rows[0];

int kr_rights_parse(const char *text, unsigned *ret_rights, struct kr_err *err)
{
    unsigned rights = 0;

    for (const char *p = text + strspn(text, ", "); *p; p += strspn(p, ", ")) {
        size_t len = strcspn(p, ", "), i;

        for (i = 0; i < kr_right_rows_count; i++) {
            if (strlen(kr_right_rows[i].name) == len && !strncmp(kr_right_rows[i].name, p, len))
                break;
        }
        if (i < kr_right_rows_count)
            rights |= kr_right_rows[i].bit;
        else if (len == 3 && !strncmp(p, "all", len))
            rights |= KR_RIGHT_ALL;
        else
            return kr_store_err(err, KR_ERR_INVALID, EINVAL, "rights: %.*s is none of read, run, admin, all",
                                len > 40 ? 40 : (int)len, p);
        p += len;
    }
    if (!rights)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "rights: at least one of read, run, admin");
    *ret_rights = rights;
    return 0;
}

const char *kr_rights_show(unsigned rights, char buf[KR_RIGHTS_ROOM])
{
    size_t used = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < kr_right_rows_count; i++) {
        if (rights & kr_right_rows[i].bit)
            used += (size_t)snprintf(buf + used, KR_RIGHTS_ROOM - used, "%s%s", used ? "," : "", kr_right_rows[i].name);
    }
    return buf;
}

static int no_such_user(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
}

static int not_root(const char *id, struct kr_err *err)
{
    return strcmp(id, KR_STORE_ROOT) ? 0
                                     : kr_store_err(err, KR_ERR_DENIED, EPERM, "the local user root stays as it is");
}

static int check_rights(unsigned rights, struct kr_err *err)
{
    if (rights == 0 || rights & ~(unsigned)KR_RIGHT_ALL)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "rights: at least one of read, run, admin");
    return 0;
}

/* Something, one @, something: what a mail server makes of it is not ours to know. */
static int check_email(const char *email, struct kr_err *err)
{
    const char *at = email ? strchr(email, '@') : NULL;
    int r;

    if (!email)
        return 0;
    if ((r = kr_store_text_check("email", email, KR_STORE_EMAIL_ROOM - 1, err)) < 0)
        return r;
    if (!at || at == email || !at[1] || strchr(at + 1, '@') || strpbrk(email, " ,;<>\"\\"))
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "email: not an address");
    return 0;
}

/* Which of the two unique columns refused is only in SQLite's text: "UNIQUE constraint failed: users.email". */
static int taken(struct kr_store *s, struct kr_err *err)
{
    const char *field = strstr(sqlite3_errmsg(s->db), "users.email") ? "email" : "name";

    return kr_store_err(err, KR_ERR_INVALID, EEXIST, "%s: already registered", field);
}

int kr_store_user_add(struct kr_store *s, const struct kr_store_user_new *user, struct kr_store_user *ret_user,
                      struct kr_err *err)
{
    const char *email = user->email && *user->email ? user->email : NULL;
    char id[KR_STORE_ID_ROOM];
    int r;

    if ((r = kr_store_text_check("name", user->name, KR_STORE_NAME_MAX, err)) < 0 ||
        (r = check_email(email, err)) < 0 || (r = check_rights(user->rights, err)) < 0)
        return r;
    kr_store_new_id(id);
    r = kr_st_exec(s, KR_ST_USER_ADD, err, "ttttii", id, user->name, email, user->password, (int64_t)user->rights,
                   user->now);
    if (r == -EEXIST)
        return taken(s, err);
    if (r < 0 || (r = kr_store_sync(s, err)) < 0)
        return r;
    return ret_user ? kr_store_user_get(s, id, ret_user, err) : 0;
}

static void fill(sqlite3_stmt *st, struct kr_store_user *user)
{
    kr_st_text(st, 0, user->id, sizeof user->id);
    kr_st_text(st, 1, user->name, sizeof user->name);
    kr_st_text(st, 2, user->email, sizeof user->email);
    user->rights = (unsigned)sqlite3_column_int64(st, 3);
    user->has_password = sqlite3_column_int(st, 4);
    user->created = sqlite3_column_int64(st, 5);
    user->disabled = sqlite3_column_int64(st, 6);
}

int kr_store_user_get(struct kr_store *s, const char *id, struct kr_store_user *ret_user, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_USER_GET, &st, err, "t", id);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_user(err);
    fill(st, ret_user);
    return 0;
}

int kr_store_user_find(struct kr_store *s, const char *name, struct kr_store_user *ret_user, char *ret_hash,
                       struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_USER_FIND, &st, err, "t", name);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_user(err);
    fill(st, ret_user);
    if (ret_hash)
        kr_st_text(st, 7, ret_hash, KR_PASSWORD_ROOM);
    return 0;
}

int kr_store_user_set_password(struct kr_store *s, const char *id, const char *hash, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r = kr_txn_begin(&t, s, err);

    if (r < 0 || (r = kr_st_exec(s, KR_ST_USER_PASSWORD, err, "tt", id, hash)) < 0)
        return r;
    if (r == 0)
        return no_such_user(err);
    if ((r = kr_st_exec(s, KR_ST_TOKENS_REVOKE, err, "t", id)) < 0)
        return r;
    return kr_txn_commit(&t, true, err);
}

int kr_store_user_set_email(struct kr_store *s, const char *id, const char *email, struct kr_err *err)
{
    int r;

    email = email && *email ? email : NULL;
    if ((r = check_email(email, err)) < 0)
        return r;
    r = kr_st_exec(s, KR_ST_USER_EMAIL, err, "tt", id, email);
    if (r == -EEXIST)
        return taken(s, err);
    return r < 0 ? r : r == 0 ? no_such_user(err) : 0;
}

int kr_store_user_set_rights(struct kr_store *s, const char *id, unsigned rights, struct kr_err *err)
{
    int r;

    if ((r = not_root(id, err)) < 0 || (r = check_rights(rights, err)) < 0 ||
        (r = kr_st_exec(s, KR_ST_USER_RIGHTS, err, "ti", id, (int64_t)rights)) < 0)
        return r;
    return r == 0 ? no_such_user(err) : kr_store_sync(s, err);
}

int kr_store_user_set_disabled(struct kr_store *s, const char *id, int64_t disabled, struct kr_err *err)
{
    int r;

    if ((r = not_root(id, err)) < 0 || (r = kr_st_exec(s, KR_ST_USER_DISABLED, err, "tn", id, disabled)) < 0)
        return r;
    return r == 0 ? no_such_user(err) : kr_store_sync(s, err);
}

/* Some runs of the user's. How many, or -errno. */
static int find_runs(struct kr_store *s, const char *id, char (*ids)[KR_STORE_ID_ROOM], struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int count = 0, r = kr_st_open(s, KR_ST_USER_RUNS, &st, err, "ti", id, (int64_t)KR_STORE_PRUNE_MAX);

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0)
        kr_st_text(st, 0, ids[count++], KR_STORE_ID_ROOM);
    return r < 0 ? r : count;
}

/* The rest, once no run is left: jobs that have ended; sandboxes, keys and tokens go with their user (ON DELETE
 * CASCADE). */
static int delete_user(struct kr_store *s, const char *id, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_USER_FOLDERS_DOOM, err, "ti", id, kr_store_now());

    if (r < 0 || (r = kr_st_exec(s, KR_ST_JOB_USER_DELETE, err, "t", id)) < 0 ||
        (r = kr_st_exec(s, KR_ST_USER_DELETE, err, "t", id)) < 0)
        return r;
    return r == 0 ? no_such_user(err) : 0;
}

int kr_store_user_delete(struct kr_store *s, const char *id, void (*on_run_gone)(void *data, const char *run),
                         void *data, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char ids[KR_STORE_PRUNE_MAX][KR_STORE_ID_ROOM];
    int count, rows, events, r = not_root(id, err);
    bool last;

    if (r < 0 || (r = kr_store_settle(s, err)) < 0 || (r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    count = find_runs(s, id, ids, err);
    if (count < 0 || (r = kr_store_logs_mark(s, 0, true, err)) < 0 ||
        (r = kr_store_runs_delete(s, ids, count, err)) < 0)
        return count < 0 ? count : r;
    rows = kr_st_exec(s, KR_ST_CONNECTION_USER_DELETE, err, "ti", id, (int64_t)KR_STORE_PRUNE_MAX);
    if (rows < 0)
        return rows;
    events = kr_st_exec(s, KR_ST_EVENT_USER_DELETE, err, "ti", id, (int64_t)KR_STORE_PRUNE_MAX);
    if (events < 0)
        return events;
    last = count < (int)KR_STORE_PRUNE_MAX && rows < (int)KR_STORE_PRUNE_MAX && events < (int)KR_STORE_PRUNE_MAX;
    if ((last && (r = delete_user(s, id, err)) < 0) || (r = kr_txn_commit(&t, last, err)) < 0)
        return r;
    for (int i = 0; i < count && on_run_gone; i++)
        on_run_gone(data, ids[i]);
    return last ? 0 : 1;
}

int kr_store_users_list(struct kr_store *s, struct kr_store_page *page,
                        void (*on_user)(void *data, const struct kr_store_user *user), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_user user;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_USER_LIST, &st, err, "it", w.time, w.id)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0 && kr_walk_more(&w, true)) {
        fill(st, &user);
        kr_walk_at(&w, user.created, user.id);
        on_user(data, &user);
    }
    return r < 0 ? r : (int)w.given;
}
