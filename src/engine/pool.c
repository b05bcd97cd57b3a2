/* Pools: sessions that are made before they are asked for.
 *
 * Called by engine.c (find, take, drop, refill) and session.c (made, lost). Invariants: a parked session is handed
 * over only to an open of its pool's key; never more than `want` are parked or under way, which lies between `size` and
 * `most`; one creation is under way per pool and two in all, so that pools never starve an open that waits for its
 * session; a creation that fails holds the next one back, 100 ms at first and twice as long each time up to five
 * seconds. Where several opens come at once and find nothing, nothing is made until that is over: a session that is
 * parked costs more than one that is made for its run, and those opens would wait for the difference.
 *
 * Demand moves `want`: each open that finds none parked adds one, and what was parked all through EBB_MS goes again,
 * one at a time, so that an idle server comes back to `size`. It is back at once when there is no room for a session.
 *
 * Where the sessions of an owner lie together (kr_session_spec.joins) a parked session of no owner cannot join them. So
 * one is parked among them, for each of the owners that joined last. An owner that has no session left has none parked
 * either: its next session is the first again. */
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
#define EBB_MS 30000u
#define EBB_STEP_MS 100u /* an end takes a processor for a moment, and no one waits for these */

/* An owner whose next session is parked beside its others. */
struct pool_owner {
    uint64_t owner;            /* 0: this row is free */
    uint64_t turn;             /* when it took or missed one, counted */
    struct kr_session *parked; /* NULL: none yet */
};

struct kr_pool {
    TAILQ_ENTRY(kr_pool) link; /* of the engine's list */
    struct kr_engine *engine;
    struct kr_pool_key key;
    uint32_t size, most, want; /* parked sessions: without demand, at most, now */
    uint32_t parked, creating;
    uint32_t least;                  /* that were parked at any time since the last ebb */
    struct kr_session_list sessions; /* parked, oldest first */
    struct kr_session *making;       /* the one that is under way; NULL: none */
    struct kr_timer *backoff, *calm, *pressed, *ebb;
    uint64_t backoff_ms; /* of the failure before, 0: none */
    struct pool_owner owners[KR_POOL_OWNERS_MAX];
    uint64_t turn, creating_for; /* creating_for: the owner of the session that is being made; 0: none */
};

static void refill_pool(struct kr_pool *p);
static void on_ebb(void *data);

static void on_wait_over(void *data)
{
    refill_pool(data);
}

/* ---- keys ---- */

static bool keys_are_equal(const struct kr_pool_key *a, const struct kr_pool_key *b)
{
    return a->holder == b->holder && a->zygote == b->zygote && a->network == b->network && a->policy == b->policy &&
           a->tier == b->tier;
}

struct kr_pool_key kr_pool_key_of(const struct kr_engine *e, const struct kr_session_spec *spec)
{
    return (struct kr_pool_key){.holder = e->holder, .zygote = spec->zygote, .network = spec->network.kind};
}

struct kr_pool *kr_pool_find(const struct kr_engine *e, const struct kr_pool_key *key)
{
    struct kr_pool *p;

    TAILQ_FOREACH(p, &e->pools, link)
    if (keys_are_equal(&p->key, key))
        return p;
    return NULL;
}

/* ---- life ---- */

static void free_pool(struct kr_pool *p)
{
    kr_timer_close(p->backoff);
    kr_timer_close(p->calm);
    kr_timer_close(p->pressed);
    kr_timer_close(p->ebb);
    free(p);
}

int kr_pool_add(struct kr_engine *e, const struct kr_pool_key *key, uint32_t size, uint32_t most)
{
    struct kr_pool *p = calloc(1, sizeof *p);
    int r;

    if (!p)
        return -ENOMEM;
    p->engine = e;
    p->key = *key;
    p->size = p->want = size;
    p->most = most > size ? most : size;
    TAILQ_INIT(&p->sessions);
    r = kr_timer_new(e->loop, on_wait_over, p, &p->backoff);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_wait_over, p, &p->calm);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_wait_over, p, &p->pressed);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_ebb, p, &p->ebb);
    if (r < 0) {
        free_pool(p);
        return r;
    }
    TAILQ_INSERT_TAIL(&e->pools, p, link);
    return 0;
}

void kr_pools_free(struct kr_engine *e)
{
    struct kr_pool *p;

    while ((p = TAILQ_FIRST(&e->pools))) {
        TAILQ_REMOVE(&e->pools, p, link);
        free_pool(p);
    }
}

/* ---- owners ---- */

static struct pool_owner *find_owner(struct kr_pool *p, uint64_t owner)
{
    for (size_t i = 0; owner && i < KR_POOL_OWNERS_MAX; i++)
        if (p->owners[i].owner == owner)
            return &p->owners[i];
    return NULL;
}

