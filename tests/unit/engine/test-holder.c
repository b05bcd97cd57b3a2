/* src/engine: sessions and runs in a holder that is no warden, and pools of several keys. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "clock.h"
#include "engine_internal.h"
#include "fake-holder.h"
#include "log.h"
#include "patience.h"
#include <errno.h>
#include <signal.h>
#include <unistd.h>
#include <uv.h>

struct world {
    uv_loop_t loop;
    struct kr_holder *holder;
    struct fake_holder_log log;
    enum kr_background background; /* of the sessions that are opened */
    uint32_t pool_max;             /* of the next start */
    uint64_t owner;                /* of the next open */
    bool joins;
    uint64_t budget_ms;
    struct kr_engine *engine;
    struct kr_session *session;
    struct kr_run *run;
    struct kr_err open_err, gone_err;
    struct kr_run_end end;
    enum kr_cause ended_cause;
    char text[4096];
    bool opened, ended, run_ended, gone, stopped;
};

static void w_opened(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct world *w = data;

    w->opened = true;
    w->session = s;
    if (err)
        w->open_err = *err;
}

static void w_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct world *w = data;

    (void)s, (void)message;
    w->ended = true;
    w->session = NULL;
    w->ended_cause = cause;
}

static void w_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct world *w = data;

    (void)r, (void)stream;
    if (strlen(w->text) + len < sizeof w->text)
        strncat(w->text, text, len);
}

static void w_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct world *w = data;

    (void)r;
    w->end = *end;
    w->end.claim = NULL;
    w->run_ended = true;
    w->run = NULL;
}

static void w_gone(void *data, const struct kr_err *err)
{
    struct world *w = data;

    w->gone = true;
    w->gone_err = *err;
}

static void w_stopped(void *data)
{
    ((struct world *)data)->stopped = true;
}

static bool until(struct world *w, const bool *flag)
{
    uint64_t deadline = kr_clock_after_ms(PATIENCE_S * 1000);

    while (!*flag && kr_clock_ns() < deadline)
        uv_run(&w->loop, UV_RUN_ONCE); /* the holder's timer wakes it */
    return *flag;
}

static void spin(struct world *w, unsigned ms)
{
    uint64_t end = kr_clock_after_ms(ms);

    while (kr_clock_ns() < end)
        uv_run(&w->loop, UV_RUN_ONCE);
}

static bool w_start(struct world *w, uint32_t pool, bool lazy)
{
    static const struct kr_engine_calls calls = {.on_gone = w_gone, .on_stopped = w_stopped};
    struct kr_engine_config config = {.zygote_count = 1,
                                      .template_count = 1,
                                      .pool_size = pool,
                                      .pool_max = w->pool_max,
                                      .pool_ebb_ms = 1500,
                                      .lazy = lazy};

    memset(w, 0, sizeof *w);
    uv_loop_init(&w->loop);
    w->holder = fake_holder_new(&w->loop, &w->log);
    return kr_engine_new(&w->loop, w->holder, &config, &calls, w, &w->engine) == 0;
}

static bool w_done(struct world *w)
{
    kr_engine_free(w->engine);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    return uv_loop_close(&w->loop) == 0 && w->log.closes == 1 && w->log.releases == w->log.opens;
}

static const struct kr_session_calls w_calls = {.on_open = w_opened, .on_ended = w_ended};

static bool w_open_net(struct world *w, enum kr_net_kind network, bool pooled)
{
    struct kr_session_spec spec = {.workspace = -1,
                                   .network = {.kind = network},
                                   .background = w->background,
                                   .owner = w->owner,
                                   .joins = w->joins};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    spec.limits.grace_ms = 1000;
    spec.limits.background_cpu_ms = w->budget_ms;
    w->opened = w->ended = false;
    if (kr_engine_open(w->engine, &spec, pooled, &w_calls, w, &err) < 0)
        return false;
    return until(w, &w->opened) && w->session;
}

static bool w_open(struct world *w)
{
    return w_open_net(w, KR_NET_NONE, false);
}

static bool w_begin(struct world *w, const char *code, uint64_t timeout_ms)
{
    static const struct kr_run_calls calls = {w_output, NULL, NULL, NULL, w_end};
    struct kr_run_spec spec = {.code = {code, strlen(code)}, .timeout_ms = timeout_ms, .output_cap = 4000};
    struct kr_err err;

    w->run_ended = false;
    memset(w->text, 0, sizeof w->text);
    return kr_run_new(w->session, &spec, &calls, w, &w->run, &err) == 0;
}

