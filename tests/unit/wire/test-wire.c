/* src/wire: the frame codec against peers that lie, the type table. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_fds(void)
{
    DIR *d = opendir("/proc/self/fd");
    int n = 0;

    if (!d)
        return -1;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Sends raw bytes with descriptors as no caller of kr_frame_send() could. */
static int send_raw(int sock, const void *data, size_t len, const int *fds, unsigned nfds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
    } control = {0};
    struct iovec iov = {(void *)data, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (nfds) {
        struct cmsghdr *c;
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
    }
    return sendmsg(sock, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

struct pair {
    int a, b, null;
};

static int pair_open(struct pair *p, int type)
{
    int s[2];

    if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, s) < 0)
        return -1;
    *p = (struct pair){s[0], s[1], open("/dev/null", O_RDONLY | O_CLOEXEC)};
    return p->null < 0 ? -1 : 0;
}

static void pair_close(struct pair *p)
{
    kr_fd_close(p->a);
    kr_fd_close(p->b);
    kr_fd_close(p->null);
}

/* ---- the table ---- */

static void types_are_complete(void)
{
    for (int t = 1; t < KR_F_MAX_; t++) {
        const struct kr_frame_type_row *row = &kr_frame_types[t];

        CHECK(row->name && row->name[0]);
        CHECK(row->min_len <= row->max_len && row->min_fds <= row->max_fds && row->max_fds <= KR_FRAME_FDS_MAX);
        if (t >= KR_E_CELL && t <= KR_E_FETCHED)
            CHECK(row->max_len <= KR_FRAME_EGRESS_MAX);
        else
            CHECK(row->max_len <= (t >= KR_S_GO && row->max_fds == 0 ? KR_FRAME_CHANNEL_MAX : KR_FRAME_CONTROL_MAX));
        for (int u = 0; u < t; u++)
            CHECK(strcmp(row->name, kr_frame_types[u].name) != 0);
    }
}

/* Each type's bounds, from both sides, through the check that both codecs use. */
static void check_holds_every_bound(void)
{
    for (uint16_t t = 1; t < KR_F_MAX_; t++) {
        const struct kr_frame_type_row *row = &kr_frame_types[t];
        struct kr_frame f = {.len = row->min_len, .type = t, .nfds = row->min_fds, .id = 1};

        CHECK(kr_frame_check(&f, KR_FRAME_CHANNEL_MAX, NULL) == 0);
        f.id = 0;
        CHECK(kr_frame_check(&f, KR_FRAME_CHANNEL_MAX, NULL) == (row->answered ? -EPROTO : 0));
        f.id = 1;
        f.len = row->max_len;
        f.nfds = row->max_fds;
        CHECK(kr_frame_check(&f, KR_FRAME_CHANNEL_MAX, NULL) == 0);
        CHECK(row->max_len == 0 || kr_frame_check(&f, row->max_len - 1, NULL) == -EPROTO);
        f.len = row->max_len + 1;
        CHECK(kr_frame_check(&f, UINT32_MAX, NULL) == -EPROTO);
        f.len = row->min_len - 1; /* wraps for 0: too long then */
        CHECK(kr_frame_check(&f, UINT32_MAX, NULL) == -EPROTO);
        f.len = row->max_len;
        f.nfds = (uint16_t)(row->max_fds + 1);
        CHECK(kr_frame_check(&f, UINT32_MAX, NULL) == -EPROTO);
        f.nfds = (uint16_t)(row->min_fds - 1);
        CHECK(kr_frame_check(&f, UINT32_MAX, NULL) == -EPROTO);
        f.nfds = row->min_fds;
        f.pad = 1;
        CHECK(kr_frame_check(&f, UINT32_MAX, NULL) == -EPROTO);
    }
}

static void check_refuses_unknown_types(void)
{
    static const uint16_t types[] = {KR_F_NONE, KR_F_MAX_, KR_F_MAX_ + 1, 0x7fff, 0xffff};
    struct kr_err err;

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct kr_frame f = {.type = types[i]};

        CHECK(kr_frame_check(&f, UINT32_MAX, &err) == -EPROTO && err.kind == KR_ERR_PROTOCOL && err.code == EPROTO);
        CHECK(strstr(err.msg, "unknown type"));
    }
}

/* ---- control sockets ---- */

