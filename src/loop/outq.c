/* Bounded write queues.
 *
 * Called by the engine for channels, a session's stdin and its own output. Invariant: bytes go out in the order they
 * were added, an addition is kept whole or not at all, at most max bytes wait, and the watch wants to write exactly
 * while some do. */
#include "buf.h"
#include "loop_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define PARTS_MAX 8u
#define KEEP 65536u /* a larger buffer is given back when it has run empty */

struct kr_outq {
    struct kr_watch *watch;
    struct kr_buf buf; /* the first `sent` bytes are written already */
    size_t sent, max;
    int error;
    struct kr_outq_calls calls;
    void *data;
};

int kr_outq_new(struct kr_watch *w, size_t max, const struct kr_outq_calls *calls, void *data,
                struct kr_outq **ret_outq)
{
    struct kr_outq *q;

    if (w->outq)
        return -EEXIST;
    if (max > SIZE_MAX / 4)
        return -EINVAL;
    q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->watch = w;
    q->max = max;
    q->calls = *calls;
    q->data = data;
    kr_buf_init(&q->buf, 2 * max); /* see compact() */
    w->outq = q;
    *ret_outq = q;
    return 0;
}

void kr_outq_free(struct kr_outq *q)
{
    if (!q)
        return;
    kr_buf_done(&q->buf);
    free(q);
}

size_t kr_outq_pending(const struct kr_outq *q)
{
    return q->buf.len - q->sent;
}

/* Drops what is written once it is more than what waits: each byte is moved at most once on average, and the buffer is
 * never longer than twice the maximum. */
static void compact_queue(struct kr_outq *q)
{
    if (q->sent <= kr_outq_pending(q))
        return;
    kr_buf_drop(&q->buf, q->sent);
    q->sent = 0;
    if (q->buf.len == 0 && q->buf.cap > KEEP)
        kr_buf_done(&q->buf);
}

static int fail_queue(struct kr_outq *q, int error)
{
    q->error = error;
    kr_buf_done(&q->buf);
    q->sent = 0;
    kr_watch_want_write(q->watch, false);
    return error;
}

/* One write: bytes, 0 if the descriptor takes none now, -errno. */
static ssize_t write_some(int fd, const struct iovec *parts, unsigned count)
{
    ssize_t n;

    do
        n = writev(fd, parts, (int)count);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    return n;
}

/* Keeps what comes after the first `skip` bytes of the parts. */
static int keep_bytes(struct kr_outq *q, const struct iovec *parts, unsigned count, size_t skip)
{
    size_t before = q->buf.len;

    for (unsigned i = 0; i < count; i++) {
        size_t gone = skip < parts[i].iov_len ? skip : parts[i].iov_len;
        int r = kr_buf_add(&q->buf, (const char *)parts[i].iov_base + gone, parts[i].iov_len - gone);

        if (r < 0) {
            q->buf.len = before;
            q->buf.failed = 0;
            return r;
        }
        skip -= gone;
    }
    return 0;
}

int kr_outq_addv(struct kr_outq *q, const struct iovec *parts, unsigned count)
{
    size_t total = 0;
    ssize_t n = 0;
    int r;

    if (q->error)
        return q->error;
    if (count > PARTS_MAX)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++)
        if (__builtin_add_overflow(total, parts[i].iov_len, &total))
            return -ENOBUFS;
    /* Judged before anything is written, by what would wait if the descriptor took nothing: half a frame is none. */
    if (total > q->max - kr_outq_pending(q))
        return -ENOBUFS;
    if (kr_outq_pending(q) == 0 && total > 0) {
        n = write_some(kr_watch_fd(q->watch), parts, count);
        if (n < 0)
            return fail_queue(q, (int)n);
    }
    if ((size_t)n == total)
        return 0;
    r = keep_bytes(q, parts, count, (size_t)n);
    if (r < 0)
        return n > 0 ? fail_queue(q, r) : r; /* after a part is out there is no way back */
    kr_watch_want_write(q->watch, true);
    return 0;
}

int kr_outq_add(struct kr_outq *q, const void *data, size_t len)
{
    struct iovec part = {(void *)data, len};

    return kr_outq_addv(q, &part, 1);
}

void kr_outq_on_writable(struct kr_outq *q)
{
    struct iovec rest = {q->buf.data + q->sent, kr_outq_pending(q)};
    ssize_t n = write_some(kr_watch_fd(q->watch), &rest, 1);

    if (n < 0) {
        fail_queue(q, (int)n);
        if (q->calls.on_failed)
            q->calls.on_failed(q->data, (int)n);
        return;
    }
    q->sent += (size_t)n;
    compact_queue(q);
    if (kr_outq_pending(q) > 0)
        return;
    kr_watch_want_write(q->watch, false);
    if (q->calls.on_drained)
        q->calls.on_drained(q->data);
}
