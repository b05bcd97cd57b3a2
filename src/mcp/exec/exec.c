/* A run on behalf of a call, from its specification to the answer.
 *
 * Called by the tools that run something, and by read_run. Invariants: a call is answered exactly once or its on_cancel
 * came; a run whose call was cancelled is stopped; a run that outlives its call is watched for a bounded time
 * (exec_runs.c) or it ends with the call; every exec is freed by kr_mcp_exec_free() and nowhere else. */
#include "exec.h"
#include "clock.h"
#include "exec_internal.h"
#include "import_name.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define TASK_AFTER_MS 5000u /* a client that takes tasks gets one when a run has lasted so long */
#define START_MS 4000u      /* some clients give a call 5 s: one whose interpreter still starts is answered by then */
#define BEHIND_MS 2000u     /* how much longer a reader waits for what is in the log already */
#define BEHIND_LOOK_MS 20u
#define FIGURE_PX 1568u         /* longest side of a figure: models see no more */
#define FIGURE_BYTES (6u << 20) /* of base64 of a run's figures: with the text they fit KR_MCP_RESULT_MAX */

/* ---- life ---- */

static struct kr_mcp_exec *exec_new(struct kr_mcp_call *c)
{
    struct kr_mcp_exec *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->call = c;
    x->mcp = kr_mcp_of(c);
    x->box = kr_mcp_api(c)->box;
    kr_mcp_who_copy(&x->who, kr_mcp_caller(c));
    x->begun_ns = x->progress_ns = kr_clock_ns();
    kr_mcp_exec_init_outcome(x);
    return x;
}

/* Of the run, its log and the clock: only the answer is left to do. */
static void let_go_of_run(struct kr_mcp_exec *x)
{
    kr_runlog_reader_close(x->reader);
    kr_runlog_unref(x->log);
    kr_timer_close(x->timer);
    if (x->watching)
        kr_box_run_unwatch(x->box, x->o.run_id);
    x->reader = NULL;
    x->log = NULL;
    x->timer = NULL;
    x->watching = false;
}

void kr_mcp_exec_free(struct kr_mcp_exec *x)
{
    let_go_of_run(x);
    if (x->free_data)
        x->free_data(x->data);
    kr_mcp_exec_done_outcome(x);
    free(x);
}

static void on_exec_cancel(void *data, struct kr_mcp_call *c)
{
    struct kr_mcp_exec *x = data;
    struct kr_err err;

    (void)c;
    if (x->starting)
        kr_box_run_forget(x->starting); /* leave_cancels */
    else if (x->kind == KR_MCP_EXEC_RUNS && x->o.run_id[0])
        (void)kr_box_run_cancel(x->box, &x->who.caller, x->o.run_id, false, &err); /* -EALREADY: it is over */
    kr_mcp_exec_free(x);
}

/* For its task, if it is one. */
static const char *exec_status(void *data, char *buf, size_t size)
{
    const struct kr_mcp_exec *x = data;

    static_assert(KR_MCP_STATUS_ROOM >= KR_BOX_BEHIND_ROOM, "it fits");
    (void)size;
    return kr_box_run_behind_text(x->box, &x->who.caller, x->o.run_id, buf);
}

/* ---- answers ---- */

static void fail_exec(struct kr_mcp_exec *x, const struct kr_err *err)
{
    struct kr_mcp_call *c = x->call;

    kr_mcp_on_cancel(c, NULL, NULL);
    kr_mcp_exec_free(x);
    kr_mcp_tool_fail(c, err);
}

static void fail_memory(struct kr_mcp_exec *x)
{
    struct kr_err err;

    kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "a run");
    fail_exec(x, &err);
}

void kr_mcp_exec_render(struct kr_mcp_exec *x)
{
    x->render(x->call, &x->o, x->data);
    kr_mcp_exec_free(x);
}

/* Over, or as far as the answer is to go. */
static void finish_exec(struct kr_mcp_exec *x)
{
    kr_mcp_on_cancel(x->call, NULL, NULL);
    x->o.asks = !x->run.ended && x->question && kr_box_run_asks(x->box, &x->who.caller, x->o.run_id);
    let_go_of_run(x);
    kr_mcp_exec_close_outcome(x);
    if (!kr_mcp_exec_read_files(x))
        kr_mcp_exec_render(x);
}

