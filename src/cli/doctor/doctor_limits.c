/* The verdicts on limits and zygotes: each limit was run into in a small cell of its own.
 *
 * Called by doctor_app.c. Invariant: what counts is how the run ended and what the engine says of it; a limit the
 * warden gave and that did not bite is a failure, and one it could not give is looked at for what holds in its
 * place. */
#include "doctor.h"
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static bool gave(const struct kr_doctor_facts *f, uint32_t bit)
{
    return (f->layers & bit) != 0;
}

static bool said(const struct kr_doctor_trial *t, const char *name, const char *word)
{
    const char *got = kr_doctor_fact(t, name);

    return got && strcmp(got, word) == 0;
}

static const char *how(const struct kr_doctor_trial *t)
{
    return t->message[0] ? t->message : "stopped";
}

static void judge_memory(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const struct kr_doctor_trial *own = &f->trials[KR_TRIAL_OWN_MEMORY], *shared = &f->trials[KR_TRIAL_SHARED_MEMORY];
    bool own_held = said(own, "own", "MemoryError");
    bool shared_held = shared->ended && shared->verdict.cause == KR_CAUSE_MEMORY_LIMIT && shared->verdict.by_kill;
    const char *own_text = own_held ? "MemoryError" : said(own, "own", "ok") ? "got them" : how(own);
    const char *shared_text = shared_held                    ? "killed by its cgroup"
                              : said(shared, "shared", "ok") ? "got them"
                                                             : how(shared);
    enum kr_doctor_state state = KR_DOCTOR_FAILED;

    if (own_held && gave(f, KR_LAYER_CGROUP_MEMORY) == shared_held)
        state = shared_held ? KR_DOCTOR_OK : KR_DOCTOR_DEGRADED;
    kr_doctor_set(r, KR_DOC_MEMORY, state, "64 MiB cell; 160 MiB of its own: %.160s%s; 96 MiB shared: %.160s", own_text,
                  own_held ? " (RLIMIT_DATA)" : "", shared_text);
}

static void judge_processes(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const struct kr_doctor_trial *t = &f->trials[KR_TRIAL_PROCESSES];
    const char *started = kr_doctor_fact(t, "started");
    uint64_t limit = kr_doctor_limits[KR_TRIAL_PROCESSES].processes;
    bool held = started && said(t, "how", "EAGAIN") && strtoull(started, NULL, 10) < limit;
    bool counted = (t->verdict.hits & KR_HIT_PROCESSES) != 0;

    if (!started)
        kr_doctor_set(r, KR_DOC_PIDS, KR_DOCTOR_FAILED, "no answer: %s", how(t));
    else if (gave(f, KR_LAYER_CGROUP_PIDS))
        kr_doctor_set(r, KR_DOC_PIDS, held && counted ? KR_DOCTOR_OK : KR_DOCTOR_FAILED,
                      "limit %llu: %s more started, then %s%s", (unsigned long long)limit, started,
                      held ? "EAGAIN" : "no refusal", counted ? ", as the cgroup counted" : "");
    else
        kr_doctor_set(r, KR_DOC_PIDS, held ? KR_DOCTOR_DEGRADED : KR_DOCTOR_FAILED,
                      "limit %llu: %s more started, then %s (RLIMIT_NPROC)", (unsigned long long)limit, started,
                      held ? "EAGAIN" : "no refusal");
}

static void judge_processor(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const struct kr_doctor_trial *t = &f->trials[KR_TRIAL_PROCESSOR];
    const char *cores = kr_doctor_fact(t, "cores");
    double limit = (double)kr_doctor_limits[KR_TRIAL_PROCESSOR].cpu_milli / 1000;
    bool held = cores && strtod(cores, NULL) <=
                             1.5 * limit; /* refilled ten times a second: at most 1.2 times the limit in half of one */

    if (!cores)
        kr_doctor_set(r, KR_DOC_CPU, KR_DOCTOR_FAILED, "no answer: %s", how(t));
    else if (gave(f, KR_LAYER_CGROUP_CPU))
        kr_doctor_set(r, KR_DOC_CPU, held ? KR_DOCTOR_OK : KR_DOCTOR_FAILED,
                      "limit %.2f cores: a busy loop got %s, outside %.2f", limit, cores, f->cores_outside);
    else
        kr_doctor_set(r, KR_DOC_CPU, KR_DOCTOR_MISSING, "limit %.2f cores: a busy loop got %s, outside %.2f", limit,
                      cores, f->cores_outside);
}

