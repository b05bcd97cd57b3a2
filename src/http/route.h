/* Routes: one static const table, compiled once, looked up without allocation.
 *
 * A pattern is a path of segments. `{name}` is exactly one non-empty segment, `{name*}` (last only) is the rest of the
 * path, at least one byte, slashes included. A literal segment goes before `{name}`, that before `{name*}`; a pattern
 * that has the request's method goes before one that has not. A trailing slash is part of the pattern: write both if
 * both are meant.
 *
 * The path is matched segment by segment after strict percent-decoding. Refused with 400: a bad or cut `%xx`, an
 * encoded backslash, NUL or other control character, bytes that are not UTF-8, `.` and `..` as segments. An encoded
 * slash is one within `{name*}`, where each part is judged as a segment, and is refused elsewhere. */
#pragma once
#include "http_method.h"
#include <stddef.h>
#include <stdint.h>

struct kr_err;
struct kr_http_ex;

/* `app` is the server's (struct kr_http_config). Answers now, or registers calls (kr_http_defer() or
 * kr_http_accept_body()) and answers later; one that does neither gets 500 sent for it. */
typedef void kr_http_handler(struct kr_http_ex *ex, void *app);

/* Without it the handler is called once the whole body is there (kr_http_body()). With it the handler is called after
 * the head and takes the body piece by piece (kr_http_accept_body()), or answers without reading it. */
#define KR_HTTP_STREAM_BODY 0x1u
/* Where this pattern matches, others do not: a method that it lacks is 405, though a `{name}` in its place has it. */
#define KR_HTTP_ALONE 0x2u
/* This bit and those above belong to the application: the gate reads them through kr_http_route(). */
#define KR_HTTP_APP_FLAG(n) (0x10000u << (n)) /* n = 0..15 */

struct kr_http_route {
    enum kr_http_method method; /* HEAD is served by GET's row unless it has its own; OPTIONS likewise by the engine */
    const char *pattern;
    uint64_t body_limit; /* bytes; past it 413. 0: none is wanted, KR_HTTP_IGNORED_BODY_MAX are dropped unread */
    unsigned flags;
    kr_http_handler *handler;
    const void *doc; /* the application's: what OpenAPI is written from */
};

#define KR_HTTP_IGNORED_BODY_MAX 65536u
#define KR_HTTP_PARAMS_MAX 8u
#define KR_HTTP_SEGMENTS_MAX 32u /* a path with more segments matches nothing but a `{name*}` */

struct kr_http_router;

/* Compiles `count` rows, which are kept, not copied. -EINVAL with err for a pattern that is malformed or, names
 * of parameters aside, given twice with one method. */
int kr_http_router_new(const struct kr_http_route *routes, size_t count, struct kr_http_router **ret_router,
                       struct kr_err *err);
void kr_http_router_free(struct kr_http_router *router);

/* What a lookup found. Parameters point into the caller's `decoded` memory, in the pattern's order. */
struct kr_http_match {
    const struct kr_http_route *route; /* NULL unless the lookup returned 200 */
    unsigned allowed;                  /* bit per method that some matching pattern has; HEAD and OPTIONS included */
    unsigned nparams;
    const char *values[KR_HTTP_PARAMS_MAX]; /* decoded, NUL terminated */
};

/* Looks up a raw path ('/' first, no query). `decoded` has len + 1 bytes and is written. Returns 200, 400, 404 or 405
 * (allowed is then what to say in Allow; for OPTIONS a path that exists is 405 too unless it has a row). */
int kr_http_router_find(const struct kr_http_router *router, enum kr_http_method method, const char *path, size_t len,
                        char *decoded, struct kr_http_match *ret_match);

/* The number of the parameter `name` in a pattern, or -1. */
int kr_http_pattern_param(const char *pattern, const char *name);

/* "GET, HEAD, POST" for a set of methods; `buf` has KR_HTTP_ALLOW_MAX bytes; returns buf. */
#define KR_HTTP_ALLOW_MAX 64u
const char *kr_http_allow_text(unsigned allowed, char *buf);
