/* The engine: opens that wait for their sessions, and the sessions there are.
 *
 * Called by the commands and the server. Invariants: every kr_engine_open() is answered once, within its deadline; a
 * session is freed only from the loop, after everything that might still look at it has returned; when the holder is
 * gone, every run ends as `lost` before on_gone. */
#include "engine.h"
#include "engine_internal.h"
#include "clock.h"
#include "fd.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#define WAITING_MAX 4096u
#define WAITER_MS 1000u
#define AGAIN_MS 20u
#define STOP_MS 5000u
#define MISSED_MAX 3u

const char *const kr_preload_names[] = {
    [KR_PRELOAD_BASIC] = "basic", [KR_PRELOAD_DATA] = "data", [KR_PRELOAD_TEMPLATE] = "template"};
const char *const kr_zygote_state_names[] = {
    [KR_ZYG_STARTING] = "starting", [KR_ZYG_READY] = "ready", [KR_ZYG_RETIRED] = "retired",
    [KR_ZYG_FAILED] = "failed",     [KR_ZYG_ENDED] = "ended",
};
static_assert(sizeof kr_preload_names / sizeof kr_preload_names[0] == KR_PRELOAD_MAX_ + 1,
              "every preload has its name");
static_assert(sizeof kr_zygote_state_names / sizeof kr_zygote_state_names[0] == KR_ZYG_STATE_MAX_,
              "every state has its name");

static void serve_opens(struct kr_engine *e);

/* ---- descriptors ---- */

unsigned kr_session_fds(const struct kr_session *s)
{
    unsigned listeners = s->spec.network.kind >= KR_NET_EGRESS_MIN_ ? KR_ENGINE_FDS_OF_LISTENER : 0;

    return KR_ENGINE_FDS_PER_SESSION + s->spec.stdin_pipe + listeners;
}

/* ---- graves ---- */

void kr_engine_bury(struct kr_engine *e, struct kr_session *s)
{
    TAILQ_REMOVE(&e->sessions, s, link);
    e->session_fds -= kr_session_fds(s);
    TAILQ_INSERT_TAIL(&e->graveyard, s, link);
    kr_timer_arm(e->reaper, 0);
    if (e->stopping && TAILQ_EMPTY(&e->sessions))
        kr_timer_arm(e->stopper, 0);
}

static void on_reap(void *data)
{
    struct kr_engine *e = data;
    struct kr_session *s;

    while ((s = TAILQ_FIRST(&e->graveyard))) {
        TAILQ_REMOVE(&e->graveyard, s, link);
        kr_session_free(s);
    }
}

/* ---- opens ---- */

void kr_engine_free_open(struct kr_open *open)
{
    kr_session_spec_done(&open->spec);
    free(open);
}

static void refuse_open(struct kr_open *open, const struct kr_err *err)
{
    open->calls.on_open(open->data, NULL, err);
    kr_engine_free_open(open);
}

void kr_engine_open_done(struct kr_engine *e, struct kr_session *s, struct kr_open *open, const struct kr_err *err)
{
    struct kr_pool_key key = kr_pool_key_of(e, &open->spec);
    struct kr_pool *pool = kr_pool_find(e, &key);

    e->opens_in_flight--;
    if (err && err->kind == KR_ERR_LIMIT)
        kr_pools_ebb(e);
    open->calls.on_open(open->data, s, err);
    kr_engine_free_open(open);
    if (pool)
        kr_pool_taken(pool);
    serve_opens(e);
}

void kr_engine_open_again(struct kr_engine *e, struct kr_open *open)
{
    e->opens_in_flight--;
    open->pooled = false;
    TAILQ_INSERT_HEAD(&e->opens, open, link);
    kr_timer_arm(e->waiter, open->tries++ ? AGAIN_MS : 0); /* at once, then with pauses until its deadline */
}

