/* What the files of this folder share. Not for other folders.
 *
 * Who does what: listen.c accepts, conn.c moves a connection from state to state, input.c takes bytes apart, exchange.c
 * makes and ends exchanges, response.c and stream.c write answers into conn_output.c's queue, error.c has the engine's
 * own answers, deadline.c the one deadline a connection has at a time, peers.c counts by address, server.c holds it
 * all. */
#pragma once
#include "body.h"
#include "coding.h"
#include "http.h"
#include "parse.h"
#include <netinet/in.h>
#include <sys/queue.h>
#include <sys/uio.h>
#include <uv.h>

#define READ_MAX 65536u         /* the shared read buffer */
#define LINGER_BYTES (4u << 20) /* dropped at most after the last answer */
#define DISCARD_MAX 65536u      /* of an unread body, so that its connection can go on */
#define HEADERS_MAX 4096u       /* bytes set by kr_http_set_header() */
#define DEFAULT_HEADERS_MAX 16u /* rows of the table in response.c */

/* What a connection waits for. Changed by kr_http_conn_move() alone. */
enum conn_state {
    C_HEAD,    /* a request, or the rest of its head */
    C_BODY,    /* the rest of a body; there is an exchange */
    C_ANSWER,  /* the end of the answer; there is an exchange, its body is whole */
    C_DISCARD, /* answered; the rest of an unread body */
    C_FLUSH,   /* the last answer is given: bytes to leave, then C_LINGER or the end */
    C_LINGER,  /* our side is shut; the peer's last bytes */
    C_CLOSED,
};

enum deadline { D_NONE, D_HEAD, D_IDLE, D_BODY, D_WRITE, D_LINGER, D_BEAT, D_MAX_ };

struct kr_http_conn {
    uv_poll_t poll;
    struct kr_http_server *server;
    struct kr_http_ex *ex;     /* in C_BODY and C_ANSWER */
    struct kr_http_peer *peer; /* NULL: not counted */
    TAILQ_ENTRY(kr_http_conn) all, timed, soon;
    uint64_t due; /* of the deadline, uv_now() scale */
    char *in;     /* bytes that could not be taken yet, from a head's first byte or inside a body; NULL if none */
    char *out;    /* bytes the socket has not taken; NULL if none */
    uint32_t in_len, in_cap;
    uint32_t out_at, out_len, out_cap; /* [out_at, out_len) wait */
    size_t held;                       /* bytes of an answer that its handler keeps and writes in pieces */
    uint32_t window;                   /* body bytes of this D_BODY window; in C_LINGER, bytes dropped */
    struct kr_http_scan scan;
    struct kr_http_body body;
    struct in6_addr address; /* IPv4 mapped; all zero for a unix socket */
    int fd;
    unsigned tag;
    uint8_t state, deadline, interest;
    bool is_unix;
    bool used;    /* had a request: silence is keep-alive now, not a slow head */
    bool busy;    /* inside kr_http_input_take(): a change need not be put on the soon list */
    bool queued;  /* on the server's soon list */
    bool blocked; /* the socket took less than it was given */
    bool broken;  /* a write failed: gone at the next step */
    bool ended;   /* the peer sends no more: nothing to linger for */
};

TAILQ_HEAD(kr_http_conns, kr_http_conn);

