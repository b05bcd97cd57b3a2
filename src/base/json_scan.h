/* A look at JSON before it is parsed: what a parser would have to build of it, bounded. */
#pragma once
#include "err.h"
#include <stddef.h>
#include <stdint.h>

struct kr_scan_max {
    uint32_t values; /* values and keys */
    uint32_t depth;  /* arrays and objects within each other */
    uint32_t scalar; /* bytes of one number or word */
    size_t bare;     /* bytes outside of strings */
};

/* Whether a parser that takes these bytes stays within `max`, whether or not they are JSON to their end. One pass, no
 * memory. 0, or -EPROTO with err. Pure. */
int kr_scan_json(const void *data, size_t len, const struct kr_scan_max *max, struct kr_err *err);
