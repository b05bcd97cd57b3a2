/* A peer: one MCP client as its transport sees it, where messages become calls and calls become messages.
 *
 * What lasts between messages is here: who asks, dialect, the revision and capabilities of `initialize`, log level,
 * calls in flight by their id, our questions by theirs, subscriptions. Transports: mcp_lines.c (one peer a connection),
 * mcp_http_sse.c (one a stream), mcp_http_session.c (one a session), mcp_http_post.c (one a request, where nothing
 * lasts).
 *
 * A transport hands in what it read by kr_mcp_peer_receive() and is called through its struct kr_mcp_wire for what goes
 * out, also from inside kr_mcp_peer_receive(). Loop thread only. */
#pragma once
#include "call.h"
#include <stddef.h>

struct kr_mcp_message;
struct kr_mcp_peer;

#define KR_MCP_MESSAGE_MAX (4u << 20) /* bytes of one message that comes in; -32600 (HTTP: 413) */
#define KR_MCP_DEPTH_MAX 64u          /* of its nesting; -32600 */
#define KR_MCP_CALLS_MAX 64u          /* in flight at once on one lasting peer; -32603 that says so */
#define KR_MCP_BATCH_MAX 100u         /* messages of one batch (2025-03-26); -32600 */
#define KR_MCP_SUBSCRIPTIONS_MAX 256u /* resources one peer is subscribed to; -32603 that says so */

/* What a message that goes out is. */
enum kr_mcp_sent {
    KR_MCP_NOTE,    /* a notification. A transport whose reader is slow may drop it */
    KR_MCP_ASK,     /* a request of ours */
    KR_MCP_ANSWER,  /* the answer to a request: one for each request that came in, unless … */
    KR_MCP_SILENCE, /* … the client cancelled it: no message (json is NULL); nothing follows for it */
};

/* How a transport sends. */
struct kr_mcp_wire {
    /* One message: JSON of one line, without its end. `stream` is what kr_mcp_peer_receive() was given with the request
     * this belongs to, or NULL: it belongs to none. `code` of an ANSWER: 0 for a result, else the error's. The text is
     * the caller's. On an ANSWER or SILENCE it may call kr_mcp_peer_free(), which then waits for its caller; no other
     * call of this header. */
    void (*send)(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len);
    /* May the client be asked something on this stream? NULL: yes. */
    bool (*may_ask)(void *data, void *stream);
    /* Is the client connected, so that it can see a question? NULL: it is, as long as its peer lives. */
    bool (*is_there)(void *data);
};

struct kr_mcp_peer_config {
    const struct kr_mcp_wire *wire; /* kept */
    void *data;                     /* the wire's */
    struct kr_caller who;           /* copied */
    enum kr_dialect dialect;
    bool structured;
    bool local;           /* kr_mcp_is_local() */
    const char *base_url; /* copied; NULL: "" */
    const char *session;  /* copied: where its calls run that name none; NULL: in `main` and `terminal` */
    bool core;            /* lists krait's core tools alone */
    bool fleeting;        /* made for one request: nothing is remembered, no ids clash, only its call notifies */
};

/* 0 or -ENOMEM. */
int kr_mcp_peer_new(struct kr_mcp *m, const struct kr_mcp_peer_config *config, struct kr_mcp_peer **ret_peer);
/* Cancels its calls; nothing is sent. May be called from wire->send(): the memory goes when the call that led there
 * returns. Takes NULL. */
void kr_mcp_peer_free(struct kr_mcp_peer *p);
/* The same, and the end of the sessions that were made up for it (kr_mcp_peer_config.session), since no client comes
 * back to them. A run that goes on there, as a task or for read_run, is given its time. `who` is the peer's user. */
void kr_mcp_peer_end(struct kr_mcp_peer *p, const struct kr_caller *who);

/* A text that should be one message (or a batch, 2025-03-26), with the decision of its era: lines and HTTP+SSE.
 * Whatever is wrong with it is answered through the wire if it can be. Text with a NUL, invalid UTF-8 or past the caps
 * is no message. */
void kr_mcp_peer_receive(struct kr_mcp_peer *p, const char *text, size_t len, void *stream);
/* The same for one that is parsed already; borrowed. */
void kr_mcp_peer_receive_json(struct kr_mcp_peer *p, json_t *root, void *stream);
/* The same for what is no text any more: -32600 (a line past KR_MCP_MESSAGE_MAX, say). `id` is taken; NULL: none could
 * be read. */
void kr_mcp_peer_refuse(struct kr_mcp_peer *p, void *stream, json_t *id, int code, const char *text);

/* Calls in flight: 0 means that only notifications are left to be sent. */
size_t kr_mcp_peer_calls(const struct kr_mcp_peer *p);
/* May a key with these rights end the peer? Not if it may do less than one whose call is in flight. */
bool kr_mcp_peer_may_end(const struct kr_mcp_peer *p, unsigned rights);
/* The revision agreed upon by `initialize`, or -1. */
int kr_mcp_peer_rev(const struct kr_mcp_peer *p);
/* The sender of the next messages (another key of the same user, another request id); copied. 0 or -ENOMEM. */
int kr_mcp_peer_set_who(struct kr_mcp_peer *p, const struct kr_caller *who);

/* ---- for HTTP, where headers decide the era (mcp_http_decide.h) ---- */

/* One message whose era and revision are decided; `rev` is that of a request that needs no agreement, or -1: the
 * peer's. `m` is borrowed. */
void kr_mcp_peer_take(struct kr_mcp_peer *p, const struct kr_mcp_message *m, int rev, void *stream);
