/* The warden's start, step by step. Order matters: every path is resolved before there is an engine, which could change
 * what it means; the engine is forked before the warden changes its own namespaces, and after the lock is held, unless
 * the start is lazy: then the lock and all that follows it come when the engine asks for a zygote (kr_setup_late()). */
#include "setup.h"
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "landlock.h"
#include "log.h"
#include "oom.h"
#include "slice.h"
#include "warden_caps.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTAINED_ABI 6 /* Landlock's signal and abstract-socket scopes: without them a session could signal us */

uint32_t kr_setup_layers(const struct kr_warden *w)
{
    uint32_t layers = KR_LAYER_SECCOMP | w->cgroups.layers;
    if (w->standing.level != KR_LEVEL_CONTAINED)
        layers |= KR_LAYERS_NAMESPACES;
    if (w->standing.unique)
        layers |= KR_LAYER_UIDS;
    if (w->landlock_abi > 0)
        layers |= KR_LAYER_LANDLOCK;
    return layers;
}

/* All of a prefix will be readable in cells, so it must be one: an interpreter in ~/bin must not bring the home folder
 * along. */
static int is_prefix(const char *path)
{
    char lib[300];
    const char *home = getenv("HOME");
    int found = 0;
    DIR *dir;
    if (home && strncmp(home, path, strlen(path)) == 0 && (home[strlen(path)] == '/' || home[strlen(path)] == '\0'))
        return 0;
    snprintf(lib, sizeof lib, "%.250s/lib", path);
    dir = opendir(lib);
    for (struct dirent *e; dir && (e = readdir(dir));)
        found |= strncmp(e->d_name, "python3.", 8) == 0;
    if (dir)
        closedir(dir);
    return found;
}

/* Each interpreter by its real path; what lies outside /usr must bring its folder along. */
static int find_pythons(struct kr_warden *w, struct kr_err *err)
{
    for (size_t i = 0; i < w->config->zygote_count; i++) {
        const char *given = w->config->zygotes[i].python;
        cleanup_free char *real = realpath(given, NULL);
        if (!real || access(real, X_OK) < 0)
            return kr_err_set(err, KR_ERR_INVALID, errno, "python %s", given);
        if (strlen(real) >= sizeof w->pythons[i])
            return kr_err_set(err, KR_ERR_INVALID, ENAMETOOLONG, "python %s", given);
        snprintf(w->pythons[i], sizeof w->pythons[i], "%s", real);
        if (strncmp(real, "/usr/", 5) == 0)
            continue;
        for (int up = 0; up < 2; up++) { /* PREFIX/bin/python3 */
            char *slash = strrchr(real, '/');
            if (!slash || slash == real)
                return kr_err_set(err, KR_ERR_INVALID, 0, "python %s: not of the form PREFIX/bin/python3", given);
            *slash = '\0';
        }
        if (!is_prefix(real))
            return kr_err_set(err, KR_ERR_INVALID, 0, "python %s: %s/lib has no python3.X, so it is not its own prefix",
                              given, real);
        snprintf(w->prefixes[i], sizeof w->prefixes[i], "%s", real);
    }
    return 0;
}

static void close_folders(struct kr_warden *w)
{
    for (size_t i = 0; i < KR_WORKSPACES_MAX; i++)
        w->workspaces[i].dir = kr_fd_close(w->workspaces[i].dir);
    for (size_t i = 0; i < KR_MOUNTS_MAX; i++)
        w->mounts[i].dir = kr_fd_close(w->mounts[i].dir);
    w->shelf.dir = kr_fd_close(w->shelf.dir);
    w->packages.dir = kr_fd_close(w->packages.dir);
    kr_shelf_close(&w->quota);
}

/* What holds after: the caller's uid or the one chosen for it, no capability, no way to gain one, none of the warden's
 * descriptors. */
