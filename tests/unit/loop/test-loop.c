/* src/loop: timers, watches and write queues on a real loop. Every test ends with uv_loop_close() == 0, which it is
 * only if every handle's memory has been given back through the loop. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "clock.h"
#include "fd.h"
#include "loop.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <uv.h>

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

/* Runs until nothing is left to wait for, but not past two seconds; true if it ended by itself and left nothing
 * behind. */
struct guard {
    uv_timer_t timer;
    bool late;
};

static void on_guard(uv_timer_t *handle)
{
    ((struct guard *)handle->data)->late = true;
    uv_stop(handle->loop);
}

static bool run_to_end(uv_loop_t *loop)
{
    struct guard g = {.late = false};

    uv_timer_init(loop, &g.timer);
    g.timer.data = &g;
    uv_timer_start(&g.timer, on_guard, 2000, 0);
    uv_unref((uv_handle_t *)&g.timer);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&g.timer, NULL);
    uv_run(loop, UV_RUN_NOWAIT);
    return !g.late;
}

/* ---- timers ---- */

struct ticks {
    struct kr_timer *timer, *other;
    int count, rearm;
    uint64_t at;
};

static void on_tick(void *data)
{
    struct ticks *t = data;

    t->count++;
    t->at = kr_clock_ns();
    if (t->rearm > 0) {
        t->rearm--;
        kr_timer_arm(t->timer, 1);
        return;
    }
    kr_timer_close(t->other);
    t->other = NULL;
    kr_timer_close(t->timer); /* from its own callback */
    t->timer = NULL;
}

static void timer_fires_once_and_never_early(void)
{
    struct ticks t = {0};
    uint64_t due;
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && kr_timer_new(&loop, on_tick, &t, &t.timer) == 0);
    CHECK(!kr_timer_armed(t.timer));
    usleep(20000); /* the loop's idea of now is old: it must not count from there */
    due = kr_clock_after_ms(15);
    kr_timer_arm(t.timer, 15);
    CHECK(kr_timer_armed(t.timer));
    CHECK(run_to_end(&loop) && t.count == 1 && t.at >= due);
    CHECK(uv_loop_close(&loop) == 0);
}

/* A loop that turns often sees milliseconds begin: armed late in one, a timer must not count it as a whole one. */
static void timer_is_not_early_on_a_busy_loop(void)
{
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    for (int i = 0; i < 10; i++) {
        struct ticks t = {0};
        uint64_t due;

        CHECK(kr_timer_new(&loop, on_tick, &t, &t.timer) == 0);
        usleep((useconds_t)(130 * i));
        due = kr_clock_after_ms(3);
        kr_timer_arm(t.timer, 3);
        for (int turn = 0; turn < 10000 && t.count == 0; turn++) {
            uv_run(&loop, UV_RUN_NOWAIT);
            usleep(50);
        }
        CHECK(t.count == 1 && t.at >= due);
    }
    CHECK(run_to_end(&loop));
    CHECK(uv_loop_close(&loop) == 0);
}

static void timer_is_armed_again(void)
{
    struct ticks t = {.rearm = 3};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && kr_timer_new(&loop, on_tick, &t, &t.timer) == 0);
    kr_timer_arm(t.timer, 100000);
    kr_timer_arm(t.timer, 1); /* anew, not in addition */
    CHECK(run_to_end(&loop) && t.count == 4);
    CHECK(uv_loop_close(&loop) == 0);
}

