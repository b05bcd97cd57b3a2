/* Fuzzes the frame codec: both decoders get any bytes, in any pieces, with any descriptors.
 *
 * With -fsanitize=fuzzer it is a libFuzzer target; otherwise a program that replays the files and folders given as
 * arguments and prints PASS or FAIL for each. An input is: a byte for the size of the pieces, a byte for the number of
 * descriptors sent along (modulo 12), then what the peer sends. */
#define _GNU_SOURCE 1
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include "replay.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define STREAM_MAX 65536u
#define SENT_FDS_MAX 12u

/* Everything a frame that was let through must be; reads every byte of it, so that the sanitizers see a wrong bound. */
static uint64_t inspect(const struct kr_frame *f, const unsigned char *payload, uint64_t sum)
{
    must(f->type > KR_F_NONE && f->type < KR_F_MAX_, "the type is known");
    must(f->len >= kr_frame_types[f->type].min_len && f->len <= kr_frame_types[f->type].max_len,
         "the length is its type's");
    sum = (sum ^ f->type) * 1099511628211u + f->id;
    for (uint32_t i = 0; i < f->len; i++)
        sum = (sum ^ payload[i]) * 1099511628211u;
    return sum;
}

/* Feeds the bytes in pieces; *ret_sum is made of all frames taken. Returns how the stream ended: 0 or -EPROTO. */
static int read_stream(const uint8_t *data, size_t size, size_t piece, uint64_t *ret_sum)
{
    const unsigned char *payload = NULL;
    struct kr_frame_reader r;
    struct kr_frame f;
    struct kr_err err;
    int e = 0;

    kr_frame_reader_init(&r, STREAM_MAX);
    *ret_sum = 0;
    while (size > 0 && e == 0) {
        size_t room_size = 0, n = piece < size ? piece : size;
        void *room = kr_frame_reader_room(&r, &room_size);

        must(room && room_size > 0, "there is room when no frame waits");
        if (!room)
            break;
        n = n < room_size ? n : room_size;
        memcpy(room, data, n);
        kr_frame_reader_fed(&r, n);
        data += n;
        size -= n;
        while ((e = kr_frame_reader_next(&r, &f, &payload, &err)) == 1) {
            must(f.type >= KR_S_GO && f.nfds == 0 && f.len <= STREAM_MAX, "only a channel's frames pass");
            *ret_sum = inspect(&f, payload, *ret_sum);
        }
    }
    must(e == 0 || (e == -EPROTO && err.kind == KR_ERR_PROTOCOL),
         "it is a frame, or wanting bytes, or a protocol error");
    kr_frame_reader_done(&r);
    return e;
}

static void try_stream(const uint8_t *data, size_t size, size_t piece)
{
    uint64_t whole, pieces;
    int whole_end = read_stream(data, size, size ? size : 1, &whole);
    int pieces_end = read_stream(data, size, piece, &pieces);

    must(whole_end == pieces_end && whole == pieces, "pieces do not matter");
}

static int send_message(int sock, const uint8_t *data, size_t size, unsigned nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * SENT_FDS_MAX)];
    } control;
    struct iovec iov = {(void *)data, size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    memset(&control, 0, sizeof control);
    if (nfds > 0) {
        struct cmsghdr *c;
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        for (unsigned i = 0; i < nfds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &(int){sock}, sizeof(int));
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* The lowest free descriptor: it rises if one of those below it was left open. */
static int lowest_free(int any)
{
    int fd = fcntl(any, F_DUPFD_CLOEXEC, 0);

    kr_fd_close(fd);
    return fd;
}

static void try_control(const uint8_t *data, size_t size, unsigned nfds)
{
    unsigned char buf[KR_FRAME_CONTROL_MAX];
    int s[2], fds[KR_FRAME_FDS_MAX], before, r;
    struct kr_frame f;
    struct kr_err err;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0)
        return;
    before = lowest_free(s[0]);
    if (send_message(s[0], data, size, nfds) == 0) {
        r = kr_frame_recv(s[1], &f, buf, sizeof buf, fds, 0, &err);
        must(r == 0 || r == -EPROTO || (size == 0 && nfds == 0 && r == -ENODATA), "it is a frame or a protocol error");
        if (r == 0) {
            must(f.nfds == nfds && f.len + KR_FRAME_HEAD == size, "a frame is what was sent");
            must(memcmp(buf, data + KR_FRAME_HEAD, f.len) == 0, "the payload is what was sent");
            inspect(&f, buf, 0);
            for (unsigned i = 0; i < f.nfds; i++) {
                must(fcntl(fds[i], F_GETFD) == FD_CLOEXEC, "a descriptor is open and close-on-exec");
                kr_fd_close(fds[i]);
            }
        }
    }
    must(lowest_free(s[0]) == before, "no descriptor is left open");
    kr_fd_close(s[0]);
    kr_fd_close(s[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    try_stream(data + 2, size - 2, data[0] + 1u);
    try_control(data + 2, size - 2, data[1] % SENT_FDS_MAX);
    return 0;
}
