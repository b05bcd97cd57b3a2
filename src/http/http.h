/* The HTTP/1.1 server: listeners, connections, exchanges.
 *
 * Everything belongs to the one loop thread. An exchange (struct kr_http_ex) is one request and its answer. Its pointer
 * is good from the handler's call until the answer is given (kr_http_reply*, kr_http_end, kr_http_abort) or on_gone
 * returns; strings got from it live as long. No callback is ever made from inside a call of this header: on_gone,
 * on_drain, on_body and the next request's handler come in a later step of the loop.
 *
 * What the engine answers by itself (400, 404, 405, 408, 413, 414, 417, 431, 500, 501, 503, 505) gets its body from
 * kr_http_config.error_body. docs/design/http.md has every limit and what happens at it. */
#pragma once
#include "http_method.h"
#include "route.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kr_buf;
struct kr_err;
struct kr_http_ex;
struct kr_http_server;
struct uv_loop_s;

#define KR_HTTP_HEAD_MAX 16384u          /* bytes of a request's head; also of pipelined bytes while an answer is due */
#define KR_HTTP_FIELDS_MAX 64u           /* header fields of a request */
#define KR_HTTP_QUEUE_LOW (64u * 1024)   /* on_drain comes when the queue falls below this */
#define KR_HTTP_QUEUE_HIGH (256u * 1024) /* a producer stops when kr_http_write() returns more */
#define KR_HTTP_QUEUE_MAX (64u << 20)    /* a connection whose queue would pass this is cut */
#define KR_HTTP_REQUEST_ID_MAX 128u

/* ---- the server ---- */

/* How an exchange ended, for logs and metrics. Strings are borrowed for the call. */
struct kr_http_report {
    const struct kr_http_route *route; /* NULL if none matched */
    const char *method, *path;         /* as sent, without the query; "" if the head was not understood */
    const char *request_id;            /* what X-Request-ID said */
    unsigned tag;                      /* of the listener */
    int status;                        /* of the answer; 0 if none was begun */
    bool complete;                     /* the whole answer was handed to the connection; false: the peer left, or cut */
    uint64_t bytes_in, bytes_out;      /* of the body */
    uint64_t wall_ns;                  /* since the head was complete */
    const struct kr_http_ex *ex;       /* the rest of the request; NULL if the head was refused */
};

/* A header that every answer has unless the exchange sets or hides it. */
struct kr_http_default_header {
    const char *name, *value;
};

/* Zero in a number means its default. All strings and tables are kept, not copied. */
struct kr_http_config {
    const struct kr_http_route *routes;
    size_t route_count;
    void *app; /* the first argument of the calls below, the last of handlers */

    /* Called for every request with a good head, before its body is read and also when no route matched
     * (kr_http_route() is NULL then): Host and Origin checks, CORS, authentication, rate limits. True: go on. False: it
     * has answered, or answers later (kr_http_defer()); the body is not read meanwhile. May set response headers with
     * kr_http_set_header(). May be NULL. */
    bool (*gate)(void *app, struct kr_http_ex *ex);
    /* Writes the body of an answer the engine makes: `text` is one sentence for a person. `path` is what could
     * be read of it when the head was refused, perhaps "", `request_id` is what X-Request-ID will say. Leaves `out`
     * empty for the default, {"error":{"status":…,"message":…}}. The type is application/json. May be NULL. */
    void (*error_body)(void *app, unsigned tag, const char *path, int status, const char *text, const char *request_id,
                       struct kr_buf *out);
    /* Every exchange, once, when it is over; also heads that were refused. May be NULL. */
    void (*on_report)(void *app, const struct kr_http_report *report);

    /* What every answer carries, the engine's own included; NULL: the security headers of an API (docs/design/http.md).
     * At most 16 rows and 2048 bytes. */
    const struct kr_http_default_header *headers;
    size_t header_count;

    unsigned connections_max;      /* all listeners together; 16384, or what RLIMIT_NOFILE leaves */
    unsigned per_address_max;      /* of one IPv4 address or IPv6 /64; 1024; unix sockets are not counted */
    uint64_t collected_bodies_max; /* bytes of whole bodies held in memory by all connections; 256 MiB; past it 503 */
    uint64_t unsent_max;           /* bytes that wait for slow readers on all connections; 256 MiB; past it the
                                    * connection that holds most is cut */
    unsigned head_ms;              /* from the first byte (or the connection) to the whole head; 10 s; then 408 */
    unsigned idle_ms;              /* keep-alive without a byte; 75 s */
    unsigned body_ms;              /* each such window of a body must bring body_min_bytes; 10 s; else 408 */
    unsigned body_min_bytes;       /* 5000 */
    unsigned write_ms;             /* without one byte taken by the peer while bytes wait; 30 s; then cut */
    unsigned linger_ms;            /* reading on after the last answer, so that it is not lost to a reset; 1 s */
    unsigned beat_ms;              /* comment lines on silent SSE streams, pings on silent WebSockets; 15 s */
};

