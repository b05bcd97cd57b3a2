/* src/egress/dial.c and eg_stream.c on a real loop, with names of /etc/hosts alone: what is connected to, what is
 * refused and why, and that nothing is left behind. Run by tests/run. */
#include "address.h"
#include "check.h"
#include "clock.h"
#include "egress_internal.h"
#include "fd.h"
#include "loop.h"
#include "work.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

struct bench {
    struct kr_eg eg;
    struct kr_egress_config config;
    const char *private[1];
    const char *own[1];
    uint16_t own_port;
    int listener;
    uint16_t port;
    struct kr_eg_dial_end end;
    unsigned ends;
};

static void on_end(void *data, const struct kr_eg_dial_end *end)
{
    struct bench *b = data;

    b->end = *end;
    b->ends++;
}

static int listen_on(uint32_t address, uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (bind(fd, (struct sockaddr *)&a, sizeof a) < 0 || listen(fd, 16) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void open_bench(struct bench *b)
{
    *b = (struct bench){.ends = 0};
    b->eg.config = &b->config;
    b->eg.limits = (struct kr_egress_limits){.resolve_ms = 5000, .connect_ms = 2000};
    b->listener = listen_on(INADDR_LOOPBACK, &b->port);
    if (uv_loop_init(&b->eg.loop) < 0 || kr_lane_new(&b->eg.loop, 2, 4, &b->eg.lookups) < 0)
        abort();
}

/* True if all memory of the loop has been given back. */
static bool close_bench(struct bench *b)
{
    kr_lane_close(b->eg.lookups);
    kr_fd_close(b->listener);
    uv_run(&b->eg.loop, UV_RUN_DEFAULT);
    return uv_loop_close(&b->eg.loop) == 0;
}

static void make_private(struct bench *b, const char *word)
{
    b->private[0] = word;
    b->config.private_hosts = (struct kr_words){b->private, 1};
}

static const struct kr_eg_dial_end *dial(struct bench *b, const char *host, uint16_t port, bool trusted)
{
    struct kr_eg_dial_ask ask = {.host = host, .port = port, .sandbox = "s1", .trusted = trusted};
    struct kr_eg_dial *d;
    unsigned before = b->ends;

    if (b->ends > 0)
        kr_fd_close(b->end.fd);
    b->end = (struct kr_eg_dial_end){.fd = -1};
    if (kr_eg_dial_start(&b->eg, &ask, on_end, b, &d) < 0)
        return NULL;
    if (b->ends != before) /* never from within start */
        return NULL;
    while (b->ends == before)
        uv_run(&b->eg.loop, UV_RUN_ONCE);
    return &b->end;
}

/* ---- dials ---- */

static void test_loopback_is_refused(void)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost", "::1", "127.8.8.8", "10.1.2.3", "169.254.169.254"};
    const struct kr_eg_dial_end *end;
    struct bench b;

    open_bench(&b);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        end = dial(&b, hosts[i], b.port, false);
        CHECK(end && end->verdict == KR_EG_DENIED && end->status == 403 && end->fd == -1);
        CHECK(end->address[0] && strstr(end->why, "not on the public internet"));
    }
    CHECK(close_bench(&b));
}

static void test_private_host(void)
{
    const struct kr_eg_dial_end *end;
    char word[40];
    struct bench b;

    open_bench(&b);
    snprintf(word, sizeof word, "LocalHost:%u", b.port);
    make_private(&b, word);
    end = dial(&b, "localhost", b.port, false);
    CHECK(end && end->verdict == KR_EG_OK && end->fd >= 0 && strcmp(end->address, "127.0.0.1") == 0);
    CHECK(dial(&b, "localhost", (uint16_t)(b.port ^ 1), false)->verdict == KR_EG_DENIED);
    CHECK(dial(&b, "127.0.0.1", b.port, false)->verdict == KR_EG_DENIED);
    make_private(&b, "127.0.0.1");
    CHECK(dial(&b, "127.0.0.1", b.port, false)->verdict == KR_EG_OK);
    make_private(&b, "[::1]:9");
    CHECK(dial(&b, "::1", 9, false)->verdict == KR_EG_FAILED);
    CHECK(dial(&b, "::1", 10, false)->verdict == KR_EG_DENIED);
    kr_fd_close(b.end.fd);
    CHECK(close_bench(&b));
}