static void frames_pass_with_descriptors(void)
{
    struct kr_w_opened said = {.cell = 42, .layers = 7}, heard;
    struct stat want, got;
    struct kr_frame f;
    struct kr_err err;
    struct pair p;
    int before = open_fds(), fds[KR_FRAME_FDS_MAX];

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0 && fstat(p.null, &want) == 0);
    for (unsigned n = 3; n <= 5; n++) {
        CHECK(kr_frame_send(p.a, KR_W_OPENED, 99, &said, sizeof said, (int[]){p.null, p.null, p.null, p.null, p.null},
                            n) == 0);
        CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), &err) == 0);
        CHECK(f.type == KR_W_OPENED && f.id == 99 && f.len == sizeof said && f.nfds == n && f.pad == 0);
        CHECK(memcmp(&heard, &said, sizeof said) == 0);
        for (unsigned i = 0; i < n; i++) {
            CHECK(fcntl(fds[i], F_GETFD) == FD_CLOEXEC && fstat(fds[i], &got) == 0 && got.st_rdev == want.st_rdev);
            close(fds[i]);
        }
    }
    CHECK(kr_frame_send(p.a, KR_I_DONE, 5, NULL, 0, NULL, 0) == 0);
    CHECK(kr_frame_recv(p.b, &f, NULL, 0, fds, kr_clock_after_ms(1000), &err) == 0);
    CHECK(f.type == KR_I_DONE && f.id == 5 && f.len == 0 && f.nfds == 0);
    pair_close(&p);
    CHECK(open_fds() == before);
}

static void send_refuses_what_recv_would(void)
{
    static const char big[KR_FRAME_PACKET_MAX + 1];
    struct kr_w_cell cell = {1};
    struct pair p;
    int many[KR_FRAME_FDS_MAX + 1];

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0);
    for (unsigned i = 0; i <= KR_FRAME_FDS_MAX; i++)
        many[i] = p.null;
    CHECK(kr_frame_send(p.a, KR_W_KILL, 0, &cell, sizeof cell - 1, NULL, 0) == -EINVAL);
    CHECK(kr_frame_send(p.a, KR_W_KILL, 0, &cell, sizeof cell, many, 1) == -EINVAL);
    CHECK(kr_frame_send(p.a, KR_W_OPENED, 0, &(struct kr_w_opened){0}, sizeof(struct kr_w_opened), many, 9) == -EINVAL);
    CHECK(kr_frame_send(p.a, KR_F_NONE, 0, NULL, 0, NULL, 0) == -EINVAL);
    CHECK(kr_frame_send(p.a, KR_S_RUN, 0, big, sizeof big, NULL, 0) == -EINVAL);
    CHECK(kr_frame_write(p.a, KR_W_OPENED, 0, NULL, 0) == -EINVAL);
    CHECK(kr_frame_write(p.a, KR_S_GO, 0, big, 1) == -EINVAL);
    CHECK(recv(p.b, &(char){0}, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN); /* nothing of it went out */
    CHECK(kr_frame_send(p.a, KR_W_KILL, 0, &cell, sizeof cell, NULL, 0) == 0);
    close(p.b);
    p.b = -1;
    CHECK(kr_frame_send(p.a, KR_W_KILL, 0, &cell, sizeof cell, NULL, 0) == -EPIPE);
    pair_close(&p);
}

static void send_says_again_when_full(void)
{
    struct kr_w_cell cell = {1}, heard;
    int fds[KR_FRAME_FDS_MAX], r = 0, sent = 0;
    struct kr_frame f;
    struct pair p;

    CHECK(pair_open(&p, SOCK_SEQPACKET | SOCK_NONBLOCK) == 0);
    while (sent < 100000 && (r = kr_frame_send(p.a, KR_W_KILL, (uint32_t)sent, &cell, sizeof cell, NULL, 0)) == 0)
        sent++;
    CHECK(r == -EAGAIN && sent > 0);
    for (int i = 0; i < sent; i++)
        CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, 0, NULL) == 0 && f.id == (uint32_t)i);
    CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, 0, NULL) == -ETIMEDOUT);
    pair_close(&p);
}

