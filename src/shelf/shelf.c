/* The shelf's questions, checked and answered. Called by the warden; invariant: a name is one part, letters and digits
 * only, and nothing outside the shelf's folder is touched. */
#include "shelf.h"
#include "fd.h"
#include <errno.h>
#include <string.h>
#include <sys/vfs.h>

/* A check of its own, as in kr_workspace_on_shelf(): the name comes from the engine. */
static int check_name(const struct kr_w_shelf *q, struct kr_err *err)
{
    size_t len = strnlen(q->name, KR_FOLDER_ROOM);
    int needed = q->op == KR_SHELF_MAKE || q->op == KR_SHELF_LIMIT || q->op == KR_SHELF_DROP;
    if (len == KR_FOLDER_ROOM || strspn(q->name, "0123456789abcdefghijklmnopqrstuvwxyz") != len ||
        (len == 0 && needed) || (len > 0 && !needed && q->op != KR_SHELF_USAGE))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "invalid name of a sandbox folder");
    return 0;
}

static int fill_space(const struct kr_shelf *s, struct kr_w_shelved *ret, struct kr_err *err)
{
    struct statfs fs;
    if (fstatfs(s->dir, &fs) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "measure the shelf");
    ret->size = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    ret->room = ret->host_free = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    return 0;
}

int kr_shelf_do(const struct kr_shelf *s, const struct kr_w_shelf *question, struct kr_w_shelved *ret,
                struct kr_err *err)
{
    int r;
    *ret = (struct kr_w_shelved){.kind = s->kind};
    if (question->op >= KR_SHELF_OP_MAX_)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "shelf operation %u", question->op);
    if ((r = check_name(question, err)) < 0)
        return r;
    if (question->op == KR_SHELF_GROW)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "the shelf is a folder: it has no size of its own");
    return fill_space(s, ret, err);
}
