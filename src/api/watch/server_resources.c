/* Figures of what krait uses: its cgroup where there is one, the machine where there is none.
 *
 * Called for GET /health and the metrics. Everything is read beneath a root that the tests replace. Invariant: a file
 * that is missing, unreadable or not understood makes its figure unknown or the next best one, never a wrong one and
 * never an error; at most one reading a second, some 15 small files. */
#define _GNU_SOURCE 1
#include "server_resources.h"
#include "clock.h"
#include "fd.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PATH_ROOM 768
#define FRESH_NS 1000000000u
#define UNKNOWN KR_RESOURCES_UNKNOWN
/* v1 writes a missing limit as the largest multiple of a page. */
#define V1_NO_LIMIT ((uint64_t)1 << 60)

const char *const kr_resources_of_names[KR_OF_MAX_] = {
    [KR_OF_NOBODY] = "unknown", [KR_OF_CGROUP_V2] = "cgroup_v2", [KR_OF_CGROUP_V1] = "cgroup_v1",
    [KR_OF_RLIMIT] = "rlimit",  [KR_OF_MACHINE] = "machine",
};

/* Controllers, and what their files are called in v2 and v1. */
enum controller { MEMORY, PIDS, CPU, CPUACCT, CONTROLLERS };
static const char *const controller_names[] = {"memory", "pids", "cpu", "cpuacct"};
static_assert(sizeof controller_names / sizeof *controller_names == CONTROLLERS, "every controller has its name");

struct group {
    char mount[256];       /* beneath the root; "" if it is not mounted */
    char group[PATH_ROOM]; /* our cgroup there, mount included; "" if it is not known */
    bool v2;
};

struct kr_resources_reader {
    char *root, *data;
    struct group v2, v1[CONTROLLERS];
    struct kr_resources now;
    uint64_t read_ns; /* 0: never */
    /* the reading before */
    double cpu_seconds; /* -1: none */
    uint64_t cpu_ns;
    enum kr_resources_of cpu_of;
};

/* ---- small files ---- */

/* The beginning of root/dir/name; 0, or -errno. */
static int read_text(const struct kr_resources_reader *r, const char *dir, const char *name, char *buf, size_t size)
{
    char path[2 * PATH_ROOM];
    ssize_t n;

    if ((size_t)snprintf(path, sizeof path, "%s%s/%s", r->root, dir, name) >= sizeof path)
        return -ENAMETOOLONG;
    n = kr_fd_read_file_at(AT_FDCWD, path, buf, size);
    return n >= 0 || n == -E2BIG ? 0 : (int)n; /* what is too long is cut: callers look at the beginning */
}

static uint64_t number_of(const char *text)
{
    char *end;
    unsigned long long v;

    if (*text < '0' || *text > '9')
        return UNKNOWN; /* "max", "unlimited", -1 */
    errno = 0;
    v = strtoull(text, &end, 10);
    return errno == 0 && end != text ? v : UNKNOWN;
}

static uint64_t read_number(const struct kr_resources_reader *r, const char *dir, const char *name)
{
    char text[64];

    return dir[0] && read_text(r, dir, name, text, sizeof text) == 0 ? number_of(text) : UNKNOWN;
}

/* The number behind `key` and blanks at the beginning of a line. */
static uint64_t number_after(const char *text, const char *key)
{
    size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (strncmp(line, key, len) == 0 && strchr(" \t", line[len]))
            return number_of(line + len + strspn(line + len, " \t"));
    return UNKNOWN;
}

/* ---- where our cgroup is ---- */

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && strchr(",: \n", at[len]))
            return true;
    return false;
}

/* One line of mountinfo: "36 35 98:0 /root /mount/point opts - fstype source superopts". */
static void take_mount(struct kr_resources_reader *r, const char *line)
{
    const char *dash = strstr(line, " - ");
    char point[256], type[32], super[256];

    if (!dash || sscanf(line, "%*s %*s %*s %*s %255s", point) != 1 ||
        sscanf(dash + 3, "%31s %*s %255s", type, super) != 2)
        return;
    if (strcmp(type, "cgroup2") == 0 && !r->v2.mount[0])
        snprintf(r->v2.mount, sizeof r->v2.mount, "%s", point);
    for (unsigned i = 0; strcmp(type, "cgroup") == 0 && i < CONTROLLERS; i++)
        if (has_word(super, controller_names[i]) && !r->v1[i].mount[0])
            snprintf(r->v1[i].mount, sizeof r->v1[i].mount, "%s", point);
}

