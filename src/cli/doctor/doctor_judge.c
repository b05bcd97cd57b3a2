/* The verdicts on a cell's walls: what the battery saw inside against what it should have seen.
 *
 * Called by doctor_app.c when all trials are over. Invariant: a wall is ok only if the warden gave it and at least
 * one attempt on it was made and every one was answered as it must be; an attempt that went through, or a fact that
 * is not there, is a failure and is named. */
#include "doctor.h"
#include "buf.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One attempt. The words that are right, separated by blanks; with ! in front, those that are wrong. NULL: not
 * judged at this level. "unknown" and "skipped" are neither right nor wrong. */
struct rule {
    enum kr_doctor_layer layer;
    const char *fact, *label;
    const char *cell, *contained;
};

/* clang-format off */
#define UNREACHED "ENOENT EACCES"
#define NO_SOCKET "EPERM EACCES EAFNOSUPPORT"
static const struct rule rules[] = {
    {KR_DOC_USER, "ns_user", NULL, "own", NULL},
    {KR_DOC_USER, "uid", "uid inside", "1000", NULL},
    {KR_DOC_USER, "usr_owner", "owner of /usr", "!0", NULL},
    {KR_DOC_USER, "become_root", "become root", "EPERM EINVAL", NULL},
    {KR_DOC_PID, "ns_pid", NULL, "own", NULL},
    {KR_DOC_PID, "processes", "processes in sight", "1", NULL},
    {KR_DOC_PID, "signal", "signal to krait outside", "ESRCH", NULL},
    {KR_DOC_MOUNT, "ns_mnt", NULL, "own", NULL},
    {KR_DOC_MOUNT, "file", "a file of the host", "ENOENT", NULL},
    {KR_DOC_MOUNT, "home", "your home folder", UNREACHED " hidden", NULL},
    {KR_DOC_MOUNT, "shadow", "/etc/shadow", UNREACHED, NULL},
    {KR_DOC_MOUNT, "write_usr", "write to /usr", "EROFS EACCES", NULL},
    {KR_DOC_MOUNT, "write_etc", "write to /etc", "EROFS EACCES", NULL},
    {KR_DOC_NETWORK, "ns_net", NULL, "own", NULL},
    {KR_DOC_NETWORK, "interfaces", "interfaces", "none lo", NULL},
    {KR_DOC_NETWORK, "abstract", "abstract socket outside", "ECONNREFUSED EPERM", NULL},
    {KR_DOC_NETWORK, "inet", "internet socket", NO_SOCKET, NULL},
    {KR_DOC_NETWORK, "netlink", "netlink", NO_SOCKET, NULL},
    {KR_DOC_IPC, "ns_ipc", NULL, "own", NULL},
    {KR_DOC_IPC, "shm", "shared memory outside", "EINVAL EIDRM EPERM", NULL},
    {KR_DOC_UTS, "ns_uts", NULL, "own", NULL},
    {KR_DOC_UTS, "hostname", "host name inside", "krait", NULL},
    {KR_DOC_CGROUPNS, "ns_cgroup", NULL, "own", NULL},
    {KR_DOC_CGROUPNS, "cgroup", "own path inside", "/", NULL},
    /* Where there are no namespaces, Landlock stands for them. */
    {KR_DOC_LANDLOCK, "file", "a file of the host", NULL, "EACCES"},
    {KR_DOC_LANDLOCK, "home", "your home folder", NULL, UNREACHED},
    {KR_DOC_LANDLOCK, "shadow", "/etc/shadow", NULL, UNREACHED},
    {KR_DOC_LANDLOCK, "write_usr", "write to /usr", NULL, "EROFS EACCES"},
    {KR_DOC_LANDLOCK, "signal", "signal to krait outside", NULL, "EPERM"},
    {KR_DOC_SECCOMP, "inet", "internet socket", NULL, NO_SOCKET},
    {KR_DOC_SECCOMP, "abstract", "abstract socket outside", NULL, NO_SOCKET},
    {KR_DOC_SECCOMP, "shm", "shared memory outside", NULL, "EPERM"},
    {KR_DOC_NNP, "no_new_privs", "PR_GET_NO_NEW_PRIVS", "1", "1"},
    {KR_DOC_CAPS, "capabilities", "left in any of the five sets", "none", "none"},
    {KR_DOC_PROC, "proc_self", "/proc/self", "ok", NULL},
    {KR_DOC_PROC, "proc_host", "/proc/interrupts", UNREACHED, NULL},
    {KR_DOC_PROC, "proc_sys", "/proc/sys/kernel/random", UNREACHED, NULL},
    {KR_DOC_FILES, "lock_usr", "a lock on /usr beside the host's", "ok", NULL},
    {KR_DOC_DEVICES, "lock_null", "a lock on /dev/null beside the host's", "ok", NULL},
    {KR_DOC_TERMINALS, "terminal", "the first one opened inside", "/dev/pts/0", NULL},
    {KR_DOC_GAUGES, "gauges", "/proc/meminfo", "ok", NULL},
    {KR_DOC_GAUGES, "write_gauges", "write to it", "EROFS EACCES", NULL},
    {KR_DOC_CORE, "core", "core of a crash", "none", "none"},
    {KR_DOC_CORE, "core_limit", "limit in bytes", "0 1", "0 1"},
};
/* clang-format on */