static _Noreturn void be_engine(struct kr_warden *w, int control, kr_engine_main *engine, void *arg)
{
    struct kr_err err;
    sigset_t none;
    kr_log_set_who("engine");
    kr_fd_close(w->instance.lock);
    for (unsigned i = 0; i < w->cgroups.count; i++)
        close(w->cgroups.hier[i].dir);
    if (w->cgroups.count > 0)
        kr_fd_close(w->cgroups.used);
    if (w->config->on_engine_shelf)
        w->config->on_engine_shelf(arg, w->quota.file);
    close_folders(w);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Before: the host's root, or the user who started us. After: the server's own user, who owns its data and nothing
     * else. */
    if (kr_become_powerless(w->engine_uid, w->engine_gid, &err) < 0) {
        kr_log(KR_LOG_ERROR, "the engine cannot give up its privileges", "error=\"%s\"", err.msg);
        _exit(1);
    }
    for (size_t i = 0; i < KR_WORKSPACES_MAX; i++)
        if (w->views[i] >= 0 && w->config->on_engine_folder)
            w->config->on_engine_folder(arg, i, steal_fd(&w->views[i]));
    exit(engine(control, arg));
}

static void close_views(struct kr_warden *w)
{
    for (size_t i = 0; i < KR_WORKSPACES_MAX; i++)
        w->views[i] = kr_fd_close(w->views[i]);
}

/* What the engine counts the size of, mounted so that its owner is the engine: read-only, and nowhere in the file
 * tree. */
static int open_views(struct kr_warden *w, uint32_t uid, struct kr_err *err)
{
    for (size_t i = 0; i < w->config->workspace_count; i++) {
        struct kr_workspace folder = w->workspaces[i];
        cleanup_fd int idmap = kr_idmap_new(folder.uid, folder.gid, uid, err);
        if (idmap < 0)
            return idmap;
        folder.read_only = 1;
        w->views[i] = kr_workspace_tree(&folder, idmap, err);
        if (w->views[i] < 0)
            return w->views[i];
    }
    return 0;
}

#define NO_IDS                                                                                                         \
    "cells would run as the host's root: there are no other ids here; start krait as an ordinary user, or as root "    \
    "outside"

/* Who the engine will be. One that works on the caller's files, and not on a server's data, gets an id that no other
 * process has: below those of cells and of the server, by the number of this instance; or the one to whom its cache
 * belongs. It stays who we are where cells
 * do too: at level contained, for an ordinary user, and in a user namespace that has no ids or cannot map those of the
 * workspace (its root is an ordinary user outside). The host's root is refused instead. */
static int choose_engine(struct kr_warden *w, const struct kr_id_space *space, struct kr_err *err)
{
    int nested = space->first != 0x70000000u, r;
    uint32_t id = w->config->engine_uid ? w->config->engine_uid : space->first - 2 - w->instance.id_slot;
    w->engine_uid = w->config->engine_uid;
    w->engine_gid = w->config->engine_gid;
    if (!w->config->engine_apart || geteuid() != 0 || w->standing.level == KR_LEVEL_CONTAINED)
        return 0;
    if (space->per_slot == 1)
        return kr_host_uid() != 0 ? 0 : kr_err_set(err, KR_ERR_DENIED, 0, NO_IDS);
    r = open_views(w, id, err);
    if (r < 0) {
        close_views(w);
        return nested && kr_host_uid() != 0 ? 0 : r;
    }
    w->engine_uid = id;
    w->engine_gid = w->config->engine_uid ? w->config->engine_gid : id;
    return 0;
}

static int fork_engine(struct kr_warden *w, kr_engine_main *engine, void *arg, struct kr_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    kr_slice_set(KR_SLICE_OWN_NS); /* the engine's too */
    w->engine_pid = fork();
    if (w->engine_pid == 0) {
        close(pair[0]);
        be_engine(w, pair[1], engine, arg);
    }
    close(pair[1]);
    close_views(w);
    if (w->config->on_engine_forked)
        w->config->on_engine_forked(arg);
    w->engine = pair[0];
    if (w->engine_pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "fork the engine");
    return fcntl(w->engine, F_SETFL, O_NONBLOCK) < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "fcntl") : 0;
}

/* What is handed to cells as writable, or as packages, is the engine's own, whatever the path means by now. */
static int check_owner(const struct kr_warden *w, const char *path, uint32_t uid, struct kr_err *err)
{
    uint32_t owner = w->config->engine_uid != 0 ? w->config->engine_uid : geteuid();
    return uid == owner ? 0
                        : kr_err_set(err, KR_ERR_DENIED, EPERM,
                                     "folder %s belongs to uid %u, and not to the server's %u", path, uid, owner);
}

