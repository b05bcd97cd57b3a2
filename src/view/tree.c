/* The root tree as one table: each row is a folder, a link, a file or a mount. The builder walks it in order. */
#include "tree.h"
#include "copy.h"
#include "devices.h"
#include "embed.h"
#include "fd.h"
#include "gauges.h"
#include "programs.h"
#include "proto.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Where the new root is put together before we pivot into it; any folder that exists everywhere will do. */
#define STAGE "/tmp"

enum row_kind {
    DIRECTORY,
    LINK,      /* to `what` */
    TEXT,      /* file with this content */
    COPY,      /* of the host's file, if there is one */
    COPY_TREE, /* of the host's folder, if there is one: a copy costs cells no mount */
    BIND,      /* read-only mount of the host's folder of the same name, if there is one */
    DEVICE,    /* the host's device node; with a word beside it one that may be missing */
    LIKE_HOST, /* /bin, /lib…: a link where the host has a link, else a read-only mount */
};
struct row {
    enum row_kind kind;
    const char *path, *what;
};
/* clang-format off */
static const struct row rows[] = {
    {DIRECTORY, "/etc", NULL}, {DIRECTORY, "/dev", NULL}, {DIRECTORY, "/dev/shm", NULL}, {DIRECTORY, "/dev/pts", NULL},
    {DIRECTORY, "/proc", NULL},
    {DIRECTORY, "/tmp", NULL}, {DIRECTORY, "/workspace", NULL}, {DIRECTORY, "/venv", NULL}, {DIRECTORY, "/run", NULL},
    {DIRECTORY, "/home", NULL}, {DIRECTORY, "/root", NULL}, {DIRECTORY, "/var", NULL}, {DIRECTORY, "/app", NULL},
    {DIRECTORY, "/krait", NULL}, {DIRECTORY, "/etc/ssl", NULL}, {DIRECTORY, "/data", NULL},
    {DIRECTORY, "/mnt", NULL},
    {DIRECTORY, "/sys", NULL}, {DIRECTORY, "/sys/devices", NULL}, {DIRECTORY, "/sys/devices/system", NULL},
    {LINK, "/sys/devices/system/cpu", "/proc/sys/devices/cpu"},
    {BIND, "/usr", NULL},
    {LIKE_HOST, "/bin", NULL}, {LIKE_HOST, "/sbin", NULL}, {LIKE_HOST, "/lib", NULL}, {LIKE_HOST, "/lib32", NULL},
    {LIKE_HOST, "/lib64", NULL}, {LIKE_HOST, "/libx32", NULL},
    {LINK, "/var/tmp", "/tmp"}, {LINK, "/app/results", "/workspace"},
    {LINK, "/home/user", "/workspace"}, {LINK, "/mnt/data", "/workspace"},
    {LINK, "/dev/fd", "/proc/self/fd"}, {LINK, "/dev/stdin", "/proc/self/fd/0"},
    {LINK, "/dev/stdout", "/proc/self/fd/1"}, {LINK, "/dev/stderr", "/proc/self/fd/2"}, {LINK, "/dev/ptmx", "pts/ptmx"},
    {DEVICE, "/dev/null", NULL}, {DEVICE, "/dev/zero", NULL}, {DEVICE, "/dev/full", NULL},
    {DEVICE, "/dev/random", NULL}, {DEVICE, "/dev/urandom", NULL}, {DEVICE, "/dev/tty", "if any"},
    {COPY, "/etc/ld.so.cache", NULL}, {COPY, "/etc/localtime", NULL}, {COPY, "/etc/timezone", NULL},
    {COPY, "/etc/mime.types", NULL}, {COPY, "/etc/matplotlibrc", NULL}, {COPY, "/etc/ssl/openssl.cnf", NULL},
    {COPY, "/etc/protocols", NULL}, {COPY, "/etc/services", NULL},
    {COPY_TREE, "/etc/alternatives", NULL}, {COPY_TREE, "/etc/fonts", NULL}, {COPY_TREE, "/etc/ssl/certs", NULL},
    {TEXT, "/etc/passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:/workspace:/bin/bash\n"
                          "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {TEXT, "/etc/group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {TEXT, "/etc/hosts", "127.0.0.1 localhost krait\n::1 localhost\n"},
    {TEXT, "/etc/hostname", "krait\n"},
    {TEXT, "/etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files\nservices: files\nprotocols: files\n"},
    {TEXT, "/etc/resolv.conf", ""},
    /* Without a network five tries are 15 s of waiting. What the host manages is read-only here, so there is nothing to
     * break: pip turns to ~/.local. */
    {TEXT, "/etc/pip.conf", "[global]\nretries = 0\nbreak-system-packages = true\ndisable-pip-version-check = true\n"},
    /* A workspace may belong to another id than its user (a throw-away one to the cell's root), and in a cell there is
     * no other user to be safe from. */
    {TEXT, "/etc/gitconfig", "[safe]\n\tdirectory = *\n[user]\n\tname = user\n\temail = user@localhost\n"
                             "[init]\n\tdefaultBranch = main\n"},
};
/* clang-format on */

static const char *staged(const char *path, char *buf, size_t size)
{
    snprintf(buf, size, STAGE "%s", path);
    return buf;
}

static int put_file(const char *path, const void *data, size_t len)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    return kr_fd_write_all(fd, data, len);
}

