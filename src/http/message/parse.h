/* The strict request-head parser: pure, no I/O, no memory of its own. Called by conn.c and the fuzzer.
 *
 * RFC 9112 with every choice taken the strict way: CRLF only, no folding, no blanks before the colon, exactly one Host
 * that looks like one, origin-form (or `*` for OPTIONS, or absolute-form of that same host), Content-Length of digits
 * and once, Transfer-Encoding exactly `chunked` and never beside a Content-Length. Any doubt is 400. */
#pragma once
#include "http_method.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_HTTP_PARSE_HEAD_MAX 16384u
#define KR_HTTP_PARSE_LINE_MAX 8192u /* of the request line with its CRLF: longer is 414 */
#define KR_HTTP_PARSE_FIELDS_MAX 64u

/* A position in the head: 16 bits are enough for 16 KB. */
struct kr_http_slice {
    uint16_t at, len;
};

struct kr_http_field {
    struct kr_http_slice name, value;
};

struct kr_http_head {
    enum kr_http_method method;
    struct kr_http_slice method_text, path, query; /* query: without '?', at the path's end if there is none */
    struct kr_http_slice authority;                /* of a target in absolute-form: the same as Host; else empty */
    int64_t content_length;                        /* -1: none given */
    bool http10, chunked, keep_alive, expect_continue;
    unsigned count;
    struct kr_http_field fields[KR_HTTP_PARSE_FIELDS_MAX];
};

/* How far a head that is not whole yet was looked at. All zero at its beginning. */
struct kr_http_scan {
    uint16_t at;   /* bytes looked at */
    uint16_t line; /* where the line begins that they end in */
};

/* Looks at the `len` bytes there are so far, always from the head's first byte. > 0: the head is whole and so long,
 * *ret is filled. 0: more bytes are needed. < 0: minus the status to refuse it with. What is returned depends on the
 * bytes alone, never on the pieces they came in; each byte of an unfinished head is looked at once. */
int kr_http_head_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_head *ret);

/* The same of a request to a proxy: CONNECT has its target, HOST:PORT, in `authority` and no path; and whether Host
 * names the host of the target is the caller's to judge, which knows what two spellings of one host are. */
int kr_http_proxy_head_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_head *ret);

/* A character of an RFC 9110 token. */
bool kr_http_is_token(unsigned char c);
