/* The life of a job: its turn, its steps, its end.
 *
 * Called by src/job (start, cancel, close), by the steps and by the loop. Invariants: one job of a sandbox is past
 * WAITING at a time, in the order in which they were asked for; a job ends once, when nothing of it is under way on a
 * thread, in a cell or in the egress process; what has failed has changed nothing. */
#include "clock.h"
#include "fd.h"
#include "install_internal.h"
#include "log.h"
#include "loop.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- steps ---- */

void kr_install_set_step(struct kr_install_job *j, enum kr_install_step next)
{
#define TO(step) (1u << KR_STEP_##step)
    static const unsigned allowed[KR_STEP_MAX_] = {
        [KR_STEP_WAITING] = TO(READING) | TO(LEAVING),
        [KR_STEP_READING] = TO(RESOLVING) | TO(FETCHING) | TO(MAKING) | TO(LEAVING),
        [KR_STEP_RESOLVING] = TO(FETCHING) | TO(LEAVING),
        [KR_STEP_FETCHING] = TO(MAKING) | TO(READING) | TO(LEAVING), /* READING: links of a kept answer were old */
        [KR_STEP_MAKING] = TO(READING) | TO(LEAVING),                /* READING: another process was faster */
    };
#undef TO
    assert(allowed[j->step] & 1u << next);
    j->step = next;
}

void kr_install_begin(struct kr_install_job *j)
{
    j->pending++;
    j->in->works++;
}

/* ---- what it tells ---- */

void kr_install_say(struct kr_install_job *j, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(line, sizeof line - 1, fmt, args);
    va_end(args);
    if (n < 0)
        return;
    if ((size_t)n > sizeof line - 2)
        n = (int)sizeof line - 2;
    line[n] = '\n';
    line[n + 1] = '\0';
    if (!j->job)
        return;
    kr_job_text(j->job, KR_STREAM_STDOUT, line, (size_t)n + 1);
    if (j->output.len + (size_t)n + 1 <= j->output.max)
        (void)kr_buf_add(&j->output, line, (size_t)n + 1);
}

void kr_install_note(struct kr_install_job *j, const char *fmt, ...)
{
    char line[1024];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (json_array_size(j->notes) < 64)
        json_array_append_new(j->notes, json_string(line));
    kr_install_say(j, "%s", line);
}

/* Turns are given, and jobs that have ended go, in the next turn of the loop. */
static void give_turns(struct kr_install *in)
{
    if (in->soon)
        kr_soon_ask(in->soon);
}

/* ---- its end ---- */

void kr_install_job_free(struct kr_install_job *j)
{
    if (!j)
        return;
    kr_install_rows_free(j);
    free(j->items);
    kr_answer_done(&j->answer);
    kr_package_list_free(j->before);
    kr_requirements_done(&j->wanted);
    kr_timer_close(j->timer);
    json_decref(j->notes);
    json_decref(j->outcome.names);
    free(j->outcome.text);
    kr_buf_done(&j->output);
    kr_fd_close(j->folder);
    free(j);
}

/* The kinds of failures, as errors of the server. */
static enum kr_err_kind error_kind(const char *kind)
{
    static const struct {
        const char *word;
        enum kr_err_kind kind;
    } rows[] = {
        {"invalid", KR_ERR_INVALID},    {"not_found", KR_ERR_NOT_FOUND}, {"no_version", KR_ERR_NOT_FOUND},
        {"needs_build", KR_ERR_DENIED}, {"python", KR_ERR_NOT_FOUND},    {"conflict", KR_ERR_CONFLICT},
        {"index", KR_ERR_UNAVAILABLE},  {"blocked", KR_ERR_DENIED},      {"hash", KR_ERR_INVALID},
        {"broken", KR_ERR_INVALID},     {"too_large", KR_ERR_LIMIT},     {"timeout", KR_ERR_TIMEOUT},
        {"no_space", KR_ERR_NO_SPACE},  {"cancelled", KR_ERR_CONFLICT},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].word, kind) == 0)
            return rows[i].kind;
    return KR_ERR_INVALID; /* what pip or a build has said, which its author may read */
}

