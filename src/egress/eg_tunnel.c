/* Tunnels: CONNECT, what its client says first, and bytes in both directions.
 *
 * Called by eg_conn.c once a target is connected to. The client is told so, and then what it says first is held against
 * its target: a ClientHello must name the same host, and where the rule does not name the port itself (443 goes without
 * saying), nothing but TLS may pass. Invariants: not a byte of the client's goes up before that; bytes that one side
 * does not take hold up the other, within one buffer or one pipe of each direction; a side that says no more is told
 * on, and the tunnel ends when both have. */
#include "eg_conn.h"
#include "eg_judge.h"
#include "hello.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPY_BYTES 65536u
#define SPLICE_BYTES (1u << 20)
#define PIPE_BYTES (1 << 20)
#define PIPES_MAX 48u /* of all tunnels: an id may hold 64 MiB in pipes (pipe(7)) */
#define STEPS_PER_TURN 8

/* One direction. What waits is in `buf` or in the pipe, never in both. */
struct flow {
    struct kr_eg_stream *from, *to;
    struct kr_buf buf;
    int pipe[2]; /* -1: none */
    size_t piped;
    bool ended; /* `from` says no more, and `to` knows */
};

struct tunnel {
    struct flow up, down;
    bool opens;               /* its TLS ends here */
    bool early;               /* the server may speak first */
    bool judged, tls, hidden; /* what the client said first: TLS, for whom it hides */
};

static unsigned pipes; /* of the process, which has one loop */

/* ---- flows ---- */

static void open_flow(struct flow *f, struct kr_eg_stream *from, struct kr_eg_stream *to)
{
    *f = (struct flow){.from = from, .to = to, .pipe = {-1, -1}};
    kr_buf_init(&f->buf, COPY_BYTES);
}

static void close_pipe(struct flow *f)
{
    if (f->pipe[0] < 0)
        return;
    close(f->pipe[0]);
    close(f->pipe[1]);
    f->pipe[0] = f->pipe[1] = -1;
    pipes--;
}

static void close_flow(struct flow *f)
{
    kr_buf_done(&f->buf);
    close_pipe(f);
}

static bool is_held_up(const struct flow *f)
{
    return f->buf.len > 0 || f->piped > 0;
}

