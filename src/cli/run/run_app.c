/* `krait run` on the engine's side: one session, one run in script mode, and the exit status of the program.
 *
 * Called in the engine that kr_warden_launch() forked for cmd_run.c. Invariants: output is passed on byte for byte as
 * it comes, held back only as far as our reader is slow; the exit status is the script's own, or 124, 125,
 * 130, 137, 128 + signal with one line on stderr that says why. */
#include "run_app.h"
#include "run_egress.h"
#include "buf.h"
#include "clock.h"
#include "exit_status.h"
#include "json_load.h"
#include "log.h"
#include "cli_report.h"
#include "streams.h"
#include "warden_holder.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

#define SINK_MAX (512u << 20)  /* waits at most; the session is paused long before */
#define SINK_FULL (256u << 10) /* then the session is paused */
#define INTERRUPT_APART_NS                                                                                             \
    100000000u /* one that was sent to the whole group reaches us twice, once through the warden */
#define NETWORK_OFFER                                                                                                  \
    "--network allow:HOST reaches that host, --network open every public address, --network loopback 127.0.0.1 of "    \
    "its own"
#define EXIT_PIPE 141 /* 128 + SIGPIPE: our reader is gone */

struct app {
    const struct kr_run_app *given;
    const struct kr_run_options *options;
    const struct kr_run_source *source;
    const char *workspace;
    char view[32]; /* the path by which we reach the workspace */
    struct kr_figures *figures;
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct kr_engine *engine;
    struct kr_session *session;
    struct kr_run_egress egress;
    struct kr_run_packages *packages; /* NULL: it has none */
    bool has_begun;                   /* packages are asked for */
    bool has_line;                    /* a line of progress is on the person's terminal */
    struct kr_run *run;
    struct kr_sink *sinks[KR_STREAM_MAX_]; /* both may be the same */
    struct kr_source *in;
    struct kr_buf text[KR_STREAM_MAX_]; /* --json */
    struct kr_buf displays;
    unsigned interrupts;
    uint64_t interrupted_ns; /* when the last one came */
    int status;
    bool finished;
};

/* ---- our own output ---- */

static size_t pending(const struct app *a)
{
    return kr_sink_pending(a->sinks[0]) + kr_sink_pending(a->sinks[1]);
}

/* The program ends with this status as soon as all output is out. The first one counts. */
static void finish_script(struct app *a, int status)
{
    if (!a->finished)
        a->status = status;
    a->finished = true;
    if (pending(a) == 0)
        uv_stop(&a->loop);
}

static void write_out(struct app *a, enum kr_stream stream, const char *data, size_t len)
{
    if (kr_sink_write(a->sinks[stream], data, len) == -ENOBUFS)
        kr_log(KR_LOG_ERROR, "output dropped, its reader is gone", NULL);
    if (a->session && pending(a) > SINK_FULL)
        kr_session_pause(a->session, true);
}

static void on_sink_drained(void *data)
{
    struct app *a = data;

    if (a->session && pending(a) == 0)
        kr_session_pause(a->session, false);
    if (a->finished && pending(a) == 0)
        uv_stop(&a->loop);
}

/* The reader of our output is gone: end as a program that SIGPIPE ends. */
static void on_sink_failed(void *data, int error)
{
    struct app *a = data;

    a->status = error == -EPIPE ? EXIT_PIPE : KR_EXIT_OURS;
    a->finished = true;
    if (a->session)
        kr_session_close(a->session);
    else
        uv_stop(&a->loop);
}

/* One line of our own on stderr. */
static void say_notice(struct app *a, const char *text)
{
    char line[KR_HINT_ROOM + 20];
    int len = snprintf(line, sizeof line, "krait: %s\n", text);

    write_out(a, KR_STREAM_STDERR, line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
}

/* How far an install is: on a terminal one line that is written over, else the lines that stay. */
static void write_step(struct app *a, const char *text)
{
    char line[96];
    int len = snprintf(line, sizeof line, "\r\033[K%.78s", text);

    write_out(a, KR_STREAM_STDERR, line, (size_t)len < sizeof line ? (size_t)len : sizeof line - 1);
    a->has_line = *text != '\0';
}

/* ---- the run ---- */

static void on_script_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct app *a = data;

    (void)r;
    if (a->options->json)
        kr_buf_add(&a->text[stream], text, len);
    else
        write_out(a, stream, text, len);
}

static void on_script_display(void *data, struct kr_run *r, const char *json, size_t len)
{
    struct app *a = data;
    json_t *display = kr_json_load(json, len, JSON_ALLOW_NUL, NULL);
    struct kr_err err;

    (void)r;
    if (kr_figures_take(a->figures, display, &err) < 0)
        say_notice(a, err.msg);
    json_decref(display);
    if (!a->options->json)
        return;
    if (a->displays.len > 0)
        kr_buf_add_str(&a->displays, ",");
    kr_buf_add(&a->displays, json, len);
}

