/* krait-engine: lines in, lines out.
 *
 * Called in the engine that kr_warden_launch() forked for krait-engine.c. Invariants: one line is one JSON object, in
 * both directions; when our reader is slow, sessions and requests wait and memory does not grow; the end of input ends
 * every session and then the program. */
#include "engine_app.h"
#include "exit_status.h"
#include "fd.h"
#include "log.h"
#include "warden_holder.h"
#include <errno.h>
#include <signal.h>
#include <string.h>

#define LINE_MAX_ (32u << 20)
#define SINK_MAX (1024u << 20)
#define SINK_FULL (1u << 20)

/* ---- out ---- */

void kr_answer_begin(struct kr_answer *a, struct kr_engine_app *app, const json_t *id, const char *event)
{
    char *text;

    a->app = app;
    kr_buf_init(&a->buf, SINK_MAX / 2);
    kr_json_init(&a->json, &a->buf);
    kr_json_object(&a->json);
    if (id) {
        text = json_dumps(id, JSON_COMPACT | JSON_ENCODE_ANY);
        kr_json_key(&a->json, "id");
        kr_json_raw(&a->json, text ? text : "null", text ? strlen(text) : 4);
        free(text);
    }
    kr_json_key_str(&a->json, "event", event);
}

static void set_paused(struct kr_engine_app *app, bool paused)
{
    struct kr_engine_client *c;

    app->paused = paused;
    TAILQ_FOREACH(c, &app->clients, link)
    kr_session_pause(c->session, paused);
    if (app->in)
        kr_source_flow(app->in, !paused && !app->stopping);
}

void kr_answer_send(struct kr_answer *a)
{
    struct kr_engine_app *app = a->app;

    kr_json_object_end(&a->json);
    if (kr_json_done(&a->json) < 0 || kr_buf_add_str(&a->buf, "\n") < 0 ||
        kr_sink_write(app->out, a->buf.data, a->buf.len) == -ENOBUFS)
        kr_log(KR_LOG_ERROR, "an answer is dropped: it is too large", NULL);
    kr_buf_done(&a->buf);
    if (!app->paused && kr_sink_pending(app->out) > SINK_FULL)
        set_paused(app, true);
}

void kr_answer_error(struct kr_engine_app *app, const json_t *id, const struct kr_err *err)
{
    struct kr_answer a;

    kr_answer_begin(&a, app, id, "error");
    kr_json_key_str(&a.json, "kind", kr_err_row((enum kr_err_kind)err->kind)->name);
    kr_json_key_str(&a.json, "message", err->msg);
    kr_answer_send(&a);
}

static void leave_when_flushed(struct kr_engine_app *app)
{
    if (app->done && kr_sink_pending(app->out) == 0)
        uv_stop(&app->loop);
}

static void on_drained(void *data)
{
    struct kr_engine_app *app = data;

    if (app->paused)
        set_paused(app, false);
    leave_when_flushed(app);
}

static void on_failed(void *data, int error)
{
    struct kr_engine_app *app = data;

    (void)error;
    app->status = 141; /* 128 + SIGPIPE */
    uv_stop(&app->loop);
}

/* ---- in ---- */

static void stop(struct kr_engine_app *app, int status)
{
    if (app->stopping)
        return;
    app->stopping = true;
    app->status = status;
    kr_source_flow(app->in, false);
    kr_engine_stop(app->engine);
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct kr_engine_app *app = data;
    char *newline;

    if (kr_buf_add(&app->line, bytes, len) < 0) {
        kr_log(KR_LOG_ERROR, "a request is longer than 32 MiB", NULL);
        stop(app, KR_EXIT_USAGE);
        return;
    }
    while ((newline = memchr(app->line.data + app->scanned, '\n', app->line.len - app->scanned))) {
        size_t n = (size_t)(newline - app->line.data);

        if (n > 0)
            kr_engine_request(app, app->line.data, n);
        kr_buf_drop(&app->line, n + 1);
        app->scanned = 0;
    }
    app->scanned = app->line.len;
}

