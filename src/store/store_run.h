/* Runs, in the store: what was run, and how it ended. The output itself is not here. Every lookup takes the owner. */
#pragma once
#include "store.h"

#define KR_STORE_SESSION_MAX 128u /* bytes of a session's name */
#define KR_STORE_CODE_CHARS 100u  /* characters kept of the code */
#define KR_STORE_CAUSE_ROOM 16
#define KR_STORE_MESSAGE_ROOM 280
#define KR_STORE_FILES_MAX (256u << 10) /* bytes of the JSON of changed files */

struct kr_store_run {
    char id[KR_STORE_ID_ROOM];
    char owner[KR_STORE_ID_ROOM];
    char sandbox[KR_STORE_ID_ROOM]; /* "": a throw-away one. It may have been deleted since. */
    char session[KR_STORE_SESSION_MAX + 1];
    char code[4 * KR_STORE_CODE_CHARS + 1];
    int64_t started;
    int64_t ended;                   /* 0: is running; what follows is then empty */
    char cause[KR_STORE_CAUSE_ROOM]; /* one of the thirteen words */
    int exit_code;
    unsigned hits; /* limits that were hit, as the caller's bits */
    char message[KR_STORE_MESSAGE_ROOM];
    uint64_t wall_us, cpu_us, peak_memory;
    uint64_t output_bytes;
    uint64_t kept_bytes; /* of its log on disk: counts for retention */
    bool truncated;
    const char *files; /* JSON array of changed files, the caller's shape; NULL if none was given */
    size_t files_len;
};

/* Lets go of what kr_store_run_get() allocated. */
void kr_store_run_done(struct kr_store_run *run);
#define cleanup_store_run __attribute__((cleanup(kr_store_run_done)))

struct kr_store_run_start {
    const char *id;      /* a kr_store_new_id() */
    const char *owner;   /* a user's id */
    const char *sandbox; /* its id; NULL: a throw-away one */
    const char *session; /* its name; NULL: a throw-away one. Cut to KR_STORE_SESSION_MAX. */
    const char *code;    /* cut to KR_STORE_CODE_CHARS */
    size_t code_len;
    int64_t started;
};

struct kr_store_run_end {
    int64_t ended;
    const char *cause;
    int exit_code;
    unsigned hits;
    const char *message; /* NULL: none; cut to its room */
    uint64_t wall_us, cpu_us, peak_memory, output_bytes, kept_bytes;
    bool truncated;
    const char *files; /* JSON array or NULL; not JSON or past KR_STORE_FILES_MAX: kept as [] and `truncated` */
    const void *log;   /* its log, if it is small enough to be kept with it; NULL: none */
    size_t log_len;
};

/* Notes a run that starts: it is this process's until it ends. 0, -ENOENT (no such user), -EEXIST (id is taken). With
 * notes open, this and the next refuse nothing: a row that cannot be is met when they are settled, and said in the
 * log. */
int kr_store_run_start(struct kr_store *s, const struct kr_store_run_start *run, struct kr_err *err);
/* Notes its end, once. 0, or -ENOENT: no such run of that owner is running. */
int kr_store_run_end(struct kr_store *s, const char *owner, const char *id, const struct kr_store_run_end *end,
                     struct kr_err *err);
/* Ends, as `lost`, the runs of processes that are gone (killed, crashed) and left no notes that are still unread;
 * those of other live processes are left alone. For a start. How many (KR_STORE_PRUNE_MAX a call at most: call again
 * until 0), or -errno. */
int kr_store_runs_lost(struct kr_store *s, int64_t now, struct kr_err *err);
/* Does another live process run it, or has it ended there only a moment ago, so that its log may not be whole? 1, 0
 * (also if there is no such run), or -errno. */
#define KR_STORE_RUN_SETTLE_US (INT64_C(2) * 1000000)
int kr_store_run_elsewhere(struct kr_store *s, const char *id, struct kr_err *err);
/* 0 or -ENOENT. */
int kr_store_run_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_run *ret_run,
                     struct kr_err *err);
/* The log that was kept with it; to be freed. 0, or -ENOENT: no such run, or none was. */
int kr_store_run_log(struct kr_store *s, const char *owner, const char *id, void **ret_log, size_t *ret_len,
                     struct kr_err *err);
/* Did that session of that sandbox ever have a run that is still remembered? 1, 0 or -errno. */
int kr_store_session_known(struct kr_store *s, const char *owner, const char *sandbox, const char *session,
                           struct kr_err *err);

/* NULL, false: any. */
struct kr_store_run_filter {
    const char *sandbox, *session, *cause;
    bool running; /* those that have not ended */
};
/* The owner's, newest first. `files` is NULL in a list. Rows, or -errno. */
int kr_store_runs_list(struct kr_store *s, const char *owner, const struct kr_store_run_filter *filter,
                       struct kr_store_page *page, void (*on_run)(void *data, const struct kr_store_run *run),
                       void *data, struct kr_err *err);

/* Deletes the oldest ended runs until the rest is within keep, KR_STORE_PRUNE_MAX at most; on_gone (may be NULL)
 * gets the id of each, after they are deleted, to remove its log. How many (call again until 0), or -errno. */
int kr_store_runs_prune(struct kr_store *s, const struct kr_store_keep *keep,
                        void (*on_gone)(void *data, const char *id), void *data, struct kr_err *err);

/* ---- logs that are files: store_verify.c ---- */

/* What excuses a log without a run, and a run without its log; 0: nothing does. */
struct kr_store_logs {
    int64_t pruned; /* retention has removed rows or logs of runs that ended until then */
    int64_t users;  /* when a user was deleted last, with runs and logs */
};
int kr_store_logs_get(struct kr_store *s, struct kr_store_logs *ret, struct kr_err *err);
/* Before logs of runs that ended until then are removed. 0 or -errno. fsync if it was not noted yet. */
int kr_store_logs_pruned(struct kr_store *s, int64_t until, struct kr_err *err);
/* The runs that ended after that time and whose log is not in their row: it is a file. Not those that ended as `lost`,
 * nor a live process's of the last seconds: that may not have come to it. */
int kr_store_logs_each(struct kr_store *s, int64_t after, void (*fn)(void *data, const char *id), void *data,
                       struct kr_err *err);
/* When a run of the database ended last; 0: none did. */
int64_t kr_store_logs_newest(struct kr_store *s, struct kr_err *err);
/* Is there a run or job of that id, in the database or in notes on their way there? 1, 0 or -errno. */
int kr_store_log_known(struct kr_store *s, const char *id, struct kr_err *err);
