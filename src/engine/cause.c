/* The decision how a run ended.
 *
 * Called by run.c once, when the run's last byte is read. Invariant: what the session claims decides only between
 * words that do it no good (`ok`, `exception`, `exit`); a limit is named when our own timer, the kernel's counter or
 * the wait status says so, and where a limit has no counter, when the limit was really in force. */
#include "cause.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* clang-format off */
const struct kr_cause_row kr_cause_rows[] = {
    [KR_CAUSE_OK]            = { "ok",            "It ran to its end." },
    [KR_CAUSE_EXCEPTION]     = { "exception",     "An exception was not caught, or the code did not compile." },
    [KR_CAUSE_EXIT]          = { "exit",          "It called sys.exit() or os._exit(); exit_code has its number." },
    [KR_CAUSE_TIMEOUT]       = { "timeout",       "The wall time was over: interrupted, or killed after the grace." },
    [KR_CAUSE_MEMORY_LIMIT]  = { "memory_limit",  "Killed for its memory, or by a MemoryError at the limit." },
    [KR_CAUSE_CPU_LIMIT]     = { "cpu_limit",     "Its CPU time was used up." },
    [KR_CAUSE_DISK_LIMIT]    = { "disk_limit",    "The disk, inode or file-size limit ended it." },
    [KR_CAUSE_PROCESS_LIMIT] = { "process_limit", "It could start no further process or thread, and ended by that." },
    [KR_CAUSE_SIGNAL]        = { "signal",        "A signal ended the interpreter: abort, segmentation fault, kill." },
    [KR_CAUSE_DENIED]        = { "denied",        "Refused before running, or ended by the system call filter." },
    [KR_CAUSE_INTERRUPTED]   = { "interrupted",   "An interrupt was requested." },
    [KR_CAUSE_CANCELLED]     = { "cancelled",     "A cancel was requested: the session was killed." },
    [KR_CAUSE_LOST]          = { "lost",          "How it ended is not known: session or holder are gone or broken." },
};
const struct kr_hit_row kr_hit_rows[] = {
    { KR_HIT_MEMORY,    "memory" },
    { KR_HIT_CPU_TIME,  "cpu_time" },
    { KR_HIT_DISK,      "disk" },
    { KR_HIT_FILE_SIZE, "file_size" },
    { KR_HIT_PROCESSES, "processes" },
    { KR_HIT_TIMEOUT,   "timeout" },
    { KR_HIT_OUTPUT,    "output" },
    { KR_HIT_INODES,    "inodes" },
};
/* clang-format on */
const size_t kr_hit_rows_count = sizeof kr_hit_rows / sizeof kr_hit_rows[0];
static_assert(sizeof kr_cause_rows / sizeof kr_cause_rows[0] == KR_CAUSE_MAX_, "every cause has its row");

#define EXIT_TIMEOUT 124
#define EXIT_OURS 125
#define EXIT_LIMIT 137 /* whether it was killed or raised: one status for "a limit ended it" */
#define EXIT_INTERRUPTED 130
#define EXIT_REFUSED 126 /* as a shell has it for what was found and must not run */
#define EXIT_TERMINATED 143

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), t = strlen(tail);

    return n >= t && strcmp(s + n - t, tail) == 0;
}

enum kr_blame kr_blame_of(const char *type, const char *message, int error_errno)
{
    if (type && ends_with(type, "MemoryError")) /* numpy's is _ArrayMemoryError */
        return KR_BLAME_MEMORY;
    if (type && strcmp(type, "KeyboardInterrupt") == 0)
        return KR_BLAME_KEYBOARD;
    if (type && message && strcmp(type, "RuntimeError") == 0 && strstr(message, "can't start new thread"))
        return KR_BLAME_PROCESSES;
    switch (error_errno) {
    case ENOMEM:
        return KR_BLAME_MEMORY;
    case ENOSPC:
    case EDQUOT:
        return KR_BLAME_DISK;
    case EFBIG:
        return KR_BLAME_FILE_SIZE;
    case EAGAIN:
        return KR_BLAME_PROCESSES;
    default:
        return KR_BLAME_NONE;
    }
}

/* Has the counter of this layer moved during the run? 1 yes, 0 no, -1 there is no counter. */
static int counted(const struct kr_cause_facts *f, uint32_t layer, uint64_t before, uint64_t after)
{
    if (!(f->after.have & layer))
        return -1;
    if (!(f->before.have & layer)) /* the first look at this cell: its counters began at nothing */
        before = 0;
    return after > before;
}

/* A process of the cell was killed for memory: the cell's own limit, or a shortage around it. */
static int oom_killed(const struct kr_cause_facts *f)
{
    return counted(f, KR_LAYER_CGROUP_MEMORY, f->before.oom_kills, f->after.oom_kills);
}

static int pids_refused(const struct kr_cause_facts *f)
{
    return counted(f, KR_LAYER_CGROUP_PIDS, f->before.pids_hits, f->after.pids_hits);
}