static int make_dirs(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return mkdir(part, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Private too: a tree that was cloned from a shared mount would otherwise go on receiving what the host mounts in
 * it. */
static int make_read_only(const char *path)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                              .propagation = MS_PRIVATE};
    return syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int bind_read_only(struct kr_view *v, const char *from, const char *to)
{
    struct stat st;
    int r;
    if (stat(from, &st) < 0 || !S_ISDIR(st.st_mode))
        return 0;
    r = make_dirs(to);
    if (r < 0)
        return r;
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) < 0)
        return -errno;
    r = kr_view_add(v, from);
    return r < 0 ? r : make_read_only(to);
}

static int like_host(struct kr_view *v, const char *from, const char *to)
{
    char target[256];
    ssize_t n = readlink(from, target, sizeof target - 1);
    if (n < 0)
        return bind_read_only(v, from, to);
    target[n] = '\0';
    return symlink(target, to) < 0 ? -errno : 0;
}

/* A device node cannot be made in a user namespace, but the host's can be mounted over a file. Read-only: the device is
 * written to all the same, while its mode and times are the host's, and a session with the host's own id (krait as root
 * of a container) could change them. */
static int bind_device(const char *from, const char *to)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC,
                              .propagation = MS_PRIVATE};
    int r = put_file(to, "", 0);
    if (r < 0)
        return r;
    if (mount(from, to, NULL, MS_BIND, NULL) < 0)
        return -errno;
    return syscall(SYS_mount_setattr, AT_FDCWD, to, 0, &attr, sizeof attr) < 0 ? -errno : 0;
}

static int apply(struct kr_view *v, const struct row *row)
{
    char to[512];
    staged(row->path, to, sizeof to);
    if (v->own_devices && strncmp(row->path, "/dev/", 5) == 0)
        return 0;
    switch (row->kind) {
    case DIRECTORY:
        return mkdir(to, 0755) < 0 ? -errno : 0;
    case LINK:
        return symlink(row->what, to) < 0 ? -errno : 0;
    case TEXT:
        return put_file(to, row->what, strlen(row->what));
    case COPY:
        return kr_copy_file(AT_FDCWD, row->path, AT_FDCWD, to);
    case COPY_TREE:
        return kr_copy_tree(row->path, to);
    case BIND:
        return bind_read_only(v, row->path, to);
    case DEVICE:
        return row->what && access(row->path, F_OK) < 0 ? 0 : bind_device(row->path, to);
    case LIKE_HOST:
        return like_host(v, row->path, to);
    }
    return -EINVAL;
}

/* Debian's interpreters read /etc/pythonX.Y/sitecustomize.py through a link in /usr/lib. */
static int copy_python_etc(void)
{
    DIR *dir = opendir("/etc");
    int r = 0;
    if (!dir)
        return -errno;
    for (struct dirent *e; r >= 0 && (e = readdir(dir));) {
        char from[300], to[320];
        if (strncmp(e->d_name, "python3", 7) != 0)
            continue;
        snprintf(from, sizeof from, "/etc/%s", e->d_name);
        r = kr_copy_tree(from, staged(from, to, sizeof to));
    }
    closedir(dir);
    return r;
}

