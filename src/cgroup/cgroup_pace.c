/* How fast a cell runs, and the end of what a run has left in it. Called by the warden through cgroup.h.
 *
 * Between runs a cell has the lowest weight there is; once its budget is used up it is frozen. On v2 that is
 * cgroup.freeze, from which SIGKILL takes a process out. The freezer of v1 does not let go: a process that is killed in
 * it stays until it is thawed, the PID 1 of its namespace waits for it, and after a kill -9 of the warden nothing
 * thaws it. So a v1 cell is "frozen" by its quota: 1 ms of processor time in a second, which is enough to die by.
 * Invariant: group->pace is what the files say; a change that fails half-way is taken back. */
#include "cgroup_files.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* One row per file, in the order of writing: what it says at each pace. NULL: it is not written. A v1 quota of the
 * cell's own is written by kr_cgroup_refill(). */
static const struct {
    uint32_t layer, v2; /* layer 0: every folder of that version has it */
    const char *file;
    const char *texts[KR_PACE_MAX_];
} paces[] = {
    {KR_LAYER_CGROUP_CPU, 0, "cpu.shares", {"1024", "2", "2"}},
    {KR_LAYER_CGROUP_CPU, 1, "cpu.weight", {"100", "1", "1"}},
    {0, 1, "cgroup.freeze", {"0", "0", "1"}},
    {KR_LAYER_CGROUP_CPU, 0, "cpu.cfs_period_us", {NULL, NULL, "1000000"}},
    {KR_LAYER_CGROUP_CPU, 0, "cpu.cfs_quota_us", {NULL, NULL, "1000"}},
};
#define PERIOD_TEXT "100000" /* as the kernel sets it, and cgroup.c counts with */

/* What the cell's own limits are, after FROZEN: the quota first, for the longer period makes it the smaller share. */
static int restore_quota(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, struct kr_err *err)
{
    int r = kr_cgroup_refill(g, hier, group, err);
    if (!g->hier[hier].is.v2 && (g->hier[hier].is.layers & KR_LAYER_CGROUP_CPU)) {
        int w = kr_group_write(g, hier, group, "cpu.cfs_period_us", PERIOD_TEXT);
        if (w < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -w, "cgroup cpu.cfs_period_us = " PERIOD_TEXT);
    }
    return r;
}

static int set_pace(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, enum kr_pace pace,
                    struct kr_err *err)
{
    const struct kr_w_hier *is = &g->hier[hier].is;
    for (size_t i = 0; i < sizeof paces / sizeof *paces; i++) {
        const char *text = paces[i].texts[pace], *was = paces[i].texts[group->pace];
        int r;
        if (paces[i].v2 != is->v2 || (paces[i].layer && !(paces[i].layer & is->layers)) || !text ||
            (was && strcmp(text, was) == 0))
            continue;
        r = kr_group_write(g, hier, group, paces[i].file, text);
        if (r < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "cgroup %s = %s", paces[i].file, text);
    }
    return group->pace == KR_PACE_FROZEN ? restore_quota(g, hier, group, err) : 0;
}

/* Writes all files for the pace that it had: a longer period without its quota would be a tenth of the cell's share.
 * What cannot be written now either stays: the first failure is what the caller hears of. */
static void take_back(const struct kr_cgroups *g, const struct kr_group *group, enum kr_pace failed)
{
    struct kr_err err;
    for (unsigned hier = 0; hier < g->count; hier++) {
        const struct kr_w_hier *is = &g->hier[hier].is;
        for (size_t i = 0; i < sizeof paces / sizeof *paces; i++)
            if (paces[i].v2 == is->v2 && (!paces[i].layer || (paces[i].layer & is->layers)) &&
                paces[i].texts[group->pace])
                (void)kr_group_write(g, hier, group, paces[i].file, paces[i].texts[group->pace]);
        if (failed == KR_PACE_FROZEN)
            (void)restore_quota(g, hier, group, &err);
    }
}

int kr_cgroup_pace(const struct kr_cgroups *g, struct kr_group *group, enum kr_pace pace, struct kr_err *err)
{
    if (group->pace == pace)
        return 0;
    for (unsigned i = 0; i < g->count; i++) {
        int r = set_pace(g, i, group, pace, err);
        if (r < 0) {
            take_back(g, group, pace);
            return r;
        }
    }
    group->pace = pace;
    return 0;
}

