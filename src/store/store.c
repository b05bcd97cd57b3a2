/* Opening and closing a store, transactions, upkeep.
 *
 * Called by the server, `krait mcp`, `krait keys` and `krait users`. How a store is opened: the processes that
 * have it open share a lock (store_files.c); a process that finds it missing or old releases the lock, takes it
 * exclusively, makes or updates the store, and shares the lock again. So two first starts at once make one store, and a
 * new krait does not change the format under a running old one.
 *
 * Invariant: what a call wrote is there after kill -9 once it returned; the file is whole at every moment. */
#include "store_internal.h"
#include "fd.h"
#include "notes.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OPEN_WAIT_MS 5000 /* for another process that makes or brings up to date */
#define OPEN_STEP_MS 5
#define OWN_CHECKPOINT_PAGES (8 * KR_STORE_WAL_PAGES)

/* After every commit: SQLite tells how long the log is. */
static int on_wal_commit(void *data, sqlite3 *db, const char *name, int pages)
{
    struct kr_store *s = data;

    s->wal_pages = (unsigned)pages;
    if (s->wal_pages >= OWN_CHECKPOINT_PAGES) /* kr_store_checkpoint() is not called, or cannot keep up */
        sqlite3_wal_checkpoint_v2(db, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return SQLITE_OK;
}

/* WAL mode stays with the file. A filesystem without shared memory between processes cannot have it. */
static int set_wal(struct kr_store *s, struct kr_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db, "PRAGMA journal_mode = WAL", -1, &st, NULL), r = 0;

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    if (rc != SQLITE_ROW)
        r = kr_st_fail(s->db, rc, "be opened", err);
    else if (strcmp((const char *)sqlite3_column_text(st, 0), "wal") != 0)
        r = kr_store_err(err, KR_ERR_SYSTEM, EOPNOTSUPP,
                         "the filesystem of %.150s cannot hold a write-ahead log: give another --data", s->dir);
    sqlite3_finalize(st);
    return r;
}

static int known_version(void)
{
    return kr_migrations[kr_migrations_count - 1].version;
}

/* No other process has the store open. */
static int make_or_update(struct kr_store *s, struct kr_err *err)
{
    int r = kr_store_version(s->db, s->path, known_version(), err), rc;

    if (r < 0)
        return r;
    if (r == 0 && kr_store_pepper_exists(s)) /* the pepper is made last, so there was a store */
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.100s is empty, but its " KR_STORE_PEPPER
                            " is there: restore the store, or remove that file to begin anew",
                            s->path);
    if (r == 0 && (rc = sqlite3_exec(s->db, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL)) != SQLITE_OK)
        return kr_st_fail(s->db, rc, "be made", err);
    if ((r = set_wal(s, err)) < 0 || (r = kr_store_migrate(s->db, kr_migrations, kr_migrations_count, err)) < 0)
        return r;
    return kr_store_sync(s, err);
}

/* What can be said of it all the same: whether its pages and indexes are whole. */
static int refuse_older(struct kr_store *s, int version, struct kr_err *err)
{
    int r = kr_store_pragma_check(s->db, "integrity_check", s->path, err);

    kr_store_unlock(s);
    return r < 0 ? r
                 : kr_store_err(err, KR_ERR_CONFLICT, ESTALE, "%.120s has format %d, of an older krait", s->path,
                                version);
}

/* One try. 0: open, and the lock is shared. -EAGAIN: another process holds the lock. */
static int try_open(struct kr_store *s, unsigned flags, struct kr_err *err)
{
    int r = kr_store_lock(s, false, err);

    if (r < 0)
        return r;
    r = kr_store_version(s->db, s->path, known_version(), err);
    if (r == known_version())
        return set_wal(s, err);
    if (r > 0 && (flags & KR_STORE_AS_IS))
        return refuse_older(s, r, err);
    kr_store_unlock(s);
    if (r < 0)
        return r;
    r = kr_store_lock(s, true, err);
    if (r < 0)
        return r;
    r = make_or_update(s, err);
    if (r < 0)
        return r;
    return kr_store_lock(s, false, err); /* a lock of one's own becomes a shared one at once */
}

