/* What a cell's cgroup does: limits, attachment, counters, removal. Where the hierarchies are is cgroup_find.c's
 * business, which folders are used again cgroup_keep.c's. Called by the warden for each cell. Invariant: no limit is
 * taken for set unless its file took it. */
#include "cgroup_files.h"
#include "counters.h"
#include "fd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const kr_cgroup_kind_names[KR_CGROUP_MAX_] = {"none", "v1", "v2", "hybrid"};

/* One row per knob: which layer it serves, in which version, which file, which limit, how it is written. */
enum knob_form { FORM_BYTES, FORM_BYTES_AND_CHARGE, FORM_COUNT, FORM_QUOTA_V1, FORM_QUOTA_V2, FORM_ZERO, FORM_ONE };
struct knob {
    uint32_t layer, v2;
    const char *file;
    enum knob_form form;
    int may_miss; /* older kernels, builds without swap accounting and those without TCP lack it */
};
static const struct knob knobs[] = {
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.limit_in_bytes", FORM_BYTES, 0},
    /* Above the other by the most that is charged at once where the kernel kills for it: it is tried first, and since
     * Linux 6.13 only failures of the other are counted (memory.failcnt, by which the cause of a kill is known). */
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.memsw.limit_in_bytes", FORM_BYTES_AND_CHARGE, 1},
    /* v1 counts what waits in TCP sockets apart from all else, without a limit unless one is set; v2 in memory.max. */
    {KR_LAYER_CGROUP_MEMORY, 0, "memory.kmem.tcp.limit_in_bytes", FORM_BYTES, 1},
    {KR_LAYER_CGROUP_PIDS, 0, "pids.max", FORM_COUNT, 0},
    {KR_LAYER_CGROUP_CPU, 0, "cpu.cfs_quota_us", FORM_QUOTA_V1, 0},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.max", FORM_BYTES, 0},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.swap.max", FORM_ZERO, 1},
    {KR_LAYER_CGROUP_MEMORY, 1, "memory.oom.group", FORM_ONE, 1},
    {KR_LAYER_CGROUP_PIDS, 1, "pids.max", FORM_COUNT, 0},
    {KR_LAYER_CGROUP_CPU, 1, "cpu.max", FORM_QUOTA_V2, 0},
};

#define PERIOD_US 100000u
/* Eight pages at once: larger allocations fail without a kill (PAGE_ALLOC_COSTLY_ORDER in mm/memcontrol.c). */
#define CHARGE_MAX (8u * 4096u)

static void knob_text(const struct knob *k, const struct kr_limits *l, char *buf, size_t size)
{
    uint64_t quota = l->cpu_milli * (PERIOD_US / 1000);
    switch (k->form) {
    case FORM_BYTES:
        snprintf(buf, size, "%" PRIu64, l->memory);
        return;
    case FORM_BYTES_AND_CHARGE:
        snprintf(buf, size, "%" PRIu64, l->memory + CHARGE_MAX);
        return;
    case FORM_COUNT:
        snprintf(buf, size, "%" PRIu64, l->processes);
        return;
    case FORM_QUOTA_V1:
        snprintf(buf, size, "%" PRIu64, quota);
        return;
    case FORM_QUOTA_V2:
        snprintf(buf, size, "%" PRIu64 " %u", quota, PERIOD_US);
        return;
    case FORM_ZERO:
        snprintf(buf, size, "0");
        return;
    case FORM_ONE:
        snprintf(buf, size, "1");
        return;
    }
}

/* Writes one knob, unless it has the value already. */
static int turn(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const struct knob *k,
                const struct kr_limits *l, const struct kr_limits *was, struct kr_err *err)
{
    char text[64], before[64];
    int r;
    if (!(k->layer & g->hier[hier].is.layers) || k->v2 != g->hier[hier].is.v2)
        return 0;
    knob_text(k, l, text, sizeof text);
    if (was) {
        knob_text(k, was, before, sizeof before);
        if (strcmp(text, before) == 0)
            return 0;
    }
    r = kr_group_write(g, hier, group, k->file, text);
    if (r == -ENOENT && k->may_miss)
        return 0;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "cgroup %s = %s", k->file, text) : 0;
}