static bool w_run(struct world *w, const char *code, uint64_t timeout_ms)
{
    return w_begin(w, code, timeout_ms) && until(w, &w->run_ended);
}

static void a_session_needs_no_warden(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w));
    CHECK(w.log.opens == 1 && w.log.starts == 1 && w.log.wakes == 0);
    CHECK(w.log.started.limits.grace_ms == 1000); /* limits come with the start */
    CHECK(kr_session_layers(w.session) & KR_LAYER_USERNS);
    for (int i = 0; i < 4; i++) { /* counters are read at once in one half, asked for in the other */
        CHECK(w_run(&w, "print hello", 0) && strcmp(w.text, "hello") == 0);
        CHECK(w.end.verdict.cause == KR_CAUSE_OK && w.end.session_alive && w.end.have_cpu && w.end.have_peak);
    }
    CHECK(w.log.usages >= 4 && w.log.asks >= 2);
    kr_session_close(w.session);
    CHECK(until(&w, &w.ended) && w.ended_cause == KR_CAUSE_CANCELLED && w.log.kills == 1);
    CHECK(w_done(&w));
}

static void signals_and_kills_go_through_the_holder(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w));
    CHECK(w_run(&w, "sleep", 50) && w.end.verdict.cause == KR_CAUSE_TIMEOUT && w.end.session_alive);
    CHECK(w.log.signals >= 1 && w.log.kills == 0);
    CHECK(w_run(&w, "deaf", 50) && w.end.verdict.cause == KR_CAUSE_TIMEOUT && !w.end.session_alive);
    CHECK(w.log.kills == 1 && until(&w, &w.ended));
    CHECK(w_open(&w) && w_run(&w, "exit 3", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_EXIT && w.end.verdict.exit_code == 3);
    CHECK(w_done(&w));
}

static void a_refusal_reaches_the_caller(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, true));
    fake_holder_refuse(w.holder, "no room in the fake");
    CHECK(!w_open(&w) && w.opened && w.open_err.kind == KR_ERR_UNAVAILABLE);
    CHECK(strcmp(w.open_err.msg, "no room in the fake") == 0 && w.log.wakes == 1);
    fake_holder_refuse(w.holder, NULL);
    CHECK(w_open(&w) && w_run(&w, "print now", 0) && strcmp(w.text, "now") == 0);
    CHECK(w.log.wakes == 1); /* once for each zygote */
    CHECK(w_done(&w));
}

static void a_session_that_is_closed_while_it_opens_is_released(void)
{
    static struct world w;
    struct kr_session_spec spec = {.workspace = -1};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    CHECK(w_start(&w, 0, false) && w_open(&w));
    w.opened = false;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) == 0 && w.log.opens == 2);
    kr_engine_stop(w.engine);
    CHECK(until(&w, &w.stopped) && w.opened && w.open_err.kind == KR_ERR_BUSY);
    spin(&w, 20);
    CHECK(w.log.releases == 2 && TAILQ_EMPTY(&w.engine->sessions));
    CHECK(w_done(&w));
}

static void a_holder_that_is_gone_loses_every_run(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w) && w_begin(&w, "deaf", 0));
    spin(&w, 20);
    fake_holder_vanish(w.holder);
    CHECK(w.gone && w.run_ended && w.ended && w.end.verdict.cause == KR_CAUSE_LOST);
    CHECK(strstr(w.end.message, "the fake holder is gone") && strstr(w.gone_err.msg, "the fake holder is gone"));
    CHECK(!w_open(&w) && w.opened && w.open_err.kind == KR_ERR_BUSY);
    CHECK(w_done(&w));
}

/* ---- between two runs ---- */

static bool w_pace(struct world *w, enum kr_pace pace)
{
    for (long end = patience_end(); w->log.pace != pace && is_before(end);)
        spin(w, 5);
    return w->log.pace == pace;
}

static void a_session_rests_after_looks_that_failed(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w) && w_run(&w, "print hello", 0));
    w.log.blind = 1; /* the first look is answered without counters, the second not at all */
    for (int i = 0; i < 400 && w.log.blind > 0; i++)
        spin(&w, 10);
    w.log.mute = 1;
    CHECK(w.log.blind == 0 && w.log.paces == 0 && w_pace(&w, KR_PACE_REST) && w.log.mute == 0);
    CHECK(w_done(&w));
}

