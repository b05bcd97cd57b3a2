/* Folders of ended cells that are used again, and their files, which stay open meanwhile. Called by the warden through
 * cgroup.h; cgroup.c does its reading and writing here.
 *
 * Why: making and removing a folder in four hierarchies is the costliest part of the warden's work on a short session,
 * and opening a file of it costs more than reading it. Invariants: a cell that gets a kept folder can neither tell that
 * another had it nor be charged for that one; no more than KR_GROUPS_OPEN_MAX folders have open files, fewer where
 * descriptors are scarce, the files of all others are opened each time. */
#include "cgroup_files.h"
#include "counters.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The files of a v1 folder that every cell needs. One that a hierarchy lacks, or refuses, is not kept open. */
static const struct {
    const char *name;
    int flags;
} usual[] = {
    {"tasks", O_WRONLY},
    {"memory.max_usage_in_bytes", O_RDWR},
    {"memory.oom_control", O_RDONLY},
    {"memory.usage_in_bytes", O_RDONLY},
    {"pids.current", O_RDONLY},
    {"pids.events", O_RDONLY},
    {"cpu.cfs_quota_us", O_WRONLY},
    {"cpuacct.usage", O_RDWR},
};
#define USER_LEFT_MAX (2u << 20) /* the kernel's own, of the cell's folder and of the user's */
#define USUAL (sizeof usual / sizeof *usual)

struct kr_group_files {
    int fds[KR_HIERARCHIES_MAX][USUAL]; /* -1: opened each time */
};

void kr_group_path(const struct kr_group *group, const char *file, char *buf, size_t size)
{
    char folder[KR_GROUP_NAME_ROOM];
    if (group->name == 0 && group->user == 0) {
        snprintf(buf, size, "%s", *file ? file : ".");
        return;
    }
    kr_group_name(group->user, group->name, folder);
    snprintf(buf, size, "%s%s%s", folder, *file ? "/" : "", file);
}

/* Of those that are kept open, or -1. */
static int find_open(unsigned hier, const struct kr_group *group, const char *file)
{
    for (size_t i = 0; group->files && i < USUAL; i++)
        if (strcmp(usual[i].name, file) == 0)
            return group->files->fds[hier][i];
    return -1;
}