/* On v1 memory may never pass memory+swap: down in the table's order, up in the other. */
int kr_cgroup_limit(const struct kr_cgroups *g, struct kr_group *group, const struct kr_limits *l, struct kr_err *err)
{
    const size_t count = sizeof knobs / sizeof *knobs;
    const struct kr_limits before = group->limits, *was = group->limited ? &before : NULL;
    int up = was && l->memory > was->memory;
    group->limited = 0;
    for (unsigned i = 0; i < g->count; i++)
        for (size_t k = 0; k < count; k++) {
            int r = turn(g, i, group, &knobs[up ? count - 1 - k : k], l, was, err);
            if (r < 0)
                return r;
        }
    group->limits = *l;
    group->limited = 1;
    return 0;
}

/* A folder of cells has no CPU quota, and is no unit that is killed whole. Swap stays off. */
int kr_group_bound(const struct kr_cgroups *g, const struct kr_group *group, const struct kr_cgroup_bounds *bounds,
                   struct kr_err *err)
{
    const struct kr_limits l = {.memory = bounds->memory, .processes = bounds->processes};
    for (unsigned i = 0; i < g->count; i++)
        for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) {
            int r = 0;
            if (((knobs[k].form == FORM_BYTES || knobs[k].form == FORM_BYTES_AND_CHARGE) && l.memory > 0) ||
                (knobs[k].form == FORM_COUNT && l.processes > 0) || knobs[k].form == FORM_ZERO)
                r = turn(g, i, group, &knobs[k], &l, NULL, err);
            if (r < 0)
                return r;
        }
    return 0;
}

