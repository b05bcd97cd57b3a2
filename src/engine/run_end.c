/* The end of a run: facts, verdict, the line for a person.
 *
 * Called by session.c when a session has ended and by run.c when the counters of an ended run have come. Invariant:
 * on_end is the last call of a run, and the run is freed behind it. */
#include "engine_internal.h"
#include "clock.h"
#include "counters.h"
#include "fd.h"
#include "files.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#define SHORTAGE                                                                                                       \
    "the server is short of memory, and the kernel killed the program below its own memory limit; try again later"
#define FULL_BYTES (256u << 10)

void kr_run_free(struct kr_run *r)
{
    struct kr_held *held = r->session->held;

    kr_held_forget(held, &r->ask);
    kr_held_forget(held, &r->ask_before);
    kr_engine_forget_shelf(r->session->engine, &r->shelf_ask);
    kr_claim_end_done(&r->claim);
    kr_buf_done(&r->json);
    free(r->said);
    free(r);
}

/* Bytes that are free where a session's folder lies, whatever its own limit; 0 too if no file can be made there, and
 * UINT64_MAX without a folder of the host. File systems keep a little for themselves: less than FULL_BYTES is none. */
static uint64_t host_free(const struct kr_session *s, uint64_t *ret_size)
{
    const struct kr_engine_config *c = &s->engine->config;
    char path[4096];
    struct statvfs f;

    if (kr_session_host_folder(s, path, sizeof path) != 0)
        return UINT64_MAX;
    /* With project quotas the sandbox's own folder shows its quota: the shelf's shows the disk. */
    if (statvfs(s->spec.workspace == KR_WORKSPACE_SHELF ? c->shelf : path, &f) < 0)
        return UINT64_MAX;
    if (ret_size)
        *ret_size = (uint64_t)f.f_blocks * f.f_frsize;
    return f.f_files > 0 && f.f_favail == 0 ? 0 : (uint64_t)f.f_bavail * f.f_frsize;
}

bool kr_session_disk_is_short(const struct kr_session *s)
{
    uint64_t size = 0, left = host_free(s, &size);

    return left != UINT64_MAX && left < kr_files_reserve(size);
}

static void gather_facts(const struct kr_run *r, const struct kr_session *s, const struct kr_held_end *ended,
                         struct kr_cause_facts *f)
{
    *f = (struct kr_cause_facts){
        .after = s->usage,
        .limits = s->spec.limits,
        .data_limited = true,
        .cpu_exceeded = s->cpu_exceeded,
        .disk_exceeded = s->disk_over == KR_MEASURE_OVER_BYTES || s->disk_over == KR_MEASURE_OVER_GAP,
        .inodes_exceeded = s->disk_over == KR_MEASURE_OVER_ENTRIES,
        .host_short = s->disk_short,
        .killed = s->killed,
        .broken = s->broken,
        .hung_up = s->hung_up_ns != 0,
    };
    if (ended) {
        f->ended = true;
        f->status_known = ended->known;
        f->status = ended->status;
    }
    if (!r)
        return;
    if (r->exited) { /* the program of a terminal stands for the session, which only relays */
        f->ended = f->status_known = true;
        f->status = r->program_status;
    }
    f->claim = r->exited && WIFEXITED(r->program_status) ? KR_CLAIM_EXIT : r->claim.claim;
    f->blame = r->claim.blame;
    f->claimed_code = r->exited ? WEXITSTATUS(r->program_status) : r->claim.exit_code;
    f->raised = r->claim.raised;
    f->inodes = r->claim.inodes;
    f->before = r->before;
    f->timed_out = r->timed_out;
    f->interrupted = r->interrupted;
    f->cancelled = r->cancelled;
    f->output_cut = r->output.cut || r->displays_cut > 0;
    f->host_full = f->claim == KR_CLAIM_EXCEPTION && f->blame == KR_BLAME_DISK &&
                   (s->shelf_full || host_free(s, NULL) < FULL_BYTES);
}

struct kr_verdict kr_run_judge(const struct kr_run *r)
{
    struct kr_cause_facts f;

    gather_facts(r, r->session, NULL, &f);
    return kr_cause_decide(&f);
}

enum kr_cause kr_run_cause_without(const struct kr_session *s, const struct kr_held_end *ended)
{
    struct kr_cause_facts f;

    gather_facts(NULL, s, ended, &f);
    f.cancelled = s->closing;
    return kr_cause_decide(&f).cause;
}

/* ---- the line for a person ---- */

