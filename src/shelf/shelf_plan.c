/* Which filesystem the shelf will be on. Called at start, before anything is changed, and by doctor. The order: an
 * image that exists; quotas that are already on where the data directory lies; an image to be made; a plain folder. */
#include "fd.h"
#include "shelf_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

/* What its filesystem enforces already, as the administrator set it up. */
static enum kr_shelf_kind own_quota(int dir)
{
    char groups[80];
    struct statfs fs;
    if (geteuid() != 0 || fstatfs(dir, &fs) < 0)
        return KR_SHELF_IS_FOLDER;
    if (fs.f_type == BTRFS_SUPER_MAGIC && kr_shelf_btrfs_find(dir, groups, sizeof groups) == 0)
        return KR_SHELF_IS_BTRFS;
    return kr_shelf_project_on(dir) ? KR_SHELF_IS_PROJECT : KR_SHELF_IS_FOLDER;
}

int kr_shelf_is_empty(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), empty = 1;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        kr_fd_close(fd);
        return 0;
    }
    for (struct dirent *e; (e = readdir(d));)
        empty &= strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(d);
    return empty;
}

/* Why no image can be made here; NULL if it seems it can. */
static const char *no_image(void)
{
    if (geteuid() != 0)
        return "krait is not root, so it cannot mount an image";
    if (access("/dev/loop-control", R_OK | W_OK) < 0)
        return "there are no loop devices (/dev/loop-control)";
    if (!kr_shelf_has_mkfs(KR_SHELF_IS_BTRFS) && !kr_shelf_has_mkfs(KR_SHELF_IS_PROJECT))
        return "mkfs.btrfs is not installed (package btrfs-progs)";
    return NULL;
}

static int plan_new(const struct kr_shelf_config *c, int dir, struct kr_shelf_plan *ret, struct kr_err *err)
{
    const char *why;
    if (c->choice != KR_SHELF_IMAGE && (ret->kind = own_quota(dir)) != KR_SHELF_IS_FOLDER)
        return 0;
    why = no_image();
    if (!kr_shelf_is_empty(dir))
        why = "the sandboxes there were made in a plain folder (`krait shelf move` moves them to an image)";
    if (why && c->choice == KR_SHELF_IMAGE)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "shelf = image: %s", why);
    if (why) {
        snprintf(ret->why, sizeof ret->why, "%s", why);
        return 0;
    }
    ret->kind = KR_SHELF_IS_BTRFS;
    ret->image = 1;
    return 0;
}

int kr_shelf_plan(const struct kr_shelf_config *c, struct kr_shelf_plan *ret, struct kr_err *err)
{
    char image[4096];
    cleanup_fd int dir = -1;
    int r = kr_shelf_image_path(c, image, sizeof image, err);
    *ret = (struct kr_shelf_plan){.kind = KR_SHELF_IS_FOLDER};
    if (r < 0)
        return r;
    ret->exists = faccessat(AT_FDCWD, image, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (ret->exists && c->choice == KR_SHELF_FOLDER)
        return kr_err_set(err, KR_ERR_INVALID, EEXIST,
                          "shelf = folder, but the sandboxes are in %s: move them with `krait shelf move`", image);
    if (ret->exists) {
        ret->kind = KR_SHELF_IS_BTRFS;
        ret->image = 1;
        return geteuid() == 0 ? 0 : kr_err_set(err, KR_ERR_DENIED, EPERM, "mounting %s needs root", image);
    }
    if (c->choice == KR_SHELF_FOLDER) {
        snprintf(ret->why, sizeof ret->why, "shelf = folder");
        return 0;
    }
    dir = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", c->path);
    return plan_new(c, dir, ret, err);
}

int kr_shelf_settle_for_folder(const struct kr_shelf_config *c, struct kr_shelf_plan *plan, int r,
                               const struct kr_err *err)
{
    if (c->choice != KR_SHELF_AUTO || plan->exists)
        return r;
    *plan = (struct kr_shelf_plan){.kind = KR_SHELF_IS_FOLDER};
    snprintf(plan->why, sizeof plan->why, "%.190s", err->msg);
    return 0;
}

/* Before: the host's mounts, as everyone sees them. After: a copy of our own, which receives what the host mounts later
 * and gives nothing back. If it fails nothing has changed. */
int kr_shelf_namespace(struct kr_err *err)
{
    if (unshare(CLONE_NEWNS) < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "a mount namespace for the shelf");
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "keep our mounts from the host");
    return 0;
}