static void write_report(struct app *a, const struct kr_run_end *end)
{
    cleanup_buf struct kr_buf buf, list;
    struct kr_json j;

    kr_buf_init(&buf, SIZE_MAX / 8);
    kr_buf_init(&list, SIZE_MAX / 8);
    kr_buf_printf(&list, "[%s]", kr_buf_str(&a->displays));
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    for (int i = 0; i < KR_STREAM_MAX_; i++) {
        kr_json_key(&j, kr_stream_names[i]);
        kr_json_str_n(&j, kr_buf_str(&a->text[i]), a->text[i].len);
    }
    kr_json_key(&j, "displays");
    kr_json_raw(&j, kr_buf_str(&list), list.len);
    kr_report_run(&j, end, a->session, kr_engine_info(a->engine));
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0 || kr_buf_add_str(&buf, "\n") < 0) {
        say_notice(a, "the report does not fit into memory");
        return;
    }
    for (size_t at = 0; at < buf.len; at += SINK_FULL) /* in pieces, each smaller than what a sink takes */
        write_out(a, KR_STREAM_STDOUT, buf.data + at, buf.len - at < SINK_FULL ? buf.len - at : SINK_FULL);
}

/* What python3 would not have said: why it ended, what would help, what is not shown. */
static void write_notes(struct app *a, const struct kr_run_end *end)
{
    char text[KR_HINT_ROOM + 8];

    if (end->hint[0]) {
        snprintf(text, sizeof text, "hint: %s", end->hint);
        say_notice(a, text);
    }
    if (end->message[0] && end->verdict.cause != KR_CAUSE_INTERRUPTED)
        say_notice(a, end->message);
    if (a->figures->unsaved > 0) {
        snprintf(text, sizeof text, "%u figure%s not saved (use --figures DIR)", a->figures->unsaved,
                 a->figures->unsaved == 1 ? "" : "s");
        say_notice(a, text);
    }
}

static void on_script_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct app *a = data;
    struct kr_run_end mine = *end;

    (void)r;
    a->run = NULL;
    kr_run_packages_over(a->packages);
    kr_run_egress_hint(&a->egress, mine.hint, sizeof mine.hint);
    if (a->options->json)
        write_report(a, &mine);
    else
        write_notes(a, &mine);
    if (!a->finished)
        a->status = end->verdict.exit_code;
    a->finished = true; /* the loop stops when the session is gone and the output is out */
}

static void on_script_packages(void *data, struct kr_run *r, uint32_t number, const json_t *ask)
{
    kr_run_packages_ask(((struct app *)data)->packages, r, number, ask);
}

static void start_run(struct app *a)
{
    struct kr_run_calls calls = {
        .on_output = on_script_output, .on_display = on_script_display, .on_end = on_script_end};
    const struct kr_run_options *o = a->options;
    bool cap = o->json || kr_opt_limit_given(&o->limits, "output");
    struct kr_run_spec spec = {
        .code = {a->source->code, a->source->len},
        .script = &a->source->script,
        .policy = &a->given->policy,
        .timeout_ms = kr_opt_limit_given(&o->limits, "timeout") ? o->limits.values.timeout_ms : 0,
        .output_cap = cap ? (int64_t)o->limits.values.output : 0,
        .raw = !o->json,
    };
    struct kr_err err;

    if (a->packages)
        calls.on_packages = on_script_packages;
    if (kr_run_new(a->session, &spec, &calls, a, &a->run, &err) < 0) {
        say_notice(a, err.msg);
        finish_script(a, KR_EXIT_OURS);
    }
}

/* ---- stdin ---- */

static void on_in_data(void *data, const char *bytes, size_t len)
{
    struct app *a = data;

    if (kr_session_stdin_write(a->session, bytes, len) < 0 || kr_session_stdin_pending(a->session) > 0)
        kr_source_flow(a->in, false); /* until it is drained; a session that does not read is not an error */
}

static void on_in_end(void *data)
{
    struct app *a = data;

    if (a->session)
        kr_session_stdin_close(a->session);
}

static void on_stdin_drained(void *data, struct kr_session *s)
{
    struct app *a = data;

    (void)s;
    if (a->in)
        kr_source_flow(a->in, true);
}

static void on_stdin_failed(void *data, struct kr_session *s, int error)
{
    struct app *a = data;

    (void)s, (void)error;
    if (a->in)
        kr_source_flow(a->in, false);
}