int kr_cgroup_refill(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, struct kr_err *err)
{
    for (size_t k = 0; k < sizeof knobs / sizeof *knobs; k++) {
        int r = knobs[k].form == FORM_QUOTA_V1 ? turn(g, hier, group, &knobs[k], &group->limits, NULL, err) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int make_folders(const struct kr_cgroups *g, const struct kr_group *group, struct kr_err *err)
{
    mode_t was = umask(KR_GROUP_UMASK);
    char path[96];
    int r = 0;
    kr_group_path(group, "", path, sizeof path);
    for (unsigned i = 0; i < g->count && r == 0; i++)
        if (mkdirat(g->hier[i].dir, path, 0755) < 0)
            r = kr_err_set(err, KR_ERR_SYSTEM, errno, "make cgroup %s/%s", g->hier[i].path, path);
    umask(was);
    return r;
}

int kr_cgroup_take(struct kr_cgroups *g, uint64_t cell, struct kr_group *ret, struct kr_err *err)
{
    if (g->free_count > 0) {
        *ret = g->free[--g->free_count];
        return 0;
    }
    *ret = (struct kr_group){.name = cell};
    return make_folders(g, ret, err);
}

/* A folder for the cells of one user. Its limits are there before its first cell is. */
static int make_user(const struct kr_cgroups *g, uint64_t user, struct kr_err *err)
{
    const struct kr_group group = {.user = user};
    char path[KR_GROUP_NAME_ROOM], whole[sizeof g->hier[0].path + KR_GROUP_NAME_ROOM];
    int r = make_folders(g, &group, err);
    kr_group_path(&group, "", path, sizeof path);
    for (unsigned i = 0; r >= 0 && i < g->count; i++) {
        snprintf(whole, sizeof whole, "%s/%s", g->hier[i].path, path);
        if (g->hier[i].is.v2 && kr_group_hand_down(whole) != g->hier[i].is.layers)
            r = kr_err_set(err, KR_ERR_SYSTEM, EIO, "cgroup %s does not hand its controllers down", whole);
    }
    return r < 0 ? r : kr_group_bound(g, &group, &g->users, err);
}

int kr_cgroup_take_for(struct kr_cgroups *g, uint64_t cell, uint64_t user, struct kr_group *ret, struct kr_err *err)
{
    int r;
    if (user == 0 && g->free_count > 0)
        return kr_cgroup_take(g, cell, ret, err);
    *ret = (struct kr_group){.user = user != 0 ? user : cell, .name = cell};
    r = user != 0 ? 0 : make_user(g, cell, err);
    return r < 0 ? r : make_folders(g, ret, err);
}

int kr_cgroup_attach(const struct kr_cgroups *g, const struct kr_group *group, pid_t pid, struct kr_err *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", pid);
    for (unsigned i = 0; i < g->count; i++) {
        int r;
        if (!g->hier[i].is.v2)
            continue;
        r = kr_group_write(g, i, group, "cgroup.procs", text);
        if (r < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "attach to cgroup %s", g->hier[i].path);
    }
    return 0;
}

int kr_cgroup_tasks(const struct kr_cgroups *g, const struct kr_group *group, int ret_fds[KR_HIERARCHIES_MAX],
                    struct kr_err *err)
{
    int count = 0;
    for (unsigned i = 0; i < g->count; i++) {
        int fd;
        if (g->hier[i].is.v2)
            continue;
        fd = kr_group_open(g, i, group, "tasks", O_WRONLY);
        if (fd < 0) {
            int r = kr_err_set(err, KR_ERR_SYSTEM, -fd, "open the tasks of cgroup %s", g->hier[i].path);
            while (count > 0)
                close(ret_fds[--count]);
            return r;
        }
        ret_fds[count++] = fd;
    }
    return count;
}

int kr_cgroup_check(const struct kr_cgroups *g, const struct kr_group *group, pid_t pid, struct kr_err *err)
{
    char path[64], name[KR_GROUP_NAME_ROOM + 2], folder[KR_GROUP_NAME_ROOM], text[4096];
    unsigned found = 0;
    ssize_t n;
    snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    kr_group_name(group->user, group->name, folder);
    snprintf(name, sizeof name, "/%s\n", folder);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "read %s", path);
    for (const char *at = text; (at = strstr(at, name)); at++)
        found++;
    if (found < g->count)
        return kr_err_set(err, KR_ERR_SYSTEM, EPERM, "process %d is in %u of its %u cgroups", pid, found, g->count);
    return 0;
}

struct counted {
    const struct kr_cgroups *g;
    const struct kr_group *group;
};

static int look(const void *arg, unsigned hier, const char *file, const char *key, uint64_t *ret)
{
    const struct counted *p = arg;
    return kr_group_look(p->g, hier, p->group, file, key, ret);
}

void kr_cgroup_usage(const struct kr_cgroups *g, const struct kr_group *group, struct kr_usage *ret)
{
    const struct counted counted = {g, group};
    memset(ret, 0, sizeof *ret);
    for (unsigned i = 0; group->name != 0 && i < g->count; i++)
        (void)kr_counters_read(&g->hier[i].is, i, look, &counted, ret); /* what cannot be read is 0 */
}

int kr_cgroup_remove(struct kr_cgroups *g, struct kr_group *group)
{
    char path[96];
    int r = 0;
    kr_group_close(g, group);
    if (group->name == 0)
        return 0;
    kr_group_path(group, "", path, sizeof path);
    for (unsigned i = 0; i < g->count; i++)
        if (unlinkat(g->hier[i].dir, path, AT_REMOVEDIR) < 0 && errno != ENOENT)
            r = -errno;
    if (group->user == 0)
        return r;
    kr_group_path(&(struct kr_group){.user = group->user}, "", path, sizeof path);
    for (unsigned i = 0; i < g->count; i++)
        (void)unlinkat(g->hier[i].dir, path, AT_REMOVEDIR); /* other cells are in it, or this one stays, too */
    return r;
}

/* A busy folder makes the removal of the one around it fail, which says so. `users`: those in it may hold others. */
static void remove_inside(int dirfd, int users)
{
    cleanup_fd int copy = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return;
    (void)steal_fd(&copy); /* the stream's */
    for (struct dirent *e; (e = readdir(dir));) {
        cleanup_fd int inner = -1;
        if (e->d_type != DT_DIR || e->d_name[0] == '.' || unlinkat(dirfd, e->d_name, AT_REMOVEDIR) == 0)
            continue;
        kr_cgroup_unfreeze_stale(dirfd, e->d_name);
        if (!users)
            continue;
        inner = openat(dirfd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0)
            remove_inside(inner, 0);
        (void)unlinkat(dirfd, e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

int kr_cgroup_remove_stale(const char *path)
{
    const char *name = strrchr(path, '/');
    cleanup_fd int dir = -1;
    if (!name || strncmp(name, "/krait-", 7) != 0)
        return -EINVAL; /* not ours to touch, whatever the file said */
    dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT ? 0 : -errno;
    remove_inside(dir, 1);
    return rmdir(path) < 0 && errno != ENOENT ? -errno : 0;
}

int kr_cgroups_done(struct kr_cgroups *g)
{
    int r = 0;
    while (g->free_count > 0)
        kr_group_close(g, &g->free[--g->free_count]);
    if (g->count > 0)
        g->used = kr_fd_close(g->used);
    for (unsigned i = 0; i < g->count; i++) {
        int one = kr_cgroup_remove_stale(g->hier[i].path);
        r = one < 0 ? one : r;
        g->hier[i].dir = kr_fd_close(g->hier[i].dir);
    }
    g->count = 0;
    return r;
}
