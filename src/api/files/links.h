/* Links to files that need no key: signed by the server, good until a moment, for one path of one sandbox.
 *
 * The token is `owner.sandbox.expires.signature`; the signature covers all of it and the path, so that a link opens
 * nothing but what it was made for. Nothing is stored: a link ends with its time, its file, its sandbox or its
 * owner. The first part is pure; the second knows the server. */
#pragma once
#include "secret.h"
#include "store.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_api;
struct kr_buf;
struct kr_err;
struct kr_http_ex;

/* ---- pure ---- */

#define KR_LINK_TOKEN_ROOM (2 * KR_STORE_ID_ROOM + 20 + KR_SIGN_ROOM)
#define KR_LINK_PREFIX "/files/" /* token/path follow */

struct kr_link {
    char owner[KR_STORE_ID_ROOM], sandbox[KR_STORE_ID_ROOM];
    int64_t expires; /* seconds since 1970 */
};

/* Writes the token of a link to `path` (as kr_files_path() wrote it). Returns out. */
const char *kr_link_sign(const unsigned char key[KR_SIGN_KEY_BYTES], const struct kr_link *link, const char *path,
                         char out[static KR_LINK_TOKEN_ROOM]);
/* 0; -EKEYREJECTED: not one of ours, or not for this path (kind not_found); -EKEYEXPIRED: its time is over (kind
 * denied). */
int kr_link_check(const unsigned char key[KR_SIGN_KEY_BYTES], const char *token, const char *path, int64_t now,
                  struct kr_link *ret, struct kr_err *err);
/* Appends token/path with the path percent-encoded; one that no URL can carry as it is (not UTF-8, control
 * characters, a backslash) goes into ?path_b64= behind a name for people. 0 or -errno of the buffer. */
int kr_link_add_path(struct kr_buf *url, const char *token, const char *path);

/* ---- of the server ---- */

/* Appends where clients reach us: public_url, or the scheme and the Host of this request (ex may be NULL with a
 * public_url). Without a slash at the end. 0 or -errno. */
int kr_link_add_base(const struct kr_api *api, const struct kr_http_ex *ex, struct kr_buf *url);
/* Appends the whole URL of a link to a file: `path` as in kr_files_path(), seconds 0: the configured life. */
int kr_link_add(const struct kr_api *api, const struct kr_http_ex *ex, const char *owner, const char *sandbox,
                const char *path, uint64_t seconds, struct kr_buf *url, int64_t *ret_expires, struct kr_err *err);
/* The same with a base of the caller's ("http://host:port"), for voices that have no exchange at hand. `document`:
 * in the form of document 004 (mcp-sandbox), /sandbox/file?sandbox_id=…&file_path=/app/results/…. `token`: signed;
 * without it the link works for clients that need no key. */
int kr_link_add_at(const struct kr_api *api, const char *base, const char *owner, const char *sandbox, const char *path,
                   bool document, bool token, struct kr_buf *url, struct kr_err *err);
