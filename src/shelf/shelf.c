/* A shelf that is up: its questions, checked and answered, and its upkeep. Called by the keeper and by commands.
 * Invariants: a name is one part, letters and digits only, and nothing outside the shelf's folder is touched; a folder
 * becomes the server's only when its limit holds. */
#include "shelf.h"
#include "fd.h"
#include "log.h"
#include "shelf_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define BYTES_MAX KR_SHELF_SIZE_MAX
#define INODES_MAX UINT64_C(1000000000)
/* What is left to the host, and to what an image needs beside its folders (checksums, trees, blocks that were freed and
 * are not yet returned): a twentieth of the host's filesystem, within these. */
#define RESERVE_MIN (UINT64_C(64) << 20)
#define RESERVE_MAX (UINT64_C(2) << 30)
#define TEND_MS 1000     /* between two looks at the host */
#define TEND_BUSY_MS 250 /* while folders are written to */

int kr_shelf_up(const struct kr_shelf_config *c, const struct kr_shelf_plan *plan, int point, struct kr_shelf *ret,
                struct kr_err *err)
{
    struct stat st;
    int r = 0;
    *ret = KR_SHELF_NONE;
    ret->config = *c;
    ret->kind = plan->kind;
    if (plan->image)
        r = kr_shelf_image_up(ret, plan, point, err);
    else if ((ret->dir = openat(point, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", c->path);
    else if (ret->kind == KR_SHELF_IS_BTRFS && (r = kr_shelf_btrfs_find(ret->dir, ret->groups, sizeof ret->groups)) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, -r, "quota groups of %s", c->path);
    if (r >= 0 && fstat(ret->dir, &st) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "stat %s", c->path);
    if (r < 0) {
        kr_shelf_close(ret);
        return r;
    }
    ret->uid = st.st_uid;
    ret->gid = st.st_gid;
    (void)kr_shelf_tend(ret);
    return 0;
}

void kr_shelf_close(struct kr_shelf *s)
{
    s->dir = kr_fd_close(s->dir);
    s->file = kr_fd_close(s->file);
    s->loop = kr_fd_close(s->loop);
}

void kr_shelf_down(struct kr_shelf *s)
{
    int mounted = s->dir >= 0 && s->image;
    kr_shelf_close(s);
    if (mounted && umount2(s->config.path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
        kr_log(KR_LOG_WARN, "image stays mounted until the namespace ends, ignoring", "errno=%d", errno);
}

/* One part of a path, or "". */
static int is_name(const char name[KR_FOLDER_ROOM])
{
    size_t len = strnlen(name, KR_FOLDER_ROOM);
    return len < KR_FOLDER_ROOM && strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz") == len;
}

/* A check of its own, as in kr_workspace_on_shelf(): the question comes from the engine. */
static int check_question(const struct kr_w_shelf *q, struct kr_err *err)
{
    int needed = q->op == KR_SHELF_MAKE || q->op == KR_SHELF_COPY || q->op == KR_SHELF_LIMIT || q->op == KR_SHELF_DROP;
    if (q->op >= KR_SHELF_OP_MAX_)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "shelf operation %u", q->op);
    if (!is_name(q->name) || !is_name(q->from) || (!q->name[0] && needed) ||
        (q->name[0] && !needed && q->op != KR_SHELF_USAGE) || (q->from[0] != 0) != (q->op == KR_SHELF_COPY))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "invalid name of a sandbox folder");
    if (q->bytes > BYTES_MAX || q->inodes > INODES_MAX)
        return kr_err_set(err, KR_ERR_INVALID, ERANGE, "limits of a sandbox folder: %llu bytes, %llu inodes",
                          (unsigned long long)q->bytes, (unsigned long long)q->inodes);
    return 0;
}

static int open_folder(const struct kr_shelf *s, const char *name, struct kr_err *err)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, s->dir, name, &how, sizeof how);
    return fd < 0
               ? kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "sandbox folder %s", name)
               : fd;
}