static void find_mounts(struct kr_resources_reader *r)
{
    cleanup_free char *text = malloc(65536);
    char *save = NULL;

    r->v2.v2 = true;
    if (!text || read_text(r, "/proc/self", "mountinfo", text, 65536) < 0)
        return;
    for (const char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_mount(r, line);
}

static bool is_folder(const struct kr_resources_reader *r, const char *dir)
{
    char path[2 * PATH_ROOM];

    snprintf(path, sizeof path, "%s%s/cgroup.procs", r->root, dir);
    return access(path, F_OK) == 0;
}

/* A path of /proc/self/cgroup as a folder. A container may see its own cgroup as the root of the mount. */
static void set_group(const struct kr_resources_reader *r, struct group *p, const char *own, size_t len)
{
    static const char leaf[] = "/krait-host"; /* the warden steps into it, the cells are beside it */

    if (!p->mount[0])
        return;
    if (len >= strlen(leaf) && memcmp(own + len - strlen(leaf), leaf, strlen(leaf)) == 0)
        len -= strlen(leaf);
    while (len > 0 && own[len - 1] == '/')
        len--;
    snprintf(p->group, sizeof p->group, "%s%.*s", p->mount, (int)len, own);
    if (!is_folder(r, p->group))
        snprintf(p->group, sizeof p->group, "%s", p->mount);
}

/* Reads /proc/self/cgroup: "4:memory:/path", "0::/path". */
static void find_groups(struct kr_resources_reader *r)
{
    char text[8192], *save = NULL;

    r->v2.group[0] = '\0';
    for (unsigned i = 0; i < CONTROLLERS; i++)
        r->v1[i].group[0] = '\0';
    if (read_text(r, "/proc/self", "cgroup", text, sizeof text) < 0)
        return;
    for (const char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *names = strchr(line, ':'), *own = names ? strchr(names + 1, ':') : NULL;

        if (!own)
            continue;
        if (own == names + 1)
            set_group(r, &r->v2, own + 1, strlen(own + 1));
        for (unsigned i = 0; own > names + 1 && i < CONTROLLERS; i++)
            if (has_word(names + 1, controller_names[i]))
                set_group(r, &r->v1[i], own + 1, strlen(own + 1));
    }
}

/* Where a controller is: in v1 if it is mounted there, as a controller is in one of the two alone. */
static const struct group *group_of(const struct kr_resources_reader *r, enum controller c)
{
    return r->v1[c].group[0] ? &r->v1[c] : &r->v2;
}

static enum kr_resources_of kind_of_group(const struct group *p)
{
    return p->v2 ? KR_OF_CGROUP_V2 : KR_OF_CGROUP_V1;
}

/* The smallest of a limit's values in our cgroup and those above it. */
static uint64_t lowest(const struct kr_resources_reader *r, const struct group *p, const char *name)
{
    char dir[PATH_ROOM];
    uint64_t least = UNKNOWN;

    snprintf(dir, sizeof dir, "%s", p->group);
    while (dir[0] && strlen(dir) >= strlen(p->mount)) {
        uint64_t v = read_number(r, dir, name);
        char *slash = strrchr(dir, '/');

        least = v < least ? v : least;
        if (!slash)
            break;
        *slash = '\0';
    }
    return least;
}

/* A limit that is smaller than the one known replaces it. */
static void take_limit(uint64_t *limit, enum kr_resources_of *of, uint64_t value, enum kr_resources_of whose)
{
    if (value >= *limit)
        return;
    *limit = value;
    *of = whose;
}

/* ---- the figures ---- */

/* The soft limit of a row of /proc/self/limits. */
static uint64_t read_rlimit(const struct kr_resources_reader *r, const char *row)
{
    char text[4096];

    return read_text(r, "/proc/self", "limits", text, sizeof text) == 0 ? number_after(text, row) : UNKNOWN;
}

static void read_memory(const struct kr_resources_reader *r, struct kr_resources *to)
{
    const struct group *p = group_of(r, MEMORY);
    char text[8192];
    uint64_t used = read_number(r, p->group, p->v2 ? "memory.current" : "memory.usage_in_bytes"), cache = UNKNOWN;
    uint64_t limit = lowest(r, p, p->v2 ? "memory.max" : "memory.limit_in_bytes"), total = UNKNOWN, free = UNKNOWN;

    if (used != UNKNOWN && read_text(r, p->group, "memory.stat", text, sizeof text) == 0)
        cache = number_after(text, p->v2 ? "inactive_file" : "total_inactive_file");
    if (read_text(r, "/proc", "meminfo", text, sizeof text) == 0) {
        total = number_after(text, "MemTotal:");
        free = number_after(text, "MemAvailable:");
    }
    if (used != UNKNOWN) {
        to->memory.used = cache < used ? used - cache : used;
        to->memory.used_of = kind_of_group(p);
    } else if (total != UNKNOWN && free <= total) {
        to->memory.used = (total - free) * 1024;
        to->memory.used_of = KR_OF_MACHINE;
    }
    if (limit < V1_NO_LIMIT)
        take_limit(&to->memory.limit, &to->memory.limit_of, limit, kind_of_group(p));
    take_limit(&to->memory.limit, &to->memory.limit_of, read_rlimit(r, "Max address space"), KR_OF_RLIMIT);
    if (total < UINT64_MAX / 1024)
        take_limit(&to->memory.limit, &to->memory.limit_of, total * 1024, KR_OF_MACHINE);
}

static void read_processes(const struct kr_resources_reader *r, struct kr_resources *to, const char *loadavg)
{
    const struct group *p = group_of(r, PIDS);
    const char *slash = strchr(loadavg, '/'); /* "0.20 0.18 0.12 1/80 11206": of so many tasks one runs */

    to->processes.count = read_number(r, p->group, "pids.current");
    to->processes.count_of = kind_of_group(p);
    if (to->processes.count == UNKNOWN) {
        to->processes.count = slash ? number_of(slash + 1) : UNKNOWN;
        to->processes.count_of = to->processes.count == UNKNOWN ? KR_OF_NOBODY : KR_OF_MACHINE;
    }
    take_limit(&to->processes.limit, &to->processes.limit_of, lowest(r, p, "pids.max"), kind_of_group(p));
    take_limit(&to->processes.limit, &to->processes.limit_of, read_rlimit(r, "Max processes"), KR_OF_RLIMIT);
    take_limit(&to->processes.limit, &to->processes.limit_of, read_number(r, "/proc/sys/kernel", "threads-max"),
               KR_OF_MACHINE);
}

/* How many processors a list like 0-3,7 names; 0 if it is none. */
static unsigned count_list(const char *list)
{
    unsigned count = 0;

    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long from = strtoul(list, &end, 10), to = from;

        if (*end == '-')
            to = strtoul(end + 1, &end, 10);
        if (to < from || to - from > 65536)
            return 0;
        count += (unsigned)(to - from) + 1;
        list = *end == ',' ? end + 1 : end;
    }
    return count;
}

