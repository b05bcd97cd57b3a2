/* A copy of the store, and whether it is sound.
 *
 * Called by `krait backup` and `krait verify`, beside a running server. What is checked and what is not is in
 * docs/design/store.md. Invariant: a copy is the database of one moment. */
#include "buf.h"
#include "fd.h"
#include "notes.h"
#include "store_internal.h"
#include "store_run.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NOTES_FILE_MAX (KR_NOTES_MAX + (64u << 10))

/* One step: the pages of one read transaction, whatever is written meanwhile. The copy stays in WAL mode, so that to
 * open it changes no byte of it. */
int kr_store_copy(struct kr_store *s, const char *path, struct kr_err *err)
{
    sqlite3 *to = NULL;
    sqlite3_backup *b;
    int rc = sqlite3_open_v2(
            path, &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL),
        r = 0;

    if (rc == SQLITE_OK) {
        b = sqlite3_backup_init(to, "main", s->db, "main");
        if (b)
            (void)sqlite3_backup_step(b, -1);
        rc = b ? sqlite3_backup_finish(b) : sqlite3_errcode(to);
    }
    if (rc != SQLITE_OK)
        r = kr_st_fail(to, rc, "be copied", err);
    sqlite3_close(to);
    return r;
}

static int check_query(struct kr_store *s, const char *sql, const char *what, struct kr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, sql, -1, &st, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        r = kr_st_fail(s->db, rc, "be checked", err);
    else if (rc == SQLITE_ROW)
        r = kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN, "%.120s is damaged: %s; restore it from a backup", s->path, what);
    sqlite3_finalize(st);
    return r;
}

int kr_store_verify(struct kr_store *s, struct kr_err *err)
{
    static const struct {
        const char *sql, *what;
    } rows[] = {
        {"PRAGMA foreign_key_check", "a row belongs to a user that is not there"},
        {"SELECT 1 FROM totals WHERE what = 'runs' AND"
         " (count <> (SELECT count(*) FROM runs) OR bytes <> (SELECT ifnull(sum(size), 0) FROM runs))",
         "the rows of runs and their totals differ"},
        {"SELECT 1 FROM totals WHERE what = 'audit' AND"
         " (count <> (SELECT count(*) FROM audit) OR bytes <> (SELECT ifnull(sum(size), 0) FROM audit))",
         "the rows of the audit log and their totals differ"},
        {"SELECT 1 FROM totals WHERE what = 'connections' AND count <> (SELECT count(*) FROM connections)",
         "the rows of connections and their total differ"},
        {"SELECT 1 FROM connection_owners AS o WHERE count <> (SELECT count(*) FROM connections WHERE owner = o.owner)",
         "the rows of connections and their users' totals differ"},
        {"SELECT 1 FROM totals WHERE what = 'security_events' AND count <> (SELECT count(*) FROM security_events)",
         "the rows of security events and their total differ"},
        {"SELECT 1 FROM security_owners AS o WHERE count <> (SELECT count(*) FROM security_events WHERE owner = "
         "o.owner)",
         "the rows of security events and their users' totals differ"},
        {"SELECT 1 FROM sandboxes WHERE NOT json_valid(settings)", "settings of a sandbox are no JSON"},
        {"SELECT 1 FROM templates WHERE NOT json_valid(settings)", "settings of a template are no JSON"},
    };
    int r = kr_store_pragma_check(s->db, "integrity_check", s->path, err);

    for (size_t i = 0; r >= 0 && i < sizeof rows / sizeof *rows; i++)
        r = check_query(s, rows[i].sql, rows[i].what, err);
    return r;
}

static int check_notes_file(struct kr_store *s, const char *name, struct kr_err *err)
{
    cleanup_fd int fd = openat(s->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    cleanup_buf struct kr_buf found;
    char piece[65536];
    uint64_t known = 0, at = 0;
    size_t spot = 0;
    ssize_t n = 0;
    int r;

    kr_buf_init(&found, NOTES_FILE_MAX);
    while (fd >= 0 && (n = kr_fd_read_at(fd, piece, sizeof piece, at)) > 0 && kr_buf_add(&found, piece, (size_t)n) == 0)
        at += (uint64_t)n;
    if (fd < 0 && errno == ENOENT)
        return 0; /* its process has ended meanwhile */
    if (fd < 0 || n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, fd < 0 ? errno : (int)-n, "read %.120s/%s", s->dir, name);
    r = kr_store_setting_get(s, name, &known, sizeof known, err);
    if (r < 0 && r != -ENOENT)
        return r;
    if (found.len > 0 && kr_notes_damaged(found.data, found.len, known, &spot))
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN, "%.120s/%s is damaged at byte %zu: restore it from a backup",
                            s->dir, name, spot);
    return 0;
}

int kr_store_notes_each(struct kr_store *s, int (*fn)(void *data, const char *name, struct kr_err *err), void *data,
                        struct kr_err *err)
{
    int fd = openat(s->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "list %s", s->dir);
    }
    while (r >= 0 && (e = readdir(dir)))
        if (strncmp(e->d_name, KR_STORE_NOTES, strlen(KR_STORE_NOTES)) == 0 && !strstr(e->d_name, ".damaged"))
            r = fn(data, e->d_name, err);
    closedir(dir);
    return r;
}

struct verifying {
    struct kr_store *store;
};

static int verify_notes_file(void *data, const char *name, struct kr_err *err)
{
    const struct verifying *v = data;
    int64_t holder = kr_notes_holder(name);

    if (holder == 0 || kr_store_holder_lives(v->store, holder))
        return 0; /* its process writes it over and over; it has the same rows in memory */
    return check_notes_file(v->store, name, err);
}

