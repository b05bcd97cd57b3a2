/* The builder's stock of network namespaces: making one is the costliest step of a cell (0.4 ms), so those of ended
 * `none` cells are used again. Such a cell could only have had unix sockets. Those that were in flight, in a ring that
 * only the kernel's garbage collector finds, outlive its processes, each that lies in another by a tick of the clock
 * (tried: 400 of them took 4 s), and an abstract name with them. So a namespace is used again only if it has no socket;
 * one that has is dropped. One with TCP is never reused: ports linger in TIME_WAIT.
 *
 * Where the network rule goes beyond `loopback` the namespace is one of `loopback` with one thing more: a socket that
 * listens on 127.0.0.1:KR_EGRESS_PORT. It is bound before the first process of the cell exists and closed in each of
 * them, so none can have the port or the socket. There is no interface but lo and no route: what the cell's code
 * reaches is what the egress process connects it to. */
#pragma once
#include "err.h"
#include <stdint.h>
#include <sys/types.h>

#define KR_NETNS_FREE_MAX 64

struct kr_netns_use {
    pid_t init;
    int fd;
};
struct kr_netns_stock {
    int free[KR_NETNS_FREE_MAX];
    unsigned free_count;
    struct kr_netns_use *used;
    unsigned used_count, used_cap;
    int current; /* the one we are in, about to be inherited by an init */
};

void kr_netns_init(struct kr_netns_stock *s);
/* Puts the calling process into a namespace for a new cell of this network kind (enum kr_net_kind). *ret_listener is
 * the caller's: -1 unless the kind has one. */
int kr_netns_enter(struct kr_netns_stock *s, uint32_t network, int *ret_listener, struct kr_err *err);
/* The init that inherited it, or none did. */
void kr_netns_used_by(struct kr_netns_stock *s, pid_t init, uint32_t network);
void kr_netns_unused(struct kr_netns_stock *s);
/* The init is reaped, and with it every process of its cell: the namespace may be used again. */
void kr_netns_recycle(struct kr_netns_stock *s, pid_t init);
