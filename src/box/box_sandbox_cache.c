/* Sandboxes as they were found a moment ago, so that a run in a live session starts without a look at the store.
 *
 * Called by box_runs.c for every run. Invariants: what is returned is what the store has, or had KNOWN_MS ago at
 * most if another process changed it; every change by this process is seen at once, because the store counts them.
 * What is returned is borrowed until the return to the loop. */
#include "box_internal.h"
#include "clock.h"
#include "hash.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOWN_MS 1000u
#define ENTRIES 256u /* a power of two; two sandboxes of one entry take turns */

struct entry {
    char owner[KR_STORE_ID_ROOM], key[KR_STORE_NAME_ROOM];
    uint64_t until_ns, version;
    const struct kr_profile *profile; /* limits are those of its listeners */
    struct kr_sandbox sandbox;
};

struct kr_sandbox_cache {
    struct entry entries[ENTRIES];
};

static void forget_entry(struct entry *e)
{
    kr_sandbox_done(&e->sandbox);
    memset(e, 0, sizeof *e);
}

int kr_sandbox_cache_new(struct kr_sandbox_cache **ret)
{
    *ret = calloc(1, sizeof **ret);
    return *ret ? 0 : -ENOMEM;
}

void kr_sandbox_cache_clear(struct kr_sandbox_cache *c)
{
    for (size_t i = 0; i < ENTRIES; i++)
        forget_entry(&c->entries[i]);
}

void kr_sandbox_cache_free(struct kr_sandbox_cache *c)
{
    if (!c)
        return;
    kr_sandbox_cache_clear(c);
    free(c);
}

int kr_box_sandbox_use(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_sandbox **ret,
                       struct kr_err *err)
{
    const struct kr_profile *profile = kr_box_profile(b, who);
    const char *key = id_or_name && *id_or_name ? id_or_name : KR_STORE_DEFAULT;
    uint32_t hash = kr_hash_text(kr_hash_text(KR_HASH_START, who->user), key) + (uint32_t)profile->dialect;
    struct entry *e = &b->cache->entries[hash & (ENTRIES - 1)];
    uint64_t version = kr_store_sandboxes_version(b->config.store);
    int r;

    if (e->until_ns <= kr_clock_ns() || e->version != version || strcmp(e->owner, who->user) != 0 ||
        strcmp(e->key, key) != 0 || e->profile != profile) {
        struct kr_sandbox found = {0};

        r = kr_box_sandbox_find(b, who, key, &found, err);
        if (r < 0)
            return r;
        forget_entry(e);
        e->sandbox = found;
        e->profile = profile;
        e->until_ns = kr_clock_after_ms(KNOWN_MS);
        e->version = kr_store_sandboxes_version(b->config.store); /* the default one may just have been made */
        snprintf(e->owner, sizeof e->owner, "%s", who->user);
        snprintf(e->key, sizeof e->key, "%s", key); /* a longer one cannot be a sandbox's, and was not found */
    }
    *ret = &e->sandbox;
    return 0;
}