/* What enforces the limits of this folder. One that the server made itself is a plain folder wherever it lies. */
struct enforcer {
    enum kr_shelf_kind kind;
    uint64_t id; /* of its quota group or project */
};

static int find_enforcer(const struct kr_shelf *s, int folder, struct enforcer *ret)
{
    int r = 0;
    *ret = (struct enforcer){.kind = s->kind};
    if (s->kind == KR_SHELF_IS_BTRFS)
        r = kr_shelf_btrfs_id(folder, &ret->id);
    else if (s->kind == KR_SHELF_IS_PROJECT)
        ret->id = kr_shelf_project_id(folder);
    if (ret->id == 0)
        ret->kind = KR_SHELF_IS_FOLDER;
    return r;
}

static int set_limits(const struct kr_shelf *s, const struct enforcer *e, const struct kr_w_shelf *q)
{
    if (e->kind == KR_SHELF_IS_BTRFS)
        return kr_shelf_btrfs_limit(s, e->id, q->bytes);
    if (e->kind == KR_SHELF_IS_PROJECT)
        return kr_shelf_project_limit(s, (uint32_t)e->id, q->bytes, q->inodes);
    return 0;
}

static int fill_space(const struct kr_shelf *s, struct kr_w_shelved *ret)
{
    struct kr_shelf_group all;
    struct statfs fs;
    if (fstatfs(s->dir, &fs) < 0)
        return -errno;
    ret->image = s->image ? 1 : 0;
    ret->size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->room = ret->host_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (fs.f_flags & ST_RDONLY)
        ret->room = 0;
    if (!s->image)
        return 0;
    if (fstatfs(s->file, &fs) < 0)
        return -errno;
    ret->host_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    if (s->kind == KR_SHELF_IS_BTRFS && kr_shelf_btrfs_group(s, KR_SHELF_ALL, &all) == 0 && all.max != 0) {
        uint64_t used = all.referenced + all.reserved, left = all.max > used ? all.max - used : 0;
        ret->room = left < ret->room ? left : ret->room;
    }
    return 0;
}

static int fill_usage(const struct kr_shelf *s, const struct enforcer *e, struct kr_w_shelved *ret)
{
    ret->kind = e->kind;
    if (e->kind == KR_SHELF_IS_BTRFS)
        return kr_shelf_btrfs_usage(s, e->id, ret);
    if (e->kind == KR_SHELF_IS_PROJECT)
        return kr_shelf_project_usage(s, (uint32_t)e->id, ret);
    return 0;
}

/* A folder that is root's was being made when its maker was killed: it is finished. */
static int begin_folder(const struct kr_shelf *s, const struct kr_w_shelf *q, struct kr_err *err)
{
    struct stat st;
    int r = 0;
    if (s->kind == KR_SHELF_IS_BTRFS)
        r = kr_shelf_btrfs_make(s, q->name, q->bytes, err);
    else if (mkdirat(s->dir, q->name, 0700) < 0)
        r = kr_err_set(err, errno == EEXIST ? KR_ERR_CONFLICT : KR_ERR_SYSTEM, errno, "make sandbox folder %s",
                       q->name);
    if (r == -EEXIST && fstatat(s->dir, q->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        st.st_uid == 0 && s->uid != 0)
        return 0;
    return r;
}

static int finish_folder(const struct kr_shelf *s, const struct kr_w_shelf *q, struct enforcer *e, struct kr_err *err)
{
    cleanup_fd int folder = open_folder(s, q->name, err);
    int r;
    if (folder < 0)
        return folder;
    if (s->kind == KR_SHELF_IS_PROJECT && kr_shelf_project_id(folder) == 0 &&
        (r = kr_shelf_project_give(s, folder, q->name, err)) < 0)
        return r;
    r = find_enforcer(s, folder, e);
    if (r >= 0 && e->kind == KR_SHELF_IS_FOLDER)
        r = -EOPNOTSUPP;
    if (r >= 0)
        r = set_limits(s, e, q);
    /* The owner last: what is not the server's was not finished. */
    if (r >= 0 && (fchmod(folder, 0700) < 0 || fchown(folder, s->uid, s->gid) < 0))
        r = -errno;
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "limit sandbox folder %s", q->name) : 0;
}

