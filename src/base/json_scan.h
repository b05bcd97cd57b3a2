/* A look at JSON before it is parsed: what a parser would have to build of it, bounded. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Bounds; 0: none. */
struct kr_scan_max {
    uint32_t values; /* values and keys */
    uint32_t
        slots; /* openings and commas, and one: at least as many as values without keys, and two for an empty array */
    uint32_t depth;  /* arrays and objects within each other */
    uint32_t scalar; /* bytes of one number or word */
    size_t bare;     /* bytes outside of strings */
};

/* The first bound that is passed. */
enum kr_scan {
    KR_SCAN_FITS,
    KR_SCAN_TOO_MANY, /* values or slots */
    KR_SCAN_TOO_DEEP,
    KR_SCAN_LONG_SCALAR,
    KR_SCAN_TOO_BARE,
    KR_SCAN_MAX_,
};

/* Whether a parser that takes these bytes stays within `max`, whether or not they are JSON to their end. One pass, no
 * memory. Pure. */
enum kr_scan kr_scan_json(const void *data, size_t len, const struct kr_scan_max *max);