static void runs_that_follow_each_other_are_not_paced(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w));
    for (int i = 0; i < 5; i++)
        CHECK(w_run(&w, "print hello", 0));
    CHECK(w.log.paces == 0 && w.log.clears == 0);
    CHECK(w_pace(&w, KR_PACE_REST) && w_run(&w, "print hello", 0) && w.log.pace == KR_PACE_RUN && w.log.paces == 2);
    CHECK(!w.end.session_frozen && w_done(&w));
}

/* What is charged to a run after a rest, in ms, if its session has used so much meanwhile. */
static double w_charged(struct world *w, uint64_t between_ms, unsigned pids_hits)
{
    uint64_t until_ns;

    w->log.burnt_ns = 0;
    if (!w_run(w, "print hello", 0))
        return -1;
    until_ns = kr_clock_after_ms(KR_SESSION_GAP_MS + 20);
    while (kr_clock_ns() < until_ns) /* no look in the background meanwhile */
        usleep(1000);
    w->log.burnt_ns = between_ms * 1000000u;
    w->log.pids_hits += pids_hits;
    if (!w_begin(w, "print hello", 0))
        return -1;
    w->log.burnt_ns = 0;
    return until(w, &w->run_ended) ? (double)w->end.cpu_ns / 1e6 : -1;
}

static void counters_are_read_when_the_code_is_on_its_way(void)
{
    static struct world w;
    double ms;

    CHECK(w_start(&w, 0, false) && w_open(&w));
    w.log.all_at_once = true;
    CHECK(w_run(&w, "print hello", 0));
    ms = w_charged(&w, 0, 0); /* a look adds one to the fake's counter */
    CHECK(ms >= 1.5 && ms < 2.5 && !w.end.verdict.hits && w.session->between_cpu_ns == 0);
    ms = w_charged(&w, 5000, 1); /* what ran between them is no run's, and a limit that it hit is not */
    CHECK(ms > 0 && ms < 2500 && !w.end.verdict.hits && w.session->between_cpu_ns > 2500 * UINT64_C(1000000));
    ms = w_charged(&w, 0, 1); /* nothing ran between them: it was the run */
    CHECK(ms >= 1.5 && ms < 2.5 && w.end.verdict.hits);
    CHECK(w.log.early == 0 && w_done(&w));
}

static void a_session_whose_budget_is_used_up_is_frozen(void)
{
    static struct world w;
    unsigned usages;

    CHECK(w_start(&w, 0, false));
    w.budget_ms = 100;
    CHECK(w_open(&w) && w_run(&w, "print hello", 0));
    w.log.burnt_ns = 200 * 1000000u;
    CHECK(w_pace(&w, KR_PACE_FROZEN) && kr_session_spent(w.session));
    usages = w.log.usages;
    spin(&w, 600);
    CHECK(w.log.usages == usages); /* it is not looked at any more */
    w.log.burnt_ns = 0;
    CHECK(w_run(&w, "print hello", 0) && w.end.session_frozen && w.log.pace == KR_PACE_RUN);
    CHECK(w_run(&w, "print hello", 0) && !w.end.session_frozen && !kr_session_spent(w.session));
    w.log.burnt_ns = 200 * 1000000u;
    CHECK(w_pace(&w, KR_PACE_FROZEN)); /* and can be closed as it is */
    kr_session_close(w.session);
    CHECK(until(&w, &w.ended) && w_done(&w));
}

static void without_a_budget_it_rests_and_is_left_alone(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false));
    w.log.burnt_ns = 3600 * UINT64_C(1000000000);
    CHECK(w_open(&w) && w_run(&w, "print hello", 0) && w_pace(&w, KR_PACE_REST));
    spin(&w, 600);
    CHECK(w.log.pace == KR_PACE_REST && !kr_session_spent(w.session) && w_done(&w));
}

static void a_sandbox_may_freeze_at_once(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false));
    w.background = KR_BACKGROUND_FREEZE;
    CHECK(w_open(&w) && w.log.paces == 0);
    CHECK(w_run(&w, "print hello", 0) && w.log.pace == KR_PACE_FROZEN && !kr_session_spent(w.session));
    CHECK(w_run(&w, "print hello", 0) && !w.end.session_frozen && w.log.paces == 3 && w_done(&w));
}

