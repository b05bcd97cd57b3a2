/* Rows of jobs.
 *
 * Called by src/job. Invariants: a job ends once; an open row names the process that works on it, and only a row
 * whose process has ended is taken over, by one process alone. */
#include "store_job.h"
#include "store_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int no_such_job(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such job");
}

int kr_store_job_start(struct kr_store *s, const struct kr_store_job *job, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_JOB_START, err, "tttttttiii", job->id, job->owner, job->kind, job->subject, job->params,
                       job->address, job->request, (int64_t)job->attempt, s->holder, job->started);

    return r < 0 ? r : kr_store_sync(s, err);
}

int kr_store_job_progress(struct kr_store *s, const struct kr_store_job *job, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_JOB_PROGRESS, err, "tiit", job->id, (int64_t)job->done, (int64_t)job->total, job->text);

    return r < 0 ? r : 0;
}

int kr_store_job_end(struct kr_store *s, const struct kr_store_job *job, const char *result, const void *log,
                     size_t log_len, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_JOB_END, err, "titttiibt", job->id, job->ended, job->cause, job->message, job->text,
                       (int64_t)job->done, (int64_t)job->total, log, log_len, result);

    return r < 0 ? r : r == 0 ? no_such_job(err) : 0;
}

static void fill_job(sqlite3_stmt *st, struct kr_store_job *job)
{
    memset(job, 0, sizeof *job);
    kr_st_text(st, 0, job->id, sizeof job->id);
    kr_st_text(st, 1, job->owner, sizeof job->owner);
    kr_st_text(st, 2, job->kind, sizeof job->kind);
    kr_st_text(st, 3, job->subject, sizeof job->subject);
    kr_st_text(st, 4, job->params, sizeof job->params);
    kr_st_text(st, 5, job->address, sizeof job->address);
    kr_st_text(st, 6, job->request, sizeof job->request);
    job->attempt = (unsigned)sqlite3_column_int64(st, 7);
    job->started = sqlite3_column_int64(st, 8);
    job->ended = sqlite3_column_int64(st, 9);
    kr_st_text(st, 10, job->cause, sizeof job->cause);
    kr_st_text(st, 11, job->message, sizeof job->message);
    job->done = (uint64_t)sqlite3_column_int64(st, 12);
    job->total = (uint64_t)sqlite3_column_int64(st, 13);
    kr_st_text(st, 14, job->text, sizeof job->text);
}

int kr_store_job_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_job *ret_job,
                     struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_JOB_GET, &st, err, "tt", id, owner);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_job(err);
    fill_job(st, ret_job);
    return 0;
}

int kr_store_job_log(struct kr_store *s, const char *id, void **ret_log, size_t *ret_len, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    const void *log;
    size_t len;
    int r = kr_st_open(s, KR_ST_JOB_LOG, &st, err, "t", id);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    log = r > 0 ? sqlite3_column_blob(st, 0) : NULL;
    if (!log)
        return no_such_job(err);
    len = (size_t)sqlite3_column_bytes(st, 0);
    *ret_log = malloc(len);
    if (!*ret_log)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a job's log");
    memcpy(*ret_log, log, len);
    *ret_len = len;
    return 0;
}

int kr_store_job_result(struct kr_store *s, const char *id, char **ret_result, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    const char *result;
    int r = kr_st_open(s, KR_ST_JOB_RESULT, &st, err, "t", id);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    result = r > 0 ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (!result)
        return no_such_job(err);
    *ret_result = strdup(result);
    return *ret_result ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read a job's result");
}

int kr_store_jobs_about(struct kr_store *s, const char *owner, const char *subject, unsigned max,
                        bool (*on_job)(void *data, const struct kr_store_job *job), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_job job;
    int r = kr_st_open(s, KR_ST_JOB_ABOUT, &st, err, "tti", owner, subject, (int64_t)max);

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0) {
        fill_job(st, &job);
        if (!on_job(data, &job))
            return 0;
    }
    return r;
}

int kr_store_jobs_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                       void (*on_job)(void *data, const struct kr_store_job *job), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_job job;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_JOB_LIST, &st, err, "tit", owner, w.time, w.id)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0 && kr_walk_more(&w, true)) {
        fill_job(st, &job);
        kr_walk_at(&w, job.started, job.id);
        on_job(data, &job);
    }
    return r < 0 ? r : (int)w.given;
}

/* ---- jobs of processes that have ended ---- */

static int find_orphans(struct kr_store *s, struct kr_store_job *jobs, int max, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int count = 0, r = kr_st_open(s, KR_ST_JOB_OPEN, &st, err, "");

    while (r >= 0 && count < max && (r = kr_st_step(s, st, err)) > 0)
        if (!kr_store_holder_lives(s, sqlite3_column_int64(st, 15)))
            fill_job(st, &jobs[count++]);
    return r < 0 ? r : count;
}

/* Found and taken in one transaction, so that of two processes that start one has each. */
static int take_orphans(struct kr_store *s, struct kr_store_job *jobs, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int count, r = kr_txn_begin(&t, s, err);

    if (r < 0)
        return r;
    count = find_orphans(s, jobs, KR_STORE_JOBS_ADOPT_MAX, err);
    for (int i = 0; i < count; i++) {
        jobs[i].attempt++;
        r = kr_st_exec(s, KR_ST_JOB_ADOPT, err, "tii", jobs[i].id, s->holder, (int64_t)jobs[i].attempt);
        if (r < 0)
            return r;
    }
    if (count > 0 && (r = kr_txn_commit(&t, true, err)) < 0)
        return r;
    return count;
}

int kr_store_jobs_adopt(struct kr_store *s, void (*on_job)(void *data, const struct kr_store_job *job), void *data,
                        struct kr_err *err)
{
    struct kr_store_job *jobs = calloc(KR_STORE_JOBS_ADOPT_MAX, sizeof *jobs);
    int count;

    if (!jobs)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read jobs");
    count = take_orphans(s, jobs, err);
    for (int i = 0; i < count; i++)
        on_job(data, &jobs[i]);
    free(jobs);
    return count;
}

/* ---- retention ---- */

int kr_store_jobs_prune(struct kr_store *s, int64_t since, void (*on_gone)(void *data, const struct kr_store_job *job),
                        void *data, struct kr_err *err)
{
    struct kr_store_job *jobs = calloc(KR_STORE_PRUNE_MAX, sizeof *jobs);
    int count = 0, r;

    if (!jobs)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the store cannot read jobs");
    {
        cleanup_st sqlite3_stmt *st = NULL;

        r = kr_st_open(s, KR_ST_JOB_OLDEST, &st, err, "ii", since, (int64_t)KR_STORE_PRUNE_MAX);
        while (r >= 0 && count < (int)KR_STORE_PRUNE_MAX && (r = kr_st_step(s, st, err)) > 0)
            fill_job(st, &jobs[count++]);
    }
    if (r >= 0 && count > 0)
        r = kr_store_logs_mark(s, jobs[count - 1].ended, false, err);
    for (int i = 0; i < count && r >= 0; i++) {
        r = kr_st_exec(s, KR_ST_JOB_DELETE, err, "t", jobs[i].id);
        if (r >= 0)
            on_gone(data, &jobs[i]);
    }
    free(jobs);
    return r < 0 ? r : count;
}