static int open_shelf(struct kr_warden *w, struct kr_err *err)
{
    int r = kr_workspace_open(&w->shelf, w->config->shelf.path, 0, err);
    if (r >= 0 && (r = check_owner(w, w->config->shelf.path, w->shelf.uid, err)) < 0)
        w->shelf.dir = kr_fd_close(w->shelf.dir); /* a lazy start goes on, without a shelf */
    return r;
}

static int open_packages(struct kr_warden *w, struct kr_err *err)
{
    int r = kr_workspace_open(&w->packages, w->config->packages, 1, err);
    if (r >= 0 && (r = check_owner(w, w->config->packages, w->packages.uid, err)) < 0)
        w->packages.dir = kr_fd_close(w->packages.dir); /* as the shelf */
    return r;
}

/* What the shelf will be is decided before anything is opened: an image is mounted in a mount namespace that is ours
 * and the engine's, and what is opened in another could not be cloned. */
static int plan_shelf(struct kr_warden *w, struct kr_err *err)
{
    const struct kr_shelf_config *c = &w->config->shelf;
    int r;
    if (!c->path)
        return 0;
    if ((r = kr_shelf_plan(c, &w->plan, err)) < 0)
        return r;
    if (w->plan.image && w->config->level > 0) { /* a level was insisted on */
        kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "level %s mounts no image", kr_level_names[w->config->level]);
        r = kr_shelf_settle_for_folder(c, &w->plan, -EOPNOTSUPP, err);
    }
    if (r >= 0 && w->plan.image && (r = kr_shelf_namespace(err)) < 0)
        r = kr_shelf_settle_for_folder(c, &w->plan, r, err);
    return r;
}