/* Texts of a session, fit for a terminal. */
json_t *kr_doctor_take_facts(const char *text, size_t len)
{
    json_t *raw = json_loadb(text, len, 0, NULL), *facts = json_is_object(raw) ? json_object() : NULL, *value;
    const char *key;

    json_object_foreach(raw, key, value)
    {
        char clean[256];

        if (!json_is_string(value))
            continue;
        snprintf(clean, sizeof clean, "%s", json_string_value(value));
        for (char *p = clean; *p; p++)
            if (*p < 0x20 || *p > 0x7e)
                *p = '?';
        json_object_set_new(facts, key, json_string(clean));
    }
    json_decref(raw);
    return facts;
}

const char *kr_doctor_fact(const struct kr_doctor_trial *t, const char *name)
{
    return json_string_value(json_object_get(t->facts, name));
}

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == len && strncmp(p, word, len) == 0)
            return true;
    return false;
}

static bool is_right(const char *wanted, const char *word)
{
    return wanted[0] == '!' ? !has_word(wanted + 1, word) : has_word(wanted, word);
}

/* ---- a layer by its rules ---- */

struct tally {
    struct kr_buf good, bad;
    unsigned tried;
};

static void tally_init(struct tally *t)
{
    *t = (struct tally){0};
    kr_buf_init(&t->good, 4096);
    kr_buf_init(&t->bad, 4096);
}

static void note(struct kr_buf *b, const char *text)
{
    kr_buf_printf(b, "%s%s", b->len ? ", " : "", text);
}

static void try_rule(struct tally *t, const struct rule *rule, const char *wanted, const char *word)
{
    char text[400];
    bool right;

    if (word && (strcmp(word, "unknown") == 0 || strcmp(word, "skipped") == 0))
        return;
    right = word && is_right(wanted, word);
    t->tried += right;
    if (!rule->label && right)
        return; /* that the namespace is its own goes without saying */
    snprintf(text, sizeof text, "%s: %s%s%s%s", rule->label ? rule->label : "namespace", word ? word : "no answer",
             right ? "" : " (want ", right ? "" : wanted, right ? "" : ")");
    note(right ? &t->good : &t->bad, text);
}

static void try_rules(struct tally *t, const struct kr_doctor_facts *f, enum kr_doctor_layer layer, bool contained)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const char *wanted = contained ? rules[i].contained : rules[i].cell;

        if (rules[i].layer == layer && wanted)
            try_rule(t, &rules[i], wanted, kr_doctor_fact(&f->trials[KR_TRIAL_BATTERY], rules[i].fact));
    }
}

static void conclude(struct tally *t, struct kr_doctor_report *r, enum kr_doctor_layer layer, const char *lead)
{
    const char *good = kr_buf_str(&t->good);

    if (t->bad.len)
        kr_doctor_set(r, layer, KR_DOCTOR_FAILED, "%s", kr_buf_str(&t->bad));
    else if (t->tried == 0)
        kr_doctor_set(r, layer, KR_DOCTOR_FAILED, "nothing could be tried here");
    else
        kr_doctor_set(r, layer, KR_DOCTOR_OK, "%s%s%s", lead, lead[0] && good[0] ? "; " : "", good);
    kr_buf_done(&t->good);
    kr_buf_done(&t->bad);
}

static void judge_by_rules(const struct kr_doctor_facts *f, struct kr_doctor_report *r, enum kr_doctor_layer layer,
                           bool contained, const char *lead)
{
    struct tally t;

    tally_init(&t);
    try_rules(&t, f, layer, contained);
    conclude(&t, r, layer, lead);
}

/* ---- layers with more to say ---- */

