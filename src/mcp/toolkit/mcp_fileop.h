/* File operations (src/box/fileop.h) whose peer is a call. A call that is cancelled takes `peer` away; the operation
 * ends after the step that runs. */
#pragma once
#include "call.h"
#include "file_request.h"

/* A new one for a call, which is cancelled with it. NULL with err: there are too many, or no memory. */
void *kr_mcp_fileop_new(struct kr_mcp_call *c, const struct kr_fileop_kind *kind, struct kr_err *err);
/* The sandbox (id or name; NULL: default), its folder and the path (NULL: none); `made`: it is to be written. 0 or
 * -errno with op->err. */
int kr_mcp_fileop_place(struct kr_fileop *op, const char *sandbox, const char *path, bool made);
/* The path from the workspace, if it is a path of the machine beneath the folder of `krait mcp --workspace`, which is
 * how results name files then; else as it is. The sandbox is known. */
const char *kr_mcp_fileop_inside(const struct kr_fileop *op, const char *path);
/* Takes the call to answer it; kr_fileop_end() is next, before or after the answer. */
struct kr_mcp_call *kr_mcp_fileop_take(struct kr_fileop *op);