/* One lie, and that it costs neither a descriptor nor the socket: the next frame is heard. */
static int recv_refuses(const void *data, size_t len, unsigned nfds, size_t size)
{
    struct kr_frame f = {.id = 12345};
    char buf[KR_FRAME_PACKET_MAX + 100];
    struct kr_err err = {0};
    struct pair p;
    int many[64], fds[KR_FRAME_FDS_MAX], before, r, after, next;

    if (pair_open(&p, SOCK_SEQPACKET) < 0)
        return 0;
    for (unsigned i = 0; i < 64; i++)
        many[i] = p.null;
    before = open_fds();
    if (send_raw(p.a, data, len, many, nfds) < 0)
        return 0;
    r = kr_frame_recv(p.b, &f, buf, size, fds, kr_clock_after_ms(1000), &err);
    after = open_fds();
    kr_frame_send(p.a, KR_I_DONE, 5, NULL, 0, NULL, 0);
    next = kr_frame_recv(p.b, &(struct kr_frame){0}, buf, size, fds, 0, NULL);
    pair_close(&p);
    return r == -EPROTO && err.kind == KR_ERR_PROTOCOL && err.msg[0] && f.id == 12345 && after == before && next == 0;
}

struct whole {
    struct kr_frame head;
    char payload[KR_FRAME_PACKET_MAX + 100];
};

static void recv_refuses_descriptors_not_declared(void)
{
    static struct whole w;
    static const unsigned said[] = {0, 1, 2, 6, 8, 9, 64, 0xffff}, sent[] = {0, 1, 2, 6, 8, 9, 33, 64};

    w.head = (struct kr_frame){.len = sizeof(struct kr_w_opened), .type = KR_W_OPENED};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        for (size_t k = 0; k < sizeof sent / sizeof sent[0]; k++) {
            w.head.nfds = (uint16_t)said[i];
            CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, sent[k], 4096));
        }
    }
    w.head.nfds = 3;
    for (unsigned n = 0; n <= 64; n++)
        CHECK(n == 3 || recv_refuses(&w, KR_FRAME_HEAD + w.head.len, n, 4096));
    w.head = (struct kr_frame){.len = sizeof(struct kr_w_cell), .type = KR_W_KILL, .nfds = 1};
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, 1, 4096));
    w.head.nfds = 0;
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, 1, 4096));
}

/* A type may declare more than this receiver takes: every type, with all that it may bring, to one who takes one. */
static void recv_few_takes_no_more(void)
{
    static struct whole w;
    struct kr_frame f;
    struct kr_err err;
    struct pair p;
    int many[KR_FRAME_FDS_MAX], fd, before;

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0);
    for (unsigned i = 0; i < KR_FRAME_FDS_MAX; i++)
        many[i] = p.null;
    before = open_fds();
    for (uint16_t t = 1; t < KR_F_MAX_; t++) {
        const struct kr_frame_type_row *row = &kr_frame_types[t];

        if (row->max_fds < 2)
            continue;
        w.head = (struct kr_frame){.len = row->min_len, .type = t, .nfds = row->max_fds, .id = 1};
        for (unsigned max = 0; max < 2; max++) {
            CHECK(send_raw(p.a, &w, KR_FRAME_HEAD + w.head.len, many, row->max_fds) >= 0);
            CHECK(kr_frame_recv_few(p.b, &f, w.payload, sizeof w.payload, &fd, max, 0, &err) == -EPROTO);
            CHECK(strstr(err.msg, row->name) && open_fds() == before);
        }
    }
    pair_close(&p);
}

static void recv_refuses_wrong_lengths(void)
{
    static struct whole w;

    w.head = (struct kr_frame){.len = sizeof(struct kr_w_opened), .type = KR_W_OPENED, .nfds = 3};
    for (size_t len = 1; len < KR_FRAME_HEAD + sizeof(struct kr_w_opened); len++)
        CHECK(recv_refuses(&w, len, 3, 4096)); /* less than it says, down to less than a header */
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len + 1, 3, 4096));
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, 3, w.head.len - 1)); /* truncated: more than the caller's room */
    w.head.len++;
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, 3, 4096)); /* agrees with itself, not with its type */
    w.head.len = UINT32_MAX;
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + sizeof(struct kr_w_opened), 3, 4096));
    w.head = (struct kr_frame){.len = 10, .type = KR_S_RUN};
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + 20, 0, 10)); /* truncated to just what it says */
    w.head = (struct kr_frame){.len = KR_FRAME_PACKET_MAX + 1, .type = KR_S_RUN};
    CHECK(recv_refuses(&w, KR_FRAME_HEAD + w.head.len, 0, sizeof w.payload)); /* a control socket's own limit */
}