static int open_file(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                     int flags)
{
    char path[96];
    int fd;
    kr_group_path(group, file, path, sizeof path);
    fd = openat(g->hier[hier].dir, path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int kr_group_open(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file, int flags)
{
    int kept = find_open(hier, group, file);
    int fd;
    if (kept < 0)
        return open_file(g, hier, group, file, flags);
    fd = fcntl(kept, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int kr_group_write(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                   const char *text)
{
    char path[96];
    int fd = find_open(hier, group, file);
    size_t len = strlen(text);
    ssize_t n;
    if (fd < 0) {
        kr_group_path(group, file, path, sizeof path);
        return kr_fd_write_file_at(g->hier[hier].dir, path, text);
    }
    do
        n = pwrite(fd, text, len, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int kr_group_look(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                  const char *key, uint64_t *ret)
{
    int fd = find_open(hier, group, file);
    cleanup_fd int own = fd < 0 ? open_file(g, hier, group, file, O_RDONLY) : -1; /* closes itself */
    if (fd < 0)
        fd = own;
    if (fd < 0)
        return fd;
    return kr_counter_look(fd, key, ret);
}

/* Dearer without, not wrong: so nothing here is an error. */
static void keep_open(struct kr_cgroups *g, struct kr_group *group)
{
    struct kr_group_files *files;
    if (group->files || g->open_count >= g->open_max)
        return;
    files = malloc(sizeof *files);
    if (!files)
        return;
    for (unsigned hier = 0; hier < KR_HIERARCHIES_MAX; hier++)
        for (size_t i = 0; i < USUAL; i++) /* each hierarchy has those of its own controllers */
            files->fds[hier][i] = hier < g->count ? open_file(g, hier, group, usual[i].name, usual[i].flags) : -1;
    group->files = files;
    g->open_count++;
}

void kr_group_close(struct kr_cgroups *g, struct kr_group *group)
{
    if (!group->files)
        return;
    for (unsigned hier = 0; hier < KR_HIERARCHIES_MAX; hier++)
        for (size_t i = 0; i < USUAL; i++)
            kr_fd_close(group->files->fds[hier][i]);
    free(group->files);
    group->files = NULL;
    g->open_count--;
}

/* What a folder may still hold to be used again, and what is set back: each row a file, a line of it, the most it may
 * say, what is written. Every counter of a cell is here (wire/counters.c). */
static const struct {
    uint32_t layer; /* 0: CPU accounting */
    const char *file, *key;
    uint64_t most;
    const char *set; /* NULL: only looked at */
    int may_miss;    /* a kernel that does not account for swap lacks it */
} leftovers[] = {
    {KR_LAYER_CGROUP_PIDS, "pids.events", "max", 0, NULL, 0},
    {KR_LAYER_CGROUP_MEMORY, "memory.oom_control", "oom_kill", 0, NULL, 0},
    {KR_LAYER_CGROUP_MEMORY, "memory.usage_in_bytes", NULL, 1 << 20, NULL, 0}, /* the kernel's own; files are more */
    {KR_LAYER_CGROUP_MEMORY, "memory.max_usage_in_bytes", NULL, 0, "0", 0},
    {KR_LAYER_CGROUP_MEMORY, "memory.failcnt", NULL, 0, "0", 0},
    {KR_LAYER_CGROUP_MEMORY, "memory.memsw.failcnt", NULL, 0, "0", 1},
    {0, "cpuacct.usage", NULL, 0, "0", 0},
};

static int set_back(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group)
{
    const struct kr_cgroup_hier *h = &g->hier[hier];
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) {
        uint64_t value = 0;
        int r;
        if (leftovers[i].layer != 0 ? !(leftovers[i].layer & h->is.layers) : !h->is.accounting)
            continue;
        r = leftovers[i].set ? kr_group_write(g, hier, group, leftovers[i].file, leftovers[i].set)
                             : kr_group_look(g, hier, group, leftovers[i].file, leftovers[i].key, &value);
        if (r == -ENOENT && leftovers[i].may_miss)
            continue;
        if (r < 0 || value > leftovers[i].most)
            return 0;
    }
    return kr_cgroup_refill(g, hier, group, NULL) >= 0;
}

/* 0, -EBUSY, or -errno if it cannot be known. */
static int check_empty(const struct kr_cgroups *g, const struct kr_group *group)
{
    uint64_t tasks = 0;
    int r = -ENOENT;
    for (unsigned i = 0; i < g->count; i++)
        if (g->hier[i].is.layers & KR_LAYER_CGROUP_PIDS)
            r = kr_group_look(g, i, group, "pids.current", NULL, &tasks);
    return r < 0 ? r : tasks > 0 ? -EBUSY : 0;
}

/* What cells before it have left in its user's folder is the next user's from then on. */
static int user_is_clean(const struct kr_cgroups *g, const struct kr_group *group)
{
    const struct kr_group user = {.user = group->user};
    uint64_t used = 0;
    for (unsigned i = 0; group->user != 0 && i < g->count; i++)
        if ((g->hier[i].is.layers & KR_LAYER_CGROUP_MEMORY) &&
            (kr_group_look(g, i, &user, "memory.usage_in_bytes", NULL, &used) < 0 || used > USER_LEFT_MAX))
            return 0;
    return 1;
}

/* v1 alone: on v2 the peak of memory cannot be set back. */
int kr_cgroup_keep(struct kr_cgroups *g, struct kr_group *group)
{
    int r;
    if (g->kind == KR_CGROUP_V2 || g->free_count == KR_GROUPS_FREE_MAX || !group->limited)
        return 0;
    r = check_empty(g, group);
    if (r < 0)
        return r == -EBUSY ? r : 0;
    if (!user_is_clean(g, group) || kr_cgroup_pace(g, group, KR_PACE_RUN, NULL) < 0)
        return 0;
    for (unsigned i = 0; i < g->count; i++)
        if (!set_back(g, i, group))
            return 0;
    keep_open(g, group);
    g->free[g->free_count++] = *group;
    group->files = NULL; /* the kept one's now */
    return 1;
}
