/* Streams of bytes: the calls that every kind has, and the plain kind, a TCP socket in libuv's poll.
 *
 * Called by connections of cells, by TLS over them and by fetches. Invariant: between new and close the socket is the
 * stream's and is polled for exactly what is wanted; after close no callback comes. */
#include "eg_stream.h"
#include "fd.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

struct plain_stream {
    struct kr_eg_stream base;
    uv_poll_t poll;
    int fd;
    int wanted; /* UV_READABLE | UV_WRITABLE */
    bool closed;
};

static void on_plain_poll(uv_poll_t *handle, int status, int events);

static void apply_wanted(struct plain_stream *p)
{
    if (p->closed)
        return;
    if (p->wanted)
        uv_poll_start(&p->poll, p->wanted, on_plain_poll); /* fails only for a handle that is closing */
    else
        uv_poll_stop(&p->poll);
}

static void on_plain_poll(uv_poll_t *handle, int status, int events)
{
    struct plain_stream *p = handle->data;

    if (status < 0)
        events = p->wanted; /* libuv has stopped polling; the next read or write gives the reason */
    if ((events & p->wanted & UV_READABLE) && p->base.calls.on_readable)
        p->base.calls.on_readable(p->base.data);
    if (!p->closed && (events & p->wanted & UV_WRITABLE) && p->base.calls.on_writable)
        p->base.calls.on_writable(p->base.data);
    if (status < 0)
        apply_wanted(p);
}

static ssize_t read_plain(struct kr_eg_stream *s, void *buf, size_t len)
{
    const struct plain_stream *p = (const struct plain_stream *)s;
    ssize_t n;

    do
        n = recv(p->fd, buf, len, 0);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static ssize_t write_plain(struct kr_eg_stream *s, const void *buf, size_t len)
{
    const struct plain_stream *p = (const struct plain_stream *)s;
    ssize_t n;

    do
        n = send(p->fd, buf, len, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static void want_plain(struct kr_eg_stream *s, bool read, bool write)
{
    struct plain_stream *p = (struct plain_stream *)s;
    int wanted = (read ? UV_READABLE : 0) | (write ? UV_WRITABLE : 0);

    if (wanted == p->wanted)
        return;
    p->wanted = wanted;
    apply_wanted(p);
}

static void shut_plain(struct kr_eg_stream *s)
{
    (void)shutdown(((const struct plain_stream *)s)->fd, SHUT_WR); /* fails if the peer is gone: nothing to say then */
}

static void on_plain_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void close_plain(struct kr_eg_stream *s)
{
    struct plain_stream *p = (struct plain_stream *)s;

    p->closed = true;
    uv_close((uv_handle_t *)&p->poll, on_plain_closed); /* the descriptor is out of epoll when this returns */
    p->fd = kr_fd_close(p->fd);
}

static const struct kr_eg_stream_ops plain_ops = {
    .read = read_plain,
    .write = write_plain,
    .want = want_plain,
    .shut = shut_plain,
    .close = close_plain,
};

int kr_eg_stream_new(struct uv_loop_s *loop, int fd, struct kr_eg_stream **ret_stream)
{
    struct plain_stream *p = calloc(1, sizeof *p);
    int r;

    if (!p)
        return -ENOMEM;
    r = uv_poll_init(loop, &p->poll, fd); /* makes it nonblocking; on Linux libuv's errors are -errno */
    if (r < 0) {
        free(p);
        return r;
    }
    p->poll.data = p;
    p->base.ops = &plain_ops;
    p->fd = fd;
    *ret_stream = &p->base;
    return 0;
}

int kr_eg_stream_fd(const struct kr_eg_stream *s)
{
    assert(s->ops == &plain_ops);
    return ((const struct plain_stream *)s)->fd;
}

/* ---- every kind ---- */

void kr_eg_stream_set_calls(struct kr_eg_stream *s, const struct kr_eg_stream_calls *calls, void *data)
{
    s->calls = *calls;
    s->data = data;
}

ssize_t kr_eg_stream_read(struct kr_eg_stream *s, void *buf, size_t len)
{
    return s->ops->read(s, buf, len);
}

ssize_t kr_eg_stream_write(struct kr_eg_stream *s, const void *buf, size_t len)
{
    return s->ops->write(s, buf, len);
}

void kr_eg_stream_want(struct kr_eg_stream *s, bool read, bool write)
{
    s->ops->want(s, read, write);
}

void kr_eg_stream_shut(struct kr_eg_stream *s)
{
    s->ops->shut(s);
}

void kr_eg_stream_close(struct kr_eg_stream *s)
{
    if (s)
        s->ops->close(s);
}
