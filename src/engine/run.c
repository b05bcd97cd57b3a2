/* One run, from its queue to its verdict.
 *
 * Called by the owner of a session (new, interrupt, cancel, reply) and by session.c (start, timer, frames, finish).
 * Invariants: a run ends exactly once, through kr_run_finish() or kr_run_drop() (run_end.c), and is freed there;
 * after its S_END it is neither interrupted nor timed out; what it prints until its end is read before
 * on_end. */
#include "engine_internal.h"
#include "clock.h"
#include "fd.h"
#include "json.h"
#include "log.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHELF_FULL (1u << 20) /* bytes; a write is refused before the last of them */
#define ASKS_MAX 16u          /* questions for a line that are not answered yet */
#define YOUNG_NS 250000000u
#define AGAIN_MS 100u
#define QUIET_NS 1000000u
#define STEER_WAITING 4096u /* bytes of the channel */
#define PACKAGED_WAITING (128u << 10)
#define PACKAGES_MAX 2000u /* frames of a run at once: what pip sends for a few hundred calls … */
#define PACKAGES_PER_S 5u  /* … and more as it goes on: a terminal lives for days */

#define BIT(state) (1u << KR_RUN_##state)
/* Where each state may go. */
static const unsigned next_states[] = {
    [KR_RUN_QUEUED] = BIT(RUNNING),
    [KR_RUN_RUNNING] = BIT(ASKING) | BIT(STOPPING) | BIT(ENDED),
    [KR_RUN_ASKING] = BIT(RUNNING) | BIT(ENDED),
    [KR_RUN_STOPPING] = BIT(ENDED),
    [KR_RUN_ENDED] = 0,
};
static_assert(sizeof next_states / sizeof next_states[0] == KR_RUN_STATE_MAX_, "every state has its row");

static void set_state(struct kr_run *r, enum kr_run_state next)
{
    assert(next_states[r->state] & (1u << next));
    r->state = next;
}

/* ---- into the queue ---- */

/* Appends to a text of KR_HINT_SAID_MAX bytes at most, whose beginning is dropped. NUL bytes are spaces. */
static void keep_said(char *said, const char *text, size_t len)
{
    size_t have = strlen(said), more = len < KR_HINT_SAID_MAX ? len : KR_HINT_SAID_MAX, left = KR_HINT_SAID_MAX - more;

    if (have > left) {
        memmove(said, said + have - left, left);
        have = left;
    }
    for (size_t i = 0; i < more; i++)
        said[have + i] = text[len - more + i] ? text[len - more + i] : ' ';
    said[have + more] = '\0';
}

static void on_output(void *data, enum kr_stream stream, const char *text, size_t len)
{
    struct kr_run *r = data;

    if (r->said)
        keep_said(r->said, text, len);
    r->calls.on_output(r->data, r, stream, text, len);
}

static size_t queue_length(const struct kr_session *s)
{
    size_t n = 0;
    struct kr_run *r;

    TAILQ_FOREACH(r, &s->queue, link)
    n++;
    return n;
}

int kr_run_new(struct kr_session *s, const struct kr_run_spec *spec, const struct kr_run_calls *calls, void *data,
               struct kr_run **ret_run, struct kr_err *err)
{
    struct kr_run *r;
    int e;