struct kr_http_ex {
    struct kr_http_conn *conn;
    const struct kr_http_route *route;
    const struct kr_http_calls *calls;
    void *data;
    uint64_t started_ns;
    uint64_t body_limit, body_got;
    uint64_t sent;    /* body bytes of the answer */
    int64_t declared; /* Content-Length of the answer, -1: none */
    int64_t length;   /* Content-Length of the request, -1: chunked */
    char *collected;  /* the whole body, if it is collected */
    size_t collected_cap;
    char *headers;                /* set by kr_http_set_header(); HEADERS_MAX long */
    unsigned headers_len, hidden; /* hidden: bit per default row that is not to be sent */
    int status;
    uint16_t path_at, query_at, method_at, id_at; /* in text */
    uint16_t params_at[KR_HTTP_PARAMS_MAX];       /* from decoded_at */
    uint16_t decoded_at, nparams, nfields, allowed;
    uint8_t method;
    bool http10, keep, expect;
    bool raw;      /* another protocol is spoken: bytes without a framing of HTTP, both ways */
    bool accepted; /* the body may be read */
    bool paused;
    bool collect;  /* into collected; else to calls->on_body, or dropped if there are none */
    bool begun;    /* the head of the answer is out */
    bool answered; /* its answer is given and is being compressed */
    bool coded;    /* whether to compress the answer is decided */
    bool chunked;  /* the answer is */
    bool no_body;  /* the answer has none: HEAD, 204, 304 */
    bool sse;
    bool drain_due; /* on_drain is promised */
    bool over;      /* on_gone is running: answers are ignored */
    char made_id[20];
    struct kr_http_field fields[]; /* then text: a copy of the head with NULs, then the decoded path */
};

struct listener {
    uv_poll_t poll;
    struct kr_http_server *server;
    int fd;
    unsigned tag;
    bool is_unix;
    TAILQ_ENTRY(listener) all;
};

struct kr_http_server {
    struct uv_loop_s *loop;
    struct kr_http_config config; /* with the defaults filled in */
    struct kr_http_router *router;
    struct kr_http_stats stats;
    struct kr_http_conns conns, soon, timed[D_MAX_];
    unsigned soon_count;
    TAILQ_HEAD(, listener) listeners;
    struct kr_http_peers *peers;
    uv_prepare_t prepare; /* both run what is on the soon list, so that nothing waits across a poll */
    uv_check_t check;
    uv_idle_t idle;         /* active while something is on it: the poll must not block */
    uv_timer_t timer;       /* the earliest deadline */
    uv_timer_t stop_timer;  /* the end of the grace */
    uv_timer_t again_timer; /* accepting again after it had to rest */
    uint64_t timer_due;     /* 0: not running */
    unsigned handles;       /* that the loop still knows: the memory goes with the last */
    int spare_fd;           /* given up for a moment to turn a newcomer away when there are no descriptors */
    bool draining, stopping, reported_stop, freed;
    void (*on_stopped)(void *app);
    uint32_t id_prefix, id_count;
    int64_t date_at; /* seconds */
    char date[32];
    struct kr_http_head head; /* of the request being taken apart */
    char rbuf[READ_MAX];
};

/* ---- conn.c ---- */
/* Takes the descriptor in any case. 0 or -errno. */
int kr_http_conn_new(struct kr_http_server *s, int fd, unsigned tag, bool is_unix, const struct in6_addr *address,
                     struct kr_http_peer *peer);
void kr_http_conn_move(struct kr_http_conn *c, enum conn_state state);
/* To be settled in the next step of the loop. */
void kr_http_conn_soon(struct kr_http_conn *c);
void kr_http_conn_not_soon(struct kr_http_conn *c);
/* Flushes, takes kept input, tells of a drained queue, and makes interest and deadline what the state wants. */
void kr_http_conn_settle(struct kr_http_conn *c);
/* Ends the exchange, if there is one, with on_gone; closes the connection. */
void kr_http_conn_gone(struct kr_http_conn *c);
/* Closes at once; there is no exchange any more. */
void kr_http_conn_close(struct kr_http_conn *c);
/* The deadline passed. */
void kr_http_conn_late(struct kr_http_conn *c, enum deadline which);

/* ---- input.c ---- */
/* One read, and what can be made of it: bytes, 0 at the end, -errno. */
ssize_t kr_http_input_recv(struct kr_http_conn *c);
/* Takes what was kept; true if that changed anything. */
bool kr_http_input_again(struct kr_http_conn *c);

/* ---- exchange.c ---- */
/* A request's head is whole: makes the exchange, routes it, asks the gate, and calls the handler or waits for the body.
 * `more`: bytes came behind the head. */
