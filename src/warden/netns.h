/* The builder's stock of network namespaces: making one is the costliest step of a cell (0.4 ms), so those of ended
 * `none` cells are used again. Such a cell could only have had unix sockets. Those that were in flight, in a ring that
 * only the kernel's garbage collector finds, outlive its processes, each that lies in another by a tick of the clock
 * (tried: 400 of them took 4 s), and an abstract name with them. So a namespace is used again only if it has no socket;
 * one that has is dropped. A `loopback` one is never reused: ports linger in TIME_WAIT. */
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
/* Puts the calling process into a namespace for a new cell of this network kind (enum kr_net_kind). */
int kr_netns_enter(struct kr_netns_stock *s, uint32_t network, struct kr_err *err);
/* The init that inherited it, or none did. */
void kr_netns_used_by(struct kr_netns_stock *s, pid_t init, uint32_t network);
void kr_netns_unused(struct kr_netns_stock *s);
/* The init is reaped, and with it every process of its cell: the namespace may be used again. */
void kr_netns_recycle(struct kr_netns_stock *s, pid_t init);
