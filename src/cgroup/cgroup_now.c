/* What a cell uses at this moment, for its gauges. Called by the warden, about once a second for each cell with a run.
 * Invariant: what cannot be read is 0; the two parts of the processor time add up to the kernel's exact count, which
 * limits and causes go by, while the kernel counts the parts by sampling. */
#include "cgroup_files.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 4096

/* One row per number, those of one file together. Key NULL: the file is the number. */
static const struct {
    uint32_t layer, v2; /* layer 0: CPU accounting */
    const char *file, *key;
    size_t offset;
    uint64_t scale;
} figures[] = {
    {0, 0, "cpuacct.usage", NULL, offsetof(struct kr_group_now, cpu_ns), 1},
    {0, 0, "cpuacct.stat", "user", offsetof(struct kr_group_now, user), 1},
    {0, 0, "cpuacct.stat", "system", offsetof(struct kr_group_now, system), 1},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.usage_in_bytes", NULL, offsetof(struct kr_group_now, memory), 1},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.stat", "cache", offsetof(struct kr_group_now, cached), 1},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.stat", "shmem", offsetof(struct kr_group_now, shared), 1},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.stat", "active_file", offsetof(struct kr_group_now, active), 1},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.stat", "inactive_file", offsetof(struct kr_group_now, inactive), 1},
    {KR_LAYER_CGROUP_PIDS, 0, "pids.current", NULL, offsetof(struct kr_group_now, tasks), 1},
    {0, 1, "cpu.stat", "usage_usec", offsetof(struct kr_group_now, cpu_ns), 1000},
    {0, 1, "cpu.stat", "user_usec", offsetof(struct kr_group_now, user), 1},
    {0, 1, "cpu.stat", "system_usec", offsetof(struct kr_group_now, system), 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.current", NULL, offsetof(struct kr_group_now, memory), 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.stat", "file", offsetof(struct kr_group_now, cached), 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.stat", "shmem", offsetof(struct kr_group_now, shared), 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.stat", "active_file", offsetof(struct kr_group_now, active), 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.stat", "inactive_file", offsetof(struct kr_group_now, inactive), 1},
    {KR_LAYER_CGROUP_PIDS, 1, "pids.current", NULL, offsetof(struct kr_group_now, tasks), 1},
};

static int read_whole(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                      char text[TEXT_MAX])
{
    cleanup_fd int fd = kr_group_open(g, hier, group, file, O_RDONLY);
    ssize_t n = fd < 0 ? -1 : pread(fd, text, TEXT_MAX - 1, 0); /* the lines that count come first */
    text[n > 0 ? n : 0] = '\0';
    return n > 0 ? 0 : -ENODATA;
}

static uint64_t find(const char *text, const char *key)
{
    size_t len = key ? strlen(key) : 0;
    while (key && text && !(strncmp(text, key, len) == 0 && text[len] == ' ')) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? strtoull(text + len, NULL, 10) : 0;
}

static void read_hierarchy(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group,
                           struct kr_group_now *ret)
{
    const struct kr_w_hier *h = &g->hier[hier].is;
    char text[TEXT_MAX];
    const char *file = "";
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        if (figures[i].v2 != h->v2 || (figures[i].layer != 0 ? !(figures[i].layer & h->layers) : !h->accounting))
            continue;
        if (strcmp(file, figures[i].file) != 0)
            (void)read_whole(g, hier, group, figures[i].file, text);
        file = figures[i].file;
        *(uint64_t *)((char *)ret + figures[i].offset) = find(text, figures[i].key) * figures[i].scale;
    }
}

void kr_cgroup_now(const struct kr_cgroups *g, const struct kr_group *group, struct kr_group_now *ret)
{
    uint64_t parts;
    *ret = (struct kr_group_now){0};
    for (unsigned i = 0; group->name != 0 && i < g->count; i++)
        read_hierarchy(g, i, group, ret);
    parts = ret->user + ret->system;
    ret->system = parts == 0 ? 0 : (uint64_t)((double)ret->cpu_ns * (double)ret->system / (double)parts);
    ret->user = ret->cpu_ns > ret->system ? ret->cpu_ns - ret->system : 0;
}
