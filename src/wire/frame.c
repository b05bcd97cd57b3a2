/* The frame codec: SEQPACKET control sockets with descriptors, and the sessions' byte streams without.
 *
 * Called by engine, warden, builder, init, zygote and session. Invariant: a frame handed to a caller has passed
 * kr_frame_check(); a descriptor that arrived is either the caller's or closed; a peer makes us hold at most
 * KR_FRAME_HEAD + max_len bytes, and only as many as it has really sent, rounded up to the next doubling. */
#define _GNU_SOURCE 1
#include "frame.h"
#include "fd.h"
#include "proto.h"
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define READER_FIRST 4096u
#define READER_KEEP 65536u /* a larger buffer is given back when it has run empty */

static_assert(sizeof(struct kr_frame) == KR_FRAME_HEAD, "the header is what it says");

int kr_frame_check(const struct kr_frame *f, uint32_t max_len, struct kr_err *err)
{
    const struct kr_frame_type_row *row;

    if (f->type == KR_F_NONE || f->type >= KR_F_MAX_)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame of unknown type %u", f->type);
    row = &kr_frame_types[f->type];
    if (f->len > max_len)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s has %u bytes, at most %u may come here", row->name,
                          f->len, max_len);
    if (f->len < row->min_len || f->len > row->max_len)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s has %u bytes, not %u to %u", row->name, f->len,
                          row->min_len, row->max_len);
    if (f->nfds < row->min_fds || f->nfds > row->max_fds)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s has %u descriptors, not %u to %u", row->name, f->nfds,
                          row->min_fds, row->max_fds);
    if (row->answered && f->id == 0)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s is a question without a number", row->name);
    if (f->pad != 0)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s has a padding that is not zero", row->name);
    return 0;
}

/* One word for "the peer has closed": the kernel has another when the peer left frames unread. */
static int send_error(void)
{
    return errno == ECONNRESET ? -EPIPE : -errno;
}

/* ---- control sockets ---- */

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * KR_FRAME_FDS_MAX)];
};

int kr_frame_send(int sock, uint16_t type, uint32_t id, const void *payload, size_t len, const int *fds, unsigned nfds)
{
    struct kr_frame head = {.type = type, .nfds = (uint16_t)nfds, .id = id};
    struct iovec iov[2] = {{&head, sizeof head}, {(void *)payload, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};
    union control control;
    ssize_t n;

    if (len > KR_FRAME_PACKET_MAX || nfds > KR_FRAME_FDS_MAX)
        return -EINVAL;
    head.len = (uint32_t)len;
    if (kr_frame_check(&head, KR_FRAME_PACKET_MAX, NULL) < 0)
        return -EINVAL; /* our own mistake; better here than as the peer's complaint */
    if (nfds > 0) {
        struct cmsghdr *c;
        memset(&control, 0, sizeof control);
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    do
        n = sendmsg(sock, &msg, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return send_error();
    return (size_t)n == sizeof head + len ? 0 : -EIO;
}

/* Takes the descriptors out of a message; foreign ancillary data sets *ret_foreign. Returns how many. */
static unsigned take_fds(struct msghdr *msg, int *fds, int *ret_foreign)
{
    unsigned count = 0;

    *ret_foreign = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0)) {
            *ret_foreign = 1;
            continue;
        }
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (count < KR_FRAME_FDS_MAX) {
                fds[count++] = fd;
            } else { /* cannot be: the control buffer has no room for it */
                kr_fd_close(fd);
                *ret_foreign = 1;
            }
        }
    }
    return count;
}

/* One recvmsg() that never blocks, tried until the deadline. Bytes received, or -errno. */
static ssize_t recv_message(int sock, struct msghdr *msg, uint64_t deadline_ns)
{
    size_t control_size = msg->msg_controllen;

    for (;;) {
        ssize_t n;
        int r;

        msg->msg_controllen = control_size;
        n = recvmsg(sock, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n >= 0)
            return n;
        if (errno == EINTR)
            continue;
        if (errno == ECONNRESET)
            return -ENODATA; /* the peer closed with frames of ours unread: closed all the same */
        if (errno != EAGAIN)
            return -errno;
        if (deadline_ns == 0)
            return -ETIMEDOUT;
        r = kr_fd_wait(sock, POLLIN, deadline_ns);
        if (r <= 0)
            return r < 0 ? r : -ETIMEDOUT;
    }
}

/* What a received message must be, beyond kr_frame_check(). */
static int check_message(const struct kr_frame *f, const struct msghdr *msg, size_t got, unsigned nfds, int foreign,
                         size_t size, struct kr_err *err)
{
    /* Cut off because the sender had more than any frame may have; or because our table of descriptors is full. */
    bool full = (msg->msg_flags & MSG_CTRUNC) && nfds < f->nfds && nfds < KR_FRAME_FDS_MAX;
    int r;

    if ((msg->msg_flags & MSG_CTRUNC) && !full)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "descriptors of a frame were cut off");
    if (msg->msg_flags & MSG_TRUNC)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a frame longer than %zu bytes was cut off", size);
    if (foreign)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a frame came with ancillary data other than descriptors");
    if (got < sizeof *f)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a message of %zu bytes is no frame", got);
    if (f->len != got - sizeof *f)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a frame says %u bytes and has %zu", f->len, got - sizeof *f);
    if (f->nfds != nfds && !full)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a frame says %u descriptors and has %u", f->nfds, nfds);
    r = kr_frame_check(f, KR_FRAME_PACKET_MAX, err);
    if (r >= 0 && full)
        r = kr_err_set(err, KR_ERR_LIMIT, EMFILE, "too many descriptors are open to take those of a frame");
    return r;
}

