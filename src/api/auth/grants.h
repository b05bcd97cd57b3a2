/* Recent verdicts of the store about keys: a small, fixed table, so that one request asks the store once and a client
 * with many requests seldom. Only good verdicts are kept, under a keyed hash of the text. */
#pragma once
#include "store_key.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_grants;

/* 0 or -ENOMEM. */
int kr_grants_new(uint64_t remember_ns, struct kr_grants **ret);
void kr_grants_free(struct kr_grants *g);
/* The grant of that text, if it was remembered less than remember_ns ago and its key has not run out since. */
bool kr_grants_find(const struct kr_grants *g, const char *text, uint64_t now_ns, int64_t now_us,
                    struct kr_store_grant *ret);
/* Remembers it; the row nearest to its end makes room. True if no row said within `note_ns` that this key is used: the
 * caller notes it. */
bool kr_grants_keep(struct kr_grants *g, const char *text, const struct kr_store_grant *grant, uint64_t now_ns,
                    uint64_t note_ns);
/* Nothing is remembered any more; when the use of keys was noted still is. */
void kr_grants_forget(struct kr_grants *g);
