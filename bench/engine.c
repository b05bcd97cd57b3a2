/* bench-engine: the real engine and the real warden, measured from inside the engine's process with a microsecond
 * clock.
 *
 * Theory: the same two processes as krait-engine, but requests are made by this program instead of lines of JSON, so
 * that nothing but the engine lies between the two readings of the clock. A request is the call of kr_engine_open() or
 * kr_run_new(); output is the callback that a voice would render. Options: --pool N --stock N --max-cells N. The driver
 * sends lines and gets one line of JSON for each:
 *     ready                           when every zygote is ready and every pool full
 *     one PRELOAD POOLED GAP COUNT [import]
 *                                     open, run, close, COUNT times, each after GAP ms of rest (and a full pool): open,
 *                                     output, end, teardown;
 *                                     with `import` the snippet imports numpy, pandas and matplotlib first
 *     warm PRELOAD COUNT              runs in one live session, back to back: output, end
 *     churn PRELOAD POOLED MS K       one-shot sessions, K at a time, as fast as it goes: done, elapsed
 *     fill PRELOAD COUNT RUNS         opens COUNT sessions more, has each run RUNS snippets, and keeps them: elapsed
 *     empty                           closes what is kept: elapsed */
#include "engine.h"
#include "fd.h"
#include "log.h"
#include "loop.h"
#include "run.h"
#include "samples.h"
#include "warden.h"
#include "warden_holder.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#define SLOTS_MAX 4096
#define POLL_MS 2
#define PYTHON "/usr/bin/python3"

struct app;
/* One session, from its request to its end. */
struct slot {
    struct app *app;
    struct kr_session *session;
    unsigned long runs; /* still to do */
    bool keep;          /* stays open after its runs */
    double asked, ran, closed;
    bool seen; /* the first output of the current run has come */
};

enum task { TASK_NONE, TASK_READY, TASK_ONE, TASK_WARM, TASK_CHURN, TASK_FILL, TASK_EMPTY };

struct app {
    struct kr_engine_config config;
    struct uv_loop_s *loop;
    struct kr_engine *engine;
    struct kr_watch *commands;
    struct kr_timer *timer;
    char line[256];
    size_t line_len;
    struct slot *slots;
    unsigned used; /* slots in use, from the front */
    enum task task;
    unsigned preload;
    bool pooled, imports;
    unsigned long gap_ms, left, busy;
    double start, deadline;
    size_t done;
    struct kr_bench_samples samples;
    char failed[256];
};

static void proceed(struct app *a);

static void fail(struct app *a, const char *what, const char *why)
{
    if (a->failed[0] == '\0')
        snprintf(a->failed, sizeof a->failed, "%.60s: %.180s", what, why);
}

static void answer(struct app *a)
{
    a->task = TASK_NONE;
    if (a->failed[0] != '\0')
        kr_bench_refuse(a->failed);
    else
        kr_bench_answer(&a->samples);
    kr_bench_clear(&a->samples);
    a->failed[0] = '\0';
}

/* ---- one session ---- */

static void next_step(struct slot *s);

static void on_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct slot *s = data;

    (void)r, (void)stream;
    if (s->seen)
        return;
    s->seen = true;
    if (len < 1 || text[0] != '1')
        fail(s->app, "output", text);
    if (s->app->task == TASK_ONE)
        kr_bench_add(&s->app->samples, "output", kr_bench_now() - s->asked);
    else if (s->app->task == TASK_WARM)
        kr_bench_add(&s->app->samples, "output", kr_bench_now() - s->ran);
}

static void on_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct slot *s = data;
    double now = kr_bench_now();

    (void)r;
    if (end->verdict.cause != KR_CAUSE_OK || !s->seen)
        fail(s->app, "run", end->message[0] != '\0' ? end->message : "it did not end well");
    if (s->app->task == TASK_ONE)
        kr_bench_add(&s->app->samples, "end", now - s->asked);
    else if (s->app->task == TASK_WARM)
        kr_bench_add(&s->app->samples, "end", now - s->ran);
    next_step(s);
}

static void on_open(void *data, struct kr_session *session, const struct kr_err *err)
{
    struct slot *s = data;

    s->session = session;
    if (!session) {
        fail(s->app, "open", err->msg);
        s->app->busy--;
        proceed(s->app);
        return;
    }
    if (s->app->task == TASK_ONE)
        kr_bench_add(&s->app->samples, "open", kr_bench_now() - s->asked);
    next_step(s);
}

static void on_ended(void *data, struct kr_session *session, enum kr_cause cause, const char *message)
{
    struct slot *s = data;

    (void)session;
    s->session = NULL;
    if (s->closed == 0)
        fail(s->app, "a session ended by itself", message[0] != '\0' ? message : kr_cause_rows[cause].name);
    if (s->app->task == TASK_ONE)
        kr_bench_add(&s->app->samples, "teardown", kr_bench_now() - s->closed);
    s->app->busy--;
    s->app->done++;
    proceed(s->app);
}

