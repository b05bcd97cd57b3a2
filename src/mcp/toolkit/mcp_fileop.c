/* A call's operation on files: who asks, which sandbox and path. Called by the tools, resources and completions that
 * touch a workspace; the life of an operation is src/box/fileop.c's.
 *
 * Invariant: after its call was cancelled or taken nothing of the call is touched. */
#include "mcp_fileop.h"
#include "fd.h"
#include "mcp_internal.h"
#include <stdlib.h>
#include <string.h>

static void on_fileop_cancel(void *data, struct kr_mcp_call *c)
{
    struct kr_fileop *op = data;

    (void)c;
    op->peer = NULL;
    kr_fileop_end(op);
}

void *kr_mcp_fileop_new(struct kr_mcp_call *c, const struct kr_fileop_kind *kind, struct kr_err *err)
{
    struct kr_api_files *files = kr_mcp_api(c)->files;
    struct kr_fileop *op;

    if (!files) {
        kr_err_set(err, KR_ERR_BUSY, 0, "the server is stopping");
        return NULL;
    }
    op = kr_fileop_new(&files->ops, kind, c, err);
    if (!op)
        return NULL;
    kr_fileop_set_caller(op, kr_mcp_caller(c));
    kr_mcp_on_cancel(c, on_fileop_cancel, op);
    return op;
}

const char *kr_mcp_fileop_inside(const struct kr_fileop *op, const char *path)
{
    struct kr_mcp_call *c = op->peer;
    const char *folder = kr_mcp_is_local(c) ? kr_mcp_config(kr_mcp_of(c))->workspace : NULL;
    size_t len = folder ? strlen(folder) : 0;

    if (len == 0 || !kr_box_is_host(kr_mcp_api(c)->box, &op->sandbox) || strncmp(path, folder, len) != 0 ||
        (path[len] != '/' && path[len] != '\0'))
        return path;
    return path + len + strspn(path + len, "/");
}

int kr_mcp_fileop_place(struct kr_fileop *op, const char *sandbox, const char *path, bool made)
{
    int r = kr_fileop_find(op, sandbox);

    if (r >= 0 && path)
        r = kr_fileop_set_path(op, kr_mcp_fileop_inside(op, path), made);
    return r < 0 ? r : kr_fileop_open(op);
}

struct kr_mcp_call *kr_mcp_fileop_take(struct kr_fileop *op)
{
    if (op->peer)
        kr_mcp_on_cancel(op->peer, NULL, NULL);
    return steal_ptr(&op->peer);
}
