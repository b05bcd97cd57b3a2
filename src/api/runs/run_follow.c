/* Streams of the log of a run or job: our own lines, server-sent events, and the three line shapes of document 000
 * (sandbox-mcp).
 *
 * Called by the handlers of runs and execute. Invariants: a slow reader holds back only itself (the log keeps its
 * position); a peer that leaves closes the reader at once and is counted out of the run's readers exactly once. */
#include "run_follow.h"
#include "json.h"
#include "json_load.h"
#include "loop.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLD_MS 2u

struct follower {
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_runlog_reader *reader;
    enum kr_api_form form;
    struct kr_runlog *log;  /* the reader's */
    struct kr_timer *timer; /* until the head goes without the first output; then, until its key is looked at again */
    bool begun;
    char run_id[KR_STORE_ID_ROOM]; /* "": the log of a job */
    struct kr_buf buf, error;      /* error: the exception, until the end says whether it was the cause */
};

static void close_follower(struct follower *f)
{
    kr_timer_close(f->timer);
    kr_runlog_reader_close(f->reader);
    if (f->run_id[0])
        kr_box_run_unwatch(f->api->box, f->run_id);
    kr_buf_done(&f->buf);
    kr_buf_done(&f->error);
    free(f);
}

/* ---- lines of the document ---- */

static void write_traceback(struct kr_json *j, const char *at)
{
    kr_json_key(j, "traceback");
    kr_json_array(j);
    while (at && *at) {
        size_t line = strcspn(at, "\n");

        kr_json_str_n(j, at, line);
        at += line + (at[line] == '\n');
    }
    kr_json_array_end(j);
}

/* An exception: "NameError: name 'x' is not defined". */
static void write_exception(struct kr_json *j, const json_t *error)
{
    const char *type = json_string_value(json_object_get(error, "type"));
    const char *message = json_string_value(json_object_get(error, "message"));
    struct kr_buf text;

    kr_buf_init(&text, 1u << 20);
    kr_buf_printf(&text, "%s%s%s", type ? type : "Error", message && *message ? ": " : "", message ? message : "");
    kr_json_key_str(j, "error", kr_buf_str(&text));
    kr_buf_done(&text);
}

/* A run that krait ended, as if it were one. */
static void write_cause(struct kr_json *j, enum kr_cause cause, const char *end_json, size_t len)
{
    json_t *end = kr_json_load(end_json, len, 0, NULL);
    const char *message = json_string_value(json_object_get(end, "message"));
    char text[512];

    snprintf(text, sizeof text, "%s: %.400s",
             cause == KR_CAUSE_TIMEOUT                                      ? "TimeoutError"
             : cause == KR_CAUSE_MEMORY_LIMIT                               ? "MemoryError"
             : cause == KR_CAUSE_INTERRUPTED || cause == KR_CAUSE_CANCELLED ? "KeyboardInterrupt"
                                                                            : "RuntimeError",
             message && *message ? message : kr_cause_rows[cause].help);
    kr_json_key_str(j, "error", text);
    json_decref(end);
}

bool kr_api_document_failure(struct kr_json *j, enum kr_cause cause, const struct kr_buf *error, const char *end,
                             size_t end_len)
{
    json_t *exception = error->len ? kr_json_load(error->data, error->len, 0, NULL) : NULL;
    bool ended_by_us = cause != KR_CAUSE_OK && cause != KR_CAUSE_EXCEPTION && cause != KR_CAUSE_EXIT;

    if (!exception && !ended_by_us)
        return false;
    if (exception && cause != KR_CAUSE_TIMEOUT) /* that one is our KeyboardInterrupt: where it was, but not why */
        write_exception(j, exception);
    else
        write_cause(j, cause, end, end_len);
    write_traceback(j, json_string_value(json_object_get(exception, "traceback")));
    json_decref(exception);
    return true;
}

static bool display_line(struct kr_json *j, const struct kr_event *e)
{
    json_t *display = kr_json_load(e->data, e->len, 0, NULL), *data = json_object_get(display, "data");
    const char *png = json_string_value(json_object_get(data, "image/png"));
    const char *svg = json_string_value(json_object_get(data, "image/svg+xml"));
    const char *jpeg = json_string_value(json_object_get(data, "image/jpeg"));
    const char *text = json_string_value(json_object_get(data, "text/plain"));
    bool some = png || svg || jpeg || text;

    if (png || svg || jpeg) {
        kr_json_key_str(j, "image", png ? png : jpeg ? jpeg : svg);
        kr_json_key_str(j, "format", png ? "png" : jpeg ? "jpeg" : "svg");
    } else if (text) {
        kr_json_key_str(j, "text", text);
    }
    json_decref(display);
    return some;
}

/* Writes the line of an event; false: it has none. */
static bool document_line(struct follower *f, const struct kr_event *e)
{
    struct kr_json j;
    bool some = true;
    json_t *result;

    kr_buf_reset(&f->buf);
    kr_json_init(&j, &f->buf);
    kr_json_object(&j);
    switch (e->type) {
    case KR_EVENT_STDOUT:
    case KR_EVENT_STDERR:
        kr_json_key(&j, "text");
        kr_json_str_n(&j, e->data, e->len);
        break;
    case KR_EVENT_RESULT:
        result = kr_json_load(e->data, e->len, 0, NULL);
        kr_json_key_str(&j, "text", json_string_value(json_object_get(result, "text")));
        json_decref(result);
        break;
    case KR_EVENT_DISPLAY:
        some = display_line(&j, e);
        break;
    case KR_EVENT_ERROR:
        kr_buf_reset(&f->error);
        kr_buf_add(&f->error, e->data, e->len);
        some = false;
        break;
    case KR_EVENT_END:
        some = kr_api_document_failure(&j, e->cause, &f->error, e->data, e->len);
        break;
    case KR_EVENT_CUT:
        kr_json_key_str(&j, "text", "\n[output was cut here]\n");
        break;
    case KR_EVENT_QUEUED:
    case KR_EVENT_STARTED:
    case KR_EVENT_INPUT:
    case KR_EVENT_NOTICE:
    case KR_EVENT_MAX_:
        some = false;
        break;
    }
    kr_json_object_end(&j);
    return some && kr_json_done(&j) >= 0;
}

