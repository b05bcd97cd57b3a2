/* The life of a job, from its row to its end.
 *
 * Called by the kinds (src/api/accounts/user_delete.c) and by `krait serve`. Invariants: a job's row is in the store
 * before its kind begins it; it ends once; after kr_job_end() nothing of it is touched. When the process ends or is
 * killed, the row stays open and kr_jobs_resume() of the next process finds it. */
#include "job.h"
#include "buf.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include "loop.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRESS_MS 1000u
#define PRUNE_MS 60000u
#define PRUNE_AGAIN_MS 100u
#define LOG_ID_ROOM (KR_STORE_ID_ROOM + 12)
#define EVENT_MAX 4096u

enum kr_job_state { KR_JOB_OPEN, KR_JOB_CANCELLING, KR_JOB_OVER, KR_JOB_STATE_MAX_ };

struct kr_job {
    LIST_ENTRY(kr_job) link;
    struct kr_jobs *jobs;
    const struct kr_job_kind *kind;
    enum kr_job_state state;
    struct kr_store_job row;
    struct kr_runlog *log; /* NULL: it has none */
    uint64_t noted_ns;     /* when its progress was written last */
    char *result;          /* a JSON object; NULL: none */
    void *data;
    LIST_HEAD(, kr_job_watch) watches;
};

struct registered {
    const struct kr_job_kind *kind;
    void *app;
};

struct kr_jobs {
    struct uv_loop_s *loop;
    struct kr_jobs_config config;
    struct registered kinds[KR_JOB_KINDS_MAX];
    size_t kind_count;
    LIST_HEAD(, kr_job) open;
    unsigned count;
    struct kr_timer *pruner;
};

/* ---- retention ---- */

static const char *log_id(const struct kr_store_job *row, unsigned attempt, char id[static LOG_ID_ROOM])
{
    if (attempt <= 1)
        snprintf(id, LOG_ID_ROOM, "%s", row->id);
    else
        snprintf(id, LOG_ID_ROOM, "%s-%u", row->id, attempt % 1000000);
    return id;
}

static void on_job_pruned(void *data, const struct kr_store_job *row)
{
    const struct kr_jobs *jobs = data;
    char id[LOG_ID_ROOM];

    for (unsigned i = 1; jobs->config.logs && i <= row->attempt; i++)
        (void)kr_runlogs_delete(jobs->config.logs, log_id(row, i, id)); /* a small log is with its row */
}

static void on_prune(void *data)
{
    struct kr_jobs *jobs = data;
    int64_t since = kr_store_now() - (int64_t)jobs->config.retention_ms * 1000;
    struct kr_err err;
    int r = kr_store_jobs_prune(jobs->config.store, since, on_job_pruned, jobs, &err);

    if (r < 0)
        kr_log(KR_LOG_WARN, "retention of jobs", "error=\"%s\"", err.msg);
    kr_timer_arm(jobs->pruner, r > 0 ? PRUNE_AGAIN_MS : PRUNE_MS);
}

/* ---- all jobs ---- */

int kr_jobs_new(struct uv_loop_s *loop, const struct kr_jobs_config *config, struct kr_jobs **ret_jobs,
                struct kr_err *err)
{
    struct kr_jobs *jobs = calloc(1, sizeof *jobs);

    if (!jobs || kr_timer_new(loop, on_prune, jobs, &jobs->pruner) < 0) {
        free(jobs);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "jobs");
    }
    jobs->loop = loop;
    jobs->config = *config;
    if (!jobs->config.max)
        jobs->config.max = KR_JOBS_MAX;
    if (!jobs->config.user_max)
        jobs->config.user_max = KR_JOBS_USER_MAX;
    LIST_INIT(&jobs->open);
    if (config->retention_ms)
        kr_timer_arm(jobs->pruner, PRUNE_MS);
    *ret_jobs = jobs;
    return 0;
}

void kr_jobs_retain(struct kr_jobs *jobs, uint64_t retention_ms)
{
    jobs->config.retention_ms = retention_ms;
    if (retention_ms)
        kr_timer_arm(jobs->pruner, PRUNE_MS);
    else
        kr_timer_disarm(jobs->pruner);
}

static const struct registered *find_kind(const struct kr_jobs *jobs, const char *name)
{
    for (size_t i = 0; i < jobs->kind_count; i++)
        if (strcmp(jobs->kinds[i].kind->name, name) == 0)
            return &jobs->kinds[i];
    return NULL;
}

int kr_jobs_add_kind(struct kr_jobs *jobs, const struct kr_job_kind *kind, void *app)
{
    if (find_kind(jobs, kind->name))
        return -EEXIST;
    if (jobs->kind_count == KR_JOB_KINDS_MAX)
        return -ENOBUFS;
    jobs->kinds[jobs->kind_count++] = (struct registered){kind, app};
    return 0;
}