static void on_input_end(void *data)
{
    stop(data, 0);
}

/* ---- the engine's events ---- */

static void on_zygote(void *data, const struct kr_holder_zygote *z)
{
    struct kr_engine_app *app = data;
    struct kr_answer a;

    kr_answer_begin(&a, app, NULL, "zygote");
    kr_json_key_str(&a.json, "preload", kr_preload_names[app->config.preloads[z->zygote]]);
    kr_json_key_str(&a.json, "state", kr_zygote_state_names[z->state]);
    kr_json_key_uint(&a.json, "generation", z->generation);
    if (z->state == KR_ZYG_ENDED)
        kr_json_key_int(&a.json, "status", z->status);
    if (z->state == KR_ZYG_FAILED)
        kr_json_key_str(&a.json, "message", z->err.msg);
    kr_answer_send(&a);
}

static void on_gone(void *data, const struct kr_err *err)
{
    struct kr_engine_app *app = data;

    kr_log(KR_LOG_ERROR, "the engine ends", "why=\"%s\"", err->msg);
    app->status = KR_EXIT_OURS;
    app->done = true;
    leave_when_flushed(app);
}

static void on_outlet(void *data, int fd)
{
    struct kr_engine_app *app = data;

    kr_fd_close(app->outlet);
    app->outlet = fd;
}

static void on_stopped(void *data)
{
    struct kr_engine_app *app = data;

    app->done = true;
    leave_when_flushed(app);
}

static void on_signal(uv_signal_t *handle, int signo)
{
    struct kr_engine_app *app = handle->data;

    if (app->stopping)
        uv_stop(&app->loop);
    stop(app, 128 + signo);
}

/* ---- life ---- */

static int open_parts(struct kr_engine_app *app, int control)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    static const struct kr_engine_calls engine_calls = {
        .on_zygote = on_zygote, .on_gone = on_gone, .on_stopped = on_stopped, .on_egress = on_outlet};
    static const struct kr_sink_calls sink_calls = {on_drained, on_failed};
    static const struct kr_source_calls source_calls = {on_data, on_input_end};
    struct kr_holder *holder;
    int r;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_init(&app->loop, &app->signals[i]);
        app->signals[i].data = app;
        uv_signal_start(&app->signals[i], on_signal, numbers[i]);
    }
    r = kr_sink_new(&app->loop, 1, SINK_MAX, &sink_calls, app, &app->out);
    if (r >= 0)
        r = kr_warden_holder_new(&app->loop, control, &holder);
    if (r >= 0)
        r = kr_engine_new(&app->loop, holder, &app->config, &engine_calls, app, &app->engine);
    if (r >= 0)
        r = kr_source_new(&app->loop, 0, &source_calls, app, &app->in);
    if (r >= 0)
        kr_source_flow(app->in, true);
    return r;
}

static void on_walk(uv_handle_t *handle, void *arg)
{
    (void)arg;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

int kr_engine_app_main(int control, void *arg)
{
    struct kr_engine_app *app = arg;
    int r;

    kr_cli_engine_begin();
    TAILQ_INIT(&app->clients);
    kr_buf_init(&app->line, LINE_MAX_);
    if (uv_loop_init(&app->loop) < 0)
        return KR_EXIT_OURS;
    r = open_parts(app, control);
    if (r < 0) {
        kr_log(KR_LOG_ERROR, "the engine cannot start", "errno=%d", -r);
        app->status = KR_EXIT_OURS;
    } else {
        uv_run(&app->loop, UV_RUN_DEFAULT);
    }
    kr_source_close(app->in);
    kr_sink_close(app->out);
    kr_engine_free(app->engine);
    kr_fd_close(app->outlet);
    kr_buf_done(&app->line);
    for (size_t i = 0; i < sizeof app->signals / sizeof app->signals[0]; i++)
        on_walk((uv_handle_t *)&app->signals[i], NULL);
    uv_run(&app->loop, UV_RUN_DEFAULT);
    uv_loop_close(&app->loop);
    return app->status;
}
