/* Content codings: gzip and deflate (RFC 9110 8.4.1), by zlib. Pure but for memory: may run on any thread. Called by
 * src/http/coded.c, by pages that are kept compressed, and by tests/fuzz/fuzz-http-coding.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum kr_http_coding { KR_HTTP_IDENTITY, KR_HTTP_GZIP, KR_HTTP_DEFLATE, KR_HTTP_CODING_OTHER };

#define KR_HTTP_CODINGS "gzip, deflate" /* what bodies may come in, as Accept-Encoding says it */
#define KR_HTTP_RATIO_MAX 1032u         /* bytes that one byte of deflate can become, at most */

/* The coding that Content-Encoding names; one of several is OTHER. NULL or "": identity. */
enum kr_http_coding kr_http_coding_of(const char *content_encoding);

/* Does Accept-Encoding (may be NULL) take gzip? If it, or else `*`, is named and not refused by q=0. */
bool kr_http_takes_gzip(const char *accept_encoding);

/* Is it a type that compressing makes smaller: text, JSON, SVG? */
bool kr_http_is_compressible(const char *type);

/* Decodes the whole of a body into memory to be freed, with a NUL behind it. 0; -E2BIG: it has more than `limit` bytes
 * (no more than those are ever made); -EBADMSG: malformed, cut off, or with bytes behind its end; -ENOMEM. Members of a
 * gzip follow each other as RFC 1952 allows. */
int kr_http_decode(enum kr_http_coding coding, const char *in, size_t len, size_t limit, char **ret, size_t *ret_len);

/* Compresses into memory to be freed. `best`: for what is kept, else quickly. 0; -ENODATA: it would not be smaller;
 * -ENOMEM. */
int kr_http_gzip(const void *in, size_t len, bool best, char **ret, size_t *ret_len);