static void keep_result(struct kr_install_job *j)
{
    char *text = kr_install_result_text(j, true);
    int r = text ? kr_job_set_result(j->job, text) : -ENOMEM;

    free(text);
    if (r == -E2BIG) {
        text = kr_install_result_text(j, false);
        r = text ? kr_job_set_result(j->job, text) : -ENOMEM;
        free(text);
    }
    if (r < 0)
        kr_log(KR_LOG_ERROR, "result of an install lost", "job=%s errno=%d", kr_job_row(j->job)->id, -r);
}

/* Frees it. */
static void finish_job(struct kr_install_job *j)
{
    struct kr_install *in = j->in;
    struct kr_job *job = j->job;
    bool ok = j->outcome.ok, is_cancelled = strcmp(j->outcome.kind, "cancelled") == 0;
    struct kr_err err;

    keep_result(j);
    kr_install_account(j);
    kr_err_set(&err, error_kind(j->outcome.kind), 0, "%.230s", j->outcome.text ? j->outcome.text : "");
    if (ok)
        kr_install_compile(in, j);
    TAILQ_REMOVE(&in->jobs, j, link);
    kr_install_job_free(j);
    kr_job_end(job, ok ? KR_CAUSE_OK : is_cancelled ? KR_CAUSE_CANCELLED : KR_CAUSE_EXCEPTION, ok ? NULL : &err);
    give_turns(in);
}

/* What would still call back is ended, but for functions on threads, which are told to. */
static void stop_all(struct kr_install_job *j)
{
    j->stop = true;
    if (j->step != KR_STEP_LEAVING)
        kr_install_set_step(j, KR_STEP_LEAVING);
    kr_timer_disarm(j->timer);
    if (j->cell) {
        kr_install_cell_drop(j->cell);
        j->cell = NULL;
        (void)kr_install_end(j);
    }
    kr_install_fetch_stop(j);
}

static void leave(struct kr_install_job *j)
{
    stop_all(j);
    give_turns(j->in); /* it goes from the loop, when nothing of it is under way */
}

bool kr_install_end(struct kr_install_job *j)
{
    j->pending--;
    j->in->works--;
    if (j->step != KR_STEP_LEAVING)
        return true;
    if (j->pending == 0)
        give_turns(j->in);
    return false;
}

void kr_install_fail(struct kr_install_job *j, const char *kind, const json_t *names, const char *fmt, ...)
{
    va_list args;

    if (j->outcome.is_set)
        return;
    va_start(args, fmt);
    if (vasprintf(&j->outcome.text, fmt, args) < 0)
        j->outcome.text = NULL;
    va_end(args);
    j->outcome.is_set = true;
    snprintf(j->outcome.kind, sizeof j->outcome.kind, "%s", kind);
    j->outcome.names = json_deep_copy(names);
    kr_install_say(j, "ERROR: %s", j->outcome.text ? j->outcome.text : kind);
    leave(j);
}

void kr_install_fail_with(struct kr_install_job *j, const struct kr_err *err)
{
    const char *kind = err->kind == KR_ERR_NO_SPACE || err->code == ENOSPC || err->code == EDQUOT ? "no_space"
                       : err->kind == KR_ERR_TIMEOUT                                              ? "timeout"
                       : err->kind == KR_ERR_LIMIT                                                ? "too_large"
                                                                                                  : "failed";

    kr_install_fail(j, kind, NULL, "%s", err->msg);
}

void kr_install_succeed(struct kr_install_job *j)
{
    j->outcome.is_set = j->outcome.ok = true;
    leave(j);
}

/* ---- turns ---- */

static bool may_run(const struct kr_install_job *j)
{
    const struct kr_install_job *other;
    unsigned running = 0, of_user = 0;

    TAILQ_FOREACH(other, &j->in->jobs, link)
    {
        bool is_running = other->step != KR_STEP_WAITING;

        running += is_running;
        of_user += is_running && strcmp(other->user, j->user) == 0;
    }
    for (other = TAILQ_FIRST(&j->in->jobs); other && other != j; other = TAILQ_NEXT(other, link))
        if (strcmp(other->sandbox, j->sandbox) == 0)
            return false;
    return running < KR_INSTALL_RUNNING_MAX && of_user < KR_INSTALL_RUNNING_USER_MAX;
}