static int make_folder(struct kr_shelf *s, const struct kr_w_shelf *q, struct enforcer *e, struct kr_err *err)
{
    int r = begin_folder(s, q, err);
    if (r < 0)
        return r;
    r = finish_folder(s, q, e, err);
    if (r < 0 && s->kind == KR_SHELF_IS_BTRFS)
        (void)kr_shelf_btrfs_drop(s, q->name, NULL);
    else if (r < 0)
        (void)unlinkat(s->dir, q->name, AT_REMOVEDIR);
    return r;
}

/* The copy is the server's from its first moment, as the folder is that it is made from, and has its limit from then
 * on, too: nothing is left to finish. */
static int copy_folder(const struct kr_shelf *s, const struct kr_w_shelf *q, struct enforcer *e, struct kr_err *err)
{
    cleanup_fd int from = open_folder(s, q->from, err), folder = -1;
    struct stat st;
    int r = from < 0 ? from : fstat(from, &st) < 0 ? -errno : find_enforcer(s, from, e);
    if (from < 0)
        return from;
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "find the quota of sandbox folder %s", q->from);
    if (e->kind != KR_SHELF_IS_BTRFS)
        return kr_err_set(err, KR_ERR_UNSUPPORTED, EOPNOTSUPP, "sandbox folder %s is no subvolume", q->from);
    if (st.st_uid != s->uid)
        return kr_err_set(err, KR_ERR_DENIED, EPERM, "sandbox folder %s is not the server's", q->from);
    if ((r = kr_shelf_btrfs_copy(s, from, q->name, q->bytes, err)) < 0 || (folder = open_folder(s, q->name, err)) < 0)
        return r < 0 ? r : folder;
    r = find_enforcer(s, folder, e);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "find the quota of sandbox folder %s", q->name) : 0;
}

/* A project's folder must be empty: then its usage is the folder itself, and its id is free when it is gone. */
static int drop_folder(struct kr_shelf *s, const struct kr_w_shelf *q, const struct enforcer *e, struct kr_err *err)
{
    if (e->kind == KR_SHELF_IS_BTRFS) {
        s->dropped = 1;
        return kr_shelf_btrfs_drop(s, q->name, err);
    }
    if (e->kind != KR_SHELF_IS_PROJECT)
        return 0;
    if (unlinkat(s->dir, q->name, AT_REMOVEDIR) < 0)
        return kr_err_set(err, KR_ERR_CONFLICT, errno, "remove sandbox folder %s", q->name);
    (void)kr_shelf_project_limit(s, (uint32_t)e->id, 0, 0); /* a limit that is left keeps its id from being given */
    return 0;
}

static int do_named(struct kr_shelf *s, const struct kr_w_shelf *q, struct kr_w_shelved *ret, struct kr_err *err)
{
    struct enforcer e = {.kind = KR_SHELF_IS_FOLDER};
    int r = 0;
    if (q->op == KR_SHELF_MAKE) {
        r = s->kind == KR_SHELF_IS_FOLDER ? 0 : make_folder(s, q, &e, err);
    } else if (q->op == KR_SHELF_COPY) {
        r = copy_folder(s, q, &e, err);
    } else {
        cleanup_fd int folder = open_folder(s, q->name, err);
        if (folder < 0)
            return folder;
        if ((r = find_enforcer(s, folder, &e)) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "find the quota of sandbox folder %s", q->name);
        if (q->op == KR_SHELF_LIMIT && (r = set_limits(s, &e, q)) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "limit sandbox folder %s", q->name);
    }
    if (r >= 0 && q->op == KR_SHELF_DROP) {
        ret->kind = e.kind;
        return drop_folder(s, q, &e, err);
    }
    if (r < 0)
        return r;
    r = fill_usage(s, &e, ret);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "measure sandbox folder %s", q->name) : 0;
}