/* "memory limit of 256 MiB", for the limit that a verdict is about. */
static const char *name_limit(const struct kr_session *s, enum kr_cause cause, unsigned hits, char *buf, size_t size)
{
    struct kr_limits limits = s->spec.limits;
    const struct kr_limit_row *row;
    const char *name = "disk";
    char shown[32];

    if (cause == KR_CAUSE_MEMORY_LIMIT)
        name = "memory";
    else if (cause == KR_CAUSE_CPU_LIMIT)
        name = "cpu_time";
    else if (cause == KR_CAUSE_PROCESS_LIMIT)
        name = "processes";
    else if (hits & KR_HIT_FILE_SIZE)
        name = "file_size";
    else if (hits & KR_HIT_INODES)
        name = "inodes";
    row = kr_limit_find(name);
    snprintf(buf, size, "%s limit of %s", name, kr_limit_show(row, *kr_limit_at(&limits, row), shown, sizeof shown));
    for (char *p = buf; *p; p++)
        if (*p == '_')
            *p = ' ';
    return buf;
}

static void describe_limit(const struct kr_session *s, const struct kr_verdict *v, char *buf, size_t size)
{
    bool with_others = v->cause == KR_CAUSE_PROCESS_LIMIT && s->engine->info.level == KR_LEVEL_CONTAINED;
    char text[96];

    name_limit(s, v->cause, v->hits, text, sizeof text);
    if (with_others) /* neither a control group nor a user namespace: RLIMIT_NPROC counts per user id */
        snprintf(buf, size,
                 "%s reached, which counts all processes of the server's user here: the program ended by an exception",
                 text);
    else if (s->disk_over == KR_MEASURE_OVER_GAP)
        snprintf(buf, size, "/workspace counts as past the %s, as %s: the program was killed", text,
                 kr_measure_gap_texts[s->disk_gap]);
    else
        snprintf(buf, size, "%s reached: the program %s", text, v->by_kill ? "was killed" : "ended by an exception");
}

/* The policy refused the code: what it found first, and how much more. */
static void describe_refusal(const struct kr_run *r, char *buf, size_t size)
{
    size_t count = r ? json_array_size(r->claim.findings) : 0;
    const char *first = r ? json_string_value(json_object_get(r->claim.error, "message")) : NULL;

    if (count > 1)
        snprintf(buf, size, "the policy refused the code, and nothing of it ran: %.160s (and %zu more)",
                 first ? first : "", count - 1);
    else
        snprintf(buf, size, "the policy refused the code, and nothing of it ran: %.160s", first ? first : "");
}

/* What happened, without what it means for the variables. False: the cause says it all. */
static bool describe_end(const struct kr_run *r, const struct kr_session *s, const struct kr_verdict *v, char *buf,
                         size_t size)
{
    static const struct kr_limit_row ms = {.unit = KR_UNIT_MS};
    const char *how = v->by_kill ? "killed" : "interrupted", *name;
    char text[96];

    switch (v->cause) {
    case KR_CAUSE_TIMEOUT:
        snprintf(buf, size, "timeout after %s: the program was %s",
                 kr_limit_show(&ms, r->timeout_ms, text, sizeof text), how);
        return true;
    case KR_CAUSE_INTERRUPTED:
        snprintf(buf, size, "the program was %s", v->by_kill ? "interrupted and killed" : "interrupted");
        return true;
    case KR_CAUSE_MEMORY_LIMIT:
    case KR_CAUSE_CPU_LIMIT:
    case KR_CAUSE_DISK_LIMIT:
    case KR_CAUSE_PROCESS_LIMIT:
        describe_limit(s, v, buf, size);
        return true;
    case KR_CAUSE_SIGNAL:
        name = sigabbrev_np(v->exit_code - 128);
        snprintf(buf, size, "the program was ended by signal %d%s%s", v->exit_code - 128, name ? ", SIG" : "",
                 name ? name : "");
        return true;
    case KR_CAUSE_DENIED:
        if (v->by_kill)
            snprintf(buf, size, "the program was ended by the system call filter (SIGSYS)");
        else
            describe_refusal(r, buf, size);
        return true;
    case KR_CAUSE_LOST:
        if (s->disk_short) {
            snprintf(buf, size, "the server's disk is almost full: the program was killed; no limit of it was reached");
            return true;
        }
        snprintf(buf, size, "the run is lost: %s",
                 v->shortage                    ? SHORTAGE
                 : s->broken || s->engine->gone ? s->why.msg
                                                : "the status of the session could not be read");
        return true;
    case KR_CAUSE_OK:
    case KR_CAUSE_EXCEPTION:
    case KR_CAUSE_EXIT:
    case KR_CAUSE_CANCELLED:
    case KR_CAUSE_MAX_:
        break;
    }
    return false;
}

