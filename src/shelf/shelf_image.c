/* The image: one sparse file beside the shelf's folder, with a filesystem of ours in it, mounted over the folder.
 *
 * A new image has no name until it is whole: made as an unnamed file (O_TMPFILE), formatted, attached, mounted, its
 * quotas on; only then is it linked. So a kill at any moment leaves a whole image or none, and an existing file is
 * never written over. One process of several that share the data directory does this at a time (a lock on the data
 * directory); the others find the file and its loop device.
 *
 * The image is root's, in a folder that is the server's. The server can remove it but cannot put another in its place:
 * a file that is not root's alone is not mounted. */
#include "clock.h"
#include "fd.h"
#include "shelf_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LOCK_MS 30000
#define LOCK_STEP_US 10000
#define SIZE_DEFAULT (UINT64_C(64) << 30)
#define SIZE_WHOLE (UINT64_C(16) << 30) /* of an image that takes all its room at once */
#define SIZE_STEP (UINT64_C(1) << 20)
#define RESIZE_EXT4 _IOW('f', 16, uint64_t) /* EXT4_IOC_RESIZE_FS, which no header of Debian 12 has */

struct image {
    int data; /* its folder, locked */
    char name[256];
    int file;
    int fresh; /* made now, without a name yet */
};

int kr_shelf_image_path(const struct kr_shelf_config *c, char *ret, size_t size, struct kr_err *err)
{
    if ((size_t)snprintf(ret, size, "%s" KR_SHELF_IMAGE_SUFFIX, c->path) >= size || !strchr(ret, '/'))
        return kr_err_set(err, KR_ERR_INVALID, ENAMETOOLONG, "path of the shelf: %s", c->path);
    return 0;
}

static int lock_folder(int data, struct kr_err *err)
{
    for (uint64_t deadline = kr_clock_after_ms(LOCK_MS); flock(data, LOCK_EX | LOCK_NB) < 0; usleep(LOCK_STEP_US))
        if (errno != EWOULDBLOCK || kr_clock_ns() > deadline)
            return kr_err_set(err, KR_ERR_BUSY, errno, "lock the data directory to mount the image of its sandboxes");
    return 0;
}