static struct kr_job *find_open(const struct kr_jobs *jobs, const char *owner, const char *id)
{
    struct kr_job *job;

    LIST_FOREACH(job, &jobs->open, link)
    if (strcmp(job->row.id, id) == 0 && (!owner || strcmp(job->row.owner, owner) == 0))
        return job;
    return NULL;
}

/* ---- the log ---- */

static void log_started(struct kr_job *job)
{
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    kr_buf_init(&out, EVENT_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "job", job->row.id);
    kr_json_key_str(&j, "kind", job->row.kind);
    kr_json_key_str(&j, "subject", job->row.subject);
    kr_json_key_uint(&j, "attempt", job->row.attempt);
    kr_json_object_end(&j);
    if (kr_json_done(&j) >= 0)
        (void)kr_runlog_add(job->log, KR_EVENT_STARTED, kr_buf_str(&out), out.len);
}

static void write_progress(struct kr_json *j, const struct kr_store_job *row)
{
    kr_json_key_uint(j, "done", row->done);
    if (row->total)
        kr_json_key_uint(j, "total", row->total);
    else
        kr_json_key_null(j, "total");
    kr_json_key_str(j, "text", row->text);
}

static void log_progress(struct kr_job *job)
{
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    kr_buf_init(&out, EVENT_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "code", "progress");
    write_progress(&j, &job->row);
    kr_json_object_end(&j);
    if (kr_json_done(&j) >= 0)
        (void)kr_runlog_add(job->log, KR_EVENT_NOTICE, kr_buf_str(&out), out.len);
}

/* Ends the log; the bytes of a small one are left in `packed`. */
static void log_end(struct kr_job *job, enum kr_cause cause, struct kr_buf *packed)
{
    cleanup_buf struct kr_buf out = {0};
    struct kr_json j;

    kr_buf_init(&out, EVENT_MAX + KR_JOB_RESULT_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "cause", job->row.cause);
    kr_json_key_str(&j, "message", job->row.message[0] ? job->row.message : NULL);
    write_progress(&j, &job->row);
    if (job->result) {
        kr_json_key(&j, "result");
        kr_json_raw(&j, job->result, strlen(job->result));
    }
    kr_json_object_end(&j);
    (void)kr_json_done(&j);
    (void)kr_runlog_end_packed(job->log, cause, kr_buf_str(&out), out.len, packed);
    kr_runlog_unref(job->log);
    job->log = NULL;
}

/* A job without a log still works. */
static void open_log(struct kr_job *job)
{
    char id[LOG_ID_ROOM];
    struct kr_runlog_spec spec = {.id = log_id(&job->row, job->row.attempt, id)};
    int r = job->jobs->config.logs ? kr_runlog_new(job->jobs->config.logs, &spec, &job->log) : -ENOENT;

    if (r >= 0)
        log_started(job);
    else
        job->log = NULL;
}

/* ---- one job ---- */

static struct kr_job *new_job(struct kr_jobs *jobs, const struct kr_job_kind *kind, const struct kr_store_job *row)
{
    struct kr_job *job = calloc(1, sizeof *job);

    if (!job)
        return NULL;
    job->jobs = jobs;
    job->kind = kind;
    job->row = *row;
    LIST_INIT(&job->watches);
    LIST_INSERT_HEAD(&jobs->open, job, link);
    jobs->count++;
    open_log(job);
    return job;
}

static void free_job(struct kr_job *job)
{
    LIST_REMOVE(job, link);
    job->jobs->count--;
    kr_runlog_unref(job->log);
    free(job->result);
    free(job);
}

static int check_bounds(const struct kr_jobs *jobs, const struct kr_job_kind *kind, const char *owner,
                        struct kr_err *err)
{
    unsigned of_user = 0, of_kind = 0;
    const struct kr_job *job;

    if (jobs->count >= jobs->config.max)
        return kr_err_set(err, KR_ERR_BUSY, 0, "%u jobs are running already: try again in a moment", jobs->count);
    LIST_FOREACH(job, &jobs->open, link)
    if (strcmp(job->row.owner, owner) == 0) {
        of_user++;
        of_kind += job->kind == kind;
    }
    if (of_user >= jobs->config.user_max || (kind->user_max && of_kind >= kind->user_max))
        return kr_err_set(err, KR_ERR_TOO_MANY, 0,
                          "you have %u jobs of this kind running already, %u in all: wait for one", of_kind, of_user);
    return 0;
}

static int fill_text(char *out, size_t size, const char *field, const char *text, struct kr_err *err)
{
    if (strlen(text ? text : "") >= size)
        return kr_err_set(err, KR_ERR_INVALID, 0, "%s: longer than %zu bytes", field, size - 1), -EINVAL;
    snprintf(out, size, "%s", text ? text : "");
    return 0;
}