static bool wants_stdin(const struct app *a)
{
    return strcmp(a->source->script.argv[0], "-") != 0 || a->options->code;
}

static void start_stdin(struct app *a)
{
    static const struct kr_source_calls calls = {on_in_data, on_in_end};

    if (!wants_stdin(a))
        return;
    if (kr_source_new(&a->loop, 0, &calls, a, &a->in) < 0) {
        kr_session_stdin_close(a->session); /* closed when we were started: the end of input at once */
        return;
    }
    kr_source_flow(a->in, true);
}

/* ---- the session ---- */

static void on_run_session_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct app *a = data;

    if (!s) {
        say_notice(a, err->msg);
        finish_script(a, kr_err_row((enum kr_err_kind)err->kind)->exit_status);
        return;
    }
    a->session = s;
    if (a->finished) { /* interrupted or without a reader meanwhile */
        kr_session_close(s);
        return;
    }
    kr_run_egress_begin(&a->egress, s);
    start_stdin(a);
    start_run(a);
}

static void on_run_session_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct app *a = data;

    (void)s, (void)cause, (void)message;
    a->session = NULL;
    if (a->in)
        kr_source_flow(a->in, false);
    finish_script(a, KR_EXIT_OURS); /* on_end has set the status before */
}

static void on_run_warden_gone(void *data, const struct kr_err *err)
{
    struct app *a = data;

    if (!a->finished)
        say_notice(a, err->msg);
    finish_script(a, KR_EXIT_OURS);
}

/* ---- its packages ---- */

static int open_run_session(struct app *a, struct kr_err *err);

static void on_packages_step(void *data, const char *text, bool passing)
{
    struct app *a = data;

    if (a->given->is_tty)
        write_step(a, text);
    else if (!passing)
        say_notice(a, text);
}

static void on_packages_ready(void *data, const struct kr_err *err)
{
    struct app *a = data;
    struct kr_err why;

    if (a->has_line)
        write_step(a, "");
    if (!err && !a->finished && open_run_session(a, &why) < 0)
        err = &why;
    if (err) {
        say_notice(a, err->msg);
        finish_script(a, KR_EXIT_OURS);
    }
}

/* A zygote is there, or cannot be: what the machine gives is known by now. */
static void on_run_zygote(void *data, const struct kr_holder_zygote *zygote)
{
    static const struct kr_run_packages_calls calls = {on_packages_step, on_packages_ready};
    struct app *a = data;
    struct kr_err err;

    (void)zygote;
    if (!a->given->is_equipped || a->has_begun || a->finished || !kr_engine_info(a->engine))
        return;
    a->has_begun = true;
    if (kr_run_packages_open(&a->loop, a->engine, a->egress.client, &a->given->equipment,
                             (enum kr_preload)a->options->preload, &calls, a, &a->packages, &err) < 0)
        on_packages_ready(a, &err);
    kr_engine_offer(a->engine, NETWORK_OFFER); /* which the box's has taken the place of */
}

static void on_run_egress(void *data, int fd)
{
    kr_run_egress_connect(&((struct app *)data)->egress, fd);
}

static void on_run_signal(uv_signal_t *handle, int signo)
{
    struct app *a = handle->data;

    if (!a->run) { /* nothing runs yet, or it is over and only our output waits */
        bool is_first = !a->finished;

        if (a->has_line)
            write_step(a, "");
        a->status = 128 + signo;
        a->finished = true;
        if (!is_first || pending(a) == 0 || a->session)
            uv_stop(&a->loop);
    } else if (signo != SIGINT) {
        kr_run_cancel(a->run);
    } else if (kr_clock_ns() - a->interrupted_ns > INTERRUPT_APART_NS) {
        a->interrupted_ns = kr_clock_ns();
        if (a->interrupts++ == 0)
            kr_run_interrupt(a->run, false);
        else
            kr_session_close(a->session);
    }
}

/* ---- life ---- */

static int open_sinks(struct app *a)
{
    static const struct kr_sink_calls calls = {on_sink_drained, on_sink_failed};
    struct stat out, err;
    int r = kr_sink_new(&a->loop, 1, SINK_MAX, &calls, a, &a->sinks[0]);

    if (r < 0)
        return r;
    /* One file behind both (2>&1): one queue, so that order is kept. */
    if (fstat(1, &out) == 0 && fstat(2, &err) == 0 && out.st_dev == err.st_dev && out.st_ino == err.st_ino) {
        a->sinks[1] = a->sinks[0];
        return 0;
    }
    return kr_sink_new(&a->loop, 2, SINK_MAX, &calls, a, &a->sinks[1]);
}

