/* What the files of this room share: the process, its cells and sandboxes, connections, rows, and the hooks by which
 * the TLS client, the index and fetches (the second half of the room) join the proxy (the first). */
#pragma once
#include "buf.h"
#include "dial.h"
#include "egress.h"
#include "err.h"
#include "id.h"
#include "net_rule.h"
#include "parse.h"
#include "eg_secrets.h"
#include "eg_stream.h"
#include <jansson.h>
#include <sys/queue.h>
#include <uv.h>

struct kr_eg_conn;
struct kr_lane;
struct kr_soon;
struct kr_timer;
struct kr_watch;

#define KR_EG_TEXT_ROOM 64 /* ids of sandboxes, users, runs */

/* ---- sandboxes and cells (egress_cells.c) ---- */

/* What is counted for a sandbox, of all its cells and of fetches on its behalf. */
struct kr_eg_sandbox {
    LIST_ENTRY(kr_eg_sandbox) link;
    char id[KR_EG_TEXT_ROOM];
    unsigned refs;        /* cells and fetches */
    unsigned connections; /* open now */
    uint64_t hour, bytes; /* bytes moved in that hour of the clock */
};

struct kr_eg_cell {
    LIST_ENTRY(kr_eg_cell) link;
    struct kr_eg *eg;
    uint64_t id;
    struct kr_eg_sandbox *sandbox;
    char user[KR_EG_TEXT_ROOM], run[KR_EG_TEXT_ROOM]; /* run "": between runs */
    struct kr_net_rule rule;
    struct kr_eg_secrets *secrets; /* NULL: none */
    struct kr_watch *listener;
    LIST_HEAD(, kr_eg_conn) conns;
    unsigned conn_count; /* that count for limits */
    unsigned leaving;    /* that have been answered for the last time, and wait for their clients to read it */
    bool paused;         /* the listener is not watched: all connections are in use */
};

/* NULL if out of memory; the reference is given back with kr_eg_sandbox_unref(). */
struct kr_eg_sandbox *kr_eg_sandbox_ref(struct kr_eg *eg, const char *id);
void kr_eg_sandbox_unref(struct kr_eg_sandbox *s);
/* Counts moved bytes. False: past hour_bytes. */
bool kr_eg_sandbox_moved(struct kr_eg *eg, struct kr_eg_sandbox *s, uint64_t bytes);
/* Whether it has so many connections open that each more gets small buffers (kr_eg_bound_buffers()). */
#define KR_EG_ROOMY_CONNECTIONS 16u
bool kr_eg_sandbox_is_crowded(const struct kr_eg *eg, const char *id);
/* Whether hour_bytes are used up. */
bool kr_eg_sandbox_is_full(struct kr_eg *eg, const struct kr_eg_sandbox *s);

/* ---- rows (egress_rows.c) ---- */

struct kr_eg_row {
    uint64_t cell;                    /* 0: none */
    const char *sandbox, *user, *run; /* run "" or NULL: null */
    uint64_t at_us, ms;
    const char *how, *method; /* "connect", "http", "https", "index", "fetch" */
    const char *host, *address;
    uint16_t port;
    uint64_t sent, received;
    unsigned status;
    enum kr_eg_verdict verdict;
    const char *why;
    const char *secrets; /* names of those whose values went out, by comma; NULL: none */
};
/* Queues the row for the engine. Where KR_EG_ROWS_MAX wait already it is dropped and counted; the log says how
 * many once there is room again. */
#define KR_EG_ROWS_MAX 1024u
void kr_eg_row_send(struct kr_eg *eg, const struct kr_eg_row *row);
/* Microseconds since 1970. */
uint64_t kr_eg_now_us(void);
/* The number of open connections has changed: the engine is told, at most ten times a second. */
void kr_eg_open_changed(struct kr_eg *eg);
/* The timer behind it: eg->open_timer. */
void kr_eg_on_open_due(void *data);

/* ---- connections (eg_conn.c) ---- */

enum kr_eg_conn_state {
    KR_EG_CONN_HEAD,   /* reads a request's head */
    KR_EG_CONN_DIAL,   /* connects to the target */
    KR_EG_CONN_HELLO,  /* a tunnel: waits for what its client says first */
    KR_EG_CONN_TUNNEL, /* passes bytes */
    KR_EG_CONN_HTTP,   /* passes one request and its reply */
    KR_EG_CONN_TAKEN,  /* a hook has it */
    KR_EG_CONN_ANSWER, /* writes an answer of its own */
    KR_EG_CONN_CLOSED,
    KR_EG_CONN_STATE_MAX_
};

/* A request, from its head until its end. */
struct kr_eg_request {
    struct kr_http_head head; /* slices of conn.head */
    bool connect;             /* CONNECT; else plain HTTP */
    bool origin;              /* /index/… of this listener */
    char method[24];
    char host[KR_EG_HOST_ROOM];
    uint16_t port;
    const char *path; /* of plain HTTP: with its query, NUL terminated, in conn.target */
};

struct kr_eg_taker {
    /* The connection ends for another reason (its cell is gone, a deadline or a limit passed, another rule): the taker
     * lets go of what it holds for it and does not touch it any more. */
    void (*on_gone)(void *data);
    void *data;
};

