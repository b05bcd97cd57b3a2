/* WebSockets: the handshake, the frames of one connection, pings.
 *
 * Called by handlers, on top of kr_http_switch(). Invariants: a frame leaves whole; after our close frame nothing is
 * sent and nothing is handed on; what the owner closes from within a callback is freed when the callback has
 * returned. */
#include "websocket.h"
#include "http_internal.h"
#include "loop.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MESSAGE_MAX (1u << 20)
#define VERSION "13"

struct kr_ws {
    struct kr_http_ex *ex;
    const struct kr_ws_calls *calls;
    void *data;
    struct kr_timer *pinger;
    bool heard;   /* something came since the last tick */
    bool pinged;  /* and a ping is unanswered */
    bool paused;  /* what it sends is not read, its pongs neither */
    bool inside;  /* on_ws_body() is on the stack */
    bool is_over; /* closed: freed by on_ws_body() if that is on the stack */
    struct kr_ws_parser parser;
};

/* ---- the handshake ---- */

/* The field of that name, which must be there once. */
static const char *only_field(const struct kr_http_ex *ex, const char *name)
{
    const char *field, *value, *found = NULL;

    for (unsigned i = 0; kr_http_header_at(ex, i, &field, &value); i++)
        if (strcasecmp(field, name) == 0) {
            if (found)
                return NULL;
            found = value;
        }
    return found;
}

/* False: answered. */
static bool pass_handshake(struct kr_http_ex *ex, char accept[KR_WS_ACCEPT_ROOM])
{
    const char *version = only_field(ex, "sec-websocket-version"), *key = only_field(ex, "sec-websocket-key");

    if (!kr_ws_lists(only_field(ex, "upgrade"), "websocket") || !kr_ws_lists(only_field(ex, "connection"), "upgrade")) {
        kr_http_set_header(ex, "Upgrade", "websocket");
        kr_http_reply_error(ex, 426, "this path is a WebSocket: ask for it with Upgrade: websocket");
        return false;
    }
    if (!version || strcmp(version, VERSION) != 0) {
        kr_http_set_header(ex, "Sec-WebSocket-Version", VERSION);
        kr_http_reply_error(ex, 426, "Sec-WebSocket-Version: " VERSION " is spoken here");
        return false;
    }
    if (ex->method != KR_HTTP_GET || ex->http10 || !kr_ws_key_is_good(key)) {
        kr_http_reply_error(ex, 400,
                            "not a handshake of a WebSocket: GET, HTTP/1.1 and a Sec-WebSocket-Key of 16 bytes");
        return false;
    }
    kr_ws_accept(key, accept);
    return true;
}

bool kr_ws_offers(const struct kr_http_ex *ex, const char *protocol)
{
    return kr_ws_lists(kr_http_header(ex, "sec-websocket-protocol"), protocol);
}

/* ---- life ---- */

static void free_ws(struct kr_ws *ws)
{
    kr_timer_close(ws->pinger);
    free(ws);
}

/* It is over for its owner. */
static void leave_ws(struct kr_ws *ws)
{
    ws->is_over = true;
    if (!ws->inside)
        free_ws(ws);
}

static size_t send_frame(struct kr_ws *ws, enum kr_ws_op op, const void *data, size_t len)
{
    unsigned char head[KR_WS_HEAD_MAX];
    struct iovec parts[2] = {{head, kr_ws_head(head, op, len, NULL)}, {(void *)data, len}};

    return kr_http_piece_write(ws->ex, parts, len > 0 ? 2 : 1);
}

static void send_close(struct kr_ws *ws, unsigned code, const char *reason, size_t len)
{
    char text[KR_WS_CONTROL_MAX] = {(char)(code >> 8), (char)code};

    if (len > sizeof text - 2)
        len = sizeof text - 2;
    memcpy(text + 2, reason, len);
    (void)send_frame(ws, KR_WS_CLOSE, text, code == KR_WS_NO_CODE ? 0 : len + 2);
    kr_http_end(ws->ex);
}

void kr_ws_close(struct kr_ws *ws, unsigned code, const char *reason)
{
    send_close(ws, code, reason, strlen(reason));
    leave_ws(ws);
}

size_t kr_ws_send(struct kr_ws *ws, enum kr_ws_op op, const void *data, size_t len)
{
    return send_frame(ws, op, data, len);
}

