/* Listeners. Called by the server and by the loop.
 *
 * What connections have in common (no Nagle delay, a short unsent queue in the kernel, keep-alive probes) is set on the
 * listener, from which Linux hands it on to what is accepted. Invariant: a newcomer is either a connection or closed in
 * the same step; no shortage of descriptors or memory makes the loop spin or the listener die. */
#include "http_internal.h"
#include "err.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_PER_STEP 32u
#define BACKLOG 4096
#define REST_MS 100u /* before accepting again when there was nothing to accept with */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_storage room;
};

static struct in6_addr address_of(const union address *a)
{
    struct in6_addr r = IN6ADDR_ANY_INIT;

    if (a->any.sa_family == AF_INET6)
        return a->v6.sin6_addr;
    if (a->any.sa_family == AF_INET) {
        r.s6_addr[10] = r.s6_addr[11] = 0xff;
        memcpy(r.s6_addr + 12, &a->v4.sin_addr, 4);
    }
    return r;
}

/* ---- newcomers ---- */

/* Says why, if the socket takes it at once, and closes. */
static void turn_away(struct kr_http_server *s, int fd)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n"
                                 "Retry-After: 1\r\n\r\n";

    s->stats.refused_total++;
    (void)!send(fd, answer, sizeof answer - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    shutdown(fd, SHUT_WR);
    kr_fd_close(fd);
}

static void welcome(struct listener *l, int fd, const union address *from)
{
    struct kr_http_server *s = l->server;
    struct in6_addr address = address_of(from);
    struct kr_http_peer *peer = NULL;

    if (s->stats.connections >= s->config.connections_max) {
        turn_away(s, fd);
        return;
    }
    if (!l->is_unix) {
        peer = kr_http_peer_take(s->peers, &address, s->config.per_address_max);
        if (!peer) {
            turn_away(s, fd);
            return;
        }
    }
    if (kr_http_conn_new(s, fd, l->tag, l->is_unix, &address, peer) < 0)
        s->stats.refused_total++;
}

/* ---- shortage ---- */

static void http_listen_again(uv_timer_t *timer);

static void rest(struct kr_http_server *s)
{
    struct listener *l;

    TAILQ_FOREACH(l, &s->listeners, all)
    uv_poll_stop(&l->poll);
    uv_timer_start(&s->again_timer, http_listen_again, REST_MS, 0);
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* No descriptor is left for a newcomer, if there is one: accept(2) fails before it looks. Gives up the spare one to
 * take it and close it, so that it does not wait for nothing and the listener does not stay readable. True: try the
 * next. */
static bool shed(struct listener *l)
{
    struct kr_http_server *s = l->server;
    int fd, error;

    if (s->spare_fd < 0) {
        rest(s);
        return false;
    }
    s->spare_fd = kr_fd_close(s->spare_fd);
    fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    error = errno;
    if (fd >= 0)
        turn_away(s, fd);
    s->spare_fd = open_spare();
    if (fd < 0 && error != EAGAIN)
        rest(s);
    return fd >= 0;
}

/* What to do when accept failed; true: try the next. */
static bool after_failure(struct listener *l, int error)
{
    switch (error) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
        return shed(l);
    case ENOMEM:
    case ENOBUFS:
        rest(l->server);
        return false;
    default: /* of the newcomer, not of ours: accept(2) asks to go on */
        return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM;
    }
}

static void on_newcomers(uv_poll_t *handle, int status, int events)
{
    struct listener *l = handle->data;

    (void)status;
    (void)events;
    for (unsigned i = 0; i < ACCEPTS_PER_STEP; i++) {
        union address from = {.any.sa_family = AF_UNSPEC};
        socklen_t len = sizeof from;
        int fd = accept4(l->fd, &from.any, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0)
            welcome(l, fd, &from);
        else if (!after_failure(l, errno))
            return;
    }
}

static void http_listen_again(uv_timer_t *timer)
{
    struct kr_http_server *s = timer->data;
    struct listener *l;

    if (s->spare_fd < 0)
        s->spare_fd = open_spare();
    TAILQ_FOREACH(l, &s->listeners, all)
    uv_poll_start(&l->poll, UV_READABLE, on_newcomers);
}

/* ---- listeners ---- */

/* None of it is vital: a failure is ignored. */
static void set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] =
        {
            {IPPROTO_TCP, TCP_NODELAY, 1},
            {IPPROTO_TCP, TCP_NOTSENT_LOWAT, 131072}, /* unsent bytes wait in krait's queue, where they are counted */
            {IPPROTO_TCP, TCP_USER_TIMEOUT, 60000},   /* a peer that vanished without a word */
            {IPPROTO_TCP, TCP_KEEPIDLE, 60},
            {IPPROTO_TCP, TCP_KEEPINTVL, 15},
            {IPPROTO_TCP, TCP_KEEPCNT, 4},
            {SOL_SOCKET, SO_KEEPALIVE, 1},
        };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)!setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof options[i].value);
}

int kr_http_server_listen(struct kr_http_server *s, int fd, unsigned tag, struct kr_err *err)
{
    union address own = {.any.sa_family = AF_UNSPEC};
    socklen_t len = sizeof own;
    struct listener *l;
    int r;

    if (getsockname(fd, &own.any, &len) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "listener");
    if (own.any.sa_family != AF_UNIX)
        set_options(fd);
    if (listen(fd, BACKLOG) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "listen");
    l = calloc(1, sizeof *l);
    if (!l)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "listener");
    r = uv_poll_init(s->loop, &l->poll, fd);
    if (r < 0) {
        free(l);
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "listener");
    }
    l->poll.data = l;
    l->server = s;
    l->fd = fd;
    l->tag = tag;
    l->is_unix = own.any.sa_family == AF_UNIX;
    s->handles++;
    TAILQ_INSERT_TAIL(&s->listeners, l, all);
    if (s->spare_fd < 0)
        s->spare_fd = open_spare();
    uv_poll_start(&l->poll, UV_READABLE, on_newcomers);
    return 0;
}

static void on_uv_closed(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    struct kr_http_server *s = l->server;

    free(l);
    kr_http_server_unhandle(s);
}

void kr_http_listener_close(struct listener *l)
{
    TAILQ_REMOVE(&l->server->listeners, l, all);
    uv_close((uv_handle_t *)&l->poll, on_uv_closed);
    l->fd = kr_fd_close(l->fd);
}
