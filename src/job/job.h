/* Jobs: what takes seconds to minutes in the background, and goes on when the client that asked for it has left.
 *
 * A job has an id, an owner, a kind, a subject, progress, a log (src/runlog: numbered events with an end and a
 * cause), and a row in the store. Its kind is a row of the registry. A job whose process ended is found at the next
 * start: it is continued if its kind can, else ended as `lost`. docs/design/jobs.md has the life of one. Loop thread
 * only. */
#pragma once
#include "runlog.h"
#include "store_job.h"
#include <sys/queue.h>

struct kr_job;
struct kr_jobs;
struct uv_loop_s;

/* ---- kinds ---- */

#define KR_JOB_KINDS_MAX 16u

struct kr_job_kind {
    const char *name;  /* "user.delete": what clients, the audit log and the store call it */
    const char *help;  /* one sentence */
    bool continues;    /* after a restart, with `start` and kr_job_row()->attempt > 1 */
    unsigned user_max; /* open ones of a user; 0: kr_jobs_config.user_max alone */
    /* Begins or continues it; ends it by kr_job_end(), later and from the loop. 0, or -errno with err: the job ends
     * with that. */
    int (*start)(struct kr_job *job, void *app, struct kr_err *err);
    /* Asks it to end as `cancelled`, soon. NULL: it cannot be cancelled. */
    void (*cancel)(struct kr_job *job);
    /* The process ends: frees what start() has made. The job's row stays open if the kind continues. */
    void (*close)(struct kr_job *job);
};

/* ---- all jobs of the process ---- */

#define KR_JOBS_MAX 1024u
#define KR_JOBS_USER_MAX 256u

struct kr_jobs_config {
    struct kr_store *store;  /* borrowed */
    struct kr_runlogs *logs; /* borrowed; NULL: jobs have no log */
    unsigned max, user_max;  /* open ones, in all and of a user; 0: KR_JOBS_MAX, KR_JOBS_USER_MAX */
    uint64_t retention_ms;   /* after its end; 0: for ever */
};

/* 0 or -errno with err. */
int kr_jobs_new(struct uv_loop_s *loop, const struct kr_jobs_config *config, struct kr_jobs **ret_jobs,
                struct kr_err *err);
/* Another retention; 0: for good. */
void kr_jobs_retain(struct kr_jobs *jobs, uint64_t retention_ms);
/* Closes every job. Before the store, the logs and the kinds' apps go. Takes NULL. */
void kr_jobs_close(struct kr_jobs *jobs);
/* Adds a kind to the registry; `app` is handed to its start(). 0, -EEXIST, -ENOBUFS. */
int kr_jobs_add_kind(struct kr_jobs *jobs, const struct kr_job_kind *kind, void *app);
/* Continues or ends what earlier processes left open. Once, after all kinds are there. How many, or -errno with err. */
int kr_jobs_resume(struct kr_jobs *jobs, struct kr_err *err);

/* ---- one job ---- */

struct kr_job_spec {
    const char *kind;              /* a name of the registry */
    const char *owner;             /* a user's id */
    const char *subject;           /* what it is about */
    const char *params;            /* a JSON object; NULL: {} */
    const char *address, *request; /* of the request that asks; NULL: none */
};

/* 0; KR_ERR_TOO_MANY (the user's bound), KR_ERR_BUSY (the bound in all), KR_ERR_INVALID (a text is too long), or
 * what the kind says. The pointer is good until the job ends, which is not before the return to the loop. */
int kr_job_start(struct kr_jobs *jobs, const struct kr_job_spec *spec, struct kr_job **ret_job, struct kr_err *err);
/* Its row as it is now. Good until the job ends. */
const struct kr_store_job *kr_job_row(const struct kr_job *job);
/* What its kind keeps. */
void kr_job_set_data(struct kr_job *job, void *data);
void *kr_job_data(const struct kr_job *job);

/* How far it is (total 0: not known). The row and the log have it at most once a second, and at the end. */
void kr_job_progress(struct kr_job *job, uint64_t done, uint64_t total, const char *text);
/* Output of the job, as a run's: text of any length. */
void kr_job_text(struct kr_job *job, enum kr_stream stream, const char *text, size_t len);
/* What it has to tell beyond its cause: a JSON object, copied, kept with its row when it ends. A later one takes its
 * place. 0; -ENOMEM; -E2BIG: more than KR_JOB_RESULT_MAX bytes. */
#define KR_JOB_RESULT_MAX (512u << 10)
int kr_job_set_result(struct kr_job *job, const char *json);
/* Ends it: its log (the last event has the result), its row, those that watch. err NULL unless the cause is not `ok`.
 * Frees the job, and nothing of its kind's. */
void kr_job_end(struct kr_job *job, enum kr_cause cause, const struct kr_err *err);

/* ---- watching and steering ---- */

/* Embedded by a client of the job. */
struct kr_job_watch {
    LIST_ENTRY(kr_job_watch) link;
    /* Once, when the job has ended: cause, message and progress are in the row; err as in kr_job_end(). */
    void (*on_end)(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err);
};
void kr_job_watch(struct kr_job *job, struct kr_job_watch *watch);
/* Before on_end only. */
void kr_job_unwatch(struct kr_job_watch *watch);
bool kr_job_is_watched(const struct kr_job *job);

/* A job of the owner's (NULL: of any user), open or ended. 0 or -ENOENT with err. */
int kr_jobs_find(struct kr_jobs *jobs, const char *owner, const char *id, struct kr_store_job *ret_row,
                 struct kr_err *err);
/* One of the owner's (NULL: of any user) that is open: good until it ends. NULL: there is none. */
struct kr_job *kr_jobs_running(const struct kr_jobs *jobs, const char *owner, const char *id);
/* The result of a job that has ended, in memory of the caller's. 0; -ENOENT: none. */
int kr_jobs_result(struct kr_jobs *jobs, const char *id, char **ret_result, struct kr_err *err);
/* Its log, a reference: of the attempt that runs or ran last. 0, -ENOENT. */
int kr_jobs_open_log(struct kr_jobs *jobs, const struct kr_store_job *row, struct kr_runlog **ret_log);
/* Asks an open job of the owner's (NULL: of any user) to end. 0; -ENOENT; KR_ERR_CONFLICT: its kind cannot be
 * cancelled. */
int kr_jobs_cancel(struct kr_jobs *jobs, const char *owner, const char *id, struct kr_err *err);