static void forget_owner(struct pool_owner *o)
{
    struct kr_session *s = o->parked;

    *o = (struct pool_owner){0};
    if (s) {
        s->pool = NULL;
        kr_session_kill(s);
    }
}

/* It joined its sessions: it will again. The one that did so longest ago makes room. */
static void note_owner(struct kr_pool *p, uint64_t owner)
{
    struct pool_owner *o = find_owner(p, owner);

    for (size_t i = 0; !o && i < KR_POOL_OWNERS_MAX; i++)
        if (!p->owners[i].owner)
            o = &p->owners[i];
    if (!o) {
        o = &p->owners[0];
        for (size_t i = 1; i < KR_POOL_OWNERS_MAX; i++)
            if (p->owners[i].turn < o->turn)
                o = &p->owners[i];
    }
    if (o->owner != owner)
        forget_owner(o);
    o->owner = owner;
    o->turn = ++p->turn;
}

/* The owner for which a session is to be parked next, the latest first, or 0. */
static uint64_t owner_without(const struct kr_pool *p)
{
    const struct pool_owner *best = NULL;

    for (size_t i = 0; i < KR_POOL_OWNERS_MAX; i++) {
        const struct pool_owner *o = &p->owners[i];

        if (o->owner && !o->parked && (!best || o->turn > best->turn))
            best = o;
    }
    return best ? best->owner : 0;
}

void kr_pools_forget(struct kr_engine *e, uint64_t owner)
{
    struct kr_pool *p;

    TAILQ_FOREACH(p, &e->pools, link)
    {
        struct pool_owner *o = find_owner(p, owner);

        if (o)
            forget_owner(o);
    }
}

/* ---- demand ---- */

static void unpark(struct kr_pool *p, struct kr_session *s)
{
    TAILQ_REMOVE(&p->sessions, s, parked);
    p->parked--;
    if (p->least > p->parked)
        p->least = p->parked;
}

static uint64_t ebb_ms(const struct kr_pool *p)
{
    return p->engine->config.pool_ebb_ms ? p->engine->config.pool_ebb_ms : EBB_MS;
}

/* An open found none parked. */
static void grow(struct kr_pool *p)
{
    p->least = 0;
    if (p->want < p->most)
        p->want++;
    if (p->want > p->size && !kr_timer_armed(p->ebb))
        kr_timer_arm(p->ebb, ebb_ms(p));
}

static void ebb_to(struct kr_pool *p, uint32_t want)
{
    struct kr_session *s;

    p->want = want;
    while (p->parked > want && (s = TAILQ_FIRST(&p->sessions))) {
        unpark(p, s);
        s->pool = NULL;
        kr_session_kill(s);
    }
}

static void on_ebb(void *data)
{
    struct kr_pool *p = data;

    if (p->want > p->size && p->least > 0) {
        p->least--;
        ebb_to(p, p->want - 1);
    }
    if (p->want == p->size)
        return;
    kr_timer_arm(p->ebb, p->least > 0 ? EBB_STEP_MS : ebb_ms(p));
    if (p->least == 0)
        p->least = p->parked;
}

void kr_pools_ebb(struct kr_engine *e)
{
    struct kr_pool *p;

    TAILQ_FOREACH(p, &e->pools, link)
    ebb_to(p, p->size);
}

/* ---- making ---- */

/* Half of them are left: what is missing can wait for a calm moment. */
static bool has_half(const struct kr_pool *p)
{
    return p->parked * 2 >= p->want && p->parked > 0;
}

/* Twice as long as the last time; logged once, until a creation succeeds again. */
static void hold_back(struct kr_pool *p, const struct kr_err *err)
{
    if (p->engine->stopping || p->engine->gone)
        return;
    if (p->backoff_ms == 0)
        kr_log(KR_LOG_WARN, "session for the pool not made, will be retried", "preload=%s why=\"%s\"",
               kr_preload_names[p->engine->zygotes[p->key.zygote].preload], err->msg);
    p->backoff_ms = p->backoff_ms ? p->backoff_ms * 2 : BACKOFF_FIRST_MS;
    if (p->backoff_ms > BACKOFF_MAX_MS)
        p->backoff_ms = BACKOFF_MAX_MS;
    kr_timer_arm(p->backoff, p->backoff_ms);
    ebb_to(p, p->size);
}

static void refill_pool(struct kr_pool *p)
{
    struct kr_engine *e = p->engine;
    struct kr_session_spec spec = {.zygote = p->key.zygote, .network = {.kind = p->key.network}, .workspace = -1};
    struct kr_err err;

    if (e->stopping || e->gone || e->zygotes[p->key.zygote].state != KR_ZYG_READY)
        return;
    if (kr_timer_armed(p->backoff) || kr_timer_armed(p->pressed))
        return;
    if (p->creating > 0 || e->creations >= CREATIONS_MAX || (kr_timer_armed(p->calm) && has_half(p)))
        return;
    spec.owner = p->parked < p->size ? 0 : owner_without(p); /* what demand has added comes after them */
    if (p->parked >= p->want && !spec.owner)
        return;
    kr_limits_default(&spec.limits); /* of its first moments; START brings its own */
    p->creating_for = spec.owner;
    p->creating++;
    e->creations++;
    if (kr_session_create(e, NULL, p, &spec, &err) < 0)
        kr_pool_made(p, NULL, &err);
    else
        p->making = TAILQ_LAST(&e->sessions, kr_session_list);
}