/* The peak came within an eighth of the limit: what was left did not suffice for what was asked. */
static bool memory_was_full(const struct kr_cause_facts *f)
{
    return (f->after.have & KR_LAYER_CGROUP_MEMORY) && f->limits.memory > 0 &&
           f->after.memory_peak >= f->limits.memory - f->limits.memory / 8;
}

/* It was killed, and its own counters say that its own limit was reached: the kernel counts a kill for the shortage of
 * an ancestor, or of the machine, in the cell too. */
static bool own_limit_killed(const struct kr_cause_facts *f)
{
    return oom_killed(f) == 1 && (memory_was_full(f) || f->after.memory_peak == 0) && /* 0: an older kernel, no peak */
           counted(f, KR_LAYER_CGROUP_MEMORY, f->before.memory_hits, f->after.memory_hits) == 1;
}

/* Is the CPU time really used up? SIGXCPU can also be sent by the session to itself. RLIMIT_CPU counts whole ticks,
 * the counter nanoseconds: a tenth apart on a quiet machine, more than a fifth on a busy one, so a half is allowed. */
static bool cpu_was_used(const struct kr_cause_facts *f)
{
    if (f->limits.cpu_time_ms == 0)
        return false;
    if (!(f->after.have & KR_LAYER_CGROUP_CPU) && f->after.cpu_ns == 0)
        return true;
    return f->after.cpu_ns / 1000000u >= f->limits.cpu_time_ms / 2;
}

static struct kr_verdict verdict(enum kr_cause cause, int exit_code, unsigned hits, bool by_kill)
{
    return (struct kr_verdict){.cause = cause, .exit_code = exit_code, .hits = hits, .by_kill = by_kill};
}

/* The process died of a signal that we did not send for a reason of ours. */
static struct kr_verdict decide_signal(const struct kr_cause_facts *f, int sig)
{
    switch (sig) {
    case SIGKILL:
        if (own_limit_killed(f))
            return verdict(KR_CAUSE_MEMORY_LIMIT, EXIT_LIMIT, KR_HIT_MEMORY, true);
        if (oom_killed(f) == 1)
            return (struct kr_verdict){
                .cause = KR_CAUSE_LOST, .exit_code = EXIT_OURS, .by_kill = true, .shortage = true};
        /* RLIMIT_CPU: its hard limit kills a program that ignores SIGXCPU */
        if (!(f->after.have & KR_LAYER_CGROUP_CPU) && f->limits.cpu_time_ms > 0 &&
            f->after.cpu_ns / 1000000u >= f->limits.cpu_time_ms)
            return verdict(KR_CAUSE_CPU_LIMIT, EXIT_LIMIT, KR_HIT_CPU_TIME, true);
        break;
    case SIGXCPU:
        if (cpu_was_used(f))
            return verdict(KR_CAUSE_CPU_LIMIT, EXIT_LIMIT, KR_HIT_CPU_TIME, true);
        break;
    case SIGXFSZ:
        return verdict(KR_CAUSE_DISK_LIMIT, EXIT_LIMIT, KR_HIT_FILE_SIZE, true);
    case SIGSYS:
        return verdict(KR_CAUSE_DENIED, EXIT_OURS, 0, true);
    case SIGINT:
        if (f->interrupted)
            return verdict(KR_CAUSE_INTERRUPTED, EXIT_INTERRUPTED, 0, true);
        break;
    default:
        break;
    }
    return verdict(KR_CAUSE_SIGNAL, 128 + sig, 0, true);
}

/* What we did ourselves, and the end followed from it. False: nothing. */
static bool decide_ours(const struct kr_cause_facts *f, struct kr_verdict *ret)
{
    bool gone = f->ended || f->killed;

    if (f->cancelled)
        *ret = verdict(KR_CAUSE_CANCELLED, EXIT_TERMINATED, 0, gone);
    else if (f->disk_exceeded || f->inodes_exceeded)
        *ret = verdict(KR_CAUSE_DISK_LIMIT, EXIT_LIMIT, f->inodes_exceeded ? KR_HIT_INODES : KR_HIT_DISK, true);
    else if (f->host_short)
        *ret = verdict(KR_CAUSE_LOST, EXIT_OURS, 0, true);
    else if (f->cpu_exceeded)
        *ret = verdict(KR_CAUSE_CPU_LIMIT, EXIT_LIMIT, KR_HIT_CPU_TIME, true);
    else if (f->timed_out) /* a script that sent its end was interrupted; one that died without S_END was not */
        *ret =
            verdict(KR_CAUSE_TIMEOUT, EXIT_TIMEOUT, KR_HIT_TIMEOUT, gone && (f->killed || f->claim == KR_CLAIM_NONE));
    else if (f->interrupted && f->killed && f->claim == KR_CLAIM_NONE)
        *ret = verdict(KR_CAUSE_INTERRUPTED, EXIT_INTERRUPTED, 0, true);
    else
        return false;
    return true;
}

