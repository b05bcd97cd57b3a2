/* Parked sessions of one zygote and network: forked, warmed up, waiting for a workspace, limits and code. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdint.h>

struct kr_engine;
struct kr_pool;
struct kr_session;

/* 0 or -errno. Nothing is made before kr_pool_refill(). */
int kr_pool_new(struct kr_engine *e, uint32_t zygote, enum kr_net_kind network, uint32_t size,
                struct kr_pool **ret_pool);
void kr_pool_free(struct kr_pool *p);
/* Does it serve this network? */
int kr_pool_serves(const struct kr_pool *p, enum kr_net_kind network);
/* The session that has been parked longest, or NULL; it is the caller's, who calls kr_pool_taken() when the
 * hand-over is done. */
struct kr_session *kr_pool_take(struct kr_pool *p);
/* Starts the next creation if one is missing and nothing holds it back. */
void kr_pool_refill(struct kr_pool *p);
/* A session was handed over: another will be made, at once if none is left, else in a moment. */
void kr_pool_taken(struct kr_pool *p);
/* A creation came to its end: the session is parked (err NULL), or it failed. */
void kr_pool_made(struct kr_pool *p, struct kr_session *s, const struct kr_err *err);
/* A parked session is gone. */
void kr_pool_lost(struct kr_pool *p, struct kr_session *s);
/* Kills the parked sessions of a zygote's generation. */
void kr_pool_drop(struct kr_pool *p, uint32_t generation);
uint32_t kr_pool_parked(const struct kr_pool *p);
uint32_t kr_pool_size(const struct kr_pool *p);
