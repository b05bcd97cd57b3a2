/* Puts the values of secrets in the place of their placeholders, in the value of one field of a request's head. Pure.
 *
 * Called by eg_http.c and the fuzzer for requests to a host that the secrets are bound to. Invariants: nothing but
 * whole placeholders is replaced; values are printable ASCII (secret_terms.h), so no field ends early and none begins;
 * what is not replaced is passed byte for byte. */
#pragma once
#include "buf.h"
#include <stddef.h>
#include <stdint.h>

struct kr_secret_pair {
    const char *placeholder, *value; /* checked by secret_terms.h */
};

/* Adds the value of a field to `out`, with what `pairs` say. Where it is "Basic " and base64 of a text with a
 * placeholder, that text has the value, in base64 again. *used gets bit i for pairs[i]; count <= 32. 0 or -errno of the
 * buffer. */
int kr_secret_put(const struct kr_secret_pair *pairs, size_t count, const char *field, size_t len, struct kr_buf *out,
                  uint32_t *used);