/* What cells will mount of the shelf that is up: not by its path, which the engine may have changed since. */
static int take_shelf(struct kr_warden *w, struct kr_err *err)
{
    int r = check_owner(w, w->config->shelf.path, w->quota.uid, err), top;
    if (r < 0)
        return r;
    top = openat(w->quota.dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (top < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", w->config->shelf.path);
    kr_fd_close(w->shelf.dir);
    w->shelf.dir = top;
    w->shelf.uid = w->quota.uid;
    w->shelf.gid = w->quota.gid;
    return 0;
}

/* Mounts an image over the folder that was opened at the start, whatever its path means by now. On failure the shelf is
 * not up: no keeper is started on a folder that was refused. */
static int raise_shelf(struct kr_warden *w, struct kr_err *err)
{
    const struct kr_shelf_config *c = &w->config->shelf;
    int r = kr_shelf_up(c, &w->plan, w->shelf.dir, &w->quota, err);
    if (r < 0 && (r = kr_shelf_settle_for_folder(c, &w->plan, r, err)) >= 0)
        r = kr_shelf_up(c, &w->plan, w->shelf.dir, &w->quota, err);
    if (r < 0)
        return r;
    if ((r = take_shelf(w, err)) < 0) {
        kr_shelf_down(&w->quota);
        return r;
    }
    if (w->plan.why[0])
        kr_log(w->config->shelf.is_private ? KR_LOG_DEBUG : KR_LOG_WARN, "disk limits are counted and not enforced",
               "reason=\"%s\"", w->plan.why);
    else
        kr_log(KR_LOG_INFO, "disk limits are enforced", "by=%s image=%d",
               w->quota.kind == KR_SHELF_IS_BTRFS ? "btrfs" : "project", w->quota.image);
    return 0;
}

int kr_setup_keeper(struct kr_warden *w, struct kr_err *err)
{
    int r;
    if (w->keeper >= 0)
        return 0;
    /* One that the disk holds up lives on although it is killed, and two must not work on one shelf. */
    if (w->keeper_pid > 0 && waitpid(w->keeper_pid, NULL, WNOHANG) == 0)
        return kr_err_set(err, KR_ERR_BUSY, EBUSY, "the last keeper of the shelf has not ended yet");
    w->keeper_pid = 0;
    w->keeper = kr_shelf_keeper(&w->quota, &w->keeper_pid, err);
    if (w->keeper < 0)
        return w->keeper;
    r = kr_warden_watch(w, w->keeper, &w->from_keeper, KR_SRC_KEEPER, w);
    if (r < 0) {
        w->keeper = kr_fd_close(w->keeper); /* its end */
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "watch the keeper");
    }
    return 0;
}

int kr_setup_shelf(struct kr_warden *w, struct kr_err *err)
{
    int r;
    if (w->shelf.dir < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, ENOENT, "no shelf was given at start");
    if (w->quota.dir < 0 && (r = raise_shelf(w, err)) < 0)
        return r;
    return kr_setup_keeper(w, err);
}

static int open_workspaces(struct kr_warden *w, struct kr_err *err)
{
    for (size_t i = 0; i < w->config->workspace_count; i++) {
        const struct kr_workspace_config *c = &w->config->workspaces[i];
        int r = kr_workspace_open(&w->workspaces[i], c->path, c->read_only, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < w->config->mount_count; i++) {
        int r = kr_workspace_open(&w->mounts[i], w->config->mounts[i].path, 1, err);
        if (r < 0)
            return r;
    }
    if (w->config->packages) {
        int r = open_packages(w, err);
        if (r < 0)
            return r;
    }
    return w->config->shelf.path ? open_shelf(w, err) : 0;
}

/* A mount can be cloned only from within its mount namespace, and ours may be a new one since the folders were
 * opened. */
static int reopen_workspaces(struct kr_warden *w, struct kr_err *err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < w->config->workspace_count; i++)
        r = kr_workspace_reopen(&w->workspaces[i], err);
    for (size_t i = 0; r >= 0 && i < w->config->mount_count; i++)
        r = kr_workspace_reopen(&w->mounts[i], err);
    if (r >= 0 && w->packages.dir >= 0)
        r = kr_workspace_reopen(&w->packages, err);
    return r >= 0 && w->shelf.dir >= 0 ? kr_workspace_reopen(&w->shelf, err) : r;
}

/* The engine has channel, stdout, stderr of each; we two pidfds and the init's channel. Twice it has the listener of
 * one whose network has that, and once the egress process. */
#define DESCRIPTORS_PER_CELL 3
#define DESCRIPTORS_OF_LISTENER 2
#define DESCRIPTORS_SPARE 128
#define DESCRIPTORS_LEAST 128    /* a zygote's own lie at 100 and above */
#define DESCRIPTORS_OTHER 20000u /* connections, files; what a session of a login usually has */

static unsigned descriptors_of_cell(const struct kr_warden *w)
{
    return DESCRIPTORS_PER_CELL + (w->config->egress ? DESCRIPTORS_OF_LISTENER : 0);
}

/* As many descriptors as we may have, and no more cells than they are enough for. */
static unsigned cells_by_descriptors(const struct kr_warden *w)
{
    const unsigned each = descriptors_of_cell(w);
    const rlim_t first = (rlim_t)KR_IDMAPS_KEPT * (each + 1); /* these keep an id map as well */
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == RLIM_INFINITY)
        return 65535;
    if (l.rlim_cur <= 2 * DESCRIPTORS_SPARE)
        return 16;
    l.rlim_cur -= DESCRIPTORS_SPARE;
    if (l.rlim_cur <= first)
        return (unsigned)(l.rlim_cur / (each + 1));
    return KR_IDMAPS_KEPT + (unsigned)((l.rlim_cur - first) / each);
}

/* A core limit of exactly 1 stops a core_pattern that is a pipe (core(5)); at 0 the kernel runs the pipe's handler, on
 * the host and as root. A hard limit of 0 can be raised only by root, so any other user is refused where there is a
 * handler to run. */
static int limit_core(struct kr_err *err)
{
    const struct rlimit one = {1, 1};
    char pattern[256];
    int code;
    ssize_t n;
    if (setrlimit(RLIMIT_CORE, &one) == 0)
        return 0;
    code = errno;
    n = kr_fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/core_pattern", pattern, sizeof pattern);
    if (n > 0 && pattern[0] != '|' && pattern[0] != '@')
        return 0; /* a file, and of 0 bytes */
    return kr_err_set(err, KR_ERR_UNAVAILABLE, code,
                      "crashed programs would run the host's core handler: the hard core limit is 0; start krait after "
                      "ulimit -Hc unlimited");
}

/* As many descriptors as the cells that may be need, and room for connections and files: up to the hard limit for any
 * user, beyond it, up to the kernel's own bound, with CAP_SYS_RESOURCE. What is not given makes for fewer cells. */
