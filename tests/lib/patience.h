/* How long the C tests wait for what comes from elsewhere: a thread, a child, the disk. On a loaded machine it comes
 * late, and how late is not what they judge. A wait is
 *
 *     for (long end = patience_end(); !is_there() && is_before(end);)
 *         one step;
 *
 * and afterwards asks again whether it is there. */
#pragma once
#include <stdbool.h>
#include <time.h>

#define PATIENCE_S 30

static inline long patience_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (long)t.tv_sec;
}

static inline long patience_end(void)
{
    return patience_now() + PATIENCE_S;
}

static inline bool is_before(long end)
{
    return patience_now() < end;
}