/* Its folder and its name in there. */
static int open_folder(const struct kr_shelf_config *c, struct image *i, struct kr_err *err)
{
    char path[4096], *slash;
    int r = kr_shelf_image_path(c, path, sizeof path, err);
    if (r < 0)
        return r;
    slash = strrchr(path, '/');
    *slash = '\0';
    if ((size_t)snprintf(i->name, sizeof i->name, "%s", slash + 1) >= sizeof i->name)
        return kr_err_set(err, KR_ERR_INVALID, ENAMETOOLONG, "name of the image");
    i->data = open(slash == path ? "/" : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (i->data < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the data directory");
    return lock_folder(i->data, err);
}

/* 0 without a file: there is none. */
static int open_image(struct image *i, struct kr_err *err)
{
    struct stat st;
    i->file = openat(i->data, i->name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (i->file < 0 && errno == ENOENT)
        return 0;
    if (i->file < 0 || fstat(i->file, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the image %s", i->name);
    /* What the server could have put there, the kernel must not parse. */
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) != 0 || st.st_nlink != 1)
        return kr_err_set(err, KR_ERR_DENIED, EPERM,
                          "image %s must be a file of uid %u with mode 0600 and one name: it is not mounted", i->name,
                          geteuid());
    return 0;
}

static int read_kind(int file, enum kr_shelf_kind *ret, struct kr_err *err)
{
    char btrfs[8] = "", ext4[2] = "";
    if (kr_fd_read_at(file, btrfs, sizeof btrfs, 0x10040) == (ssize_t)sizeof btrfs &&
        memcmp(btrfs, "_BHRfS_M", sizeof btrfs) == 0)
        *ret = KR_SHELF_IS_BTRFS;
    else if (kr_fd_read_at(file, ext4, sizeof ext4, 0x438) == (ssize_t)sizeof ext4 && memcmp(ext4, "\x53\xef", 2) == 0)
        *ret = KR_SHELF_IS_PROJECT;
    else
        return kr_err_set(err, KR_ERR_DENIED, EINVAL, "the image has no filesystem that krait makes: it is left alone");
    return 0;
}

/* A btrfs image is sparse, and kr_shelf_tend() keeps its content within what the host has. ext4 has no limit for all
 * projects together, so its image takes its room at once. */
static int size_file(const struct kr_shelf_config *c, const struct image *i, enum kr_shelf_kind kind,
                     struct kr_err *err)
{
    uint64_t free_bytes, size = c->size;
    struct statfs fs;
    if (fstatfs(i->data, &fs) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "measure the data directory");
    free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (size == 0 && kind == KR_SHELF_IS_BTRFS)
        size = free_bytes / 5 * 4 < SIZE_DEFAULT ? free_bytes / 5 * 4 : SIZE_DEFAULT;
    else if (size == 0)
        size = free_bytes / 2 < SIZE_WHOLE ? free_bytes / 2 : SIZE_WHOLE;
    size -= size % SIZE_STEP;
    if (size < KR_SHELF_SIZE_MIN || size > KR_SHELF_SIZE_MAX)
        return kr_err_set(err, KR_ERR_NO_SPACE, ENOSPC,
                          "an image of %llu MiB: it must have 256 MiB at least, and the data directory %llu MiB free",
                          (unsigned long long)(size >> 20), (unsigned long long)(KR_SHELF_SIZE_MIN / 4 * 5 >> 20));
    if (ftruncate(i->file, (off_t)size) < 0 || (kind != KR_SHELF_IS_BTRFS && fallocate(i->file, 0, 0, (off_t)size) < 0))
        return kr_err_set(err, errno == ENOSPC ? KR_ERR_NO_SPACE : KR_ERR_SYSTEM, errno, "size the image");
    return 0;
}

static int make_image(const struct kr_shelf_config *c, struct image *i, enum kr_shelf_kind kind, struct kr_err *err)
{
    int r;
    i->fresh = 1;
    i->file = openat(i->data, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (i->file < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "make an unnamed file in the data directory");
    r = size_file(c, i, kind, err);
    return r < 0 ? r : kr_shelf_mkfs(kind, i->file, err);
}

static int link_image(const struct image *i, struct kr_err *err)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", i->file);
    if (fsync(i->file) < 0 || linkat(AT_FDCWD, path, i->data, i->name, AT_SYMLINK_FOLLOW) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "name the image %s", i->name);
    if (fsync(i->data) < 0) {
        int code = errno;
        (void)unlinkat(i->data, i->name, 0);
        return kr_err_set(err, KR_ERR_SYSTEM, code, "name the image %s", i->name);
    }
    return 0;
}

static int set_option(int fs, const char *key, const char *value)
{
    return fsconfig(fs, value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0);
}

/* A mount that is not attached anywhere. The kernel's own words are in the error. */
static int mount_detached(const struct kr_shelf *s, const char *device, struct kr_err *err)
{
    int btrfs = s->kind == KR_SHELF_IS_BTRFS, mount = -1, code;
    cleanup_fd int fs = fsopen(btrfs ? "btrfs" : "ext4", FSOPEN_CLOEXEC);
    char said[120] = "";
    if (fs < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "the kernel has no %s", btrfs ? "btrfs" : "ext4");
    if (set_option(fs, "source", device) == 0 &&
        (btrfs ? (s->config.discard ? set_option(fs, "discard", "async") : set_option(fs, "nodiscard", NULL))
               : set_option(fs, "prjquota", NULL)) == 0 &&
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        /* No file in it is a device, and none gives its user another id. Times of access are not written: on btrfs
         * each would copy a block. */
        mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    code = errno;
    if (mount < 0) {
        ssize_t n = read(fs, said, sizeof said - 1);
        said[n > 0 ? strcspn(said, "\n") : 0] = '\0';
        return kr_err_set(err, KR_ERR_UNAVAILABLE, code, "mount the image of the sandboxes: %s", said);
    }
    return mount;
}

/* The new filesystem's top is what the folder beneath it is: whose, and who may enter. */
static int dress(struct kr_shelf *s, int point, struct kr_err *err)
{
    struct stat st;
    int r = s->kind == KR_SHELF_IS_BTRFS ? kr_shelf_btrfs_enable(s->dir, err) : 0;
    if (r < 0)
        return r;
    if (s->kind == KR_SHELF_IS_PROJECT && unlinkat(s->dir, "lost+found", AT_REMOVEDIR) < 0 && errno != ENOENT)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "clear the image");
    if (fstat(point, &st) < 0 || fchmod(s->dir, st.st_mode & 07777) < 0 || fchown(s->dir, st.st_uid, st.st_gid) < 0 ||
        syncfs(s->dir) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "set the owner of the image's folder");
    return 0;
}

static int check_quota(struct kr_shelf *s, struct kr_err *err)
{
    if (s->kind == KR_SHELF_IS_BTRFS && kr_shelf_btrfs_find(s->dir, s->groups, sizeof s->groups) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP,
                          "the kernel does not show the quota groups of the image");
    if (s->kind == KR_SHELF_IS_PROJECT && !kr_shelf_project_on(s->dir))
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "project quotas of the image are not enforced");
    return 0;
}

/* From a file with a filesystem in it to a mount over `point`. */
static int bring_up(struct kr_shelf *s, struct image *i, int point, struct kr_err *err)
{
    char device[KR_LOOP_ROOM];
    cleanup_fd int mount = -1;
    int r;
    if ((s->loop = kr_shelf_loop(i->file, device, err)) < 0)
        return s->loop;
    if ((mount = mount_detached(s, device, err)) < 0)
        return mount;
    s->dir = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the image's folder");
    if (i->fresh && (r = dress(s, point, err)) < 0)
        return r;
    if ((r = check_quota(s, err)) < 0 || (i->fresh && (r = link_image(i, err)) < 0))
        return r;
    if (move_mount(mount, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0)
        return 0;
    r = kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "mount the image over %s", s->config.path);
    if (i->fresh)
        (void)unlinkat(i->data, i->name, 0);
    return r;
}

static void undo(struct kr_shelf *s, struct image *i)
{
    s->dir = kr_fd_close(s->dir);
    s->loop = kr_fd_close(s->loop);
    i->file = kr_fd_close(i->file);
}

/* An image hides the folder that it is mounted over. So it is named only by a process that has the folder for itself:
 * one that keeps sandboxes in there shares its lock, and looks for an image when it has it. The lock is held until the
 * returned descriptor is closed. A filesystem without locks is treated as if no other process were there. */
static int claim_point(int point, struct kr_err *err)
{
    cleanup_fd int dir = openat(point, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the folder of the image");
    if (flock(dir, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        return kr_err_set(err, KR_ERR_BUSY, EBUSY, "another krait keeps its sandboxes in the plain folder");
    if (!kr_shelf_is_empty(dir))
        return kr_err_set(err, KR_ERR_CONFLICT, ENOTEMPTY, "the folder that the image is to hide is not empty");
    return steal_fd(&dir);
}

/* A kernel without btrfs, or without its simple quotas, may have ext4 with project quotas. */
static int make_any(struct kr_shelf *s, struct image *i, int point, struct kr_err *err)
{
    static const enum kr_shelf_kind kinds[] = {KR_SHELF_IS_BTRFS, KR_SHELF_IS_PROJECT};
    struct kr_err first = {0}, last;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        s->kind = kinds[k];
        if (make_image(&s->config, i, s->kind, err) >= 0 && bring_up(s, i, point, err) >= 0)
            return 0;
        undo(s, i);
        if (k == 0)
            first = *err;
    }
    last = *err;
    return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "btrfs: %.95s; ext4: %.95s", first.msg, last.msg);
}

int kr_shelf_image_up(struct kr_shelf *s, const struct kr_shelf_plan *plan, int point, struct kr_err *err)
{
    struct image i = {.data = -1, .file = -1};
    cleanup_fd int claim = -1;
    int r = open_folder(&s->config, &i, err);
    s->image = 1;
    if (r >= 0)
        r = open_image(&i, err);
    if (r >= 0 && i.file < 0 && plan->exists)
        r = kr_err_set(err, KR_ERR_NOT_FOUND, ENOENT, "the image %s is gone", i.name);
    if (r >= 0 && i.file < 0) {
        claim = claim_point(point, err);
        r = claim < 0 ? claim : make_any(s, &i, point, err);
    } else if (r >= 0) {
        r = read_kind(i.file, &s->kind, err);
        if (r >= 0)
            r = bring_up(s, &i, point, err);
    }
    if (r < 0)
        undo(s, &i);
    s->file = i.file;
    kr_fd_close(i.data); /* and with it the lock */
    return r < 0 ? r : 0;
}

static int grow_filesystem(const struct kr_shelf *s, uint64_t bytes)
{
    struct btrfs_ioctl_vol_args max = {.name = "max"};
    struct statfs fs;
    uint64_t blocks;
    if (s->kind == KR_SHELF_IS_BTRFS)
        return ioctl(s->dir, BTRFS_IOC_RESIZE, &max) < 0 ? -errno : 0;
    if (fstatfs(s->dir, &fs) < 0)
        return -errno;
    blocks = bytes / (uint64_t)fs.f_bsize;
    return ioctl(s->dir, RESIZE_EXT4, &blocks) < 0 ? -errno : 0;
}

/* File, device, filesystem, in this order: each finds the room that it is to take. */
int kr_shelf_image_grow(struct kr_shelf *s, uint64_t bytes, struct kr_err *err)
{
    struct stat st;
    int r;
    bytes -= bytes % SIZE_STEP;
    if (fstat(s->file, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat the image");
    if (bytes < (uint64_t)st.st_size || bytes > KR_SHELF_SIZE_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "an image has %llu MiB and grows to 16 TiB at most: %llu MiB",
                          (unsigned long long)st.st_size >> 20, (unsigned long long)bytes >> 20);
    if (s->kind != KR_SHELF_IS_BTRFS && fallocate(s->file, 0, 0, (off_t)bytes) < 0) {
        r = -errno;
        if (ftruncate(s->file, st.st_size) < 0)
            r = -errno;
        return kr_err_set(err, r == -ENOSPC ? KR_ERR_NO_SPACE : KR_ERR_SYSTEM, -r, "grow the image");
    }
    if (ftruncate(s->file, (off_t)bytes) < 0 || ioctl(s->loop, LOOP_SET_CAPACITY) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "grow the image");
    r = grow_filesystem(s, bytes);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "grow the filesystem of the image") : 0;
}
