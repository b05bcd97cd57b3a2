/* Engine sessions: their states, from the question to the holder to the last byte.
 *
 * Called by engine.c and pool.c (create, adopt), by the holder's events, and by the owner of a session. Invariants:
 * the state changes only in kr_session_set_state() and only along its table; an open is answered exactly once; a
 * session that was handed out ends with exactly one on_ended, after the end of its runs; nothing is freed here but
 * from the engine's graveyard. */
#include "engine_internal.h"
#include "clock.h"
#include "fd.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const kr_session_state_names[] = {
    [KR_SESSION_OPENING] = "opening",
    [KR_SESSION_READY] = "ready",
    [KR_SESSION_PARKED] = "parked",
    [KR_SESSION_STARTING] = "starting",
    [KR_SESSION_IDLE] = "idle",
    [KR_SESSION_RUNNING] = "running",
    [KR_SESSION_INTERRUPTING] = "interrupting",
    [KR_SESSION_KILLED] = "killed",
    [KR_SESSION_ENDING] = "ended",
    [KR_SESSION_ENDED] = "ended",
};
static_assert(sizeof kr_session_state_names / sizeof kr_session_state_names[0] == KR_SESSION_STATE_MAX_,
              "every state has its name");

#define BIT(state) (1u << KR_SESSION_##state)
#define GONE (BIT(KILLED) | BIT(ENDING))
#define LOST_TRIES 3u
#define IDLE_PART 8u            /* of the time that a session stands still passes until its folder is looked at again */
#define BLIND_COUNTS 4u         /* one may be of a process that is just ending */
#define SHORT_GROWTH (1u << 20) /* a folder that has grown by less is not what fills the server's disk */
/* Where each state may go. */
static const unsigned next_states[] = {
    [KR_SESSION_OPENING] = BIT(READY) | GONE,
    [KR_SESSION_READY] = BIT(PARKED) | BIT(STARTING) | GONE,
    [KR_SESSION_PARKED] = BIT(STARTING) | GONE,
    [KR_SESSION_STARTING] = BIT(IDLE) | GONE,
    [KR_SESSION_IDLE] = BIT(RUNNING) | GONE,
    [KR_SESSION_RUNNING] = BIT(IDLE) | BIT(INTERRUPTING) | GONE,
    [KR_SESSION_INTERRUPTING] = BIT(IDLE) | GONE,
    [KR_SESSION_KILLED] = BIT(ENDING),
    [KR_SESSION_ENDING] = BIT(ENDED),
    [KR_SESSION_ENDED] = 0,
};
static_assert(sizeof next_states / sizeof next_states[0] == KR_SESSION_STATE_MAX_, "every state has its row");

void kr_session_set_state(struct kr_session *s, enum kr_session_state next)
{
    assert(next_states[s->state] & (1u << next));
    s->state = next;
    if (next == KR_SESSION_IDLE)
        s->idle_since_ns = kr_clock_ns();
    if (next == KR_SESSION_IDLE || next == KR_SESSION_PARKED)
        kr_timer_disarm(s->timer);
}

/* ---- specs ---- */

void kr_session_spec_done(struct kr_session_spec *spec)
{
    for (size_t i = 0; i < spec->env_count; i++)
        free((char *)spec->env[i]);
    free((void *)spec->env);
    spec->env = NULL;
    spec->env_count = 0;
}

int kr_session_spec_copy(const struct kr_session_spec *from, struct kr_session_spec *ret)
{
    struct kr_session_spec spec = *from;
    const char **env = calloc(from->env_count + 1, sizeof *env);

    if (!env)
        return -ENOMEM;
    spec.env = env;
    for (spec.env_count = 0; spec.env_count < from->env_count; spec.env_count++) {
        env[spec.env_count] = strdup(from->env[spec.env_count]);
        if (!env[spec.env_count]) {
            kr_session_spec_done(&spec);
            return -ENOMEM;
        }
    }
    *ret = spec;
    return 0;
}

/* ---- timers ---- */

