/* Folders as btrfs subvolumes, each with a quota group that limits its bytes. Called by shelf.c and shelf_image.c.
 * Invariant: on a filesystem that krait did not make, nothing but subvolumes in the shelf's folder and the limits of
 * their own groups is changed.
 *
 * Simple quotas (Linux 6.7) charge an extent to the subvolume that wrote it. A limit counts data and metadata; a write
 * past it fails with EDQUOT when it is made, not when it reaches the disk. */
#include "fd.h"
#include "shelf_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/btrfs.h>
#include <linux/btrfs_tree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENABLE_SIMPLE 4 /* BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA, which Debian 12's header does not have */
/* What an operation reserves for metadata before it knows how much it needs: a folder could not even be made within the
 * smallest limit. Added to every limit. */
#define SLACK (UINT64_C(256) << 10)
#define NO_LIMIT UINT64_MAX

int kr_shelf_btrfs_find(int dir, char *ret, size_t size)
{
    struct btrfs_ioctl_fs_info_args info;
    char path[96], on[8] = "";
    const unsigned char *u = info.fsid;
    memset(&info, 0, sizeof info);
    if (ioctl(dir, BTRFS_IOC_FS_INFO, &info) < 0)
        return -errno;
    snprintf(ret, size, "/sys/fs/btrfs/%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x/qgroups",
             u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    snprintf(path, sizeof path, "%s/enabled", ret);
    if (kr_fd_read_file_at(AT_FDCWD, path, on, sizeof on) < 0 || on[0] != '1')
        return -EOPNOTSUPP;
    return 0;
}

int kr_shelf_btrfs_enable(int dir, struct kr_err *err)
{
    struct btrfs_ioctl_quota_ctl_args ctl = {.cmd = ENABLE_SIMPLE};
    struct btrfs_ioctl_qgroup_create_args all = {.create = 1, .qgroupid = KR_SHELF_ALL};
    if (ioctl(dir, BTRFS_IOC_QUOTA_CTL, &ctl) < 0 && errno != EEXIST && errno != EBUSY)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "enable simple quotas of btrfs (Linux 6.7 has them)");
    if (ioctl(dir, BTRFS_IOC_QGROUP_CREATE, &all) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make the quota group of the shelf");
    return 0;
}

static void set_limit(struct btrfs_qgroup_limit *limit, uint64_t max)
{
    *limit = (struct btrfs_qgroup_limit){.flags = BTRFS_QGROUP_LIMIT_MAX_RFER, .max_rfer = max};
}

int kr_shelf_btrfs_set(const struct kr_shelf *s, uint64_t group, uint64_t max)
{
    struct btrfs_ioctl_qgroup_limit_args args = {.qgroupid = group};
    set_limit(&args.lim, max);
    return ioctl(s->dir, BTRFS_IOC_QGROUP_LIMIT, &args) < 0 ? -errno : 0;
}

int kr_shelf_btrfs_limit(const struct kr_shelf *s, uint64_t id, uint64_t bytes)
{
    return kr_shelf_btrfs_set(s, id, bytes == 0 ? NO_LIMIT : bytes + SLACK);
}

/* The subvolume has its limit from its first moment on. from -1: it is empty; else it is a snapshot of that one, whose
 * data stay charged to the subvolume that wrote them. */
static int make_subvolume(const struct kr_shelf *s, int from, const char *name, uint64_t bytes, struct kr_err *err)
{
    size_t size = sizeof(struct btrfs_qgroup_inherit) + (s->image ? sizeof(uint64_t) : 0);
    cleanup_free struct btrfs_qgroup_inherit *inherit = calloc(1, size);
    struct btrfs_ioctl_vol_args_v2 args;
    if (!inherit)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "make a subvolume");
    inherit->flags = BTRFS_QGROUP_INHERIT_SET_LIMITS;
    set_limit(&inherit->lim, bytes == 0 ? NO_LIMIT : bytes + SLACK);
    if (s->image) {
        inherit->num_qgroups = 1;
        inherit->qgroups[0] = KR_SHELF_ALL;
    }
    memset(&args, 0, sizeof args);
    args.fd = from;
    args.flags = BTRFS_SUBVOL_QGROUP_INHERIT;
    args.size = size;
    args.qgroup_inherit = inherit;
    snprintf(args.name, sizeof args.name, "%s", name);
    if (ioctl(s->dir, from < 0 ? BTRFS_IOC_SUBVOL_CREATE_V2 : BTRFS_IOC_SNAP_CREATE_V2, &args) < 0)
        return kr_err_set(err,
                          errno == ENOSPC   ? KR_ERR_NO_SPACE
                          : errno == EEXIST ? KR_ERR_CONFLICT
                                            : KR_ERR_SYSTEM,
                          errno, "make the subvolume of sandbox folder %s", name);
    return 0;
}