/* The quota of our cgroup in cores; 0 if there is none. */
static double quota_of(const struct kr_resources_reader *r, const struct group *p)
{
    char text[64];
    uint64_t quota = UNKNOWN, period = UNKNOWN;

    if (!p->group[0])
        return 0;
    if (!p->v2) {
        quota = read_number(r, p->group, "cpu.cfs_quota_us");
        period = read_number(r, p->group, "cpu.cfs_period_us");
    } else if (read_text(r, p->group, "cpu.max", text, sizeof text) == 0) {
        const char *blank = strchr(text, ' ');

        quota = number_of(text);
        period = blank ? number_of(blank + 1) : UNKNOWN;
    }
    return quota != UNKNOWN && period != UNKNOWN && period > 0 ? (double)quota / (double)period : 0;
}

/* Processor time used so far, in seconds; -1 if it is not known. */
static double cpu_seconds(const struct kr_resources_reader *r, enum kr_resources_of *ret_of)
{
    const struct group *p = group_of(r, CPUACCT);
    char text[1024];
    uint64_t v = UNKNOWN;
    double ticks[8] = {0};

    *ret_of = kind_of_group(p);
    if (!p->v2)
        v = read_number(r, p->group, "cpuacct.usage");
    else if (p->group[0] && read_text(r, p->group, "cpu.stat", text, sizeof text) == 0)
        v = number_after(text, "usage_usec");
    if (v != UNKNOWN)
        return (double)v / (p->v2 ? 1e6 : 1e9);
    *ret_of = KR_OF_MACHINE;
    /* user nice system idle iowait irq softirq steal: all but idle and iowait are use */
    if (read_text(r, "/proc", "stat", text, sizeof text) < 0 ||
        sscanf(text, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4],
               &ticks[5], &ticks[6], &ticks[7]) != 8)
        return -1;
    return (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7]) / (double)sysconf(_SC_CLK_TCK);
}

