/* The overlays of a cell: prepared by the builder, mounted by each cell's init.
 *
 * Invariants: an overlay has no upper layer, so nothing is ever written; its options name paths of the family's root
 * and none of the host's; what the builder found possible is required of each cell. An overlay does not show what is
 * mounted beneath its lower folder, and the kernel refuses a lower folder with such mounts, if they came from another
 * user namespace (EINVAL). A tree with mounts in it therefore stays a plain bind mount. */
#include "view.h"
#include "fd.h"
#include "gauges.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_ONLY (MS_RDONLY | MS_NOSUID | MS_NODEV)
/* Folders of KR_VIEW_DIR. An overlay without an upper layer needs two lower ones: the first is a mask. */
#define MASK_ROOT "mask-root" /* hides KR_VIEW_DIR */
#define MASK_USR "mask-usr"
#define MASK_NONE "mask-none"
#define MASK_PACKAGES "mask-packages" /* the top of the store: names in it can be followed and not listed */
#define ROOT "root"                   /* the family's root once more, without what is mounted in it */
#define STAGE "cell"
#define DEVICES "dev"
#define SOURCE "source" /* data sets, one upon the other */
static const char *const folders[] = {MASK_ROOT, MASK_USR,      MASK_NONE,     MASK_PACKAGES,   ROOT, STAGE, DEVICES,
                                      SOURCE,    KR_VIEW_FILES, KR_GAUGES_DIR, KR_VIEW_PACKAGES};

/* What of /usr no session has a use for, or may hold secrets. */
/* clang-format off */
static const char *const hidden[] = {
    "local/etc",                      /* configuration of local programs, often with passwords */
    "local/sbin",                     /* the administrator's own scripts */
    "local/src", "src",               /* sources of the host's programs and kernel */
    "lib/credstore", "lib/credstore.encrypted",             /* systemd's credentials (systemd.exec(5)) */
    "local/lib/credstore", "local/lib/credstore.encrypted",
    "lib/modules",                    /* names the host's kernels and drivers */
};
/* clang-format on */

int kr_view_add(struct kr_view *v, const char *at)
{
    struct kr_view_tree *t;
    if (v->count == KR_VIEW_TREES_MAX)
        return -E2BIG;
    if (strlen(at) >= sizeof t->at)
        return -ENAMETOOLONG;
    t = &v->trees[v->count++];
    snprintf(t->at, sizeof t->at, "%s", at);
    t->plain = strpbrk(at, ",:\\") != NULL; /* these separate an overlay's options */
    return 0;
}

int kr_view_make_dir(const char *root)
{
    char path[64];
    snprintf(path, sizeof path, "%s" KR_VIEW_DIR, root);
    if (mkdir(path, 0755) < 0 || mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m") < 0)
        return -errno;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s" KR_VIEW_DIR "/%s", root, folders[i]);
        if (mkdir(path, 0755) < 0)
            return -errno;
    }
    return 0;
}

static const char *mask_of(const char *at)
{
    return strcmp(at, "/usr") == 0 ? MASK_USR : MASK_NONE;
}

/* `lower` as seen from KR_VIEW_DIR, where the masks are. */
static int mount_overlay(const char *mask, const char *lower, const char *at)
{
    char options[300];
    snprintf(options, sizeof options, "lowerdir=%s:%s", mask, lower);
    return mount("overlay", at, "overlay", READ_ONLY, options) < 0 ? -errno : 0;
}

/* ---- in the builder ---- */

/* A character device 0:0 is how a layer says that a name of the layers below is not there. Making one needs no
 * privilege (Linux 5.8). */
static int put_whiteout(const char *path)
{
    return mknod(path, S_IFCHR, makedev(0, 0)) < 0 ? -errno : 0;
}

/* The folders above a hidden place are in the mask, too, where the host has folders: a link of the host's stays one,
 * and leads to a name that is hidden or not by itself. */
