/* The table of a cell's counters and their reading. See counters.h. */
#include "counters.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One row per counter: which layer it belongs to (0: CPU accounting), in which version, which file, which line of it,
 * where it goes. */
static const struct {
    uint32_t layer, v2;
    const char *file, *key;
    size_t offset;
    uint64_t scale;
    int may_miss; /* older kernels lack it */
    /* Where a process was killed for memory, or there are others than the session: no short run pays for those. */
    enum { ALWAYS, AFTER_KILL, IF_SEVERAL } when;
} counters[] = {
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.max_usage_in_bytes", NULL, offsetof(struct kr_usage, memory_peak), 1, 0,
     ALWAYS},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.oom_control", "oom_kill", offsetof(struct kr_usage, oom_kills), 1, 0, ALWAYS},
    /* Which of the two fails where both limits are the same is the kernel's choice. */
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.failcnt", NULL, offsetof(struct kr_usage, memory_hits), 1, 0, AFTER_KILL},
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.memsw.failcnt", NULL, offsetof(struct kr_usage, memory_hits), 1, 1, AFTER_KILL},
    {KR_LAYER_CGROUP_PIDS, 0, "pids.events", "max", offsetof(struct kr_usage, pids_hits), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_PIDS, 0, "pids.current", NULL, offsetof(struct kr_usage, pids), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_PIDS, 0, "cgroup.procs", KR_COUNTER_LINES, offsetof(struct kr_usage, processes), 1, 0, IF_SEVERAL},
    {0, 0, "cpuacct.usage", NULL, offsetof(struct kr_usage, cpu_ns), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.peak", NULL, offsetof(struct kr_usage, memory_peak), 1, 1, ALWAYS},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.events", "oom_kill", offsetof(struct kr_usage, oom_kills), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.events", "oom", offsetof(struct kr_usage, memory_hits), 1, 0, AFTER_KILL},
    {KR_LAYER_CGROUP_PIDS, 1, "pids.events", "max", offsetof(struct kr_usage, pids_hits), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_PIDS, 1, "pids.current", NULL, offsetof(struct kr_usage, pids), 1, 0, ALWAYS},
    {KR_LAYER_CGROUP_PIDS, 1, "cgroup.procs", KR_COUNTER_LINES, offsetof(struct kr_usage, processes), 1, 0, IF_SEVERAL},
    {0, 1, "cpu.stat", "usage_usec", offsetof(struct kr_usage, cpu_ns), 1000, 0, ALWAYS},
};

void kr_group_name(uint64_t user, uint64_t group, char buf[KR_GROUP_NAME_ROOM])
{
    if (user != 0 && group != 0)
        snprintf(buf, KR_GROUP_NAME_ROOM, "u%016" PRIx64 "/c%016" PRIx64, user, group);
    else
        snprintf(buf, KR_GROUP_NAME_ROOM, "%c%016" PRIx64, user != 0 ? 'u' : 'c', user != 0 ? user : group);
}

static int count_lines(int fd, uint64_t *ret)
{
    char text[4096];
    uint64_t lines = 0;
    off_t done = 0;
    ssize_t n;
    for (; (n = pread(fd, text, sizeof text, done)) > 0; done += n)
        for (const char *at = text; (at = memchr(at, '\n', (size_t)(text + n - at))); at++)
            lines++;
    if (n < 0)
        return -errno;
    *ret = lines;
    return 0;
}

int kr_counter_look(int fd, const char *key, uint64_t *ret)
{
    char text[1024];
    const char *at;
    size_t len;
    ssize_t n;
    if (key && strcmp(key, KR_COUNTER_LINES) == 0)
        return count_lines(fd, ret);
    n = pread(fd, text, sizeof text - 1, 0); /* such a file comes whole in one read */
    if (n <= 0)
        return n < 0 ? -errno : -ENODATA;
    text[n] = '\0';
    at = text;
    len = key ? strlen(key) : 0;
    while (key && at && !(strncmp(at, key, len) == 0 && at[len] == ' ')) {
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return -ENODATA;
    *ret = strtoull(at + len, NULL, 10);
    return 0;
}

int64_t kr_usage_others(const struct kr_usage *u)
{
    if (u->pids == 1) /* the session is one */
        return 0;
    return u->processes > 0 ? (int64_t)u->processes - 1 : -1;
}

int kr_counters_read(const struct kr_w_hier *h, unsigned hier, kr_counters_look *look, const void *arg,
                     struct kr_usage *ret)
{
    int failed = 0;
    for (size_t k = 0; k < sizeof counters / sizeof *counters; k++) {
        uint64_t value;
        int r;
        if (counters[k].v2 != h->v2 || (counters[k].layer != 0 ? !(counters[k].layer & h->layers) : !h->accounting))
            continue;
        if ((counters[k].when == AFTER_KILL && ret->oom_kills == 0) ||
            (counters[k].when == IF_SEVERAL && ret->pids <= 1))
            continue;
        r = look(arg, hier, counters[k].file, counters[k].key, &value);
        if (r >= 0)
            *(uint64_t *)((char *)ret + counters[k].offset) += value * counters[k].scale;
        else if (r != -ENOENT || !counters[k].may_miss)
            failed = r;
    }
    ret->have |= h->layers | (h->accounting ? KR_LAYER_CGROUP_CPU : 0);
    return failed;
}