static void run_one(struct slot *s)
{
    static const struct kr_run_calls calls = {.on_output = on_output, .on_end = on_end};
    const char *code = s->app->imports ? "import numpy, pandas, matplotlib.pyplot\nprint(1)" : "print(1)";
    const struct kr_run_spec spec = {.code = {code, strlen(code)}, .timeout_ms = 30000, .output_cap = 1 << 20};
    struct kr_run *run;
    struct kr_err err;

    s->runs--;
    s->seen = false;
    s->ran = kr_bench_now();
    if (kr_run_new(s->session, &spec, &calls, s, &run, &err) < 0) {
        fail(s->app, "run", err.msg);
        kr_session_close(s->session);
    }
}

static void next_step(struct slot *s)
{
    if (s->runs > 0 && s->app->failed[0] == '\0') {
        run_one(s);
        return;
    }
    if (s->keep) {
        s->app->busy--;
        proceed(s->app);
        return;
    }
    s->closed = kr_bench_now();
    kr_session_close(s->session);
}

static void begin(struct app *a, struct slot *s, unsigned long runs, bool keep)
{
    static const struct kr_session_calls calls = {.on_open = on_open, .on_ended = on_ended};
    struct kr_session_spec spec = {.zygote = a->preload, .network = {.kind = KR_NET_NONE}, .workspace = -1};
    struct kr_err err;

    kr_limits_default(&spec.limits);
    *s = (struct slot){.app = a, .runs = runs, .keep = keep};
    a->busy++;
    s->asked = kr_bench_now();
    if (kr_engine_open(a->engine, &spec, a->pooled, &calls, s, &err) < 0) {
        a->busy--;
        fail(a, "open", err.msg);
    }
}

/* ---- tasks ---- */

static bool pools_full(const struct app *a)
{
    for (size_t i = 0; i < a->config.zygote_count; i++) {
        struct kr_engine_zygote z = kr_engine_zygote(a->engine, i);

        if (z.state == KR_ZYG_FAILED)
            return true; /* the next open says why */
        if (z.state != KR_ZYG_READY || z.parked < z.pool_size)
            return false;
    }
    return true;
}

static void proceed_one(struct app *a)
{
    if (a->busy > 0)
        return;
    if (a->left == 0 || a->failed[0] != '\0')
        answer(a);
    else
        kr_timer_arm(a->timer, a->gap_ms);
}

static void proceed_churn(struct app *a)
{
    bool over = kr_bench_now() >= a->deadline || a->failed[0] != '\0';

    for (unsigned i = 0; !over && i < a->left; i++)
        if (!a->slots[a->used + i].session && (a->slots[a->used + i].asked == 0 || a->slots[a->used + i].closed != 0))
            begin(a, &a->slots[a->used + i], 1, false);
    if (!over || a->busy > 0)
        return;
    kr_bench_add(&a->samples, "elapsed", kr_bench_now() - a->start);
    kr_bench_add(&a->samples, "done", (double)a->done);
    answer(a);
}

/* Something has ended, or a rest is over: what comes next? */
static void proceed(struct app *a)
{
    switch (a->task) {
    case TASK_ONE:
        proceed_one(a);
        return;
    case TASK_CHURN:
        proceed_churn(a);
        return;
    case TASK_WARM:
    case TASK_FILL:
    case TASK_EMPTY:
        if (a->busy > 0)
            return;
        if (a->task != TASK_WARM)
            kr_bench_add(&a->samples, "elapsed", kr_bench_now() - a->start);
        if (a->task == TASK_EMPTY)
            a->used = 0;
        answer(a);
        return;
    case TASK_READY:
    case TASK_NONE:
        return;
    }
}

static void on_timer(void *data)
{
    struct app *a = data;

    if ((a->task == TASK_READY || (a->task == TASK_ONE && a->pooled)) && !pools_full(a)) {
        kr_timer_arm(a->timer, POLL_MS);
    } else if (a->task == TASK_READY) {
        answer(a);
    } else if (a->task == TASK_ONE) {
        a->left--;
        begin(a, &a->slots[a->used], 1, false);
    }
}

static unsigned find_zygote(const struct app *a, const char *preload)
{
    unsigned i = 0;

    while (i + 1 < a->config.zygote_count && strcmp(kr_preload_names[a->config.preloads[i]], preload) != 0)
        i++;
    return i;
}

static void start_ready(struct app *a, char **w)
{
    (void)w;
    kr_timer_arm(a->timer, 0);
}

static void start_one(struct app *a, char **w)
{
    a->pooled = w[2][0] == '1';
    a->gap_ms = strtoul(w[3], NULL, 10);
    a->left = strtoul(w[4], NULL, 10);
    a->imports = w[5] != NULL;
    kr_timer_arm(a->timer, a->gap_ms);
}

static void start_warm(struct app *a, char **w)
{
    begin(a, &a->slots[a->used], strtoul(w[2], NULL, 10), false);
}

static void start_churn(struct app *a, char **w)
{
    a->pooled = w[2][0] == '1';
    a->deadline = a->start + strtod(w[3], NULL) * 1000;
    a->left = strtoul(w[4], NULL, 10);
    proceed(a);
}

