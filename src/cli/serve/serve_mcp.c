/* The local clients of MCP: the one on stdin and stdout of `krait mcp`, and those that join a server that is running,
 * by the socket in its data directory.
 *
 * Called by serve_app.c in the server's process. Invariants: one server at a time has a data directory's socket, and
 * the lock that says so goes with its process; a peer is root, the server's own user or the owner of the data, as the
 * kernel tells it; a client that joined acts as the local user, with no rights on the machine's files; what does not
 * say its first line in time, or properly, is let go. */
#include "engine.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include "mcp.h"
#include "mcp_join.h"
#include "serve.h"
#include "store_user.h"
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LOCK "serve.lock"
#define LOCK_TRIES 20 /* 100 ms apart: one that is just ending has a moment */
#define CLIENTS_MAX 64u
#define HELLO_MS 2000u
#define REST_MS 200u  /* when there is no descriptor for a new client, which waits meanwhile */
#define STOP_MS 1000u /* from the end of stdin to our own */
#define WAKE_MS 20u   /* from the first message to the start of zygotes: a client that only looks has gone by then */

struct client {
    TAILQ_ENTRY(client) link;
    struct kr_serve_mcp *mcp;
    struct kr_watch *watch; /* until it has said its first line */
    struct kr_timer *deadline;
    struct kr_mcp_lines *lines;
};

struct kr_serve_mcp {
    struct kr_serve *serve;
    struct kr_mcp_lines *stdio;
    struct kr_timer *last;  /* stdio: whatever is left then is left */
    struct kr_timer *waker; /* stdio: until the zygotes are started */
    struct kr_timer *rest;  /* until newcomers are looked at again */
    int data, lock, socket; /* -1: none */
    dev_t device;           /* of our socket's name: another's is not removed */
    ino_t inode;
    struct kr_watch *watch;
    TAILQ_HEAD(, client) clients;
    unsigned count;
};

static const struct kr_caller local_user = {.user = "root", .rights = KR_RIGHT_ALL, .address = "", .request = ""};

/* ---- stdin and stdout ---- */

static void on_last(void *data)
{
    uv_stop(&((struct kr_serve *)data)->loop);
}

/* The client is gone. Nothing is left to answer, so runs get no grace. */
static void on_stdio_closed(void *data)
{
    struct kr_serve_mcp *m = data;

    kr_mcp_lines_close(m->stdio);
    m->stdio = NULL;
    kr_timer_arm(m->last, STOP_MS);
    kr_serve_stop(m->serve, 0);
}

/* Runs will follow: the client need not wait for the imports then. */
static void on_stdio_first(void *data)
{
    kr_timer_arm(((struct kr_serve_mcp *)data)->waker, WAKE_MS);
}

static void on_waker(void *data)
{
    struct kr_serve_mcp *m = data;

    if (m->stdio)
        kr_engine_wake(m->serve->engine);
}

static int open_stdio(struct kr_serve_mcp *m, struct kr_err *err)
{
    struct kr_serve *s = m->serve;
    struct kr_mcp_lines_spec spec = {.loop = &s->loop,
                                     .in = s->in,
                                     .out = s->out,
                                     .who = &local_user,
                                     .dialect = (enum kr_dialect)s->config->dialect,
                                     .structured = s->config->mcp.structured,
                                     .local = true,
                                     .on_closed = on_stdio_closed,
                                     .on_first = on_stdio_first,
                                     .data = m};
    int r = kr_timer_new(&s->loop, on_last, s, &m->last);

    if (r >= 0)
        r = kr_timer_new(&s->loop, on_waker, m, &m->waker);
    if (r >= 0)
        r = kr_mcp_lines_open(s->mcp, &spec, &m->stdio);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "stdin and stdout") : 0;
}

/* ---- the socket ---- */