    if (s->state >= KR_SESSION_KILLED || !s->handed_out)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "session %u has ended", s->number);
    if (queue_length(s) >= KR_RUN_QUEUE_MAX)
        return kr_err_set(err, KR_ERR_LIMIT, 0, "%d runs wait for session %u already", KR_RUN_QUEUE_MAX, s->number);
    r = calloc(1, sizeof *r);
    if (r && spec->shell)
        r->said = calloc(1, KR_HINT_SAID_MAX + 1); /* NULL: no hint */
    if (!r)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "run");
    kr_buf_init(&r->json, spec->terminal ? kr_frame_types[KR_S_TERMINAL].max_len : KR_FRAME_CHANNEL_MAX);
    e = spec->terminal ? kr_run_spec_write_terminal(spec, &r->json)
                       : kr_run_spec_write(spec, s->last_name + 1, &r->json);
    if (e < 0) {
        kr_buf_done(&r->json);
        free(r->said);
        free(r);
        return e == -ENOBUFS ? kr_err_set(err, KR_ERR_INVALID, 0, "the %s",
                                          spec->terminal ? "command is too long" : "code is larger than 16 MiB")
                             : kr_err_set(err, KR_ERR_SYSTEM, -e, "run");
    }
    s->last_name++;
    r->session = s;
    r->calls = *calls;
    r->data = data;
    r->install_call = spec->install_call ? spec->install_call : "pip install " KR_IMPORT_NAME;
    r->script = spec->script != NULL;
    r->terminal = spec->terminal != NULL;
    r->timeout_ms = spec->timeout_ms;
    kr_output_init(&r->output, spec->raw, (uint64_t)spec->output_cap, on_output, r);
    r->display_cap = spec->output_cap > 0 && spec->output_cap < KR_RUN_DISPLAY_BYTES_MAX ? (uint64_t)spec->output_cap
                                                                                         : KR_RUN_DISPLAY_BYTES_MAX;
    TAILQ_INSERT_TAIL(&s->queue, r, link);
    *ret_run = r;
    kr_session_next_run(s);
    return 0;
}

/* ---- running ---- */

/* The counters as they were when it began, if the session was idle long enough to matter. They are read after the code
 * is sent, since the reading takes as long as a warm run's way to the session. The code may have run since: what it can
 * have used on both of two processors for each of its own is left to it, and QUIET_NS beside that counts as nothing
 * between the runs. Then what was known at the end of the last run holds on, and a limit hit since is this run's. */
static void take_before(struct kr_run *r, const struct kr_usage *usage)
{
    struct kr_session *s = r->session;
    uint64_t own = (kr_clock_ns() - r->started_ns) * (s->spec.limits.cpu_milli / 1000u + 1) * 2;
    uint64_t used = usage->cpu_ns > s->usage.cpu_ns ? usage->cpu_ns - s->usage.cpu_ns : 0;

    if (used <= own + QUIET_NS)
        return;
    r->before = *usage;
    r->before.cpu_ns -= own;
    s->between_cpu_ns += used - own;
    if (used - own > UINT64_C(10000000))
        kr_log(KR_LOG_INFO, "processor time was used between runs", "session=%u ms=%" PRIu64, s->number,
               (used - own) / 1000000u);
}

static void on_before_usage(void *data, const struct kr_usage *usage)
{
    if (usage)
        take_before(data, usage);
}

static void look_before(struct kr_run *r)
{
    struct kr_session *s = r->session;
    struct kr_usage usage;

    if (kr_session_usage(s, &usage) >= 0)
        take_before(r, &usage);
    else
        kr_held_ask_usage(s->held, &r->ask_before, on_before_usage, r);
}

void kr_run_start(struct kr_run *r)
{
    struct kr_session *s = r->session;
    uint64_t now = kr_clock_ns();
    struct kr_err err;
    int e;

    s->run = r;
    set_state(r, KR_RUN_RUNNING);
    r->id = ++s->last_run;
    s->has_run = true;
    r->started_ns = s->look_from_ns = now;
    r->before = s->usage;
    kr_session_set_state(s, KR_SESSION_RUNNING);
    kr_session_calm(s);
    if (r->timeout_ms)
        kr_timer_arm(s->timer, r->timeout_ms);
    if (s->has_dead && !r->terminal)
        (void)kr_run_spec_add_dead(&r->json); /* no room: they stay until the session ends */
    s->has_dead = false;
    e = kr_session_send(s, r->terminal ? KR_S_TERMINAL : KR_S_RUN, r->id, &r->json);
    kr_buf_done(&r->json);
    if (e < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, -e, "send the code");
        if (e != -EPIPE && e != -ECONNRESET) /* then it is dying, and its end says why */
            kr_session_violation(s, &err);
    }
    r->thawed = s->spent;
    kr_background_end(s); /* after the code: it is on its way while the holder does its part */
    if (r->id > 1 && now - s->idle_since_ns > KR_SESSION_GAP_MS * UINT64_C(1000000))
        look_before(r);
    kr_session_arm_tick(s);
}

