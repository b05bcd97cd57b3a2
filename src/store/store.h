/* The store: what krait remembers in its data directory, in SQLite (`krait.db`) and one secret file (`pepper`).
 * docs/design/store.md has the tables, what a crash and a full disk do, and what each call costs.
 *
 * A store is used from one thread, the one that opened it, and never crosses a fork(). Several processes may have
 * the same store open. Calls block for the time of a query (tens of microseconds); a call marked `fsync` also waits
 * for the disk (milliseconds). A write waits up to a second for another process that is writing, and then fails with
 * -EBUSY.
 *
 * Texts handed in are borrowed for the call. Texts handed to a callback are valid until it returns; a callback may
 * call any function of the store but the one that calls it (that is refused with -EDEADLK) and kr_store_close().
 * Times are microseconds since 1970; 0 stands for "never" and "not yet". */
#pragma once
#include "err.h"
#include "id.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_store;

/* ---- opening ---- */

enum kr_store_flag {
    KR_STORE_CREATE = 1 << 0, /* make what is missing: the directory itself (not its parents), the files */
    KR_STORE_CHECK = 1 << 1,  /* look at every page (about 1.5 s per GB); a damaged store is refused */
    KR_STORE_AS_IS = 1 << 2,  /* do not bring an older one up to date: -ESTALE if its pages are whole */
};

/* Opens the store of a data directory and brings an older one up to date. 0, or -errno with one line for a person:
 * -ENOENT (nothing there, and no KR_STORE_CREATE), -EUCLEAN (damaged, not ours, or the pepper is not the one that
 * belongs to it), -EPROTONOSUPPORT (a newer krait wrote it; both versions are named), -EBUSY (it must be brought up
 * to date, but another krait has it open), -EACCES, -EROFS, -ENOSPC. fsync when something is made or brought up to
 * date. */
int kr_store_open(const char *dir, unsigned flags, struct kr_store **ret_store, struct kr_err *err);
/* Settles the notes (a failure is logged), and frees. NULL is fine. The last process to close moves the log into the
 * database: fsync. */
void kr_store_close(struct kr_store *s);
void kr_store_cleanup_(struct kr_store **s);
#define cleanup_store __attribute__((cleanup(kr_store_cleanup_)))

/* ---- notes ---- */

/* From here on rows of runs and of the audit log are collected, and reach the database together: when kr_store_settle()
 * is called, when this process reads such rows, and at the close; another process sees them then. What
 * processes that were killed left behind is taken over now; damaged notes are -EUCLEAN, or with `accepts_loss` what can
 * be read of them is, and their file is set aside. 0 or -errno. */
int kr_store_notes_open(struct kr_store *s, bool accepts_loss, struct kr_err *err);
/* What was noted is safe from kill -9 when this returned 0: before a client learns of it. Nothing to do without
 * notes. */
int kr_store_notes_write(struct kr_store *s, struct kr_err *err);
/* Are they written, and is there room for more? 0 or -errno: what is noted next would not be safe. */
int kr_store_notes_ready(struct kr_store *s, struct kr_err *err);
/* Bytes that wait. */
size_t kr_store_notes_waiting(const struct kr_store *s);
/* Moves them into the database, in one transaction. 0, or -errno and they still wait: call again later. Past 4 MiB that
 * cannot be moved the calls that make new ones fail. */
int kr_store_settle(struct kr_store *s, struct kr_err *err);

/* ---- copies and checks: store_verify.c. May take seconds ---- */

/* A copy of the database of one moment, while others write: one file at that path, which must not be there. */
int kr_store_copy(struct kr_store *s, const char *path, struct kr_err *err);
/* 0, or -EUCLEAN: its pages, indexes, references or totals are not sound. */
int kr_store_verify(struct kr_store *s, struct kr_err *err);
/* The same of the notes that processes which have ended left. */
int kr_store_notes_verify(struct kr_store *s, struct kr_err *err);
/* The names of all files of notes in the data directory. */
int kr_store_notes_each(struct kr_store *s, int (*fn)(void *data, const char *name, struct kr_err *err), void *data,
                        struct kr_err *err);
/* The folders of all sandboxes, and whether a run or an operation on files has used each. */
int kr_store_folders(struct kr_store *s, void (*fn)(void *data, const char *folder, bool is_used), void *data,
                     struct kr_err *err);

