/* Copies of sandboxes' folders and files, by cp(1), and their removal.
 *
 * Called by `krait shelf` and `krait backup`. Invariants: a copy ends with the command that asked for it;
 * beside running sessions it follows no link. */
#include "shelf_copy.h"
#include "fd.h"
#include "files.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What cp reads from: a mount of its own of the source, on which no symbolic link is followed. A session that runs
 * meanwhile may put a link in the place of a folder that cp has just looked at, and cp would go on behind it, with our
 * rights. Links themselves are copied as before. Without the privilege, or on an older kernel: -1. */
static int source_without_links(int from)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSYMFOLLOW | MOUNT_ATTR_RDONLY};
    int tree = open_tree(from, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);

    if (tree >= 0 && mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0)
        return tree;
    kr_fd_close(tree);
    return -1;
}

int kr_shelf_hold(int shelf, struct kr_err *err)
{
    int tree = source_without_links(shelf);
    bool is_alone = tree < 0;

    kr_fd_close(tree);
    if (flock(shelf, (is_alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    if (is_alone)
        return kr_err_set(
            err, KR_ERR_BUSY, EBUSY,
            "a krait has the sandboxes, and without root's mounts a copy could follow links that a session "
            "makes meanwhile: stop it, or run this as root");
    return kr_err_set(err, KR_ERR_BUSY, EBUSY, "the sandboxes are being moved: try again later");
}

/* A copy that outlived its command would go on writing to what the next move removes: it dies with its parent. The
 * parent may have died before prctl(2). */
static void exec_cp(int from, const char *to, pid_t parent)
{
    static char *const environment[] = {"LC_ALL=C", "PATH=/usr/bin:/bin", NULL};
    char source[40], *argv[] = {"cp", "-a", "-H", "-T", "--", source, (char *)to, NULL};
    int tree = source_without_links(from);
    int kept = tree < 0 ? dup(from) : tree; /* cp inherits it: it is reached through /proc, whatever its path is now */

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        _exit(126);
    snprintf(source, sizeof source, "/proc/self/fd/%d", kept);
    execve("/bin/cp", argv, environment);
    execve("/usr/bin/cp", argv, environment);
    _exit(127);
}

int kr_shelf_copy(int from, const char *to, struct kr_err *err)
{
    int status = 0;
    pid_t self = getpid(), pid = fork();

    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "start cp");
    if (pid == 0)
        exec_cp(from, to, self);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "wait for cp");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    kr_err_set(err, KR_ERR_SYSTEM, 0, "cp to %.120s failed; what it said is above", to);
    return -EIO;
}

int kr_shelf_empty(int dir, struct kr_err *err)
{
    int r;

    do
        r = kr_files_delete(dir, "", true, NULL, err);
    while (r == 1);
    return r;
}

int kr_shelf_remove(int dir, const char *name, struct kr_err *err)
{
    cleanup_fd int folder = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = folder < 0 ? 0 : kr_shelf_empty(folder, err);

    if (r >= 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "remove %s", name);
    return r;
}