static void a_limit_ends_what_its_run_started(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false) && w_open(&w));
    w.log.processes = 3;
    CHECK(w_run(&w, "print hello", 0) && w.log.clears == 0 && w.end.background == 2);
    CHECK(strcmp(w.end.message, "2 processes still run in the background") == 0);
    CHECK(w_run(&w, "print hello", 0) && w.end.background == 2 && !w.end.message[0]); /* told once */
    w.log.left = 2;
    CHECK(w_run(&w, "sleep", 50) && w.end.verdict.cause == KR_CAUSE_TIMEOUT);
    CHECK(w.log.clears == 3 && w.log.since_ns > 0 && strstr(w.end.message, "2 processes that it started were ended"));
    w.log.left = 2;
    w.log.blind = 2; /* the counters, and the first clear: what fails is done again */
    CHECK(w_run(&w, "sleep", 50) && strstr(w.end.message, "1 process that it started was ended"));
    w.log.processes = w.log.clears = 0;
    CHECK(w_run(&w, "sleep", 50) && w.log.clears == 0 && w.end.have_background); /* a control: there are none */
    w.log.uncounted = true;
    CHECK(w_run(&w, "sleep", 50) && w.log.clears == 1 && !w.end.have_background); /* there may be some */
    CHECK(w_done(&w));
}

static void a_sandbox_may_end_what_a_run_leaves(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false));
    w.background = KR_BACKGROUND_END;
    CHECK(w_open(&w) && w_run(&w, "print hello", 0) && w.log.clears == 1 && !w.end.message[0]);
    w.log.left = 3;
    CHECK(w_run(&w, "print hello", 0) && w.log.clears == 5 && w.log.hards == 2);
    CHECK(strcmp(w.end.message, "3 processes that the run left behind were ended") == 0);
    w.log.left = 1000; /* it does not wait for ever */
    CHECK(w_run(&w, "print hello", 0) && w.end.verdict.cause == KR_CAUSE_OK);
    w.log.left = 1000;
    CHECK(w_begin(&w, "print hello", 0));
    spin(&w, 30);
    kr_session_close(w.session);
    CHECK(until(&w, &w.ended) && w.run_ended && w_done(&w));
}

/* ---- pools ---- */

static void a_pool_is_found_by_every_field_of_its_key(void)
{
    static const struct kr_holder other = {0};
    static struct world w;
    struct kr_pool_key key, changed[5];

    CHECK(w_start(&w, 0, false));
    key = (struct kr_pool_key){.holder = w.holder, .network = KR_NET_LOOPBACK};
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        changed[i] = key;
    changed[0].holder = &other;
    changed[1].zygote = 1;
    changed[2].network = KR_NET_NONE;
    changed[3].policy = KR_POLICY_MAX_;
    changed[4].tier = KR_TIER_MAX_;
    CHECK(kr_pool_add(w.engine, &key, 1, 1) == 0 && kr_pool_find(w.engine, &key));
    for (size_t i = 0; i < sizeof changed / sizeof *changed; i++)
        CHECK(!kr_pool_find(w.engine, &changed[i]));
    CHECK(w_done(&w));
}

static uint32_t parked_of(struct world *w, enum kr_net_kind network)
{
    struct kr_pool_key key = {.holder = w->holder, .network = network};
    const struct kr_session *s;
    uint32_t n = 0;

    TAILQ_FOREACH(s, &w->engine->sessions, link)
    n += s->state == KR_SESSION_PARKED && s->pool == kr_pool_find(w->engine, &key);
    return n;
}

static bool w_parked(struct world *w, uint32_t count)
{
    for (long end = patience_end(); kr_engine_zygote(w->engine, 0).parked != count && is_before(end);)
        spin(w, 10);
    return kr_engine_zygote(w->engine, 0).parked == count;
}