int kr_store_notes_verify(struct kr_store *s, struct kr_err *err)
{
    struct verifying v = {s};

    return kr_store_notes_each(s, verify_notes_file, &v, err);
}

static void take_folder(sqlite3_stmt *st, void (*fn)(void *data, const char *folder, bool is_used), void *data)
{
    fn(data, (const char *)sqlite3_column_text(st, 0), sqlite3_column_int(st, 1) != 0);
}

int kr_store_folders(struct kr_store *s, void (*fn)(void *data, const char *folder, bool is_used), void *data,
                     struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_FOLDERS, &st, err, "");

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0)
        take_folder(st, fn, data);
    return r < 0 ? r : 0;
}

/* ---- logs that are files: a mark is set before what it excuses is removed, and is never lowered ---- */

#define MARK_PRUNED "logs_pruned"        /* runs that ended until then may have no log, and logs until then no run */
#define MARK_USERS "users_deleted"       /* when a user was deleted last: logs until then may have no run */
#define WRITE_US (INT64_C(10) * 1000000) /* a server that lives has so long to write the log of a run that ended */

/* ---- marks ---- */

static int read_mark(struct kr_store *s, const char *key, int64_t *ret, struct kr_err *err)
{
    int64_t found = 0;
    int r = kr_store_setting_get(s, key, &found, sizeof found, err);

    if (r >= 0)
        *ret = found;
    return r < 0 ? r : 0;
}

static int raise_mark(struct kr_store *s, const char *key, int64_t to, struct kr_err *err)
{
    int64_t now = 0;
    int r = read_mark(s, key, &now, err);

    if (r < 0 && r != -ENOENT)
        return r;
    if (r >= 0 && now >= to)
        return 0;
    r = kr_st_exec(s, KR_ST_SETTING_SET, err, "tb", key, &to, sizeof to);
    return r < 0 ? r : 1;
}

int kr_store_logs_get(struct kr_store *s, struct kr_store_logs *ret, struct kr_err *err)
{
    struct kr_store_logs found = {0};
    int r = read_mark(s, MARK_PRUNED, &found.pruned, err);

    if (r >= 0 || r == -ENOENT)
        r = read_mark(s, MARK_USERS, &found.users, err);
    if (r < 0 && r != -ENOENT)
        return r;
    *ret = found;
    return 0;
}

int kr_store_logs_pruned(struct kr_store *s, int64_t until, struct kr_err *err)
{
    int r = raise_mark(s, MARK_PRUNED, until, err);

    return r > 0 ? kr_store_sync(s, err) : r;
}

int kr_store_logs_mark(struct kr_store *s, int64_t pruned, bool user, struct kr_err *err)
{
    int r = raise_mark(s, user ? MARK_USERS : MARK_PRUNED, user ? kr_store_now() : pruned, err);

    return r < 0 ? r : 0;
}

/* What ended before the first start of a krait that keeps the mark may have been removed by one that did not. */
int kr_store_logs_begin(struct kr_store *s, struct kr_err *err)
{
    int64_t mark;
    int r = read_mark(s, MARK_PRUNED, &mark, err);

    if (r != -ENOENT)
        return r;
    mark = kr_st_int(s, KR_ST_RUN_NEWEST, err, "");
    return mark < 0 ? (int)mark : kr_store_logs_mark(s, mark > 0 ? mark : 1, false, err);
}

/* ---- whose a log is ---- */

int kr_store_logs_each(struct kr_store *s, int64_t after, void (*fn)(void *data, const char *id), void *data,
                       struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int64_t young = kr_store_now() - WRITE_US;
    int r = kr_st_open(s, KR_ST_RUN_LOGS, &st, err, "i", after);

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0)
        if (sqlite3_column_int64(st, 1) < young || !kr_store_holder_lives(s, sqlite3_column_int64(st, 2)))
            fn(data, (const char *)sqlite3_column_text(st, 0));
    return r < 0 ? r : 0;
}

int64_t kr_store_logs_newest(struct kr_store *s, struct kr_err *err)
{
    return kr_st_int(s, KR_ST_RUN_NEWEST, err, "");
}

struct search {
    const struct kr_store *store;
    const char *id;
    bool found;
};

/* By its bytes: an id is 26 random characters, and a record has it as they are. */
static int search_notes(void *data, const char *name, struct kr_err *err)
{
    struct search *w = data;
    cleanup_fd int fd = openat(w->store->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    cleanup_buf struct kr_buf all;
    char piece[65536];
    ssize_t n = 0;

    kr_buf_init(&all, NOTES_FILE_MAX);
    while (fd >= 0 && !w->found && (n = kr_fd_read_at(fd, piece, sizeof piece, all.len)) > 0 &&
           kr_buf_add(&all, piece, (size_t)n) == 0)
        ;
    if ((fd < 0 && errno != ENOENT) || n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, fd < 0 ? errno : (int)-n, "read %.120s/%s", w->store->dir, name);
    w->found = w->found || (all.len > 0 && memmem(all.data, all.len, w->id, strlen(w->id)));
    return 0;
}

int kr_store_log_known(struct kr_store *s, const char *id, struct kr_err *err)
{
    struct search w = {.store = s, .id = id};
    int r = (int)kr_st_int(s, KR_ST_LOG_KNOWN, err, "t", id);

    if (r != 0)
        return r;
    r = kr_store_notes_each(s, search_notes, &w, err);
    if (r < 0 || w.found)
        return r < 0 ? r : 1;
    return (int)kr_st_int(s, KR_ST_LOG_KNOWN, err, "t", id); /* its note was settled meanwhile */
}
