/* What the files of this folder share. Not for other folders; tests/unit/store/test-store.c reads it too. */
#pragma once
#include "buf.h"
#include "store.h"
#include <sqlite3.h>

#define KR_STORE_DB "krait.db"
#define KR_STORE_PEPPER "pepper"
#define KR_STORE_SECRETS_KEY "secrets.key"
#define KR_STORE_LOCK "krait.lock"
#define KR_STORE_APPLICATION 0x6b726169 /* "krai", in the header of the file */
#define KR_STORE_BUSY_MS 1000
#define KR_STORE_HASH_BYTES 32
#define KR_STORE_MINUTE (INT64_C(60) * 1000000)

/* ---- statements: the table is in statements.c ---- */

/* clang-format off */
enum kr_st {
    KR_ST_BEGIN, KR_ST_COMMIT, KR_ST_ROLLBACK, KR_ST_SHRINK,
    KR_ST_SETTING_GET, KR_ST_SETTING_SET, KR_ST_SETTING_MAKE, KR_ST_SETTING_DELETE, KR_ST_TOTALS,
    KR_ST_USER_ADD, KR_ST_USER_GET, KR_ST_USER_FIND, KR_ST_USER_LIST, KR_ST_USER_PASSWORD, KR_ST_USER_EMAIL,
    KR_ST_USER_RIGHTS, KR_ST_USER_DISABLED, KR_ST_USER_RUNS, KR_ST_USER_FOLDERS_DOOM, KR_ST_USER_DELETE,
    KR_ST_KEY_COUNT, KR_ST_KEY_ADD, KR_ST_KEY_TRIM, KR_ST_KEY_GET, KR_ST_KEY_REVOKE, KR_ST_KEY_OWNER, KR_ST_KEY_LIST,
    KR_ST_KEY_LIST_ALL, KR_ST_KEY_GRANT, KR_ST_KEY_TOUCH, KR_ST_KEY_PRUNE,
    KR_ST_TOKEN_ADD, KR_ST_TOKEN_TRIM, KR_ST_TOKEN_REVOKE, KR_ST_TOKENS_REVOKE, KR_ST_TOKEN_GRANT, KR_ST_TOKEN_PRUNE,
    KR_ST_SANDBOX_COUNT, KR_ST_SANDBOX_CLEAR, KR_ST_SANDBOX_SETTLE, KR_ST_SANDBOX_COUNT_ALL, KR_ST_SANDBOX_ADD,
        KR_ST_SANDBOX_GET, KR_ST_SANDBOX_FIND,
    KR_ST_SANDBOX_LIST,
    KR_ST_SANDBOX_RENAME, KR_ST_SANDBOX_CONFIGURE, KR_ST_SANDBOX_TOUCH, KR_ST_SANDBOX_DOOM,
    KR_ST_SANDBOX_FOLDER, KR_ST_SANDBOX_DELETE, KR_ST_JSON_OBJECT, KR_ST_SANDBOX_USED,
    KR_ST_FOLDERS, KR_ST_FOLDER_KNOWN, KR_ST_DOOMED_LIST,
    KR_ST_DOOMED_ADD, KR_ST_DOOMED_DONE,
    KR_ST_TEMPLATE_COUNT, KR_ST_TEMPLATE_BYTES, KR_ST_TEMPLATE_ADD, KR_ST_TEMPLATE_GET, KR_ST_TEMPLATE_LIST,
    KR_ST_TEMPLATE_CHANGE, KR_ST_TEMPLATE_DOOM, KR_ST_TEMPLATE_DELETE,
    KR_ST_SECRET_COUNT, KR_ST_SECRET_PUT, KR_ST_SECRET_GET, KR_ST_SECRET_LIST, KR_ST_SECRET_DELETE,
    KR_ST_RUN_START, KR_ST_RUN_END, KR_ST_RUN_WHOLE, KR_ST_RUN_LOG, KR_ST_RUN_GET, KR_ST_RUN_LIST, KR_ST_RUN_LIST_PLACE,
    KR_ST_RUN_LIST_SANDBOX, KR_ST_RUN_LIST_SESSION, KR_ST_RUN_LIST_CAUSE, KR_ST_RUN_LIST_OPEN,
        KR_ST_RUN_KNOWN,
    KR_ST_RUN_HOLDERS, KR_ST_RUN_HOLDER, KR_ST_RUN_LOST, KR_ST_RUN_OLDEST, KR_ST_RUN_DELETE,
    KR_ST_JOB_START, KR_ST_JOB_PROGRESS, KR_ST_JOB_END, KR_ST_JOB_GET, KR_ST_JOB_LOG, KR_ST_JOB_RESULT, KR_ST_JOB_ABOUT,
    KR_ST_JOB_LIST, KR_ST_JOB_OPEN,
    KR_ST_RUN_LOGS, KR_ST_RUN_NEWEST, KR_ST_LOG_KNOWN,
    KR_ST_JOB_ADOPT, KR_ST_JOB_OLDEST, KR_ST_JOB_DELETE, KR_ST_JOB_USER_DELETE,
    KR_ST_AUDIT_ADD, KR_ST_AUDIT_LIST, KR_ST_AUDIT_LIST_WHO, KR_ST_AUDIT_LIST_OBJECT,
    KR_ST_AUDIT_LIST_REQUEST, KR_ST_AUDIT_LIST_OUTCOME, KR_ST_AUDIT_LIST_WHAT, KR_ST_AUDIT_LAST, KR_ST_AUDIT_AT,
    KR_ST_AUDIT_OLDEST, KR_ST_AUDIT_DELETE,
    KR_ST_CONNECTION_ADD, KR_ST_CONNECTION_TOTAL, KR_ST_CONNECTION_TRIM, KR_ST_CONNECTION_LIST,
    KR_ST_CONNECTION_LIST_OWNER, KR_ST_CONNECTION_LIST_SANDBOX, KR_ST_CONNECTION_LIST_RUN,
    KR_ST_CONNECTION_LIST_VERDICT, KR_ST_CONNECTION_OLD_DELETE, KR_ST_CONNECTION_USER_DELETE,
    KR_ST_CONNECTION_SANDBOX_DELETE, KR_ST_CONNECTION_DOOMED, KR_ST_CONNECTION_DOOMED_DONE,
    KR_ST_EVENT_ADD, KR_ST_EVENT_TOTAL, KR_ST_EVENT_TRIM, KR_ST_EVENT_LIST, KR_ST_EVENT_LIST_OWNER,
    KR_ST_EVENT_LIST_KIND, KR_ST_EVENT_LIST_SANDBOX, KR_ST_EVENT_LIST_RUN, KR_ST_EVENT_OLD_DELETE,
    KR_ST_EVENT_USER_DELETE,
    KR_ST_MAX_,
};
/* clang-format on */

