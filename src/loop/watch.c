/* Watched descriptors.
 *
 * Called by the engine for channels, pipes and the warden's socket. Invariant: between new and close the descriptor is
 * ours and is polled exactly for what is wanted; after close no callback comes, whichever callback close was called
 * from. */
#include "fd.h"
#include "loop_internal.h"
#include <errno.h>
#include <stdlib.h>

static void on_uv_poll(uv_poll_t *handle, int status, int events);

/* Makes what is polled what is wanted. Starting again with the same events is cheap, libuv compares them. */
static void apply_watch(struct kr_watch *w)
{
    if (w->closed)
        return;
    if (w->wanted)
        uv_poll_start(&w->poll, w->wanted, on_uv_poll); /* fails only for a handle that is closing */
    else
        uv_poll_stop(&w->poll);
}

static void on_uv_poll(uv_poll_t *handle, int status, int events)
{
    struct kr_watch *w = handle->data;

    if (status < 0)
        events = w->wanted; /* POLLERR: libuv has stopped polling; the next read or write gives the reason */
    if ((events & w->wanted & UV_READABLE) && w->calls.on_readable)
        w->calls.on_readable(w->data);
    if (!w->closed && (events & w->wanted & UV_WRITABLE)) {
        if (w->outq)
            kr_outq_on_writable(w->outq);
        else if (w->calls.on_writable)
            w->calls.on_writable(w->data);
    }
    if (status < 0)
        apply_watch(w);
}

static void on_uv_closed(uv_handle_t *handle)
{
    struct kr_watch *w = handle->data;

    kr_outq_free(w->outq);
    free(w);
}

int kr_watch_new(struct uv_loop_s *loop, int fd, const struct kr_watch_calls *calls, void *data,
                 struct kr_watch **ret_watch)
{
    struct kr_watch *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return -ENOMEM;
    r = uv_poll_init(loop, &w->poll, fd); /* on Linux libuv's errors are -errno */
    if (r < 0) {
        free(w);
        return r;
    }
    w->poll.data = w;
    w->fd = fd;
    w->calls = *calls;
    w->data = data;
    *ret_watch = w;
    return 0;
}

static void want(struct kr_watch *w, int event, bool on)
{
    int wanted = on ? w->wanted | event : w->wanted & ~event;

    if (wanted == w->wanted)
        return;
    w->wanted = wanted;
    apply_watch(w);
}

void kr_watch_want_read(struct kr_watch *w, bool on)
{
    want(w, UV_READABLE, on);
}

void kr_watch_want_write(struct kr_watch *w, bool on)
{
    want(w, UV_WRITABLE, on);
}

int kr_watch_fd(const struct kr_watch *w)
{
    return w->fd;
}

int kr_watch_release(struct kr_watch *w)
{
    w->closed = true;
    /* uv_close() takes the descriptor out of epoll before it returns, so it may be closed or used elsewhere right
     * away. */
    uv_close((uv_handle_t *)&w->poll, on_uv_closed);
    return steal_fd(&w->fd);
}

void kr_watch_close(struct kr_watch *w)
{
    if (w)
        kr_fd_close(kr_watch_release(w));
}