/* ---- time ---- */

/* The log holds what has not been read yet. */
static bool is_behind(const struct kr_mcp_exec *x)
{
    struct kr_runlog_figures f;

    kr_runlog_figures(x->log, &f);
    return f.loading || (!f.failed && kr_runlog_next_seq(x->reader) <= f.last_seq);
}

static void arm(struct kr_mcp_exec *x, uint64_t now)
{
    uint64_t at = kr_mcp_exec_report(x, now);

    if (x->task_ns && (!at || x->task_ns < at))
        at = x->task_ns;
    if (x->answer_ns && !x->asked && (x->reader || x->start_only) && (!at || x->answer_ns < at))
        at = x->answer_ns;
    if (at)
        kr_timer_arm(x->timer, at > now ? (at - now + MS - 1) / MS : 0);
    else
        kr_timer_disarm(x->timer);
}

/* The time of the early answer has come. If its interpreter still starts, it is answered as soon as it has a log; else
 * the usual time counts. */
static void judge_start(struct kr_mcp_exec *x)
{
    x->start_only = false;
    if (!kr_box_run_awaits_modules(x->box, &x->who.caller, x->o.run_id))
        x->answer_ns = x->begun_ns + x->answer_after_ms * MS;
    else if (x->starting)
        kr_box_run_show(x->starting);
}

/* Does what is due: becomes a task, answers with what there is, tells. True: it has answered, and x is gone. */
static bool do_what_is_due(struct kr_mcp_exec *x)
{
    uint64_t now = kr_clock_ns();

    if (x->task_ns && now >= x->task_ns) {
        x->task_ns = 0;
        if (kr_mcp_task_begin(x->call) < 0 && x->answer_after_ms) /* no room for one more */
            x->answer_ns = x->begun_ns + x->answer_after_ms * MS;
    }
    if (x->start_only && now >= x->answer_ns)
        judge_start(x);
    if (x->answer_ns && now >= x->answer_ns && !x->asked && x->reader) {
        if (is_behind(x) && now < x->answer_ns + BEHIND_MS * MS) {
            kr_timer_arm(x->timer, BEHIND_LOOK_MS);
            return false;
        }
        if (x->kind == KR_MCP_EXEC_LOOKS || kr_mcp_runs_leave(x, KR_MCP_LEFT_RUNNING, KR_MCP_LEFT_MS) >= 0 ||
            x->kind == KR_MCP_EXEC_READS) {
            finish_exec(x);
            return true;
        }
        x->answer_ns = 0; /* it cannot be left: the call waits for its end */
    }
    arm(x, now);
    return false;
}

void kr_mcp_exec_go_on(struct kr_mcp_exec *x)
{
    uint64_t now = kr_clock_ns();

    if (x->answer_ns)
        x->answer_ns = now + x->answer_after_ms * MS;
    x->start_only = false;
    arm(x, now);
}

static void on_exec_timer(void *data)
{
    (void)do_what_is_due(data);
}

/* ---- following the log ---- */

/* A page that has something does not take more than it holds. */
static bool page_is_full(struct kr_mcp_exec *x, const struct kr_event *e)
{
    uint64_t have = x->run.out_bytes + x->run.err_bytes;

    return x->page_max && have > 0 && have + e->len > x->page_max &&
           (e->type == KR_EVENT_STDOUT || e->type == KR_EVENT_STDERR);
}

static void on_log_more(void *data, struct kr_runlog_reader *reader)
{
    struct kr_mcp_exec *x = data;
    struct kr_event e;
    struct kr_err err;
    int r;

    while ((r = kr_runlog_peek(reader, &e)) > 0) {
        if (page_is_full(x, &e)) {
            x->o.more = true;
            (void)kr_mcp_runs_leave(x, KR_MCP_LEFT_RUNNING, KR_MCP_LEFT_MS);
            finish_exec(x);
            return;
        }
        kr_mcp_exec_take(x, &e);
        kr_runlog_take(reader);
    }
    if (r < 0) {
        kr_err_set(&err, KR_ERR_NOT_FOUND, 0, "the log of run %s cannot be read", x->o.run_id);
        fail_exec(x, &err);
        return;
    }
    if (kr_runlog_done(reader)) {
        finish_exec(x);
        return;
    }
    if (x->asked && x->asked < x->question) { /* that one had the end of input: its answer is not that of the next */
        kr_mcp_unask(x->call, x);
        x->asked = 0;
    }
    if (!(x->question > x->answered && !x->asked && x->kind != KR_MCP_EXEC_LOOKS && kr_mcp_exec_ask(x)))
        (void)do_what_is_due(x);
}

