/* `krait mcp --connect URL`: lines of stdin become requests of HTTP, and what comes back becomes lines of stdout.
 *
 * Called by cmd_mcp.c; the exchanges are in relay_exchange.c, HTTP in relay_http.c. Invariants: every request is
 * answered once, by the server or, where it cannot be reached, by us; nothing but messages is written to stdout; at
 * the end of stdin what is under way is given up, the session is closed, and that is all. */
#include "relay.h"
#include "err.h"
#include "log.h"
#include "loop.h"
#include "peer.h"
#include "relay_internal.h"
#include "streams.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK (64u << 10)
#define BYE_MS 500u

/* ---- out ---- */

void kr_relay_write(struct kr_relay *r, const char *json, size_t len)
{
    struct kr_buf line;
    int e;

    kr_buf_init(&line, KR_RELAY_ANSWER_MAX + 1);
    e = kr_buf_add(&line, json, len);
    for (size_t i = 0; i < line.len; i++)
        if (line.data[i] == '\n' || line.data[i] == '\r')
            line.data[i] = ' ';
    if (e == 0)
        e = kr_buf_add(&line, "\n", 1);
    if (e == 0)
        e = kr_sink_write(r->sink, line.data, line.len);
    kr_buf_done(&line);
    if (e < 0) {
        fprintf(stderr, "krait mcp: the client does not read its answers\n");
        kr_relay_end(r, 1);
        return;
    }
    if (!r->held && kr_sink_pending(r->sink) > KR_RELAY_OUT_HIGH) {
        r->held = true;
        kr_relay_hold(r, true);
    }
}

void kr_relay_fail(struct kr_relay *r, const json_t *id, int code, const char *fmt, ...)
{
    struct kr_buf line;
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_buf_init(&line, 64u << 10);
    if (kr_mcp_write_error(&line, id, code, text, NULL) >= 0)
        kr_relay_write(r, line.data, line.len);
    kr_buf_done(&line);
}

static void on_drained(void *data)
{
    struct kr_relay *r = data;

    if (!r->held)
        return;
    r->held = false;
    kr_relay_hold(r, false);
    kr_relay_go_on(r);
}

static void on_sink_failed(void *data, int error)
{
    (void)error;
    kr_relay_end(data, 0); /* the reader of stdout has gone */
}

/* ---- in ---- */

/* The end of a line past the cap. */
static void refuse_long_line(struct kr_relay *r, const char *text, size_t len)
{
    json_t *id;

    kr_mcp_id_scan(&r->scan, text, len);
    id = kr_mcp_id_found(&r->scan);
    kr_relay_fail(r, id, KR_RPC_INVALID_REQUEST, "a message is at most 4 MiB");
    json_decref(id);
    r->scan = (struct kr_mcp_id_scan){0};
    r->skipping = false;
}

static void take_message_line(struct kr_relay *r, const char *text, size_t len)
{
    struct kr_mcp_flaw flaw = {0};
    struct kr_mcp_message m = {0};
    json_t *root = NULL;

    if (r->skipping || len > KR_MCP_MESSAGE_MAX) {
        refuse_long_line(r, text, len);
        return;
    }
    if (strspn(text, " \t\r\n") >= len)
        return;
    if (kr_mcp_parse(text, len, &root, &flaw) < 0) {
        root = kr_mcp_find_id(text, len);
        kr_relay_fail(r, root, flaw.code, "%s", flaw.text);
    } else if (kr_mcp_classify(root, &m, &flaw) < 0)
        kr_relay_fail(r, m.id, flaw.code, "%s", flaw.text);
    else
        kr_relay_send(r, &m, text, len);
    json_decref(root);
}

static bool may_take(const struct kr_relay *r)
{
    return !r->held && r->waits == 0 && r->notes < KR_RELAY_NOTES_MAX;
}