static int mask_place(const char *place)
{
    char real[64], mask[64];
    struct stat st;
    for (const char *end = strchr(place, '/'); end; end = strchr(end + 1, '/')) {
        snprintf(real, sizeof real, "/usr/%.*s", (int)(end - place), place);
        snprintf(mask, sizeof mask, MASK_USR "/%.*s", (int)(end - place), place);
        if (lstat(real, &st) < 0 || !S_ISDIR(st.st_mode))
            return 0;
        if (mkdir(mask, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    snprintf(mask, sizeof mask, MASK_USR "/%s", place);
    return put_whiteout(mask);
}

/* The mode of a folder that is in several layers is that of the first. Nobody's to read, not even an owner's: where
 * cells share our id the store's owner is the session. */
static int make_masks(void)
{
    int r = chmod(MASK_PACKAGES, 0111) < 0 ? -errno : put_whiteout(MASK_ROOT KR_VIEW_DIR);
    for (size_t i = 0; r >= 0 && i < sizeof hidden / sizeof *hidden; i++)
        r = mask_place(hidden[i]);
    return r;
}

/* For a /usr that stays a bind mount. */
static int cover_hidden(void)
{
    struct stat st;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        char path[64];
        snprintf(path, sizeof path, "/usr/%s", hidden[i]);
        if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
            continue;
        if (mount(MASK_NONE, path, NULL, MS_BIND, NULL) < 0 ||
            mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | READ_ONLY, NULL) < 0)
            return -errno;
    }
    return 0;
}

/* 1 if the kernel has overlays, allows them in a user namespace, and takes these folders (not on a second level of
 * overlays, which krait in a container of a container would be). 0 if not. What says nothing about that is an error. */
static int try_overlay(const char *mask, const char *lower)
{
    int r = mount_overlay(mask, lower, STAGE);
    if (r == -EPERM || r == -EACCES || r == -EINVAL || r == -ENODEV)
        return 0;
    if (r < 0)
        return r;
    return umount2(STAGE, 0) < 0 ? -errno : 1;
}

static int try_tree(const struct kr_view *v, struct kr_view_tree *t)
{
    int r = t->plain || v->plain ? 0 : try_overlay(mask_of(t->at), t->at);
    t->plain = r == 0;
    return r == 0 && strcmp(t->at, "/usr") == 0 ? cover_hidden() : r;
}

/* Without overlays there are none: they would be the warden's own inodes, on which a cell could take locks. */
static int try_gauges(struct kr_view *v)
{
    int r = v->cpus == 0 || v->plain ? 0 : try_overlay(MASK_ROOT, ROOT ":" KR_GAUGES_DIR);
    if (r > 0)
        r = kr_gauges_try(STAGE);
    v->cpus = r > 0 ? v->cpus : 0;
    return r;
}

static int try_packages(struct kr_view *v)
{
    int r = v->packages == KR_VIEW_PACKAGES_NONE || v->plain ? 0 : try_overlay(MASK_PACKAGES, KR_VIEW_PACKAGES);
    if (r == 0 && v->packages != KR_VIEW_PACKAGES_NONE)
        v->packages = KR_VIEW_PACKAGES_PLAIN;
    return r;
}

static int prepare(struct kr_view *v)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    int r;
    if (chdir(KR_VIEW_DIR) < 0 || mount("/", ROOT, NULL, MS_BIND, NULL) < 0)
        return -errno;
    if ((r = make_masks()) < 0 || (r = try_overlay(MASK_ROOT, ROOT)) < 0)
        return r;
    v->plain = r == 0;
    for (unsigned i = 0; i < v->count; i++)
        if ((r = try_tree(v, &v->trees[i])) < 0)
            return r;
    if ((r = try_packages(v)) < 0 || (r = try_gauges(v)) < 0)
        return r;
    if (syscall(SYS_mount_setattr, AT_FDCWD, ".", 0, &ro, sizeof ro) < 0 || chdir("/") < 0)
        return -errno;
    return 0;
}

int kr_view_prepare(struct kr_view *v, struct kr_err *err)
{
    int r = prepare(v);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "prepare the views of cells") : 0;
}

/* ---- in a cell's init ---- */

/* The cell's device nodes. Read-only: what one cell does to their times, the next that gets the folder would see. */
static int attach_devices(const struct kr_view *v, unsigned index, const char *at)
{
    char from[32];
    snprintf(from, sizeof from, DEVICES "/%u", index);
    if (!v->own_devices) /* with the host's nodes, which are mounts in it */
        return v->plain ? 0 : mount("/dev", at, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
    if (mount(from, at, NULL, MS_BIND, NULL) < 0 ||
        mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC, NULL) < 0)
        return -errno;
    return 0;
}

