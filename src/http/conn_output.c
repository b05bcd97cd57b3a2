/* What waits to be written on a connection. Called by response.c and conn.c.
 *
 * Small pieces are gathered and go out with one call at the end of the step (kr_http_conn_settle()); large ones go out
 * at once, without a copy, as far as the socket takes them. Invariant: bytes leave in the order they were added;
 * `blocked` holds exactly while the socket refused some of them, and nothing is tried then until it says it is
 * writable. Memory is held only while something waits, and stats.unsent_bytes is the sum of it and of what handlers
 * hold (kr_http_hold()): past the bound the connection that holds most is cut, so that slow readers of large
 * answers cannot cost quick readers theirs. */
#include "http_internal.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define GATHER_MAX 16384u         /* as much is not worth a copy */
#define FREE_MAX (2 * GATHER_MAX) /* of a connection's memory, whatever the others hold: a small answer always fits */
#define PARTS_MAX 6u

void kr_http_out_drop(struct kr_http_conn *c)
{
    c->server->stats.unsent_bytes -= c->out_cap;
    free(c->out);
    c->out = NULL;
    c->out_at = c->out_len = c->out_cap = 0;
}

void kr_http_hold_drop(struct kr_http_conn *c)
{
    c->server->stats.unsent_bytes -= c->held;
    c->held = 0;
}

/* A write failed, or must not be tried: the connection is gone, which its exchange learns at the next step. */
static void broken(struct kr_http_conn *c)
{
    c->broken = true;
    kr_http_out_drop(c);
    kr_http_hold_drop(c);
    kr_http_conn_soon(c);
}

static void cut_conn(struct kr_http_conn *c, const char *why, size_t more)
{
    kr_log(KR_LOG_WARN, why, "waiting=%zu more=%zu", kr_http_out_pending(c), more);
    c->server->stats.cut_total++;
    broken(c);
}

static size_t send_parts(struct kr_http_conn *c, const struct iovec *parts, unsigned count, size_t total)
{
    struct msghdr m = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};
    ssize_t n;

    do
        n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno != EAGAIN) {
        broken(c);
        return 0;
    }
    n = n < 0 ? 0 : n;
    c->blocked = (size_t)n < total;
    c->server->stats.bytes_out_total += (uint64_t)n;
    if (n > 0 && c->deadline == D_WRITE)
        kr_http_deadline_again(c);
    return (size_t)n;
}

void kr_http_out_flush(struct kr_http_conn *c)
{
    struct iovec part = {c->out + c->out_at, kr_http_out_pending(c)};
    size_t sent;

    if (c->blocked || c->broken || part.iov_len == 0)
        return;
    sent = send_parts(c, &part, 1, part.iov_len); /* which may drop all of it */
    c->out_at += (uint32_t)sent;
    if (c->out && kr_http_out_pending(c) == 0)
        kr_http_out_drop(c);
}

void kr_http_flush(struct kr_http_ex *ex)
{
    if (!ex->over)
        kr_http_out_flush(ex->conn);
}

static size_t memory_of(const struct kr_http_conn *c)
{
    return c->out_cap + c->held;
}

/* The sum may grow by so much for this connection: cuts those that hold most, perhaps itself, until it fits. */
static bool share(struct kr_http_conn *c, size_t more)
{
    struct kr_http_server *s = c->server;

    while (s->stats.unsent_bytes + more > s->config.unsent_max) {
        struct kr_http_conn *most = c, *other;

        TAILQ_FOREACH(other, &s->conns, all)
        if (memory_of(other) > memory_of(most))
            most = other;
        if (most == c || memory_of(most) < memory_of(c) + more)
            return false;
        cut_conn(most, "answers of all connections too large, cutting the one with most", 0);
    }
    return true;
}

bool kr_http_hold(struct kr_http_ex *ex, size_t bytes)
{
    struct kr_http_conn *c = ex->conn;

    if (ex->over || c->broken)
        return false;
    if (!share(c, bytes)) {
        cut_conn(c, "answer too large for its queue, cutting the connection", bytes);
        return false;
    }
    c->held += bytes;
    c->server->stats.unsent_bytes += bytes;
    return true;
}

/* Room for n more bytes. */
static bool make_out_room(struct kr_http_conn *c, size_t n)
{
    size_t pending = kr_http_out_pending(c), cap = c->out_cap;
    char *moved;

    if (n <= c->out_cap - c->out_len)
        return true;
    if (c->out_at > pending && pending + n <= c->out_cap) { /* a byte is moved once on average, not each time */
        memmove(c->out, c->out + c->out_at, pending);
        c->out_at = 0;
        c->out_len = (uint32_t)pending;
        return true;
    }
    for (cap = cap ? cap : 512; cap < c->out_len + n;)
        cap *= 2;
    moved = cap <= FREE_MAX || share(c, cap - c->out_cap) ? realloc(c->out, cap) : NULL;
    if (!moved)
        return false;
    c->server->stats.unsent_bytes += cap - c->out_cap;
    c->out = moved;
    c->out_cap = (uint32_t)cap;
    return true;
}

/* Keeps what comes after the first `skip` bytes of the parts. */
static void keep_unsent(struct kr_http_conn *c, const struct iovec *parts, unsigned count, size_t skip, size_t total)
{
    if (kr_http_out_pending(c) + total - skip > KR_HTTP_QUEUE_MAX || !make_out_room(c, total - skip)) {
        cut_conn(c, "answer too large for its queue, cutting the connection", total - skip);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        size_t gone = skip < parts[i].iov_len ? skip : parts[i].iov_len, n = parts[i].iov_len - gone;

        skip -= gone;
        if (n > 0)
            memcpy(c->out + c->out_len, (const char *)parts[i].iov_base + gone, n);
        c->out_len += (uint32_t)n;
    }
}

void kr_http_out_add(struct kr_http_conn *c, const struct iovec *parts, unsigned count)
{
    size_t total = 0, sent = 0;

    if (c->broken || c->state == C_CLOSED)
        return;
    for (unsigned i = 0; i < count && i < PARTS_MAX; i++)
        total += parts[i].iov_len;
    if (!c->blocked && kr_http_out_pending(c) + total >= GATHER_MAX) {
        kr_http_out_flush(c); /* what was gathered goes first */
        if (!c->blocked && !c->broken && total >= GATHER_MAX)
            sent = send_parts(c, parts, count, total);
    }
    if (!c->broken && sent < total)
        keep_unsent(c, parts, count, sent, total);
    if (!c->busy)
        kr_http_conn_soon(c);
}