static void judge_landlock(const struct kr_doctor_facts *f, struct kr_doctor_report *r, bool contained)
{
    const char *rooms = kr_doctor_fact(&f->trials[KR_TRIAL_BATTERY], "landlock");
    char lead[80], text[120];
    struct tally t;

    tally_init(&t);
    /* A process in a domain has room for one domain fewer than we have. */
    if (rooms && f->bait->landlock_rooms > 0 && atoi(rooms) == f->bait->landlock_rooms - 1 && rooms[0] >= '0' &&
        rooms[0] <= '9') {
        t.tried++;
        snprintf(text, sizeof text, "in a domain of its own (room for %s more, outside for %d)", rooms,
                 f->bait->landlock_rooms);
        note(&t.good, text);
    } else {
        snprintf(text, sizeof text, "in no domain of ours: room for %s more, outside for %d",
                 rooms ? rooms : "no answer", f->bait->landlock_rooms);
        note(&t.bad, text);
    }
    try_rules(&t, f, KR_DOC_LANDLOCK, contained);
    snprintf(lead, sizeof lead, "ABI %d%s", f->landlock_abi,
             f->landlock_abi < 6 ? " (signals and abstract sockets are left to the namespaces)" : "");
    conclude(&t, r, KR_DOC_LANDLOCK, lead);
}

static void judge_seccomp(const struct kr_doctor_facts *f, struct kr_doctor_report *r, bool contained)
{
    const struct kr_doctor_trial *battery = &f->trials[KR_TRIAL_BATTERY];
    const char *mode = kr_doctor_fact(battery, "seccomp");
    unsigned open_outside = 0;
    char text[160];
    struct tally t;

    tally_init(&t);
    if (!mode || (strcmp(mode, "2") != 0 && strcmp(mode, "unknown") != 0))
        note(&t.bad, "no filter is set");
    for (size_t i = 0; i < kr_doctor_calls_count; i++) {
        const struct kr_doctor_call *c = &kr_doctor_calls[i];
        const char *word;

        snprintf(text, sizeof text, "call_%s", c->name);
        word = kr_doctor_fact(battery, text);
        if (word && strcmp(word, c->wanted) == 0) {
            t.tried++;
            open_outside += strcmp(f->bait->calls[i], word) != 0;
            continue;
        }
        snprintf(text, sizeof text, "%s: %s (want %s)", c->name, word ? word : "no answer", c->wanted);
        note(&t.bad, text);
    }
    try_rules(&t, f, KR_DOC_SECCOMP, contained);
    snprintf(
        text, sizeof text,
        "%zu dangerous calls refused (unshare, mount, ptrace, keyctl, bpf, io_uring …); %u of them are open outside",
        kr_doctor_calls_count, open_outside);
    conclude(&t, r, KR_DOC_SECCOMP, text);
}

/* What the warden says of cgroups; its line about ids is left out, and so is the advice, which has its own column
 * here. */
static void cgroup_line(const struct kr_holder_info *hello, char *buf, size_t size)
{
    char copy[sizeof hello->detail], *save = NULL, *advice;

    buf[0] = '\0';
    snprintf(copy, sizeof copy, "%.*s", (int)sizeof hello->detail - 1, hello->detail);
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "cells share", 11) == 0)
            continue;
        advice = strstr(line, ": systemd-run");
        if (advice)
            *advice = '\0';
        snprintf(buf, size, "%s", line);
    }
}

/* The map of any other cell, made while that of the battery lived. */
static const char *other_map(const struct kr_doctor_facts *f)
{
    const char *map = NULL;

    for (int i = KR_TRIAL_BATTERY + 1; i < KR_TRIAL_MAX_ && !map; i++)
        map = kr_doctor_fact(&f->trials[i], "map");
    return map;
}

static void judge_ids(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const char *one = kr_doctor_fact(&f->trials[KR_TRIAL_BATTERY], "map"), *other = other_map(f);

    if (!(f->layers & KR_LAYER_UIDS)) {
        kr_doctor_set(r, KR_DOC_UIDS, KR_DOCTOR_MISSING, "outside, every session has uid %u, as krait itself",
                      geteuid());
        if (f->hello.level == KR_LEVEL_ROOT)
            kr_doctor_fix(
                r, KR_DOC_UIDS,
                "run as root outside of this user namespace, or in one with a range of ids (newuidmap, /etc/subuid)");
    } else if (!one || !other) {
        kr_doctor_set(r, KR_DOC_UIDS, KR_DOCTOR_FAILED, "%u host ids for cells, but no two cells to compare",
                      f->hello.id_count);
    } else if (strcmp(one, "unknown") == 0) {
        kr_doctor_set(r, KR_DOC_UIDS, KR_DOCTOR_OK,
                      "%u host ids for cells (without /proc a session cannot tell its own)", f->hello.id_count);
    } else if (strcmp(one, other) == 0) {
        kr_doctor_set(r, KR_DOC_UIDS, KR_DOCTOR_FAILED, "two live cells have the same ids: %s", one);
    } else {
        kr_doctor_set(r, KR_DOC_UIDS, KR_DOCTOR_OK, "%u host ids for cells; two live cells: %s and %s",
                      f->hello.id_count, one, other);
    }
}