static int attach_tree(const struct kr_view_tree *t)
{
    char to[300];
    snprintf(to, sizeof to, STAGE "%s", t->at);
    if (t->plain)
        return mount(t->at, to, NULL, MS_BIND | MS_REC, NULL) < 0 ? -errno : 0;
    return mount_overlay(mask_of(t->at), t->at, to);
}

static int attach_packages(const struct kr_view *v, const char *at)
{
    switch (v->packages) {
    case KR_VIEW_PACKAGES_NONE:
        return 0;
    case KR_VIEW_PACKAGES_LAYER:
        return mount_overlay(MASK_PACKAGES, KR_VIEW_PACKAGES, at);
    case KR_VIEW_PACKAGES_PLAIN:
        return mount(KR_VIEW_PACKAGES, at, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
    }
    return -EINVAL;
}

/* The view is put over the family's root, and setns(2) takes a session to the uppermost. Not by pivot_root(2): that
 * looks at every process of the machine, and unmounting waits for every processor. The family's root stays beneath,
 * where no path leads: only CAP_SYS_ADMIN could lift what lies on it, or CAP_SYS_CHROOT leave it. */
static int become_root(void)
{
    cleanup_fd int view = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (view < 0 || chdir(STAGE) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || fchdir(view) < 0)
        return -errno;
    return 0;
}

static int enter(const struct kr_view *v, unsigned index, uint32_t *layers)
{
    uint32_t have = KR_LAYER_FILES;
    char lower[32] = ROOT;
    int r;
    if (chdir(KR_VIEW_DIR) < 0)
        return -errno;
    if (v->own_devices)
        *layers |= KR_LAYER_DEVICES;
    if (v->plain) {
        r = attach_devices(v, index, "/dev");
        r = r < 0 ? r : attach_packages(v, KR_VIEW_PACKAGES_AT);
        /* The session sees the family's root: other cells' device nodes are not for it. */
        return r < 0 ? r : mount(MASK_NONE, KR_VIEW_DIR, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
    }
    if (v->cpus > 0)
        snprintf(lower, sizeof lower, ROOT ":" KR_GAUGES_DIR "/%u", index);
    r = mount_overlay(MASK_ROOT, lower, STAGE);
    for (unsigned i = 0; r >= 0 && i < v->count; i++) {
        r = attach_tree(&v->trees[i]);
        have = v->trees[i].plain ? 0 : have;
    }
    if (r < 0 || (r = attach_devices(v, index, STAGE "/dev")) < 0 ||
        (r = attach_packages(v, STAGE KR_VIEW_PACKAGES_AT)) < 0)
        return r;
    *layers |= v->packages == KR_VIEW_PACKAGES_PLAIN ? 0 : have;
    return become_root();
}

int kr_view_enter(const struct kr_view *v, unsigned index, uint32_t *layers, struct kr_err *err)
{
    int r = enter(v, index, layers);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the cell's view of its root") : 0;
}

int kr_view_guest(const struct kr_view *v, struct kr_err *err)
{
    if (v->plain || v->packages != KR_VIEW_PACKAGES_LAYER)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "there are no overlays here to show packages by");
    if (chdir(KR_VIEW_DIR) < 0 || attach_packages(v, KR_VIEW_PACKAGES_AT) < 0 || chdir("/") < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a zygote's view of " KR_VIEW_PACKAGES_AT);
    if (mount("tmpfs", KR_VIEW_DIR, "tmpfs", READ_ONLY | MS_NOEXEC, "mode=755,size=4k,nr_inodes=2") < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "cover " KR_VIEW_DIR);
    return 0;
}

static int move_tree(int tree, const char *at)
{
    return syscall(SYS_move_mount, tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The folder itself is mounted outside of the cell's root, so that the cell's table of mounts does not show it. */
int kr_view_attach(const struct kr_view *v, int tree, const char *at, struct kr_err *err)
{
    int r = v->plain ? 0 : move_tree(tree, SOURCE);
    if (r >= 0)
        r = v->plain ? -EINVAL : mount_overlay(MASK_NONE, SOURCE, at);
    if (r == -EINVAL) /* no layer: names that differ by case only, or no id map */
        r = move_tree(tree, at);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the cell's view of %s", at) : 0;
}