static int put_kernel(void)
{
    for (size_t i = 0; i < kr_embed_files_count; i++) {
        char to[512];
        int r;
        snprintf(to, sizeof to, STAGE "/krait/%s", kr_embed_files[i].name);
        r = put_file(to, kr_embed_files[i].data, kr_embed_files[i].len);
        if (r < 0)
            return r;
    }
    return 0;
}

static int attach_prefix(struct kr_view *v, const char *prefix, int tree)
{
    char to[512];
    int r;
    staged(prefix, to, sizeof to);
    r = make_dirs(to);
    if (r < 0)
        return r;
    if (tree < 0)
        return bind_read_only(v, prefix, to);
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    r = kr_view_add(v, prefix);
    return r < 0 ? r : make_read_only(to);
}

/* The nodes of all cells where views are made, and the family's own at /dev. */
static int attach_devices(int devices)
{
    const char *own = STAGE KR_VIEW_DIR "/dev/" KR_DEVICES_FAMILY;
    if (syscall(SYS_move_mount, devices, "", AT_FDCWD, STAGE KR_VIEW_DIR "/dev", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
        mount(own, STAGE "/dev", NULL, MS_BIND, NULL) < 0)
        return -errno;
    return 0;
}

/* Where views are made. A cell's own is at KR_VIEW_PACKAGES_AT; the family sees an empty folder there. */
static int attach_packages(struct kr_view *v, int packages)
{
    v->packages = KR_VIEW_PACKAGES_LAYER; /* if it can be one: kr_view_prepare() */
    if (mkdir(STAGE KR_VIEW_PACKAGES_AT, 0755) < 0 ||
        syscall(SYS_move_mount, packages, "", AT_FDCWD, STAGE KR_VIEW_DIR "/" KR_VIEW_PACKAGES,
                MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

/* Places for data sets: a cell's init mounts there what its sandbox may have. */
static int make_data_places(const char *const *names)
{
    for (; *names; names++) {
        char to[128];
        snprintf(to, sizeof to, STAGE "/data/%.40s", *names);
        if (mkdir(to, 0755) < 0)
            return -errno;
    }
    return 0;
}

static int pivot(void)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    if (chdir(STAGE) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return -errno;
    /* Not recursive: /tmp above it must stay writable for the zygote's imports. */
    return syscall(SYS_mount_setattr, AT_FDCWD, "/", 0, &ro, sizeof ro) < 0 ? -errno : 0;
}

static int build_rows(const struct kr_tree_args *a, struct kr_view *v, struct kr_err *err)
{
    int r;
    if ((r = kr_view_make_dir(STAGE)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: " KR_VIEW_DIR);
    v->own_devices = a->devices >= 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if ((r = apply(v, &rows[i])) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: %s", rows[i].path);
    if (v->own_devices && (r = attach_devices(a->devices)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: /dev");
    v->cpus = a->gauges >= 0 ? a->cpus : 0;
    if (v->cpus > 0 && (r = kr_gauges_attach(STAGE, a->gauges, a->cpus)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: the gauges of cells");
    if ((r = copy_python_etc()) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: /etc/python3*");
    if ((r = put_kernel()) < 0 || (r = kr_programs_put(STAGE "/krait", a->python)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: /krait");
    if (a->prefix && (r = attach_prefix(v, a->prefix, a->prefix_tree)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: %s", a->prefix);
    if (a->packages >= 0 && (r = attach_packages(v, a->packages)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: " KR_VIEW_PACKAGES_AT);
    if ((r = make_data_places(a->data_places)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "root tree: /data");
    return 0;
}

int kr_tree_build(const struct kr_tree_args *a, struct kr_view *ret_view, uint32_t *ret_layers, struct kr_err *err)
{
    int r;
    umask(022);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make mounts private");
    if (mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64m") < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount the root tmpfs");
    if ((r = build_rows(a, ret_view, err)) < 0)
        return r;
    /* Whole, not subset=pid: the kernel lets a nested user namespace mount its own /proc only where it sees a whole
     * one. */
    if (mount("proc", STAGE "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
        *ret_layers |= KR_LAYER_PROC;
    else if (errno != EPERM)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount /proc");
    if (mount("tmpfs", STAGE "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=64m") < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount /tmp");
    if ((r = pivot()) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "pivot into the root tree");
    return kr_view_prepare(ret_view, err);
}