/* A session takes a SIGINT that is pending before its code begins for one of the last run. So S_INTERRUPT goes first:
 * it names the run. */
static void signal_run(struct kr_run *r)
{
    struct kr_session *s = r->session;
    struct kr_buf nothing;

    kr_buf_init(&nothing, 0);
    if (!r->signalled)
        (void)kr_session_send(s, KR_S_INTERRUPT, r->id, &nothing);
    r->signalled = true;
    /* What an earlier run left on purpose is not to be interrupted with this one. */
    kr_held_signal(s->held, s->others > 0 ? kr_run_boot_time(r) : 0, SIGINT);
    if (s->state == KR_SESSION_RUNNING)
        kr_session_set_state(s, KR_SESSION_INTERRUPTING);
}

/* SIGINT and the grace; without a grace, the kill. A young run is sent another: a thread of user code may have taken
 * the first while the main thread was between two waits. */
static void stop_run(struct kr_run *r)
{
    struct kr_session *s = r->session;
    uint64_t grace_ms = s->spec.limits.grace_ms;

    set_state(r, KR_RUN_STOPPING);
    if (grace_ms == 0) {
        kr_session_kill(s);
        return;
    }
    signal_run(r);
    r->signal_again = grace_ms > 2 * AGAIN_MS && kr_clock_ns() - r->started_ns < YOUNG_NS;
    kr_timer_arm(s->timer, r->signal_again ? AGAIN_MS : grace_ms);
}

/* ---- the wall time while input() waits ---- */

static uint64_t ask_ms(const struct kr_run *r)
{
    return r->timeout_ms > KR_RUN_ASK_MS         ? KR_RUN_ASK_MS
           : r->timeout_ms < KR_RUN_ASK_LEAST_MS ? KR_RUN_ASK_LEAST_MS
                                                 : r->timeout_ms;
}

static void stop_clock(struct kr_run *r)
{
    if (r->state != KR_RUN_RUNNING || r->script || !r->timeout_ms || r->stood_ns >= KR_RUN_ASKS_MS * UINT64_C(1000000))
        return;
    set_state(r, KR_RUN_ASKING);
    r->asked_ns = kr_clock_ns();
    kr_timer_arm(r->session->timer, ask_ms(r));
}

static void resume_clock(struct kr_run *r)
{
    uint64_t now = kr_clock_ns(), used;

    if (r->state != KR_RUN_ASKING)
        return;
    set_state(r, KR_RUN_RUNNING);
    r->stood_ns += now - r->asked_ns;
    used = (now - r->started_ns - r->stood_ns) / 1000000u;
    kr_timer_arm(r->session->timer, used < r->timeout_ms ? r->timeout_ms - used : 0);
}

void kr_run_on_timer(struct kr_run *r)
{
    switch (r->state) {
    case KR_RUN_RUNNING:
        r->timed_out = true;
        stop_run(r);
        break;
    case KR_RUN_ASKING: /* no answer came: it has the end of input */
        kr_run_unanswered(r);
        break;
    case KR_RUN_STOPPING:
        if (r->signal_again) {
            r->signal_again = false;
            signal_run(r);
            kr_timer_arm(r->session->timer, r->session->spec.limits.grace_ms - AGAIN_MS);
        } else { /* the grace is over */
            kr_session_kill(r->session);
        }
        break;
    case KR_RUN_ENDED: /* a script that does not exit after its end */
        kr_session_kill(r->session);
        break;
    case KR_RUN_QUEUED:
    case KR_RUN_STATE_MAX_:
        break;
    }
}

void kr_run_interrupt(struct kr_run *r, bool insist)
{
    struct kr_session *s = r->session;

    if (r->state == KR_RUN_QUEUED) {
        TAILQ_REMOVE(&s->queue, r, link);
        kr_run_drop(r, KR_CAUSE_INTERRUPTED, "interrupted before it began");
        return;
    }
    if (r->state == KR_RUN_ENDED || s->state >= KR_SESSION_KILLED)
        return;
    r->interrupted = true;
    resume_clock(r); /* the KeyboardInterrupt ends the question */
    if (insist && r->state != KR_RUN_STOPPING)
        stop_run(r);
    else
        signal_run(r); /* the wall time, if there is one, goes on */
}