static void begin_turn(struct kr_install_job *j)
{
    const struct kr_caller who = {.user = j->user, .rights = j->rights, .address = "", .request = ""};
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err err;

    j->began_ns = kr_clock_ns();
    kr_timer_arm(j->timer, j->in->config.timeout_ms);
    if (kr_box_sandbox_find(j->in->config.box, &who, j->sandbox, &s, &err) < 0) {
        kr_install_fail(j, "failed", NULL, "the sandbox is gone");
        return;
    }
    j->folder = kr_box_sandbox_home(j->in->config.box, &s, &err);
    if (j->folder < 0) {
        kr_install_fail_with(j, &err);
        return;
    }
    snprintf(j->folder_name, sizeof j->folder_name, "%s", s.row.folder);
    kr_install_read(j);
}

/* Jobs that have ended go, others begin. */
static void on_turns(void *data)
{
    struct kr_install *in = data;
    struct kr_install_job *j, *next;

    for (j = TAILQ_FIRST(&in->jobs); j; j = next) {
        next = TAILQ_NEXT(j, link);
        if (j->step == KR_STEP_LEAVING && j->pending == 0)
            finish_job(j);
    }
    TAILQ_FOREACH(j, &in->jobs, link)
    if (j->step == KR_STEP_WAITING && may_run(j))
        begin_turn(j);
}

int kr_install_turns_open(struct kr_install *in, struct kr_err *err)
{
    return kr_soon_new(in->loop, on_turns, in, &in->soon) < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "installs") : 0;
}

/* ---- for src/job ---- */

static void on_job_timeout(void *data)
{
    struct kr_install_job *j = data;

    if (j->step == KR_STEP_MAKING || j->step == KR_STEP_LEAVING) /* it is about to be there, or over */
        return;
    kr_install_fail(j, "timeout", NULL, "it has taken more than %llu s, which this server allows (packages.timeout)",
                    (unsigned long long)(j->in->config.timeout_ms / 1000));
}

/* `in->coming` is the job, as the ask has made it. */
static int start_install(struct kr_job *job, void *app, struct kr_err *err)
{
    struct kr_install *in = app;
    struct kr_install_job *j = in->coming;

    in->coming = NULL;
    if (!j) /* none continues after a restart, so each comes from an ask */
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "an install that was not asked for");
    if (kr_timer_new(in->loop, on_job_timeout, j, &j->timer) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "an install");
    j->job = job;
    kr_job_set_data(job, j);
    TAILQ_INSERT_TAIL(&in->jobs, j, link);
    kr_job_progress(job, 0, 0, "waiting");
    give_turns(in);
    return 0;
}

static void cancel_install(struct kr_job *job)
{
    struct kr_install_job *j = kr_job_data(job);

    if (j->step == KR_STEP_MAKING || j->step == KR_STEP_LEAVING) /* too late, or over */
        return;
    kr_install_fail(j, "cancelled", NULL, "it was cancelled");
}

/* The server ends. What is under way on threads is waited for by kr_install_free(), which frees it. */
static void close_install(struct kr_job *job)
{
    struct kr_install_job *j = kr_job_data(job);

    j->job = NULL;
    stop_all(j);
}

const struct kr_job_kind kr_install_kinds[] = {
    {.name = KR_INSTALL_KIND,
     .help = "Installs packages into a sandbox.",
     .start = start_install,
     .cancel = cancel_install,
     .close = close_install},
    {.name = KR_UNINSTALL_KIND,
     .help = "Takes packages out of a sandbox.",
     .start = start_install,
     .cancel = cancel_install,
     .close = close_install},
};
const size_t kr_install_kinds_count = sizeof kr_install_kinds / sizeof *kr_install_kinds;