int kr_shelf_do(struct kr_shelf *s, const struct kr_w_shelf *question, struct kr_w_shelved *ret, struct kr_err *err)
{
    int r = check_question(question, err);
    *ret = (struct kr_w_shelved){.kind = s->kind};
    if (r >= 0 && question->name[0])
        r = do_named(s, question, ret, err);
    else if (r >= 0 && question->op == KR_SHELF_GROW)
        r = s->image ? kr_shelf_image_grow(s, question->bytes, err)
                     : kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "the shelf is no image: it has no size to grow");
    if (r < 0)
        return r;
    if (question->op == KR_SHELF_GROW)
        (void)kr_shelf_tend(s);
    if (!question->name[0] && s->kind == KR_SHELF_IS_BTRFS && s->image)
        (void)kr_shelf_btrfs_usage(s, KR_SHELF_ALL, ret);
    r = fill_space(s, ret);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "measure the shelf") : 0;
}

/* What all folders together may have, so that the host never has to refuse a block: what the image has taken of the
 * host (freed blocks that were not returned are used again first) and what the host has free, less the reserve. What a
 * process has written and the kernel has not yet put on the disk counts against the limit but is in neither of the two,
 * so nothing is granted twice. Below half of the reserve nothing may grow: the image may be using up holes of its file
 * instead of freed blocks. */
static uint64_t shelf_limit(const struct statfs *host, const struct statfs *own, uint64_t taken, uint64_t referenced)
{
    uint64_t left = (uint64_t)host->f_bavail * (uint64_t)host->f_bsize;
    uint64_t reserve = (uint64_t)host->f_blocks * (uint64_t)host->f_bsize / 20;
    uint64_t whole = (uint64_t)own->f_blocks * (uint64_t)own->f_bsize, max;
    reserve = reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
    whole -= whole / 20 < RESERVE_MIN ? RESERVE_MIN : whole / 20; /* for the image's own trees */
    if (left < reserve / 2)
        return referenced;
    max = (taken > referenced ? taken : referenced) + left;
    max = max > reserve ? max - reserve : 0;
    max = max < referenced ? referenced : max;
    return max < whole ? max : whole;
}

int kr_shelf_tend(struct kr_shelf *s)
{
    struct kr_shelf_group all;
    struct statfs host, own;
    struct stat st;
    uint64_t max;
    int busy;
    if (s->kind != KR_SHELF_IS_BTRFS || !s->image)
        return -1;
    if (s->dropped && kr_shelf_btrfs_clean(s) == 0)
        s->dropped = 0;
    if (fstatfs(s->file, &host) < 0 || fstatfs(s->dir, &own) < 0 || fstat(s->file, &st) < 0 ||
        kr_shelf_btrfs_group(s, KR_SHELF_ALL, &all) < 0)
        return TEND_MS;
    if ((own.f_flags & ST_RDONLY) && !s->broken)
        kr_log(KR_LOG_ERROR, "the image of the sandboxes is read-only after an error of its disk", "path=\"%s\"",
               s->config.path);
    s->broken = (own.f_flags & ST_RDONLY) != 0;
    max = shelf_limit(&host, &own, (uint64_t)st.st_blocks * 512u, all.referenced);
    if (max != all.max && !s->broken && kr_shelf_btrfs_set(s, KR_SHELF_ALL, max) < 0)
        kr_log(KR_LOG_WARN, "limit of the shelf not set, ignoring", "errno=%d", errno);
    busy = all.referenced + all.reserved != s->seen;
    s->seen = all.referenced + all.reserved;
    return busy ? TEND_BUSY_MS : TEND_MS;
}