static int fill_row(struct kr_store_job *row, const struct kr_job_spec *spec, struct kr_err *err)
{
    int r;

    *row = (struct kr_store_job){.attempt = 1, .started = kr_store_now()};
    kr_store_new_id(row->id);
    snprintf(row->address, sizeof row->address, "%s", spec->address ? spec->address : "");
    snprintf(row->request, sizeof row->request, "%s", spec->request ? spec->request : "");
    if ((r = fill_text(row->kind, sizeof row->kind, "kind", spec->kind, err)) < 0 ||
        (r = fill_text(row->owner, sizeof row->owner, "owner", spec->owner, err)) < 0 ||
        (r = fill_text(row->subject, sizeof row->subject, "subject", spec->subject, err)) < 0 ||
        (r = fill_text(row->params, sizeof row->params, "params", spec->params ? spec->params : "{}", err)) < 0)
        return r;
    return 0;
}

/* Ends it in its row: a failure is logged, and the next process finds the row open. */
static void note_end(struct kr_jobs *jobs, struct kr_store_job *row, enum kr_cause cause, const struct kr_err *why,
                     const char *result, const struct kr_buf *packed)
{
    bool has_log = packed && packed->len > 0;
    struct kr_err err;

    row->ended = kr_store_now();
    snprintf(row->cause, sizeof row->cause, "%s", kr_cause_rows[cause].name);
    snprintf(row->message, sizeof row->message, "%s", why ? why->msg : "");
    if (kr_store_job_end(jobs->config.store, row, result, has_log ? packed->data : NULL, has_log ? packed->len : 0,
                         &err) < 0)
        kr_log(KR_LOG_ERROR, "end of a job lost", "job=%s kind=%s error=\"%s\"", row->id, row->kind, err.msg);
}

int kr_job_start(struct kr_jobs *jobs, const struct kr_job_spec *spec, struct kr_job **ret_job, struct kr_err *err)
{
    const struct registered *reg = find_kind(jobs, spec->kind);
    struct kr_store_job row;
    struct kr_job *job;
    int r;

    if (!reg)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "no job of kind %.32s", spec->kind);
    if ((r = check_bounds(jobs, reg->kind, spec->owner, err)) < 0 || (r = fill_row(&row, spec, err)) < 0 ||
        (r = kr_store_job_start(jobs->config.store, &row, err)) < 0)
        return r;
    job = new_job(jobs, reg->kind, &row);
    r = job ? reg->kind->start(job, reg->app, err) : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "job");
    if (r < 0 && job)
        kr_job_end(job, KR_CAUSE_EXCEPTION, err);
    else if (r < 0)
        note_end(jobs, &row, KR_CAUSE_EXCEPTION, err, NULL, NULL);
    else
        *ret_job = job;
    return r < 0 ? r : 0;
}

const struct kr_store_job *kr_job_row(const struct kr_job *job)
{
    return &job->row;
}

void kr_job_set_data(struct kr_job *job, void *data)
{
    job->data = data;
}

void *kr_job_data(const struct kr_job *job)
{
    return job->data;
}

void kr_job_progress(struct kr_job *job, uint64_t done, uint64_t total, const char *text)
{
    uint64_t now = kr_clock_ns();
    struct kr_err err;

    job->row.done = done;
    job->row.total = total;
    snprintf(job->row.text, sizeof job->row.text, "%s", text ? text : "");
    if (job->noted_ns && (now - job->noted_ns) / 1000000 < PROGRESS_MS)
        return;
    job->noted_ns = now;
    if (job->log)
        log_progress(job);
    if (kr_store_job_progress(job->jobs->config.store, &job->row, &err) < 0)
        kr_log(KR_LOG_WARN, "progress of a job lost", "job=%s error=\"%s\"", job->row.id, err.msg);
}

void kr_job_text(struct kr_job *job, enum kr_stream stream, const char *text, size_t len)
{
    if (job->log)
        (void)kr_runlog_text(job->log, stream, text, len); /* 1: the disk is behind, and the log cuts what it must */
}

int kr_job_set_result(struct kr_job *job, const char *json)
{
    char *copy;

    if (strlen(json) > KR_JOB_RESULT_MAX)
        return -E2BIG;
    copy = strdup(json);
    if (!copy)
        return -ENOMEM;
    free(job->result);
    job->result = copy;
    return 0;
}

