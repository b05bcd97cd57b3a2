/* Jobs, in the store: background work of seconds to minutes, what it is about, how far it is and how it ended. A job
 * that has not ended is a process's; one whose process has ended is adopted by the next. Rows stay when their owner
 * is deleted only while the job is open. */
#pragma once
#include "store.h"

#define KR_STORE_JOB_KIND_ROOM 33
#define KR_STORE_JOB_SUBJECT_ROOM 257
#define KR_STORE_JOB_PARAMS_ROOM 1025
#define KR_STORE_JOB_TEXT_ROOM 200
#define KR_STORE_JOB_MESSAGE_ROOM 280
#define KR_STORE_JOBS_ADOPT_MAX 256

struct kr_store_job {
    char id[KR_STORE_ID_ROOM];
    char owner[KR_STORE_ID_ROOM]; /* the user who asked for it; it may have been deleted since */
    char kind[KR_STORE_JOB_KIND_ROOM];
    char subject[KR_STORE_JOB_SUBJECT_ROOM]; /* what it is about: an id, a name, an address */
    char params[KR_STORE_JOB_PARAMS_ROOM];   /* a JSON object: what its kind needs to continue it */
    char address[65], request[129];          /* of the request that asked for it; may be "" */
    unsigned attempt;                        /* 1; more: it was continued after a restart */
    int64_t started, ended;                  /* ended 0: it is open, and cause and message are empty */
    char cause[16];                          /* one of the thirteen words */
    char message[KR_STORE_JOB_MESSAGE_ROOM];
    uint64_t done, total; /* total 0: not known */
    char text[KR_STORE_JOB_TEXT_ROOM];
};

/* Adds one, of this process: id to started are read. 0 or -errno. fsync. */
int kr_store_job_start(struct kr_store *s, const struct kr_store_job *job, struct kr_err *err);
/* Writes done, total and text of an open job. 0 or -errno. */
int kr_store_job_progress(struct kr_store *s, const struct kr_store_job *job, struct kr_err *err);
/* Ends an open one: ended, cause, message and the progress are read; `result` is a JSON object or NULL; `log` is its
 * log if that is small, or NULL. 0, or -ENOENT: there is no open job of that id. */
int kr_store_job_end(struct kr_store *s, const struct kr_store_job *job, const char *result, const void *log,
                     size_t log_len, struct kr_err *err);
/* owner NULL: of any user. 0 or -ENOENT. */
int kr_store_job_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_job *ret_job,
                     struct kr_err *err);
/* The log that was given at the end, in memory of the caller's. 0; -ENOENT: none. */
int kr_store_job_log(struct kr_store *s, const char *id, void **ret_log, size_t *ret_len, struct kr_err *err);
/* The result that was given at the end, in memory of the caller's. 0; -ENOENT: none. */
int kr_store_job_result(struct kr_store *s, const char *id, char **ret_result, struct kr_err *err);
/* A user's about one subject, newest first, `max` at most. on_job returns false: no more. 0 or -errno. */
int kr_store_jobs_about(struct kr_store *s, const char *owner, const char *subject, unsigned max,
                        bool (*on_job)(void *data, const struct kr_store_job *job), void *data, struct kr_err *err);
/* A user's, newest first. Rows, or -errno. */
int kr_store_jobs_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                       void (*on_job)(void *data, const struct kr_store_job *job), void *data, struct kr_err *err);
/* Makes open jobs of processes that have ended this process's, each with the next attempt, and calls back for each
 * once all are. KR_STORE_JOBS_ADOPT_MAX at most. How many, or -errno. */
int kr_store_jobs_adopt(struct kr_store *s, void (*on_job)(void *data, const struct kr_store_job *job), void *data,
                        struct kr_err *err);
/* Deletes jobs that ended before `since`, KR_STORE_PRUNE_MAX at most; on_gone comes for each afterwards. How many
 * (call again until 0), or -errno. */
int kr_store_jobs_prune(struct kr_store *s, int64_t since, void (*on_gone)(void *data, const struct kr_store_job *job),
                        void *data, struct kr_err *err);