int kr_frame_recv(int sock, struct kr_frame *ret_frame, void *buf, size_t size, int *fds, uint64_t deadline_ns,
                  struct kr_err *err)
{
    return kr_frame_recv_few(sock, ret_frame, buf, size, fds, KR_FRAME_FDS_MAX, deadline_ns, err);
}

int kr_frame_recv_few(int sock, struct kr_frame *ret_frame, void *buf, size_t size, int *fds, unsigned fds_max,
                      uint64_t deadline_ns, struct kr_err *err)
{
    struct kr_frame head;
    union control control;
    struct iovec iov[2] = {{&head, sizeof head}, {buf, size}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    int came[KR_FRAME_FDS_MAX], foreign, r;
    unsigned nfds;
    ssize_t n;

    memset(&head, 0, sizeof head);
    msg.msg_control = control.bytes;
    msg.msg_controllen = sizeof control.bytes;
    n = recv_message(sock, &msg, deadline_ns);
    if (n == -ENODATA)
        return kr_err_set(err, KR_ERR_PROTOCOL, ENODATA, "the peer has closed");
    if (n == -ETIMEDOUT)
        return kr_err_set(err, KR_ERR_TIMEOUT, ETIMEDOUT, "no frame came in time");
    if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "recvmsg");
    nfds = take_fds(&msg, came, &foreign);
    if (n == 0 && nfds == 0 && !foreign && !(msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
        return kr_err_set(err, KR_ERR_PROTOCOL, ENODATA, "the peer has closed");
    r = check_message(&head, &msg, (size_t)n, nfds, foreign, size, err);
    if (r >= 0 && nfds > fds_max)
        r = kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame %s with %u descriptors came where %u may",
                       kr_frame_types[head.type].name, nfds, fds_max);
    if (r < 0) {
        for (unsigned i = 0; i < nfds; i++)
            kr_fd_close(came[i]);
        if (r == -EMFILE) {
            *ret_frame = head;
            ret_frame->nfds = 0;
        }
        return r;
    }
    if (nfds > 0)
        memcpy(fds, came, nfds * sizeof *fds);
    *ret_frame = head;
    return 0;
}

/* ---- streams ---- */

int kr_frame_write(int fd, uint16_t type, uint32_t id, const void *payload, size_t len)
{
    struct kr_frame head = {.type = type, .id = id};
    struct iovec iov[2] = {{&head, sizeof head}, {(void *)payload, len}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    if (len > KR_FRAME_CHANNEL_MAX)
        return -EINVAL;
    head.len = (uint32_t)len;
    if (kr_frame_check(&head, KR_FRAME_CHANNEL_MAX, NULL) < 0)
        return -EINVAL;
    while (iov[0].iov_len + iov[1].iov_len > 0) {
        ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL); /* not writev(): a closed peer is an error, not a signal */

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return send_error();
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)n < iov[i].iov_len ? (size_t)n : iov[i].iov_len;

            if (part > 0) /* an empty payload has no address to add to */
                iov[i].iov_base = (char *)iov[i].iov_base + part;
            iov[i].iov_len -= part;
            n -= (ssize_t)part;
        }
    }
    return 0;
}

void kr_frame_reader_init(struct kr_frame_reader *r, uint32_t max_len)
{
    *r = (struct kr_frame_reader){.max_len = max_len};
}

void kr_frame_reader_done(struct kr_frame_reader *r)
{
    free(r->buf);
    kr_frame_reader_init(r, r->max_len);
}

/* Drops what has been taken. Only before more is read, not at every frame: a peer that sends thousands of empty frames
 * at once must not make us move the rest of them thousands of times. */
static void compact_reader(struct kr_frame_reader *r)
{
    if (r->used == 0)
        return;
    r->len -= r->used;
    memmove(r->buf, r->buf + r->used, r->len);
    r->used = 0;
    if (r->len == 0 && r->cap > READER_KEEP) {
        free(r->buf);
        r->buf = NULL;
        r->cap = 0;
    }
}

void *kr_frame_reader_room(struct kr_frame_reader *r, size_t *ret_size)
{
    size_t most = KR_FRAME_HEAD + (size_t)r->max_len;

    compact_reader(r);
    if (r->len == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : READER_FIRST;
        unsigned char *bigger;

        if (cap > most)
            cap = most;
        if (cap == r->cap)
            return NULL; /* a whole frame waits to be taken */
        bigger = realloc(r->buf, cap);
        if (!bigger)
            return NULL;
        r->buf = bigger;
        r->cap = cap;
    }
    *ret_size = r->cap - r->len;
    return r->buf + r->len;
}

void kr_frame_reader_fed(struct kr_frame_reader *r, size_t n)
{
    assert(n <= r->cap - r->len);
    r->len += n;
}

int kr_frame_reader_next(struct kr_frame_reader *r, struct kr_frame *ret_frame, const unsigned char **ret_payload,
                         struct kr_err *err)
{
    size_t there = r->len - r->used;
    struct kr_frame head;
    int e;

    if (there < KR_FRAME_HEAD) {
        compact_reader(r); /* an idle channel does not keep the room of its largest frame */
        return 0;
    }
    memcpy(&head, r->buf + r->used, sizeof head); /* frames lie unaligned in the buffer */
    if ((head.type < KR_S_GO && head.type != KR_F_NONE) || head.nfds > 0)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "frame of type %u does not belong on a channel", head.type);
    e = kr_frame_check(&head, r->max_len, err);
    if (e < 0)
        return e;
    if (there - KR_FRAME_HEAD < head.len)
        return 0;
    *ret_payload = r->buf + r->used + KR_FRAME_HEAD;
    *ret_frame = head;
    r->used += KR_FRAME_HEAD + head.len;
    return 1;
}