void kr_http_ex_start(struct kr_http_conn *c, const struct kr_http_head *h, const char *bytes, size_t len, bool more);
/* The whole body is there. */
void kr_http_ex_body_done(struct kr_http_ex *ex);
/* The body is whole and plain: calls the handler. */
void kr_http_ex_handle(struct kr_http_ex *ex);
/* -ENOMEM, or -ENOBUFS if the server holds too much. */
int kr_http_ex_collect(struct kr_http_ex *ex, const char *data, size_t len);
/* Reports and frees; the connection has none then. */
void kr_http_ex_done(struct kr_http_ex *ex, bool complete);
/* Calls on_gone, if the handler has registered it. */
void kr_http_ex_tell_gone(struct kr_http_ex *ex);
void kr_http_make_id(struct kr_http_server *s, char id[20]);

/* ---- coded.c ---- */
/* What its body is in; OTHER for what is not known, or several. */
enum kr_http_coding kr_http_ex_coding(const struct kr_http_ex *ex);
/* Decodes the collected body, here or on a thread, and calls the handler or answers. */
void kr_http_ex_decode(struct kr_http_ex *ex, enum kr_http_coding coding);
/* Compresses a whole answer if the client takes it and it is worth it; false: it is to be sent as it is. */
bool kr_http_reply_coded(struct kr_http_ex *ex, int status, const char *type, const void *body, size_t len);

/* ---- response.c ---- */
/* Queues a whole refusal that closes the connection; `ex` may be NULL. `id` is its X-Request-ID. */
void kr_http_refuse(struct kr_http_conn *c, const struct kr_http_ex *ex, const char *id, int status, const char *body,
                    size_t len);
/* Queues a piece of an answer given as parts (at most 4), as one chunk if it is chunked; returns what waits. */
size_t kr_http_piece_write(struct kr_http_ex *ex, const struct iovec *parts, unsigned count);

/* ---- error.c ---- */
const char *kr_http_status_reason(int status);
/* Refuses the request that is being read: answers (unless an answer has begun), then closes lingering. text NULL: the
 * table's. */
void kr_http_fail(struct kr_http_conn *c, int status, const char *text);
/* The same for a head that is refused: `bytes` begin with it. Its path, as far as it can be read, decides the shape of
 * the answer. */
void kr_http_fail_head(struct kr_http_conn *c, int status, const char *bytes, size_t len);

/* ---- conn_output.c ---- */
/* Queues the parts (at most 6); large ones go out at once as far as the socket takes them. */
void kr_http_out_add(struct kr_http_conn *c, const struct iovec *parts, unsigned count);
void kr_http_out_flush(struct kr_http_conn *c);
void kr_http_out_drop(struct kr_http_conn *c);  /* forgets what waits */
void kr_http_hold_drop(struct kr_http_conn *c); /* what kr_http_hold() counted is counted no more */
static inline size_t kr_http_out_pending(const struct kr_http_conn *c)
{
    return c->out_len - c->out_at;
}

/* ---- deadline.c ---- */
void kr_http_deadline_set(struct kr_http_conn *c, enum deadline which); /* starts it unless it is that one already */
void kr_http_deadline_again(struct kr_http_conn *c);                    /* starts the same anew */

/* ---- listen.c ---- */
void kr_http_listener_close(struct listener *l);

/* ---- peers.c ---- */
int kr_http_peers_new(struct kr_http_peers **ret_peers);
void kr_http_peers_free(struct kr_http_peers *p);
/* Counts one more of its kind; NULL if there are `max` already, or no memory. */
struct kr_http_peer *kr_http_peer_take(struct kr_http_peers *p, const struct in6_addr *address, unsigned max);
void kr_http_peer_drop(struct kr_http_peers *p, struct kr_http_peer *peer); /* takes NULL */

/* ---- server.c ---- */
/* A handle of the server is closed; the last one takes the memory with it. */
void kr_http_server_unhandle(struct kr_http_server *s);
const char *kr_http_server_date(struct kr_http_server *s);