static void raise_descriptors(const struct kr_warden *w)
{
    rlim_t wanted = (rlim_t)w->config->max_cells * descriptors_of_cell(w) + DESCRIPTORS_OTHER, most = DESCRIPTORS_OTHER;
    struct rlimit l, more;
    char text[32];
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return;
    if (kr_fd_read_file_at(AT_FDCWD, "/proc/sys/fs/nr_open", text, sizeof text) > 0)
        most = strtoull(text, NULL, 10);
    if (wanted > most)
        wanted = most;
    more = (struct rlimit){wanted, wanted};
    if (l.rlim_max != RLIM_INFINITY && l.rlim_max < wanted && setrlimit(RLIMIT_NOFILE, &more) == 0)
        return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0)
        kr_log(KR_LOG_WARN, "descriptor limit not raised, ignoring", "errno=%d", errno);
}

/* Before the engine is forked, so that it has them too. Cells set their own, lower. */
static int set_own_limits(const struct kr_warden *w, struct kr_err *err)
{
    struct rlimit l;
    raise_descriptors(w);
    if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < DESCRIPTORS_LEAST)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                          "RLIMIT_NOFILE allows %llu descriptors, and krait needs %d at least: raise it (ulimit -n, "
                          "LimitNOFILE=)",
                          (unsigned long long)l.rlim_cur, DESCRIPTORS_LEAST);
    return limit_core(err);
}

static int can_map(const struct kr_warden *w, const struct kr_workspace *folder, struct kr_err *err)
{
    cleanup_fd int idmap = kr_idmap_new(folder->uid, folder->gid, w->standing.first_id + 2, err);
    cleanup_fd int tree = -1;
    if (idmap < 0)
        return idmap;
    tree = kr_workspace_tree(folder, idmap, err);
    return tree < 0 ? tree : 0;
}

/* No cell can be looked for before this. */
static int make_table(struct kr_warden *w, unsigned count, struct kr_err *err)
{
    w->cells = calloc(count, sizeof(struct kr_cell *));
    w->idmaps = malloc(count * sizeof *w->idmaps);
    if (!w->cells || !w->idmaps)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the table of cells");
    for (unsigned i = 0; i < count; i++)
        w->idmaps[i] = -1;
    w->cell_max = count;
    return 0;
}

/* Ids of their own need mounts that map ids. The host's root refuses a filesystem that cannot, by name; inside a user
 * namespace that never can for the host's filesystems, so there cells share our id instead, and say so. */
static int settle_ids(struct kr_warden *w, const struct kr_id_space *space, int nested, struct kr_err *err)
{
    struct kr_standing *s = &w->standing;
    unsigned fits;
    s->unique = space->per_slot > 1;
    s->id_count = space->per_slot;
    s->first_id = space->first + w->instance.id_slot * space->per_slot;
    s->uid = geteuid();
    s->gid = getegid();
    for (size_t i = 0; s->unique && i < w->config->workspace_count; i++) {
        int r = can_map(w, &w->workspaces[i], err);
        if (r < 0 && !nested)
            return r;
        s->unique = r >= 0;
    }
    if (s->unique && w->shelf.dir >= 0) {
        int r = can_map(w, &w->shelf, err);
        if (r < 0 && !nested)
            return r;
        s->unique = r >= 0;
    }
    if (!s->unique && s->level != KR_LEVEL_CONTAINED)
        snprintf(s->why, sizeof s->why, "cells share our own uid: there are no other ids to give away here");
    if (!s->unique && s->level != KR_LEVEL_CONTAINED && kr_host_uid() == 0)
        return kr_err_set(err, KR_ERR_DENIED, 0, NO_IDS);
    fits = s->unique ? (s->id_count - 1) / 2 : 65535;
    if (fits > cells_by_descriptors(w))
        fits = cells_by_descriptors(w);
    return make_table(w, w->config->max_cells < fits ? w->config->max_cells : fits, err);
}