/* No word makes an address right at which no host can be, or another spelling of one. */
static void test_never(void)
{
    static const char *const hosts[] = {"0.0.0.0",          "255.255.255.255", "224.0.0.1",          "::",
                                        "::ffff:127.0.0.1", "::127.0.0.1",     "64:ff9b::127.0.0.1", "2002:7f00:1::"};
    struct bench b;

    open_bench(&b);
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        CHECK(dial(&b, hosts[i], b.port, true)->verdict == KR_EG_DENIED);
    CHECK(dial(&b, "127.1", b.port, true)->verdict == KR_EG_DENIED && strstr(b.end.why, "usual form"));
    CHECK(dial(&b, "127.0.0.1", b.port, true)->verdict == KR_EG_OK);
    kr_fd_close(b.end.fd);
    CHECK(close_bench(&b));
}

static void test_own(void)
{
    struct bench b;

    open_bench(&b);
    make_private(&b, "localhost");
    b.own_port = b.port;
    b.config.own_ports = &b.own_port;
    b.config.own_ports_count = 1;
    CHECK(dial(&b, "localhost", b.port, true)->verdict == KR_EG_DENIED && strstr(b.end.why, "krait itself listens"));
    b.config.own_ports_count = 0;
    b.own[0] = "localhost";
    b.config.own_hosts = (struct kr_words){b.own, 1};
    CHECK(dial(&b, "localhost", b.port, true)->verdict == KR_EG_DENIED && strstr(b.end.why, "is krait itself"));
    b.own[0] = "localhost:1";
    CHECK(dial(&b, "localhost", b.port, true)->verdict == KR_EG_OK);
    kr_fd_close(b.end.fd);
    CHECK(close_bench(&b));
}

static void test_failures(void)
{
    const struct kr_eg_dial_end *end;
    struct bench b;

    open_bench(&b);
    kr_fd_close(b.listener);
    b.listener = -1;
    end = dial(&b, "127.0.0.1", b.port, true);
    CHECK(end->verdict == KR_EG_FAILED && end->status == 502 && strstr(end->why, "refused"));
    end = dial(&b, "", 80, false);
    CHECK(end->verdict == KR_EG_DENIED);
    CHECK(close_bench(&b));
}

static unsigned dropped_ends;

static void on_many_end(void *data, const struct kr_eg_dial_end *end)
{
    (void)data;
    kr_fd_close(end->fd);
    dropped_ends++;
}

/* More names than the lane takes: the rest is refused, not lost; what is cancelled says nothing. */
static void test_bound_and_cancel(void)
{
    struct kr_eg_dial_ask ask = {.host = "localhost", .sandbox = "s1", .trusted = true};
    struct kr_eg_dial *dials[10];
    struct bench b;

    open_bench(&b);
    ask.port = b.port;
    dropped_ends = 0;
    for (unsigned i = 0; i < 10; i++)
        CHECK(kr_eg_dial_start(&b.eg, &ask, on_many_end, NULL, &dials[i]) == 0);
    for (unsigned i = 0; i < 4; i++)
        kr_eg_dial_cancel(dials[i]);
    kr_eg_dial_cancel(dials[9]);
    while (dropped_ends < 5)
        uv_run(&b.eg.loop, UV_RUN_ONCE);
    uv_run(&b.eg.loop, UV_RUN_NOWAIT);
    CHECK(dropped_ends == 5);
    CHECK(close_bench(&b));
}

