/* Query strings and form bodies (application/x-www-form-urlencoded): strict reading, and writing of URL parts and of
 * Content-Disposition. Pure: no I/O; memory is one block per parsed text. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_buf;
struct kr_err;

#define KR_QUERY_PAIRS_MAX 64u        /* pairs in one text */
#define KR_QUERY_TEXT_MAX (64u << 10) /* bytes of one text, encoded */

/* Decoded, valid UTF-8 without NUL, and NUL-terminated. */
struct kr_query_pair {
    const char *key, *value;
    size_t key_len, value_len;
};

struct kr_query {
    unsigned count;
    struct kr_query_pair pairs[KR_QUERY_PAIRS_MAX]; /* in the order of the text */
    const char *repeated;                           /* the first key that came twice; NULL if none did */
    char *text;                                     /* owned: what the pairs point into */
};

/* Reads `a=1&b=2` (without the `?`) into *q: `+` and %20 are a blank, a key without `=` has the value "", empty pairs
 * (`a=1&&b=2`) are skipped. Refused with -EINVAL and a text that names the pair: a broken %-sequence, a NUL, raw
 * control characters, invalid UTF-8, a pair without a key; with -E2BIG (kind `invalid`): past one of the maxima.
 * A repeated key is not refused here: see `repeated` and kr_query_get(). On failure *q is empty; done() is allowed
 * in any case. */
int kr_query_parse(struct kr_query *q, const char *text, size_t len, struct kr_err *err);
/* Frees; *q may be zeroed memory. */
void kr_query_done(struct kr_query *q);
#define cleanup_query __attribute__((cleanup(kr_query_done)))
/* 1 and the value, 0 if the key is absent (*ret_value untouched), -EINVAL if it is there more than once. */
int kr_query_get(const struct kr_query *q, const char *key, const char **ret_value, struct kr_err *err);

/* Decodes one part of a URL (a path segment, a capture of a route) into out (len + 1 bytes, may be the text itself):
 * as above, `+` a blank only if plus_is_blank. Errors call it `what`. Returns the length or -EINVAL. */
long kr_percent_decode(const char *text, size_t len, bool plus_is_blank, char *out, const char *what,
                       struct kr_err *err);

/* Appends text with everything but RFC 3986's unreserved characters and those of `keep` ("", or "/" for a path) as
 * %XX. 0 or -errno of the buffer. */
int kr_percent_encode(struct kr_buf *out, const char *text, size_t len, const char *keep);
/* Appends `?key=value` to the URL in `url`, or `&key=value` if it has a `?` already; both encoded (`/` kept). */
int kr_query_add(struct kr_buf *url, const char *key, const char *value);

/* Appends a Content-Disposition value (RFC 6266): `inline; filename="…"` and, when that cannot say it all,
 * `; filename*=UTF-8''…`. Of a path only the last part is sent; control characters, bidirectional overrides and bytes
 * that are not UTF-8 never get through. An empty name gives the bare word. */
int kr_disposition_add(struct kr_buf *out, const char *word, const char *filename);
