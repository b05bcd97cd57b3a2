/* The one clock. Called from everywhere; the invariant is that every deadline in krait is on this scale. */
#define _GNU_SOURCE 1
#include "clock.h"
#include <time.h>

uint64_t kr_clock_ns(void)
{
    struct timespec ts;

    /* Cannot fail: the clock exists and the pointer is good (clock_gettime(2)). */
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