static void judge_disk(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    static const char *const folders[] = {"workspace", "tmp", "shm"};
    const struct kr_doctor_trial *t = &f->trials[KR_TRIAL_DISK];
    const struct kr_doctor_limits *limits = &kr_doctor_limits[KR_TRIAL_DISK];
    unsigned held = 0, contained = f->hello.level == KR_LEVEL_CONTAINED;
    const char *files = kr_doctor_fact(t, "files"), *bytes;

    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char name[32];

        snprintf(name, sizeof name, "%s_bytes", folders[i]);
        bytes = kr_doctor_fact(t, name);
        held += bytes && strtoull(bytes, NULL, 10) <= limits->disk && said(t, folders[i], "ENOSPC");
    }
    if (held == 3 && files && said(t, "inodes", "ENOSPC") && strtoull(files, NULL, 10) <= limits->inodes)
        kr_doctor_set(
            r, KR_DOC_DISK, KR_DOCTOR_OK,
            "sized tmpfs, enforced; limit 2 MiB: /workspace, /tmp, /dev/shm ENOSPC; limit 64 files: ENOSPC after %s",
            files);
    else if (contained && files)
        kr_doctor_set(r, KR_DOC_DISK, KR_DOCTOR_MISSING,
                      "the level contained has a plain scratch folder: past 2 MiB it said %s",
                      kr_doctor_fact(t, "workspace"));
    else if (t->ended && t->verdict.cause == KR_CAUSE_DISK_LIMIT)
        kr_doctor_set(r, KR_DOC_DISK, KR_DOCTOR_DEGRADED,
                      "a plain scratch folder, accounted, not enforced; limit 2 MiB: %s", how(t));
    else
        kr_doctor_set(r, KR_DOC_DISK, KR_DOCTOR_FAILED, "limit 2 MiB held in %u of 3 folders: %s", held, how(t));
}

void kr_doctor_judge_folder(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const struct kr_doctor_trial *t = &f->trials[KR_TRIAL_FOLDER];
    bool ended = t->ended && t->verdict.cause == KR_CAUSE_DISK_LIMIT;

    if (ended && f->word_came_out)
        kr_doctor_set(r, KR_DOC_FOLDER, KR_DOCTOR_DEGRADED,
                      "accounted, not enforced; limit 1 MiB: 4 MiB were written, then the session was ended; files are "
                      "the caller's outside%s",
                      gave(f, KR_LAYER_UIDS) ? " (id-mapped mount)" : "");
    else if (!t->opened)
        kr_doctor_set(r, KR_DOC_FOLDER, KR_DOCTOR_MISSING, "%s", how(t));
    else
        kr_doctor_set(r, KR_DOC_FOLDER, KR_DOCTOR_FAILED, "%s; %s",
                      f->word_came_out ? "files come out" : "no file came out as ours", how(t));
}

/* ---- zygotes ---- */

static void judge_zygote(const struct kr_doctor_facts *f, struct kr_doctor_report *r, enum kr_preload preload)
{
    enum kr_doctor_layer layer = preload == KR_PRELOAD_DATA ? KR_DOC_DATA : KR_DOC_BASIC;
    const struct kr_doctor_trial *t = &f->trials[preload == KR_PRELOAD_DATA ? KR_TRIAL_DATA : KR_TRIAL_DISK];
    const char *libraries = preload == KR_PRELOAD_DATA ? kr_doctor_fact(t, "libraries") : NULL;
    double ready_ms = (double)f->ready_ns[preload] / 1e6;

    if (f->ready_ns[preload] == 0)
        kr_doctor_fix(r, layer, "%s", kr_doctor_row(layer).fix);
    if (f->ready_ns[preload] == 0)
        kr_doctor_set(r, layer, preload == KR_PRELOAD_DATA ? KR_DOCTOR_MISSING : KR_DOCTOR_FAILED, "%s",
                      f->zygote_error[preload][0] ? f->zygote_error[preload] : how(t));
    else if (!t->opened || !t->facts)
        kr_doctor_set(r, layer, KR_DOCTOR_FAILED, "ready after %.0f ms, but its session failed: %s", ready_ms, how(t));
    else
        kr_doctor_set(r, layer, KR_DOCTOR_OK, "ready after %.0f ms, a session after %.1f ms more; Python %s%s%s",
                      ready_ms, (double)t->open_ns / 1e6, f->python, libraries && libraries[0] ? ", " : "",
                      libraries ? libraries : "");
}

void kr_doctor_judge_limits(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    if (f->trials[KR_TRIAL_BATTERY].opened) {
        judge_memory(f, r);
        judge_processes(f, r);
        judge_processor(f, r);
        judge_disk(f, r);
    } else {
        for (int i = KR_DOC_MEMORY; i <= KR_DOC_DISK; i++)
            kr_doctor_set(r, (enum kr_doctor_layer)i, KR_DOCTOR_UNTRIED, "no cell: %s",
                          how(&f->trials[KR_TRIAL_BATTERY]));
    }
    judge_zygote(f, r, KR_PRELOAD_BASIC);
    judge_zygote(f, r, KR_PRELOAD_DATA);
}
