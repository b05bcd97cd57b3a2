/* WebSockets on exchanges of the HTTP engine: the server's end of RFC 6455, for a handler that has judged the request.
 *
 * No extension is offered. A peer that breaks the protocol, sends too much at once, or answers no ping is closed with
 * the code that says so. Host, Origin and key are the gate's, as for every request; a handler that opens a WebSocket
 * needs no check of its own. Loop thread only; callbacks come as those of exchanges do. */
#pragma once
#include "ws_frame.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_http_ex;
struct kr_ws;

/* Kept, not copied: a static const. */
struct kr_ws_calls {
    void (*on_binary)(void *data, const char *bytes, size_t len); /* a piece of a binary message */
    void (*on_text)(void *data, const char *text, size_t len);    /* a whole text message, UTF-8; may be NULL */
    /* The queue, which was KR_HTTP_QUEUE_LOW or more when a send last returned, is below it again. */
    void (*on_drain)(void *data);
    /* It is over and not by you: the peer has closed it, has left, or was cut. The pointer is dead when this
     * returns. */
    void (*on_over)(void *data);
};

/* Judges the handshake and answers it: 101 with the subprotocol (NULL: none), and *ret is open; or 400, 426, 503, and
 * false: the exchange is over. The calls come later, never from here. */
bool kr_ws_open(struct kr_http_ex *ex, const char *protocol, const struct kr_ws_calls *calls, void *data,
                struct kr_ws **ret);
/* Does the peer's Sec-WebSocket-Protocol list it? */
bool kr_ws_offers(const struct kr_http_ex *ex, const char *protocol);
/* A message. Returns the bytes that wait for the peer: above KR_HTTP_QUEUE_HIGH stop until on_drain. */
size_t kr_ws_send(struct kr_ws *ws, enum kr_ws_op op, const void *data, size_t len);
size_t kr_ws_queued(const struct kr_ws *ws);
/* No on_binary until resumed: the peer is held back. What was read already still comes. */
void kr_ws_pause(struct kr_ws *ws, bool pause);
/* Sends a close frame and ends. No on_over; the pointer is dead. May be called from its own callbacks. */
void kr_ws_close(struct kr_ws *ws, unsigned code, const char *reason);