int kr_shelf_btrfs_make(const struct kr_shelf *s, const char *name, uint64_t bytes, struct kr_err *err)
{
    return make_subvolume(s, -1, name, bytes, err);
}

int kr_shelf_btrfs_copy(const struct kr_shelf *s, int from, const char *name, uint64_t bytes, struct kr_err *err)
{
    return make_subvolume(s, from, name, bytes, err);
}

int kr_shelf_btrfs_id(int folder, uint64_t *ret_id)
{
    struct btrfs_ioctl_ino_lookup_args args;
    struct stat st;
    if (fstat(folder, &st) < 0)
        return -errno;
    *ret_id = 0;
    if (st.st_ino != BTRFS_FIRST_FREE_OBJECTID) /* the root of a subvolume has this number, and nothing else */
        return 0;
    memset(&args, 0, sizeof args);
    args.objectid = BTRFS_FIRST_FREE_OBJECTID;
    if (ioctl(folder, BTRFS_IOC_INO_LOOKUP, &args) < 0)
        return -errno;
    *ret_id = args.treeid;
    return 0;
}

int kr_shelf_snapshot(const struct kr_shelf *s, const char *name, const char *as, struct kr_err *err)
{
    cleanup_fd int folder = openat(s->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct btrfs_ioctl_vol_args_v2 args;
    uint64_t id = 0;
    if (folder < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "open sandbox folder %s",
                          name);
    if (s->kind != KR_SHELF_IS_BTRFS || kr_shelf_btrfs_id(folder, &id) < 0 || id == 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "sandbox folder %s is not a subvolume", name);
    memset(&args, 0, sizeof args);
    args.fd = folder;
    args.flags = BTRFS_SUBVOL_RDONLY;
    snprintf(args.name, sizeof args.name, "%s", as);
    return ioctl(s->dir, BTRFS_IOC_SNAP_CREATE_V2, &args) < 0
               ? kr_err_set(err, KR_ERR_SYSTEM, errno, "take a snapshot of sandbox folder %s", name)
               : 0;
}

/* The kernel frees what was in it later, in the background. */
int kr_shelf_btrfs_drop(const struct kr_shelf *s, const char *name, struct kr_err *err)
{
    struct btrfs_ioctl_vol_args_v2 args;
    memset(&args, 0, sizeof args);
    snprintf(args.name, sizeof args.name, "%s", name);
    if (ioctl(s->dir, BTRFS_IOC_SNAP_DESTROY_V2, &args) < 0)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "drop sandbox folder %s",
                          name);
    return 0;
}

/* BTRFS_IOC_SYNC commits, and then wakes the kernel thread that frees dropped subvolumes; else it looks every 30 s. */
int kr_shelf_btrfs_clean(const struct kr_shelf *s)
{
    return ioctl(s->dir, BTRFS_IOC_SYNC) < 0 ? -errno : 0;
}

static int read_number(const char *group, const char *file, uint64_t *ret)
{
    char path[160], text[32];
    ssize_t n;
    snprintf(path, sizeof path, "%s/%s", group, file);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return (int)n;
    *ret = strtoull(text, NULL, 10);
    return 0;
}

int kr_shelf_btrfs_group(const struct kr_shelf *s, uint64_t group, struct kr_shelf_group *ret)
{
    char path[120];
    uint64_t data = 0, transaction = 0, prealloc = 0;
    int r;
    snprintf(path, sizeof path, "%s/%u_%llu", s->groups, (unsigned)(group >> 48),
             (unsigned long long)(group & ((UINT64_C(1) << 48) - 1)));
    if ((r = read_number(path, "referenced", &ret->referenced)) < 0 || (r = read_number(path, "rsv_data", &data)) < 0 ||
        (r = read_number(path, "rsv_meta_pertrans", &transaction)) < 0 ||
        (r = read_number(path, "rsv_meta_prealloc", &prealloc)) < 0 ||
        (r = read_number(path, "max_referenced", &ret->max)) < 0)
        return r;
    ret->reserved = data + transaction + prealloc;
    if (ret->max == NO_LIMIT)
        ret->max = 0;
    return 0;
}

int kr_shelf_btrfs_usage(const struct kr_shelf *s, uint64_t id, struct kr_w_shelved *ret)
{
    struct kr_shelf_group group;
    int r = kr_shelf_btrfs_group(s, id, &group);
    if (r < 0)
        return r;
    ret->bytes = group.referenced + group.reserved;
    ret->max_bytes = group.max;
    return 0;
}
