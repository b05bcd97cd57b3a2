/* A push parser for multipart/form-data (RFC 7578): bytes in, parts out, in pieces of any size. Pure: no I/O, and a
 * part's content is never held, only a partial boundary (at most 74 bytes) and one part's header lines.
 *
 * Strict: nothing before the first boundary but one CRLF, nothing after the last but one CRLF, CRLF line ends, no
 * folded lines, every part a form-data part with a name. Cutting the same body into other pieces gives the same parts,
 * the same bytes and the same error. */
#pragma once
#include <stddef.h>
#include <stdint.h>

struct kr_err;
struct kr_multipart; /* opaque; about 5 KB */

#define KR_MULTIPART_BOUNDARY_MAX 70u /* RFC 2046 */
#define KR_MULTIPART_HEAD_MAX 4096u   /* bytes of one part's header lines */
#define KR_MULTIPART_HEADERS_MAX 16u  /* lines of one part */

/* Valid until on_part returns. All valid UTF-8 without control characters. */
struct kr_multipart_part {
    unsigned index;       /* from 0 */
    const char *name;     /* of the form's field; may be "" */
    const char *filename; /* NULL: not a file. As the client said it: may be "" (no file was chosen), may have `/` or
                                 `..` in it; the caller that stores it decides. filename* wins over filename. */
    const char *content_type; /* NULL if not given */
};

/* Each returns 0, or a negative errno with *err set: the parse ends there and feed() returns the same. Any may be NULL
 * except on_part. on_data gets len > 0 bytes, valid during the call. */
struct kr_multipart_ops {
    int (*on_part)(void *ctx, const struct kr_multipart_part *part, struct kr_err *err);
    int (*on_data)(void *ctx, const void *data, size_t len, struct kr_err *err);
    int (*on_part_end)(void *ctx, struct kr_err *err);
};

/* Looks at a Content-Type. 1: multipart/form-data, its boundary in out (NUL-terminated). 0: another type (NULL is one).
 * -EINVAL: multipart/form-data without a usable boundary. */
int kr_multipart_boundary(const char *content_type, char out[KR_MULTIPART_BOUNDARY_MAX + 1], struct kr_err *err);

/* A parser for a body with this boundary and at most parts_max parts; NULL when out of memory or the boundary is none.
 * ops is kept, not copied. */
struct kr_multipart *kr_multipart_new(const char *boundary, unsigned parts_max, const struct kr_multipart_ops *ops,
                                      void *ctx);
/* Takes NULL. Not from a callback. */
void kr_multipart_free(struct kr_multipart *m);
/* Takes the next bytes of the body. 0, -EINVAL (err names what is wrong and where: byte and part), -E2BIG past a
 * maximum, or what a callback returned. A failure stays: later calls return the same. */
int kr_multipart_feed(struct kr_multipart *m, const void *data, size_t len, struct kr_err *err);
/* The body is over: 0, or -EINVAL if the last boundary has not come. */
int kr_multipart_finish(struct kr_multipart *m, struct kr_err *err);
