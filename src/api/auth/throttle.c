/* Throttling of failures, by one time per key (the "generic cell rate algorithm"): `owed` is when the account will be
 * even again. A failure adds an interval to it; an attempt is refused while it is more than burst - 1 intervals ahead.
 *
 * Called by auth.c for addresses and by login_routes.c for names. Invariant: a row whose time is past stands for a key
 * that owes nothing, so rows need no sweeping. */
#include "throttle.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETS 512u /* a power of two */
#define WAYS 8u

struct row {
    uint64_t key;  /* hash of the text */
    uint64_t owed; /* 0: never used */
};

struct kr_throttle {
    unsigned char secret[crypto_shorthash_KEYBYTES]; /* a client cannot choose which addresses share a set */
    uint64_t interval, allowance;
    struct row rows[SETS][WAYS];
};

int kr_throttle_new(unsigned burst, uint64_t interval_ns, struct kr_throttle **ret)
{
    struct kr_throttle *t = calloc(1, sizeof *t);

    if (!t || sodium_init() < 0) {
        free(t);
        return -ENOMEM;
    }
    randombytes_buf(t->secret, sizeof t->secret);
    t->interval = interval_ns;
    t->allowance = (burst > 0 ? burst - 1 : 0) * interval_ns;
    *ret = t;
    return 0;
}

void kr_throttle_free(struct kr_throttle *t)
{
    free(t);
}

static uint64_t hash_of(const struct kr_throttle *t, const char *key)
{
    uint64_t h;

    static_assert(sizeof h == crypto_shorthash_BYTES, "SipHash gives 64 bits");
    crypto_shorthash((unsigned char *)&h, (const unsigned char *)key, strlen(key), t->secret);
    return h;
}

static struct row *find_throttled(const struct kr_throttle *t, uint64_t h)
{
    const struct row *set = t->rows[h & (SETS - 1)];

    for (unsigned i = 0; i < WAYS; i++)
        if (set[i].owed && set[i].key == h)
            return (struct row *)&set[i];
    return NULL;
}

static uint64_t wait_of(const struct kr_throttle *t, const struct row *row, uint64_t now)
{
    uint64_t ahead = row && row->owed > now ? row->owed - now : 0;

    return ahead > t->allowance ? ahead - t->allowance : 0;
}

uint64_t kr_throttle_wait(const struct kr_throttle *t, const char *key, uint64_t now_ns)
{
    return wait_of(t, find_throttled(t, hash_of(t, key)), now_ns);
}

uint64_t kr_throttle_fail(struct kr_throttle *t, const char *key, uint64_t now_ns)
{
    uint64_t h = hash_of(t, key), start;
    struct row *row = find_throttled(t, h);

    if (!row) {
        row = t->rows[h & (SETS - 1)];
        for (struct row *other = row + 1; other < t->rows[h & (SETS - 1)] + WAYS; other++)
            if (other->owed < row->owed)
                row = other;
        *row = (struct row){.key = h};
    }
    start = row->owed > now_ns ? row->owed : now_ns;
    row->owed = start + t->interval;
    /* Attempts that were already on their way when it was throttled do not add up to hours. */
    if (row->owed - now_ns > t->allowance + 2 * t->interval)
        row->owed = now_ns + t->allowance + 2 * t->interval;
    return wait_of(t, row, now_ns);
}

const char *kr_throttle_network(const char *address, char buf[KR_THROTTLE_KEY_ROOM])
{
    struct in6_addr v6;

    if (inet_pton(AF_INET6, address, &v6) == 1) {
        memset(&v6.s6_addr[8], 0, 8);
        if (inet_ntop(AF_INET6, &v6, buf, KR_THROTTLE_KEY_ROOM))
            return buf;
    }
    snprintf(buf, KR_THROTTLE_KEY_ROOM, "%s", address);
    return buf;
}
