/* Where gauges are kept and how they come into a cell. See gauges.h for what they are.
 *
 * The kernel's own /proc can be mounted with subset=pid, which leaves processes alone; no file can be put into it then,
 * for it has no names to mount on. So a cell's /proc is mounted whole, our files are bound over some of its names, and
 * then it is narrowed: a name that is a mount point stays in the kernel's cache and is found there, any other is looked
 * up, and is not there. Between the two steps only krait's own code is in the cell, and it holds no other name.
 *
 * What is bound comes from the cell's own root, an overlay (view.c) with the warden's folder for it as one more layer.
 * So the inodes are the cell's: locks that it takes on them hold up neither another cell nor the warden, which opens
 * and closes the files beneath while a run lasts.
 *
 * Invariants: cells see every file through a read-only mount; a folder in the warden's tmpfs is written to by its index
 * alone; a cell whose /proc could not be narrowed does not come to be. */
#include "gauges.h"
#include "fd.h"
#include "machine.h"
#include "view.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NARROW "subset=pid,hidepid=ptraceable"
#define PROC_FLAGS (MS_NOSUID | MS_NODEV | MS_NOEXEC)
#define WITNESS "kallsyms"       /* every kernel has it, and no cell */
#define OWN "/krait"             /* in a cell's layer, and so in its root: the files that change */
#define MACHINE "/krait/machine" /* in the family's root, and so in the cells': those that do not */
#define ROOM_PER_CELL (5u * 4096u)

static const char *const names[KR_GAUGE_MAX_] = {"stat", "meminfo", "uptime", "loadavg"};
/* Names of /proc that get a file of the family's, of `machine` or of its folder for a number of processors. */
static const char *const fixed[] = {"vmstat", "version", "filesystems", "diskstats"};
static const char *const by_cpus[] = {"cpuinfo", "sys"};
/* Links of /proc into the reader's own folder. They stay found while the init holds them. */
static const char *const links[] = {"mounts", "net"};

/* ---- in the warden ---- */