static int take_lock(struct kr_serve_mcp *m, const char *data, struct kr_err *err)
{
    struct timespec moment = {.tv_nsec = 100000000};

    m->lock = openat(m->data, LOCK, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (m->lock < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "lock the data directory %s", data);
    for (int tries = 0; flock(m->lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; tries++) {
        if (tries == LOCK_TRIES)
            return kr_err_set(err, KR_ERR_CONFLICT, 0, "another krait serves the data directory %s (--data)", data);
        nanosleep(&moment, NULL);
    }
    return 0;
}

/* We have the lock, so a socket that is there was left behind. */
static int bind_socket(struct kr_serve_mcp *m, struct kr_err *err)
{
    struct sockaddr_un address;
    struct stat st;

    kr_join_address(m->data, &address);
    m->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->socket < 0 || (unlinkat(m->data, KR_JOIN_SOCKET, 0) < 0 && errno != ENOENT))
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the socket of the data directory");
    /* 0600 before a client can connect, which is after listen(2). */
    if (bind(m->socket, (struct sockaddr *)&address, sizeof address) < 0 ||
        fchmodat(m->data, KR_JOIN_SOCKET, 0600, 0) < 0 || fstatat(m->data, KR_JOIN_SOCKET, &st, 0) < 0 ||
        listen(m->socket, 16) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the socket of the data directory");
    m->device = st.st_dev;
    m->inode = st.st_ino;
    return 0;
}

int kr_serve_mcp_bind(struct kr_serve *s, struct kr_err *err)
{
    struct kr_serve_mcp *m = calloc(1, sizeof *m);
    int r;

    if (!m)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "MCP");
    s->local = m;
    m->serve = s;
    m->data = m->lock = m->socket = -1;
    TAILQ_INIT(&m->clients);
    if (s->stdio)
        return 0;
    m->data = open(s->config->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->data < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the data directory %s", s->config->data);
    r = take_lock(m, s->config->data, err);
    return r < 0 ? r : bind_socket(m, err);
}

/* ---- those who join ---- */

static void client_free(struct client *c)
{
    TAILQ_REMOVE(&c->mcp->clients, c, link);
    c->mcp->count--;
    kr_watch_close(c->watch);
    kr_timer_close(c->deadline);
    kr_mcp_lines_close(c->lines);
    free(c);
}

static void on_client_gone(void *data)
{
    client_free(data);
}

/* The dialect and shape that the client asks for. False: the line is something else. */
static bool read_greeting(const char *line, size_t len, struct kr_mcp_lines_spec *spec)
{
    json_t *root = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const char *name = NULL;
    int structured = 0, version = 0, dialect = 0;
    bool good = root && json_unpack(root, "{s:{s:i,s:s,s:b}}", "krait", "version", &version, "dialect", &name,
                                    "structured", &structured) == 0;

    if (good && version == KR_JOIN_VERSION && (dialect = kr_dialect_find(name)) >= 0) {
        spec->dialect = (enum kr_dialect)dialect;
        spec->structured = structured;
    } else {
        good = false;
    }
    json_decref(root);
    return good;
}

/* Its first line is ours, and comes in one piece; what follows it is MCP and stays where it is. */
static void on_client_speaks(void *data)
{
    struct client *c = data;
    struct kr_serve *s = c->mcp->serve;
    struct kr_mcp_lines_spec spec = {.loop = &s->loop, .who = &local_user, .on_closed = on_client_gone, .data = c};
    char line[KR_JOIN_LINE_MAX];
    int fd = kr_watch_fd(c->watch);
    ssize_t n = recv(fd, line, sizeof line, MSG_PEEK | MSG_DONTWAIT);
    const char *end = n > 0 ? memchr(line, '\n', (size_t)n) : NULL;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!end || !read_greeting(line, (size_t)(end - line), &spec) ||
        recv(fd, line, (size_t)(end - line) + 1, MSG_DONTWAIT) != end - line + 1 ||
        send(fd, KR_JOIN_WELCOME, sizeof KR_JOIN_WELCOME - 1, MSG_NOSIGNAL) != sizeof KR_JOIN_WELCOME - 1) {
        client_free(c);
        return;
    }
    kr_timer_close(steal_ptr(&c->deadline));
    spec.in = spec.out = kr_watch_release(steal_ptr(&c->watch));
    if (kr_mcp_lines_open(s->mcp, &spec, &c->lines) < 0) {
        kr_fd_close(spec.in);
        client_free(c);
    }
}

static bool may_join(const struct kr_serve_mcp *m, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    struct stat st;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || fstat(m->data, &st) < 0)
        return false;
    if (peer.uid == 0 || peer.uid == geteuid() || peer.uid == st.st_uid)
        return true;
    kr_log(KR_LOG_WARN, "a stranger tried to join by the data directory's socket", "uid=%u pid=%d", peer.uid,
           (int)peer.pid);
    return false;
}