struct kr_st_row {
    const char *what; /* "add a user": for the line "the store cannot …" */
    const char *sql;
};
extern const struct kr_st_row kr_st_rows[KR_ST_MAX_];

struct kr_store {
    sqlite3 *db;
    sqlite3_stmt *statements[KR_ST_MAX_]; /* prepared at first use */
    char *dir, *path;
    int dir_fd, lock_fd;
    int64_t holder; /* the byte of the lock file that is locked as long as this process lives */
    unsigned wal_pages;
    uint64_t sandboxes_version, templates_version;
    int notes_fd; /* -1: rows go into the database as they come; else see notes.c */
    struct kr_buf notes;
    size_t notes_written; /* bytes of them that are in the file */
    uint64_t notes_generation;
    /* the last settle failed: a caller that only reads or notes does not try again before that */
    uint64_t settle_after_ns;
    int64_t touch_warned;
    unsigned char pepper[KR_STORE_HASH_BYTES];
    unsigned char secrets_key[KR_STORE_HASH_BYTES]; /* that seals secrets */
    bool has_secrets_key;
    char instance[KR_STORE_ID_ROOM]; /* the id of this store, made with it */
};

/* The statement, prepared, reset, and bound by `types`, a letter per argument: t text (NULL is NULL), i int64_t, n
 * int64_t with 0 as NULL, b blob (pointer, then size_t). 0 or -errno. Reset it by cleanup_st. */