static void two_keys_never_share_a_parked_session(void)
{
    static struct world w;
    struct kr_pool_key loopback;
    uint32_t last;

    CHECK(w_start(&w, 1, false));
    /* One pool: an open of another network does not take from it. */
    CHECK(w_parked(&w, 1) && parked_of(&w, KR_NET_NONE) == 1);
    last = w.engine->last_number;
    CHECK(w_open_net(&w, KR_NET_LOOPBACK, true) && !kr_session_pooled(w.session));
    CHECK(w.session->number > last && w.log.started.network.kind == KR_NET_LOOPBACK);
    CHECK(parked_of(&w, KR_NET_NONE) == 1);
    /* Two pools: each is made with its own key, and each open takes from its own. */
    loopback = (struct kr_pool_key){.holder = w.holder, .network = KR_NET_LOOPBACK};
    CHECK(kr_pool_add(w.engine, &loopback, 1, 1) == 0);
    kr_pools_refill(w.engine);
    CHECK(w_parked(&w, 2) && w.log.opened.network.kind == KR_NET_LOOPBACK);
    CHECK(parked_of(&w, KR_NET_NONE) == 1 && parked_of(&w, KR_NET_LOOPBACK) == 1);
    CHECK(w_open_net(&w, KR_NET_LOOPBACK, true) && kr_session_pooled(w.session));
    CHECK(w.log.started.network.kind == KR_NET_LOOPBACK && parked_of(&w, KR_NET_NONE) == 1);
    CHECK(w_parked(&w, 2) && w_open_net(&w, KR_NET_NONE, true) && kr_session_pooled(w.session));
    CHECK(w.log.started.network.kind == KR_NET_NONE && parked_of(&w, KR_NET_LOOPBACK) == 1);
    CHECK(w_done(&w));
}

static void an_open_takes_the_session_that_is_being_made(void)
{
    static struct world w;
    uint32_t last;

    CHECK(w_start(&w, 1, false) && w_parked(&w, 1));
    CHECK(w_open_net(&w, KR_NET_NONE, true) && kr_session_pooled(w.session));
    CHECK(parked_of(&w, KR_NET_NONE) == 0); /* the next one is under way */
    last = w.engine->last_number;
    CHECK(w_open_net(&w, KR_NET_NONE, true) && !kr_session_pooled(w.session) && w.session->number == last);
    CHECK(w_run(&w, "print hello", 0) && strcmp(w.text, "hello") == 0 && w.end.verdict.cause == KR_CAUSE_OK);
    CHECK(w.log.started.limits.grace_ms == 1000 && w_parked(&w, 1));
    /* One that fails on its way is no reason to refuse the open: another is made for it. */
    CHECK(w_open_net(&w, KR_NET_NONE, true) && parked_of(&w, KR_NET_NONE) == 0);
    last = w.engine->last_number;
    w.log.refusals = 1;
    CHECK(w_open_net(&w, KR_NET_NONE, true) && w.session->number > last && w.log.refusals == 0);
    /* One of another network is not its. */
    CHECK(w_parked(&w, 1) && w_open_net(&w, KR_NET_NONE, true) && parked_of(&w, KR_NET_NONE) == 0);
    last = w.engine->last_number;
    CHECK(w_open_net(&w, KR_NET_LOOPBACK, true) && w.session->number > last);
    CHECK(w_done(&w));
}

static void a_pool_grows_with_demand_and_comes_back(void)
{
    static struct world w;
    unsigned releases;

    w.pool_max = 4;
    CHECK(w_start(&w, 1, false) && w_parked(&w, 1));
    CHECK(w_open_net(&w, KR_NET_NONE, true) && w_parked(&w, 1)); /* none was missing */
    CHECK(kr_engine_zygote(w.engine, 0).pool_size == 1);
    for (int i = 0; i < 9; i++)
        CHECK(w_open_net(&w, KR_NET_NONE, true));
    CHECK(w_parked(&w, 4) && kr_engine_zygote(w.engine, 0).pool_size == 4); /* and no more */
    releases = w.log.releases;
    for (int i = 0; i < 4; i++)
        CHECK(w_open_net(&w, KR_NET_NONE, true) && kr_session_pooled(w.session));
    /* Without demand it is what it was, and its surplus is gone. */
    CHECK(w_parked(&w, 4) && w_parked(&w, 1));
    for (int i = 0; i < 500 && w.log.releases < releases + 3; i++)
        spin(&w, 10);
    CHECK(kr_engine_zygote(w.engine, 0).pool_size == 1 && w.log.releases == releases + 3);
    w.pool_max = 0;
    CHECK(w_done(&w));
}

