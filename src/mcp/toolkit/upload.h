/* An upload by a tool: bytes of the call, or of a file on the machine that krait runs on, into a sandbox. */
#pragma once
#include "call.h"
#include "field.h"
#include <stddef.h>
#include <stdint.h>

struct kr_err;

struct kr_mcp_uploaded {
    const char *path; /* from the workspace */
    const char *name; /* its last part */
    const char *sandbox, *sandbox_name;
    uint64_t size;
    bool created; /* there was none of that name */
};
/* Answers the call: u, or err. */
typedef void kr_mcp_uploaded_fn(struct kr_mcp_call *c, const struct kr_mcp_uploaded *u, const struct kr_err *err,
                                const char *dest);

struct kr_mcp_upload {
    const char *sandbox;    /* id or name; NULL: default */
    const char *dest;       /* where: a path, or a folder if it ends with / or is one; NULL: the workspace */
    struct kr_text content; /* its bytes; text NULL: none */
    bool base64;            /* content is base64 */
    const char *local;      /* a file of the machine, absolute; NULL: none */
    kr_mcp_uploaded_fn *answer;
};
/* Does it, and answers by u->answer, once. Everything that is borrowed must live until the call is answered. */
void kr_mcp_upload(struct kr_mcp_call *c, const struct kr_mcp_upload *u);