static int check_required(const struct kr_warden *w, struct kr_err *err)
{
    uint32_t missing = w->config->required & ~kr_setup_layers(w);
    if (w->standing.level == KR_LEVEL_CONTAINED) {
        if (w->landlock_abi < CONTAINED_ABI)
            return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "level contained needs Landlock ABI %d, this kernel has %d",
                              CONTAINED_ABI, w->landlock_abi);
        missing &= KR_LAYER_LANDLOCK | KR_LAYER_SECCOMP; /* allowing the level allows what it lacks by nature */
    }
    for (size_t i = 0; i < kr_layer_rows_count; i++)
        if (kr_layer_rows[i].bit & missing)
            return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "%s is missing: %s", kr_layer_rows[i].title,
                              kr_layer_rows[i].fix);
    return 0;
}

static int open_loop(struct kr_warden *w, struct kr_err *err)
{
    int pipe_fds[2];
    sigset_t set;
    int r;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGINT); /* a terminal sends it to us too; the engine answers it */
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_BLOCK, &set, NULL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->epoll < 0 || w->signals < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the warden's loop");
    w->lifeline_r = pipe_fds[0];
    w->lifeline_w = pipe_fds[1];
    r = kr_warden_watch(w, w->signals, &w->from_signals, KR_SRC_SIGNAL, w);
    if (r >= 0)
        r = kr_warden_watch(w, w->engine, &w->from_engine, KR_SRC_ENGINE, w);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "watch the engine") : 0;
}

/* At level contained the kernel's files and the sessions' folders lie in the runtime folder. */
static const char *const contained_folders[] = {"kernel", "scratch"};

static int note_folders(struct kr_warden *w, struct kr_err *err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && w->standing.level == KR_LEVEL_CONTAINED && i < 2; i++) {
        char path[240];
        snprintf(path, sizeof path, "%s/%s-%u", w->instance.dir, contained_folders[i], w->instance.slot);
        r = kr_instance_note(&w->instance, "scratch", path, err);
    }
    return r;
}

static void remove_folders(const struct kr_warden *w)
{
    for (size_t i = 0; w->standing.level == KR_LEVEL_CONTAINED && w->instance.lock >= 0 && i < 2; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s-%u", contained_folders[i], w->instance.slot);
        kr_instance_remove(&w->instance, name);
    }
}

struct notes {
    struct kr_instance *instance;
    struct kr_err *err;
    int r;
};

static int note_folder(void *arg, const char *path)
{
    struct notes *n = arg;
    int r = kr_instance_note(n->instance, "cgroup", path, n->err);
    n->r = n->r < 0 ? n->r : r; /* the first failure stays */
    return r;
}

/* A folder that cannot be made is a missing layer; one that cannot be noted is a start that fails, for nothing could
 * clean up after it. */
static int make_cgroups(struct kr_warden *w, struct kr_err *err)
{
    struct notes notes = {.instance = &w->instance, .err = err};
    struct kr_cgroup_bounds all = {.memory = w->config->total_memory, .processes = w->config->total_processes},
                            user = {.memory = w->config->user_memory, .processes = w->config->user_processes};
    int r;
    w->cgroups.note = note_folder;
    w->cgroups.note_arg = &notes;
    r = kr_cgroups_init(&w->cgroups, w->instance.name, err);
    w->cgroups.note = NULL;
    w->cgroups.note_arg = NULL;
    if (notes.r < 0 || r < 0)
        return notes.r < 0 ? notes.r : r;
    return kr_cgroups_bound(&w->cgroups, &all, &user, err);
}

/* Every path we were given, as it is meant now. */
static int resolve(struct kr_warden *w, struct kr_err *err)
{
    int r = open_workspaces(w, err);
    return r < 0 ? r : find_pythons(w, err);
}

/* What this machine gives, and the lock: nothing of ours has changed yet. */
static int look_at_machine(struct kr_warden *w, struct kr_id_space *space, struct kr_err *err)
{
    int r;
    w->landlock_abi = kr_landlock_abi();
    if ((r = kr_level_find(w->config->level, w->config->allow_contained, &w->standing.level, err)) < 0)
        return r;
    kr_ids_find(w->standing.level, space);
    if ((r = kr_instance_open(&w->instance, w->config->runtime_dir, space->slots, err)) < 0 ||
        (r = make_cgroups(w, err)) < 0 || (r = note_folders(w, err)) < 0)
        return r;
    return check_required(w, err);
}

