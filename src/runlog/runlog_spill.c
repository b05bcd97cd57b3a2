/* Logs on their way to their files and back: the jobs on the thread pool.
 *
 * Called by the other files of the log. Invariant: a job touches nothing but its own struct and events that are
 * pinned, which are neither changed nor freed until it is done; a log has one write under way at most, so a file
 * grows in order. */
#include "clock.h"
#include "log.h"
#include "runlog_internal.h"
#include "work.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct write_job {
    struct kr_work work;
    struct kr_runlog *log;
    int dirfd, result;
    char name[RL_NAME_MAX];
    uint64_t at, size;
    struct rl_event **events;
    size_t count;
};

struct scan_job {
    struct kr_work work;
    struct kr_runlog *log;
    int dirfd, result;
    char name[RL_NAME_MAX];
    struct rl_scan scan;
};

/* ---- when ---- */

bool rl_can_spill(const struct kr_runlog *log)
{
    const struct kr_runlogs *l = log->logs;

    if (log->memory_only || log->scanning || l->config.dirfd < 0 || log->retry_ns > 0)
        return false;
    return log->ended || log->file_len < l->config.run_file_max;
}

bool rl_is_behind(const struct kr_runlog *log)
{
    const struct kr_runlogs *l = log->logs;

    if (!rl_can_spill(log))
        return false;
    return log->unwritten > l->config.run_memory_max / 2 || (l->memory > l->soft_max && log->unwritten > RL_CHUNK);
}

void rl_arm_timer(struct kr_runlogs *l)
{
    if (!l->closed && !kr_timer_armed(l->timer))
        kr_timer_arm(l->timer, (l->config.flush_ms + 1) / 2);
}

/* A run that has just begun may be over in a moment, and then needs no file. */
static bool is_young(const struct kr_runlog *log)
{
    size_t i = rl_index_of(log, log->written_seq + 1);
    uint64_t now = rl_now_ms();

    return !log->ended && i < log->count && rl_at(log, i)->time_ms <= now &&
           now - rl_at(log, i)->time_ms < log->logs->config.flush_ms / 2;
}

void rl_on_timer(void *data)
{
    struct kr_runlogs *l = data;
    struct kr_runlog *log;
    bool again = false;

    for (log = TAILQ_FIRST(&l->logs); log; log = TAILQ_NEXT(log, link)) {
        if (log->unwritten == 0 || log->memory_only)
            continue;
        if (log->retry_ns <= kr_clock_ns())
            log->retry_ns = 0;
        if (is_young(log)) {
            again = true;
            continue;
        }
        rl_write(log);
        again |= log->retry_ns > 0 || log->writing || log->write_waits;
    }
    if (again)
        rl_arm_timer(l);
}

/* ---- writing ---- */

static void run_write(void *data)
{
    struct write_job *job = data;

    job->result = rl_file_append(job->dirfd, job->name, job->at, job->events, job->count);
}

static void free_write_job(struct write_job *job)
{
    free(job->events);
    free(job);
}

/* An entry of the index for the record at `at`, if the last is far enough behind. Without memory there is none, and a
 * reader searches longer. */
static void index_record(struct kr_runlog *log, const struct rl_event *e, uint64_t at)
{
    if (log->index_count > 0 && at - log->index[log->index_count - 1].at < RL_CHUNK)
        return;
    if (log->index_count == log->index_room) {
        size_t room = log->index_room ? log->index_room * 2 : 4;
        void *grown = reallocarray(log->index, room, sizeof *log->index);

        if (!grown)
            return;
        log->index = grown;
        log->index_room = room;
    }
    log->index[log->index_count] =
        (struct rl_index){.seq = log->index_count ? e->seq : 0, .at = at, .offset = e->offset};
    log->index_count++;
}

static void note_written(struct kr_runlog *log, const struct write_job *job)
{
    struct kr_runlogs *l = log->logs;
    uint64_t at = job->at ? job->at : RL_FILE_START;

    for (size_t i = 0; i < job->count; i++) {
        size_t size = rl_size(job->events[i]);

        index_record(log, job->events[i], at);
        at += rl_file_size(job->events[i]);
        log->unwritten -= size;
        l->cached += size;
    }
    log->file_len = at;
    log->written_seq = log->pinned_seq;
    l->written += job->size;
    if (l->disk_error)
        kr_log(KR_LOG_INFO, "logs of runs are written again", NULL);
    l->disk_error = 0;
    /* The newest stay for readers at the front; an ended log stays whole if nothing is short. */
    rl_drop_cached(log, log->ended && l->memory < l->soft_max / 2 ? SIZE_MAX : RL_CHUNK);
}

static void note_failed(struct kr_runlog *log, int error)
{
    struct kr_runlogs *l = log->logs;

    if (l->disk_error != error)
        kr_log(KR_LOG_ERROR, "a run's log cannot be written: it stays in memory, as far as that goes",
               "run=%s error=%s", log->id, strerrorname_np(-error));
    l->disk_error = error;
    log->pinned_seq = log->written_seq;
    log->retry_ns = kr_clock_after_ms(RL_RETRY_MS);
    rl_arm_timer(l);
}

static void start_waiting(struct kr_runlogs *l);

static void call_on_room(struct kr_runlog *log)
{
    if (!log->paused || rl_is_behind(log))
        return;
    log->paused = false;
    if (log->on_room && !log->ended)
        log->on_room(log->data, log);
}

