/* What a session does between two runs: its pace, the budget `background_cpu`, and the end of what a run has left.
 *
 * Called by run.c when a run begins and ends; the holder does what is decided here. Invariants: a run begins at full
 * pace; a session that rests or is frozen has no run; a stretch between two runs uses no more than its budget and
 * LOOK_MS of its cores; a frozen session, or one without a budget that rests, is not looked at; a run that ended
 * through a limit leaves no process that it started.
 *
 * Runs that follow each other at once cost nothing: the first look is FIRST_MS after the end. A session cannot use more
 * than its `cpu` allows, so the next look is due when it could have used up the rest of its budget: with the defaults
 * an idle session is looked at once a minute. */
#include "clock.h"
#include "counters.h"
#include "engine_internal.h"
#include "log.h"
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#define FIRST_MS 50u
#define REST_MS 1000u     /* an idle session has the lowest weight from then on, a busy one from the first look on */
#define LOOK_MS 250u      /* two looks are not closer than that */
#define BUSY_NS 1000000u  /* CPU time in FIRST_MS that no idle interpreter uses */
#define CLEAR_AGAIN_MS 4u /* until processes that were killed are gone */
#define CLEAR_SOON 25u    /* so many times; then the machine is busy, or one of them hangs in the kernel */
#define CLEAR_LATER_MS 40u
#define CLEAR_TRIES 145u /* 5 s in all */

const char *const kr_background_names[KR_BACKGROUND_MAX_ + 1] = {"keep", "freeze", "end", NULL};

static bool can_pace(const struct kr_session *s)
{
    return (s->layers & KR_LAYER_CGROUP_CPU) && s->state == KR_SESSION_IDLE && !s->engine->gone;
}

static void set_pace(struct kr_session *s, enum kr_pace pace)
{
    if (s->pace == pace || kr_held_pace(s->held, pace) < 0) /* the holder is gone: nothing runs any more */
        return;
    s->pace = pace;
}

/* ---- between two runs ---- */

static void freeze_spent(struct kr_session *s, uint64_t used_ns)
{
    s->spent = true;
    set_pace(s, KR_PACE_FROZEN);
    kr_log(KR_LOG_INFO, "session frozen, its background_cpu is used up", "session=%u ms=%" PRIu64, s->number,
           used_ns / 1000000u);
}

/* When the budget could be used up, if all its cores are busy from now on. */
static uint64_t next_look_ms(const struct kr_session *s, uint64_t used_ms)
{
    uint64_t ms = (s->spec.limits.background_cpu_ms - used_ms) * 1000 / s->spec.limits.cpu_milli;

    if (s->pace == KR_PACE_RUN && ms > REST_MS)
        return REST_MS;
    return ms > LOOK_MS ? ms : LOOK_MS;
}

static void judge(struct kr_session *s, const struct kr_usage *usage)
{
    uint64_t budget_ms = s->spec.limits.background_cpu_ms;
    uint64_t used_ns = usage->cpu_ns > s->idle_cpu_ns ? usage->cpu_ns - s->idle_cpu_ns : 0;

    if (s->looks++ > 0 || used_ns > BUSY_NS)
        set_pace(s, KR_PACE_REST);
    if (budget_ms > 0 && used_ns / 1000000u >= budget_ms)
        freeze_spent(s, used_ns);
    else if (budget_ms > 0)
        kr_timer_arm(s->background, next_look_ms(s, used_ns / 1000000u));
    else if (s->pace == KR_PACE_RUN)
        kr_timer_arm(s->background, REST_MS);
}

static void on_background_usage(void *data, const struct kr_usage *usage)
{
    struct kr_session *s = data;

    if (!can_pace(s) || s->pace == KR_PACE_FROZEN)
        return;
    if (usage)
        judge(s, usage);
    else /* not readable now: without another look it would never rest, and use more than its budget */
        kr_timer_arm(s->background, REST_MS);
}

static void look_at_background(struct kr_session *s)
{
    struct kr_usage usage;

    if (!can_pace(s) || s->pace == KR_PACE_FROZEN || s->background_ask.id)
        return;
    if (kr_session_usage(s, &usage) >= 0)
        judge(s, &usage);
    else if (kr_held_ask_usage(s->held, &s->background_ask, on_background_usage, s) < 0)
        on_background_usage(s, NULL);
}