int kr_gauges_new(unsigned cells, struct kr_err *err)
{
    cleanup_fd int context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
    char size[32];
    int fd, r = 0;
    snprintf(size, sizeof size, "%llu", (unsigned long long)(cells + 1) * ROOM_PER_CELL);
    if (context < 0 || syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "755", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "nr_inodes", "0", 0) < 0 ||
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        r = -errno;
    fd = r < 0 ? -1
               : (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
                              MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (r >= 0 && fd < 0)
        r = -errno;
    if (r == -EPERM)
        return r;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make a place for the gauges of cells") : fd;
}

static int write_one(int gauges, const char *path, int again, const char *text, size_t len)
{
    /* O_NONBLOCK: whatever a reader might hold (a lease), the warden does not wait for it. */
    cleanup_fd int fd = openat(gauges, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0444);
    ssize_t n = fd < 0 ? -1 : pwrite(fd, text, len, 0);
    if (n < 0)
        return -errno;
    if ((size_t)n != len)
        return -ENOSPC;
    return again && ftruncate(fd, (off_t)len) < 0 ? -errno : 0;
}

static int make_folder(int gauges, unsigned index)
{
    char path[40];
    snprintf(path, sizeof path, "%u", index);
    if (mkdirat(gauges, path, 0755) < 0)
        return -errno;
    snprintf(path, sizeof path, "%u" OWN, index);
    return mkdirat(gauges, path, 0755) < 0 ? -errno : 0;
}

int kr_gauges_write(int gauges, unsigned index, unsigned which, int again, const struct kr_gauge_facts *facts)
{
    char path[40], text[KR_GAUGE_TEXT_MAX];
    mode_t was = umask(022); /* cells read what is made here, whatever our umask is */
    int r = 0;
    for (int i = 0; r >= 0 && i < KR_GAUGE_MAX_; i++) {
        size_t len;
        if (!(which & (1u << i)))
            continue;
        len = kr_gauge_text((enum kr_gauge)i, facts, text);
        snprintf(path, sizeof path, "%u" OWN "/%s", index, names[i]);
        r = write_one(gauges, path, again, text, len);
        if (r == -ENOENT && again && (r = make_folder(gauges, index)) >= 0) /* the first cell with this index */
            r = write_one(gauges, path, again, text, len);
    }
    umask(was);
    return r;
}

/* ---- in the builder ---- */

int kr_gauges_attach(const char *root, int gauges, unsigned cpus)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    cleanup_fd int copy = -1;
    char at[64];
    snprintf(at, sizeof at, "%s" KR_VIEW_DIR "/" KR_GAUGES_DIR, root);
    if (syscall(SYS_move_mount, gauges, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    /* The warden writes through this very mount, so another takes its place, which is read-only, as are its copies. */
    copy = (int)syscall(SYS_open_tree, AT_FDCWD, at, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (copy < 0 || syscall(SYS_mount_setattr, copy, "", AT_EMPTY_PATH, &ro, sizeof ro) < 0 ||
        umount2(at, MNT_DETACH) < 0 || syscall(SYS_move_mount, copy, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    snprintf(at, sizeof at, "%s" MACHINE, root);
    return mkdir(at, 0755) < 0 ? -errno : kr_machine_write(at, cpus);
}

/* ---- in a cell's init ---- */

static int bind(const char *proc, const char *from, const char *name)
{
    char to[64];
    snprintf(to, sizeof to, "%s/%s", proc, name);
    return mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

static int bind_by_cpus(const char *proc, unsigned cpus)
{
    char from[64];
    int r = 0;
    for (size_t i = 0; r >= 0 && i < sizeof by_cpus / sizeof *by_cpus; i++) {
        snprintf(from, sizeof from, MACHINE "/%u/%s", cpus, by_cpus[i]);
        r = bind(proc, from, by_cpus[i]);
    }
    return r;
}

static int bind_fixed(const char *proc)
{
    char from[64];
    int r = 0;
    for (size_t i = 0; r >= 0 && i < sizeof fixed / sizeof *fixed; i++) {
        snprintf(from, sizeof from, MACHINE "/%s", fixed[i]);
        r = bind(proc, from, fixed[i]);
    }
    return r;
}

/* Descriptors that stay open for as long as the process lives: they keep the links in the kernel's cache. */
static int hold_links(const char *proc)
{
    char path[64];
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        snprintf(path, sizeof path, "%s/%s", proc, links[i]);
        if (open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC) < 0)
            return -errno;
    }
    return 0;
}

/* The remount drops names that were looked up and let go (reconfigure_super() in the kernel); a held one would stay.
 * The witness is looked up before, so that a kernel which keeps the names it has shown is found out; without a witness
 * nothing is known. */
static int narrow(const char *proc)
{
    char path[64];
    snprintf(path, sizeof path, "%s/" WITNESS, proc);
    if (access(path, F_OK) < 0)
        return -errno;
    if (mount(NULL, proc, NULL, MS_REMOUNT | PROC_FLAGS, NARROW) < 0)
        return -errno;
    if (access(path, F_OK) == 0 || errno != ENOENT)
        return -EBUSY; /* a kernel that keeps the names it has shown */
    return 0;
}

static int mount_gauges(unsigned cpus)
{
    char from[64];
    int r = 0;
    for (int i = 0; r >= 0 && i < KR_GAUGE_MAX_; i++) {
        snprintf(from, sizeof from, OWN "/%s", names[i]);
        r = bind("/proc", from, names[i]);
    }
    if (r < 0 || (r = bind_fixed("/proc")) < 0 || (r = bind_by_cpus("/proc", cpus)) < 0 ||
        (r = hold_links("/proc")) < 0)
        return r;
    return narrow("/proc");
}

int kr_gauges_mount(unsigned cpus, struct kr_err *err)
{
    int r = mount_gauges(cpus);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the cell's own files of /proc") : 0;
}

int kr_gauges_show_cpus(unsigned cpus, struct kr_err *err)
{
    int r = bind_by_cpus("/proc", cpus);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "%u processors in the cell's /proc", cpus) : 0;
}

int kr_gauges_try(const char *stage)
{
    int r, undone;
    if (mount("proc", stage, "proc", PROC_FLAGS, NULL) < 0)
        return errno == EPERM ? 0 : -errno;
    r = bind_fixed(stage);
    if (r >= 0)
        r = narrow(stage);
    undone = umount2(stage, MNT_DETACH) < 0 ? -errno : 0;
    if (undone < 0)
        return undone;
    return r == -EBUSY || r == -EINVAL || r == -EPERM || r == -ENOENT ? 0 : r < 0 ? r : 1;
}