void kr_cgroup_unfreeze_stale(int dir, const char *folder)
{
    char path[300];
    /* Hierarchies without the file, and v2, whose frozen processes can be killed, refuse: nothing is lost by that. */
    if ((size_t)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder) < sizeof path)
        (void)kr_fd_write_file_at(dir, path, "-1");
}

/* ---- what a run has left ---- */

/* A signal to a process of the cell. The number may have gone to another one since it was read: what the pidfd holds is
 * looked up in the cell's folders before it is signalled. */
static void signal_in_group(const struct kr_cgroups *g, const struct kr_group *group, pid_t pid, int signo)
{
    struct kr_err err;
    cleanup_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0 && kr_cgroup_check(g, group, pid, &err) >= 0)
        (void)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
}

/* Was it started before that time? The kernel tells it in ticks (proc(5), field 22 of stat), so a process of the same
 * tick was not. The name in field 2 may hold anything, and the last ')' follows it.
 * What cannot be read is gone, or is to be ended with the others. */
static bool began_before(pid_t pid, uint64_t since_ns)
{
    uint64_t tick_ns = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    char path[32], text[1024];
    const char *at;
    ssize_t n;
    if (since_ns == 0)
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    at = n > 0 ? strrchr(text, ')') : NULL;
    for (unsigned field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        at = at ? at + 1 : NULL;
    }
    return at && strtoull(at, NULL, 10) < since_ns / tick_ns;
}

/* Who is signalled, and with what. */
struct others {
    pid_t spared;
    uint64_t since_ns; /* those that began before are spared too */
    pid_t pgrp;        /* only those of that process group; 0: all */
    int signo;
};

/* Signals processes of the folder. How many there were, or -errno. */
static int signal_others(const struct kr_cgroups *g, const struct kr_group *group, const struct others *who)
{
    cleanup_fd int fd = g->count > 0 ? kr_group_open(g, 0, group, "cgroup.procs", O_RDONLY) : -ENOTSUP;
    FILE *list;
    long pid;
    int count = 0;
    if (fd < 0)
        return fd;
    list = fdopen(fd, "r");
    if (!list)
        return -errno;
    (void)steal_fd(&fd); /* the stream's */
    while (fscanf(list, "%ld", &pid) == 1) {
        if (pid == who->spared || pid <= 0 || began_before((pid_t)pid, who->since_ns) ||
            (who->pgrp != 0 && getpgid((pid_t)pid) != who->pgrp)) /* 0: of a pid namespace that we do not see */
            continue;
        signal_in_group(g, group, (pid_t)pid, who->signo);
        count++;
    }
    if (ferror(list)) /* there may be more */
        count = -EIO;
    fclose(list);
    return count;
}

int kr_cgroup_signal(const struct kr_cgroups *g, const struct kr_group *group, pid_t leader, uint64_t since_ns,
                     int signo)
{
    return signal_others(g, group, &(struct others){leader, since_ns, leader, signo});
}

/* While no process may be started, the list is whole: one that was being started when the limit came is in it the
 * second time, and one that SIGKILL is pending for starts none (fork(2) gives up). */
static int kill_held(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const struct others *who)
{
    char text[32];
    int n, r = kr_group_write(g, hier, group, "pids.max", "0");
    if (r < 0)
        return r;
    n = signal_others(g, group, who);
    if (n > 0)
        n = signal_others(g, group, who);
    snprintf(text, sizeof text, "%llu", (unsigned long long)group->limits.processes);
    r = kr_group_write(g, hier, group, "pids.max", text);
    return r < 0 ? r : n;
}

int kr_cgroup_clear(const struct kr_cgroups *g, const struct kr_group *group, pid_t spared, uint64_t since_ns, int hard,
                    struct kr_err *err)
{
    const struct others who = {.spared = spared, .since_ns = since_ns, .signo = SIGKILL};
    int r = g->count > 0 ? 0 : -ENOTSUP;
    for (unsigned i = 0; i < g->count && hard; i++)
        if (group->limited && (g->hier[i].is.layers & KR_LAYER_CGROUP_PIDS)) {
            r = kill_held(g, i, group, &who);
            return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "end the processes of a cell") : r;
        }
    if (r >= 0)
        r = signal_others(g, group, &who);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "end the processes of a cell") : r;
}