struct kr_eg_conn {
    LIST_ENTRY(kr_eg_conn) link;
    struct kr_eg *eg;
    struct kr_eg_cell *cell;
    struct kr_eg_sandbox *sandbox;
    enum kr_eg_conn_state state;
    struct kr_eg_stream *client;   /* plain; TLS where `inside` */
    struct kr_eg_stream *upstream; /* NULL: not connected */
    char up_host[KR_EG_HOST_ROOM]; /* that upstream was connected to */
    uint16_t up_port;
    bool up_fresh; /* connected, and nothing was asked of it */
    /* The tunnel's TLS ended here: requests are those inside it, for this host alone. */
    bool inside;
    char inside_host[KR_EG_HOST_ROOM];
    uint16_t inside_port;
    struct kr_buf in;   /* read from the client and not used yet */
    struct kr_buf head; /* bytes of the request's head */
    struct kr_http_scan scan;
    struct kr_eg_request req;
    char *target;
    struct kr_eg_dial *dial;
    struct kr_timer *timer; /* of the state: head, idle */
    uint64_t total_until_ns;
    uint64_t idle_from_ns; /* the last byte in either direction */
    uint64_t until_ns;     /* the state's own deadline, in place of the idle one; 0: none */
    struct kr_eg_taker taker;
    /* The row that is being written, and the run that was in the cell when its request came. */
    char run[KR_EG_TEXT_ROOM];
    uint64_t at_us, at_ns, sent, received, moved;
    char address[KR_EG_ADDRESS_ROOM];
    char secrets[KR_EG_SECRETS_TEXT_ROOM]; /* whose values went out with the request */
    bool row_open;
    bool leaving;
    void *http;   /* of eg_http.c: what it keeps for the request */
    void *tunnel; /* of eg_tunnel.c */
};

/* The hook has the connection from now on, until kr_eg_conn_finish() or kr_eg_conn_refuse() or on_gone. */
void kr_eg_conn_take(struct kr_eg_conn *c, const struct kr_eg_taker *taker);
/* Counts bytes and starts the idle time anew. False: a limit was passed, and the connection is gone (on_gone was
 * called). */
bool kr_eg_conn_moved(struct kr_eg_conn *c, uint64_t sent, uint64_t received);
/* The request is over: its row goes out. keep: the next request is read, else the connection closes. All that was to be
 * written to the client has been. */
void kr_eg_conn_finish(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why, bool keep);
/* Answers with one line of text/plain and X-Krait-Denied where the verdict is DENIED, writes the row and closes. */
void kr_eg_conn_refuse(struct kr_eg_conn *c, unsigned status, enum kr_eg_verdict verdict, const char *why);
/* Closes without an answer; the row says why. */
void kr_eg_conn_abort(struct kr_eg_conn *c, enum kr_eg_verdict verdict, const char *why);
/* The tunnel's TLS ends here: `client` becomes a stream of what is inside, and requests in it are passed as those of
 * plain HTTP are. c->in begins with the ClientHello, which was judged. Not if kr_eg_conn_can_open_tls() is false. */
void kr_eg_conn_open_tls(struct kr_eg_conn *c);
bool kr_eg_conn_can_open_tls(const struct kr_eg_conn *c);

/* ---- hooks ---- */

/* What the second half of the room adds. Each may be NULL: then there is no such thing, and the proxy says so. */
struct kr_eg_hooks {
    /* Before the process restricts itself: reads certificates, makes contexts. *ret_data is kr_eg.second. */
    int (*start)(struct kr_eg *eg, void **ret_data, struct kr_err *err);
    void (*stop)(struct kr_eg *eg);
    /* After start(): a folder that is read while the process runs (Landlock must allow it), or NULL. */
    const char *(*reads)(const struct kr_eg *eg);
    /* KR_E_SETUP: the credentials of the index and the server's own CA, in place of what was there. An object;
     * borrowed. */
    void (*on_setup)(struct kr_eg *eg, const json_t *setup);
    /* A request for a path that begins with /index/: takes the connection (kr_eg_conn_take) or refuses it. */
    void (*on_index)(struct kr_eg_conn *c);
    /* A fetch for the server; `ask` is borrowed, `file` becomes the callee's. Ends with kr_eg_send_fetched(). */
    void (*on_fetch)(struct kr_eg *eg, uint32_t id, const json_t *ask, int file);
    void (*on_cancel)(struct kr_eg *eg, uint32_t id);
    /* Whether TLS of tunnels can end here: there is an own CA, and certificates to check servers with. */
    bool (*has_ca)(const struct kr_eg *eg);
    /* The server's side of TLS over *stream for `host`, which first reads what is in `early`; and the client's side.
     * They put their stream in the place of *stream. 0 or -errno. */
    int (*serve_tls)(struct kr_eg *eg, struct kr_eg_stream **stream, const char *host, struct kr_buf *early);
    int (*ask_tls)(struct kr_eg *eg, struct kr_eg_stream **stream, const char *host);
};
extern const struct kr_eg_hooks kr_eg_hooks; /* eg_hooks.c */

/* ---- the process (egress_main.c, egress_control.c) ---- */

struct kr_eg {
    uv_loop_t loop;
    const struct kr_egress_config *config;
    struct kr_egress_limits limits; /* every one set */
    struct kr_watch *control;
    LIST_HEAD(, kr_eg_cell) cells;
    LIST_HEAD(, kr_eg_sandbox) sandboxes;
    unsigned connections, told_connections; /* told: that the engine knows of */
    struct kr_timer *open_timer;
    bool open_due;                /* the timer is armed */
    LIST_HEAD(, kr_eg_conn) dead; /* closed: their memory goes with the loop's next turn */
    struct kr_soon *burial;
    struct kr_lane *lookups;
    struct kr_eg_rows *rows;
    void *second; /* of the hooks */
    bool ending;
    int status;
};

/* Frames to the engine. 0 or -errno (-EAGAIN does not happen: the frame waits, as one of at most KR_EG_ROWS_MAX). */
int kr_eg_send(struct kr_eg *eg, uint16_t type, uint32_t id, const void *payload, size_t len);
