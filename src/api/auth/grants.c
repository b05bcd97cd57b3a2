/* The table of recent grants. Called by auth.c.
 *
 * Invariant: what is found here the store has said at most remember_ns ago, and kr_grants_forget() was not called
 * since. */
#include "grants.h"
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define SETS 64u /* a power of two */
#define WAYS 4u

struct row {
    unsigned char hash[crypto_generichash_BYTES];
    uint64_t until; /* 0: nothing here, or forgotten */
    uint64_t noted; /* when its use was last written down; 0: never */
    struct kr_store_grant grant;
};

struct kr_grants {
    unsigned char secret[crypto_generichash_KEYBYTES];
    uint64_t remember;
    struct row rows[SETS][WAYS];
};

int kr_grants_new(uint64_t remember_ns, struct kr_grants **ret)
{
    struct kr_grants *g = calloc(1, sizeof *g);

    if (!g || sodium_init() < 0) {
        free(g);
        return -ENOMEM;
    }
    randombytes_buf(g->secret, sizeof g->secret);
    g->remember = remember_ns;
    *ret = g;
    return 0;
}

void kr_grants_free(struct kr_grants *g)
{
    if (g)
        sodium_memzero(g, sizeof *g);
    free(g);
}

/* The set a text belongs to, and its hash. */
static const struct row *set_of(const struct kr_grants *g, const char *text, unsigned char *hash)
{
    crypto_generichash(hash, crypto_generichash_BYTES, (const unsigned char *)text, strlen(text), g->secret,
                       sizeof g->secret);
    return g->rows[hash[0] & (SETS - 1)];
}

bool kr_grants_find(const struct kr_grants *g, const char *text, uint64_t now_ns, int64_t now_us,
                    struct kr_store_grant *ret)
{
    unsigned char hash[crypto_generichash_BYTES];
    const struct row *set = set_of(g, text, hash);

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].until <= now_ns || sodium_memcmp(set[i].hash, hash, sizeof hash) != 0)
            continue;
        if (set[i].grant.expires && set[i].grant.expires <= now_us)
            return false;
        *ret = set[i].grant;
        return true;
    }
    return false;
}

bool kr_grants_keep(struct kr_grants *g, const char *text, const struct kr_store_grant *grant, uint64_t now_ns,
                    uint64_t note_ns)
{
    unsigned char hash[crypto_generichash_BYTES];
    struct row *set = (struct row *)set_of(g, text, hash), *row = set;
    uint64_t noted = 0;

    for (unsigned i = 0; i < WAYS; i++) {
        if (sodium_memcmp(set[i].hash, hash, sizeof hash) == 0) {
            row = &set[i];
            noted = row->noted;
            break;
        }
        if (set[i].until < row->until)
            row = &set[i];
    }
    memcpy(row->hash, hash, sizeof hash);
    row->until = now_ns + g->remember;
    row->grant = *grant;
    row->noted = noted && now_ns - noted < note_ns ? noted : now_ns;
    return row->noted == now_ns;
}

void kr_grants_forget(struct kr_grants *g)
{
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned k = 0; k < WAYS; k++)
            g->rows[i][k].until = 0;
}
