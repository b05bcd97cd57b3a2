/* src/engine: the engine, its sessions, runs and pool against a fake warden. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "clock.h"
#include "engine_internal.h"
#include "fake-warden.h"
#include "fd.h"
#include "log.h"
#include "warden_holder.h"
#include "patience.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

/* ---- the engine against the fake warden ---- */

struct world {
    uv_loop_t loop;
    struct kr_engine *engine;
    struct kr_session *session;
    struct kr_run *run;
    struct kr_err open_err;
    char text[2][1 << 16], between[256];
    size_t len[2];
    char order[4096]; /* output and displays as they came */
    enum kr_cause ended_cause;
    struct kr_run_end end;
    enum kr_blame blame;
    bool opened, ended, run_ended, gone, stopped, asked, hold_input;
    int zygote_events, displays;
    uint64_t output_cap; /* 0: 4000 */
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

static void w_between(void *data, struct kr_session *s, enum kr_stream stream, const char *text, size_t len)
{
    struct world *w = data;

    (void)s, (void)stream;
    strncat(w->between, text, len);
}

static void w_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct world *w = data;

    (void)r;
    if (w->len[stream] + len < sizeof w->text[0]) {
        memcpy(w->text[stream] + w->len[stream], text, len);
        w->len[stream] += len;
    }
    if (strlen(w->order) + len < sizeof w->order)
        strncat(w->order, text, len);
}

static void w_display(void *data, struct kr_run *r, const char *json, size_t len)
{
    struct world *w = data;

    (void)r;
    w->displays++;
    if (strlen(w->order) + 16 < sizeof w->order)
        strcat(w->order, memmem(json, len, "\"data\":{", 8) ? "[display]" : "[?]");
}

static void w_input(void *data, struct kr_run *r, const char *prompt, bool password)
{
    struct world *w = data;

    (void)password;
    w->asked = strcmp(prompt, "name? ") == 0;
    if (!w->hold_input)
        kr_run_reply(r, "Ada", 3);
}

static void w_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct world *w = data;

    (void)r;
    w->end = *end;
    w->blame = end->claim->blame;
    w->end.claim = NULL;
    w->run_ended = true;
    w->run = NULL;
}

static void w_gone(void *data, const struct kr_err *err)
{
    (void)err;
    ((struct world *)data)->gone = true;
}

static void w_stopped(void *data)
{
    ((struct world *)data)->stopped = true;
}

static void w_zygote(void *data, const struct kr_holder_zygote *z)
{
    (void)z;
    ((struct world *)data)->zygote_events++;
}

static void w_wake(uv_timer_t *t)
{
    (void)t; /* so that the loop comes back to look at the clock */
}

static unsigned handed_out(const struct world *w)
{
    const struct kr_session *s;
    unsigned n = 0;

    TAILQ_FOREACH(s, &w->engine->sessions, link)
    n += s->handed_out;
    return n;
}