/* The exception that ended the run points at a limit: is it confirmed? */
static struct kr_verdict decide_exception(const struct kr_cause_facts *f)
{
    switch (f->blame) {
    case KR_BLAME_KEYBOARD:
        if (f->interrupted)
            return verdict(KR_CAUSE_INTERRUPTED, EXIT_INTERRUPTED, 0, false);
        return verdict(KR_CAUSE_EXCEPTION, EXIT_INTERRUPTED, 0, false); /* as python3 exits */
    case KR_BLAME_MEMORY:
        /* RLIMIT_DATA refuses without counting: believed if it was set and no statement of the code's own raised it. */
        if (memory_was_full(f) || (f->data_limited && !f->raised))
            return verdict(KR_CAUSE_MEMORY_LIMIT, EXIT_LIMIT, KR_HIT_MEMORY, false);
        break;
    case KR_BLAME_DISK:
        if (!f->raised && !f->host_full)
            return verdict(KR_CAUSE_DISK_LIMIT, EXIT_LIMIT, f->inodes ? KR_HIT_INODES : KR_HIT_DISK, false);
        break;
    case KR_BLAME_FILE_SIZE:
        if (!f->raised)
            return verdict(KR_CAUSE_DISK_LIMIT, EXIT_LIMIT, KR_HIT_FILE_SIZE, false);
        break;
    case KR_BLAME_PROCESSES: {
        int refused = pids_refused(f);

        if (refused == 1 || (refused < 0 && !f->raised))
            return verdict(KR_CAUSE_PROCESS_LIMIT, EXIT_LIMIT, KR_HIT_PROCESSES, false);
        break;
    }
    case KR_BLAME_NONE:
    case KR_BLAME_MAX_:
        break;
    }
    return verdict(KR_CAUSE_EXCEPTION, 1, 0, false);
}

static struct kr_verdict decide_claim(const struct kr_cause_facts *f)
{
    switch (f->claim) {
    case KR_CLAIM_OK:
        return verdict(KR_CAUSE_OK, 0, 0, false);
    case KR_CLAIM_EXIT:
        return verdict(KR_CAUSE_EXIT, f->claimed_code & 0xff, 0, false);
    case KR_CLAIM_EXCEPTION:
        return decide_exception(f);
    case KR_CLAIM_DENIED:
        return verdict(KR_CAUSE_DENIED, EXIT_REFUSED, 0, false);
    case KR_CLAIM_NONE:
    case KR_CLAIM_MAX_:
        break;
    }
    return verdict(KR_CAUSE_LOST, EXIT_OURS, 0, false);
}

/* The process is gone and the end was none of our doing. */
static struct kr_verdict decide_status(const struct kr_cause_facts *f)
{
    struct kr_verdict v;

    if (!f->status_known)
        return verdict(KR_CAUSE_LOST, EXIT_OURS, 0, true);
    if (WIFSIGNALED(f->status))
        return decide_signal(f, WTERMSIG(f->status));
    if (!WIFEXITED(f->status))
        return verdict(KR_CAUSE_LOST, EXIT_OURS, 0, true);
    if (f->claim == KR_CLAIM_NONE && WEXITSTATUS(f->status) == KR_EXIT_NO_CHANNEL)
        return verdict(KR_CAUSE_LOST, EXIT_OURS, 0, true);
    v = decide_claim(f);
    if (f->claim != KR_CLAIM_NONE &&
        (WEXITSTATUS(f->status) == v.exit_code || WEXITSTATUS(f->status) == (f->claimed_code & 0xff)))
        return v; /* the process ended as it said it would */
    return verdict(KR_CAUSE_EXIT, WEXITSTATUS(f->status), 0, false);
}

struct kr_verdict kr_cause_decide(const struct kr_cause_facts *f)
{
    struct kr_verdict v;

    /* A large process takes long to die on a busy machine: its channel is closed before its end is known. */
    if (f->broken && f->hung_up && f->claim == KR_CLAIM_NONE && own_limit_killed(f))
        v = verdict(KR_CAUSE_MEMORY_LIMIT, EXIT_LIMIT, KR_HIT_MEMORY, true);
    else if (f->broken)
        v = verdict(KR_CAUSE_LOST, EXIT_OURS, 0, true);
    else if (decide_ours(f, &v))
        ;
    else if (f->ended && !(f->killed && f->claim != KR_CLAIM_NONE))
        v = decide_status(f);
    else
        v = decide_claim(f);
    if (own_limit_killed(f))
        v.hits |= KR_HIT_MEMORY;
    if (pids_refused(f) == 1)
        v.hits |= KR_HIT_PROCESSES;
    if (f->output_cut)
        v.hits |= KR_HIT_OUTPUT;
    return v;
}
