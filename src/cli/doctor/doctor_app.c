/* `krait doctor` on the engine's side: one cell after another, a probe in each, what came of it.
 *
 * Called in the engine that kr_warden_launch() forked for cmd_doctor.c. Invariants: one trial at a time; a trial
 * that fails in whatever way is noted and the next one is made; the cell of the battery lives until the end, so that
 * every later one can be compared with it. */
#include "doctor.h"
#include "buf.h"
#include "clock.h"
#include "exit_status.h"
#include "engine.h"
#include "fd.h"
#include "launch.h"
#include "warden_holder.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#define MIB (UINT64_C(1) << 20)
#define ANSWER_MAX 65536u
#define RUN_MS 30000u
#define CONTROL_NS 150000000u
#define WORD "written in a cell"

/* clang-format off */
const struct kr_doctor_limits kr_doctor_limits[KR_TRIAL_MAX_] = {
    [KR_TRIAL_BATTERY]       = {0},
    [KR_TRIAL_OWN_MEMORY]    = {.memory = 64 * MIB},
    [KR_TRIAL_SHARED_MEMORY] = {.memory = 64 * MIB},
    [KR_TRIAL_PROCESSES]     = {.processes = 8},
    [KR_TRIAL_PROCESSOR]     = {.cpu_milli = 200},
    [KR_TRIAL_DISK]          = {.disk = 2 * MIB, .inodes = 64},
    [KR_TRIAL_FOLDER]        = {.disk = 1 * MIB},
    [KR_TRIAL_DATA]          = {0},
};
/* What each probe tries: well past its limit, and with an end where there is none. */
static const struct {
    const char *probe;
    enum kr_preload preload;
    uint64_t bytes;
    int count; /* processes, files */
    double seconds;
} trials[] = {
    [KR_TRIAL_BATTERY]       = {"battery", KR_PRELOAD_BASIC, 0, 0, 0},
    [KR_TRIAL_OWN_MEMORY]    = {"own_memory", KR_PRELOAD_BASIC, 160 * MIB, 0, 0},
    [KR_TRIAL_SHARED_MEMORY] = {"shared_memory", KR_PRELOAD_BASIC, 96 * MIB, 0, 0},
    [KR_TRIAL_PROCESSES]     = {"processes", KR_PRELOAD_BASIC, 0, 40, 0},
    [KR_TRIAL_PROCESSOR]     = {"processor", KR_PRELOAD_BASIC, 0, 0, 0.5},
    [KR_TRIAL_DISK]          = {"disk", KR_PRELOAD_BASIC, 8 * MIB, 256, 0},
    [KR_TRIAL_FOLDER]        = {"folder", KR_PRELOAD_BASIC, 4 * MIB, 0, 5},
    [KR_TRIAL_DATA]          = {"data", KR_PRELOAD_DATA, 0, 0, 0},
};
/* clang-format on */
_Static_assert(sizeof trials / sizeof trials[0] == KR_TRIAL_MAX_, "every trial has its row");

struct app {
    const struct kr_doctor_app *given;
    uv_loop_t loop;
    uv_signal_t signals[3];
    struct kr_engine *engine;
    char view[32]; /* the path by which we reach the folder; "": as it was given */
    struct kr_doctor_facts facts;
    enum kr_trial at;
    struct kr_session *session; /* of the trial at hand */
    struct kr_buf answer;
    uint64_t began_ns, asked_ns;
    bool stopping;
};

static void next_trial(struct app *a);

static struct kr_doctor_trial *current(struct app *a)
{
    return &a->facts.trials[a->at];
}

/* The folder is tried by an engine of its own: with it in the warden's table the other cells might get less. */
static bool wanted(const struct app *a)
{
    return (a->at == KR_TRIAL_FOLDER) == (a->given->folder != NULL);
}

static void stop_probes(struct app *a)
{
    if (a->stopping)
        return;
    a->stopping = true;
    kr_engine_stop(a->engine);
}