void kr_relay_go_on(struct kr_relay *r)
{
    size_t at = 0;

    while (may_take(r) && at < r->in.len) {
        const char *line = r->in.data + at, *end = memchr(line, '\n', r->in.len - at);

        if (!end)
            break;
        at += (size_t)(end - line) + 1;
        take_message_line(r, line, (size_t)(end - line));
    }
    kr_buf_drop(&r->in, at);
    if (may_take(r) && (r->skipping || r->in.len > KR_MCP_MESSAGE_MAX)) {
        r->skipping = true;
        kr_mcp_id_scan(&r->scan, r->in.data, r->in.len);
        kr_buf_reset(&r->in);
    }
    if (r->source && !r->ended)
        kr_source_flow(r->source, may_take(r));
}

static void on_data(void *data, const char *bytes, size_t len)
{
    struct kr_relay *r = data;

    if (kr_buf_add(&r->in, bytes, len) < 0) {
        fprintf(stderr, "krait mcp: no memory\n");
        kr_relay_end(r, 1);
        return;
    }
    kr_relay_go_on(r);
}

static void on_last(void *data)
{
    struct kr_relay *r = data;

    kr_relay_end(r, r->status);
}

/* What is under way is given up: the client has gone. */
static void on_input_end(void *data)
{
    struct kr_relay *r = data;
    struct kr_relay_ex *e;

    r->ended = true;
    while ((e = TAILQ_FIRST(&r->exchanges)))
        kr_relay_ex_free(e);
    if (kr_relay_bye(r))
        kr_timer_arm(r->last, BYE_MS);
    else
        kr_relay_end(r, 0);
}

/* ---- life ---- */

void kr_relay_end(struct kr_relay *r, int status)
{
    r->status = status;
    r->ended = true;
    uv_stop(&r->loop);
}

static void on_relay_signal(uv_signal_t *handle, int signo)
{
    (void)signo;
    on_input_end(handle->data);
}

static int open_relay(struct kr_relay *r)
{
    static const struct kr_sink_calls sink = {on_drained, on_sink_failed};
    static const struct kr_source_calls source = {on_data, on_input_end};
    static const int numbers[3] = {SIGTERM, SIGINT, SIGHUP};
    int e = uv_loop_init(&r->loop);

    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; e >= 0 && i < 3; i++) {
        r->signals[i].data = r;
        e = uv_signal_init(&r->loop, &r->signals[i]);
        if (e >= 0)
            e = uv_signal_start(&r->signals[i], on_relay_signal, numbers[i]);
    }
    if (e >= 0)
        e = kr_timer_new(&r->loop, on_last, r, &r->last);
    if (e >= 0)
        e = kr_sink_new(&r->loop, 1, KR_RELAY_OUT_MAX, &sink, r, &r->sink);
    if (e >= 0)
        e = kr_source_new(&r->loop, 0, &source, r, &r->source);
    return e;
}

/* What was written has a moment to be taken. */
static void drain(struct kr_relay *r)
{
    for (int i = 0; i < (int)BYE_MS / 10 && kr_sink_pending(r->sink) > 0; i++) {
        kr_timer_arm(r->last, 10);
        uv_run(&r->loop, UV_RUN_ONCE);
    }
}

static void close_relay(struct kr_relay *r)
{
    struct kr_relay_ex *e;

    while ((e = TAILQ_FIRST(&r->exchanges)))
        kr_relay_ex_free(e);
    kr_source_close(r->source);
    kr_sink_close(r->sink);
    kr_timer_close(r->last);
    kr_buf_done(&r->in);
    uv_run(&r->loop, UV_RUN_NOWAIT);
}

int kr_relay_run(const char *url, const char *key, struct kr_err *err)
{
    static struct kr_relay r;
    int e = kr_hx_target_parse(url, &r.target, err);

    if (e < 0 || (e = kr_hx_resolve(&r.target, err)) < 0)
        return e;
    r.key = key;
    TAILQ_INIT(&r.exchanges);
    kr_buf_init(&r.in, KR_MCP_MESSAGE_MAX + 2 * CHUNK);
    e = open_relay(&r);
    if (e < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -e, "the relay");
    kr_source_flow(r.source, true);
    uv_run(&r.loop, UV_RUN_DEFAULT);
    drain(&r);
    close_relay(&r);
    return r.status;
}