static void a_pool_comes_back_at_once_without_room(void)
{
    static struct world w;

    w.pool_max = 4;
    CHECK(w_start(&w, 1, false) && w_parked(&w, 1));
    for (int i = 0; i < 9; i++)
        CHECK(w_open_net(&w, KR_NET_NONE, true));
    CHECK(w_parked(&w, 4));
    w.engine->config.pool_ebb_ms = 3600000;
    kr_pools_ebb(w.engine);
    CHECK(kr_engine_zygote(w.engine, 0).parked == 1 && kr_engine_zygote(w.engine, 0).pool_size == 1);
    CHECK(w_done(&w));
}

static uint32_t parked_for(struct world *w, uint64_t owner)
{
    const struct kr_session *s;
    uint32_t n = 0;

    TAILQ_FOREACH(s, &w->engine->sessions, link)
    n += s->state == KR_SESSION_PARKED && s->pool && s->spec.owner == owner;
    return n;
}

static bool w_open_of(struct world *w, uint64_t owner, bool joins)
{
    w->owner = owner;
    w->joins = joins;
    return w_open_net(w, KR_NET_NONE, true);
}

static bool w_parked_for(struct world *w, uint64_t owner, uint32_t count)
{
    for (long end = patience_end(); parked_for(w, owner) != count && is_before(end);)
        spin(w, 10);
    return parked_for(w, owner) == count;
}

static void owners_never_share_a_parked_session(void)
{
    static struct world w;

    CHECK(w_start(&w, 1, false) && w_parked(&w, 1));
    CHECK(w_open_of(&w, 5, false) && kr_session_pooled(w.session) && w_parked(&w, 1));
    /* The first that joins is made; the next is parked beside it, and for that owner alone. */
    CHECK(w_open_of(&w, 5, true) && !kr_session_pooled(w.session));
    CHECK(w_parked_for(&w, 5, 1) && w_parked(&w, 1));
    CHECK(w_open_of(&w, 6, true) && !kr_session_pooled(w.session) && parked_for(&w, 5) == 1);
    CHECK(w_open_of(&w, 5, true) && kr_session_pooled(w.session) && w.log.started.owner == 5);
    CHECK(w_parked_for(&w, 5, 1) && w_parked_for(&w, 6, 1) && w_parked(&w, 1));
    /* Without sessions it has none parked; it begins with one of no owner again. */
    kr_engine_forget_owner(w.engine, 5);
    CHECK(parked_for(&w, 5) == 0 && parked_for(&w, 6) == 1);
    CHECK(w_open_of(&w, 5, false) && kr_session_pooled(w.session) && parked_for(&w, 6) == 1);
    CHECK(w_parked(&w, 1));
    /* Of many owners the last have one. */
    for (uint64_t owner = 10; owner < 10 + 2 * KR_POOL_OWNERS_MAX; owner++)
        CHECK(w_open_of(&w, owner, true) && w_parked_for(&w, owner, 1));
    CHECK(parked_for(&w, 6) == 0 && parked_for(&w, 10) == 0 && parked_for(&w, 9 + 2 * KR_POOL_OWNERS_MAX) == 1);
    CHECK(w_done(&w));
}

/* Which zygote an open that names the one for templates comes from. */
static uint32_t w_open_guest(struct world *w, uint32_t epoch)
{
    struct kr_session_spec spec = {.workspace = -1, .zygote = 1, .epoch = epoch};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    w->opened = w->ended = false;
    if (kr_engine_open(w->engine, &spec, true, &w_calls, w, &err) < 0 || !until(w, &w->opened) || !w->session)
        return UINT32_MAX;
    return w->log.opened.zygote;
}

static void nothing_waits_for_a_zygote_of_a_template(void)
{
    static struct world w;
    struct kr_session_spec wrong = {.workspace = -1, .zygote = 1, .otherwise = 1};
    struct kr_err err;

    CHECK(w_start(&w, 0, false));
    CHECK(kr_engine_zygote_count(w.engine) == 1 && w_open_guest(&w, 0) == 0); /* nothing was asked of it */
    kr_engine_preload(w.engine, 1, "abc");
    CHECK(w.log.preloads == 1 && kr_engine_zygote(w.engine, 1).state == KR_ZYG_STARTING && w_open_guest(&w, 1) == 0);
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 2);
    CHECK(w_open_guest(&w, 1) == 1);
    CHECK(w_open_guest(&w, 0) == 0); /* of what it imported before */
    fake_holder_zygote(w.holder, 1, KR_ZYG_FAILED, 2);
    CHECK(w_open_guest(&w, 1) == 0);
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 3);
    CHECK(w_open_guest(&w, 1) == 1);
    kr_engine_preload(w.engine, 1, "");
    CHECK(w.log.preloads == 2 && kr_engine_zygote(w.engine, 1).state == KR_ZYG_ENDED && w_open_guest(&w, 1) == 0);
    kr_engine_preload(w.engine, 0, "abc");
    kr_engine_preload(w.engine, 2, "abc");
    CHECK(w.log.preloads == 2);
    kr_limits_default(&wrong.limits);
    CHECK(kr_engine_open(w.engine, &wrong, true, &w_calls, &w, &err) < 0); /* none would be left */
    CHECK(w_done(&w));
}