static void timer_disarmed_or_closed_is_silent(void)
{
    struct ticks t = {0}, other = {0}, last = {0};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    CHECK(kr_timer_new(&loop, on_tick, &t, &t.timer) == 0 && kr_timer_new(&loop, on_tick, &other, &other.timer) == 0);
    CHECK(kr_timer_new(&loop, on_tick, &last, &last.timer) == 0);
    kr_timer_arm(t.timer, 0);
    kr_timer_disarm(t.timer);
    CHECK(!kr_timer_armed(t.timer));
    kr_timer_arm(other.timer, 3); /* due in the same turn as the one that closes it */
    last.other = other.timer;
    kr_timer_arm(last.timer, 2);
    usleep(10000);
    CHECK(run_to_end(&loop) && t.count == 0 && other.count == 0 && last.count == 1);
    kr_timer_close(t.timer);
    kr_timer_close(NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(uv_loop_close(&loop) == 0);
}

/* ---- watches ---- */

struct seen {
    struct kr_watch *watch;
    struct kr_outq *outq;
    int readable, writable, drained, failed, error;
    bool close_on_read, close_on_write, close_on_drained, close_on_failed, keep_unread;
    char last[64];
    ssize_t last_len;
    size_t total;
};

static void shut(struct seen *s)
{
    kr_watch_close(s->watch);
    s->watch = NULL;
}

static void on_readable(void *data)
{
    struct seen *s = data;

    s->readable++;
    if (s->keep_unread && s->readable < 3)
        return; /* told again */
    s->last_len = read(kr_watch_fd(s->watch), s->last, sizeof s->last);
    s->error = s->last_len < 0 ? errno : 0;
    if (s->close_on_read || s->last_len <= 0)
        shut(s);
}

static void on_writable(void *data)
{
    struct seen *s = data;

    s->writable++;
    kr_watch_want_write(s->watch, false);
    if (s->close_on_write)
        shut(s);
}

static const struct kr_watch_calls watch_calls = {on_readable, on_writable};

static void watch_reads_until_the_end(void)
{
    int before = open_fds(), p[2];
    struct seen s = {.keep_unread = true};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && pipe2(p, O_CLOEXEC) == 0);
    CHECK(kr_watch_new(&loop, p[0], &watch_calls, &s, &s.watch) == 0 && kr_watch_fd(s.watch) == p[0]);
    CHECK(fcntl(p[0], F_GETFL) & O_NONBLOCK);
    CHECK(write(p[1], "abc", 3) == 3);
    uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(s.readable == 0); /* nothing is wanted yet */
    kr_watch_want_read(s.watch, true);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_ONCE);
    CHECK(s.readable == 3 && s.last_len == 3 && memcmp(s.last, "abc", 3) == 0);
    close(p[1]);
    CHECK(run_to_end(&loop) && s.readable == 4 && s.last_len == 0 && !s.watch);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