static int open_locked(struct kr_store *s, unsigned flags, struct kr_err *err)
{
    struct timespec step = {.tv_nsec = OPEN_STEP_MS * 1000000};
    int r;

    for (int waited = 0; waited < OPEN_WAIT_MS; waited += OPEN_STEP_MS) {
        r = try_open(s, flags, err);
        if (r != -EAGAIN)
            return r;
        nanosleep(&step, NULL);
    }
    return kr_store_err(err, KR_ERR_TIMEOUT, EBUSY,
                        "%.120s must be brought up to date, but another krait has it open: stop that one first",
                        s->path);
}

/* Made with the store; one of two processes at once wins. */
static int read_instance(struct kr_store *s, struct kr_err *err)
{
    char id[KR_STORE_ID_ROOM];
    int r;

    r = kr_store_setting_get(s, "instance", s->instance, sizeof s->instance - 1, err);
    if (r != -ENOENT)
        return r < 0 ? r : 0;
    kr_store_new_id(id);
    r = kr_st_exec(s, KR_ST_SETTING_MAKE, err, "tb", "instance", id, strlen(id));
    if (r >= 0)
        r = kr_store_setting_get(s, "instance", s->instance, sizeof s->instance - 1, err);
    return r < 0 ? r : 0;
}

static int open_all(struct kr_store *s, const char *dir, unsigned flags, struct kr_err *err)
{
    int r;

    if (sodium_init() < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "libsodium cannot start");
    if ((r = kr_store_dir_open(s, dir, flags, err)) < 0 || (r = kr_store_db_make(s, err)) < 0)
        return r;
    /* SQLite would be content with reading, and make files beside it that can only be read, too. */
    if (!(flags & KR_STORE_AS_IS) && access(s->path, W_OK) < 0)
        return kr_store_err(err, KR_ERR_SYSTEM, errno,
                            "%.120s can only be read: let its owner write it (chmod u+w), on a filesystem that can be "
                            "written",
                            s->path);
    if ((r = kr_store_connect(s->path, &s->db, err)) < 0)
        return r;
    sqlite3_wal_hook(s->db, on_wal_commit, s);
    if ((r = open_locked(s, flags, err)) < 0)
        return r;
    if ((flags & KR_STORE_CHECK) && (r = kr_store_pragma_check(s->db, "quick_check", s->path, err)) < 0)
        return r;
    if ((r = kr_store_hold(s, err)) < 0 || (r = read_instance(s, err)) < 0)
        return r;
    r = kr_store_pepper_load(s, err);
    return r < 0 ? r : kr_store_secrets_key_load(s, !(flags & KR_STORE_AS_IS), err);
}

int kr_store_open(const char *dir, unsigned flags, struct kr_store **ret_store, struct kr_err *err)
{
    struct kr_store *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot be opened");
    s->dir_fd = s->lock_fd = s->notes_fd = -1;
    r = open_all(s, dir, flags, err);
    if (r < 0) {
        if (err && s->dir && !strstr(err->msg, s->dir))
            kr_err_wrap(err, r, "%s", s->dir);
        kr_store_close(s);
        return r;
    }
    *ret_store = s;
    return 0;
}

void kr_store_close(struct kr_store *s)
{
    if (!s)
        return;
    kr_store_notes_close(s);
    for (size_t i = 0; i < KR_ST_MAX_; i++)
        sqlite3_finalize(s->statements[i]);
    sqlite3_close(s->db);
    kr_fd_close(s->lock_fd);
    kr_fd_close(s->dir_fd);
    free(s->dir);
    free(s->path);
    sodium_memzero(s, sizeof *s);
    free(s);
}

void kr_store_cleanup_(struct kr_store **s)
{
    kr_store_close(*s);
}

