/* A terminal as a WebSocket: binary messages are bytes of the terminal, texts are JSON about it.
 *
 * Called by terminal_routes.c. Invariants: what is typed is never dropped: a client whose program does not read is held
 * back; a client that says what is not understood is closed with the reason. */
#include "buf.h"
#include "json_load.h"
#include "loop.h"
#include "reply.h"
#include "terminal_routes.h"
#include "websocket.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct terminal_socket {
    struct kr_terminal_reader reader;
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_ws *ws;
    struct kr_timer *timer; /* until its key is looked at again */
    bool held;              /* what it types is not read */
};

static void free_socket(struct terminal_socket *s)
{
    kr_terminal_leave(&s->reader);
    kr_timer_close(s->timer);
    free(s);
}

static void close_socket(struct terminal_socket *s, unsigned code, const char *reason)
{
    struct kr_ws *ws = s->ws;

    free_socket(s);
    kr_ws_close(ws, code, reason);
}

static void send_about(struct terminal_socket *s, const char *type, uint64_t at, uint64_t bytes)
{
    cleanup_buf struct kr_buf buf;

    kr_buf_init(&buf, 256);
    kr_buf_printf(&buf, "{\"type\":\"%s\",\"at\":%" PRIu64, type, at);
    if (bytes > 0)
        kr_buf_printf(&buf, ",\"bytes\":%" PRIu64, bytes);
    kr_buf_add_str(&buf, "}");
    (void)kr_ws_send(s->ws, KR_WS_TEXT, buf.data, buf.len);
}

static void send_end(struct terminal_socket *s)
{
    cleanup_buf struct kr_buf buf;

    kr_buf_init(&buf, KR_WS_TEXT_MAX);
    kr_api_terminal_end_json(&buf, s->reader.terminal);
    (void)kr_ws_send(s->ws, KR_WS_TEXT, kr_buf_str(&buf), buf.len);
    close_socket(s, KR_WS_NORMAL, "the terminal has ended");
}

/* Frees it at the end. */
static void send_socket_more(struct terminal_socket *s)
{
    const char *data;
    uint64_t lost;
    size_t len;

    if (s->held && kr_box_terminal_wants(s->reader.terminal)) {
        s->held = false;
        kr_ws_pause(s->ws, false);
    }
    while (kr_ws_queued(s->ws) <= KR_HTTP_QUEUE_HIGH && kr_terminal_peek(&s->reader, &data, &len, &lost)) {
        if (lost > 0)
            send_about(s, "lost", s->reader.at, lost);
        if (len > KR_API_TERMINAL_PIECE)
            len = KR_API_TERMINAL_PIECE;
        (void)kr_ws_send(s->ws, KR_WS_BINARY, data, len);
        kr_terminal_take(&s->reader, len);
    }
    if (kr_terminal_done(&s->reader))
        send_end(s);
}

static void on_socket_more(struct kr_terminal_reader *r)
{
    send_socket_more((struct terminal_socket *)r); /* its first member */
}

static void on_socket_drain(void *data)
{
    send_socket_more(data);
}

/* What was read before it was held back still fits: kr_box_terminal_wants(). */
static void on_typed(void *data, const char *bytes, size_t len)
{
    struct terminal_socket *s = data;
    struct kr_err err;

    if (kr_box_terminal_write(s->reader.terminal, bytes, len, &err) < 0) /* it ends: its last output is on its way */
        return;
    if (!s->held && !kr_box_terminal_wants(s->reader.terminal)) {
        s->held = true;
        kr_ws_pause(s->ws, true);
    }
}

/* NULL, or what was wrong. */
static const char *take_message(struct terminal_socket *s, const json_t *m)
{
    const char *type = json_string_value(json_object_get(m, "type"));
    json_int_t cols = json_integer_value(json_object_get(m, "cols")),
               rows = json_integer_value(json_object_get(m, "rows"));
    struct kr_err err;

    if (!type || strcmp(type, "resize") != 0)
        return "unknown message: the one there is is {\"type\":\"resize\",\"cols\":80,\"rows\":24}";
    if (cols < 1 || cols > KR_TERMINAL_SIDE_MAX || rows < 1 || rows > KR_TERMINAL_SIDE_MAX)
        return "resize: cols and rows are 1 to 4096";
    (void)kr_box_terminal_resize(s->reader.terminal, (uint32_t)cols, (uint32_t)rows, &err); /* it may have ended */
    return NULL;
}

static void on_message(void *data, const char *text, size_t len)
{
    struct terminal_socket *s = data;
    json_t *m = kr_json_load(text, len, 0, NULL);
    const char *wrong = take_message(s, m);

    json_decref(m);
    if (wrong)
        close_socket(s, KR_WS_POLICY, wrong);
}

static void on_socket_over(void *data)
{
    free_socket(data);
}

static void on_socket_time(void *data)
{
    struct terminal_socket *s = data;

    if (kr_auth_still(s->api->auth, s->ex, NULL))
        kr_timer_arm(s->timer, KR_AUTH_LOOK_MS);
    else
        close_socket(s, KR_WS_POLICY, "the key is no longer good");
}

void kr_api_terminal_connect(struct kr_api *api, struct kr_http_ex *ex, struct kr_box_terminal *t, uint64_t from)
{
    static const struct kr_ws_calls calls = {
        .on_binary = on_typed, .on_text = on_message, .on_drain = on_socket_drain, .on_over = on_socket_over};
    const char *protocol = kr_ws_offers(ex, KR_API_TERMINAL_PROTOCOL) ? KR_API_TERMINAL_PROTOCOL : NULL;
    struct terminal_socket *s = calloc(1, sizeof *s);

    if (!s || kr_timer_new(api->loop, on_socket_time, s, &s->timer) < 0) {
        free(s);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    s->api = api;
    s->ex = ex;
    s->reader.on_more = on_socket_more;
    if (!kr_ws_open(ex, protocol, &calls, s, &s->ws)) {
        free_socket(s);
        return;
    }
    kr_timer_arm(s->timer, KR_AUTH_LOOK_MS);
    kr_terminal_read(t, &s->reader, from);
    send_about(s, "ready", s->reader.at, 0);
    send_socket_more(s);
}
