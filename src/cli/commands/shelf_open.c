/* See shelf_open.h. Called by cmd_shelf.c, cmd_backup.c and cmd_verify.c. Invariant: no image is made. */
#include "shelf_open.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int kr_shelf_open(const char *data, struct kr_shelf_opened *ret, struct kr_err *err)
{
    struct kr_shelf_config config = {.path = ret->path, .choice = KR_SHELF_AUTO, .discard = 1};
    cleanup_fd int point = -1;
    int r;

    ret->shelf = KR_SHELF_NONE;
    snprintf(ret->path, sizeof ret->path, "%s/sandboxes", data);
    r = kr_shelf_plan(&config, &ret->plan, err);
    if (r < 0)
        return r;
    if (ret->plan.image && !ret->plan.exists) /* a server would make one; we do not */
        ret->plan = (struct kr_shelf_plan){.kind = KR_SHELF_IS_FOLDER, .why = "no server has made an image here yet"};
    if (ret->plan.image && (r = kr_shelf_namespace(err)) < 0)
        return r;
    point = open(ret->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); /* in the namespace it is mounted in */
    if (point < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s", ret->path);
    return kr_shelf_up(&config, &ret->plan, point, &ret->shelf, err);
}