/* One that such a zygote cannot make is made by the other, whatever was wrong. */
static void a_session_that_it_cannot_make_is_another_s(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false));
    kr_engine_preload(w.engine, 1, "abc");
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 2);
    w.log.refusals = 1;
    CHECK(w_open_guest(&w, 1) == 0 && w.log.refusals == 0);
    CHECK(w_open_guest(&w, 1) == 1);
    CHECK(w_done(&w));
}

/* Each of its sessions costs the time until it is given up: after three in a row none is tried, until it is told anew
 * what to import. */
static void one_whose_sessions_are_late_is_not_asked(void)
{
    static struct world w;

    CHECK(w_start(&w, 0, false));
    kr_engine_preload(w.engine, 1, "abc");
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 2);
    for (int i = 0; i < 2; i++) {
        w.log.late = 2;
        CHECK(w_open_guest(&w, 1) == UINT32_MAX && w.log.late == 0); /* the other's, too, is not tried again */
        w.log.late = i;
        CHECK(w_open_guest(&w, 1) == 1 - (uint32_t)i);
    }
    CHECK(kr_engine_zygote(w.engine, 1).state == KR_ZYG_READY);
    w.log.refusals = 1; /* what costs no time does not count */
    CHECK(w_open_guest(&w, 1) == 0 && kr_engine_zygote(w.engine, 1).state == KR_ZYG_READY);
    w.log.late = 1;
    CHECK(w_open_guest(&w, 1) == 0 && kr_engine_zygote(w.engine, 1).state == KR_ZYG_FAILED);
    CHECK(strstr(kr_engine_zygote(w.engine, 1).err->msg, "3 sessions of it in a row") != NULL);
    w.log.late = 0;
    CHECK(w_open_guest(&w, 1) == 0);
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 3); /* its successor has the same packages */
    CHECK(kr_engine_zygote(w.engine, 1).state == KR_ZYG_FAILED && w_open_guest(&w, 1) == 0);
    kr_engine_preload(w.engine, 1, "def");
    fake_holder_zygote(w.holder, 1, KR_ZYG_READY, 4);
    CHECK(w_open_guest(&w, 2) == 1);
    CHECK(w_done(&w));
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    kr_log_set_level(KR_LOG_ERROR);
    RUN(a_session_needs_no_warden);
    RUN(signals_and_kills_go_through_the_holder);
    RUN(a_refusal_reaches_the_caller);
    RUN(a_session_that_is_closed_while_it_opens_is_released);
    RUN(a_holder_that_is_gone_loses_every_run);
    RUN(runs_that_follow_each_other_are_not_paced);
    RUN(a_session_rests_after_looks_that_failed);
    RUN(counters_are_read_when_the_code_is_on_its_way);
    RUN(a_session_whose_budget_is_used_up_is_frozen);
    RUN(without_a_budget_it_rests_and_is_left_alone);
    RUN(a_sandbox_may_freeze_at_once);
    RUN(a_limit_ends_what_its_run_started);
    RUN(a_sandbox_may_end_what_a_run_leaves);
    RUN(a_pool_is_found_by_every_field_of_its_key);
    RUN(two_keys_never_share_a_parked_session);
    RUN(an_open_takes_the_session_that_is_being_made);
    RUN(a_pool_grows_with_demand_and_comes_back);
    RUN(a_pool_comes_back_at_once_without_room);
    RUN(owners_never_share_a_parked_session);
    RUN(nothing_waits_for_a_zygote_of_a_template);
    RUN(one_whose_sessions_are_late_is_not_asked);
    RUN(a_session_that_it_cannot_make_is_another_s);
    CHECK_DONE();
}
