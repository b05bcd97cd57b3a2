/* A connection: its states, and what it waits for in each. Called by the loop, by listen.c for newcomers, and by the
 * files that changed something (kr_http_conn_soon()).
 *
 *   C_HEAD ──head──▶ C_BODY ──whole──▶ C_ANSWER ──answered──▶ C_HEAD …
 *     │                └─answered early─▶ C_DISCARD ─whole─▶ C_HEAD
 *     └─ refused, or the last answer given ─▶ C_FLUSH ─▶ C_LINGER ─▶ C_CLOSED
 *
 * Invariant: handlers are called from the loop alone, never from inside a call they made; a connection's memory goes
 * when the loop has let go of its handle, so that no function holds a dead one in the middle of a step. */
#include "http_internal.h"
#include "fd.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define BEAT_MAX 64u

static void on_uv_poll(uv_poll_t *handle, int status, int events);

int kr_http_conn_new(struct kr_http_server *s, int fd, unsigned tag, bool is_unix, const struct in6_addr *address,
                     struct kr_http_peer *peer)
{
    struct kr_http_conn *c = calloc(1, sizeof *c);
    int r = c ? uv_poll_init(s->loop, &c->poll, fd) : -ENOMEM;

    if (r < 0) {
        free(c);
        kr_fd_close(fd);
        kr_http_peer_drop(s->peers, peer);
        return r;
    }
    c->poll.data = c;
    c->server = s;
    c->fd = fd;
    c->tag = tag;
    c->is_unix = is_unix;
    c->address = *address;
    c->peer = peer;
    TAILQ_INSERT_TAIL(&s->conns, c, all);
    s->handles++;
    s->stats.connections++;
    s->stats.connections_total++;
    kr_http_conn_settle(c);
    return 0;
}

static void on_uv_closed(uv_handle_t *handle)
{
    struct kr_http_conn *c = handle->data;
    struct kr_http_server *s = c->server;

    free(c->in);
    kr_http_out_drop(c);
    free(c);
    kr_http_server_unhandle(s);
}

void kr_http_conn_close(struct kr_http_conn *c)
{
    struct kr_http_server *s = c->server;

    if (c->state == C_CLOSED)
        return;
    c->state = C_CLOSED;
    kr_http_deadline_set(c, D_NONE);
    kr_http_conn_not_soon(c);
    TAILQ_REMOVE(&s->conns, c, all);
    kr_http_peer_drop(s->peers, c->peer);
    s->stats.connections--;
    uv_close((uv_handle_t *)&c->poll, on_uv_closed); /* takes it out of epoll before it returns */
    c->fd = kr_fd_close(c->fd);
}

void kr_http_conn_move(struct kr_http_conn *c, enum conn_state state)
{
    if (c->state == C_CLOSED)
        return;
    c->state = (uint8_t)state;
    if (state == C_HEAD) {
        c->used = true;
        c->scan = (struct kr_http_scan){0};
        kr_http_deadline_set(c, D_NONE); /* the next head has a deadline of its own */
    }
}

void kr_http_conn_soon(struct kr_http_conn *c)
{
    if (c->queued || c->state == C_CLOSED)
        return;
    c->queued = true;
    TAILQ_INSERT_TAIL(&c->server->soon, c, soon);
    c->server->soon_count++;
}

void kr_http_conn_not_soon(struct kr_http_conn *c)
{
    if (!c->queued)
        return;
    c->queued = false;
    TAILQ_REMOVE(&c->server->soon, c, soon);
    c->server->soon_count--;
}

void kr_http_conn_gone(struct kr_http_conn *c)
{
    if (c->ex) {
        c->server->stats.gone_total++;
        kr_http_ex_tell_gone(c->ex);
        kr_http_ex_done(c->ex, false);
    }
    kr_http_conn_close(c);
}

/* ---- what the state wants ---- */

static bool reads_body(const struct kr_http_conn *c)
{
    return c->ex->accepted && !c->ex->paused;
}

static enum deadline wanted_deadline(const struct kr_http_conn *c)
{
    if (kr_http_out_pending(c) > 0)
        return D_WRITE;
    switch ((enum conn_state)c->state) {
    case C_HEAD:
        return c->used && c->in_len == 0 ? D_IDLE : D_HEAD;
    case C_BODY:
        if (c->ex->raw) /* its own protocol has deadlines */
            return D_NONE;
        if (reads_body(c))
            return D_BODY;
        return c->ex->sse ? D_BEAT : D_NONE;
    case C_ANSWER:
        return c->ex->sse ? D_BEAT : D_NONE;
    case C_DISCARD:
        return D_BODY;
    case C_LINGER:
        return D_LINGER;
    case C_FLUSH:
    case C_CLOSED:
        break;
    }
    return D_NONE;
}