/* Runs the loop until *flag or ten seconds are over. */
static bool until(struct world *w, const bool *flag)
{
    uint64_t deadline = kr_clock_after_ms(PATIENCE_S * 1000);
    uv_timer_t tick;

    uv_timer_init(&w->loop, &tick);
    uv_timer_start(&tick, w_wake, 5, 5);
    while (!*flag && kr_clock_ns() < deadline)
        uv_run(&w->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
    return *flag;
}

static void spin(struct world *w, unsigned ms)
{
    uint64_t end = kr_clock_after_ms(ms);
    uv_timer_t tick;

    uv_timer_init(&w->loop, &tick);
    uv_timer_start(&tick, w_wake, 5, 5);
    while (kr_clock_ns() < end)
        uv_run(&w->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    uv_run(&w->loop, UV_RUN_NOWAIT);
}

static bool w_start(struct world *w, uint32_t pool)
{
    static const struct kr_engine_calls calls = {.on_zygote = w_zygote, .on_gone = w_gone, .on_stopped = w_stopped};
    struct kr_engine_config config = {.zygote_count = 1, .pool_size = pool};
    struct kr_holder *holder;

    memset(w, 0, sizeof *w);
    uv_loop_init(&w->loop);
    return kr_warden_holder_new(&w->loop, fake_warden_start(), &holder) == 0 &&
           kr_engine_new(&w->loop, holder, &config, &calls, w, &w->engine) == 0;
}

/* True if the engine gave back everything it had on the loop. */
static bool w_done(struct world *w)
{
    kr_engine_free(w->engine);
    uv_run(&w->loop, UV_RUN_DEFAULT);
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    return uv_loop_close(&w->loop) == 0;
}

static const struct kr_session_calls w_calls = {.on_open = w_opened, .on_ended = w_ended, .on_between = w_between};

static bool w_open(struct world *w, const struct kr_limits *limits, bool script, bool pooled)
{
    struct kr_session_spec spec = {.workspace = -1, .script = script, .stdin_pipe = script};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    if (limits)
        spec.limits = *limits;
    w->opened = w->ended = false;
    if (kr_engine_open(w->engine, &spec, pooled, &w_calls, w, &err) < 0)
        return false;
    return until(w, &w->opened) && w->session;
}

static bool w_begin(struct world *w, const char *code, uint64_t timeout_ms, const struct kr_run_script *script)
{
    static const struct kr_run_calls calls = {w_output, w_display, w_input, NULL, w_end};
    struct kr_run_spec spec = {.code = {code, strlen(code)},
                               .timeout_ms = timeout_ms,
                               .output_cap = w->output_cap ? (int64_t)w->output_cap : 4000,
                               .script = script};
    struct kr_err err;

    w->run_ended = false;
    w->displays = 0;
    w->len[0] = w->len[1] = 0;
    memset(w->text, 0, sizeof w->text);
    memset(w->order, 0, sizeof w->order);
    return kr_run_new(w->session, &spec, &calls, w, &w->run, &err) == 0;
}

static bool w_run(struct world *w, const char *code, uint64_t timeout_ms)
{
    return w_begin(w, code, timeout_ms, NULL) && until(w, &w->run_ended);
}

static struct kr_limits short_grace(void)
{
    struct kr_limits l;

    kr_limits_default(&l);
    l.grace_ms = 1000;
    return l;
}

static void runs_in_order(void)
{
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "print hello", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_OK && w.end.session_alive && strcmp(w.text[0], "hello") == 0);
    CHECK(w.end.have_cpu && w.end.have_peak && w.end.wall_ns > 0);
    CHECK(w_run(&w, "err oops", 0) && strcmp(w.text[1], "oops") == 0 && !w.text[0][0]);
    CHECK(w_run(&w, "split", 0) && strcmp(w.text[0], "\xe2\x82\xac") == 0);
    CHECK(w_run(&w, "display", 0) && strcmp(w.order, "before[display]after") == 0);
    CHECK(w_run(&w, "input", 0) && w.asked && strstr(w.text[0], "\"text\":\"Ada\""));
    CHECK(kr_session_state(w.session) == KR_SESSION_IDLE);
    CHECK(w_done(&w));
}

static void frames_of_other_runs_are_dropped(void)
{
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "ok", 0) && w_run(&w, "stale", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_OK);
    CHECK(w_run(&w, "print still", 0) && w.end.verdict.cause == KR_CAUSE_OK && strcmp(w.text[0], "still") == 0);
    CHECK(w_done(&w));
}

static void garbage_is_lost(void)
{
    static const char *const words[] = {"garbage", "badjson", "badshape", "badtype", "oversize", "hangup"};
    static struct world w;

    CHECK(w_start(&w, 0));
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        CHECK(w_open(&w, NULL, false, false));
        CHECK(w_run(&w, words[i], 0));
        CHECK(w.end.verdict.cause == KR_CAUSE_LOST && !w.end.session_alive && w.end.message[0]);
        CHECK(until(&w, &w.ended) && w.ended_cause == KR_CAUSE_LOST);
    }
    CHECK(w_done(&w));
}

static void bombs_are_not_parsed(void)
{
    static const char *const words[] = {"arrays 60000", "big end", "big input", "asks"};
    static struct world w;

    CHECK(w_start(&w, 0));
    w.output_cap = 16u << 20;
    w.hold_input = true;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        CHECK(w_open(&w, NULL, false, false) && w_run(&w, words[i], 5000));
        CHECK(w.end.verdict.cause == KR_CAUSE_LOST && !w.end.session_alive && w.displays == 0);
        CHECK(strstr(w.end.message, i == 0 ? "too many values" : i == 3 ? "asked for 16 lines" : "bytes, not 0 to"));
        CHECK(until(&w, &w.ended));
    }
    w.hold_input = false; /* each is answered; that it reads no answer shows when they pile up */
    CHECK(w_open(&w, NULL, false, false) && w_run(&w, "asks", 5000) && w.end.verdict.cause == KR_CAUSE_LOST);
    CHECK(until(&w, &w.ended) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "arrays 40000", 0) && w.end.verdict.cause == KR_CAUSE_OK && w.displays == 1);
    CHECK(w_run(&w, "texts 40000", 0) && w.end.verdict.cause == KR_CAUSE_OK && w.displays == 1);
    w.output_cap = 100000; /* past the cap it is not looked at, and no session is killed for it */
    CHECK(w_run(&w, "arrays 60000", 0) && w.end.verdict.cause == KR_CAUSE_OK && w.displays == 0);
    CHECK(w.end.truncated && (w.end.verdict.hits & KR_HIT_OUTPUT));
    CHECK(w_done(&w));
}