/* Where much passes, it passes through the kernel alone. Without a pipe it is copied. */
static void open_pipe(struct flow *f)
{
    if (f->pipe[0] >= 0 || pipes >= PIPES_MAX || pipe2(f->pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return;
    (void)fcntl(f->pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller one is slower, only */
    pipes++;
}

/* Writes what waits. 0: nothing does any more; -EAGAIN; -errno. */
static int flush_flow(struct flow *f)
{
    while (f->piped > 0) {
        ssize_t n = splice(f->pipe[0], NULL, kr_eg_stream_fd(f->to), NULL, f->piped, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        f->piped -= (size_t)n;
    }
    while (f->buf.len > 0) {
        ssize_t n = kr_eg_stream_write(f->to, f->buf.data, f->buf.len);

        if (n < 0)
            return (int)n;
        kr_buf_drop(&f->buf, (size_t)n);
    }
    return 0;
}

static ssize_t fill_pipe(struct flow *f)
{
    ssize_t n =
        splice(kr_eg_stream_fd(f->from), NULL, f->pipe[1], NULL, SPLICE_BYTES, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

    if (n < 0)
        return -errno;
    f->piped += (size_t)n;
    return n;
}

static ssize_t fill_buf(struct flow *f)
{
    char bytes[COPY_BYTES];
    ssize_t n = kr_eg_stream_read(f->from, bytes, sizeof bytes), done;

    if (n <= 0)
        return n;
    done = kr_eg_stream_write(f->to, bytes, (size_t)n);
    if (done == -EAGAIN)
        done = 0;
    if (done < 0)
        return done;
    if (done < n && kr_buf_add(&f->buf, bytes + done, (size_t)(n - done)) < 0)
        return -ENOMEM;
    if (n == (ssize_t)sizeof bytes)
        open_pipe(f);
    return n;
}

/* `from` says no more, and all that it said has been passed. */
static void end_flow(struct flow *f)
{
    if (!f->ended)
        kr_eg_stream_shut(f->to);
    f->ended = true;
    close_pipe(f);
}

/* Passes what there is, for a while, and adds it to *passed, whatever the end is. 0, or -errno: a side is gone. */
static int pump_flow(struct flow *f, uint64_t *passed)
{
    for (int i = 0; i < STEPS_PER_TURN; i++) {
        ssize_t n = flush_flow(f);

        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int)n;
        n = f->pipe[0] >= 0 ? fill_pipe(f) : fill_buf(f);
        if (n == -EAGAIN)
            return 0;
        if (n < 0)
            return (int)n;
        if (n == 0) { /* told now: no callback would come for it */
            end_flow(f);
            return 0;
        }
        *passed += (uint64_t)n;
    }
    return 0;
}

/* ---- passing ---- */

static void want_next(struct kr_eg_conn *c)
{
    const struct tunnel *t = c->tunnel;
    bool judged = c->state == KR_EG_CONN_TUNNEL;

    kr_eg_stream_want(c->client, judged ? !t->up.ended && !is_held_up(&t->up) : true, is_held_up(&t->down));
    kr_eg_stream_want(c->upstream, (judged || t->early) && !t->down.ended && !is_held_up(&t->down), is_held_up(&t->up));
}

/* One direction has something to do. */
static void go_on(struct kr_eg_conn *c, struct flow *f)
{
    struct tunnel *t = c->tunnel;
    bool up = f == &t->up;
    uint64_t n = 0;
    int r = pump_flow(f, &n);

    if (n > 0 && !kr_eg_conn_moved(c, up ? n : 0, up ? 0 : n))
        return;
    if (r < 0) { /* a reset: what one side has not read is lost, as it would be without us */
        kr_eg_conn_finish(c, 200, KR_EG_OK, up ? "the server closed it" : "the client closed it", false);
        return;
    }
    if (t->up.ended && t->down.ended)
        kr_eg_conn_finish(c, 200, KR_EG_OK, "", false);
    else
        want_next(c);
}

static void on_tunnel_client_readable(void *data)
{
    struct kr_eg_conn *c = data;

    go_on(c, &((struct tunnel *)c->tunnel)->up);
}

static void on_tunnel_client_writable(void *data)
{
    struct kr_eg_conn *c = data;

    go_on(c, &((struct tunnel *)c->tunnel)->down);
}

static void on_tunnel_upstream_readable(void *data)
{
    struct kr_eg_conn *c = data;

    go_on(c, &((struct tunnel *)c->tunnel)->down);
}

static void on_tunnel_upstream_writable(void *data)
{
    struct kr_eg_conn *c = data;

    go_on(c, &((struct tunnel *)c->tunnel)->up);
}

static void begin_passing(struct kr_eg_conn *c)
{
    static const struct kr_eg_stream_calls client = {on_tunnel_client_readable, on_tunnel_client_writable};
    struct tunnel *t = c->tunnel;

    kr_eg_conn_enter(c, KR_EG_CONN_TUNNEL);
    kr_eg_stream_set_calls(c->client, &client, c);
    if (kr_buf_add(&t->up.buf, kr_buf_str(&c->in), c->in.len) < 0) {
        kr_eg_conn_abort(c, KR_EG_FAILED, "out of memory");
        return;
    }
    if (c->in.len > 0 && !kr_eg_conn_moved(c, c->in.len, 0))
        return;
    kr_buf_done(&c->in);
    go_on(c, &t->up);
}

/* ---- what the client says first ---- */

/* What the rule says of a kind of first words, wherever they lead. 0 or -EINVAL. */
static int judge_kind(const struct kr_eg_conn *c, bool tls, bool hidden, struct kr_eg_refusal *refusal)
{
    if (!tls && !kr_net_rule_names_port(&c->cell->rule, c->req.host, c->req.port))
        return kr_eg_refusal_set(
            refusal, 403, KR_EG_DENIED,
            "what was sent into the tunnel is not TLS: use plain HTTP without CONNECT, or have the "
            "rule name the port (%.80s:%u)",
            c->req.host, c->req.port);
    if (hidden && c->cell->rule.kind == KR_NET_ALLOW)
        return kr_eg_refusal_set(refusal, 403, KR_EG_DENIED,
                                 "the TLS inside hides whom it is for (encrypted ClientHello), which a rule that names "
                                 "hosts cannot judge");
    return 0;
}

/* 1: it may pass; 0: more bytes are needed; -EINVAL: it may not. */
static int judge_first(const struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    struct kr_eg_hello hello = {.hidden = false};
    struct tunnel *t = c->tunnel;
    int n;

    t->tls = kr_eg_hello_begins(kr_buf_str(&c->in), c->in.len);
    n = t->tls ? kr_eg_hello_parse(kr_buf_str(&c->in), c->in.len, &hello) : 1;
    if (n == 0)
        return 0;
    if (n < 0)
        return kr_eg_refusal_set(refusal, 403, KR_EG_DENIED,
                                 "the TLS inside does not begin with a ClientHello that can be judged");
    if (hello.name[0] && strcmp(hello.name, c->req.host) != 0)
        return kr_eg_refusal_set(refusal, 403, KR_EG_DENIED,
                                 "the tunnel is for %.80s and the TLS inside names %.80s: they must be the same",
                                 c->req.host, hello.name);
    t->hidden = hello.hidden;
    t->judged = true;
    n = judge_kind(c, t->tls, t->hidden, refusal);
    return n < 0 ? n : 1;
}

bool kr_eg_tunnel_allowed(const struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal)
{
    const struct tunnel *t = c->tunnel;

    return !t || !t->judged || judge_kind(c, t->tls, t->hidden, ret_refusal) == 0;
}

static void judge_hello(struct kr_eg_conn *c)
{
    const struct tunnel *t = c->tunnel;
    struct kr_eg_refusal refusal;
    int r = judge_first(c, &refusal);

    if (r < 0)
        kr_eg_conn_abort(c, refusal.verdict, refusal.why);
    else if (r > 0 && t->opens && t->tls)
        kr_eg_conn_open_tls(c);
    else if (r > 0)
        begin_passing(c);
}

static void on_hello_readable(void *data)
{
    struct kr_eg_conn *c = data;
    ssize_t n = kr_eg_conn_read_client(c, KR_EG_HELLO_MAX);

    if (n == -EAGAIN)
        return;
    if (n > 0)
        judge_hello(c);
    else
        kr_eg_conn_finish(c, 200, KR_EG_OK, "the client closed it before it said anything", false);
}

/* ---- connected ---- */

static bool say_connected(struct kr_eg_conn *c)
{
    static const char text[] = "HTTP/1.1 200 Connection established\r\n\r\n";

    return kr_eg_stream_write(c->client, text, sizeof text - 1) == (ssize_t)(sizeof text - 1);
}

void kr_eg_tunnel_connected(struct kr_eg_conn *c)
{
    static const struct kr_eg_stream_calls client = {on_hello_readable, on_tunnel_client_writable};
    static const struct kr_eg_stream_calls upstream = {on_tunnel_upstream_readable, on_tunnel_upstream_writable};
    struct tunnel *t = calloc(1, sizeof *t);

    if (!t) {
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
        return;
    }
    open_flow(&t->up, c->client, c->upstream);
    open_flow(&t->down, c->upstream, c->client);
    c->tunnel = t;
    t->opens = kr_eg_secrets_are_for(c->cell->secrets, c->req.host, c->req.port, true) && kr_eg_conn_can_open_tls(c);
    t->early = !t->opens && kr_net_rule_names_port(&c->cell->rule, c->req.host, c->req.port);
    if (!say_connected(c)) {
        kr_eg_conn_abort(c, KR_EG_FAILED, "the client closed it");
        return;
    }
    kr_eg_conn_enter(c, KR_EG_CONN_HELLO);
    if (!t->early)
        kr_eg_conn_limit(c, c->eg->limits.head_ms);
    kr_eg_stream_set_calls(c->client, &client, c);
    kr_eg_stream_set_calls(c->upstream, &upstream, c);
    want_next(c);
    if (c->in.len > 0)
        judge_hello(c);
}

void kr_eg_tunnel_drop(struct kr_eg_conn *c)
{
    struct tunnel *t = c->tunnel;

    if (!t)
        return;
    close_flow(&t->up);
    close_flow(&t->down);
    free(t);
    c->tunnel = NULL;
}