static void on_write_done(void *data)
{
    struct write_job *job = data;
    struct kr_runlog *log = job->log;
    struct kr_runlogs *l = log->logs;
    int r = job->result;

    l->jobs--;
    l->writes--;
    log->writing = false;
    log->stuck = false;
    if (l->closed) {
        free_write_job(job);
        rl_log_free(log);
        rl_maybe_free(l);
        return;
    }
    if (r == 0)
        note_written(log, job);
    else
        note_failed(log, r);
    free_write_job(job);
    start_waiting(l); /* before this one's next piece: each has its turn */
    if (r == 0 && (log->ended || log->paused || l->on_flushed || log->unwritten >= RL_CHUNK))
        rl_write(log);
    log->refs++; /* the next may give up the last other reference */
    call_on_room(log);
    if (l->closed)
        return; /* by it, and the log went with it */
    kr_runlog_unref(log);
    rl_flush_check(l);
}

/* Fills the job with what is to be written; 0 bytes if there is nothing. */
static int choose_events(struct write_job *job, struct kr_runlog *log)
{
    size_t i = rl_index_of(log, log->written_seq + 1), left = log->count - i;

    if (left == 0)
        return 0;
    job->events = calloc(left < RL_JOB_EVENTS ? left : RL_JOB_EVENTS, sizeof(struct rl_event *));
    if (!job->events)
        return -ENOMEM;
    for (; i < log->count && job->count < RL_JOB_EVENTS && job->size < RL_JOB_BYTES; i++) {
        struct rl_event *e = rl_at(log, i);

        job->events[job->count++] = e;
        job->size += rl_file_size(e);
    }
    return 0;
}

void rl_write(struct kr_runlog *log)
{
    static const struct kr_work_calls calls = {.run = run_write, .done = on_write_done};
    struct kr_runlogs *l = log->logs;
    struct write_job *job;
    int r;

    if (log->writing || log->doomed || log->written_seq == log->last_seq || !rl_can_spill(log) || l->closed)
        return;
    if (l->writes >= RL_WRITES_MAX) {
        if (!log->write_waits)
            TAILQ_INSERT_TAIL(&l->writes_waiting, log, write_link);
        log->write_waits = true;
        return;
    }
    rl_forget_write(log);
    job = calloc(1, sizeof *job);
    r = job ? choose_events(job, log) : -ENOMEM;
    if (r == 0 && job->count > 0) {
        job->log = log;
        job->dirfd = l->config.dirfd;
        job->at = log->file_len;
        memcpy(job->name, log->name, sizeof job->name);
        kr_work_start(l->loop, &job->work, &calls, job);
    }
    if (r < 0 || job->count == 0) {
        if (job)
            free_write_job(job);
        if (r < 0)
            note_failed(log, r);
        return;
    }
    log->pinned_seq = job->events[job->count - 1]->seq;
    log->writing = true;
    l->writes++;
    l->jobs++;
}

void rl_forget_write(struct kr_runlog *log)
{
    if (log->write_waits)
        TAILQ_REMOVE(&log->logs->writes_waiting, log, write_link);
    log->write_waits = false;
}

static void start_waiting(struct kr_runlogs *l)
{
    struct kr_runlog *log;

    while (l->writes < RL_WRITES_MAX && (log = TAILQ_FIRST(&l->writes_waiting))) {
        rl_forget_write(log);
        rl_write(log);
    }
}

/* ---- looking at a file ---- */

static void run_scan(void *data)
{
    struct scan_job *job = data;

    job->result = rl_file_scan(job->dirfd, job->name, &job->scan);
}

static void note_scanned(struct kr_runlog *log, const struct rl_scan *s)
{
    log->ended = true;
    log->truncated = s->truncated;
    log->cause = s->cause;
    log->last_seq = log->written_seq = log->pinned_seq = log->seen_seq = s->last_seq;
    log->bytes = s->bytes;
    log->ended_ms = s->ended_ms;
    log->file_len = s->len;
    log->index = s->index;
    log->index_count = log->index_room = s->index_count;
}

static void on_scan_done(void *data)
{
    struct scan_job *job = data;
    struct kr_runlog *log = job->log;
    struct kr_runlogs *l = log->logs;
    int r = job->result;

    l->jobs--;
    log->scanning = false;
    if (l->closed) {
        if (r == 0)
            free(job->scan.index);
        rl_log_free(log);
        rl_maybe_free(l);
    } else {
        if (r == 0)
            note_scanned(log, &job->scan);
        else
            log->failed = r;
        rl_call_all(log);
        rl_settle(log);
    }
    free(job);
}

int rl_scan(struct kr_runlog *log)
{
    static const struct kr_work_calls calls = {.run = run_scan, .done = on_scan_done};
    struct scan_job *job = calloc(1, sizeof *job);

    if (!job)
        return -ENOMEM;
    job->log = log;
    job->dirfd = log->logs->config.dirfd;
    memcpy(job->name, log->name, sizeof job->name);
    kr_work_start(log->logs->loop, &job->work, &calls, job);
    log->scanning = true;
    log->logs->jobs++;
    return 0;
}

/* ---- all at once ---- */

void rl_flush_check(struct kr_runlogs *l)
{
    void (*on_flushed)(void *) = l->on_flushed;

    if (!on_flushed || l->writes > 0 || !TAILQ_EMPTY(&l->writes_waiting))
        return;
    l->on_flushed = NULL;
    on_flushed(l->flushed_data);
}

int kr_runlogs_flush(struct kr_runlogs *l, void (*on_flushed)(void *data), void *data)
{
    struct kr_runlog *log;

    if (l->on_flushed)
        return -EBUSY;
    l->on_flushed = on_flushed;
    l->flushed_data = data;
    for (log = TAILQ_FIRST(&l->logs); log; log = TAILQ_NEXT(log, link)) {
        log->retry_ns = 0; /* one more try, whatever has been */
        rl_write(log);
    }
    rl_wake(l); /* which looks whether there is anything to wait for */
    return 0;
}
