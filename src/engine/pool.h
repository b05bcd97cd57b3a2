/* Parked sessions: forked, warmed up, waiting for a workspace, limits and code. One pool for each key. */
#pragma once
#include "err.h"
#include "policy.h"
#include "proto.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_engine;
struct kr_holder;
struct kr_pool;
struct kr_session;
struct kr_session_spec;

#define KR_POOL_OWNERS_MAX 8u /* owners with a parked session beside their others, in each pool */

/* Isolation tiers, of which there is one so far. */
enum kr_tier { KR_TIER_CELL, KR_TIER_MAX_ };

/* Everything that a parked session has fixed. It is handed over only to an open of the same key. */
struct kr_pool_key {
    const struct kr_holder *holder; /* the runtime */
    uint32_t zygote;                /* interpreter and preload */
    enum kr_net_kind network;
    enum kr_policy policy;
    enum kr_tier tier;
};

/* The key of a session of this spec. */
struct kr_pool_key kr_pool_key_of(const struct kr_engine *e, const struct kr_session_spec *spec);

/* Adds a pool to the engine, of `size` parked sessions, and up to `most` where there is demand for them. 0 or -errno.
 * Nothing is made before kr_pools_refill(). */
int kr_pool_add(struct kr_engine *e, const struct kr_pool_key *key, uint32_t size, uint32_t most);
/* The pool of this key, or NULL. */
struct kr_pool *kr_pool_find(const struct kr_engine *e, const struct kr_pool_key *key);
/* The session that has been parked longest, or for an owner that joins its sessions the one that is parked beside them,
 * or NULL; it is the caller's, who calls kr_pool_taken() when the hand-over is done. */
struct kr_session *kr_pool_take(struct kr_pool *p, const struct kr_session_spec *spec);
/* Where none is parked: the one that is being made, or NULL. It comes sooner than one that is begun now; it is the
 * caller's, and is started when it has said that it is ready. */
struct kr_session *kr_pool_take_unfinished(struct kr_pool *p, const struct kr_session_spec *spec);
/* A session was handed over: another will be made, at once if none is left, else in a moment. */
void kr_pool_taken(struct kr_pool *p);
/* A creation came to its end: the session is parked (err NULL), or it failed. */
void kr_pool_made(struct kr_pool *p, struct kr_session *s, const struct kr_err *err);
/* A parked session is gone. */
void kr_pool_lost(struct kr_pool *p, struct kr_session *s);

/* Starts the next creation of each pool where one is missing and nothing holds it back. */
void kr_pools_refill(struct kr_engine *e);
/* The owner has no session left: what is parked beside them goes too. */
void kr_pools_forget(struct kr_engine *e, uint64_t owner);
/* There is no room for a session: what demand has added to the pools goes. */
void kr_pools_ebb(struct kr_engine *e);
/* Kills the parked sessions of a zygote's generation. */
void kr_pools_drop(struct kr_engine *e, uint32_t zygote, uint32_t generation);
/* Parked sessions of a zygote, and how many there should be now. */
void kr_pools_count(const struct kr_engine *e, uint32_t zygote, uint32_t *ret_parked, uint32_t *ret_size);
void kr_pools_free(struct kr_engine *e);