void kr_run_cancel(struct kr_run *r)
{
    struct kr_session *s = r->session;

    if (r->state == KR_RUN_QUEUED) {
        TAILQ_REMOVE(&s->queue, r, link);
        kr_run_drop(r, KR_CAUSE_CANCELLED, "cancelled before it began");
        return;
    }
    if (r->state != KR_RUN_ENDED)
        r->cancelled = true;
    kr_session_kill(s);
}

int kr_run_steer(struct kr_run *r, const struct kr_s_steer *how)
{
    cleanup_buf struct kr_buf buf = {0};

    if (!r->terminal || r->state != KR_RUN_RUNNING || r->session->state >= KR_SESSION_KILLED)
        return -ESRCH;
    if (kr_outq_pending(r->session->channel_out) > STEER_WAITING) /* it does not read: the last size would come late */
        return -ENOBUFS;
    kr_buf_init(&buf, sizeof *how);
    return kr_buf_add(&buf, how, sizeof *how) < 0 ? -ENOMEM : kr_session_send(r->session, KR_S_STEER, r->id, &buf);
}

bool kr_run_takes_display(struct kr_run *r, size_t len)
{
    if (r->displays < KR_RUN_DISPLAYS_MAX && r->display_bytes + len <= r->display_cap)
        return true;
    r->displays_cut++;
    return false;
}

void kr_run_on_display(struct kr_run *r, const char *json, size_t len, size_t frame_len)
{
    r->displays++;
    r->display_bytes += frame_len;
    if (r->calls.on_display)
        r->calls.on_display(r->data, r, json, len);
}

int kr_run_on_input(struct kr_run *r, const char *prompt, bool password, struct kr_err *err)
{
    /* More than one: an interrupted input() leaves its question behind, and the next asks again. */
    if (++r->asks > ASKS_MAX)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the session asked for %u lines and awaited none", ASKS_MAX);
    r->asked = true;
    r->question_ns = kr_clock_ns();
    stop_clock(r);
    if (r->calls.on_input)
        r->calls.on_input(r->data, r, prompt, password);
    else
        kr_run_reply(r, NULL, 0);
    return 0;
}

int kr_run_reply(struct kr_run *r, const char *text, size_t len)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;
    int e;

    kr_buf_init(&buf, KR_FRAME_CHANNEL_MAX);
    if (!kr_run_asks(r))
        return -EINVAL;
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    if (text) {
        kr_json_key(&j, "text");
        kr_json_str_n(&j, text, len);
    } else {
        kr_json_key_bool(&j, "eof", true);
    }
    kr_json_object_end(&j);
    e = kr_json_done(&j);
    if (e >= 0)
        e = kr_session_send(r->session, KR_S_REPLY, r->id, &buf);
    if (e >= 0) {
        r->asked = false;
        resume_clock(r);
        if (kr_outq_pending(r->session->channel_out) == 0) /* else it asks on and leaves the answers unread */
            r->asks = 0;
    }
    return e;
}

/* ---- packages ---- */

int kr_run_on_packages(struct kr_run *r, uint32_t number, const json_t *ask, struct kr_err *err)
{
    static const char none[] = "{\"end\":true,\"ok\":false,\"error\":\"packages cannot be installed in this sandbox\"}";

    if (++r->packages > PACKAGES_MAX + (kr_clock_ns() - r->started_ns) / 1000000000u * PACKAGES_PER_S)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the session asked for packages %u times in one run",
                          r->packages);
    if (r->calls.on_packages)
        r->calls.on_packages(r->data, r, number, ask);
    else
        (void)kr_run_packaged(r, number, none, sizeof none - 1, true);
    return 0;
}

int kr_run_packaged(struct kr_run *r, uint32_t number, const char *json, size_t len, bool is_last)
{
    struct kr_session *s = r->session;
    cleanup_buf struct kr_buf buf = {0};

    if (r->state == KR_RUN_QUEUED || r->state == KR_RUN_ENDED || s->state >= KR_SESSION_KILLED)
        return -ESRCH;
    if (!is_last && kr_outq_pending(s->channel_out) > PACKAGED_WAITING)
        return -ENOBUFS;
    kr_buf_init(&buf, kr_frame_types[KR_S_PACKAGED].max_len);
    return kr_buf_add(&buf, json, len) < 0 ? -E2BIG : kr_session_send(s, KR_S_PACKAGED, number, &buf);
}