static void on_session_timer(void *data)
{
    struct kr_session *s = data;
    struct kr_err err;

    switch (s->state) {
    case KR_SESSION_OPENING:
    case KR_SESSION_READY:
    case KR_SESSION_STARTING:
        kr_err_set(&err, KR_ERR_BUSY, ETIMEDOUT, "the session was not ready within %u s", KR_SESSION_OPEN_MS / 1000);
        kr_session_open_failed(s, &err);
        break;
    case KR_SESSION_RUNNING:
    case KR_SESSION_INTERRUPTING:
        kr_run_on_timer(s->run);
        break;
    case KR_SESSION_KILLED:
        if (s->held->placed && !s->engine->gone)
            kr_log(KR_LOG_WARN, "no report of the end of a killed session", "session=%u", s->number);
        kr_session_ended(s, NULL);
        break;
    case KR_SESSION_PARKED:
    case KR_SESSION_IDLE:
    case KR_SESSION_ENDING:
    case KR_SESSION_ENDED:
    case KR_SESSION_STATE_MAX_:
        break;
    }
}

/* The counters came: is the CPU time used up? */
static void on_tick_usage(void *data, const struct kr_usage *usage)
{
    struct kr_session *s = data;

    if (!usage || s->state >= KR_SESSION_KILLED)
        return;
    s->usage = *usage;
    if ((s->usage.have & KR_LAYER_CGROUP_CPU) && s->usage.cpu_ns / 1000000u >= s->spec.limits.cpu_time_ms) {
        s->cpu_exceeded = true;
        kr_session_kill(s);
    }
}

static void on_counted(void *data, const struct kr_w_counted *counted, const struct kr_err *err)
{
    struct kr_session *s = data;

    s->count_due &= !s->count_settles;
    if (!counted) { /* what was counted last stands */
        s->cannot_count |= err->kind == KR_ERR_UNAVAILABLE;
        return;
    }
    s->blind_counts = counted->blind ? s->blind_counts + 1 : 0;
    s->count_not_before_ns = kr_clock_ns() + counted->took_ns * KR_SWEEP_REST;
    kr_sweep_set_unlinked(s->sweep, counted->bytes);
}

/* A deleted file that is still open takes room, and no walk of the folder finds it. The holder, which sees the
 * session's processes, is asked with each look; as a folder rests between two walks, so does the question. */
static void count_unlinked(struct kr_session *s)
{
    if (s->counts_only || s->cannot_count || s->count_ask.id || kr_clock_ns() < s->count_not_before_ns)
        return;
    s->count_settles = s->count_due;
    if (kr_held_count(s->held, &s->count_ask, on_counted, s) == -EOPNOTSUPP)
        s->cannot_count = true;
}

/* What a look found that began after the run did, or after the session was last seen to use CPU time. Sessions of one
 * sandbox share their looks: what an older one found may be another session's, and gone. False: the session is ended
 * for it. */
static bool folder_is_within(struct kr_session *s)
{
    const struct kr_measure_bound bound = {.bytes = s->counts_only ? UINT64_MAX : s->spec.limits.disk,
                                           .entries = s->spec.limits.inodes,
                                           .left =
                                               s->spec.disk_left && !s->counts_only ? s->spec.disk_left : UINT64_MAX,
                                           .grows = s->spec.workspace != KR_WORKSPACE_SHELF};
    const struct kr_measure *base, *last;
    struct kr_measure now;

    if ((!s->run && s->count_due) || !kr_sweep_seen(s->sweep, s->look_from_ns, &base, &last))
        return true;
    if (!s->run)
        s->look_from_ns = KR_SESSION_NO_LOOK;
    now = *last;
    now.bytes += kr_sweep_unlinked(s->sweep);
    if (s->blind_counts >= BLIND_COUNTS && now.gap == KR_MEASURE_WHOLE)
        now.gap = KR_MEASURE_HIDDEN;
    s->disk_over = kr_measure_judge(&bound, base, &now);
    s->disk_gap = now.gap;
    s->disk_short =
        !s->disk_over && !s->counts_only && now.bytes > base->bytes + SHORT_GROWTH && kr_session_disk_is_short(s);
    if (s->disk_over || s->disk_short)
        kr_session_kill(s);
    return !s->disk_over && !s->disk_short;
}

/* Between two runs a thread or a process that a run left can write. A session that has used no CPU time has not, so its
 * counter is read first, the less often the longer it stands still. */