const char *kr_session_end_text(const struct kr_session *s, enum kr_cause cause, char *buf, size_t size)
{
    struct kr_verdict v = {.cause = cause, .by_kill = true};

    *buf = '\0';
    if (s->broken)
        snprintf(buf, size, "%s", s->why.msg);
    else if (s->disk_over || s->disk_short) {
        v.hits = s->disk_over == KR_MEASURE_OVER_ENTRIES ? KR_HIT_INODES : KR_HIT_DISK;
        (void)describe_end(NULL, s, &v, buf, size);
    }
    return buf;
}

/* "2 processes that it started were ended", "1 process still runs in the background". */
static void tell_processes(uint64_t count, const char *which, bool is_running, char *buf, size_t size)
{
    const char *plural = count == 1 ? "" : "es";

    if (is_running)
        snprintf(buf, size, "%" PRIu64 " process%s still run%s in the background", count, plural,
                 count == 1 ? "s" : "");
    else
        snprintf(buf, size, "%" PRIu64 " process%s %s %s ended", count, plural, which, count == 1 ? "was" : "were");
}

static void explain_end(const struct kr_run *r, const struct kr_session *s, bool host_is_full, struct kr_run_end *end)
{
    size_t len;

    if (r->unanswered && end->verdict.cause == KR_CAUSE_EXCEPTION)
        snprintf(end->message, sizeof end->message, "input() was not answered, and had the end of input");
    else if (r->left_behind > 0)
        tell_processes(r->left_behind, "that the run left behind", false, end->message, sizeof end->message);
    else if (end->background > s->others)
        tell_processes(end->background, NULL, true, end->message, sizeof end->message);
    if (end->verdict.cause == KR_CAUSE_EXCEPTION && host_is_full)
        snprintf(end->message, sizeof end->message,
                 "the server's disk is full; no limit of the program's was reached: it ended by an exception");
    else if (!describe_end(r, s, &end->verdict, end->message, sizeof end->message))
        return;
    if (r->script || r->terminal)
        return;
    len = strlen(end->message);
    len += (size_t)snprintf(end->message + len, sizeof end->message - len, "; %s",
                            end->session_alive ? "variables kept" : "variables gone");
    if (r->left_behind == 0 && end->background <= s->others)
        return;
    snprintf(end->message + len, sizeof end->message - len, "; ");
    len += 2;
    tell_processes(r->left_behind > 0 ? r->left_behind : end->background, "that it started", r->left_behind == 0,
                   end->message + len, sizeof end->message - len);
}

/* ---- the line for its author ---- */

static void advise(const struct kr_run *r, const struct kr_session *s, struct kr_run_end *end)
{
    struct kr_hint_facts f = {.claimed = json_string_value(r->claim.hint),
                              .network = s->spec.network.kind,
                              .offer = s->engine->offer,
                              .said = r->said,
                              .failed = end->verdict.exit_code != 0,
                              .installs = {.call = s->spec.venv && s->engine->installs ? r->install_call : NULL,
                                           .blocked = s->engine->blocked}};

    kr_hint_write(&f, end->hint, sizeof end->hint);
}

/* ---- the end ---- */

void kr_run_finish(struct kr_run *r, const struct kr_held_end *ended)
{
    struct kr_session *s = r->session;
    struct kr_run_end end = {.claim = &r->claim};
    struct kr_cause_facts f;

    kr_output_finish(&r->output);
    gather_facts(r, s, ended, &f);
    end.verdict = kr_cause_decide(&f);
    end.truncated = r->output.cut || r->displays_cut > 0;
    end.session_alive = !ended && s->state < KR_SESSION_KILLED;
    end.session_frozen = r->thawed;
    end.output_bytes = r->output.total;
    end.wall_ns = (r->ended_ns && !r->script ? r->ended_ns : kr_clock_ns()) - r->started_ns;
    end.have_cpu = s->usage.cpu_ns > 0;
    end.cpu_ns = s->usage.cpu_ns > r->before.cpu_ns ? s->usage.cpu_ns - r->before.cpu_ns : 0;
    end.have_peak = (s->usage.have & KR_LAYER_CGROUP_MEMORY) != 0;
    end.peak_memory = s->usage.memory_peak;
    end.have_background = end.session_alive && kr_usage_others(&s->usage) >= 0;
    end.background = end.have_background ? (uint64_t)kr_usage_others(&s->usage) : 0;
    explain_end(r, s, f.host_full, &end);
    s->others = end.background;
    advise(r, s, &end);
    r->calls.on_end(r->data, r, &end);
    kr_run_free(r);
}

void kr_run_drop(struct kr_run *r, enum kr_cause cause, const char *message)
{
    struct kr_run_end end = {.verdict = {.cause = cause, .exit_code = 125}, .claim = &r->claim};

    end.session_alive = r->session->state < KR_SESSION_KILLED;
    snprintf(end.message, sizeof end.message, "%s", message);
    r->calls.on_end(r->data, r, &end);
    kr_run_free(r);
}