/* From that number on. 0 or -ENOMEM. */
static int follow_log(struct kr_mcp_exec *x, struct kr_runlog *log, uint64_t from)
{
    kr_box_run_watch(x->box, x->o.run_id);
    x->watching = true;
    x->log = kr_runlog_ref(log);
    return kr_runlog_read(log, from, on_log_more, x, &x->reader);
}

/* ---- starting ---- */

static void on_run_admitted(void *data, struct kr_box_run *run, const struct kr_err *err)
{
    struct kr_mcp_exec *x = data;

    x->starting = NULL;
    if (!run)
        fail_exec(x, err);
    else if (follow_log(x, kr_box_run_log(run), 0) < 0)
        fail_memory(x);
}

/* How a client that sees this dialect's tools has a package installed; NULL: its list has no tool for that. Of krait's
 * and mcp-sandbox's, the run's own sandbox must be named if the run named one. */
static const char *install_call(enum kr_dialect dialect, bool in_sandbox)
{
    switch (dialect) {
    case KR_DIALECT_KRAIT:
        return in_sandbox ? "install_package(packages=\"" KR_IMPORT_NAME "\", sandbox_id=…)"
                          : "install_package(packages=\"" KR_IMPORT_NAME "\")";
    case KR_DIALECT_SANDBOX_SERVICE:
        return "pip_install(package=\"" KR_IMPORT_NAME "\")";
    case KR_DIALECT_PYTHON_EXECUTOR:
        return "install_package(package_names=\"" KR_IMPORT_NAME "\")";
    case KR_DIALECT_MCP_SANDBOX:
        return "install_package_in_sandbox(package_name=\"" KR_IMPORT_NAME "\", sandbox_id=…)";
    case KR_DIALECT_SANDBOX_MCP:
    case KR_DIALECT_PYTHON_SANDBOX:
    case KR_DIALECT_MAX_:
        break;
    }
    return NULL;
}

static void start_run(struct kr_mcp_exec *x, const struct kr_run_spec *wanted)
{
    struct kr_run_spec spec = *wanted;
    struct kr_err err;

    spec.install_call = install_call(kr_mcp_call_dialect(x->call), spec.sandbox != NULL);
    spec.interactive =
        !spec.input.text; /* a question that no client can answer is seen all the same, and ended by us */
    spec.leave_cancels = true;
    if (!spec.figure_px)
        spec.figure_px = FIGURE_PX;
    spec.figure_bytes = FIGURE_BYTES;
    if (kr_box_run_start(x->box, &x->who.caller, &spec, on_run_admitted, x, &x->starting, &err) < 0) {
        fail_exec(x, &err);
        return;
    }
    snprintf(x->o.run_id, sizeof x->o.run_id, "%s", kr_box_run_id(x->starting));
    arm(x, x->begun_ns);
}

/* The call is a retry that brings the answer to the question of a run. */
static void resume_run(struct kr_mcp_exec *x, const json_t *payload)
{
    struct kr_runlog *log;
    struct kr_err err;
    int r = kr_mcp_exec_retry(x, payload);

    if (r != 0)
        return;
    if (kr_box_run_open_log(x->box, &x->who.caller, x->o.run_id, &log, &err) < 0) {
        fail_exec(x, &err);
        return;
    }
    r = follow_log(x, log, 0);
    kr_runlog_unref(log);
    kr_mcp_runs_take(x->mcp, x->o.run_id); /* after it is watched again */
    if (r < 0)
        fail_memory(x);
    else
        arm(x, x->begun_ns);
}