static void watch_closed_in_one_callback_skips_the_other(void)
{
    int before = open_fds(), sv[2];
    struct seen s = {.close_on_read = true};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
    CHECK(kr_watch_new(&loop, sv[0], &watch_calls, &s, &s.watch) == 0);
    CHECK(write(sv[1], "x", 1) == 1);
    kr_watch_want_read(s.watch, true);
    kr_watch_want_write(s.watch, true); /* both are true in the first turn */
    CHECK(run_to_end(&loop) && s.readable == 1 && s.writable == 0 && !s.watch);
    close(sv[1]);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

static void watch_writable_comes_while_wanted(void)
{
    int sv[2];
    struct seen s = {.close_on_write = false};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
    CHECK(kr_watch_new(&loop, sv[0], &watch_calls, &s, &s.watch) == 0);
    kr_watch_want_write(s.watch, true);
    CHECK(run_to_end(&loop) && s.writable == 1); /* the callback stopped wanting, so nothing is left to wait for */
    s.close_on_write = true;
    kr_watch_want_write(s.watch, true);
    CHECK(run_to_end(&loop) && s.writable == 2 && !s.watch);
    close(sv[1]);
    CHECK(uv_loop_close(&loop) == 0);
}

static void watch_tells_an_error_through_the_read(void)
{
    int before = open_fds(), sv[2];
    struct seen s = {.keep_unread = true};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
    CHECK(kr_watch_new(&loop, sv[0], &watch_calls, &s, &s.watch) == 0);
    CHECK(write(sv[0], "unread", 6) == 6);
    close(sv[1]); /* with bytes unread: POLLERR and ECONNRESET on our side */
    kr_watch_want_read(s.watch, true);
    CHECK(run_to_end(&loop) && s.readable == 3 && s.last_len == -1 && s.error == ECONNRESET && !s.watch);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

static void watch_refuses_what_has_no_readiness(void)
{
    int before = open_fds(), fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), p[2];
    struct kr_watch *w = NULL, *first = NULL;
    struct seen s = {0};
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0 && fd >= 0 && pipe2(p, O_CLOEXEC) == 0);
    CHECK(kr_watch_new(&loop, fd, &watch_calls, &s, &w) == -EPERM && !w);
    CHECK(fcntl(fd, F_GETFD) >= 0); /* still the caller's */
    CHECK(kr_watch_new(&loop, 9999, &watch_calls, &s, &w) == -EBADF && !w);
    CHECK(kr_watch_new(&loop, p[0], &watch_calls, &s, &first) == 0);
    kr_watch_want_read(first, true);
    CHECK(kr_watch_new(&loop, p[0], &watch_calls, &s, &w) == -EEXIST && !w);
    CHECK(kr_watch_release(first) == p[0] && fcntl(p[0], F_GETFD) >= 0);
    CHECK(kr_watch_new(&loop, p[0], &watch_calls, &s, &w) == 0); /* at once, before the first one's memory is gone */
    kr_watch_close(w);
    kr_watch_close(NULL);
    CHECK(run_to_end(&loop) && s.readable == 0);
    close(p[1]);
    close(fd);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

/* ---- write queues ---- */

static void on_drained(void *data)
{
    struct seen *s = data;

    s->drained++;
    if (s->close_on_drained)
        shut(s);
}

static void on_failed(void *data, int error)
{
    struct seen *s = data;

    s->failed++;
    s->error = error;
    if (s->close_on_failed)
        shut(s);
}

static const struct kr_outq_calls outq_calls = {on_drained, on_failed};

/* A small socket buffer and a queue of max bytes on it. */
static int outq_open(uv_loop_t *loop, struct seen *s, size_t max, int sv[2])
{
    int small = 4096;

    if (uv_loop_init(loop) < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
        return -1;
    if (setsockopt(sv[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) < 0)
        return -1;
    if (kr_watch_new(loop, sv[0], &watch_calls, s, &s->watch) < 0)
        return -1;
    return kr_outq_new(s->watch, max, &outq_calls, s, &s->outq);
}

static void outq_what_fits_never_waits(void)
{
    struct seen s = {0};
    char got[16] = "";
    uv_loop_t loop;
    int sv[2];

    CHECK(outq_open(&loop, &s, 1000, sv) == 0);
    CHECK(kr_outq_add(s.outq, "hello", 5) == 0 && kr_outq_pending(s.outq) == 0);
    CHECK(kr_outq_add(s.outq, "", 0) == 0);
    CHECK(read(sv[1], got, sizeof got) == 5 && memcmp(got, "hello", 5) == 0);
    CHECK(run_to_end(&loop) && s.drained == 0 && s.writable == 0);
    CHECK(kr_outq_new(s.watch, 10, &outq_calls, &s, &s.outq) == -EEXIST);
    shut(&s);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(sv[1]);
    CHECK(uv_loop_close(&loop) == 0);
}

struct reader {
    struct kr_watch *watch;
    size_t total;
    bool wrong;
};

/* Reads what byte_at() wrote, a little at a time. */
static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

static void on_pattern(void *data)
{
    struct reader *r = data;
    unsigned char buf[777];
    ssize_t n = read(kr_watch_fd(r->watch), buf, sizeof buf);

    for (ssize_t i = 0; i < n; i++)
        r->wrong |= buf[i] != byte_at(r->total++);
    if (n == 0) {
        kr_watch_close(r->watch);
        r->watch = NULL;
    }
}

static void outq_keeps_order_and_maximum(void)
{
    struct seen s = {.close_on_drained = true};
    struct reader reader = {0};
    unsigned char piece[900];
    size_t total = 0, max = 20000;
    int before = open_fds(), sv[2], full = 0;
    uv_loop_t loop;

    CHECK(outq_open(&loop, &s, max, sv) == 0);
    CHECK(kr_watch_new(&loop, sv[1], &(struct kr_watch_calls){on_pattern, NULL}, &reader, &reader.watch) == 0);
    kr_watch_want_read(reader.watch, true);
    s.close_on_drained = false;
    while (total < 400000) { /* added in two parts, while the other side reads now and then */
        size_t n = 1 + total % sizeof piece;
        int r;

        for (size_t i = 0; i < n; i++)
            piece[i] = byte_at(total + i);
        r = kr_outq_addv(s.outq, (struct iovec[]){{piece, n / 3}, {piece + n / 3, n - n / 3}}, 2);
        CHECK(r == 0 || r == -ENOBUFS);
        CHECK(kr_outq_pending(s.outq) <= max);
        if (r == 0) {
            total += n;
        } else {
            CHECK(kr_outq_pending(s.outq) + n > max); /* it really would not have fitted */
            full++;
            uv_run(&loop, UV_RUN_ONCE);
        }
    }
    CHECK(full > 10);
    s.close_on_drained = true;
    CHECK(run_to_end(&loop) && reader.total == total && !reader.wrong && !reader.watch && s.drained >= 1 && !s.watch);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

static void outq_refuses_whole_what_is_too_long(void)
{
    static char big[5001];
    struct seen s = {0};
    uv_loop_t loop;
    int sv[2];

    CHECK(outq_open(&loop, &s, 5000, sv) == 0);
    CHECK(kr_outq_add(s.outq, big, 5001) == -ENOBUFS);
    CHECK(kr_outq_addv(s.outq, (struct iovec[]){{big, 10}, {big, SIZE_MAX}}, 2) == -ENOBUFS);
    CHECK(recv(sv[1], big, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN); /* not even its beginning went out */
    CHECK(kr_outq_add(s.outq, big, 5000) == 0);                        /* and the queue goes on */
    shut(&s);                                                          /* what waits is dropped with it */
    uv_run(&loop, UV_RUN_NOWAIT);
    close(sv[1]);
    CHECK(uv_loop_close(&loop) == 0);
}

static void outq_failure_is_told_once_and_stays(void)
{
    static char bytes[100000];
    int before = open_fds(), sv[2];
    struct seen s = {0};
    uv_loop_t loop;

    CHECK(outq_open(&loop, &s, 1 << 20, sv) == 0);
    CHECK(kr_outq_add(s.outq, bytes, sizeof bytes) == 0 && kr_outq_pending(s.outq) > 0);
    close(sv[1]);
    CHECK(run_to_end(&loop) && s.failed == 1 && s.drained == 0 && (s.error == -EPIPE || s.error == -ECONNRESET));
    CHECK(kr_outq_pending(s.outq) == 0 && kr_outq_add(s.outq, "x", 1) == s.error);
    CHECK(run_to_end(&loop) && s.failed == 1);
    shut(&s);
    uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(uv_loop_close(&loop) == 0 && open_fds() == before);
}

static void outq_closed_from_its_own_failure(void)
{
    static char bytes[100000];
    struct seen s = {.close_on_failed = true};
    uv_loop_t loop;
    int p[2];

    CHECK(uv_loop_init(&loop) == 0 && pipe2(p, O_CLOEXEC) == 0);
    CHECK(kr_watch_new(&loop, p[1], &watch_calls, &s, &s.watch) == 0);
    CHECK(kr_outq_new(s.watch, 1 << 20, &outq_calls, &s, &s.outq) == 0);
    CHECK(kr_outq_add(s.outq, bytes, sizeof bytes) == 0 && kr_outq_pending(s.outq) > 0);
    close(p[0]); /* a pipe without readers: POLLERR */
    CHECK(run_to_end(&loop) && s.failed == 1 && s.error == -EPIPE && !s.watch);
    CHECK(uv_loop_close(&loop) == 0);
}

static void outq_failure_at_once_is_returned(void)
{
    struct seen s = {0};
    uv_loop_t loop;
    int sv[2];

    CHECK(outq_open(&loop, &s, 1000, sv) == 0);
    close(sv[1]);
    CHECK(kr_outq_add(s.outq, "x", 1) == -EPIPE && kr_outq_add(s.outq, "x", 1) == -EPIPE);
    CHECK(run_to_end(&loop) && s.failed == 0);
    shut(&s);
    uv_run(&loop, UV_RUN_NOWAIT);
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    RUN(timer_fires_once_and_never_early);
    RUN(timer_is_not_early_on_a_busy_loop);
    RUN(timer_is_armed_again);
    RUN(timer_disarmed_or_closed_is_silent);
    RUN(watch_reads_until_the_end);
    RUN(watch_closed_in_one_callback_skips_the_other);
    RUN(watch_writable_comes_while_wanted);
    RUN(watch_tells_an_error_through_the_read);
    RUN(watch_refuses_what_has_no_readiness);
    RUN(outq_what_fits_never_waits);
    RUN(outq_keeps_order_and_maximum);
    RUN(outq_refuses_whole_what_is_too_long);
    RUN(outq_failure_is_told_once_and_stays);
    RUN(outq_closed_from_its_own_failure);
    RUN(outq_failure_at_once_is_returned);
    CHECK_DONE();
}