int kr_engine_has_room(const struct kr_engine *e, struct kr_err *err)
{
    unsigned needed = e->descriptors + e->holder->descriptors + KR_ENGINE_FDS_RESERVE + e->session_fds +
                      KR_ENGINE_FDS_PER_SESSION + 1;
    struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY};

    if (getrlimit(RLIMIT_NOFILE, &most) < 0 || needed <= most.rlim_cur)
        return 0;
    return kr_err_set(err, KR_ERR_LIMIT, EMFILE, "no room for another session: RLIMIT_NOFILE allows %llu descriptors",
                      (unsigned long long)most.rlim_cur);
}

void kr_engine_forget_owner(struct kr_engine *e, uint64_t owner)
{
    kr_pools_forget(e, owner);
}

/* From the pool, or a new one. 0, or -errno with err. */
static int start_open(struct kr_engine *e, struct kr_open *open, struct kr_err *err)
{
    struct kr_pool_key key = kr_pool_key_of(e, &open->spec);
    struct kr_pool *pool = kr_pool_find(e, &key);
    bool pooled = open->pooled && pool && !open->spec.stdin_pipe;
    struct kr_session *s = pooled ? kr_pool_take(pool, &open->spec) : NULL;

    if (pooled && !s)
        s = kr_pool_take_unfinished(pool, &open->spec);
    if (s && kr_session_adopt(s, open) >= 0)
        return 0;
    if (s) {
        s->pool = NULL;
        kr_session_kill(s);
    }
    return kr_session_create(e, open, NULL, &open->spec, err);
}

/* One that never was ready. Where there are others that are, as on a server, its reason is the operator's, in the log;
 * else it is why nothing works at all. */
static int refuse_given_up(const struct kr_engine *e, const struct kr_zygote *z, struct kr_err *err)
{
    for (size_t i = 0; !e->config.lazy && i < e->config.zygote_count; i++)
        if (e->zygotes[i].was_ready)
            return kr_err_set(err, KR_ERR_BUSY, 0,
                              "the preload %s could not be started, and krait serves without it: choose preload %s, or "
                              "ask the operator for a restart",
                              kr_preload_names[z->preload], kr_preload_names[e->zygotes[i].preload]);
    *err = z->err;
    return err->code ? -err->code : -EIO;
}

/* What holds an open back: 1 nothing, 0 it waits, -errno with err. */
static int may_start(struct kr_engine *e, const struct kr_open *open, struct kr_err *err)
{
    const struct kr_zygote *z = &e->zygotes[open->spec.zygote];

    if (e->gone || e->stopping)
        return kr_err_set(err, KR_ERR_BUSY, 0, KR_STOPPING);
    if (e->have_info && z->state == KR_ZYG_READY && (!open->tries || kr_clock_ns() < open->deadline_ns))
        return e->opens_in_flight < KR_ENGINE_OPENS_MAX;
    if (z->state == KR_ZYG_FAILED && z->was_ready) /* the log has the reason */
        return kr_err_set(err, KR_ERR_BUSY, 0, "the %s zygote cannot be started at the moment; it is tried again",
                          kr_preload_names[z->preload]);
    if (z->state == KR_ZYG_FAILED)
        return refuse_given_up(e, z, err);
    if (kr_clock_ns() > open->deadline_ns)
        return kr_err_set(err, KR_ERR_BUSY, ETIMEDOUT, "the %s zygote was not ready within %u s",
                          kr_preload_names[z->preload], KR_ENGINE_ZYGOTE_MS / 1000);
    return 0;
}

/* Nothing waits for a zygote that imports the packages of a template, nor tries it twice. */
static void choose_zygote(const struct kr_engine *e, struct kr_open *open)
{
    const struct kr_zygote *z = &e->zygotes[open->spec.zygote];

    if (open->spec.zygote < e->config.zygote_count ||
        (z->state == KR_ZYG_READY && z->epoch == open->spec.epoch && open->tries == 0))
        return;
    open->spec.zygote = open->spec.otherwise;
    open->spec.epoch = 0;
    open->tries = 0;
}