static int set_times(struct kr_mcp_exec *x, uint64_t answer_after_ms)
{
    if (kr_mcp_task_possible(x->call) && !kr_mcp_is_task(x->call))
        x->task_ns = x->begun_ns + TASK_AFTER_MS * MS;
    if (answer_after_ms && !kr_mcp_is_task(x->call) && !kr_mcp_exec_reports(x))
        x->answer_after_ms = answer_after_ms;
    x->start_only = x->answer_after_ms > START_MS && !x->task_ns;
    if (x->answer_after_ms && !x->task_ns)
        x->answer_ns = x->begun_ns + (x->start_only ? START_MS : x->answer_after_ms) * MS;
    return kr_timer_new(kr_mcp_api(x->call)->loop, on_exec_timer, x, &x->timer);
}

void kr_mcp_run(struct kr_mcp_call *c, const struct kr_mcp_run_spec *spec)
{
    struct kr_mcp_exec *x;
    json_t *payload = NULL;
    int r = kr_mcp_state_open(c, &payload);

    if (r < 0) { /* answered */
        if (spec->free_data)
            spec->free_data(spec->data);
        return;
    }
    x = exec_new(c);
    if (!x) {
        if (spec->free_data)
            spec->free_data(spec->data);
        json_decref(payload);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return;
    }
    x->render = spec->render;
    x->free_data = spec->free_data;
    x->data = spec->data;
    x->ask_client = spec->ask_client;
    x->small_files = spec->small_files;
    if (set_times(x, spec->answer_after_ms) < 0) {
        fail_memory(x);
    } else {
        kr_mcp_on_cancel(c, on_exec_cancel, x);
        kr_mcp_on_status(c, exec_status);
        if (r > 0)
            resume_run(x, payload);
        else
            start_run(x, &spec->spec);
    }
    json_decref(payload);
}

typedef void render_fn(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data);

/* One that reads a run that is there; payload: of the retry that the call is, or NULL. */
static void read_on(struct kr_mcp_exec *x, uint64_t from, uint64_t wait_ms, const json_t *payload)
{
    struct kr_runlog *log;
    struct kr_err err;
    int r;

    x->ask_client = true;
    x->page_max = from > 0 ? KR_MCP_SHOWN_MAX : 0;
    x->o.page = from > 0;
    x->answer_after_ms = wait_ms;
    x->answer_ns = x->begun_ns + wait_ms * MS;
    kr_mcp_on_cancel(x->call, on_exec_cancel, x);
    if (payload && kr_mcp_exec_retry(x, payload) != 0)
        return;
    if (kr_timer_new(kr_mcp_api(x->call)->loop, on_exec_timer, x, &x->timer) < 0) {
        fail_memory(x);
        return;
    }
    if (kr_box_run_open_log(x->box, &x->who.caller, x->o.run_id, &log, &err) < 0) {
        fail_exec(x, &err);
        return;
    }
    r = follow_log(x, log, from);
    kr_runlog_unref(log);
    if (payload)
        kr_mcp_runs_take(x->mcp, x->o.run_id);
    if (r < 0)
        fail_memory(x);
    else
        arm(x, x->begun_ns);
}

static struct kr_mcp_exec *reader_new(struct kr_mcp_call *c, const char *run_id, render_fn *render, void *data)
{
    struct kr_mcp_exec *x = exec_new(c);

    if (!x) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    x->kind = KR_MCP_EXEC_READS;
    x->render = render;
    x->data = data;
    snprintf(x->o.run_id, sizeof x->o.run_id, "%s", run_id);
    return x;
}

void kr_mcp_run_read(struct kr_mcp_call *c, const char *run_id, uint64_t from, uint64_t wait_ms, render_fn *render,
                     void *data)
{
    struct kr_mcp_exec *x = reader_new(c, run_id, render, data);

    if (!x)
        return;
    x->kind = KR_MCP_EXEC_LOOKS;
    read_on(x, from, wait_ms, NULL);
}

void kr_mcp_run_go_on(struct kr_mcp_call *c, const char *run_id, uint64_t from, uint64_t wait_ms, render_fn *render,
                      void *data)
{
    json_t *payload = NULL;
    struct kr_mcp_exec *x;

    if (!(kr_mcp_caller(c)->rights & KR_RIGHT_RUN)) { /* to answer for a run is to run it */
        kr_mcp_run_read(c, run_id, from, wait_ms, render, data);
        return;
    }
    x = kr_mcp_state_open(c, &payload) < 0 ? NULL : reader_new(c, run_id, render, data);
    if (x)
        read_on(x, from, wait_ms, payload);
    json_decref(payload);
}