size_t kr_ws_queued(const struct kr_ws *ws)
{
    return kr_http_queued(ws->ex);
}

void kr_ws_pause(struct kr_ws *ws, bool pause)
{
    ws->paused = pause;
    ws->heard |= !pause;
    kr_http_pause_body(ws->ex, pause);
}

/* The peer has ended it, or broken it. The owner hears of it before the memory goes. */
static void end_by_peer(struct kr_ws *ws, unsigned code, const char *reason, size_t len)
{
    send_close(ws, code, reason, len);
    ws->is_over = true;
    ws->calls->on_over(ws->data);
}

/* ---- what comes ---- */

static void take_event(struct kr_ws *ws, enum kr_ws_event event, const struct kr_ws_piece *p)
{
    switch (event) {
    case KR_WS_GOT_BINARY:
        if (p->len > 0)
            ws->calls->on_binary(ws->data, p->data, p->len);
        break;
    case KR_WS_GOT_TEXT:
        if (ws->calls->on_text)
            ws->calls->on_text(ws->data, p->data, p->len);
        break;
    case KR_WS_GOT_PING: /* who does not read its answers gets no further ones */
        if (kr_ws_queued(ws) <= KR_HTTP_QUEUE_HIGH)
            (void)send_frame(ws, KR_WS_PONG, p->data, p->len);
        break;
    case KR_WS_GOT_CLOSE:
        end_by_peer(ws, p->code, "", 0);
        break;
    case KR_WS_BAD:
        end_by_peer(ws, p->code, p->data, p->len);
        break;
    case KR_WS_GOT_PONG:
    case KR_WS_MORE:
        break;
    }
}

static void on_ws_body(void *data, struct kr_http_ex *ex, const char *bytes, size_t len)
{
    struct kr_ws *ws = data;
    struct kr_ws_piece piece;
    enum kr_ws_event event;

    (void)ex;
    ws->heard = ws->inside = true;
    ws->pinged = false;
    while (!ws->is_over && (event = kr_ws_next(&ws->parser, &bytes, &len, &piece)) != KR_WS_MORE)
        take_event(ws, event, &piece);
    ws->inside = false;
    if (ws->is_over)
        free_ws(ws);
}

static void on_ws_drain(void *data, struct kr_http_ex *ex)
{
    struct kr_ws *ws = data;

    (void)ex;
    if (ws->calls->on_drain)
        ws->calls->on_drain(ws->data);
}

static void on_ws_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_ws *ws = data;

    (void)ex;
    ws->calls->on_over(ws->data);
    free_ws(ws);
}

/* A silent peer is asked; one that has not answered by the next tick is gone. */
static void on_ping_time(void *data)
{
    struct kr_ws *ws = data;

    if (ws->pinged && !ws->paused) {
        kr_http_abort(ws->ex);
        ws->calls->on_over(ws->data);
        free_ws(ws);
        return;
    }
    if (!ws->heard && !ws->paused) {
        ws->pinged = true;
        (void)send_frame(ws, KR_WS_PING, "", 0);
    }
    ws->heard = false;
    kr_timer_arm(ws->pinger, ws->ex->conn->server->config.beat_ms);
}

bool kr_ws_open(struct kr_http_ex *ex, const char *protocol, const struct kr_ws_calls *calls, void *data,
                struct kr_ws **ret)
{
    static const struct kr_http_calls http_calls = {
        .on_body = on_ws_body, .on_drain = on_ws_drain, .on_gone = on_ws_gone};
    char accept[KR_WS_ACCEPT_ROOM];
    struct kr_ws *ws;

    if (!pass_handshake(ex, accept))
        return false;
    ws = calloc(1, sizeof *ws);
    if (!ws || kr_timer_new(ex->conn->server->loop, on_ping_time, ws, &ws->pinger) < 0) {
        free(ws);
        kr_http_reply_error(ex, 503, "out of memory");
        return false;
    }
    ws->ex = ex;
    ws->calls = calls;
    ws->data = data;
    kr_ws_parser_init(&ws->parser, true, MESSAGE_MAX);
    kr_http_set_header(ex, "Sec-WebSocket-Accept", accept);
    if (protocol)
        kr_http_set_header(ex, "Sec-WebSocket-Protocol", protocol);
    kr_timer_arm(ws->pinger, ex->conn->server->config.beat_ms);
    kr_http_switch(ex, "websocket", &http_calls, ws);
    *ret = ws;
    return true;
}