void kr_engine_missed(struct kr_engine *e, const struct kr_session_spec *spec)
{
    struct kr_zygote *z = &e->zygotes[spec->zygote];

    if (spec->zygote < e->config.zygote_count || spec->epoch != z->epoch || z->missed >= MISSED_MAX ||
        ++z->missed < MISSED_MAX)
        return;
    z->state = KR_ZYG_FAILED;
    kr_err_set(&z->err, KR_ERR_UNAVAILABLE, 0, "%u sessions of it in a row were not ready in time", z->missed);
    kr_log(KR_LOG_WARN, "zygote", "preload=%s state=%s generation=%u why=%s", kr_preload_names[z->preload],
           kr_zygote_state_names[z->state], z->generation, z->err.msg);
}

void kr_engine_came(struct kr_engine *e, const struct kr_session_spec *spec)
{
    struct kr_zygote *z = &e->zygotes[spec->zygote];

    if (z->missed < MISSED_MAX)
        z->missed = 0;
}

/* Goes through the opens that wait, in order; those of one zygote do not hold up those of another. */
static void serve_opens(struct kr_engine *e)
{
    struct kr_open *open, *next;
    struct kr_err err;

    for (open = TAILQ_FIRST(&e->opens); open; open = next) {
        int r;

        choose_zygote(e, open);
        r = may_start(e, open, &err);
        next = TAILQ_NEXT(open, link);
        if (r == 0)
            continue;
        TAILQ_REMOVE(&e->opens, open, link);
        if (r > 0) {
            e->opens_in_flight++;
            r = start_open(e, open, &err);
            if (r < 0)
                e->opens_in_flight--;
        }
        if (r < 0) {
            refuse_open(open, &err);
            next = TAILQ_FIRST(&e->opens); /* the callback may have changed the list */
        }
    }
    if (!TAILQ_EMPTY(&e->opens) && !kr_timer_armed(e->waiter))
        kr_timer_arm(e->waiter, WAITER_MS);
}

static void on_waiter(void *data)
{
    serve_opens(data);
}

static int check_spec(const struct kr_engine *e, const struct kr_session_spec *spec, struct kr_err *err)
{
    if (spec->zygote >= e->config.zygote_count + e->config.template_count ||
        (spec->zygote >= e->config.zygote_count && spec->otherwise >= e->config.zygote_count))
        return kr_err_set(err, KR_ERR_INVALID, 0, "there is no such zygote");
    if (kr_net_rule_check(&spec->network, e->config.egress, err) < 0)
        return -EINVAL;
    if (spec->workspace == KR_WORKSPACE_SHELF
            ? !e->config.shelf
            : spec->workspace < KR_WORKSPACE_NONE ||
                  (spec->workspace >= 0 && (size_t)spec->workspace >= e->config.workspace_count))
        return kr_err_set(err, KR_ERR_INVALID, 0, "there is no workspace %d", spec->workspace);
    if (spec->venv && (!e->config.shelf || !spec->folder[0]))
        return kr_err_set(err, KR_ERR_INVALID, 0, "there is no folder with an environment");
    for (size_t i = 0; i < spec->env_count; i++) {
        size_t len = strcspn(spec->env[i], "=");

        if (len == 0 || len > 200 || spec->env[i][len] != '=')
            return kr_err_set(err, KR_ERR_INVALID, 0, "environment \"%.60s\" is not NAME=VALUE", spec->env[i]);
        for (size_t k = 0; k < i; k++)
            if (strncmp(spec->env[k], spec->env[i], len + 1) == 0)
                return kr_err_set(err, KR_ERR_INVALID, 0, "environment \"%.*s\" is given twice", (int)len,
                                  spec->env[i]);
    }
    return kr_limits_check(&spec->limits, err);
}

/* ---- a lazy engine ---- */