int kr_st_open(struct kr_store *s, enum kr_st which, sqlite3_stmt **ret_st, struct kr_err *err, const char *types, ...);
/* 1: a row is there; 0: the end; or -errno. */
int kr_st_step(struct kr_store *s, sqlite3_stmt *st, struct kr_err *err);
/* Opens, runs to the end, resets. Rows changed, or -errno: -EEXIST, -ENOENT and -EINVAL for a UNIQUE, FOREIGN KEY or
 * CHECK that refused (the caller knows the words). */
int kr_st_exec(struct kr_store *s, enum kr_st which, struct kr_err *err, const char *types, ...);
/* The one integer of its one row, or -errno. */
int64_t kr_st_int(struct kr_store *s, enum kr_st which, struct kr_err *err, const char *types, ...);
void kr_st_cleanup_(sqlite3_stmt **st);
#define cleanup_st __attribute__((cleanup(kr_st_cleanup_)))
/* A text column into a room of that size; NULL becomes "". */
void kr_st_text(sqlite3_stmt *st, int column, char *out, size_t size);
/* Makes an error of SQLite's last one. `what` as in a row of the table. Returns -errno. */
int kr_st_fail(sqlite3 *db, int rc, const char *what, struct kr_err *err);
/* An error whose text is whole as it is: unlike kr_err_set(), no errno text is added. Returns -code. */
int kr_store_err(struct kr_err *err, enum kr_err_kind kind, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- transactions of more than one statement; they do not nest ---- */

struct kr_txn {
    struct kr_store *s; /* NULL: not open */
};
int kr_txn_begin(struct kr_txn *t, struct kr_store *s, struct kr_err *err);
/* 0, or -errno and it is undone by cleanup_txn. `durable`: waits until it has reached the disk. */
int kr_txn_commit(struct kr_txn *t, bool durable, struct kr_err *err);
void kr_txn_cleanup_(struct kr_txn *t);
#define cleanup_txn __attribute__((cleanup(kr_txn_cleanup_)))
/* Waits until what was committed has reached the disk. */
int kr_store_sync(struct kr_store *s, struct kr_err *err);

/* store_sandbox.c: settings of a sandbox, or of a template of one. 0 or -EINVAL. */
int kr_store_settings_check(struct kr_store *s, const char *settings, struct kr_err *err);

/* ---- files: the directory, the lock, the pepper ---- */

/* Opens or makes a file of the directory, 0600 and its owner's. The descriptor or -errno. */
int kr_store_file_open(const struct kr_store *s, const char *name, int flags);
/* Makes a file of the directory: under a name of its own, synced, then linked to its place. It is whole or not there,
 * and the first of two makers wins. 0 (it is there) or -errno. */
int kr_store_file_make(const struct kr_store *s, const char *name, const void *bytes, size_t len);
int kr_store_dir_open(struct kr_store *s, const char *dir, unsigned flags, struct kr_err *err);
/* Makes krait.db with mode 0600 if it is missing. */
int kr_store_db_make(struct kr_store *s, struct kr_err *err);
/* The lock that openers share; `exclusive` keeps the others out while the store is made or brought up to date. 0, or
 * -EAGAIN. */
int kr_store_lock(struct kr_store *s, bool exclusive, struct kr_err *err);
void kr_store_unlock(struct kr_store *s);
/* Takes this process's own byte, and tells whether another process has that of `holder`. */
int kr_store_hold(struct kr_store *s, struct kr_err *err);
bool kr_store_holder_lives(const struct kr_store *s, int64_t holder);
bool kr_store_pepper_exists(const struct kr_store *s);
/* Reads the pepper, or makes it in a store that never had one, and checks that it is the one of this store. */
int kr_store_pepper_load(struct kr_store *s, struct kr_err *err);
/* Reads the key of secrets; with `make`, makes it where it is missing. Without it secrets cannot be opened. */
int kr_store_secrets_key_load(struct kr_store *s, bool make, struct kr_err *err);

/* ---- the format ---- */

struct kr_migration {
    int version;
    const char *sql;
};
extern const struct kr_migration kr_migrations[];
extern const size_t kr_migrations_count;
/* Applies the rows above the file's version, each in a transaction of its own, and notes which krait did it. */
int kr_store_migrate(sqlite3 *db, const struct kr_migration *rows, size_t count, struct kr_err *err);
/* The file's version, or -errno: -EPROTONOSUPPORT when it is above `known`, -EUCLEAN when it is not ours. */
int kr_store_version(sqlite3 *db, const char *path, int known, struct kr_err *err);
/* A connection with everything set that does not change the file. */
int kr_store_connect(const char *path, sqlite3 **ret_db, struct kr_err *err);
/* PRAGMA `name`(1): 0, or -EUCLEAN with the first thing wrong. */
int kr_store_pragma_check(sqlite3 *db, const char *pragma, const char *path, struct kr_err *err);

/* ---- secrets ---- */

/* Writes the text of len bytes and a NUL: (len * 8 + 4) / 5 characters. */
void kr_base32(const unsigned char *data, size_t len, char *out);
/* A new key or token: prefix and 256 random bits. */
void kr_store_new_key(const char *prefix, char *out);
bool kr_store_key_looks(const char *text, const char *prefix);
/* BLAKE2b-256 of the text, keyed with the pepper; `use` keeps keys and tokens apart. */
void kr_store_hash(const struct kr_store *s, const char *use, const char *text,
                   unsigned char ret_hash[KR_STORE_HASH_BYTES]);

/* ---- runs ---- */

/* Deletes these runs in the transaction that is open. */
int kr_store_runs_delete(struct kr_store *s, char (*ids)[KR_STORE_ID_ROOM], int count, struct kr_err *err);

/* In the transaction that is open, if one is: runs that ended until `pruned` are deleted, or a user's. */
int kr_store_logs_mark(struct kr_store *s, int64_t pruned, bool user, struct kr_err *err);
/* At the start of a server, once it has the notes of those before it. */
int kr_store_logs_begin(struct kr_store *s, struct kr_err *err);

/* ---- texts and lists ---- */

/* Text of 1 to max bytes, valid UTF-8, no control characters, no blank at either end. 0, or -EINVAL naming the
 * field. */
int kr_store_text_check(const char *field, const char *text, size_t max, struct kr_err *err);
/* Writes at most max_chars characters of it that fit, invalid ones as U+FFFD. Returns out. */
const char *kr_store_text_cut(char *out, size_t size, const char *text, size_t len, size_t max_chars);

struct kr_walk {
    struct kr_store_page *page;
    unsigned given, passed_over;
    int64_t time; /* the cursor: rows below (time, id) */
    char id[KR_STORE_ID_ROOM];
    char last[KR_STORE_CURSOR_ROOM]; /* that of the row looked at last */
};
/* Reads the page's cursor. `by_number`: the cursor is a number alone, in `time`. */
int kr_walk_init(struct kr_walk *w, struct kr_store_page *page, bool by_number, struct kr_err *err);
/* A row is there, which the filter lets through or not: may it be taken? If not, `next` is set and the list is over:
 * so a full page has a next one only if a row for it is there. */
bool kr_walk_more(struct kr_walk *w, bool passes);
/* It is at that place. id NULL: by number. */
void kr_walk_at(struct kr_walk *w, int64_t time, const char *id);
