/* Where our cgroup folders go: reads /proc/self/mountinfo and /proc/self/cgroup once, at start.
 *
 * v1: beneath our own cgroup of each controller. v2: beneath our own cgroup if it can hand its controllers down, which
 * the kernel allows only to a cgroup without processes of its own: so either it was delegated with controllers on, or
 * we are its only process and step into a leaf. As root, a login shell usually shares our cgroup: then the nearest
 * ancestor that does hand the controllers down takes our folder. */
#include "cgroup_files.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

struct mounts {
    char v2[256];    /* mount point of cgroup2, "" if none */
    char v1[4][256]; /* by row of controllers[] */
};
static const struct {
    const char *name;
    uint32_t layer;
    int accounting;
} controllers[] = {
    {"memory", KR_LAYER_CGROUP_MEMORY, 0},
    {"pids", KR_LAYER_CGROUP_PIDS, 0},
    {"cpu", KR_LAYER_CGROUP_CPU, 0},
    {"cpuacct", 0, 1},
};
#define CONTROLLERS (sizeof controllers / sizeof *controllers)
#define TEXT_FIRST (64u << 10)
#define TEXT_MAX (16u << 20) /* the kernel's own bound, 100000 mounts of a namespace (fs.mount-max), usually takes it */
#define V2_WANTED (KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_PIDS | KR_LAYER_CGROUP_CPU)

/* Is `word` one of the comma- or blank-separated words of `list`? */
static int has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len) {
        char before = at == list ? ',' : at[-1], after = at[len];
        if (strchr(", \n", before) && (after == '\0' || strchr(", \n", after)))
            return 1;
    }
    return 0;
}

/* One line of mountinfo: "36 35 98:0 /root /mount/point opts - fstype source superopts". */
static void take_mount(struct mounts *m, char *line)
{
    char root[256], point[256], type[32], super[256];
    const char *dash = strstr(line, " - ");
    if (!dash || sscanf(line, "%*s %*s %*s %255s %255s", root, point) != 2 ||
        sscanf(dash + 3, "%31s %*s %255s", type, super) != 2)
        return;
    if (strcmp(type, "cgroup2") == 0 && m->v2[0] == '\0')
        snprintf(m->v2, sizeof m->v2, "%s", point);
    for (size_t i = 0; strcmp(type, "cgroup") == 0 && i < CONTROLLERS; i++)
        if (has_word(super, controllers[i].name) && m->v1[i][0] == '\0')
            snprintf(m->v1[i], sizeof m->v1[i], "%s", point);
}

/* Our path in the hierarchy that has `controller` (NULL: v2), from lines "4:memory:/path". "" if there is none. */
static void own_path(const char *text, const char *controller, char *buf, size_t size)
{
    buf[0] = '\0';
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        char list[128] = "", path[512];
        if (sscanf(line, "%*d::%511[^\n]", path) != 1 && sscanf(line, "%*d:%127[^:]:%511[^\n]", list, path) != 2)
            continue;
        if (controller ? has_word(list, controller) : list[0] == '\0') {
            snprintf(buf, size, "%s", strcmp(path, "/") == 0 ? "" : path);
            return;
        }
    }
}

static int add_hier(struct kr_cgroups *g, const char *parent, const char *name, uint32_t layers, int v2, int accounting)
{
    struct kr_cgroup_hier *h = &g->hier[g->count];
    int r;
    mode_t was;
    if ((size_t)snprintf(h->path, sizeof h->path, "%s/%s", parent, name) >= sizeof h->path)
        return -ENAMETOOLONG;
    r = g->note ? g->note(g->note_arg, h->path) : 0;
    if (r < 0)
        return r;
    /* A folder that is there already belongs to another instance, whatever its name says. */
    was = umask(KR_GROUP_UMASK);
    r = mkdir(h->path, 0755) < 0 ? -errno : 0;
    umask(was);
    if (r < 0)
        return r;
    h->dir = open(h->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (h->dir < 0) {
        r = -errno;
        (void)rmdir(h->path);
        return r;
    }
    h->is = (struct kr_w_hier){.layers = layers, .v2 = v2, .accounting = accounting};
    g->layers |= layers;
    g->count++;
    return 0;
}

/* Controllers a v2 cgroup hands down to its children. */
static uint32_t handed_down(const char *path)
{
    char file[900], text[256];
    uint32_t layers = 0;
    snprintf(file, sizeof file, "%s/cgroup.subtree_control", path);
    if (kr_fd_read_file_at(AT_FDCWD, file, text, sizeof text) <= 0)
        return 0;
    for (size_t i = 0; i < 3; i++)
        if (has_word(text, controllers[i].name))
            layers |= controllers[i].layer;
    return layers;
}

/* Turns a v2 cgroup's controllers on for its children, one by one: a missing one must not cost the others. */
uint32_t kr_group_hand_down(const char *path)
{
    char file[900], text[16];
    snprintf(file, sizeof file, "%s/cgroup.subtree_control", path);
    for (size_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "+%s", controllers[i].name);
        (void)kr_fd_write_file_at(AT_FDCWD, file, text);
    }
    return handed_down(path);
}

static int only_process_here(const char *path)
{
    char file[900], text[64];
    ssize_t n;
    char *end;
    long pid;
    snprintf(file, sizeof file, "%s/cgroup.procs", path);
    n = kr_fd_read_file_at(AT_FDCWD, file, text, sizeof text);
    if (n <= 0)
        return 0;
    pid = strtol(text, &end, 10);
    return pid == getpid() && strcmp(end, "\n") == 0;
}

static void step_into_leaf(const char *path)
{
    char leaf[840], file[900];
    snprintf(leaf, sizeof leaf, "%s/krait-host", path);
    (void)mkdir(leaf, 0755);
    snprintf(file, sizeof file, "%s/cgroup.procs", leaf);
    (void)kr_fd_write_file_at(AT_FDCWD, file, "0");
}

