/* What all cells together may have: the limits of our own folder in each hierarchy, and whether there is room for one
 * more session below them. Called by the warden, at its start and for each session.
 *
 * Why a bound: the limit of a cell says nothing about a thousand of them, and pages of a cell that has ended stay
 * charged, from then on to the folder around it. At the bound the kernel kills in that folder, where there is nothing
 * but cells. Invariant: where there is a memory controller there is a bound. */
#include "cgroup_files.h"
#include "counters.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#define SHARE(n) ((n) / 5 * 4) /* the rest is for krait's own processes and for the machine */
#define ABOVE_MAX 32           /* folders between ours and the root of the hierarchy */
#define RESERVE_MIN (UINT64_C(16) << 20)
#define RESERVE_MAX (UINT64_C(1) << 30)
/* Memory that sessions were promised by their limits, for each byte there is: most of them are idle, and an idle one
 * uses about a thousandth of its limit. */
#define PROMISES UINT64_C(1024)

static const struct kr_group whole;

static uint64_t lower(uint64_t a, uint64_t b)
{
    return b > 0 && b < a ? b : a;
}

/* The lowest limit of the folders around ours, or `most`. "max" reads as 0, which is none. */
static uint64_t lowest_above(const struct kr_cgroup_hier *h, const char *file, uint64_t most)
{
    char path[3 * ABOVE_MAX + 64];
    for (size_t up = 1; up < ABOVE_MAX; up++) {
        char text[64];
        for (size_t i = 0; i < up; i++)
            memcpy(path + 3 * i, "../", 3);
        snprintf(path + 3 * up, sizeof path - 3 * up, "%s", file);
        if (kr_fd_read_file_at(h->dir, path, text, sizeof text) <= 0)
            break; /* above the root of the hierarchy, or of what a container sees of it */
        most = lower(most, strtoull(text, NULL, 10));
    }
    return most;
}

static uint64_t number_in(const char *path, uint64_t other)
{
    char text[64];
    uint64_t value = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 ? strtoull(text, NULL, 10) : 0;
    return value > 0 ? value : other;
}

static const struct kr_cgroup_hier *hier_of(const struct kr_cgroups *g, uint32_t layer)
{
    for (unsigned i = 0; i < g->count; i++)
        if (g->hier[i].is.layers & layer)
            return &g->hier[i];
    return NULL;
}

static uint64_t memory_here(const struct kr_cgroup_hier *h)
{
    struct sysinfo machine;
    uint64_t most = sysinfo(&machine) < 0 ? UINT64_C(1) << 30 : (uint64_t)machine.totalram * machine.mem_unit;
    return lowest_above(h, h->is.v2 ? "memory.max" : "memory.limit_in_bytes", most);
}

static uint64_t processes_here(const struct kr_cgroup_hier *h)
{
    uint64_t most =
        lower(number_in("/proc/sys/kernel/pid_max", 32768), number_in("/proc/sys/kernel/threads-max", 32768));
    return lowest_above(h, "pids.max", most);
}

static const char *used_file(const struct kr_cgroup_hier *h)
{
    return h->is.v2 ? "memory.current" : "memory.usage_in_bytes";
}

int kr_cgroups_bound(struct kr_cgroups *g, const struct kr_cgroup_bounds *wanted,
                     const struct kr_cgroup_bounds *wanted_users, struct kr_err *err)
{
    const struct kr_cgroup_hier *memory = hier_of(g, KR_LAYER_CGROUP_MEMORY), *pids = hier_of(g, KR_LAYER_CGROUP_PIDS);
    g->bounds = (struct kr_cgroup_bounds){0};
    if (memory)
        g->bounds.memory = wanted->memory > 0 ? wanted->memory : SHARE(memory_here(memory));
    if (pids)
        g->bounds.processes = wanted->processes > 0 ? wanted->processes : SHARE(processes_here(pids));
    g->users.memory = wanted_users->memory > 0 ? wanted_users->memory : g->bounds.memory / 2;
    g->users.processes = wanted_users->processes > 0 ? wanted_users->processes : g->bounds.processes / 2;
    if (memory) { /* opening it for each session would be a twentieth of a hand-over */
        g->used = openat(memory->dir, used_file(memory), O_RDONLY | O_CLOEXEC);
        if (g->used < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "cgroup %s/%s", memory->path, used_file(memory));
    }
    return kr_group_bound(g, &whole, &g->bounds, err);
}

/* What a shortage would drop: clean and dirty pages of files. */
static uint64_t reclaimable(const struct kr_cgroup_hier *h, const struct kr_group *group)
{
    static const char *const keys[][2] = {{"total_inactive_file ", "total_active_file "},
                                          {"inactive_file ", "active_file "}};
    char path[96], text[8192], line[40];
    uint64_t bytes = 0;
    kr_group_path(group, "memory.stat", path, sizeof path);
    if (kr_fd_read_file_at(h->dir, path, text, sizeof text) <= 0)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        const char *at;
        snprintf(line, sizeof line, "\n%s", keys[h->is.v2 != 0][i]);
        at = strstr(text, line);
        bytes += at ? strtoull(at + strlen(line), NULL, 10) : 0;
    }
    return bytes;
}

static uint64_t reserve_of(uint64_t memory)
{
    uint64_t reserve = memory / 16;
    return reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
}

/* EAGAIN is for the caller; its text would say no more than ours does. */
static int no_memory(struct kr_err *err)
{
    if (err)
        err->code = EAGAIN;
    return -EAGAIN;
}

/* Is there more than the reserve left in a folder of cells that may have so much? `fd`: of what they use. */
static int has_memory(const struct kr_cgroup_hier *h, int fd, const struct kr_group *group, uint64_t most,
                      enum kr_err_kind kind, const char *whose, struct kr_err *err)
{
    uint64_t used = 0, files;
    int r = fd < 0 ? -EBADF : kr_counter_look(fd, NULL, &used);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the memory of %s cannot be read", whose);
    if (used + reserve_of(most) <= most)
        return 0;
    files = reclaimable(h, group);
    used -= files < used ? files : used;
    if (used + reserve_of(most) <= most)
        return 0;
    kr_err_set(err, kind, 0,
               "%s use %" PRIu64 " MiB of the %" PRIu64 " MiB that they may have together; try again later", whose,
               used >> 20, most >> 20);
    return no_memory(err);
}

int kr_cgroups_admit(const struct kr_cgroups *g, uint64_t promised, struct kr_err *err)
{
    const struct kr_cgroup_hier *h = hier_of(g, KR_LAYER_CGROUP_MEMORY);
    if (g->bounds.memory > 0 && promised / PROMISES > g->bounds.memory) {
        kr_err_set(err, KR_ERR_LIMIT, 0,
                   "sessions were promised %" PRIu64
                   " times the memory that they may have together; try again later, or "
                   "ask for less memory",
                   PROMISES);
        return no_memory(err);
    }
    return h ? has_memory(h, g->used, &whole, g->bounds.memory, KR_ERR_LIMIT, "sessions", err) : 0;
}

int kr_cgroups_admit_user(const struct kr_cgroups *g, uint64_t user, struct kr_err *err)
{
    const struct kr_cgroup_hier *h = hier_of(g, KR_LAYER_CGROUP_MEMORY);
    const struct kr_group group = {.user = user};
    cleanup_fd int fd = -1;
    char path[96];
    if (!h)
        return 0;
    kr_group_path(&group, used_file(h), path, sizeof path);
    fd = openat(h->dir, path, O_RDONLY | O_CLOEXEC);
    return has_memory(h, fd, &group, g->users.memory, KR_ERR_BUSY, "the user's sessions", err);
}