static void recv_refuses_garbage(void)
{
    unsigned char noise[200];
    uint32_t seed = 12345;

    for (int round = 0; round < 500; round++) {
        size_t len;

        for (size_t i = 0; i < sizeof noise; i++) {
            seed = seed * 1664525u + 1013904223u;
            noise[i] = (unsigned char)(seed >> 24);
        }
        len = 1 + (seed >> 8) % sizeof noise;
        noise[15] |= 1; /* the padding: never a good frame by chance */
        CHECK(recv_refuses(noise, len, seed % 10, 4096));
    }
}

static void recv_survives_a_full_descriptor_table(void)
{
    static struct whole w;
    struct kr_w_opened said = {.cell = 1}, heard = {0};
    struct kr_err err = {0};
    struct rlimit old, tight;
    int fds[KR_FRAME_FDS_MAX], before = open_fds(), r;
    struct kr_frame f;
    struct pair p;

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0 && getrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(kr_frame_send(p.a, KR_W_OPENED, 1, &said, sizeof said, (int[]){p.null, p.null, p.null}, 3) == 0);
    tight = (struct rlimit){(rlim_t)p.null + 2, old.rlim_max}; /* room for one of the three */
    CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    r = kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), &err);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(r == -EMFILE && err.kind == KR_ERR_LIMIT); /* the frame is there, so that its cell can be killed */
    CHECK(f.type == KR_W_OPENED && f.id == 1 && f.nfds == 0 && heard.cell == 1);
    /* The same with a liar: five are sent and three declared, which is how many there is room for. */
    w.head = (struct kr_frame){.len = sizeof said, .type = KR_W_OPENED, .nfds = 3};
    CHECK(send_raw(p.a, &w, KR_FRAME_HEAD + sizeof said, (int[]){p.null, p.null, p.null, p.null, p.null}, 5) == 0);
    tight.rlim_cur = (rlim_t)p.null + 4;
    CHECK(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    r = kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), NULL);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(r == -EPROTO);
    pair_close(&p);
    CHECK(open_fds() == before);
}

static void recv_refuses_other_ancillary_data(void)
{
    struct kr_w_cell cell = {1}, heard;
    int fds[KR_FRAME_FDS_MAX], on = 1, before = open_fds();
    struct kr_frame f;
    struct pair p;

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0);
    CHECK(setsockopt(p.b, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0);
    CHECK(kr_frame_send(p.a, KR_W_KILL, 0, &cell, sizeof cell, NULL, 0) == 0);
    CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, 0, NULL) == -EPROTO);
    pair_close(&p);
    CHECK(open_fds() == before);
}

static void recv_tells_the_end_from_a_deadline(void)
{
    struct kr_w_cell cell = {1}, heard;
    int fds[KR_FRAME_FDS_MAX], before = open_fds();
    struct kr_frame f;
    struct kr_err err;
    struct pair p;
    uint64_t deadline;
    int r;

    CHECK(pair_open(&p, SOCK_SEQPACKET) == 0);
    CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, 0, &err) == -ETIMEDOUT && err.kind == KR_ERR_TIMEOUT);
    deadline = kr_clock_after_ms(20);
    CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, deadline, &err) == -ETIMEDOUT);
    CHECK(kr_clock_ns() >= deadline);
    CHECK(kr_frame_send(p.a, KR_W_KILL, 7, &cell, sizeof cell, NULL, 0) == 0);
    CHECK(kr_frame_send(p.b, KR_W_KILL, 8, &cell, sizeof cell, NULL, 0) == 0);
    close(p.a); /* with a frame unread on its side: the kernel reports a reset */
    p.a = -1;
    r = kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), &err);
    CHECK((r == 0 && f.id == 7) || r == -ENODATA);
    r = kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), &err);
    CHECK((r == 0 && f.id == 7) || r == -ENODATA);
    CHECK(kr_frame_recv(p.b, &f, &heard, sizeof heard, fds, kr_clock_after_ms(1000), &err) == -ENODATA);
    CHECK(err.code == ENODATA);
    pair_close(&p);
    CHECK(kr_frame_recv(9999, &f, &heard, sizeof heard, fds, 0, &err) == -EBADF && err.kind == KR_ERR_SYSTEM);
    CHECK(open_fds() == before);
}

/* ---- streams ---- */

struct writer {
    int fd, result;
    char *payload;
    size_t len;
};

static void *write_frame(void *arg)
{
    struct writer *w = arg;

    w->result = kr_frame_write(w->fd, KR_S_RUN, 3, w->payload, w->len);
    return NULL;
}