static int open_run_engine(struct app *a, int control, struct kr_err *err)
{
    static const struct kr_engine_calls engine_calls = {
        .on_zygote = on_run_zygote, .on_gone = on_run_warden_gone, .on_egress = on_run_egress};
    const struct kr_run_options *o = a->options;
    struct kr_engine_config config = {
        .zygote_count = 1, .preloads = {(enum kr_preload)o->preload}, .egress = a->given->has_egress};
    struct kr_holder *holder;
    int r;

    if (a->given->is_equipped) {
        config.shelf = a->given->equipment.cache.shelf;
        if (o->preload != KR_PRELOAD_BASIC) /* installs, and programs that have another of what is preloaded */
            config.preloads[config.zygote_count++] = KR_PRELOAD_BASIC;
    }
    config.workspace_count = a->workspace ? 1 : 0;
    config.workspaces[0].path = a->view[0] ? a->view : a->workspace;
    config.workspaces[0].read_only = o->read_only;
    r = kr_warden_holder_new(&a->loop, control, &holder);
    if (r >= 0)
        r = kr_engine_new(&a->loop, holder, &config, &engine_calls, a, &a->engine);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "engine");
    kr_engine_offer(a->engine, NETWORK_OFFER);
    return a->given->is_equipped ? 0 : open_run_session(a, err); /* else with its packages: on_run_zygote() */
}

static int open_run_session(struct app *a, struct kr_err *err)
{
    static const struct kr_session_calls calls = {.on_open = on_run_session_open,
                                                  .on_ended = on_run_session_ended,
                                                  .on_stdin_drained = on_stdin_drained,
                                                  .on_stdin_failed = on_stdin_failed};
    const struct kr_run_options *o = a->options;
    struct kr_session_spec spec = {
        .network = a->given->rule,
        .workspace = a->workspace ? 0 : -1,
        .read_only = !kr_policy_has(&a->given->policy, KR_POLICY_FILESYSTEM),
        .limits = o->limits.values,
        .script = true,
        .stdin_pipe = wants_stdin(a),
        .env = a->egress.env,
        .env_count = a->egress.env_count,
    };
    int r = kr_run_packages_show(a->packages, &spec, err);

    return r < 0 ? r : kr_engine_open(a->engine, &spec, false, &calls, a, err);
}

static void watch_run_signals(struct app *a)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_init(&a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_run_signal, numbers[i]);
    }
}

static void close_run(struct app *a)
{
    kr_run_packages_close(a->packages); /* in rounds of the loop: the rest is still there */
    for (size_t i = 0; i < sizeof a->signals / sizeof a->signals[0]; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    kr_source_close(a->in);
    if (a->sinks[1] != a->sinks[0])
        kr_sink_close(a->sinks[1]);
    kr_sink_close(a->sinks[0]);
    kr_engine_free(a->engine);
    kr_run_egress_close(&a->egress);
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        kr_buf_done(&a->text[i]);
    kr_buf_done(&a->displays);
    uv_run(&a->loop, UV_RUN_DEFAULT); /* lets the handles go */
    kr_run_packages_free(a->packages);
    uv_loop_close(&a->loop);
}

int kr_run_app_main(int control, void *arg)
{
    struct kr_run_app *given = arg;
    struct app app = {.given = given,
                      .options = given->options,
                      .source = given->source,
                      .workspace = given->workspace,
                      .figures = &given->figures};
    struct app *a = &app;
    struct kr_err err;

    kr_cli_engine_begin();
    if (given->view >= 0)
        kr_cli_folder_path(given->view, a->view, sizeof a->view);
    if (kr_cli_confine_engine(given->view, a->workspace, given->is_equipped ? given->equipment.cache.path : NULL,
                              &err) < 0)
        return kr_cli_fail("run", &err);
    if (uv_loop_init(&a->loop) < 0)
        return KR_EXIT_OURS;
    watch_run_signals(a);
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        kr_buf_init(&a->text[i], 4 * a->options->limits.values.output + 4096);
    kr_buf_init(&a->displays, 4 * (size_t)KR_RUN_DISPLAY_BYTES_MAX);
    if (open_sinks(a) < 0) {
        a->status = KR_EXIT_OURS;
    } else if (kr_run_egress_open(&a->egress, &a->loop, &given->rule, given->has_egress, given->credentials,
                                  &a->options->env, &err) < 0 ||
               open_run_engine(a, control, &err) < 0) {
        say_notice(a, err.msg);
        finish_script(a, kr_err_row((enum kr_err_kind)err.kind)->exit_status);
    }
    if (a->sinks[0] && !(a->finished && pending(a) == 0))
        uv_run(&a->loop, UV_RUN_DEFAULT);
    close_run(a);
    return a->status;
}