static void displays_are_bounded_and_in_order(void)
{
    static const size_t each = sizeof "{\"data\":{\"text/plain\":\"d\"}}" - 1;
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    w.output_cap = 1u << 20;
    CHECK(w_run(&w, "displays 300", 0) && w.displays == 300 && !w.end.truncated);
    CHECK(strcmp(w.order + strlen(w.order) - 13, "[display]last") == 0); /* also when they take several turns */
    CHECK(w_run(&w, "displays 1500", 0) && w.displays == 1000 && w.end.truncated);
    w.output_cap = each * 10;
    CHECK(w_run(&w, "displays 11", 0) && w.displays == 10 && w.end.truncated);
    CHECK(w_run(&w, "displays 10", 0) && w.displays == 10 && !w.end.truncated);
    CHECK(w_done(&w));
}

static void a_flood_leaves_neighbours_their_turn(void)
{
    static struct world w;
    struct kr_session *loud;
    struct kr_run *flood;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false) && w_begin(&w, "stale flood", 0, NULL));
    loud = w.session;
    flood = w.run;
    CHECK(w_open(&w, NULL, false, false));
    for (int i = 0; i < 20; i++)
        CHECK(w_run(&w, "print quiet", 5000) && w.end.verdict.cause == KR_CAUSE_OK && strcmp(w.text[0], "quiet") == 0);
    w.run_ended = false;
    CHECK(loud->run == flood);
    kr_run_cancel(flood);
    CHECK(until(&w, &w.run_ended) && w.end.verdict.cause == KR_CAUSE_CANCELLED);
    CHECK(w_done(&w));
}

/* What the table of descriptors may hold from now on; more = how many are still free. */
static bool leave_descriptors(rlim_t more, struct rlimit *ret_old)
{
    int lowest = dup(0);
    struct rlimit tight;

    if (lowest < 0 || getrlimit(RLIMIT_NOFILE, ret_old) < 0)
        return false;
    close(lowest);
    tight = (struct rlimit){(rlim_t)lowest + more, ret_old->rlim_max};
    return setrlimit(RLIMIT_NOFILE, &tight) == 0;
}

static void a_full_descriptor_table_costs_one_open(void)
{
    static struct world w;
    struct kr_session_spec spec = {.workspace = -1};
    struct kr_session *first;
    struct rlimit old;
    struct kr_err err;

    kr_limits_default(&spec.limits);
    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    first = w.session;
    /* Full between the question and its answer. */
    w.opened = false;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) == 0 && leave_descriptors(1, &old));
    CHECK(until(&w, &w.opened) && !w.session && w.open_err.kind == KR_ERR_LIMIT && w.open_err.code == EMFILE);
    spin(&w, 50);
    CHECK(!w.gone && handed_out(&w) == 1);
    /* Nearly full before it: not even asked. */
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0 && leave_descriptors(20, &old));
    w.open_err = (struct kr_err){0};
    CHECK(!w_open(&w, NULL, false, false) && w.opened && w.open_err.kind == KR_ERR_LIMIT);
    w.session = first;
    CHECK(w_run(&w, "print alive", 0) && w.end.verdict.cause == KR_CAUSE_OK && strcmp(w.text[0], "alive") == 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    CHECK(w_open(&w, NULL, false, false) && w_run(&w, "print new", 0) && w.end.verdict.cause == KR_CAUSE_OK);
    CHECK(!w.gone && w_done(&w));
}

