/* The session's stdout, stderr and stdin.
 *
 * Called from the loop, and by session.c and session_wire.c. Invariants: both output pipes are read whenever the
 * session is not paused, also between runs; bytes go to the current run, or to the session's account of output between
 * runs; a read never waits. A session that writes crumbs without a pause is read in batches, REST_MS apart: a wake-up
 * for each would take the loop's time from other sessions. */
#include "engine_internal.h"
#include "clock.h"
#include "fd.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHUNK 65536u
#define CRUMB (CHUNK / 4)
#define CRUMBS_MAX 16u
#define CRUMB_NS 500000u  /* two that are further apart do not follow each other at once */
#define CALM_NS 50000000u /* and after so long all is forgotten */
#define REST_MS 1u
#define LAST_BYTES_MAX (16u << 20) /* of a session that is gone; what its daemons wrote in their last milliseconds */

static void feed_output(struct kr_session *s, enum kr_stream stream, const char *data, size_t len)
{
    if (s->run)
        kr_output_feed(&s->run->output, stream, data, len);
    else
        kr_output_feed(&s->between, stream, data, len);
}

/* Reads at most max bytes. Bytes, 0 none now, -ENODATA at the end (the watch is closed then). */
static ssize_t read_pipe(struct kr_session *s, enum kr_stream stream, size_t max)
{
    static char chunk[CHUNK]; /* one loop thread: one user */
    ssize_t n;

    if (!s->pipes[stream])
        return -ENODATA;
    do
        n = read(kr_watch_fd(s->pipes[stream]), chunk, max < sizeof chunk ? max : sizeof chunk);
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0) {
        kr_watch_close(steal_ptr(&s->pipes[stream]));
        return -ENODATA;
    }
    feed_output(s, stream, chunk, (size_t)n);
    return n;
}

static void want_output(struct kr_session *s, bool wanted)
{
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        if (s->pipes[i])
            kr_watch_want_read(s->pipes[i], wanted);
}

static void on_rest_over(void *data)
{
    struct kr_session *s = data;

    s->read_ns = kr_clock_ns();
    want_output(s, !s->paused);
}

/* A session that goes on writing crumbs has a rest after each read; the others pay a look at the clock. Python waits
 * at each change of stream until the stream before is read: that is no flood, and a rest would only delay it. */
static void mind_crumbs(struct kr_session *s, enum kr_stream stream, ssize_t n)
{
    uint64_t now = kr_clock_ns(), since = now - s->read_ns;

    if (n >= (ssize_t)CRUMB || since > CALM_NS || stream != s->read_stream)
        s->crumbs = 0;
    else if (since < CRUMB_NS)
        s->crumbs++;
    else if (s->crumbs > 0) /* a pause, or it had no processor meanwhile */
        s->crumbs--;
    s->read_ns = now;
    s->read_stream = stream;
    if (s->crumbs < CRUMBS_MAX || (!s->rest && kr_timer_new(s->engine->loop, on_rest_over, s, &s->rest) < 0))
        return;
    s->crumbs = CRUMBS_MAX - 1;
    want_output(s, false);
    kr_timer_arm(s->rest, REST_MS);
}

void kr_session_calm(struct kr_session *s)
{
    s->crumbs = 0;
    if (!s->rest || !kr_timer_armed(s->rest))
        return;
    kr_timer_disarm(s->rest);
    want_output(s, !s->paused);
}

/* A frame that was sent before these bytes were written is in the channel by now, and comes first. */
static void on_pipe_readable(struct kr_session *s, enum kr_stream stream)
{
    ssize_t n = kr_session_read_channel(s) ? read_pipe(s, stream, CHUNK) : 0;

    if (n > 0)
        mind_crumbs(s, stream, n);
}

static void on_stdout_readable(void *data)
{
    on_pipe_readable(data, KR_STREAM_STDOUT);
}