static void judge_cgroup_backend(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    static const char *const kinds[] = {"none", "v1", "v2", "hybrid (controllers on v1)"};
    const uint32_t all = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU;
    const char *kind = f->hello.cgroup_kind < sizeof kinds / sizeof kinds[0] ? kinds[f->hello.cgroup_kind] : "unknown";
    uint32_t have = (f->trials[KR_TRIAL_BATTERY].opened ? f->layers : f->hello.layers) & all;
    char line[256];

    cgroup_line(&f->hello, line, sizeof line);
    if (have == 0)
        kr_doctor_set(r, KR_DOC_CGROUP, KR_DOCTOR_MISSING, "%s", line[0] ? line : kind);
    else
        kr_doctor_set(r, KR_DOC_CGROUP, have == all ? KR_DOCTOR_OK : KR_DOCTOR_DEGRADED, "%s:%s%s%s%s%s", kind,
                      have & KR_LAYER_CGROUP_MEMORY ? " memory" : "", have & KR_LAYER_CGROUP_PIDS ? " pids" : "",
                      have & KR_LAYER_CGROUP_CPU ? " cpu" : "", line[0] ? "; " : "", line);
}

/* The files may be there and tell limits alone. */
static const char *why_no_gauges(const struct kr_doctor_facts *f)
{
    const char *read = kr_doctor_fact(&f->trials[KR_TRIAL_BATTERY], "gauges");

    if (!(f->layers & KR_LAYER_PROC))
        return "no /proc of its own to show them in";
    if (read && strcmp(read, "ok") == 0)
        return "limits are shown, and no use: cgroups do not count it";
    return "/proc shows processes alone: the kernel has no overlays here, or narrows no /proc that is mounted";
}

/* No battery, no verdicts: each wall says why. */
static void judge_nothing(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    const struct kr_doctor_trial *t = &f->trials[KR_TRIAL_BATTERY];

    for (int i = 0; i <= KR_DOC_CORE; i++)
        kr_doctor_set(r, (enum kr_doctor_layer)i, t->opened ? KR_DOCTOR_FAILED : KR_DOCTOR_UNTRIED, "%s: %s",
                      t->opened ? "the probes did not answer" : "no cell", t->message[0] ? t->message : "stopped");
}

/* Deleted files that are still open are found by way of the cell's own /proc. */
static void judge_counting(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    struct kr_doctor_finding *shelf = &r->findings[KR_DOC_SHELF];
    size_t len = strlen(shelf->detail);

    if (shelf->state == KR_DOCTOR_DEGRADED && !(f->layers & KR_LAYER_PROC))
        snprintf(shelf->detail + len, sizeof shelf->detail - len,
                 "; deleted files that are still open are not counted: a cell has no /proc of its own");
}

void kr_doctor_judge(const struct kr_doctor_facts *f, struct kr_doctor_report *r)
{
    bool contained = f->hello.level == KR_LEVEL_CONTAINED;

    judge_cgroup_backend(f, r);
    judge_counting(f, r);
    if (!f->trials[KR_TRIAL_BATTERY].facts) {
        judge_nothing(f, r);
        return;
    }
    for (int i = 0; i <= KR_DOC_CORE; i++) {
        enum kr_doctor_layer layer = (enum kr_doctor_layer)i;
        uint32_t bit = kr_doctor_row(layer).bit;

        if (bit && !(f->layers & bit))
            kr_doctor_set(r, layer, KR_DOCTOR_MISSING, "%s",
                          layer == KR_DOC_DEVICES                ? "a session has the device nodes of the host"
                          : layer == KR_DOC_GAUGES && !contained ? why_no_gauges(f)
                          : !contained                           ? "the cell has none"
                          : layer == KR_DOC_PROC                 ? "a session sees the /proc of krait itself"
                                                                 : "the level contained has none");
        else if (layer == KR_DOC_LANDLOCK)
            judge_landlock(f, r, contained);
        else if (layer == KR_DOC_SECCOMP)
            judge_seccomp(f, r, contained);
        else
            judge_by_rules(f, r, layer, contained, "");
    }
    judge_ids(f, r);
}