static void ends_without_a_claim(void)
{
    static struct world w;
    static const struct {
        const char *code;
        enum kr_cause cause;
        int exit_code;
    } rows[] = {
        {"exit 3", KR_CAUSE_EXIT, 3},
        {"exit 0", KR_CAUSE_EXIT, 0},
        {"signal 11", KR_CAUSE_SIGNAL, 139},
        {"signal 31", KR_CAUSE_DENIED, 125},
        {"signal 9", KR_CAUSE_MEMORY_LIMIT, 137},
        {"signal 25", KR_CAUSE_DISK_LIMIT, 137},
    };

    CHECK(w_start(&w, 0));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(w_open(&w, NULL, false, false) && w_run(&w, rows[i].code, 0));
        CHECK(w.end.verdict.cause == rows[i].cause && w.end.verdict.exit_code == rows[i].exit_code);
        CHECK(!w.end.session_alive && until(&w, &w.ended));
    }
    CHECK(w_open(&w, NULL, false, false) && w_run(&w, "memory", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_MEMORY_LIMIT && w.end.session_alive && w.blame == KR_BLAME_MEMORY);
    CHECK(w_run(&w, "errno 28", 0) && w.end.verdict.cause == KR_CAUSE_DISK_LIMIT);
    CHECK(w_run(&w, "errno 11", 0) &&
          w.end.verdict.cause == KR_CAUSE_EXCEPTION); /* the counter is there and did not move */
    CHECK(w_done(&w));
}

static void timeouts(void)
{
    static struct world w;
    struct kr_limits l = short_grace();

    CHECK(w_start(&w, 0) && w_open(&w, &l, false, false));
    CHECK(w_run(&w, "sleep", 50));
    CHECK(w.end.verdict.cause == KR_CAUSE_TIMEOUT && w.end.session_alive && !w.end.verdict.by_kill);
    CHECK(strstr(w.end.message, "variables kept"));
    CHECK(w_run(&w, "print kept", 0) && w.end.verdict.cause == KR_CAUSE_OK);
    CHECK(w_run(&w, "deaf", 50));
    CHECK(w.end.verdict.cause == KR_CAUSE_TIMEOUT && !w.end.session_alive && w.end.verdict.by_kill);
    CHECK(strstr(w.end.message, "variables gone"));
    CHECK(w.end.wall_ns >= 150000000u && until(&w, &w.ended));
    CHECK(w_done(&w));
}

static void interrupts_and_cancels(void)
{
    static struct world w;
    struct kr_limits l = short_grace();

    CHECK(w_start(&w, 0) && w_open(&w, &l, false, false));
    CHECK(w_begin(&w, "sleep", 0, NULL));
    spin(&w, 30);
    kr_run_interrupt(w.run, true);
    CHECK(until(&w, &w.run_ended) && w.end.verdict.cause == KR_CAUSE_INTERRUPTED && w.end.session_alive);
    CHECK(w_begin(&w, "deaf", 0, NULL));
    spin(&w, 30);
    kr_run_interrupt(w.run, true);
    CHECK(until(&w, &w.run_ended) && w.end.verdict.cause == KR_CAUSE_INTERRUPTED && !w.end.session_alive);
    CHECK(until(&w, &w.ended) && w_open(&w, &l, false, false) && w_begin(&w, "deaf", 0, NULL));
    spin(&w, 30);
    kr_run_cancel(w.run);
    CHECK(until(&w, &w.run_ended) && w.end.verdict.cause == KR_CAUSE_CANCELLED && until(&w, &w.ended));
    CHECK(w_open(&w, &l, false, false) && w_begin(&w, "deaf", 0, NULL));
    kr_session_close(w.session);
    CHECK(until(&w, &w.ended) && w.run_ended && w.end.verdict.cause == KR_CAUSE_CANCELLED);
    CHECK(w_done(&w));
}

static void queued_runs(void)
{
    static struct world w;
    struct kr_run *first;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    CHECK(w_begin(&w, "sleep", 0, NULL));
    first = w.run;
    CHECK(w_begin(&w, "print second", 0, NULL));
    spin(&w, 30);
    CHECK(!w.run_ended && w.session->run == first);
    kr_run_interrupt(first, true);
    CHECK(until(&w, &w.run_ended));
    w.run_ended = false;
    CHECK(until(&w, &w.run_ended) && strcmp(w.text[0], "second") == 0);
    CHECK(w_begin(&w, "deaf", 0, NULL) && w_begin(&w, "ok", 0, NULL));
    kr_run_interrupt(w.run, true); /* waits in the queue: dropped at once */
    CHECK(w.run_ended && w.end.verdict.cause == KR_CAUSE_INTERRUPTED);
    CHECK(w_begin(&w, "ok", 0, NULL));
    kr_session_close(w.session);
    CHECK(until(&w, &w.ended) && w.run_ended && w.end.verdict.cause == KR_CAUSE_CANCELLED);
    CHECK(w_done(&w));
}