static int wanted_events(const struct kr_http_conn *c)
{
    bool reads = false, watches = true;

    switch ((enum conn_state)c->state) {
    case C_HEAD: /* who does not take his answers gets no further ones */
        reads = kr_http_out_pending(c) < KR_HTTP_QUEUE_LOW;
        break;
    case C_BODY:
        reads = reads_body(c);
        break;
    case C_ANSWER: /* to see at once that the peer has left; what it sends is kept, up to a head's length */
    case C_DISCARD:
    case C_LINGER:
        reads = true;
        break;
    case C_FLUSH:
    case C_CLOSED:
        watches = false;
        break;
    }
    return (reads ? UV_READABLE : watches ? UV_DISCONNECT : 0) | (c->blocked ? UV_WRITABLE : 0);
}

static void apply_conn_state(struct kr_http_conn *c)
{
    int events;

    if (c->state == C_CLOSED)
        return;
    kr_http_deadline_set(c, wanted_deadline(c));
    events = wanted_events(c);
    if (events == c->interest)
        return;
    c->interest = (uint8_t)events;
    if (events)
        uv_poll_start(&c->poll, events, on_uv_poll); /* fails only for a handle that is closing */
    else
        uv_poll_stop(&c->poll);
}

/* The last answer has left. */
static void finish_flush(struct kr_http_conn *c)
{
    if (c->ended || shutdown(c->fd, SHUT_WR) < 0) {
        kr_http_conn_close(c);
        return;
    }
    free(c->in);
    c->in = NULL;
    c->in_len = c->in_cap = 0;
    kr_http_conn_move(c, C_LINGER);
}

static void tell_drained(struct kr_http_conn *c)
{
    struct kr_http_ex *ex = c->ex;

    if (!ex || !ex->drain_due || c->broken || kr_http_out_pending(c) >= KR_HTTP_QUEUE_LOW)
        return;
    ex->drain_due = false;
    if (ex->calls && ex->calls->on_drain)
        ex->calls->on_drain(ex->data, ex);
}

void kr_http_conn_settle(struct kr_http_conn *c)
{
    if (c->state == C_CLOSED) /* cut by its own handler a moment ago */
        return;
    kr_http_out_flush(c);
    tell_drained(c); /* once a step: a fast reader must not keep the others waiting */
    while (c->state != C_CLOSED && !c->broken && kr_http_input_again(c))
        kr_http_out_flush(c);
    kr_http_out_flush(c);
    if (c->broken)
        kr_http_conn_gone(c);
    else if (c->state == C_FLUSH && kr_http_out_pending(c) == 0)
        finish_flush(c);
    apply_conn_state(c);
}

/* ---- events ---- */

/* The peer sends no more. While an answer is due that is taken for leaving, as most servers do. */
static void on_end_of_input(struct kr_http_conn *c)
{
    switch ((enum conn_state)c->state) {
    case C_BODY:
    case C_ANSWER:
        kr_http_conn_gone(c);
        return;
    case C_HEAD:
    case C_DISCARD: /* answers that are given already still go out */
        c->ended = true;
        kr_http_conn_move(c, C_FLUSH);
        kr_http_conn_settle(c);
        return;
    case C_FLUSH:
    case C_LINGER:
    case C_CLOSED:
        break;
    }
    kr_http_conn_close(c);
}

static void on_input(struct kr_http_conn *c)
{
    ssize_t n = kr_http_input_recv(c);

    if (n == 0)
        on_end_of_input(c);
    else if (n < 0 && n != -EAGAIN)
        kr_http_conn_gone(c);
    else if (n > 0)
        kr_http_conn_settle(c);
}

static void on_uv_poll(uv_poll_t *handle, int status, int events)
{
    struct kr_http_conn *c = handle->data;

    if (status < 0) { /* the socket has an error: reset by the peer */
        kr_http_conn_gone(c);
        return;
    }
    if (events & UV_WRITABLE) {
        c->blocked = false;
        kr_http_conn_settle(c);
    }
    if (c->state == C_CLOSED)
        return;
    if (events & c->interest & UV_READABLE)
        on_input(c);
    else if (events & c->interest & UV_DISCONNECT)
        on_end_of_input(c);
}

/* A comment line on a stream that has been silent. */
static void beat(struct kr_http_conn *c)
{
    char line[BEAT_MAX];
    int n = snprintf(line, sizeof line, ": ping - %s\n\n", kr_http_server_date(c->server));
    struct iovec part = {line, (size_t)n};

    kr_http_piece_write(c->ex, &part, 1);
}

void kr_http_conn_late(struct kr_http_conn *c, enum deadline which)
{
    switch (which) {
    case D_BEAT:
        beat(c);
        break;
    case D_BODY:
        if (c->window >= c->server->config.body_min_bytes)
            break;
        c->server->stats.timeouts_total++;
        if (c->state == C_DISCARD) {
            kr_http_conn_close(c);
            return;
        }
        kr_http_fail(c, 408, "the body came too slowly");
        break;
    case D_HEAD:
        c->server->stats.timeouts_total++;
        if (c->in_len == 0) {
            kr_http_conn_close(c);
            return;
        }
        kr_http_fail(c, 408, "the request's head was not whole in time");
        break;
    case D_WRITE:
        c->server->stats.timeouts_total++;
        kr_http_conn_gone(c);
        return;
    case D_IDLE:
    case D_LINGER:
    case D_NONE:
    case D_MAX_:
        kr_http_conn_close(c);
        return;
    }
    kr_http_conn_settle(c);
}
