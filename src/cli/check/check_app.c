/* `krait check` on the engine's side: each unit is sent to a session that judges it and runs nothing.
 *
 * Called in the engine that kr_warden_launch() forked for cmd_check.c. Invariants: a unit that takes a session with it
 * (a limit, a crash of the parser) costs that unit alone: the next one has a new session; the exit status is 2 if
 * anything was not judged, whatever the others gave. */
#include "check.h"
#include "cell_options.h"
#include "engine.h"
#include "exit_status.h"
#include "fd.h"
#include "log.h"
#include "run.h"
#include "warden_holder.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#define JUDGE_MS 30000u /* of one unit */
#define JUDGE_MEMORY (256u << 20)
#define REPORT_MAX (256u << 20)

struct app {
    const struct kr_check_app *given;
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct kr_engine *engine;
    struct kr_session *session;
    struct kr_run *run;
    struct kr_check_units units;
    size_t next;           /* the unit that is judged, or the next one */
    int signal;            /* that ended us; 0: none */
    struct kr_err failure; /* nothing more can be judged; msg "": no */
    bool over;
};

static void judge_next(struct app *a);

static void finish_check(struct app *a)
{
    a->over = true;
    if (a->session)
        kr_session_close(a->session);
    else
        uv_stop(&a->loop);
}

static void fail_check(struct app *a, const struct kr_err *err)
{
    a->failure = *err;
    finish_check(a);
}

/* ---- one unit ---- */

static void on_judged(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct app *a = data;
    struct kr_check_unit *u = &a->units.rows[a->next++];

    (void)r;
    a->run = NULL;
    if (end->verdict.cause == KR_CAUSE_OK && end->claim->analysis)
        u->findings = json_incref(end->claim->findings);
    else
        snprintf(u->why, sizeof u->why, "%s", end->message[0] ? end->message : kr_cause_rows[end->verdict.cause].name);
    if (end->session_alive)
        judge_next(a); /* else when it has ended */
}

static void on_stray_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    (void)data, (void)r, (void)stream, (void)text, (void)len; /* nothing runs, so nothing is said */
}

static void start_judging(struct app *a)
{
    static const struct kr_run_calls calls = {.on_output = on_stray_output, .on_end = on_judged};
    const struct kr_check_unit *u = &a->units.rows[a->next];
    struct kr_run_spec spec = {.code = {u->text, u->len},
                               .policy = &a->given->policy,
                               .judge_only = true,
                               .timeout_ms = JUDGE_MS,
                               .output_cap = 4096};
    struct kr_err err;

    if (kr_run_new(a->session, &spec, &calls, a, &a->run, &err) < 0)
        fail_check(a, &err);
}

/* ---- the session ---- */

static void on_judge_session_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct app *a = data;

    a->session = s;
    if (!s)
        fail_check(a, err);
    else if (a->over)
        kr_session_close(s);
    else
        start_judging(a);
}

static void on_judge_session_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct app *a = data;

    (void)s, (void)cause, (void)message;
    a->session = NULL;
    if (a->over)
        uv_stop(&a->loop);
    else
        judge_next(a);
}

static void open_session(struct app *a)
{
    static const struct kr_session_calls calls = {.on_open = on_judge_session_open, .on_ended = on_judge_session_ended};
    struct kr_session_spec spec = {.workspace = KR_WORKSPACE_NONE};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    spec.limits.memory = JUDGE_MEMORY;
    spec.limits.timeout_ms = JUDGE_MS;
    if (kr_engine_open(a->engine, &spec, false, &calls, a, &err) < 0)
        fail_check(a, &err);
}

/* The next unit that has a text, or the end. */
static void judge_next(struct app *a)
{
    while (a->next < a->units.count && !a->units.rows[a->next].text)
        a->next++;
    if (a->over || a->next == a->units.count)
        finish_check(a);
    else if (a->session)
        start_judging(a);
    else
        open_session(a);
}