/* The v2 cgroup that will hold our folder, in *path; its layers, or 0. */
static uint32_t find_v2_parent(const char *mount_point, const char *own, char *path, size_t size)
{
    uint32_t layers;
    snprintf(path, size, "%s%s", mount_point, own);
    layers = handed_down(path);
    if (layers == 0 && (own[0] == '\0' || only_process_here(path))) {
        if (own[0] != '\0')
            step_into_leaf(path);
        layers = kr_group_hand_down(path);
    }
    while (layers == 0 && geteuid() == 0 && strlen(path) > strlen(mount_point)) {
        *strrchr(path, '/') = '\0';
        layers = handed_down(path);
        if (layers == 0 && strcmp(path, mount_point) == 0)
            layers = kr_group_hand_down(path);
    }
    return layers;
}

static void init_v2(struct kr_cgroups *g, const char *mount_point, const char *own, const char *name)
{
    char parent[800];
    uint32_t layers = find_v2_parent(mount_point, own, parent, sizeof parent);
    if (layers == 0)
        snprintf(g->why, sizeof g->why,
                 "no cgroup hands memory, pids and cpu down to us: systemd-run --user --scope -p Delegate=yes krait …");
    else if (add_hier(g, parent, name, layers, 1, 1) < 0)
        snprintf(g->why, sizeof g->why,
                 "cgroup %.80s is not writable: systemd-run --user --scope -p Delegate=yes krait …", parent);
    else /* what our folder got, it hands on to the cells in it */
        g->layers = g->hier[0].is.layers = kr_group_hand_down(g->hier[0].path);
}

static void init_v1(struct kr_cgroups *g, const struct mounts *m, const char *cgroups, const char *name)
{
    for (size_t i = 0; i < CONTROLLERS; i++) {
        char own[512], parent[800];
        unsigned at;
        struct stat st;
        if (m->v1[i][0] == '\0')
            continue;
        own_path(cgroups, controllers[i].name, own, sizeof own);
        snprintf(parent, sizeof parent, "%s%s", m->v1[i], own);
        if (stat(parent, &st) < 0) /* a container sees its own cgroup as the root of the mount */
            snprintf(parent, sizeof parent, "%s", m->v1[i]);
        for (at = 0; at < g->count; at++) /* cpu and cpuacct are often one hierarchy */
            if (strncmp(g->hier[at].path, m->v1[i], strlen(m->v1[i])) == 0 && g->hier[at].path[strlen(m->v1[i])] == '/')
                break;
        if (at < g->count) {
            g->hier[at].is.layers |= controllers[i].layer;
            g->hier[at].is.accounting |= controllers[i].accounting;
            g->layers |= controllers[i].layer;
        } else if (add_hier(g, parent, name, controllers[i].layer, 0, controllers[i].accounting) < 0) {
            snprintf(g->why, sizeof g->why, "cgroup %.80s is not ours to write; a v2 host can delegate one", m->v1[i]);
        }
    }
}

/* A whole file of /proc, whatever its size. The length, or -errno; *ret is the caller's to free either way. */
static ssize_t read_whole(const char *path, char **ret)
{
    ssize_t n = -E2BIG;
    for (size_t size = TEXT_FIRST; n == -E2BIG && size <= TEXT_MAX; size *= 2) {
        char *larger = realloc(*ret, size);
        if (!larger)
            return -ENOMEM;
        *ret = larger;
        n = kr_fd_read_file_at(AT_FDCWD, path, larger, size);
    }
    return n;
}

/* A kernel without cgroups has no such file: 0, and *ret is "". */
static int read_own(char **ret, struct kr_err *err)
{
    ssize_t n = read_whole("/proc/self/cgroup", ret);
    if (n == -ENOENT)
        (*ret)[0] = '\0';
    else if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "read /proc/self/cgroup");
    return 0;
}

/* One that cannot be read is no host without cgroups: its cells would have no limits. */
static int read_mounts(struct mounts *ret, struct kr_err *err)
{
    cleanup_free char *text = NULL;
    char *save = NULL;
    ssize_t n = read_whole("/proc/self/mountinfo", &text);
    if (n < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-n, "read /proc/self/mountinfo");
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_mount(ret, line);
    return 0;
}

static unsigned most_open(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return 0;
    return files.rlim_cur / KR_GROUPS_OPEN_SHARE < KR_GROUPS_OPEN_MAX
               ? (unsigned)(files.rlim_cur / KR_GROUPS_OPEN_SHARE)
               : KR_GROUPS_OPEN_MAX;
}

int kr_cgroups_init(struct kr_cgroups *g, const char *name, struct kr_err *err)
{
    cleanup_free char *cgroups = NULL;
    char own[512];
    struct mounts m = {0};
    int any_v1, r;
    *g = (struct kr_cgroups){.note = g->note, .note_arg = g->note_arg, .used = -1, .open_max = most_open()};
    if ((r = read_own(&cgroups, err)) < 0 || (r = read_mounts(&m, err)) < 0)
        return r;
    init_v1(g, &m, cgroups, name);
    any_v1 = g->count > 0;
    if (!any_v1 && m.v2[0] != '\0') {
        own_path(cgroups, NULL, own, sizeof own);
        init_v2(g, m.v2, own, name);
    }
    g->kind = any_v1 ? (m.v2[0] ? KR_CGROUP_HYBRID : KR_CGROUP_V1) : g->count > 0 ? KR_CGROUP_V2 : KR_CGROUP_NONE;
    if (g->count == 0 && g->why[0] == '\0')
        snprintf(g->why, sizeof g->why, "no cgroup hierarchy is mounted here");
    return 0;
}