static void wake(struct kr_engine *e, uint32_t zygote)
{
    if (!e->config.lazy || e->woken[zygote])
        return;
    e->woken[zygote] = true;
    e->holder->ops->wake(e->holder, zygote);
}

static uint32_t basic_of(const struct kr_engine *e, uint32_t otherwise)
{
    for (uint32_t i = 0; i < e->config.zygote_count; i++)
        if (e->zygotes[i].preload == KR_PRELOAD_BASIC)
            return i;
    return otherwise;
}

/* One after the other: beside the imports of `data` those of `basic` would take twice as long. */
static void wake_next(struct kr_engine *e)
{
    uint32_t first = basic_of(e, 0);

    if (!e->wakes_all || e->stopping || e->gone)
        return;
    wake(e, first);
    for (uint32_t i = 0; i < e->config.zygote_count && e->zygotes[first].state != KR_ZYG_STARTING; i++)
        wake(e, i);
}

void kr_engine_wake(struct kr_engine *e)
{
    e->wakes_all = e->config.lazy;
    wake_next(e);
}

uint32_t kr_engine_zygote_for(const struct kr_engine *e, uint32_t wanted, const char *code, size_t len)
{
    /* Of preload.py. A module that imports one of these finds it, only later. */
    static const char *const modules[] = {"numpy", "pandas", "scipy", "matplotlib", "pylab"};
    uint32_t basic = basic_of(e, wanted);

    if (!e->config.lazy || e->zygotes[wanted].state != KR_ZYG_STARTING || e->zygotes[basic].state == KR_ZYG_FAILED)
        return wanted;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (memmem(code, len, modules[i], strlen(modules[i])))
            return wanted;
    return basic;
}

void kr_engine_preload(struct kr_engine *e, uint32_t zygote, const char *folder)
{
    struct kr_zygote *z = &e->zygotes[zygote];

    if (zygote < e->config.zygote_count || zygote >= e->config.zygote_count + e->config.template_count ||
        !e->holder->ops->preload)
        return;
    z->state = *folder ? KR_ZYG_STARTING : KR_ZYG_ENDED;
    z->was_ready = false;
    z->epoch++;
    z->missed = 0;
    e->holder->ops->preload(e->holder, zygote, folder);
}

int kr_engine_open(struct kr_engine *e, const struct kr_session_spec *spec, bool pooled,
                   const struct kr_session_calls *calls, void *data, struct kr_err *err)
{
    struct kr_open *open, *o;
    unsigned waiting = 0;
    int r = check_spec(e, spec, err);

    if (r < 0)
        return r;
    TAILQ_FOREACH(o, &e->opens, link)
    waiting++;
    if (waiting >= WAITING_MAX)
        return kr_err_set(err, KR_ERR_LIMIT, 0, "%u opens wait for a session already", WAITING_MAX);
    open = calloc(1, sizeof *open);
    r = open ? kr_session_spec_copy(spec, &open->spec) : -ENOMEM;
    if (r < 0) {
        free(open);
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "open");
    }
    open->pooled = pooled;
    open->calls = *calls;
    open->data = data;
    open->deadline_ns = kr_clock_after_ms(KR_ENGINE_ZYGOTE_MS);
    TAILQ_INSERT_TAIL(&e->opens, open, link);
    choose_zygote(e, open);
    wake(e, open->spec.zygote);
    /* Started here if it can be: its answer comes from the loop all the same. Refusals wait for the timer. */
    if (may_start(e, open, err) > 0 && TAILQ_FIRST(&e->opens) == open)
        serve_opens(e);
    else
        kr_timer_arm(e->waiter, 0);
    return 0;
}

/* ---- the holder's events ---- */

static void on_holder_info(void *data, const struct kr_holder_info *info)
{
    struct kr_engine *e = data;

    e->info = *info;
    e->have_info = true;
    serve_opens(e);
}