/* A server whose queue is full answers no SYN: the deadline ends it. */
static void test_connect_deadline(void)
{
    struct bench b;
    int fill[32];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    open_bench(&b);
    b.eg.limits.connect_ms = 100;
    CHECK(listen(b.listener, 1) == 0);
    a.sin_port = htons(b.port);
    for (unsigned i = 0; i < 32; i++) {
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)connect(fill[i], (struct sockaddr *)&a, sizeof a);
    }
    CHECK(dial(&b, "127.0.0.1", b.port, true)->verdict == KR_EG_TIMEOUT && b.end.status == 504);
    for (unsigned i = 0; i < 32; i++)
        kr_fd_close(fill[i]);
    CHECK(close_bench(&b));
}

/* ---- streams ---- */

struct talk {
    struct kr_eg_stream *s;
    unsigned readable, writable;
    char got[64];
    ssize_t last;
    bool close_in_readable;
};

static void on_readable(void *data)
{
    struct talk *t = data;

    t->readable++;
    if (t->close_in_readable) {
        kr_eg_stream_close(t->s);
        t->s = NULL;
        return;
    }
    t->last = kr_eg_stream_read(t->s, t->got, sizeof t->got);
    if (t->last <= 0)
        kr_eg_stream_want(t->s, false, false);
}

static void on_writable(void *data)
{
    struct talk *t = data;

    t->writable++;
    kr_eg_stream_want(t->s, true, false);
}

static const struct kr_eg_stream_calls talk_calls = {on_readable, on_writable};

static void test_stream(void)
{
    struct talk t = {0};
    uv_loop_t loop;
    int pair[2];

    CHECK(uv_loop_init(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(kr_eg_stream_new(&loop, pair[0], &t.s) == 0 && kr_eg_stream_fd(t.s) == pair[0]);
    kr_eg_stream_set_calls(t.s, &talk_calls, &t);
    CHECK(kr_eg_stream_read(t.s, t.got, sizeof t.got) == -EAGAIN);
    kr_eg_stream_want(t.s, false, true);
    uv_run(&loop, UV_RUN_ONCE);
    CHECK(t.writable == 1 && t.readable == 0);
    CHECK(kr_eg_stream_write(t.s, "ab", 2) == 2 && read(pair[1], t.got, 2) == 2);
    CHECK(write(pair[1], "xyz", 3) == 3);
    uv_run(&loop, UV_RUN_ONCE);
    CHECK(t.readable == 1 && t.last == 3 && memcmp(t.got, "xyz", 3) == 0);
    kr_eg_stream_shut(t.s);
    CHECK(read(pair[1], t.got, 1) == 0);
    kr_fd_close(pair[1]);
    uv_run(&loop, UV_RUN_ONCE);
    CHECK(t.last == 0 && kr_eg_stream_write(t.s, "a", 1) == -EPIPE);
    kr_eg_stream_close(t.s);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
}

static void test_close_in_callback(void)
{
    struct talk t = {.close_in_readable = true};
    uv_loop_t loop;
    int pair[2];

    CHECK(uv_loop_init(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    CHECK(kr_eg_stream_new(&loop, pair[0], &t.s) == 0);
    kr_eg_stream_set_calls(t.s, &talk_calls, &t);
    CHECK(write(pair[1], "x", 1) == 1);
    kr_eg_stream_want(t.s, true, true);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(t.readable == 1 && t.writable == 0 && !t.s);
    kr_fd_close(pair[1]);
    kr_eg_stream_close(NULL);
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_DFL); /* a stream never raises it */
    RUN(test_loopback_is_refused);
    RUN(test_private_host);
    RUN(test_never);
    RUN(test_own);
    RUN(test_failures);
    RUN(test_bound_and_cancel);
    RUN(test_connect_deadline);
    RUN(test_stream);
    RUN(test_close_in_callback);
    CHECK_DONE();
}