static void scripts_end_with_their_process(void)
{
    static const char *const argv[] = {"a.py"};
    static const struct kr_run_script script = {"/workspace/a.py", argv, 1, true};
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, true, false));
    CHECK(w_begin(&w, "print script", 0, &script) && until(&w, &w.run_ended));
    CHECK(w.end.verdict.cause == KR_CAUSE_OK && w.end.verdict.exit_code == 0 && strcmp(w.text[0], "script") == 0);
    CHECK(!w.end.session_alive && until(&w, &w.ended));
    CHECK(w_open(&w, NULL, true, false) && w_begin(&w, "exit 4", 0, &script) && until(&w, &w.run_ended));
    CHECK(w.end.verdict.cause == KR_CAUSE_EXIT && w.end.verdict.exit_code == 4);
    CHECK(w_done(&w));
}

static void output_of_no_run(void)
{
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "late", 0) && !w.text[0][0]);
    for (long end = patience_end(); strcmp(w.between, "late") != 0 && is_before(end);)
        spin(&w, 20);
    CHECK(strcmp(w.between, "late") == 0);
    CHECK(w_run(&w, "flood 200000", 0));
    CHECK(w.end.truncated && w.end.output_bytes == 200000 && strstr(w.text[0], "[output cut: "));
    CHECK((w.end.verdict.hits & KR_HIT_OUTPUT) && w.end.verdict.cause == KR_CAUSE_OK && w.len[0] < 4200);
    CHECK(w_done(&w));
}

static void a_paused_session_waits(void)
{
    static struct world w;

    CHECK(w_start(&w, 0) && w_open(&w, NULL, false, false));
    kr_session_pause(w.session, true);
    CHECK(w_begin(&w, "flood 200000", 0, NULL));
    spin(&w, 100);
    CHECK(!w.run_ended && w.len[0] == 0); /* the pipe is full, the writer waits */
    kr_session_pause(w.session, false);
    CHECK(until(&w, &w.run_ended) && w.end.output_bytes == 200000);
    CHECK(w_done(&w));
}

static void cpu_time_is_watched(void)
{
    static struct world w;
    struct kr_limits l = short_grace();

    l.cpu_time_ms = 300;
    CHECK(w_start(&w, 0) && w_open(&w, &l, false, false));
    CHECK(w_run(&w, "deaf", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_CPU_LIMIT && w.end.verdict.exit_code == 137 && !w.end.session_alive);
    CHECK(w_done(&w));
}

static void unconfined_sessions_are_refused(void)
{
    static struct world w;
    struct kr_limits l = short_grace();

    l.open_files = 17;
    CHECK(w_start(&w, 0) && !w_open(&w, &l, false, false));
    CHECK(w.opened && !w.session && w.open_err.kind == KR_ERR_UNAVAILABLE);
    CHECK(w_done(&w));
}

static void wrong_specs_are_refused(void)
{
    static struct world w;
    struct kr_session_spec spec = {.workspace = -1};
    const char *env[] = {"A=1", "A=2", "=x"};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    CHECK(w_start(&w, 0));
    spec.zygote = 1;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) < 0 && err.kind == KR_ERR_INVALID);
    spec.zygote = 0;
    spec.workspace = 0;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) < 0);
    spec.workspace = -1;
    spec.env = env;
    spec.env_count = 2;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) < 0);
    spec.env = env + 2;
    spec.env_count = 1;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) < 0);
    spec.env_count = 0;
    spec.limits.memory = 1;
    CHECK(kr_engine_open(w.engine, &spec, false, &w_calls, &w, &err) < 0);
    CHECK(w_done(&w));
}

static bool w_parked(struct world *w, uint32_t count)
{
    for (long end = patience_end(); kr_engine_zygote(w->engine, 0).parked != count && is_before(end);)
        spin(w, 10);
    return kr_engine_zygote(w->engine, 0).parked == count;
}