/* ---- the end ---- */

void kr_run_settle(struct kr_run *r, const struct kr_usage *usage)
{
    struct kr_session *s = r->session;

    if (usage)
        s->usage = *usage;
    s->run = NULL;
    s->look_from_ns = KR_SESSION_NO_LOOK; /* the next look is the first that can blame what it left */
    if (s->state < KR_SESSION_KILLED)
        kr_session_set_state(s, KR_SESSION_IDLE);
    kr_run_finish(r, NULL);
    kr_session_next_run(s);
    kr_background_begin(s);
}

/* The counters of its end: they tell whether a limit ended it, and whether it left processes. */
static void on_after_usage(void *data, const struct kr_usage *usage)
{
    struct kr_run *r = data;

    if (usage)
        r->session->usage = *usage;
    if (kr_background_clear_started(r, usage != NULL) < 0)
        kr_run_settle(r, usage);
}

static void look_after(struct kr_run *r)
{
    struct kr_session *s = r->session;
    struct kr_usage usage;

    /* The holder's answer also says that a signal of this run is delivered: a later one would hit the next run. And
     * what is read now may not be followed by an answer that was given before. */
    if (kr_background_clear(r) >= 0)
        return;
    if (!r->signalled && !r->ask_before.id && !s->ask.id && kr_session_usage(s, &usage) >= 0) {
        on_after_usage(r, &usage);
    } else if (kr_held_ask_usage(s->held, &r->ask, on_after_usage, r) < 0) {
        kr_session_kill(s); /* the holder is gone */
    }
}

static void on_shelf_room(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_run *r = data;

    (void)err;
    r->session->shelf_full = shelved && shelved->room < SHELF_FULL;
    look_after(r);
}

/* A write was refused for room. Where the filesystem refuses it, EDQUOT is the sandbox's own limit or that of the whole
 * shelf: the shelf is asked. */
static bool ask_for_room(struct kr_run *r)
{
    struct kr_session *s = r->session;
    struct kr_w_shelf question = {.op = KR_SHELF_USAGE};

    s->shelf_full = false;
    if (r->claim.claim != KR_CLAIM_EXCEPTION || r->claim.blame != KR_BLAME_DISK ||
        s->spec.workspace != KR_WORKSPACE_SHELF || s->engine->shelf_kind == KR_SHELF_IS_FOLDER)
        return false;
    memcpy(question.name, s->spec.folder, sizeof question.name);
    return kr_engine_shelf(s->engine, &question, &r->shelf_ask, on_shelf_room, r) >= 0;
}

void kr_run_on_end(struct kr_run *r, struct kr_claim_end *claim)
{
    struct kr_session *s = r->session;

    r->claim = *claim;
    set_state(r, KR_RUN_ENDED);
    r->ended_ns = kr_clock_ns();
    if (s->state >= KR_SESSION_ENDING)
        return;
    if (r->script) {
        kr_timer_arm(s->timer, KR_SESSION_EXIT_MS);
        return;
    }
    kr_timer_disarm(s->timer);
    if (!ask_for_room(r))
        look_after(r);
}

void kr_run_on_exited(struct kr_run *r, int status)
{
    struct kr_claim_end none = {.claim = KR_CLAIM_NONE};

    r->exited = true;
    r->program_status = status;
    kr_run_on_end(r, &none);
}

void kr_run_unanswered(struct kr_run *r)
{
    r->unanswered |= kr_run_asks(r);
    if (kr_run_reply(r, NULL, 0) < 0)
        resume_clock(r);
}

bool kr_run_asks(const struct kr_run *r)
{
    return r->asked && r->state != KR_RUN_ENDED && r->session->run == r;
}

uint64_t kr_run_asks_ms(const struct kr_run *r)
{
    return kr_run_asks(r) ? (kr_clock_ns() - r->question_ns) / 1000000u : 0;
}

struct kr_session *kr_run_session(const struct kr_run *r)
{
    return r->session;
}
