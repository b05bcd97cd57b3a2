/* OpenAPI 3.1, written from the route table: the same rows that serve the requests. */
#pragma once
#include "field.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;
struct kr_err;
struct kr_http_route;

struct kr_api_openapi {
    const char *version;                   /* krait's */
    const char *server_url;                /* NULL: "/" */
    bool auth;                             /* keys are asked for; false: the document says that none is needed */
    uint64_t most_ms[KR_API_CEILING_MAX_]; /* by ceiling: the most that a request may ask for; 0: what the rows say */
};

/* Writes the document, about 500 bytes a field. The same rows give the same bytes. The docs of all rows must be
 * complete (the unit tests check them). 0; -EINVAL with err if a schema's name means two things; -ENOBUFS, -ENOMEM.
 * `out` is to have room for KR_API_OPENAPI_MAX. */
#define KR_API_OPENAPI_MAX (8u << 20)
int kr_api_openapi_write(const struct kr_http_route *routes, size_t count, const struct kr_api_openapi *config,
                         struct kr_buf *out, struct kr_err *err);