static void pool_hands_over_and_refills(void)
{
    static struct world w;
    uint32_t number;

    CHECK(w_start(&w, 2) && w_parked(&w, 2));
    CHECK(handed_out(&w) == 0);
    CHECK(w_open(&w, NULL, false, true));
    number = w.session->number;
    CHECK(number <= 2); /* one of the first two: it was parked */
    CHECK(w_run(&w, "print pooled", 0) && strcmp(w.text[0], "pooled") == 0 && w.end.verdict.cause == KR_CAUSE_OK);
    CHECK(w_parked(&w, 2) && handed_out(&w) == 1);
    CHECK(w_open(&w, NULL, false, false) && w.session->number > 2); /* not asked for: a new one */
    kr_engine_stop(w.engine);
    CHECK(until(&w, &w.stopped) && handed_out(&w) == 0 && kr_engine_zygote(w.engine, 0).parked == 0);
    CHECK(w_done(&w));
}

static void pool_follows_its_zygote(void)
{
    static struct world w;

    CHECK(w_start(&w, 2) && w_parked(&w, 2) && w_open(&w, NULL, false, false));
    CHECK(kr_engine_zygote(w.engine, 0).generation == 1);
    CHECK(w_run(&w, "rotate", 0));
    for (long end = patience_end(); w.zygote_events < 5 && is_before(end);)
        spin(&w, 10);
    CHECK(kr_engine_zygote(w.engine, 0).generation == 2 && w.zygote_events >= 5);
    CHECK(w_parked(&w, 2)); /* new ones: those of generation 1 were dropped */
    CHECK(w_run(&w, "print alive", 0) && w.end.verdict.cause == KR_CAUSE_OK); /* a handed-out session lives on */
    CHECK(w_open(&w, NULL, false, true) && w.session->number > 3);
    CHECK(w_done(&w));
}

static void pool_backs_off(void)
{
    static struct world w;

    CHECK(w_start(&w, 1) && w_parked(&w, 1) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "refuse", 0)); /* from now on the warden refuses to open */
    spin(&w, 30);
    CHECK(w_open(&w, NULL, false, true));
    spin(&w, 300);
    CHECK(kr_engine_zygote(w.engine, 0).parked == 0);
    CHECK(!w_open(&w, NULL, false, true) && w.open_err.kind == KR_ERR_UNAVAILABLE);
    CHECK(w_done(&w));
}

static void a_dead_warden_loses_every_run(void)
{
    static struct world w;

    CHECK(w_start(&w, 1) && w_parked(&w, 1) && w_open(&w, NULL, false, false));
    CHECK(w_run(&w, "kill warden", 0));
    CHECK(w.end.verdict.cause == KR_CAUSE_LOST && !w.end.session_alive);
    CHECK(until(&w, &w.gone) && w.ended);
    CHECK(!w_open(&w, NULL, false, false) && w.opened && w.open_err.kind == KR_ERR_BUSY);
    CHECK(w_done(&w));
}

static void many_sessions(void)
{
    static struct world w;

    CHECK(w_start(&w, 0));
    for (int i = 0; i < 60; i++) {
        CHECK(w_open(&w, NULL, false, false) && w_run(&w, "print x", 0) && w.end.verdict.cause == KR_CAUSE_OK);
        kr_session_close(w.session);
        CHECK(until(&w, &w.ended));
    }
    CHECK(handed_out(&w) == 0);
    CHECK(w_done(&w));
}

int main(void)
{
    close_range(3, ~0U, 0); /* inherited descriptors would leave gaps where a test counts free ones */
    signal(SIGPIPE, SIG_IGN);
    kr_log_set_level(KR_LOG_ERROR);
    RUN(runs_in_order);
    RUN(frames_of_other_runs_are_dropped);
    RUN(garbage_is_lost);
    RUN(bombs_are_not_parsed);
    RUN(displays_are_bounded_and_in_order);
    RUN(a_flood_leaves_neighbours_their_turn);
    RUN(a_full_descriptor_table_costs_one_open);
    RUN(ends_without_a_claim);
    RUN(timeouts);
    RUN(interrupts_and_cancels);
    RUN(queued_runs);
    RUN(scripts_end_with_their_process);
    RUN(output_of_no_run);
    RUN(a_paused_session_waits);
    RUN(cpu_time_is_watched);
    RUN(unconfined_sessions_are_refused);
    RUN(wrong_specs_are_refused);
    RUN(pool_hands_over_and_refills);
    RUN(pool_follows_its_zygote);
    RUN(pool_backs_off);
    RUN(a_dead_warden_loses_every_run);
    RUN(many_sessions);
    CHECK_DONE();
}
