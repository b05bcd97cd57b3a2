/* The strict parser of the heads that servers answer with: pure, no I/O, no memory of its own. Called by the egress
 * process, which is a client, and the fuzzer.
 *
 * RFC 9112 as strictly as parse.h reads requests: CRLF only, no folding, no blanks before the colon, Content-Length of
 * digits and once, Transfer-Encoding exactly `chunked` and never beside a Content-Length. Any doubt is -EBADMSG: two
 * readers of one answer must not see two. */
#pragma once
#include "parse.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_HTTP_ANSWER_HEAD_MAX 32768u
#define KR_HTTP_ANSWER_FIELDS_MAX 128u

struct kr_http_answer {
    unsigned status;             /* 100 to 599 */
    struct kr_http_slice reason; /* of the status line; may be empty */
    int64_t content_length;      /* -1: none given */
    bool http10, chunked, keep_alive;
    bool no_body; /* its status has none: 1xx, 204, 304 */
    unsigned count;
    struct kr_http_field fields[KR_HTTP_ANSWER_FIELDS_MAX];
};

/* Looks at the `len` bytes there are so far, always from the head's first byte. > 0: the head is whole and so long,
 * *ret is filled. 0: more bytes are needed. -EBADMSG: malformed. -E2BIG: too long, or too many fields. What is returned
 * depends on the bytes alone, never on the pieces they came in; each byte of an unfinished head is looked at once. */
int kr_http_answer_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_answer *ret);
/* The value of the first field of this name (lower case) as text, cut to the room; "" if there is none. Returns buf. */
const char *kr_http_answer_text(const char *bytes, const struct kr_http_answer *a, const char *name, char *buf,
                                size_t size);