static void read_cpu(struct kr_resources_reader *r, struct kr_resources *to, const char *loadavg, uint64_t now)
{
    char text[4096];
    const char *list;
    double quota = quota_of(r, group_of(r, CPU)), seconds, *load = to->cpu.load;
    enum kr_resources_of of;

    if (read_text(r, "/proc/self", "status", text, sizeof text) == 0 && (list = strstr(text, "Cpus_allowed_list:\t")))
        to->cpu.cores = count_list(list + strlen("Cpus_allowed_list:\t"));
    if (to->cpu.cores <= 0)
        to->cpu.cores = quota > 0 ? quota : -1;
    if (quota > 0 && quota < to->cpu.cores)
        to->cpu.cores = quota;
    if (sscanf(loadavg, "%lf %lf %lf", &load[0], &load[1], &load[2]) != 3)
        load[0] = load[1] = load[2] = -1;
    seconds = cpu_seconds(r, &of);
    if (seconds >= 0 && r->cpu_seconds >= 0 && of == r->cpu_of && seconds >= r->cpu_seconds && now > r->cpu_ns) {
        to->cpu.used = (seconds - r->cpu_seconds) / ((double)(now - r->cpu_ns) / 1e9);
        to->cpu.used_of = of;
    }
    r->cpu_seconds = seconds;
    r->cpu_of = of;
    r->cpu_ns = now;
}

static void read_disk(const struct kr_resources_reader *r, struct kr_resources *to)
{
    struct statvfs v;

    if (!r->data || statvfs(r->data, &v) < 0 || v.f_frsize == 0)
        return;
    to->disk.total = (uint64_t)v.f_blocks * v.f_frsize;
    to->disk.used = (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
    to->disk.free = (uint64_t)v.f_bavail * v.f_frsize; /* without what is set aside for root */
}

/* ---- the reader ---- */

static const struct kr_resources nothing = {
    .memory = {.used = UNKNOWN, .limit = UNKNOWN},
    .processes = {.count = UNKNOWN, .limit = UNKNOWN},
    .cpu = {.cores = -1, .used = -1, .load = {-1, -1, -1}},
    .disk = {.total = UNKNOWN, .used = UNKNOWN, .free = UNKNOWN},
};

int kr_resources_new(const char *root, const char *data, struct kr_resources_reader **ret_reader)
{
    struct kr_resources_reader *r = calloc(1, sizeof *r);

    if (!r)
        return -ENOMEM;
    r->root = strdup(root);
    r->data = data ? strdup(data) : NULL;
    if (!r->root || (data && !r->data)) {
        kr_resources_free(r);
        return -ENOMEM;
    }
    r->now = nothing;
    r->cpu_seconds = -1;
    find_mounts(r);
    *ret_reader = r;
    return 0;
}

void kr_resources_free(struct kr_resources_reader *r)
{
    if (!r)
        return;
    free(r->root);
    free(r->data);
    free(r);
}

const struct kr_resources *kr_resources_read(struct kr_resources_reader *r)
{
    uint64_t now = kr_clock_ns();
    char loadavg[128];

    if (!r)
        return &nothing;
    if (r->read_ns != 0 && now - r->read_ns < FRESH_NS)
        return &r->now;
    r->read_ns = now;
    r->now = nothing;
    if (read_text(r, "/proc", "loadavg", loadavg, sizeof loadavg) < 0)
        loadavg[0] = '\0';
    find_groups(r);
    read_memory(r, &r->now);
    read_processes(r, &r->now, loadavg);
    read_cpu(r, &r->now, loadavg, now);
    read_disk(r, &r->now);
    return &r->now;
}
