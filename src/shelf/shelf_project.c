/* Folders with a project id of their own (ext4, XFS), whose quota limits bytes and inodes. Called by shelf.c. The id is
 * stored on the folder itself and inherited by all that is made in it; a process in a user namespace, and so every
 * cell, cannot change it. Invariant: only ids of our range are given, limited or cleared. */
#include "fd.h"
#include "hash.h"
#include "shelf_internal.h"
#include <errno.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PROJECTS 2 /* PRJQUOTA: the kind of quota */
#define FIRST_ID 0x6b000000u
#define ID_COUNT (1u << 24)
#define PROBE_ID (FIRST_ID + ID_COUNT - 1) /* never given to a folder */
#define TRIES 4096u
#define BLOCK 1024u /* of struct dqblk's limits */
/* XFS reserves the most that a new folder could take before it knows what it needs (Linux 6.1: more than 160 KiB):
 * within the smallest limit, 64 KiB, nothing could be made. */
#define XFS_SLACK (UINT64_C(256) << 10)

static int quota_call(int dir, int command, uint32_t id, void *arg)
{
    return syscall(SYS_quotactl_fd, dir, QCMD((unsigned)command, PROJECTS), id, arg) < 0 ? -errno : 0;
}

/* Sets an id of ours that has no limit to no limit: what cannot do that cannot limit. */
int kr_shelf_project_on(int dir)
{
    struct fs_quota_stat state;
    struct dqblk none;
    memset(&state, 0, sizeof state);
    memset(&none, 0, sizeof none);
    none.dqb_valid = QIF_LIMITS;
    return quota_call(dir, Q_XGETQSTAT, 0, &state) == 0 && (state.qs_flags & FS_QUOTA_PDQ_ENFD) &&
           quota_call(dir, Q_SETQUOTA, PROBE_ID, &none) == 0;
}

static int read_quota(int dir, uint32_t id, struct dqblk *ret)
{
    int r;
    memset(ret, 0, sizeof *ret);
    r = quota_call(dir, Q_GETQUOTA, id, ret);
    return r == -ENOENT || r == -ESRCH ? 0 : r; /* XFS: no quota was ever made for it */
}

/* An id whose project is empty and has no limit. */
static int find_free(const struct kr_shelf *s, const char *name, uint32_t *ret)
{
    uint32_t start = kr_hash_text(KR_HASH_START, name);
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t id = FIRST_ID + (start + i) % (PROBE_ID - FIRST_ID);
        struct dqblk q;
        int r = read_quota(s->dir, id, &q);
        if (r < 0)
            return r;
        if (q.dqb_curspace == 0 && q.dqb_curinodes == 0 && q.dqb_bhardlimit == 0 && q.dqb_ihardlimit == 0) {
            *ret = id;
            return 0;
        }
    }
    return -EUSERS;
}

int kr_shelf_project_give(const struct kr_shelf *s, int folder, const char *name, struct kr_err *err)
{
    struct fsxattr attr;
    uint32_t id;
    int r = find_free(s, name, &id);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "find a project id for sandbox folder %s", name);
    if (ioctl(folder, FS_IOC_FSGETXATTR, &attr) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "read the project id of sandbox folder %s", name);
    attr.fsx_projid = id;
    attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (ioctl(folder, FS_IOC_FSSETXATTR, &attr) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "set the project id of sandbox folder %s", name);
    return 0;
}

uint32_t kr_shelf_project_id(int folder)
{
    struct fsxattr attr;
    if (ioctl(folder, FS_IOC_FSGETXATTR, &attr) < 0 || !(attr.fsx_xflags & FS_XFLAG_PROJINHERIT) ||
        attr.fsx_projid < FIRST_ID || attr.fsx_projid >= FIRST_ID + ID_COUNT)
        return 0;
    return attr.fsx_projid;
}

static uint64_t slack_of(int dir)
{
    struct statfs f;
    return fstatfs(dir, &f) == 0 && f.f_type == XFS_SUPER_MAGIC ? XFS_SLACK : 0;
}

int kr_shelf_project_limit(const struct kr_shelf *s, uint32_t id, uint64_t bytes, uint64_t inodes)
{
    struct dqblk q;
    memset(&q, 0, sizeof q);
    if (bytes > 0)
        bytes += slack_of(s->dir);
    q.dqb_bhardlimit = (bytes + BLOCK - 1) / BLOCK;
    q.dqb_ihardlimit = inodes;
    q.dqb_valid = QIF_LIMITS;
    return quota_call(s->dir, Q_SETQUOTA, id, &q);
}

int kr_shelf_project_usage(const struct kr_shelf *s, uint32_t id, struct kr_w_shelved *ret)
{
    struct dqblk q;
    int r = read_quota(s->dir, id, &q);
    if (r < 0)
        return r;
    ret->bytes = q.dqb_curspace;
    ret->inodes = q.dqb_curinodes;
    ret->max_bytes = q.dqb_bhardlimit * BLOCK;
    ret->max_inodes = q.dqb_ihardlimit;
    return 0;
}