static void check_idle_folder(struct kr_session *s)
{
    struct kr_usage usage = {0};
    bool is_known = kr_held_usage(s->held, &usage) >= 0 && (usage.have & KR_LAYER_CGROUP_CPU);
    uint64_t now = kr_clock_ns(), ms;

    if (!is_known || usage.cpu_ns != s->swept_cpu_ns) {
        if (kr_sweep_again(s->sweep)) { /* else the next tick tries again */
            s->swept_cpu_ns = usage.cpu_ns;
            s->count_due = !s->counts_only;
            if (s->look_from_ns == KR_SESSION_NO_LOOK)
                s->look_from_ns = now;
        }
        if (is_known || !s->still_ns)
            s->still_ns = now;
    }
    if (s->count_due)
        count_unlinked(s);
    s->count_due &= !s->cannot_count;
    ms = (now - (s->still_ns > s->idle_since_ns ? s->still_ns : s->idle_since_ns)) / 1000000u / IDLE_PART;
    s->idle_tick_ms = ms < KR_SESSION_TICK_MS        ? KR_SESSION_TICK_MS
                      : ms > KR_SESSION_IDLE_TICK_MS ? KR_SESSION_IDLE_TICK_MS
                                                     : (unsigned)ms;
}

static void check_folder(struct kr_session *s)
{
    if (!folder_is_within(s))
        return;
    if (s->run && !s->counts_only) {
        (void)kr_sweep_again(s->sweep);
        count_unlinked(s);
    } else {
        check_idle_folder(s);
    }
}

static void on_session_tick(void *data)
{
    struct kr_session *s = data;
    struct kr_err err;

    if (s->hung_up_ns && kr_clock_ns() - s->hung_up_ns > KR_SESSION_HANGUP_MS * UINT64_C(1000000)) {
        kr_err_set(&err, KR_ERR_PROTOCOL, 0, "the session closed its channel");
        kr_session_violation(s, &err);
    }
    if (s->state >= KR_SESSION_KILLED)
        return;
    if (s->spec.limits.cpu_time_ms > 0 && !s->ask.id)
        kr_held_ask_usage(s->held, &s->ask, on_tick_usage, s);
    if (s->sweep)
        check_folder(s);
    if (s->state < KR_SESSION_KILLED)
        kr_session_arm_tick(s);
}

void kr_session_arm_tick(struct kr_session *s)
{
    /* What runs on between runs uses CPU time too, and can write. Before the first run there is nothing. */
    bool needed = s->hung_up_ns || (s->sweep && s->has_run) || s->spec.limits.cpu_time_ms > 0;
    bool is_idle = !s->run && !s->hung_up_ns && s->spec.limits.cpu_time_ms == 0;

    if (needed && !s->tick && kr_timer_new(s->engine->loop, on_session_tick, s, &s->tick) < 0)
        return;
    if (needed && (!kr_timer_armed(s->tick) || (s->tick_is_slow && !is_idle)))
        kr_timer_arm(s->tick, is_idle ? s->idle_tick_ms : KR_SESSION_TICK_MS);
    s->tick_is_slow = is_idle;
}

/* ---- birth ---- */

static void on_between(void *data, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_session *s = data;

    if (s->handed_out && s->calls.on_between)
        s->calls.on_between(s->data, s, stream, text, len);
}

/* The process is there and enters its cell. */
static int take_opened(struct kr_session *s, const struct kr_held_opened *opened, struct kr_err *err)
{
    static const struct kr_watch_calls channel_calls = {.on_readable = kr_session_on_channel};
    static const struct kr_outq_calls out_calls = {0};
    int r;

    s->layers = opened->layers;
    s->generation = s->engine->zygotes[s->spec.zygote].generation;
    r = kr_watch_new(s->engine->loop, opened->fds[0], &channel_calls, s, &s->channel);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "channel");
    opened->fds[0] = -1;
    s->listener = steal_fd(opened->listener);
    r = kr_outq_new(s->channel, KR_FRAME_CHANNEL_MAX + 2 * KR_FRAME_HEAD + (1u << 20), &out_calls, s, &s->channel_out);
    if (r >= 0)
        r = kr_session_take_pipes(s, opened->fds + 1, opened->nfds - 1);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "pipes");
    kr_watch_want_read(s->channel, true);
    kr_timer_arm(s->timer, KR_SESSION_OPEN_MS);
    return 0;
}

void kr_session_on_opened(struct kr_session *s, const struct kr_held_opened *opened, const struct kr_err *err)
{
    struct kr_err why;

    if (!opened)
        kr_session_open_failed(s, err);
    else if (take_opened(s, opened, &why) < 0)
        kr_session_open_failed(s, &why);
}

