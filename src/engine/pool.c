/* The pool: sessions that are made before anybody asks.
 *
 * Called by engine.c (take, drop, refill) and session.c (made, lost). Invariants: never more than `size` parked or
 * under way; one creation under way per pool and two in all, so that the pool never starves whoever waits for a
 * session; a creation that fails holds the next one back, 100 ms at first and twice as long each time up to five
 * seconds. Where several ask at once and find nothing, nothing is made until that is over: one that is parked costs more
 * than one that is made for its run, and they would wait for the difference. */
#include "pool.h"
#include "engine_internal.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>

#define CREATIONS_MAX 2u
#define BACKOFF_FIRST_MS 100u
#define BACKOFF_MAX_MS 5000u
#define CALM_MS 5u /* after a hand-over its run has the machine to itself for so long, while others are parked */
#define PRESSED_MS 20u

struct kr_pool {
    struct kr_engine *engine;
    uint32_t zygote, size, parked, creating;
    enum kr_net_kind network;
    struct kr_session_list sessions; /* parked, oldest first */
    struct kr_timer *backoff, *calm, *pressed;
    uint64_t backoff_ms; /* of the failure before, 0: none */
};

static void on_wait_over(void *data)
{
    kr_pool_refill(data);
}

int kr_pool_new(struct kr_engine *e, uint32_t zygote, enum kr_net_kind network, uint32_t size,
                struct kr_pool **ret_pool)
{
    struct kr_pool *p = calloc(1, sizeof *p);
    int r;

    if (!p)
        return -ENOMEM;
    p->engine = e;
    p->zygote = zygote;
    p->network = network;
    p->size = size;
    TAILQ_INIT(&p->sessions);
    r = kr_timer_new(e->loop, on_wait_over, p, &p->backoff);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_wait_over, p, &p->calm);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_wait_over, p, &p->pressed);
    if (r < 0) {
        kr_timer_close(p->backoff);
        kr_timer_close(p->calm);
        free(p);
        return r;
    }
    *ret_pool = p;
    return 0;
}

void kr_pool_free(struct kr_pool *p)
{
    if (!p)
        return;
    kr_timer_close(p->backoff);
    kr_timer_close(p->calm);
    kr_timer_close(p->pressed);
    free(p);
}

int kr_pool_serves(const struct kr_pool *p, enum kr_net_kind network)
{
    return p->network == network;
}

/* Twice as long as the last time; told once, until a creation succeeds again. */
static void hold_back(struct kr_pool *p, const struct kr_err *err)
{
    if (p->engine->stopping || p->engine->gone)
        return;
    if (p->backoff_ms == 0)
        kr_log(KR_LOG_WARN, "the pool cannot make sessions and will try again", "preload=%s why=\"%s\"",
               kr_preload_names[p->engine->zygotes[p->zygote].preload], err->msg);
    p->backoff_ms = p->backoff_ms ? p->backoff_ms * 2 : BACKOFF_FIRST_MS;
    if (p->backoff_ms > BACKOFF_MAX_MS)
        p->backoff_ms = BACKOFF_MAX_MS;
    kr_timer_arm(p->backoff, p->backoff_ms);
}

void kr_pool_refill(struct kr_pool *p)
{
    struct kr_engine *e = p->engine;
    struct kr_session_spec spec = {.zygote = p->zygote, .network = {.kind = p->network}, .workspace = -1};
    struct kr_err err;

    if (e->stopping || e->gone || e->zygotes[p->zygote].state != KR_ZYG_READY)
        return;
    if (kr_timer_armed(p->backoff) || kr_timer_armed(p->pressed))
        return;
    if (p->creating > 0 || p->parked >= p->size || e->creations >= CREATIONS_MAX)
        return;
    kr_limits_default(&spec.limits); /* of its first moments; START brings its own */
    p->creating++;
    e->creations++;
    if (kr_session_create(e, NULL, p, &spec, &err) < 0)
        kr_pool_made(p, NULL, &err);
}

void kr_pool_taken(struct kr_pool *p)
{
    if (p->parked == 0)
        kr_pool_refill(p);
    else if (!kr_timer_armed(p->calm))
        kr_timer_arm(p->calm, CALM_MS);
}

/* Another pool may have waited for its turn. */
static void refill_all(struct kr_engine *e)
{
    for (size_t i = 0; i < e->config.zygote_count; i++)
        if (e->zygotes[i].pool)
            kr_pool_refill(e->zygotes[i].pool);
}

void kr_pool_made(struct kr_pool *p, struct kr_session *s, const struct kr_err *err)
{
    p->creating--;
    p->engine->creations--;
    if (s && s->generation != p->engine->zygotes[p->zygote].generation) {
        s->pool = NULL; /* its zygote was replaced while it warmed up */
        kr_session_kill(s);
    } else if (s) {
        TAILQ_INSERT_TAIL(&p->sessions, s, parked);
        p->parked++;
        p->backoff_ms = 0;
    } else {
        hold_back(p, err);
    }
    refill_all(p->engine);
}

struct kr_session *kr_pool_take(struct kr_pool *p)
{
    struct kr_session *s = TAILQ_FIRST(&p->sessions);

    if (!s && p->engine->opens_in_flight > 1)
        kr_timer_arm(p->pressed, PRESSED_MS);
    if (!s)
        return NULL;
    TAILQ_REMOVE(&p->sessions, s, parked);
    p->parked--;
    return s;
}

void kr_pool_lost(struct kr_pool *p, struct kr_session *s)
{
    struct kr_err err;

    TAILQ_REMOVE(&p->sessions, s, parked);
    p->parked--;
    kr_err_set(&err, KR_ERR_SYSTEM, 0, "a parked session ended");
    hold_back(p, &err);
}

void kr_pool_drop(struct kr_pool *p, uint32_t generation)
{
    struct kr_session *s, *next;

    for (s = TAILQ_FIRST(&p->sessions); s; s = next) {
        next = TAILQ_NEXT(s, parked);
        if (s->generation != generation)
            continue;
        TAILQ_REMOVE(&p->sessions, s, parked);
        p->parked--;
        s->pool = NULL;
        kr_session_kill(s);
    }
    refill_all(p->engine);
}

uint32_t kr_pool_parked(const struct kr_pool *p)
{
    return p->parked;
}

uint32_t kr_pool_size(const struct kr_pool *p)
{
    return p->size;
}