static void stream_carries_the_largest_frame(void)
{
    struct writer w = {.len = KR_FRAME_CHANNEL_MAX};
    const unsigned char *payload = NULL;
    struct kr_frame_reader r;
    struct kr_frame f;
    pthread_t thread;
    struct pair p;
    int got = 0;

    CHECK(pair_open(&p, SOCK_STREAM) == 0 && (w.payload = malloc(w.len)));
    for (size_t i = 0; i < w.len; i++)
        w.payload[i] = (char)(i % 251);
    w.fd = p.a;
    CHECK(pthread_create(&thread, NULL, write_frame, &w) == 0);
    kr_frame_reader_init(&r, KR_FRAME_CHANNEL_MAX);
    while ((got = kr_frame_reader_next(&r, &f, &payload, NULL)) == 0) {
        size_t size = 0;
        void *room = kr_frame_reader_room(&r, &size);
        ssize_t n;

        CHECK(room && size > 0 && r.cap <= KR_FRAME_HEAD + KR_FRAME_CHANNEL_MAX);
        n = read(p.b, room, size);
        CHECK(n > 0);
        kr_frame_reader_fed(&r, (size_t)n);
    }
    CHECK(pthread_join(thread, NULL) == 0 && w.result == 0);
    CHECK(got == 1 && f.type == KR_S_RUN && f.id == 3 && f.len == w.len && memcmp(payload, w.payload, w.len) == 0);
    CHECK(kr_frame_reader_next(&r, &f, &payload, NULL) == 0 && r.cap == 0); /* its memory is given back at once */
    kr_frame_reader_done(&r);
    free(w.payload);
    pair_close(&p);
}

static void stream_writer_gets_no_signal(void)
{
    struct pair p;

    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    CHECK(pair_open(&p, SOCK_STREAM) == 0);
    close(p.b);
    p.b = -1;
    CHECK(kr_frame_write(p.a, KR_S_GO, 0, NULL, 0) == -EPIPE);
    pair_close(&p);
}

/* Feeds bytes in pieces of `step`, counts the frames, checks what they carry. */
static int read_in_steps(const unsigned char *bytes, size_t len, size_t step, uint32_t max_len, int *ret_frames)
{
    const unsigned char *payload = NULL;
    struct kr_frame_reader r;
    struct kr_frame f;
    int e = 0;

    kr_frame_reader_init(&r, max_len);
    *ret_frames = 0;
    for (size_t at = 0; at < len && e >= 0;) {
        size_t size = 0, n = len - at < step ? len - at : step;
        void *room = kr_frame_reader_room(&r, &size);

        if (!room)
            abort();
        n = n < size ? n : size;
        memcpy(room, bytes + at, n);
        at += n;
        kr_frame_reader_fed(&r, n);
        while ((e = kr_frame_reader_next(&r, &f, &payload, NULL)) == 1) {
            for (uint32_t i = 0; i < f.len; i++)
                if (payload[i] != (unsigned char)(f.id + i))
                    abort();
            ++*ret_frames;
        }
    }
    if (e < 0 && kr_frame_reader_next(&r, &f, &payload, NULL) != e)
        e = -EINVAL; /* a lost stream must stay lost */
    kr_frame_reader_done(&r);
    return e;
}

static size_t put_frame(unsigned char *out, uint16_t type, uint32_t id, uint32_t len)
{
    struct kr_frame f = {.len = len, .type = type, .id = id};

    memcpy(out, &f, sizeof f);
    for (uint32_t i = 0; i < len; i++)
        out[sizeof f + i] = (unsigned char)(id + i);
    return sizeof f + len;
}

static void stream_same_frames_at_every_split(void)
{
    static const uint32_t lens[] = {0, 1, 15, 16, 17, 0, 300, 4096, 5000, 3};
    static unsigned char bytes[20000];
    size_t len = 0;
    int frames;

    for (uint32_t i = 0; i < sizeof lens / sizeof lens[0]; i++)
        len += put_frame(bytes + len, KR_S_DISPLAY, i, lens[i]);
    for (size_t step = 1; step <= len; step = step < 50 ? step + 1 : step * 2 + 1) {
        CHECK(read_in_steps(bytes, len, step, 5000, &frames) == 0);
        CHECK(frames == (int)(sizeof lens / sizeof lens[0]));
    }
    CHECK(read_in_steps(bytes, len, 100, 4999, &frames) == -EPROTO && frames == 8);
    CHECK(read_in_steps(bytes, len - 1, 100, 5000, &frames) == 0 && frames == 9);
}