int kr_session_create(struct kr_engine *e, struct kr_open *open, struct kr_pool *pool,
                      const struct kr_session_spec *spec, struct kr_err *err)
{
    struct kr_session *s = calloc(1, sizeof *s);
    int r = kr_engine_has_room(e, err);

    if (!s || r < 0) {
        free(s);
        return r < 0 ? r : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "session");
    }
    s->engine = e;
    s->open = open;
    s->pool = pool;
    s->of_pool = pool != NULL;
    s->number = ++e->last_number;
    s->listener = -1;
    TAILQ_INIT(&s->queue);
    kr_frame_reader_init(&s->reader, KR_FRAME_CHANNEL_MAX);
    kr_output_init(&s->between, false, spec->limits.output, on_between, s);
    r = kr_session_spec_copy(spec, &s->spec);
    if (r >= 0)
        r = kr_timer_new(e->loop, on_session_timer, s, &s->timer);
    if (r < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "session");
    else
        r = e->holder->ops->open(e->holder, s, spec, &s->held, err);
    if (r < 0) {
        s->open = NULL; /* still the caller's, who refuses it */
        kr_session_free(s);
        return r;
    }
    TAILQ_INSERT_TAIL(&e->sessions, s, link);
    e->session_fds += kr_session_fds(s);
    return 0;
}

/* ---- hand-over from the pool ---- */

void kr_session_on_started(struct kr_session *s, const struct kr_err *err)
{
    if (err) {
        kr_session_open_failed(s, err);
        return;
    }
    s->attached = true;
    kr_session_started(s);
}

/* Holder and session are asked at once: the session waits at its gate until the holder is done. */
int kr_session_start(struct kr_session *s, struct kr_err *err)
{
    int r;

    kr_session_set_state(s, KR_SESSION_STARTING);
    kr_timer_arm(s->timer, KR_SESSION_OPEN_MS);
    r = kr_held_start(s->held, &s->spec, err);
    return r < 0 ? r : kr_session_send_start(s, err);
}

int kr_session_adopt(struct kr_session *s, struct kr_open *open)
{
    struct kr_session_spec spec;
    struct kr_err err;
    int r = kr_session_spec_copy(&open->spec, &spec);

    if (r < 0)
        return r;
    kr_session_spec_done(&s->spec);
    s->spec = spec;
    s->pool = NULL;
    s->pooled = s->state == KR_SESSION_PARKED;
    kr_output_init(&s->between, false, spec.limits.output, on_between, s);
    r = s->pooled ? kr_session_start(s, &err) : 0; /* else when it is ready, or its warm-up is over */
    if (r >= 0)
        s->open = open;
    return r;
}

int kr_session_host_folder(const struct kr_session *s, char *buf, size_t size)
{
    const struct kr_engine_config *c = &s->engine->config;
    int32_t w = s->spec.workspace;

    if (w == KR_WORKSPACE_SHELF && c->shelf) {
        snprintf(buf, size, "%s/%s/files", c->shelf, s->spec.folder);
        return 0;
    }
    if (w < 0 || (size_t)w >= c->workspace_count || !c->workspaces[w].path)
        return -1;
    snprintf(buf, size, "%s", c->workspaces[w].path);
    return c->workspaces[w].read_only;
}

static void sweep_folder(struct kr_session *s, bool counts_only)
{
    char path[4096];

    s->counts_only = counts_only;
    if (kr_session_host_folder(s, path, sizeof path) == 0)
        kr_sweep_new(s->engine->sweeps, path, counts_only ? s->spec.limits.inodes : 0, &s->sweep);
    s->idle_tick_ms = KR_SESSION_TICK_MS;
    kr_session_arm_tick(s);
}

/* The first inode of every subvolume, which no other folder has. */
#define BTRFS_TOP_INODE 256u

static bool is_subvolume(const struct kr_session *s)
{
    char path[4096];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", s->engine->config.shelf, s->spec.folder);
    return stat(path, &st) == 0 && st.st_ino == BTRFS_TOP_INODE;
}

static void on_shelf_kind(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_session *s = data;

    (void)err;
    if (s->state < KR_SESSION_KILLED && (!shelved || shelved->kind == KR_SHELF_IS_FOLDER))
        sweep_folder(s, false);
}

/* Who sees that its folder stays within the limits: the filesystem, or our looks at it. A subvolume's bytes are limited
 * and its entries are not. */
static void watch_folder(struct kr_session *s)
{
    enum kr_shelf_kind kind = s->spec.workspace == KR_WORKSPACE_SHELF ? s->engine->shelf_kind : KR_SHELF_IS_FOLDER;
    struct kr_w_shelf question = {.op = KR_SHELF_USAGE};

    if (kind != KR_SHELF_IS_PROJECT) {
        sweep_folder(s, kind == KR_SHELF_IS_BTRFS && is_subvolume(s));
        return;
    }
    memcpy(question.name, s->spec.folder, sizeof question.name);
    if (kr_engine_shelf(s->engine, &question, &s->shelf_ask, on_shelf_kind, s) < 0)
        sweep_folder(s, false);
}