static void on_connection(void *data)
{
    static const struct kr_watch_calls calls = {.on_readable = on_client_speaks};
    struct kr_serve_mcp *m = data;
    cleanup_fd int fd = accept4(m->socket, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct client *c;

    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
        kr_watch_want_read(m->watch, false); /* it would be reported again and again */
        kr_timer_arm(m->rest, REST_MS);
        return;
    }
    if (fd < 0 || m->count >= CLIENTS_MAX || m->serve->stopping || !may_join(m, fd) || !(c = calloc(1, sizeof *c)))
        return; /* closed: it starts an engine of its own */
    c->mcp = m;
    TAILQ_INSERT_TAIL(&m->clients, c, link);
    m->count++;
    if (kr_timer_new(&m->serve->loop, on_client_gone, c, &c->deadline) < 0 ||
        kr_watch_new(&m->serve->loop, fd, &calls, c, &c->watch) < 0) {
        client_free(c);
        return;
    }
    (void)steal_fd(&fd);
    kr_timer_arm(c->deadline, HELLO_MS);
    kr_watch_want_read(c->watch, true);
}

static void on_rested(void *data)
{
    struct kr_serve_mcp *m = data;

    if (!m->serve->stopping)
        kr_watch_want_read(m->watch, true);
}

/* ---- life ---- */

int kr_serve_mcp_open(struct kr_serve *s, struct kr_err *err)
{
    static const struct kr_watch_calls calls = {.on_readable = on_connection};
    struct kr_serve_mcp *m = s->local;
    int r;

    if (s->stdio)
        return open_stdio(m, err);
    r = kr_timer_new(&s->loop, on_rested, m, &m->rest);
    if (r >= 0)
        r = kr_watch_new(&s->loop, m->socket, &calls, m, &m->watch);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the socket of the data directory");
    kr_watch_want_read(m->watch, true);
    return 0;
}

void kr_serve_mcp_stop(struct kr_serve *s)
{
    struct kr_serve_mcp *m = s->local;
    struct stat st;

    if (m && m->socket >= 0 && fstatat(m->data, KR_JOIN_SOCKET, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_ino == m->inode && st.st_dev == m->device)
        (void)unlinkat(m->data, KR_JOIN_SOCKET, 0);
    if (m && m->watch)
        kr_watch_want_read(m->watch, false);
}

void kr_serve_mcp_close(struct kr_serve *s)
{
    struct kr_serve_mcp *m = s->local;
    struct client *c;

    if (!m)
        return;
    kr_serve_mcp_stop(s);
    while ((c = TAILQ_FIRST(&m->clients)))
        client_free(c);
    kr_mcp_lines_close(m->stdio);
    kr_timer_close(m->last);
    kr_timer_close(m->waker);
    kr_timer_close(m->rest);
    if (m->watch)
        kr_watch_close(m->watch);
    else
        kr_fd_close(m->socket);
    kr_fd_close(m->lock);
    kr_fd_close(m->data);
    free(m);
    s->local = NULL;
}
