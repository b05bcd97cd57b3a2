/* Wheels of the cache that no run refers to leave it, by size: at most once an hour, on the thread pool. */
#pragma once
#include "run_cache.h"
#include "work.h"

struct kr_package_store;
struct uv_loop_s;

/* Embedded; zeroed. */
struct kr_run_sweep {
    struct kr_work work;
    const struct kr_run_cache *cache;
    struct kr_package_store *store;
    uint64_t bytes_max;
};
void kr_run_sweep_start(struct kr_run_sweep *s, struct uv_loop_s *loop);
/* Between start and its end? Then the store must stay. */
bool kr_run_sweep_busy(const struct kr_run_sweep *s);