/* ---- around it ---- */

static void on_judge_warden_gone(void *data, const struct kr_err *err)
{
    struct app *a = data;

    if (!a->over)
        a->failure = *err;
    a->over = true;
    uv_stop(&a->loop);
}

static void on_check_signal(uv_signal_t *handle, int signo)
{
    struct app *a = handle->data;

    a->signal = signo;
    a->over = true;
    uv_stop(&a->loop);
}

static int open_engine(struct app *a, int control, struct kr_err *err)
{
    static const struct kr_engine_calls engine_calls = {.on_gone = on_judge_warden_gone};
    struct kr_engine_config config = {.zygote_count = 1, .preloads = {KR_PRELOAD_BASIC}};
    struct kr_holder *holder;
    int r = kr_warden_holder_new(&a->loop, control, &holder);

    if (r >= 0)
        r = kr_engine_new(&a->loop, holder, &config, &engine_calls, a, &a->engine);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "engine") : 0;
}

static void watch_signals(struct app *a)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        uv_signal_init(&a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_check_signal, numbers[i]);
    }
}

static void close_app(struct app *a)
{
    for (size_t i = 0; i < sizeof a->signals / sizeof *a->signals; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    kr_engine_free(a->engine);
    uv_run(&a->loop, UV_RUN_DEFAULT); /* lets the handles go */
    uv_loop_close(&a->loop);
}

/* ---- the report ---- */

/* All of it, to a descriptor that others may have made non-blocking. 0 or -errno. */
static int write_whole(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

static void say_summary(const struct kr_check_counts *counts)
{
    if (counts->findings > 0)
        fprintf(stderr, "krait check: %zu finding%s\n", counts->findings, counts->findings == 1 ? "" : "s");
    if (counts->failed > 0)
        fprintf(stderr, "krait check: %zu not judged\n", counts->failed);
}

static int tell(const struct app *a)
{
    const struct kr_check_report report = {&a->units, a->given->files, &a->given->policy};
    struct kr_check_counts counts = kr_check_count(&report);
    cleanup_buf struct kr_buf buf;
    int r;

    kr_buf_init(&buf, REPORT_MAX);
    r = kr_check_write(&report, (enum kr_check_format)a->given->options->format, &buf);
    if (r >= 0)
        r = write_whole(STDOUT_FILENO, kr_buf_str(&buf), buf.len);
    if (r < 0) {
        fprintf(stderr, "krait check: the report cannot be written: %s\n", strerror(-r));
        return KR_CHECK_FAILED;
    }
    if (a->given->options->format == KR_CHECK_TEXT)
        say_summary(&counts);
    return counts.failed > 0 ? KR_CHECK_FAILED : counts.findings > 0 ? KR_CHECK_FINDINGS : KR_CHECK_CLEAN;
}

int kr_check_app_main(int control, void *arg)
{
    struct app app = {.given = arg}, *a = &app;
    int status;

    kr_cli_engine_begin();
    if (kr_cli_confine_engine(-1, NULL, NULL, &a->failure) < 0 || kr_check_units_make(a->given->files, &a->units) < 0 ||
        uv_loop_init(&a->loop) < 0) {
        fprintf(stderr, "krait check: %s\n", a->failure.msg[0] ? a->failure.msg : "out of memory");
        return KR_CHECK_FAILED;
    }
    watch_signals(a);
    if (open_engine(a, control, &a->failure) >= 0) {
        judge_next(a);
        if (!a->over || a->session)
            uv_run(&a->loop, UV_RUN_DEFAULT);
    }
    close_app(a);
    if (a->signal)
        status = 128 + a->signal;
    else if (a->failure.msg[0]) {
        fprintf(stderr, "krait check: %s\n", a->failure.msg);
        status = KR_CHECK_FAILED;
    } else {
        status = tell(a);
    }
    kr_check_units_done(&a->units);
    return status;
}