static void start_fill(struct app *a, char **w)
{
    for (unsigned long i = strtoul(w[2], NULL, 10); i > 0 && a->used < SLOTS_MAX; i--)
        begin(a, &a->slots[a->used++], strtoul(w[3], NULL, 10), true);
}

static void start_empty(struct app *a, char **w)
{
    (void)w;
    for (unsigned i = 0; i < a->used; i++) {
        struct slot *s = &a->slots[i];

        s->closed = a->start;
        if (!s->session)
            continue;
        a->busy++;
        kr_session_close(s->session);
    }
    proceed(a);
}

static const struct {
    const char *name;
    size_t words_min, words_max;
    enum task task;
    void (*start)(struct app *a, char **words);
} tasks[] = {
    {"ready", 1, 1, TASK_READY, start_ready}, {"one", 5, 6, TASK_ONE, start_one},
    {"warm", 3, 3, TASK_WARM, start_warm},    {"churn", 5, 5, TASK_CHURN, start_churn},
    {"fill", 4, 4, TASK_FILL, start_fill},    {"empty", 1, 1, TASK_EMPTY, start_empty},
};

static void start_task(struct app *a, char **w, size_t n)
{
    w[n] = NULL;
    a->busy = a->done = 0;
    a->start = kr_bench_now();
    a->pooled = a->imports = false;
    for (unsigned i = a->used; i < SLOTS_MAX; i++)
        a->slots[i] = (struct slot){0};
    if (n > 1)
        a->preload = find_zygote(a, w[1]);
    for (size_t i = 0; n > 0 && i < sizeof tasks / sizeof *tasks; i++) {
        if (strcmp(w[0], tasks[i].name) != 0 || n < tasks[i].words_min || n > tasks[i].words_max)
            continue;
        a->task = tasks[i].task;
        tasks[i].start(a, w);
        return;
    }
    kr_bench_refuse("there is no such command");
}

/* ---- life ---- */

static void on_commands_readable(void *data)
{
    struct app *a = data;
    ssize_t n = read(kr_watch_fd(a->commands), a->line + a->line_len, sizeof a->line - 1 - a->line_len);
    char *words[9], *end;

    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            kr_engine_stop(a->engine);
        kr_watch_want_read(a->commands, n < 0 && errno == EAGAIN);
        return;
    }
    a->line_len += (size_t)n;
    a->line[a->line_len] = '\0';
    end = strchr(a->line, '\n'); /* the driver waits for each answer, so a line is all there is */
    if (!end)
        return;
    a->line_len = 0;
    start_task(a, words, kr_bench_words(a->line, words, 8));
}

static void on_gone(void *data, const struct kr_err *err)
{
    (void)data;
    fprintf(stderr, "bench-engine: %s\n", err->msg);
    _exit(1);
}

static void on_stopped(void *data)
{
    uv_stop(((struct app *)data)->loop);
}

static int engine_main(int control, void *arg)
{
    static const struct kr_watch_calls watch_calls = {.on_readable = on_commands_readable};
    static const struct kr_engine_calls engine_calls = {.on_gone = on_gone, .on_stopped = on_stopped};
    struct app *a = arg;
    struct kr_holder *holder;

    signal(SIGPIPE, SIG_IGN);
    a->loop = uv_default_loop();
    kr_bench_clear(&a->samples);
    a->slots = calloc(SLOTS_MAX, sizeof *a->slots);
    if (!a->slots || kr_warden_holder_new(a->loop, control, &holder) < 0 ||
        kr_engine_new(a->loop, holder, &a->config, &engine_calls, a, &a->engine) < 0 ||
        kr_timer_new(a->loop, on_timer, a, &a->timer) < 0 ||
        kr_watch_new(a->loop, 0, &watch_calls, a, &a->commands) < 0)
        return 1;
    kr_watch_want_read(a->commands, true);
    uv_run(a->loop, UV_RUN_DEFAULT);
    kr_engine_free(a->engine);
    free(a->slots);
    return 0;
}

int main(int argc, char **argv)
{
    static struct app app = {.config = {.zygote_count = 2, .preloads = {KR_PRELOAD_BASIC, KR_PRELOAD_DATA}}};
    struct kr_warden_config config;
    struct kr_err err;
    struct rlimit files;
    int r;

    kr_log_set_level(KR_LOG_WARN);
    kr_warden_config_default(&config);
    for (int i = 1; i + 1 < argc; i += 2) {
        uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);

        if (strcmp(argv[i], "--pool") == 0)
            app.config.pool_size = value;
        else if (strcmp(argv[i], "--stock") == 0)
            config.stock = value;
        else if (strcmp(argv[i], "--max-cells") == 0)
            config.max_cells = value;
    }
    for (size_t i = 0; i < app.config.zygote_count; i++)
        config.zygotes[i] = (struct kr_zygote_config){.preload = app.config.preloads[i], .python = PYTHON};
    config.zygote_count = app.config.zygote_count;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) { /* 500 sessions are some 2000 descriptors */
        files.rlim_cur = files.rlim_max < 20000 ? files.rlim_max : 20000;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    r = kr_warden_launch(&config, engine_main, &app, &err);
    if (r < 0)
        kr_bench_refuse(err.msg);
    return r < 0 ? 1 : r;
}