/* ---- upkeep ---- */

#define KR_STORE_WAL_PAGES 1000u /* 4 MB: time for a checkpoint */

/* Pages in the write-ahead log after the last commit here. Past KR_STORE_WAL_PAGES the server calls
 * kr_store_checkpoint() on the thread pool; when it does not, a commit does it itself at 8 times as many. */
unsigned kr_store_wal_pages(const struct kr_store *s);
/* Moves the log into the database. For the thread pool: takes the path (kr_store_path(), copied by the caller) and
 * opens a connection of its own; touches no struct kr_store. fsync. */
int kr_store_checkpoint(const char *path, struct kr_err *err);
/* Would it take a write? For the thread pool, as kr_store_checkpoint(): takes the write lock of the database and gives
 * it back, and writes a page to a file without a name beside it. Leaves nothing. 0 or -errno. */
int kr_store_try_write(const char *path, const char *dir, struct kr_err *err);
/* Bytes of the database, its log and its index of the log on disk. */
uint64_t kr_store_size(const struct kr_store *s);
/* Gives up to `pages` free pages back to the filesystem: after a prune. 0 or -errno. */
int kr_store_shrink(struct kr_store *s, unsigned pages, struct kr_err *err);
/* The database file's absolute path, and the data directory's. Valid until close. */
const char *kr_store_path(const struct kr_store *s);
const char *kr_store_dir(const struct kr_store *s);

/* ---- ids and times ---- */

#define KR_STORE_ID_ROOM KR_ID_ROOM

/* 128 random bits as text, 26 characters of 0-9a-z without i, l, o, u. What an id may look like only kr_id_valid()
 * says. */
void kr_store_new_id(char ret_id[KR_STORE_ID_ROOM]);
/* Microseconds since 1970 (CLOCK_REALTIME). */
int64_t kr_store_now(void);

/* ---- settings ---- */

#define KR_STORE_SETTING_MAX 4096u

/* Reads a small value. Its length (may be 0), -ENOENT, or -ENOBUFS when size is too small. */
int kr_store_setting_get(struct kr_store *s, const char *key, void *buf, size_t size, struct kr_err *err);
/* Writes one. 0 or -errno. fsync. */
int kr_store_setting_set(struct kr_store *s, const char *key, const void *value, size_t len, struct kr_err *err);
/* The secret of that name (the link-signing key): len (16 to 64) random bytes, made at the first call and the same
 * ever after, for every process. 0 or -errno. fsync when made. */
int kr_store_secret(struct kr_store *s, const char *key, void *ret_secret, size_t len, struct kr_err *err);

/* ---- lists ---- */

#define KR_STORE_CURSOR_ROOM 48
#define KR_STORE_PAGE_MAX 500u
#define KR_STORE_SCAN_MAX 10000u /* rows that further filters pass over in one call: some 10 ms */

/* Lists are newest first. A list calls back once per row, at most `limit` times, and leaves in `next` what to pass
 * as `after` for the rows behind, "" at the end. Each filter has an index. Only where several are given at once, and
 * the others pass over more than KR_STORE_SCAN_MAX rows of the first, can a page have fewer rows than its limit and a
 * next one. What is added or deleted between two pages neither
 * repeats nor hides another row. */
struct kr_store_page {
    const char *after; /* NULL or "": from the start; something else than a `next` is -EINVAL */
    unsigned limit;    /* 1 to KR_STORE_PAGE_MAX */
    char next[KR_STORE_CURSOR_ROOM];
};

/* What retention keeps; 0 in a field: no bound by it. */
struct kr_store_keep {
    int64_t since;  /* nothing older than this time */
    uint64_t count; /* so many rows */
    uint64_t bytes; /* so many bytes, as kr_store_totals() counts them */
};
#define KR_STORE_PRUNE_MAX 64u /* rows deleted in one call, so that a call is short: about 1 ms */

/* Kept by triggers, so reading them is one row each. */
struct kr_store_totals {
    uint64_t runs, run_bytes; /* bytes: the rows' own, and kept_bytes of their logs */
    uint64_t audits, audit_bytes;
};
int kr_store_totals(struct kr_store *s, struct kr_store_totals *ret_totals, struct kr_err *err);
