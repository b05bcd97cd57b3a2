/* What all cells together may have: the limits of our own folder in each hierarchy, and whether there is room for one
 * more session below them. Called by the warden, at its start and for each session.
 *
 * Why a bound: the limit of a cell says nothing about a thousand of them, and pages of a cell that has ended stay
 * charged, from then on to the folder around it. At the bound the kernel kills in that folder, where there is nothing
 * but cells. Invariant: where there is a memory controller there is a bound. */
#include "cgroup_files.h"
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

int kr_cgroups_bound(struct kr_cgroups *g, const struct kr_cgroup_bounds *wanted, struct kr_err *err)
{
    const struct kr_cgroup_hier *memory = hier_of(g, KR_LAYER_CGROUP_MEMORY), *pids = hier_of(g, KR_LAYER_CGROUP_PIDS);
    g->bounds = (struct kr_cgroup_bounds){0};
    if (memory)
        g->bounds.memory = wanted->memory > 0 ? wanted->memory : SHARE(memory_here(memory));
    if (pids)
        g->bounds.processes = wanted->processes > 0 ? wanted->processes : SHARE(processes_here(pids));
    return kr_group_bound(g, &whole, &g->bounds, err);
}

/* What a shortage would drop: clean and dirty pages of files. */
static uint64_t reclaimable(const struct kr_cgroup_hier *h)
{
    static const char *const keys[][2] = {{"total_inactive_file ", "total_active_file "},
                                          {"inactive_file ", "active_file "}};
    char text[8192], line[40];
    uint64_t bytes = 0;
    if (kr_fd_read_file_at(h->dir, "memory.stat", text, sizeof text) <= 0)
        return 0;
    for (size_t i = 0; i < 2; i++) {
        const char *at;
        snprintf(line, sizeof line, "\n%s", keys[h->is.v2 != 0][i]);
        at = strstr(text, line);
        bytes += at ? strtoull(at + strlen(line), NULL, 10) : 0;
    }
    return bytes;
}

/* EAGAIN is for the caller; its text would say no more than ours does. */
static int no_memory(struct kr_err *err)
{
    if (err)
        err->code = EAGAIN;
    return -EAGAIN;
}

static uint64_t reserve_of(uint64_t memory)
{
    uint64_t reserve = memory / 16;
    return reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
}

int kr_cgroups_admit(const struct kr_cgroups *g, uint64_t promised, struct kr_err *err)
{
    const struct kr_cgroup_hier *h = hier_of(g, KR_LAYER_CGROUP_MEMORY);
    uint64_t most = g->bounds.memory, used, files;
    char text[64];
    if (!h || most == 0)
        return 0;
    if (promised / PROMISES > most) {
        kr_err_set(err, KR_ERR_LIMIT, 0,
                   "sessions were promised %" PRIu64
                   " times the memory that they may have together; try again later, or "
                   "ask for less memory",
                   PROMISES);
        return no_memory(err);
    }
    if (kr_fd_read_file_at(h->dir, h->is.v2 ? "memory.current" : "memory.usage_in_bytes", text, sizeof text) <= 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "the memory of all cells cannot be read");
    used = strtoull(text, NULL, 10);
    if (used + reserve_of(most) <= most)
        return 0;
    files = reclaimable(h);
    used -= files < used ? files : used;
    if (used + reserve_of(most) <= most)
        return 0;
    kr_err_set(err, KR_ERR_LIMIT, 0,
               "sessions use %" PRIu64 " MiB of the %" PRIu64 " MiB that they may have together; try again later",
               used >> 20, most >> 20);
    return no_memory(err);
}
