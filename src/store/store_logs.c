/* Logs of runs and jobs, as the rows know them: which must be a file of the data directory, and whose a file is.
 *
 * Called by `krait verify` and `krait backup`; the marks are written by retention. Invariant: a mark is set before what
 * it excuses is removed, and is never lowered. */
#include "buf.h"
#include "fd.h"
#include "notes.h"
#include "store_internal.h"
#include "store_run.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define MARK_PRUNED "logs_pruned"        /* runs that ended until then may have no log, and logs until then no run */
#define MARK_USERS "users_deleted"       /* when a user was deleted last: logs until then may have no run */
#define WRITE_US (INT64_C(10) * 1000000) /* a server that lives has so long to write the log of a run that ended */
#define NOTES_FILE_MAX (KR_NOTES_MAX + (64u << 10))

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
