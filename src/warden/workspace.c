/* Detached mounts of host folders. The id map of a mount is carried by a user namespace, so one is made for each
 * (mapping lives as long as the mount). */
#include "workspace.h"
#include "fd.h"
#include "level.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

int kr_workspace_open(struct kr_workspace *w, const char *path, int read_only, struct kr_err *err)
{
    struct stat st;
    if (strlen(path) >= sizeof w->path)
        return kr_err_set(err, KR_ERR_INVALID, ENAMETOOLONG, "workspace folder");
    snprintf(w->path, sizeof w->path, "%s", path);
    w->read_only = read_only;
    w->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (w->dir < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "workspace %s", path);
    if (fstat(w->dir, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat workspace %s", path);
    w->uid = st.st_uid;
    w->gid = st.st_gid;
    w->dev = st.st_dev;
    return 0;
}

int kr_workspace_reopen(struct kr_workspace *w, struct kr_err *err)
{
    struct stat was, is;
    cleanup_fd int dir = open(w->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fstat(dir, &is) < 0 || fstat(w->dir, &was) < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "workspace %s", w->path);
    if (was.st_dev != is.st_dev || was.st_ino != is.st_ino)
        return kr_err_set(err, KR_ERR_DENIED, ESTALE, "workspace %s is not the folder it was at the start", w->path);
    kr_fd_close(w->dir);
    w->dir = steal_fd(&dir);
    w->uid = is.st_uid;
    w->gid = is.st_gid;
    return 0;
}

int kr_workspace_on_shelf(const struct kr_workspace *shelf, const char *name, const char *part,
                          struct kr_workspace *ret, struct kr_err *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    char path[KR_FOLDER_ROOM + 8];
    struct stat st;
    size_t len = strnlen(name, KR_FOLDER_ROOM);
    cleanup_fd int dir = -1;
    /* A check of its own: the warden does not trust the engine, nor what the engine shares with it. It accepts what
     * kr_id_valid() accepts, and nothing else: a change of the alphabet changes both. */
    if (len == 0 || len == KR_FOLDER_ROOM || strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz") != len)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "invalid name of a sandbox folder");
    snprintf(path, sizeof path, "%s/%s", name, part);
    dir = (int)syscall(SYS_openat2, shelf->dir, path, &how, sizeof how);
    if (dir < 0 || fstat(dir, &st) < 0)
        return kr_err_set(err, KR_ERR_NOT_FOUND, errno, "sandbox folder %s/%s", name, part);
    if (st.st_uid != shelf->uid || st.st_gid != shelf->gid)
        return kr_err_set(err, KR_ERR_DENIED, EPERM, "sandbox folder %s/%s belongs to another user", name, part);
    *ret = (struct kr_workspace){.uid = st.st_uid, .gid = st.st_gid, .dev = st.st_dev};
    snprintf(ret->path, sizeof ret->path, "%s", name);
    ret->dir = steal_fd(&dir);
    return 0;
}

/* Only there to be in the namespace: ends with the gate, or with us. */
static _Noreturn void idmap_process(int gate, pid_t parent)
{
    char c;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
        _exit(1);
    _exit(read(gate, &c, 1) < 0);
}

/* Its process is gone when this returns; the descriptor keeps it. It shares our descriptors: copying the table and
 * closing each of its entries takes a time that grows with the number of cells. */
int kr_idmap_new(uint32_t uid, uint32_t gid, uint32_t as_id, struct kr_err *err)
{
    char map_uid[64], map_gid[64], path[64];
    cleanup_fd int gate_r = -1, gate_w = -1;
    int gate[2], fd = -1;
    pid_t pid, self = getpid();
    int r;
    if (pipe2(gate, O_CLOEXEC) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "pipe");
    gate_r = gate[0];
    gate_w = gate[1];
    pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_FILES | SIGCHLD, NULL, NULL, NULL, 0);
    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make a user namespace for an id map");
    if (pid == 0)
        idmap_process(gate_r, self);
    snprintf(map_uid, sizeof map_uid, "%u %u 1\n", uid, as_id);
    snprintf(map_gid, sizeof map_gid, "%u %u 1\n", gid, as_id);
    r = kr_maps_write(pid, map_uid, map_gid, 0, err);
    if (r >= 0) {
        snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            r = kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", path);
    }
    /* Either ends it: a wait that hangs on one call is a warden that hangs on one call. */
    close(steal_fd(&gate_w));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return r < 0 ? r : fd;
}

int kr_workspace_tree(const struct kr_workspace *w, int idmap, struct kr_err *err)
{
    cleanup_fd int tree = -1;
    /* Private: what the host mounts beneath the folder later is not the cell's. */
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, .propagation = MS_PRIVATE};
    tree = (int)syscall(SYS_open_tree, w->dir, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (tree < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "clone the mount of workspace %s", w->path);
    if (w->read_only)
        attr.attr_set |= MOUNT_ATTR_RDONLY;
    if (idmap >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)idmap;
    }
    if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) < 0) {
        struct statfs fs = {0};
        (void)fstatfs(w->dir, &fs);
        return kr_err_set(err, idmap >= 0 && errno == EINVAL ? KR_ERR_UNAVAILABLE : KR_ERR_SYSTEM, errno,
                          "workspace %s: its filesystem (type 0x%lx) cannot map ids; use a folder on ext4, xfs, btrfs",
                          w->path, (unsigned long)fs.f_type);
    }
    return steal_fd(&tree);
}