/* A zygote of an older generation only takes its parked sessions with it. */
static void on_holder_zygote(void *data, const struct kr_holder_zygote *event)
{
    struct kr_engine *e = data;
    struct kr_zygote *z;

    if (event->zygote >= e->config.zygote_count + e->config.template_count)
        return;
    z = &e->zygotes[event->zygote];
    if (event->generation >= z->generation) {
        z->generation = event->generation;
        if (z->missed < MISSED_MAX) {
            z->state = event->state;
            z->err = event->err;
        }
        z->was_ready = z->was_ready || event->state == KR_ZYG_READY;
    }
    kr_log(event->state == KR_ZYG_FAILED || event->state == KR_ZYG_ENDED ? KR_LOG_WARN : KR_LOG_INFO, "zygote",
           "preload=%s state=%s generation=%u%s%s", kr_preload_names[z->preload], kr_zygote_state_names[event->state],
           event->generation, event->state == KR_ZYG_FAILED ? " why=" : "",
           event->state == KR_ZYG_FAILED ? event->err.msg : "");
    if (event->state == KR_ZYG_RETIRED || event->state == KR_ZYG_ENDED)
        kr_pools_drop(e, event->zygote, event->generation);
    if (e->calls.on_zygote)
        e->calls.on_zygote(e->data, event);
    serve_opens(e);
    wake_next(e);
    kr_pools_refill(e);
}

static void on_holder_gone(void *data, const struct kr_err *err)
{
    struct kr_engine *e = data;
    struct kr_session *s;

    e->gone = true;
    while ((s = TAILQ_FIRST(&e->sessions))) {
        s->broken = true;
        s->why = *err;
        kr_session_ended(s, NULL);
    }
    serve_opens(e);
    e->calls.on_gone(e->data, err);
}

/* ---- life ---- */

static void on_stopper(void *data)
{
    struct kr_engine *e = data;

    if (e->stopped || !e->calls.on_stopped)
        return;
    e->stopped = true;
    e->calls.on_stopped(e->data);
}

void kr_engine_stop(struct kr_engine *e)
{
    struct kr_session *s, *next;

    e->stopping = true;
    for (s = TAILQ_FIRST(&e->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        kr_session_close(s);
    }
    kr_timer_arm(e->stopper, TAILQ_EMPTY(&e->sessions) ? 0 : STOP_MS);
    kr_timer_arm(e->waiter, 0);
}

int kr_engine_shelf(struct kr_engine *e, const struct kr_w_shelf *question, struct kr_shelf_ask *ask, kr_shelf_fn *fn,
                    void *data)
{
    return kr_holder_shelf(e->holder, question, ask, fn, data);
}

void kr_engine_forget_shelf(struct kr_engine *e, struct kr_shelf_ask *ask)
{
    kr_holder_forget_shelf(e->holder, ask);
}

int kr_engine_ping(struct kr_engine *e, struct kr_ping_ask *ask, kr_ping_fn *fn, void *data)
{
    return kr_holder_ping(e->holder, ask, fn, data);
}

void kr_engine_forget_ping(struct kr_engine *e, struct kr_ping_ask *ask)
{
    kr_holder_forget_ping(e->holder, ask);
}

void kr_engine_offer(struct kr_engine *e, const char *clause)
{
    e->offer = clause;
}

void kr_engine_installs(struct kr_engine *e, bool enabled, const struct kr_words *blocked)
{
    e->installs = enabled;
    e->blocked = *blocked;
}

void kr_engine_shelf_is(struct kr_engine *e, enum kr_shelf_kind kind)
{
    e->shelf_kind = kind;
}

static void on_holder_egress(void *data, int fd)
{
    struct kr_engine *e = data;

    if (e->calls.on_egress)
        e->calls.on_egress(e->data, fd);
    else
        kr_fd_close(fd);
}

static int make_parts(struct kr_engine *e)
{
    struct kr_pool_key key;
    int r;

    r = kr_timer_new(e->loop, on_reap, e, &e->reaper);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_waiter, e, &e->waiter);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_stopper, e, &e->stopper);
    if (r >= 0)
        r = kr_sweeps_new(e->loop, &e->sweeps);
    for (size_t i = 0; i < e->config.zygote_count && r >= 0; i++) {
        e->zygotes[i] = (struct kr_zygote){.preload = e->config.preloads[i], .state = KR_ZYG_STARTING};
        key = kr_pool_key_of(e, &(struct kr_session_spec){.zygote = (uint32_t)i, .network = {.kind = KR_NET_NONE}});
        if (e->config.pool_size > 0)
            r = kr_pool_add(e, &key, e->config.pool_size, e->config.pool_max);
    }
    for (size_t i = 0; i < e->config.template_count; i++)
        e->zygotes[e->config.zygote_count + i] =
            (struct kr_zygote){.preload = KR_PRELOAD_TEMPLATE, .state = KR_ZYG_ENDED};
    return r;
}