static void advance(struct app *a)
{
    a->session = NULL;
    do
        a->at++;
    while (a->at < KR_TRIAL_MAX_ && !wanted(a));
    if (a->at < KR_TRIAL_MAX_ && !a->stopping)
        next_trial(a);
    else
        stop_probes(a);
}

/* ---- the run ---- */

static void on_probe_output(void *data, struct kr_run *r, enum kr_stream stream, const char *text, size_t len)
{
    struct app *a = data;

    (void)r;
    if (stream == KR_STREAM_STDOUT)
        kr_buf_add(&a->answer, text, len);
}

/* The folder trial's file is there, ours, and says what was written inside. */
static bool word_came_out(const char *folder)
{
    char path[400], text[sizeof WORD + 8];
    struct stat st;

    snprintf(path, sizeof path, "%s/word", folder);
    return stat(path, &st) == 0 && st.st_uid == geteuid() &&
           kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, WORD) == 0;
}

/* What the processor trial would get without a limit, on a machine that may be busy with other things. */
static double cores_outside(void)
{
    uint64_t began = kr_clock_ns(), now = began;
    struct timespec used, before;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    while (now - began < CONTROL_NS)
        now = kr_clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return ((double)(used.tv_sec - before.tv_sec) * 1e9 + (double)(used.tv_nsec - before.tv_nsec)) /
           (double)(now - began);
}

static void on_probe_end(void *data, struct kr_run *r, const struct kr_run_end *end)
{
    struct app *a = data;
    struct kr_doctor_trial *t = current(a);

    (void)r;
    t->ended = true;
    t->verdict = end->verdict;
    snprintf(t->message, sizeof t->message, "%s%s%.200s", kr_cause_rows[end->verdict.cause].name,
             end->message[0] ? ": " : "", end->message);
    if (json_is_object(end->claim->error))
        snprintf(t->message, sizeof t->message, "%s: %s", json_string_value(json_object_get(end->claim->error, "type")),
                 json_string_value(json_object_get(end->claim->error, "message")));
    t->facts = kr_doctor_take_facts(kr_buf_str(&a->answer), a->answer.len);
    if (a->at == KR_TRIAL_FOLDER)
        a->facts.word_came_out = word_came_out(a->view[0] ? a->view : a->given->folder);
    if (a->at == KR_TRIAL_PROCESSOR)
        a->facts.cores_outside = cores_outside();
    if (a->at == KR_TRIAL_BATTERY)
        advance(a); /* it lives on */
    else if (a->session)
        kr_session_close(a->session);
}

/* The probes, and behind them the input of this one. A JSON string is a Python string. */
static int write_code(struct app *a, struct kr_buf *code)
{
    json_t *params = json_pack("{s:s, s:I, s:i, s:i, s:f, s:s}", "probe", trials[a->at].probe, "bytes",
                               (json_int_t)trials[a->at].bytes, "most", trials[a->at].count, "files",
                               trials[a->at].count, "seconds", trials[a->at].seconds, "word", WORD);
    json_t *quoted;
    char *inner, *outer;
    int r;

    if (a->at == KR_TRIAL_BATTERY)
        kr_doctor_bait_tell(&a->given->bait, params);
    inner = json_dumps(params, JSON_COMPACT);
    quoted = inner ? json_string(inner) : NULL;
    outer = quoted ? json_dumps(quoted, JSON_ENCODE_ANY) : NULL;
    kr_buf_add(code, kr_doctor_files[0].data, kr_doctor_files[0].len);
    r = outer ? kr_buf_printf(code, "\nmain(json.loads(%s))\n", outer) : -ENOMEM;
    free(outer);
    json_decref(quoted);
    free(inner);
    json_decref(params);
    return r;
}