static void on_stderr_readable(void *data)
{
    on_pipe_readable(data, KR_STREAM_STDERR);
}

void kr_session_drain(struct kr_session *s)
{
    /* What came before the frame is in the pipes now. A thread may go on writing for ever, so the amount is fixed
     * first. */
    for (int i = 0; i < KR_STREAM_MAX_; i++) {
        int there = 0;

        if (!s->pipes[i] || ioctl(kr_watch_fd(s->pipes[i]), FIONREAD, &there) < 0)
            continue;
        while (there > 0) {
            ssize_t n = read_pipe(s, (enum kr_stream)i, (size_t)there);

            if (n <= 0)
                break;
            there -= (int)n;
        }
    }
}

void kr_session_last_bytes(struct kr_session *s)
{
    for (int i = 0; i < KR_STREAM_MAX_; i++) {
        size_t sum = 0;
        ssize_t n;

        while (sum < LAST_BYTES_MAX && (n = read_pipe(s, (enum kr_stream)i, CHUNK)) > 0)
            sum += (size_t)n;
    }
}

void kr_session_pause(struct kr_session *s, bool paused)
{
    s->paused = paused;
    want_output(s, !paused && !(s->rest && kr_timer_armed(s->rest)));
}

/* ---- stdin ---- */

static void close_stdin(struct kr_session *s)
{
    kr_watch_close(steal_ptr(&s->in));
    s->in_out = NULL;
}

static void on_stdin_drained(void *data)
{
    struct kr_session *s = data;

    if (s->in_ends)
        close_stdin(s);
    else if (s->handed_out && s->calls.on_stdin_drained)
        s->calls.on_stdin_drained(s->data, s);
}

static void on_stdin_failed(void *data, int error)
{
    struct kr_session *s = data;

    close_stdin(s);
    if (s->handed_out && s->calls.on_stdin_failed)
        s->calls.on_stdin_failed(s->data, s, error);
}

int kr_session_stdin_write(struct kr_session *s, const void *data, size_t len)
{
    return s->in_out ? kr_outq_add(s->in_out, data, len) : -EPIPE;
}

size_t kr_session_stdin_pending(const struct kr_session *s)
{
    return s->in_out ? kr_outq_pending(s->in_out) : 0;
}

void kr_session_stdin_close(struct kr_session *s)
{
    s->in_ends = true;
    if (s->in_out && kr_outq_pending(s->in_out) == 0)
        close_stdin(s);
}

/* ---- life ---- */

int kr_session_take_pipes(struct kr_session *s, int *fds, unsigned count)
{
    static const struct kr_watch_calls pipe_calls[] = {{.on_readable = on_stdout_readable},
                                                       {.on_readable = on_stderr_readable}};
    static const struct kr_watch_calls in_calls = {0};
    static const struct kr_outq_calls out_calls = {on_stdin_drained, on_stdin_failed};
    int r;

    for (int i = 0; i < KR_STREAM_MAX_; i++) {
        r = kr_watch_new(s->engine->loop, fds[i], &pipe_calls[i], s, &s->pipes[i]);
        if (r < 0)
            return r;
        fds[i] = -1;
        kr_watch_want_read(s->pipes[i], true);
    }
    if (count == KR_STREAM_MAX_)
        return 0;
    r = kr_watch_new(s->engine->loop, fds[KR_STREAM_MAX_], &in_calls, s, &s->in);
    if (r < 0)
        return r;
    fds[KR_STREAM_MAX_] = -1;
    return kr_outq_new(s->in, KR_SESSION_STDIN_MAX, &out_calls, s, &s->in_out);
}

void kr_session_close_pipes(struct kr_session *s)
{
    kr_watch_close(steal_ptr(&s->channel));
    s->channel_out = NULL;
    for (int i = 0; i < KR_STREAM_MAX_; i++)
        kr_watch_close(steal_ptr(&s->pipes[i]));
    close_stdin(s);
}