static void on_background_timer(void *data)
{
    struct kr_session *s = data;

    if (s->run && s->run->state == KR_RUN_ENDED)
        kr_background_clear(s->run);
    else
        look_at_background(s);
}

static int arm_background(struct kr_session *s, uint64_t ms)
{
    int r = s->background ? 0 : kr_timer_new(s->engine->loop, on_background_timer, s, &s->background);

    if (r >= 0)
        kr_timer_arm(s->background, ms);
    return r;
}

void kr_background_begin(struct kr_session *s)
{
    s->looks = 0;
    s->idle_cpu_ns = s->usage.cpu_ns;
    if (!can_pace(s))
        return;
    if (s->spec.background == KR_BACKGROUND_FREEZE || arm_background(s, FIRST_MS) < 0)
        set_pace(s, KR_PACE_FROZEN);
}

void kr_background_end(struct kr_session *s)
{
    kr_held_forget(s->held, &s->background_ask);
    s->spent = false;
    set_pace(s, KR_PACE_RUN);
}

bool kr_session_spent(const struct kr_session *s)
{
    return s->spent;
}

/* ---- what a run has left ---- */

static void on_cleared(void *data, const struct kr_usage *usage)
{
    struct kr_run *r = data;
    struct kr_session *s = r->session;

    if (usage && r->left_behind == 0)
        r->left_behind = r->ask.left;
    if ((!usage || r->ask.left > 0) && ++r->clears < CLEAR_TRIES &&
        arm_background(s, r->clears < CLEAR_SOON ? CLEAR_AGAIN_MS : CLEAR_LATER_MS) >= 0)
        return; /* they are dying, or it failed */
    if (!usage || r->ask.left > 0)
        kr_log(KR_LOG_WARN, "processes that a run left not ended, ignoring", "session=%u left=%u", s->number,
               usage ? r->ask.left : 0);
    s->has_dead = r->left_behind > 0;
    kr_session_drain(s); /* what the dead have written is of this run, not of the next */
    kr_run_settle(r, usage);
}

uint64_t kr_run_boot_time(const struct kr_run *r)
{
    uint64_t age_ns = kr_clock_ns() - r->started_ns;
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec - age_ns;
}

int kr_background_clear(struct kr_run *r)
{
    struct kr_session *s = r->session;

    if (s->spec.background == KR_BACKGROUND_END && r->clearing == KR_CLEAR_NONE)
        r->clearing = KR_CLEAR_ALL;
    if (r->clearing == KR_CLEAR_NONE || !(s->layers & KR_LAYER_CGROUP_CPU))
        return -ENOTSUP;
    if (s->state >= KR_SESSION_KILLED || r->ask.id)
        return 0;
    return kr_held_clear(s->held, &r->ask, r->clearing == KR_CLEAR_STARTED ? kr_run_boot_time(r) : 0,
                         r->clearing == KR_CLEAR_BOMB || r->clears > 1, on_cleared, r);
}

/* A run that is stopped from outside, or by a limit, is not done with what it started. One that ended by itself leaves
 * what it leaves on purpose. Where `processes` was hit, nothing tells a bomb from its earlier sparks: all of it goes.
 */
static enum kr_clearing what_to_clear(const struct kr_run *r, bool counted)
{
    static const unsigned ended_by_limit = 1u << KR_CAUSE_TIMEOUT | 1u << KR_CAUSE_MEMORY_LIMIT |
                                           1u << KR_CAUSE_CPU_LIMIT | 1u << KR_CAUSE_DISK_LIMIT |
                                           1u << KR_CAUSE_PROCESS_LIMIT | 1u << KR_CAUSE_INTERRUPTED;
    struct kr_verdict v;

    if (counted && kr_usage_others(&r->session->usage) == 0)
        return KR_CLEAR_NONE; /* what could not be counted may be there */
    v = kr_run_judge(r);
    if (v.hits & KR_HIT_PROCESSES)
        return KR_CLEAR_BOMB;
    return ended_by_limit >> v.cause & 1 ? KR_CLEAR_STARTED : KR_CLEAR_NONE;
}

int kr_background_clear_started(struct kr_run *r, bool counted)
{
    if (r->clearing == KR_CLEAR_NONE)
        r->clearing = what_to_clear(r, counted);
    return kr_background_clear(r);
}