static void start_run(struct app *a)
{
    static const struct kr_run_calls calls = {.on_output = on_probe_output, .on_end = on_probe_end};
    cleanup_buf struct kr_buf code;
    struct kr_run_spec spec = {.timeout_ms = RUN_MS, .output_cap = ANSWER_MAX};
    struct kr_run *run;
    struct kr_err err;
    int r;

    kr_buf_init(&code, 1u << 20);
    kr_buf_reset(&a->answer);
    r = write_code(a, &code);
    spec.code = (struct kr_text){kr_buf_str(&code), code.len};
    if (r >= 0)
        r = kr_run_new(a->session, &spec, &calls, a, &run, &err);
    if (r < 0) {
        snprintf(current(a)->message, sizeof current(a)->message, "%s", r == -ENOMEM ? "out of memory" : err.msg);
        kr_session_close(a->session);
    }
}

/* ---- the session ---- */

static void on_probe_session_open(void *data, struct kr_session *s, const struct kr_err *err)
{
    struct app *a = data;
    struct kr_doctor_trial *t = current(a);
    uint64_t ready;

    if (!s) {
        snprintf(t->message, sizeof t->message, "%s", err->msg);
        advance(a);
        return;
    }
    ready = a->began_ns + a->facts.ready_ns[trials[a->at].preload];
    t->opened = true;
    t->open_ns = kr_clock_ns() - (a->asked_ns > ready ? a->asked_ns : ready);
    a->session = s;
    if (a->at == KR_TRIAL_BATTERY || a->at == KR_TRIAL_FOLDER) {
        a->facts.layers = kr_session_layers(s);
        a->facts.landlock_abi = kr_session_landlock_abi(s);
        snprintf(a->facts.python, sizeof a->facts.python, "%s", kr_session_python(s));
    }
    start_run(a);
}

static void on_probe_session_ended(void *data, struct kr_session *s, enum kr_cause cause, const char *message)
{
    struct app *a = data;

    (void)cause;
    if (s != a->session)
        return; /* the battery's, at the very end */
    if (!current(a)->ended && !current(a)->message[0])
        snprintf(current(a)->message, sizeof current(a)->message, "%s", message);
    advance(a);
}

static void limit(struct kr_limits *l, const struct kr_doctor_limits *wanted)
{
    kr_limits_default(l);
    l->memory = wanted->memory ? wanted->memory : l->memory;
    l->processes = wanted->processes ? wanted->processes : l->processes;
    l->cpu_milli = wanted->cpu_milli ? wanted->cpu_milli : l->cpu_milli;
    l->disk = wanted->disk ? wanted->disk : l->disk;
    l->inodes = wanted->inodes ? wanted->inodes : l->inodes;
}

static void next_trial(struct app *a)
{
    static const struct kr_session_calls calls = {.on_open = on_probe_session_open, .on_ended = on_probe_session_ended};
    struct kr_session_spec spec = {.zygote = (uint32_t)trials[a->at].preload,
                                   .workspace = a->at == KR_TRIAL_FOLDER ? 0 : -1};
    struct kr_err err;

    limit(&spec.limits, &kr_doctor_limits[a->at]);
    a->asked_ns = kr_clock_ns();
    if (kr_engine_open(a->engine, &spec, false, &calls, a, &err) < 0) {
        snprintf(current(a)->message, sizeof current(a)->message, "%s", err.msg);
        advance(a);
    }
}

/* ---- the engine ---- */

static void on_doctor_zygote(void *data, const struct kr_holder_zygote *z)
{
    struct app *a = data;
    struct kr_doctor_facts *f = &a->facts;

    if (z->zygote >= KR_PRELOAD_MAX_)
        return;
    if (z->state == KR_ZYG_READY && f->ready_ns[z->zygote] == 0)
        f->ready_ns[z->zygote] = kr_clock_ns() - a->began_ns;
    if (z->state == KR_ZYG_FAILED)
        snprintf(f->zygote_error[z->zygote], sizeof f->zygote_error[z->zygote], "%.*s", (int)sizeof z->err.msg - 1,
                 z->err.msg);
}