/* ---- transactions ---- */

/* The log as SQLite has it open: an fsync of it is what makes a commit outlast a power cut. */
int kr_store_sync(struct kr_store *s, struct kr_err *err)
{
    sqlite3_file *wal = NULL;
    int rc;

    rc = sqlite3_file_control(s->db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (rc == SQLITE_OK && wal && wal->pMethods)
        rc = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    return rc == SQLITE_OK ? 0 : kr_st_fail(s->db, rc, "reach the disk", err);
}

int kr_txn_begin(struct kr_txn *t, struct kr_store *s, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_BEGIN, err, "");

    if (r < 0)
        return r;
    t->s = s;
    return 0;
}

int kr_txn_commit(struct kr_txn *t, bool durable, struct kr_err *err)
{
    struct kr_store *s = t->s;
    int r = kr_st_exec(s, KR_ST_COMMIT, err, "");

    if (r < 0)
        return r; /* kr_txn_cleanup_() undoes it */
    t->s = NULL;
    return durable ? kr_store_sync(s, err) : 0;
}

void kr_txn_cleanup_(struct kr_txn *t)
{
    if (t->s && !sqlite3_get_autocommit(t->s->db)) /* a full disk or an I/O error may have undone it already */
        kr_st_exec(t->s, KR_ST_ROLLBACK, NULL, "");
}

/* ---- upkeep ---- */

unsigned kr_store_wal_pages(const struct kr_store *s)
{
    return s->wal_pages;
}

int kr_store_checkpoint(const char *path, struct kr_err *err)
{
    sqlite3 *db;
    int r = kr_store_connect(path, &db, err), rc;

    if (r < 0)
        return r;
    rc = sqlite3_wal_checkpoint_v2(db, "main", SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    if (rc != SQLITE_OK && rc != SQLITE_BUSY) /* busy: another process does it already */
        r = kr_st_fail(db, rc, "be checkpointed", err);
    sqlite3_close(db);
    return r;
}

/* What no table can say: does the filesystem still take a page. */
static int try_page(const char *dir, struct kr_err *err)
{
    static const char page[4096];
    cleanup_fd int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    ssize_t n;

    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) /* not on this filesystem */
        return 0;
    n = fd < 0 ? -1 : write(fd, page, sizeof page);
    return n == (ssize_t)sizeof page ? 0 : kr_err_set_disk(err, n < 0 ? errno : ENOSPC, "write to the data directory");
}

int kr_store_try_write(const char *path, const char *dir, struct kr_err *err)
{
    sqlite3 *db;
    int r = kr_store_connect(path, &db, err), rc;

    if (r < 0)
        return r;
    rc = sqlite3_db_readonly(db, "main") == 1 ? SQLITE_READONLY /* where BEGIN would only read */
                                              : sqlite3_exec(db, "BEGIN IMMEDIATE; ROLLBACK", NULL, NULL, NULL);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) /* busy: another process writes, so it can be written */
        r = kr_st_fail(db, rc, "be written", err);
    sqlite3_close(db);
    return r < 0 ? r : try_page(dir, err);
}

uint64_t kr_store_size(const struct kr_store *s)
{
    static const char *const names[] = {KR_STORE_DB, KR_STORE_DB "-wal", KR_STORE_DB "-shm"};
    uint64_t size = 0;
    struct stat st;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (fstatat(s->dir_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            size += (uint64_t)st.st_blocks * 512;
    }
    return size;
}

int kr_store_shrink(struct kr_store *s, unsigned pages, struct kr_err *err)
{
    int r = 0;

    for (unsigned done = 0; done < pages && r >= 0; done += 64) /* the statement's own number */
        r = kr_st_exec(s, KR_ST_SHRINK, err, "");
    return r < 0 ? r : 0;
}

const char *kr_store_path(const struct kr_store *s)
{
    return s->path;
}

const char *kr_store_dir(const struct kr_store *s)
{
    return s->dir;
}
