/* Folders with the six device nodes that programs need. A node of the host's is an inode that all processes share, and
 * thousands of locks on /dev/null make each close of it slow for all of them.
 *
 * Called by the warden with the host's privilege: device nodes cannot be made in a user namespace. Invariant: a folder
 * with its last name is whole; what was interrupted is finished by the next try. */
#include "devices.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define UNFINISHED "new"

static const struct {
    const char *name;
    unsigned major, minor; /* null(4), random(4), tty(4): the caller's own terminal, ENXIO without one */
} nodes[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
static const struct {
    const char *name, *to;
} links[] = {{"fd", "/proc/self/fd"},
             {"stdin", "/proc/self/fd/0"},
             {"stdout", "/proc/self/fd/1"},
             {"stderr", "/proc/self/fd/2"},
             {"ptmx", "pts/ptmx"}};
static const char *const places[] = {"shm", "pts"}; /* to mount on */

static int fill(int dir)
{
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        dev_t which = makedev(nodes[i].major, nodes[i].minor);
        if ((mknodat(dir, nodes[i].name, S_IFCHR | 0666, which) < 0 && errno != EEXIST) ||
            fchmodat(dir, nodes[i].name, 0666, 0) < 0) /* whatever our umask is */
            return -errno;
    }
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlinkat(links[i].to, dir, links[i].name) < 0 && errno != EEXIST)
            return -errno;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mkdirat(dir, places[i], 0755) < 0 && errno != EEXIST)
            return -errno;
    return 0;
}

static int make(int devices, const char *name)
{
    cleanup_fd int dir = -1;
    int r;
    if (mkdirat(devices, UNFINISHED, 0755) < 0 && errno != EEXIST)
        return -errno;
    dir = openat(devices, UNFINISHED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0 || fchmod(dir, 0755) < 0)
        return -errno;
    r = fill(dir);
    if (r >= 0 && renameat(devices, UNFINISHED, devices, name) < 0)
        r = -errno;
    return r;
}

/* nodev is not set, and no user namespace owns the tmpfs: its nodes work wherever it is mounted. */
static int new_tmpfs(void)
{
    cleanup_fd int context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    int fd;
    if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "755", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "size", "1m", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "nr_inodes", "0", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    fd = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return fd < 0 ? -errno : fd;
}

int kr_devices_new(struct kr_err *err)
{
    cleanup_fd int devices = new_tmpfs();
    int r = devices < 0 ? devices : make(devices, KR_DEVICES_FAMILY);
    if (r == -EPERM)
        return r;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make device nodes") : steal_fd(&devices);
}

int kr_devices_give(int devices, unsigned index, struct kr_err *err)
{
    struct stat st;
    char name[16];
    int r;
    snprintf(name, sizeof name, "%u", index);
    if (fstatat(devices, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return 0;
    r = errno == ENOENT ? make(devices, name) : -errno;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make a cell's device nodes") : 0;
}