void kr_job_end(struct kr_job *job, enum kr_cause cause, const struct kr_err *err)
{
    cleanup_buf struct kr_buf packed = {0};
    struct kr_job_watch *watch;

    assert(job->state != KR_JOB_OVER);
    job->state = KR_JOB_OVER;
    kr_buf_init(&packed, 1u << 20);
    snprintf(job->row.cause, sizeof job->row.cause, "%s", kr_cause_rows[cause].name);
    snprintf(job->row.message, sizeof job->row.message, "%s", err ? err->msg : "");
    if (job->log)
        log_end(job, cause, &packed);
    note_end(job->jobs, &job->row, cause, err, job->result, &packed);
    while ((watch = LIST_FIRST(&job->watches))) {
        LIST_REMOVE(watch, link);
        watch->on_end(watch, &job->row, err);
    }
    free_job(job);
}

/* ---- what earlier processes left ---- */

static void on_orphan(void *data, const struct kr_store_job *row)
{
    struct kr_jobs *jobs = data;
    const struct registered *reg = find_kind(jobs, row->kind);
    struct kr_store_job lost = *row;
    struct kr_job *job = NULL;
    struct kr_err err;
    int r;

    if (reg && reg->kind->continues)
        job = new_job(jobs, reg->kind, row);
    if (!job) {
        kr_log(KR_LOG_WARN, "job lost with its process", "job=%s kind=%s subject=\"%.100s\"", row->id, row->kind,
               row->subject);
        note_end(jobs, &lost, KR_CAUSE_LOST, NULL, NULL, NULL);
        return;
    }
    kr_log(KR_LOG_INFO, "job continued", "job=%s kind=%s subject=\"%.100s\" attempt=%u", row->id, row->kind,
           row->subject, row->attempt);
    r = reg->kind->start(job, reg->app, &err);
    if (r < 0)
        kr_job_end(job, KR_CAUSE_EXCEPTION, &err);
}

int kr_jobs_resume(struct kr_jobs *jobs, struct kr_err *err)
{
    int all = 0, r;

    do {
        r = kr_store_jobs_adopt(jobs->config.store, on_orphan, jobs, err);
        all += r > 0 ? r : 0;
    } while (r == KR_STORE_JOBS_ADOPT_MAX); /* there may be more */
    return r < 0 ? r : all;
}

void kr_jobs_close(struct kr_jobs *jobs)
{
    struct kr_job *job;

    if (!jobs)
        return;
    while ((job = LIST_FIRST(&jobs->open))) {
        job->kind->close(job);
        if (!job->kind->continues)
            note_end(jobs, &job->row, KR_CAUSE_LOST, NULL, job->result, NULL);
        free_job(job);
    }
    kr_timer_close(jobs->pruner);
    free(jobs);
}

/* ---- watching and steering ---- */

void kr_job_watch(struct kr_job *job, struct kr_job_watch *watch)
{
    LIST_INSERT_HEAD(&job->watches, watch, link);
}

void kr_job_unwatch(struct kr_job_watch *watch)
{
    LIST_REMOVE(watch, link);
}

bool kr_job_is_watched(const struct kr_job *job)
{
    return !LIST_EMPTY(&job->watches);
}

struct kr_job *kr_jobs_running(const struct kr_jobs *jobs, const char *owner, const char *id)
{
    return find_open(jobs, owner, id);
}

int kr_jobs_find(struct kr_jobs *jobs, const char *owner, const char *id, struct kr_store_job *ret_row,
                 struct kr_err *err)
{
    const struct kr_job *job = find_open(jobs, owner, id);

    if (!job)
        return kr_store_job_get(jobs->config.store, owner, id, ret_row, err);
    *ret_row = job->row;
    return 0;
}

int kr_jobs_result(struct kr_jobs *jobs, const char *id, char **ret_result, struct kr_err *err)
{
    return kr_store_job_result(jobs->config.store, id, ret_result, err);
}

int kr_jobs_open_log(struct kr_jobs *jobs, const struct kr_store_job *row, struct kr_runlog **ret_log)
{
    char id[LOG_ID_ROOM];
    void *bytes = NULL;
    struct kr_err ignored;
    size_t len;
    int r;

    if (!jobs->config.logs)
        return -ENOENT;
    log_id(row, row->attempt, id);
    if (row->ended && kr_store_job_log(jobs->config.store, row->id, &bytes, &len, &ignored) >= 0)
        r = kr_runlog_open_packed(jobs->config.logs, id, bytes, len, ret_log);
    else
        r = kr_runlog_open(jobs->config.logs, id, ret_log);
    free(bytes);
    return r;
}

int kr_jobs_cancel(struct kr_jobs *jobs, const char *owner, const char *id, struct kr_err *err)
{
    struct kr_job *job = find_open(jobs, owner, id);

    if (!job)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "no such job is running"), -ENOENT;
    if (!job->kind->cancel)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "a job of kind %s cannot be cancelled", job->kind->name);
    if (job->state == KR_JOB_OPEN) {
        job->state = KR_JOB_CANCELLING;
        job->kind->cancel(job);
    }
    return 0;
}
