/* Addresses of what a client can read: sandbox://ID/path, session://NAME, run://ID, and links for browsers. All but
 * kr_mcp_link_add() is pure. */
#pragma once
#include "call.h"
#include "files.h"
#include "store.h"
#include "store_user.h"

struct kr_buf;

#define KR_MCP_GUIDE_URI "krait://guide"
#define KR_MCP_URI_MAX 16384u /* bytes of an address that is looked at; longer ones are unknown */

enum kr_mcp_uri_kind {
    KR_URI_SANDBOX, /* sandbox://{sandbox}/{+path} */
    KR_URI_SESSION, /* session://{session_id} */
    KR_URI_RUN,     /* run://{run_id} */
    KR_URI_KIND_MAX_,
};

struct kr_mcp_uri {
    enum kr_mcp_uri_kind kind;
    char id[4 * 128 + 1];         /* decoded: a sandbox's id or name, a session's name, a run's id */
    char path[KR_FILES_PATH_MAX]; /* decoded, of a SANDBOX; "" is its folder */
};
/* 0; -EINVAL: none of ours, or not decodable. */
int kr_mcp_uri_parse(const char *text, struct kr_mcp_uri *ret);
/* Append; 0 or -errno of the buffer. Bytes of a path that are not UTF-8 stay what they are, percent-encoded. */
int kr_mcp_uri_file(struct kr_buf *out, const char *sandbox, const char *path);
int kr_mcp_uri_session(struct kr_buf *out, const char *name);

/* Appends a link that a browser opens without a key: where this client sees us; signed, for the configured time.
 * Nothing for a client that is not on HTTP. `document`: in the form of document 004 (mcp-sandbox). 0, -ENOTSUP: there
 * is none; or -errno. */
int kr_mcp_link_add(const struct kr_mcp_call *c, const char *sandbox, const char *path, bool document,
                    struct kr_buf *out);