/* Compiles the routes; listens to nothing yet. 0, or -errno with err. */
int kr_http_server_new(struct uv_loop_s *loop, const struct kr_http_config *config, struct kr_http_server **ret_server,
                       struct kr_err *err);
/* Takes a bound stream socket (IPv4, IPv6 or unix; on success), listens and accepts. `tag` is what kr_http_tag() says
 * for its requests: a dialect. Any number of listeners. 0, or -errno with err. */
int kr_http_server_listen(struct kr_http_server *s, int fd, unsigned tag, struct kr_err *err);
/* From now on each answer closes its connection; new ones are still accepted. */
void kr_http_server_drain(struct kr_http_server *s);
/* Stops accepting, closes idle connections, lets pending answers finish (each closes its connection), and after
 * grace_ms cuts the rest (their on_gone is called). on_stopped comes once, later, when no connection is left. Called
 * again with a shorter grace: that counts. */
void kr_http_server_stop(struct kr_http_server *s, unsigned grace_ms, void (*on_stopped)(void *app));
/* Cuts what is left (no on_gone; each exchange is still reported) and frees; memory goes one turn of the loop later.
 * Not from a handler or a call of an exchange; call it in on_stopped. Takes NULL. */
void kr_http_server_free(struct kr_http_server *s);

struct kr_http_stats {
    uint64_t connections, connections_total; /* open now; accepted ever */
    uint64_t refused_total;                  /* newcomers turned away: caps, no descriptors */
    uint64_t exchanges;                      /* requests that wait for the end of their answer now */
    uint64_t requests_total, malformed_total, timeouts_total, gone_total;
    uint64_t bytes_in_total, bytes_out_total; /* on the wire */
    uint64_t collected_bytes;                 /* whole bodies in memory now */
    uint64_t unsent_bytes;                    /* memory of what waits for slow readers now */
    uint64_t cut_total;                       /* connections cut because their answers did not fit */
};
const struct kr_http_stats *kr_http_server_stats(const struct kr_http_server *s);

/* ---- the request ---- */

enum kr_http_method kr_http_method(const struct kr_http_ex *ex); /* HEAD stays HEAD, also on a GET row */
const char *kr_http_path(const struct kr_http_ex *ex);           /* raw, '/' first ("*" for OPTIONS *) */
const char *kr_http_query(const struct kr_http_ex *ex);          /* raw, without '?'; "" if none */
/* The first field of that name (any case), blanks around it trimmed; NULL if none. Never twice in a request (400):
 * Host, Content-Length, Transfer-Encoding, Content-Type, Authorization, Origin, Expect. */
const char *kr_http_header(const struct kr_http_ex *ex, const char *name);
/* The i-th field; false past the last. */
bool kr_http_header_at(const struct kr_http_ex *ex, unsigned i, const char **ret_name, const char **ret_value);
/* A parameter of the pattern, decoded; NULL if the pattern has no such name. */
const char *kr_http_param(const struct kr_http_ex *ex, const char *name);
const struct kr_http_route *kr_http_route(const struct kr_http_ex *ex); /* NULL if none matched (seen by the gate) */
const char *kr_http_request_id(const struct kr_http_ex *ex);            /* the client's if safe, else ours */
unsigned kr_http_tag(const struct kr_http_ex *ex);
/* The peer's address as text without port, "unix" for a unix socket; IPv4 in IPv6 is written as IPv4. Returns buf. */
#define KR_HTTP_PEER_MAX 48u
const char *kr_http_peer(const struct kr_http_ex *ex, char buf[KR_HTTP_PEER_MAX]);
/* The whole body (routes without KR_HTTP_STREAM_BODY); NUL after the last byte; "" and 0 if none. */
const char *kr_http_body(const struct kr_http_ex *ex, size_t *ret_len);
/* Hands the body's memory over (to be freed; NULL if there is none), for work that may outlive the exchange: a
 * thread's. */
char *kr_http_take_body(struct kr_http_ex *ex, size_t *ret_len);
/* Gives the body's memory back before the exchange is over: for answers that take long. */
void kr_http_drop_body(struct kr_http_ex *ex);
int64_t kr_http_content_length(const struct kr_http_ex *ex); /* -1: chunked; 0: none */

/* In the gate: this request's body limit, instead of its route's (0: the route's). */
void kr_http_set_body_limit(struct kr_http_ex *ex, uint64_t limit);

/* ---- answering later, and bodies in pieces ---- */