void kr_pool_taken(struct kr_pool *p)
{
    if (has_half(p))
        kr_timer_arm(p->calm, CALM_MS);
    else
        refill_pool(p);
}

void kr_pools_refill(struct kr_engine *e)
{
    struct kr_pool *p;

    TAILQ_FOREACH(p, &e->pools, link)
    refill_pool(p);
}

/* A session was made for an owner, or could not be: then it is not tried again before the owner's next open. */
static void owner_made(struct kr_pool *p, uint64_t owner, struct kr_session *s)
{
    struct pool_owner *o = find_owner(p, owner);

    if (s && o && !o->parked) {
        o->parked = s;
    } else if (s) { /* the owner was forgotten while it warmed up */
        s->pool = NULL;
        kr_session_kill(s);
    } else if (o) {
        forget_owner(o);
    }
}

static void end_creation(struct kr_pool *p)
{
    p->creating--;
    p->creating_for = 0;
    p->making = NULL;
    p->engine->creations--;
}

void kr_pool_made(struct kr_pool *p, struct kr_session *s, const struct kr_err *err)
{
    uint64_t owner = p->creating_for;

    end_creation(p);
    if (s && s->generation != p->engine->zygotes[p->key.zygote].generation) {
        s->pool = NULL; /* its zygote was replaced while it warmed up */
        kr_session_kill(s);
    } else if (owner) {
        owner_made(p, owner, s);
    } else if (s) {
        TAILQ_INSERT_TAIL(&p->sessions, s, parked);
        p->parked++;
        p->backoff_ms = 0;
    } else {
        hold_back(p, err);
    }
    kr_pools_refill(p->engine);
}

struct kr_session *kr_pool_take_unfinished(struct kr_pool *p, const struct kr_session_spec *spec)
{
    struct kr_session *s = p->making;

    if (!s || s->state >= KR_SESSION_PARKED || p->creating_for != (spec->joins ? spec->owner : 0))
        return NULL;
    end_creation(p);
    s->pool = NULL;
    return s;
}

/* ---- parked sessions ---- */

struct kr_session *kr_pool_take(struct kr_pool *p, const struct kr_session_spec *spec)
{
    struct pool_owner *o = find_owner(p, spec->owner);
    struct kr_session *s = o ? o->parked : NULL;

    if (s)
        o->parked = NULL;
    if (spec->joins)
        note_owner(p, spec->owner);
    if (s || spec->joins)
        return s;
    s = TAILQ_FIRST(&p->sessions);
    if (!s && p->engine->opens_in_flight > 1)
        kr_timer_arm(p->pressed, PRESSED_MS);
    if (s)
        unpark(p, s);
    else
        grow(p);
    return s;
}

void kr_pool_lost(struct kr_pool *p, struct kr_session *s)
{
    struct pool_owner *o = find_owner(p, s->spec.owner);
    struct kr_err err;

    if (s->spec.owner) {
        if (o && o->parked == s) {
            o->parked = NULL;
            forget_owner(o);
        }
        return;
    }
    unpark(p, s);
    kr_err_set(&err, KR_ERR_SYSTEM, 0, "a parked session ended");
    hold_back(p, &err);
}

static void drop_generation(struct kr_pool *p, uint32_t generation)
{
    struct kr_session *s, *next;

    for (s = TAILQ_FIRST(&p->sessions); s; s = next) {
        next = TAILQ_NEXT(s, parked);
        if (s->generation != generation)
            continue;
        unpark(p, s);
        s->pool = NULL;
        kr_session_kill(s);
    }
    for (size_t i = 0; i < KR_POOL_OWNERS_MAX; i++)
        if (p->owners[i].parked && p->owners[i].parked->generation == generation)
            forget_owner(&p->owners[i]);
}

void kr_pools_drop(struct kr_engine *e, uint32_t zygote, uint32_t generation)
{
    struct kr_pool *p;

    TAILQ_FOREACH(p, &e->pools, link)
    if (p->key.zygote == zygote)
        drop_generation(p, generation);
    kr_pools_refill(e);
}

void kr_pools_count(const struct kr_engine *e, uint32_t zygote, uint32_t *ret_parked, uint32_t *ret_size)
{
    const struct kr_pool *p;

    *ret_parked = *ret_size = 0;
    TAILQ_FOREACH(p, &e->pools, link)
    if (p->key.zygote == zygote) {
        *ret_parked += p->parked;
        *ret_size += p->want;
    }
}
