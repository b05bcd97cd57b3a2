/* Standard streams on the loop.
 *
 * Called by run_app.c. The descriptors are shared with a shell, a pager, other programs: O_NONBLOCK
 * set on them would be seen by all. So a pipe or a terminal is opened anew through /proc/self/fd, which gives an open
 * file of our own. What cannot be opened anew is watched as it is and put back as it was; what has no readiness (a
 * regular file, /dev/null) is read and written right away. Invariant: no call here waits for a pipe, a socket or a
 * terminal. */
#include "streams.h"
#include "fd.h"
#include "loop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK 65536u

static int opened_before[3] = {-1, -1, -1}; /* by the user who started us, for an engine that is another */

/* An open file of our own of a pipe or a terminal; -1 if there is none to be had. */
static int open_anew(int shared, int access)
{
    char path[32];
    struct stat st;

    snprintf(path, sizeof path, "/proc/self/fd/%d", shared);
    if (fstat(shared, &st) < 0 || !(S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)))
        return -1;
    return open(path, access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void kr_streams_open(void)
{
    for (int fd = 0; fd < 3; fd++)
        opened_before[fd] = open_anew(fd, fd == 0 ? O_RDONLY : O_WRONLY);
}

void kr_streams_forget(void)
{
    for (int fd = 0; fd < 3; fd++)
        opened_before[fd] = kr_fd_close(opened_before[fd]);
}

/* A descriptor to be watched. *ret_flags is what to put back on `shared` in the end, -1 if nothing. */
static int open_own(int shared, int access, int *ret_flags)
{
    int fd = shared < 3 && opened_before[shared] >= 0 ? steal_fd(&opened_before[shared]) : open_anew(shared, access);

    *ret_flags = -1;
    if (fd >= 0)
        return fd;
    *ret_flags = fcntl(shared, F_GETFL);
    return fcntl(shared, F_DUPFD_CLOEXEC, 3);
}

static void put_back(int shared, int flags)
{
    if (flags >= 0)
        (void)fcntl(shared, F_SETFL, flags);
}

/* ---- output ---- */

struct kr_sink {
    int fd, flags;
    struct kr_watch *watch; /* NULL: written right away */
    struct kr_outq *outq;
    struct kr_timer *teller; /* reports a failure from the loop */
    int error;
    struct kr_sink_calls calls;
    void *data;
};

static void on_teller(void *data)
{
    struct kr_sink *s = data;

    s->calls.on_failed(s->data, s->error);
}

static void fail_stream(struct kr_sink *s, int error)
{
    if (s->error)
        return;
    s->error = error;
    kr_timer_arm(s->teller, 0);
}

static void on_outq_drained(void *data)
{
    struct kr_sink *s = data;

    s->calls.on_drained(s->data);
}

static void on_outq_failed(void *data, int error)
{
    fail_stream(data, error);
}

int kr_sink_new(struct uv_loop_s *loop, int fd, size_t max, const struct kr_sink_calls *calls, void *data,
                struct kr_sink **ret_sink)
{
    static const struct kr_watch_calls watch_calls = {0};
    static const struct kr_outq_calls outq_calls = {on_outq_drained, on_outq_failed};
    cleanup_fd int own = -1;
    struct kr_sink *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->fd = fd;
    s->calls = *calls;
    s->data = data;
    s->flags = -1;
    r = kr_timer_new(loop, on_teller, s, &s->teller);
    own = open_own(fd, O_WRONLY, &s->flags);
    if (r >= 0 && own >= 0 && kr_watch_new(loop, own, &watch_calls, s, &s->watch) >= 0) {
        (void)steal_fd(&own);
        r = kr_outq_new(s->watch, max, &outq_calls, s, &s->outq);
    } else {
        s->flags = -1; /* nothing was changed */
    }
    if (r < 0) {
        kr_sink_close(s);
        return r;
    }
    *ret_sink = s;
    return 0;
}

void kr_sink_close(struct kr_sink *s)
{
    if (!s)
        return;
    kr_watch_close(s->watch);
    kr_timer_close(s->teller);
    put_back(s->fd, s->flags);
    free(s);
}

int kr_sink_write(struct kr_sink *s, const void *data, size_t len)
{
    int r;

    if (s->error)
        return 0;
    r = s->outq ? kr_outq_add(s->outq, data, len) : kr_fd_write_all(s->fd, data, len);
    if (r == -ENOBUFS)
        return r;
    if (r < 0)
        fail_stream(s, r);
    return 0;
}

size_t kr_sink_pending(const struct kr_sink *s)
{
    return s->outq && !s->error ? kr_outq_pending(s->outq) : 0;
}

/* ---- input ---- */

struct kr_source {
    int fd, flags;
    struct kr_watch *watch; /* NULL: read right away */
    struct kr_timer *turn;  /* the next read of what is read right away */
    bool flowing, ended;
    struct kr_source_calls calls;
    void *data;
};

static void read_once(struct kr_source *s)
{
    static char chunk[CHUNK]; /* one loop thread: one user */
    ssize_t n;

    do
        n = read(s->watch ? kr_watch_fd(s->watch) : s->fd, chunk, sizeof chunk);
    while (n < 0 && errno == EINTR);
    if (n > 0) {
        s->calls.on_data(s->data, chunk, (size_t)n);
        return;
    }
    if (n < 0 && errno == EAGAIN)
        return;
    s->ended = true;
    kr_source_flow(s, false);
    s->calls.on_end(s->data);
}

static void on_stream_readable(void *data)
{
    read_once(data);
}

/* A regular file: one chunk a turn of the loop. */
static void on_turn(void *data)
{
    struct kr_source *s = data;

    read_once(s);
    if (s->flowing && !s->ended)
        kr_timer_arm(s->turn, 0);
}

int kr_source_new(struct uv_loop_s *loop, int fd, const struct kr_source_calls *calls, void *data,
                  struct kr_source **ret_source)
{
    static const struct kr_watch_calls watch_calls = {.on_readable = on_stream_readable};
    cleanup_fd int own = -1;
    struct kr_source *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return -ENOMEM;
    s->fd = fd;
    s->calls = *calls;
    s->data = data;
    own = open_own(fd, O_RDONLY, &s->flags);
    if (own >= 0 && kr_watch_new(loop, own, &watch_calls, s, &s->watch) >= 0)
        (void)steal_fd(&own);
    else
        s->flags = -1;
    r = s->watch ? 0 : kr_timer_new(loop, on_turn, s, &s->turn);
    if (r < 0) {
        free(s);
        return r;
    }
    *ret_source = s;
    return 0;
}

void kr_source_flow(struct kr_source *s, bool flow)
{
    flow = flow && !s->ended;
    if (flow == s->flowing)
        return;
    s->flowing = flow;
    if (s->watch)
        kr_watch_want_read(s->watch, flow);
    else if (flow)
        kr_timer_arm(s->turn, 0);
    else
        kr_timer_disarm(s->turn);
}

void kr_source_close(struct kr_source *s)
{
    if (!s)
        return;
    kr_watch_close(s->watch);
    kr_timer_close(s->turn);
    put_back(s->fd, s->flags);
    free(s);
}