void kr_session_started(struct kr_session *s)
{
    struct kr_open *open;

    if (!s->attached || !s->confined)
        return;
    open = steal_ptr(&s->open);
    kr_session_set_state(s, KR_SESSION_IDLE);
    watch_folder(s);
    s->calls = open->calls;
    s->data = open->data;
    s->handed_out = true;
    kr_engine_came(s->engine, &s->spec);
    kr_engine_open_done(s->engine, s, open, NULL);
}

/* `state` is the one in which it failed. */
static void fail_open(struct kr_session *s, enum kr_session_state state, const struct kr_err *err)
{
    struct kr_open *open = steal_ptr(&s->open);
    struct kr_pool *pool = steal_ptr(&s->pool);
    /* One of the pool that was lost on the way, or a zygote that died meanwhile (then the warden may have taken the
     * cell down before it is asked to start in it): the next try finds another, or waits for it. One that was taken
     * down while it was made, and whose status is not known, is made again, LOST_TRIES times at most. Of a zygote for
     * templates whatever it was: the next try is another's. */
    bool again = !s->engine->stopping && (s->of_pool || (state == KR_SESSION_STARTING && err->code == ESRCH) ||
                                          (err->kind == KR_ERR_UNAVAILABLE && err->code == EAGAIN) ||
                                          (err->code == EOWNERDEAD && open && open->tries < LOST_TRIES) ||
                                          s->spec.zygote >= s->engine->config.zygote_count);

    s->why = *err;
    kr_session_kill(s);
    if (err->code == ETIMEDOUT && !s->engine->stopping) /* all else costs no time, and may be the sandbox's own fault */
        kr_engine_missed(s->engine, &s->spec);
    if (pool)
        kr_pool_made(pool, NULL, err);
    else if (open && again)
        kr_engine_open_again(s->engine, open);
    else if (open)
        kr_engine_open_done(s->engine, NULL, open, err);
}

void kr_session_open_failed(struct kr_session *s, const struct kr_err *err)
{
    fail_open(s, s->state, err);
}

/* ---- death ---- */

void kr_session_kill(struct kr_session *s)
{
    if (s->state >= KR_SESSION_KILLED)
        return;
    kr_held_forget(s->held, &s->ask);
    kr_held_forget(s->held, &s->background_ask);
    kr_held_forget_count(s->held, &s->count_ask);
    if (s->state == KR_SESSION_PARKED && s->pool)
        kr_pool_lost(steal_ptr(&s->pool), s);
    s->killed = true;
    kr_session_set_state(s, KR_SESSION_KILLED);
    if (kr_held_kill(s->held) >= 0)
        kr_timer_arm(s->timer, KR_SESSION_KILL_MS);
    else /* no report of its end will come. It does not end here: the caller still holds it. */
        kr_timer_arm(s->timer, 0);
}

void kr_session_violation(struct kr_session *s, const struct kr_err *err)
{
    char why[512];

    if (s->state >= KR_SESSION_KILLED)
        return;
    if (s->state < KR_SESSION_IDLE) {
        kr_session_open_failed(s, err);
        return;
    }
    kr_log(KR_LOG_WARN, "session killed after a protocol violation", "session=%u why=%s", s->number,
           kr_log_quote(why, sizeof why, err->msg, sizeof err->msg));
    s->broken = true;
    s->why = *err;
    kr_session_kill(s);
}

void kr_session_close(struct kr_session *s)
{
    s->closing = true;
    if (s->run && !s->run->interrupted && s->run->state != KR_RUN_ENDED)
        s->run->cancelled = true;
    kr_session_kill(s);
}

static void end_runs(struct kr_session *s, const struct kr_held_end *ended)
{
    struct kr_run *r;

    if (s->run)
        kr_run_finish(steal_ptr(&s->run), ended);
    while ((r = TAILQ_FIRST(&s->queue))) {
        TAILQ_REMOVE(&s->queue, r, link);
        kr_run_drop(r, s->closing ? KR_CAUSE_CANCELLED : KR_CAUSE_LOST, "the session ended before this run began");
    }
}