static void stream_refuses(void)
{
    static const struct {
        uint16_t type;
        uint32_t most;
    } rows[] = {{KR_S_READY, 64u << 10}, {KR_S_STARTED, 64u << 10}, {KR_S_INPUT, 64u << 10}, {KR_S_END, 4u << 20}};
    unsigned char bytes[200];
    size_t len = put_frame(bytes, KR_S_INPUT, 0, 5);
    struct kr_frame f;
    int frames;

    for (uint16_t type = 0; type < KR_F_MAX_; type++) { /* control frames, descriptors or not */
        f = (struct kr_frame){
            .type = type, .len = kr_frame_types[type].min_len, .nfds = kr_frame_types[type].min_fds, .id = 1};
        memcpy(bytes + len, &f, sizeof f);
        CHECK((type >= KR_S_GO && f.nfds == 0) ||
              (read_in_steps(bytes, len + sizeof f, 7, 1000, &frames) == -EPROTO && frames == 1));
    }
    f = (struct kr_frame){.type = KR_S_END, .nfds = 1};
    memcpy(bytes, &f, sizeof f);
    CHECK(read_in_steps(bytes, sizeof f, 7, 1000, &frames) == -EPROTO);
    f = (struct kr_frame){.type = KR_S_END, .len = UINT32_MAX};
    memcpy(bytes, &f, sizeof f);
    CHECK(read_in_steps(bytes, sizeof f, 7, UINT32_MAX, &frames) == -EPROTO); /* before any memory is taken for it */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) { /* refused by the header, with none of it read */
        f = (struct kr_frame){.type = rows[i].type, .len = rows[i].most + 1};
        memcpy(bytes, &f, sizeof f);
        CHECK(read_in_steps(bytes, sizeof f, 7, KR_FRAME_CHANNEL_MAX, &frames) == -EPROTO);
        f.len--;
        memcpy(bytes, &f, sizeof f);
        CHECK(read_in_steps(bytes, sizeof f, 7, KR_FRAME_CHANNEL_MAX, &frames) == 0);
    }
    memset(bytes, 0xee, sizeof bytes);
    CHECK(read_in_steps(bytes, sizeof bytes, 200, 1000, &frames) == -EPROTO && frames == 0);
}

static void stream_memory_follows_what_came(void)
{
    struct kr_frame f = {.type = KR_S_DISPLAY, .len = KR_FRAME_CHANNEL_MAX};
    const unsigned char *payload;
    struct kr_frame_reader r;
    size_t size = 0;

    kr_frame_reader_init(&r, KR_FRAME_CHANNEL_MAX);
    CHECK(kr_frame_reader_next(&r, &f, &payload, NULL) == 0);
    memcpy(kr_frame_reader_room(&r, &size), &f, sizeof f);
    kr_frame_reader_fed(&r, sizeof f);
    CHECK(kr_frame_reader_next(&r, &f, &payload, NULL) == 0);
    CHECK(kr_frame_reader_room(&r, &size) && r.cap <= 65536); /* 16 MiB were promised, 16 bytes have come */
    kr_frame_reader_done(&r);
    kr_frame_reader_init(&r, 100);
    for (int i = 0; i < 116; i++) { /* a caller that never takes: the buffer ends at a header and the maximum */
        unsigned char *room = kr_frame_reader_room(&r, &size);

        CHECK(room && size == (size_t)(116 - i));
        *room = 0;
        kr_frame_reader_fed(&r, 1);
    }
    CHECK(!kr_frame_reader_room(&r, &size));
    kr_frame_reader_done(&r);
}

int main(void)
{
    close_range(3, ~0U, 0); /* inherited descriptors would leave gaps where a test counts free ones */
    RUN(types_are_complete);
    RUN(check_holds_every_bound);
    RUN(check_refuses_unknown_types);
    RUN(frames_pass_with_descriptors);
    RUN(send_refuses_what_recv_would);
    RUN(send_says_again_when_full);
    RUN(recv_refuses_descriptors_not_declared);
    RUN(recv_few_takes_no_more);
    RUN(recv_refuses_wrong_lengths);
    RUN(recv_refuses_garbage);
    RUN(recv_survives_a_full_descriptor_table);
    RUN(recv_refuses_other_ancillary_data);
    RUN(recv_tells_the_end_from_a_deadline);
    RUN(stream_carries_the_largest_frame);
    RUN(stream_writer_gets_no_signal);
    RUN(stream_same_frames_at_every_split);
    RUN(stream_refuses);
    RUN(stream_memory_follows_what_came);
    CHECK_DONE();
}