/* ---- the stream ---- */

/* Bytes that wait for the peer. */
static size_t send_event(struct follower *f, const struct kr_event *e)
{
    char id[24];

    if (f->form == KR_FORM_DOCUMENT || f->form == KR_FORM_DOCUMENT_EVENTS) {
        if (!document_line(f, e))
            return kr_http_queued(f->ex);
        return f->form == KR_FORM_DOCUMENT ? kr_http_ndjson_line(f->ex, f->buf.data, f->buf.len)
                                           : kr_http_sse_event(f->ex, NULL, NULL, f->buf.data, f->buf.len);
    }
    kr_buf_reset(&f->buf);
    if (kr_event_json(&f->buf, e) < 0)
        return kr_http_queued(f->ex);
    if (f->form == KR_FORM_LINES)
        return kr_http_ndjson_line(f->ex, f->buf.data, f->buf.len);
    snprintf(id, sizeof id, "%llu", (unsigned long long)e->seq);
    return kr_http_sse_event(f->ex, kr_event_names[e->type], id, f->buf.data, f->buf.len);
}

static void begin_stream(struct follower *f)
{
    f->begun = true;
    kr_timer_arm(f->timer, KR_AUTH_LOOK_MS);
    if (f->form == KR_FORM_EVENTS || f->form == KR_FORM_DOCUMENT_EVENTS)
        kr_http_sse_begin(f->ex);
    else
        kr_http_ndjson_begin(f->ex);
}

/* Most runs say something at once: then head, `started` and that are one packet, and the peer is woken once. */
static bool may_hold(struct follower *f)
{
    struct kr_runlog_figures figures;

    kr_runlog_figures(f->log, &figures);
    return figures.last_seq <= 1 && (figures.still_running || figures.loading) && kr_timer_armed(f->timer);
}

/* Sends what there is, the END only if it may: -errno, 0, or 1 when the peer takes no more now (on_drain comes). */
static int send_events(struct follower *f, bool with_end)
{
    struct kr_event e;
    int r;

    if (!f->begun && may_hold(f))
        return 1;
    if (!f->begun)
        begin_stream(f);
    while ((r = kr_runlog_peek(f->reader, &e)) > 0) {
        size_t queued;

        if (e.type == KR_EVENT_END && !with_end)
            return 0;
        queued = send_event(f, &e);
        kr_runlog_take(f->reader);
        if (queued > KR_HTTP_QUEUE_HIGH)
            return 1;
    }
    return r;
}

static void send_more(struct follower *f)
{
    int r = send_events(f, true);

    if (r > 0)
        return;
    if (r < 0 || kr_runlog_done(f->reader)) {
        struct kr_http_ex *ex = f->ex;

        close_follower(f);
        if (r < 0)
            kr_http_abort(ex);
        else
            kr_http_end(ex);
    }
}

static void on_more(void *data, struct kr_runlog_reader *reader)
{
    (void)reader;
    send_more(data);
}

/* From within the run's own append: what goes wrong is seen in the next on_more or on_gone. */
static void on_now(void *data, struct kr_runlog_reader *reader)
{
    struct follower *f = data;

    (void)reader;
    if (kr_http_queued(f->ex) <= KR_HTTP_QUEUE_HIGH && send_events(f, false) == 0)
        kr_http_flush(f->ex);
}

static void on_timer(void *data)
{
    struct follower *f = data;
    struct kr_http_ex *ex = f->ex;

    if (!f->begun) {
        send_more(f);
    } else if (kr_auth_still(f->api->auth, ex, NULL)) {
        kr_timer_arm(f->timer, KR_AUTH_LOOK_MS);
    } else {
        close_follower(f);
        kr_http_abort(ex);
    }
}

static void on_drain(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    send_more(data);
}

static void on_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    close_follower(data);
}

enum kr_api_form kr_api_form_of(const struct kr_http_ex *ex, bool document)
{
    const char *accept = kr_http_header(ex, "Accept");
    bool events = accept && strstr(accept, "text/event-stream");

    if (document)
        return events ? KR_FORM_DOCUMENT_EVENTS : KR_FORM_DOCUMENT;
    return events ? KR_FORM_EVENTS : KR_FORM_LINES;
}

void kr_api_follow(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id, uint64_t from,
                   enum kr_api_form form)
{
    static const struct kr_http_calls calls = {.on_drain = on_drain, .on_gone = on_gone};
    struct follower *f = calloc(1, sizeof *f);

    if (!f) {
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    f->api = api;
    f->ex = ex;
    f->form = form;
    snprintf(f->run_id, sizeof f->run_id, "%s", run_id ? run_id : "");
    kr_buf_init(&f->buf, KR_EVENT_DATA_MAX + (1u << 20));
    kr_buf_init(&f->error, KR_EVENT_DATA_MAX);
    if (run_id)
        kr_box_run_watch(api->box, run_id);
    if (kr_timer_new(api->loop, on_timer, f, &f->timer) < 0 || kr_runlog_read(log, from, on_more, f, &f->reader) < 0) {
        close_follower(f);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    f->log = log;
    kr_runlog_eager(f->reader, on_now);
    kr_timer_arm(f->timer, HOLD_MS);
    kr_http_defer(ex, &calls, f);
}