void kr_session_ended(struct kr_session *s, const struct kr_held_end *ended)
{
    static const struct kr_held_end unknown = {0};
    enum kr_session_state before = s->state;
    char text[sizeof((struct kr_run_end *)NULL)->message];
    enum kr_cause cause;
    struct kr_err err;
    bool in_run = s->run;

    if (before >= KR_SESSION_ENDING)
        return;
    kr_session_set_state(s, KR_SESSION_ENDING);
    kr_held_forget(s->held, &s->ask);
    kr_held_forget(s->held, &s->background_ask);
    kr_held_forget_count(s->held, &s->count_ask);
    kr_session_last_frames(s);
    kr_session_last_bytes(s);
    ended = ended ? ended : &unknown;
    s->usage = ended->known ? ended->usage : s->usage;
    cause = kr_run_cause_without(s, ended);
    if (s->open || s->pool) {
        if (s->closing) /* before it was handed out: only kr_engine_stop() does that */
            kr_err_set(&err, KR_ERR_BUSY, 0, KR_STOPPING);
        else if (ended->known)
            kr_err_set(&err, KR_ERR_BUSY, 0, "the session ended before it was ready (%s, wait status %d)",
                       kr_cause_rows[cause].name, ended->status);
        else
            kr_err_set(&err, KR_ERR_BUSY, EOWNERDEAD,
                       "the session ended before it was ready, and its status is not known");
        if (before == KR_SESSION_PARKED)
            kr_pool_lost(steal_ptr(&s->pool), s);
        else
            fail_open(s, before, &err);
    }
    end_runs(s, ended);
    kr_session_set_state(s, KR_SESSION_ENDED);
    kr_session_close_pipes(s);
    if (s->handed_out) /* its run has told why */
        s->calls.on_ended(s->data, s, cause, in_run ? "" : kr_session_end_text(s, cause, text, sizeof text));
    kr_engine_bury(s->engine, s);
}

void kr_session_free(struct kr_session *s)
{
    struct kr_run *r;

    if (s->run)
        kr_run_free(s->run);
    while ((r = TAILQ_FIRST(&s->queue))) {
        TAILQ_REMOVE(&s->queue, r, link);
        kr_run_free(r);
    }
    if (s->open)
        kr_engine_free_open(s->open);
    if (s->held) {
        kr_held_forget(s->held, &s->ask);
        kr_held_forget(s->held, &s->background_ask);
        kr_held_forget_count(s->held, &s->count_ask);
        s->held->holder->ops->release(s->held);
    }
    kr_session_close_pipes(s);
    kr_fd_close(s->listener);
    kr_timer_close(s->timer);
    kr_timer_close(s->tick);
    kr_timer_close(s->background);
    kr_timer_close(s->more);
    kr_timer_close(s->rest);
    kr_engine_forget_shelf(s->engine, &s->shelf_ask);
    kr_sweep_close(s->sweep);
    kr_frame_reader_done(&s->reader);
    kr_session_spec_done(&s->spec);
    free(s);
}

void kr_session_next_run(struct kr_session *s)
{
    struct kr_run *r = TAILQ_FIRST(&s->queue);

    if (s->state != KR_SESSION_IDLE || !r || s->reading)
        return;
    TAILQ_REMOVE(&s->queue, r, link);
    kr_run_start(r);
}

int kr_session_usage(const struct kr_session *s, struct kr_usage *ret)
{
    int r = kr_held_usage(s->held, ret);

    return r >= 0 && ret->cpu_ns < s->usage.cpu_ns ? -EAGAIN : r;
}

/* ---- what it is ---- */

enum kr_session_state kr_session_state(const struct kr_session *s)
{
    return s->state;
}

const struct kr_limits *kr_session_limits(const struct kr_session *s)
{
    return &s->spec.limits;
}

uint32_t kr_session_layers(const struct kr_session *s)
{
    uint32_t layers = s->layers & ~(uint32_t)(KR_LAYER_SECCOMP | KR_LAYER_LANDLOCK);

    return layers | (s->claim.seccomp ? KR_LAYER_SECCOMP : 0) | (s->claim.landlock_abi > 0 ? KR_LAYER_LANDLOCK : 0);
}

int kr_session_landlock_abi(const struct kr_session *s)
{
    return s->claim.landlock_abi;
}

const char *kr_session_python(const struct kr_session *s)
{
    return s->claim.python;
}

bool kr_session_has_venv(const struct kr_session *s)
{
    return s->spec.venv;
}

int kr_session_listener(const struct kr_session *s)
{
    return s->listener;
}

uint64_t kr_session_cell(const struct kr_session *s)
{
    return s->number;
}

bool kr_session_pooled(const struct kr_session *s)
{
    return s->pooled;
}