/* The engine is forked: our own namespaces, and what is mounted from them. */
static int settle(struct kr_warden *w, const struct kr_id_space *space, struct kr_err *err)
{
    int nested = space->first != 0x70000000u, r;
    /* Before: the caller's uid without a capability. After: root of a user namespace that holds the caller's uid alone,
     * with the warden's capabilities over what it makes in there. */
    if (w->standing.level == KR_LEVEL_USER && ((r = kr_level_enter(err)) < 0 || (r = kr_warden_caps_drop(err)) < 0))
        return r;
    /* Root of a user namespace may still sit in a mount namespace that is not its own, and then cannot clone a
     * mount. */
    if (w->standing.level == KR_LEVEL_ROOT && nested && unshare(CLONE_NEWNS) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "a mount namespace of our own");
    if ((r = reopen_workspaces(w, err)) < 0)
        return r;
    if (w->shelf.dir >= 0 && (r = kr_setup_shelf(w, err)) < 0)
        return r;
    return settle_ids(w, space, nested, err);
}

int kr_setup_late(struct kr_warden *w, struct kr_err *err)
{
    struct kr_id_space space;
    int r = look_at_machine(w, &space, err);
    return r < 0 ? r : settle(w, &space, err);
}

int kr_setup(struct kr_warden *w, kr_engine_main *engine, void *arg, struct kr_err *err)
{
    struct kr_id_space space = {0};
    int r;
    w->instance.lock = -1;
    w->shelf.dir = w->packages.dir = w->keeper = -1;
    w->quota = KR_SHELF_NONE;
    for (size_t i = 0; i < KR_WORKSPACES_MAX; i++)
        w->workspaces[i].dir = w->views[i] = -1;
    for (size_t i = 0; i < KR_MOUNTS_MAX; i++)
        w->mounts[i].dir = -1;
    for (size_t i = 0; i < KR_ZYGOTES_MAX; i++)
        STAILQ_INIT(&w->opens[i]);
    TAILQ_INIT(&w->gone);
    TAILQ_INIT(&w->followed);
    kr_log_set_who("warden");
    if ((r = kr_warden_caps_drop(err)) < 0)
        return r;
    /* And with us the engine, the builders, the zygotes and the inits. */
    if ((r = kr_oom_protect(err)) < 0 || (r = set_own_limits(w, err)) < 0)
        return r;
    if ((r = plan_shelf(w, err)) < 0)
        return r;
    w->asleep = w->config->lazy;
    if (w->asleep) { /* what fails is the answer to a request for a zygote; but the engine looks at its shelf at once */
        (void)resolve(w, &w->why_not);
        if (w->shelf.dir >= 0 && w->plan.image && (r = raise_shelf(w, err)) < 0)
            return r;
    } else if ((r = resolve(w, err)) < 0 || (r = look_at_machine(w, &space, err)) < 0 ||
               (w->shelf.dir >= 0 && (r = raise_shelf(w, err)) < 0))
        return r;
    if ((r = choose_engine(w, &space, err)) < 0 || (r = fork_engine(w, engine, arg, err)) < 0 ||
        (r = open_loop(w, err)) < 0)
        return r;
    return w->asleep ? 0 : settle(w, &space, err);
}

#define KEEPER_END_MS 2000

/* It ends when its socket closes; where the disk holds it up it is killed, and is gone when the disk lets it. */
static void end_keeper(struct kr_warden *w)
{
    w->keeper = kr_fd_close(w->keeper);
    for (uint64_t late = kr_clock_after_ms(KEEPER_END_MS); w->keeper_pid > 0 && kr_clock_ns() < late; usleep(500))
        if (waitpid(w->keeper_pid, NULL, WNOHANG) != 0)
            w->keeper_pid = 0;
    if (w->keeper_pid > 0)
        (void)kill(w->keeper_pid, SIGKILL);
}

void kr_setup_undo(struct kr_warden *w)
{
    kr_outlet_end(w);
    end_keeper(w);
    kr_shelf_down(&w->quota);
    free(w->cells);
    remove_folders(w);
    kr_instance_close(&w->instance, kr_cgroups_done(&w->cgroups) < 0);
    kr_fd_close(w->epoll);
    kr_fd_close(w->signals);
    kr_fd_close(w->lifeline_r);
    kr_fd_close(w->lifeline_w);
    close_folders(w);
    for (unsigned i = 0; w->idmaps && i < w->cell_max; i++)
        kr_fd_close(w->idmaps[i]);
    free(w->idmaps);
}
