/* Network namespaces for cells. Called only by the builder, which owns them through the zygote's user namespace. */
#include "netns.h"
#include "fd.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128 /* connections that wait to be accepted; beyond it the kernel lets them wait longer */

void kr_netns_init(struct kr_netns_stock *s)
{
    memset(s, 0, sizeof *s);
    s->current = -1;
}

static int raise_loopback(struct kr_err *err)
{
    struct ifreq req = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &req) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "raise lo");
    return 0;
}

/* Without SO_REUSEADDR and SO_REUSEPORT: no socket of the cell can be bound beside it, to this address or to all. */
static int open_listener(struct kr_err *err)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(KR_EGRESS_PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, BACKLOG) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "listen on 127.0.0.1:%d of a cell", KR_EGRESS_PORT);
    return steal_fd(&fd);
}

static int enter_new(struct kr_netns_stock *s, struct kr_err *err)
{
    if (unshare(CLONE_NEWNET) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make a network namespace");
    s->current = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    /* Where there is no /proc it cannot be named again, so it is simply not recycled. */
    return 0;
}

/* Is there no unix socket in the namespace that we are in? The file is one line of headings then. A list that cannot be
 * read is not an empty one. */
static int has_no_socket(void)
{
    char text[256];
    ssize_t n = kr_fd_read_file_at(AT_FDCWD, "/proc/self/net/unix", text, sizeof text);
    return n > 0 && strchr(text, '\n') == text + n - 1;
}

/* The oldest that is free, so that what a dead cell has left had time to go. 1: entered; 0: there is none. */
static int enter_free(struct kr_netns_stock *s, struct kr_err *err)
{
    while (s->free_count > 0) {
        s->current = s->free[0];
        memmove(s->free, s->free + 1, --s->free_count * sizeof *s->free);
        if (setns(s->current, CLONE_NEWNET) < 0) {
            int r = kr_err_set(err, KR_ERR_SYSTEM, errno, "enter a network namespace");
            s->current = kr_fd_close(s->current);
            return r;
        }
        if (has_no_socket())
            return 1;
        s->current = kr_fd_close(s->current); /* it goes with its last socket; we are in the next one before */
    }
    return 0;
}

int kr_netns_enter(struct kr_netns_stock *s, uint32_t network, int *ret_listener, struct kr_err *err)
{
    int listener = -1, r = network == KR_NET_NONE ? enter_free(s, err) : 0;
    *ret_listener = -1;
    if (r != 0)
        return r < 0 ? r : 0;
    if ((r = enter_new(s, err)) < 0)
        return r;
    if (network >= KR_NET_LOOPBACK)
        r = raise_loopback(err);
    if (r >= 0 && network >= KR_NET_EGRESS_MIN_)
        r = listener = open_listener(err);
    if (r < 0) {
        s->current = kr_fd_close(s->current);
        return r;
    }
    *ret_listener = listener;
    return 0;
}

void kr_netns_unused(struct kr_netns_stock *s)
{
    s->current = kr_fd_close(s->current);
}

void kr_netns_used_by(struct kr_netns_stock *s, pid_t init, uint32_t network)
{
    if (network == KR_NET_NONE && s->current >= 0 && s->used_count == s->used_cap) {
        unsigned cap = s->used_cap == 0 ? 64 : 2 * s->used_cap;
        struct kr_netns_use *used = realloc(s->used, cap * sizeof *used);
        if (used) {
            s->used = used;
            s->used_cap = cap;
        }
    }
    if (network != KR_NET_NONE || s->current < 0 || s->used_count == s->used_cap) {
        kr_netns_unused(s);
        return;
    }
    s->used[s->used_count++] = (struct kr_netns_use){init, s->current};
    s->current = -1;
}

void kr_netns_recycle(struct kr_netns_stock *s, pid_t init)
{
    for (unsigned i = 0; i < s->used_count; i++) {
        if (s->used[i].init != init)
            continue;
        if (s->free_count < KR_NETNS_FREE_MAX)
            s->free[s->free_count++] = s->used[i].fd;
        else
            close(s->used[i].fd);
        s->used[i] = s->used[--s->used_count];
        return;
    }
}