static void on_doctor_warden_gone(void *data, const struct kr_err *err)
{
    struct app *a = data;

    snprintf(a->given->report->error, sizeof a->given->report->error, "%s", err->msg);
    uv_stop(&a->loop);
}

static void on_stopped(void *data)
{
    struct app *a = data;

    uv_stop(&a->loop);
}

static void stop_for(struct app *a, int signo)
{
    a->given->report->stopped_by = signo;
    stop_probes(a);
}

static void on_doctor_signal(uv_signal_t *handle, int signo)
{
    struct app *a = handle->data;

    if (a->stopping)
        uv_stop(&a->loop);
    stop_for(a, signo);
}

static void watch_probe_signals(struct app *a)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        uv_signal_init(&a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_doctor_signal, numbers[i]);
    }
}

static int open_doctor_engine(struct app *a, int control)
{
    static const struct kr_engine_calls calls = {
        .on_zygote = on_doctor_zygote, .on_gone = on_doctor_warden_gone, .on_stopped = on_stopped};
    struct kr_engine_config config = {.zygote_count = a->given->folder ? 1 : KR_PRELOAD_MAX_,
                                      .preloads = {KR_PRELOAD_BASIC, KR_PRELOAD_DATA}};
    struct kr_holder *holder;
    int r;

    if (a->given->folder) {
        config.workspaces[0].path = a->view[0] ? a->view : a->given->folder;
        config.workspace_count = 1;
    }
    r = kr_warden_holder_new(&a->loop, control, &holder);
    return r < 0 ? r : kr_engine_new(&a->loop, holder, &config, &calls, a, &a->engine);
}

static void finish_probe(struct app *a)
{
    struct kr_doctor_report *r = a->given->report;
    const struct kr_holder_info *hello = kr_engine_info(a->engine);

    if (hello) {
        a->facts.hello = *hello;
        r->level = (int)hello->level;
        r->finished = a->at == KR_TRIAL_MAX_;
        a->facts.bait = &a->given->bait;
        if (a->given->folder) {
            kr_doctor_judge_folder(&a->facts, r);
        } else {
            kr_doctor_judge(&a->facts, r);
            kr_doctor_judge_limits(&a->facts, r);
        }
    }
    for (int i = 0; i < KR_TRIAL_MAX_; i++)
        json_decref(a->facts.trials[i].facts);
}

int kr_doctor_app_main(int control, void *arg)
{
    struct app app = {.given = arg, .began_ns = kr_clock_ns()};
    struct app *a = &app;
    struct kr_err err;
    int r;

    kr_cli_engine_begin();
    kr_buf_init(&a->answer, ANSWER_MAX);
    if (a->given->view >= 0)
        kr_cli_folder_path(a->given->view, a->view, sizeof a->view);
    if (kr_cli_confine_engine(a->given->view, a->given->folder, NULL, &err) < 0) {
        snprintf(a->given->report->error, sizeof a->given->report->error, "%s", err.msg);
        return KR_EXIT_OURS;
    }
    if (uv_loop_init(&a->loop) < 0)
        return KR_EXIT_OURS;
    watch_probe_signals(a);
    r = open_doctor_engine(a, control);
    if (r >= 0) {
        a->at = a->given->folder ? KR_TRIAL_FOLDER : KR_TRIAL_BATTERY;
        next_trial(a);
        if (*a->given->stop)
            stop_for(a, *a->given->stop);
        uv_run(&a->loop, UV_RUN_DEFAULT);
        finish_probe(a);
        kr_engine_free(a->engine);
    }
    for (size_t i = 0; i < sizeof a->signals / sizeof a->signals[0]; i++)
        uv_close((uv_handle_t *)&a->signals[i], NULL);
    uv_run(&a->loop, UV_RUN_DEFAULT);
    uv_loop_close(&a->loop);
    kr_buf_done(&a->answer);
    return r < 0 ? KR_EXIT_OURS : 0;
}