/* Kept, not copied: a static const. Any may be NULL but on_gone. `data` is the one given with it. */
struct kr_http_calls {
    /* A piece of the body, only during the call. It may answer (413, say) or pause. */
    void (*on_body)(void *data, struct kr_http_ex *ex, const char *bytes, size_t len);
    void (*on_body_end)(void *data, struct kr_http_ex *ex);
    /* The queue, which was KR_HTTP_QUEUE_LOW or more when kr_http_write() last returned, is below it again. */
    void (*on_drain)(void *data, struct kr_http_ex *ex);
    /* The exchange is over and not by you: the peer left (also: closed its sending side), a deadline passed, the body
     * was malformed or too long, the server stops. Do not answer; the pointer is dead when this returns. */
    void (*on_gone)(void *data, struct kr_http_ex *ex);
};

/* The answer comes later: registers what to call meanwhile. Again: replaces. */
void kr_http_defer(struct kr_http_ex *ex, const struct kr_http_calls *calls, void *data);
/* For KR_HTTP_STREAM_BODY routes, in the handler or later: the body may come (100 Continue is sent if it was asked
 * for), up to `limit` bytes (0: the route's). on_body and on_body_end follow, the latter also for an empty body. */
void kr_http_accept_body(struct kr_http_ex *ex, uint64_t limit, const struct kr_http_calls *calls, void *data);
/* No on_body until resumed; the peer is held back by TCP. Deadlines of the body rest meanwhile. */
void kr_http_pause_body(struct kr_http_ex *ex, bool pause);

/* ---- the answer ---- */

/* Adds a header to the answer to come. A name that the default headers have replaces that row; value NULL takes the row
 * out. Not for Content-Length, Transfer-Encoding, Connection, Date, Content-Type, X-Request-ID. -EINVAL for a bad name
 * or control characters in the value, -ENOBUFS past 4096 bytes in all. */
int kr_http_set_header(struct kr_http_ex *ex, const char *name, const char *value);

/* The whole answer. `type` may be NULL when len is 0. The bytes are copied. The exchange is over. */
void kr_http_reply(struct kr_http_ex *ex, int status, const char *type, const void *body, size_t len);
/* The same with the body of kr_http_config.error_body. */
void kr_http_reply_error(struct kr_http_ex *ex, int status, const char *text);
/* The same for what kr_json wrote: application/json. A buffer that failed becomes a 500. The buffer stays the
 * caller's. */
void kr_http_reply_json(struct kr_http_ex *ex, int status, const struct kr_buf *json);

/* Begins an answer written in pieces. length -1: unknown (chunked; HTTP/1.0: until close). After it kr_http_write() and
 * kr_http_end(). With a length, writing more or less than it cuts the connection. */
void kr_http_begin(struct kr_http_ex *ex, int status, const char *type, int64_t length);
/* The handler keeps so many bytes of the answer until they are written: they count with what waits for slow readers,
 * until the exchange is over. False: they are too many; the connection is cut, and on_gone is on its way. */
bool kr_http_hold(struct kr_http_ex *ex, size_t bytes);
/* Returns the bytes that wait for the peer: above KR_HTTP_QUEUE_HIGH stop until on_drain. The bytes are copied. After
 * the connection broke it returns 0, and on_gone is on its way. */
size_t kr_http_write(struct kr_http_ex *ex, const void *data, size_t len);
size_t kr_http_queued(const struct kr_http_ex *ex);
/* What was written leaves now, and not at the end of this step of the loop. Calls nothing back. */
void kr_http_flush(struct kr_http_ex *ex);
/* The answer is whole; the exchange is over. */
void kr_http_end(struct kr_http_ex *ex);
/* Cuts the connection so that the peer sees an answer broken off; the exchange is over. No on_gone. */
void kr_http_abort(struct kr_http_ex *ex);

/* 101: from here on the connection speaks another protocol. What the peer sends comes by on_body, without an end but
 * on_gone; kr_http_write() sends bytes as they are; kr_http_end() closes the connection, kr_http_pause_body() holds the
 * peer back. No deadline of HTTP holds but write_ms. For handlers, once the body of the request is whole. */
void kr_http_switch(struct kr_http_ex *ex, const char *protocol, const struct kr_http_calls *calls, void *data);

/* ---- streams of JSON ---- */

/* 200 and application/x-ndjson; charset=utf-8, with buffering by proxies switched off. */
void kr_http_ndjson_begin(struct kr_http_ex *ex);
/* One line: a JSON text without line breaks. Returns as kr_http_write(). */
size_t kr_http_ndjson_line(struct kr_http_ex *ex, const char *json, size_t len);

/* 200 and text/event-stream; a comment line goes out whenever nothing else did for beat_ms. */
void kr_http_sse_begin(struct kr_http_ex *ex);
/* One event. `event` and `id` may be NULL (then those lines are left out) and have no line breaks (one that has is left
 * out); data is split into its lines (LF, CR, CRLF). Returns as kr_http_write(). */
size_t kr_http_sse_event(struct kr_http_ex *ex, const char *event, const char *id, const char *data, size_t len);
