/* A copy of the store, and whether it is sound.
 *
 * Called by `krait backup` and `krait verify`, beside a running server. What is checked and what is not is in
 * docs/design/store.md. Invariant: a copy is the database of one moment. */
#include "buf.h"
#include "fd.h"
#include "notes.h"
#include "store_internal.h"
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
        {"SELECT 1 FROM sandboxes WHERE NOT json_valid(settings)", "settings of a sandbox are no JSON"},
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
