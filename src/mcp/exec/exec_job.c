/* A call that waits for a job. Called by the tools that start one.
 *
 * Invariants: a call is answered exactly once or its on_cancel came; a job that this call has started and for which no
 * other call waits ends with the call's cancelling; a job that outlives the answer goes on. Every follower is freed by
 * close_follower() and nowhere else. */
#include "exec_job.h"
#include "api.h"
#include "call_input.h"
#include "clock.h"
#include "err.h"
#include "exec_internal.h"
#include "install.h"
#include "loop.h"
#include "render.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define LOOK_MS 250u        /* how often its progress is looked at, for clients that want to hear of it */
#define TASK_AFTER_MS 5000u /* as for runs (exec.c) */

struct follower {
    struct kr_job_watch watch;
    struct kr_mcp_call *call;
    struct kr_api *api;
    struct kr_timer *timer;
    struct kr_mcp_job_spec spec;
    uint64_t begun_ns, told_ns;
    uint64_t answer_ns, task_ns, limit_ns; /* 0: never */
    double progress;
    char told[KR_MCP_JOB_TEXT_ROOM];
};

const char *kr_mcp_job_text(const struct kr_store_job *row, char buf[KR_MCP_JOB_TEXT_ROOM])
{
    const char *text = row->text[0] ? row->text : "waiting";
    char done[24], total[24];

    if (row->total)
        snprintf(buf, KR_MCP_JOB_TEXT_ROOM, "%s (%s of %s)", text, kr_mcp_show_size(row->done, done),
                 kr_mcp_show_size(row->total, total));
    else
        snprintf(buf, KR_MCP_JOB_TEXT_ROOM, "%s", text);
    return buf;
}

static void close_follower(struct follower *f)
{
    kr_timer_close(f->timer);
    if (f->spec.free_data)
        f->spec.free_data(f->spec.data);
    free(f);
}

/* ---- answers ---- */

/* The job is not watched any more. */
static void render_job(struct follower *f, const struct kr_mcp_job_state *state)
{
    kr_mcp_on_cancel(f->call, NULL, NULL);
    f->spec.render(f->call, state, f->spec.data);
    close_follower(f);
}

static void on_job_over(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *err)
{
    struct follower *f = (struct follower *)watch; /* its first member */
    json_t *result = kr_install_result(f->api->install, row);
    const struct kr_mcp_job_state state = {.row = row, .result = result};

    (void)err;
    render_job(f, &state);
    json_decref(result);
}

/* Ends a job that no other call waits for. */
static void let_job_end(struct follower *f)
{
    struct kr_err ignored;

    if (f->spec.own && !kr_job_is_watched(f->spec.job))
        (void)kr_jobs_cancel(f->api->jobs, kr_mcp_caller(f->call)->user, kr_job_row(f->spec.job)->id, &ignored);
}

static void on_follower_cancel(void *data, struct kr_mcp_call *c)
{
    struct follower *f = data;

    (void)c;
    kr_job_unwatch(&f->watch);
    let_job_end(f);
    close_follower(f);
}

static void answer_as_it_is(struct follower *f, bool timed_out)
{
    struct kr_store_job row = *kr_job_row(f->spec.job); /* a job that is cancelled may be gone at once */
    const struct kr_mcp_job_state state = {.row = &row, .timed_out = timed_out};

    kr_job_unwatch(&f->watch);
    if (timed_out)
        let_job_end(f);
    render_job(f, &state);
}

/* ---- time ---- */

static bool reports(const struct follower *f)
{
    return kr_mcp_has_token(f->call) && !kr_mcp_is_task(f->call);
}

static void tell_progress(struct follower *f, uint64_t now)
{
    double seconds = (double)(now - f->begun_ns) / 1e9;
    char text[KR_MCP_JOB_TEXT_ROOM];

    kr_mcp_job_text(kr_job_row(f->spec.job), text);
    if (f->told_ns && strcmp(text, f->told) == 0 && now - f->told_ns < KR_MCP_BEAT_MS * MS)
        return;
    memcpy(f->told, text, sizeof f->told);
    f->told_ns = now;
    f->progress = seconds > f->progress ? seconds : f->progress + 0.001;
    kr_mcp_progress(f->call, f->progress, -1, text);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static void arm_follower(struct follower *f, uint64_t now)
{
    uint64_t at = sooner(sooner(f->answer_ns, f->task_ns), f->limit_ns);

    if (reports(f))
        at = sooner(at, now + LOOK_MS * MS);
    if (at)
        kr_timer_arm(f->timer, at > now ? (at - now + MS - 1) / MS : 0);
}

static void on_follower_timer(void *data)
{
    struct follower *f = data;
    uint64_t now = kr_clock_ns();

    if (f->limit_ns && now >= f->limit_ns) {
        answer_as_it_is(f, true);
        return;
    }
    if (f->task_ns && now >= f->task_ns) {
        f->task_ns = 0;
        if (kr_mcp_task_begin(f->call) >= 0)
            f->answer_ns = 0;
    }
    if (f->answer_ns && now >= f->answer_ns && !f->task_ns) {
        answer_as_it_is(f, false);
        return;
    }
    if (reports(f))
        tell_progress(f, now);
    arm_follower(f, now);
}

/* For its task, if it is one. */
static const char *follower_status(void *data, char *buf, size_t size)
{
    const struct follower *f = data;
    char text[KR_MCP_JOB_TEXT_ROOM];

    snprintf(buf, size, "%s", kr_mcp_job_text(kr_job_row(f->spec.job), text));
    return buf;
}

static void set_follower_times(struct follower *f)
{
    const struct kr_mcp_job_spec *spec = &f->spec;
    bool patient = kr_mcp_is_task(f->call) || reports(f);

    f->begun_ns = kr_clock_ns();
    if (spec->limit_ms)
        f->limit_ns = f->begun_ns + spec->limit_ms * MS;
    if (spec->answer_after_ms && (spec->at_once || !patient))
        f->answer_ns = f->begun_ns + spec->answer_after_ms * MS;
    if (!spec->at_once && kr_mcp_task_possible(f->call) && !kr_mcp_is_task(f->call))
        f->task_ns = f->begun_ns + TASK_AFTER_MS * MS;
}

void kr_mcp_job_follow(struct kr_mcp_call *c, const struct kr_mcp_job_spec *spec)
{
    struct follower *f = calloc(1, sizeof *f);

    if (!f || kr_timer_new(kr_mcp_api(c)->loop, on_follower_timer, f, &f->timer) < 0) {
        free(f);
        if (spec->free_data)
            spec->free_data(spec->data);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return;
    }
    f->call = c;
    f->api = kr_mcp_api(c);
    f->spec = *spec;
    f->watch.on_end = on_job_over;
    kr_job_watch(spec->job, &f->watch);
    set_follower_times(f);
    kr_mcp_on_cancel(c, on_follower_cancel, f);
    kr_mcp_on_status(c, follower_status);
    if (reports(f))
        tell_progress(f, f->begun_ns);
    arm_follower(f, f->begun_ns);
}
