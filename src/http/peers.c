/* How many connections an address has. Called by listen.c.
 *
 * One entry per address that has any: an IPv4 address, or an IPv6 /64, which is what one host is usually given.
 * Invariant: an entry's count is the number of connections that hold it, and an entry with none is freed. */
#include "http_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define BUCKETS 4096u

struct kr_http_peer {
    struct kr_http_peer *next;
    uint64_t high, low;
    unsigned count;
};

struct kr_http_peers {
    uint64_t seeds[2]; /* so that a peer cannot choose addresses that fall into one bucket */
    struct kr_http_peer *buckets[BUCKETS];
};

int kr_http_peers_new(struct kr_http_peers **ret_peers)
{
    struct kr_http_peers *p = calloc(1, sizeof *p);

    if (!p)
        return -ENOMEM;
    if (getrandom(p->seeds, sizeof p->seeds, 0) != (ssize_t)sizeof p->seeds) {
        free(p);
        return -EIO;
    }
    *ret_peers = p;
    return 0;
}

void kr_http_peers_free(struct kr_http_peers *p)
{
    for (unsigned i = 0; p && i < BUCKETS; i++)
        while (p->buckets[i]) {
            struct kr_http_peer *next = p->buckets[i]->next;

            free(p->buckets[i]);
            p->buckets[i] = next;
        }
    free(p);
}

static struct kr_http_peer **bucket_of(struct kr_http_peers *p, uint64_t high, uint64_t low)
{
    uint64_t h = (high ^ p->seeds[0]) * 0x9e3779b97f4a7c15u;

    h = (h ^ (h >> 29) ^ low ^ p->seeds[1]) * 0xbf58476d1ce4e5b9u;
    return &p->buckets[(h >> 40) % BUCKETS];
}

struct kr_http_peer *kr_http_peer_take(struct kr_http_peers *p, const struct in6_addr *address, unsigned max)
{
    struct kr_http_peer **bucket, *peer;
    uint64_t high, low;

    memcpy(&high, address->s6_addr, 8);
    memcpy(&low, address->s6_addr + 8, 8);
    if (!IN6_IS_ADDR_V4MAPPED(address))
        low = 0;
    bucket = bucket_of(p, high, low);
    for (peer = *bucket; peer; peer = peer->next)
        if (peer->high == high && peer->low == low)
            break;
    if (!peer) {
        peer = calloc(1, sizeof *peer);
        if (!peer)
            return NULL;
        *peer = (struct kr_http_peer){.next = *bucket, .high = high, .low = low};
        *bucket = peer;
    }
    if (peer->count >= max) /* only one that was there before: max is at least 1 */
        return NULL;
    peer->count++;
    return peer;
}

void kr_http_peer_drop(struct kr_http_peers *p, struct kr_http_peer *peer)
{
    struct kr_http_peer **at;

    if (!peer || --peer->count > 0)
        return;
    for (at = bucket_of(p, peer->high, peer->low); *at != peer; at = &(*at)->next)
        ;
    *at = peer->next;
    free(peer);
}
