/* One clock: CLOCK_MONOTONIC in nanoseconds. */
#pragma once
#include <stdint.h>

uint64_t kr_clock_ns(void);
static inline uint64_t kr_clock_after_ms(uint64_t ms)
{
    return kr_clock_ns() + ms * 1000000u;
}