int kr_engine_new(struct uv_loop_s *loop, struct kr_holder *holder, const struct kr_engine_config *config,
                  const struct kr_engine_calls *calls, void *data, struct kr_engine **ret_engine)
{
    static const struct kr_holder_calls holder_calls = {
        .on_info = on_holder_info,
        .on_zygote = on_holder_zygote,
        .on_gone = on_holder_gone,
        .on_opened = kr_session_on_opened,
        .on_started = kr_session_on_started,
        .on_ended = kr_session_ended,
        .on_egress = on_holder_egress,
    };
    struct kr_engine *e = calloc(1, sizeof *e);
    int r;

    if (!e) {
        holder->ops->close(holder);
        return -ENOMEM;
    }
    holder->calls = &holder_calls;
    holder->data = e;
    e->holder = holder;
    e->loop = loop;
    e->config = *config;
    e->calls = *calls;
    e->data = data;
    r = eventfd(0, EFD_CLOEXEC); /* the lowest that is free: descriptors are given out without gaps */
    e->descriptors = r < 0 ? 0 : (unsigned)r;
    kr_fd_close(r);
    TAILQ_INIT(&e->sessions);
    TAILQ_INIT(&e->graveyard);
    TAILQ_INIT(&e->opens);
    TAILQ_INIT(&e->pools);
    r = make_parts(e);
    if (r < 0) {
        kr_engine_free(e);
        return r;
    }
    *ret_engine = e;
    return 0;
}

void kr_engine_free(struct kr_engine *e)
{
    struct kr_session *s;
    struct kr_open *open;

    if (!e)
        return;
    while ((s = TAILQ_FIRST(&e->sessions))) {
        TAILQ_REMOVE(&e->sessions, s, link);
        kr_session_free(s);
    }
    on_reap(e);
    while ((open = TAILQ_FIRST(&e->opens))) {
        TAILQ_REMOVE(&e->opens, open, link);
        kr_engine_free_open(open);
    }
    kr_pools_free(e);
    kr_timer_close(e->reaper);
    kr_timer_close(e->waiter);
    kr_timer_close(e->stopper);
    kr_sweeps_close(e->sweeps);
    e->holder->ops->close(e->holder);
    free(e);
}

/* ---- what there is ---- */

const struct kr_holder_info *kr_engine_info(const struct kr_engine *e)
{
    return e->have_info ? &e->info : NULL;
}

size_t kr_engine_zygote_count(const struct kr_engine *e)
{
    return e->config.zygote_count;
}

struct kr_engine_zygote kr_engine_zygote(const struct kr_engine *e, size_t index)
{
    const struct kr_zygote *z = &e->zygotes[index];
    struct kr_engine_zygote ret = {.preload = z->preload,
                                   .state = z->state,
                                   .given_up = z->state == KR_ZYG_FAILED && !z->was_ready,
                                   .generation = z->generation,
                                   .epoch = z->epoch,
                                   .err = &z->err};

    kr_pools_count(e, (uint32_t)index, &ret.parked, &ret.pool_size);
    return ret;
}
