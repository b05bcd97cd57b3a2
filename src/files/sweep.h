/* The size of a host folder, found by walking it, on the thread pool but for the first look at a small one:
 * accounted, not enforced. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct kr_sweep;
struct uv_loop_s;

#define KR_SWEEP_ENTRIES_MAX 200000u /* beyond these the walk stops, and what was seen counts */

/* Starts the first walk, whose result is the baseline. 0 or -errno. */
int kr_sweep_new(struct uv_loop_s *loop, const char *path, struct kr_sweep **ret_sweep);
/* May be called while a walk is under way: it goes on alone and frees itself. Takes NULL. */
void kr_sweep_close(struct kr_sweep *s);
/* Starts another walk unless one is under way. */
void kr_sweep_again(struct kr_sweep *s);
/* Bytes more than at the baseline; 0 until two walks are done. */
uint64_t kr_sweep_growth(const struct kr_sweep *s);
/* Bytes beneath the folder as the blocks on disk count them. Follows no link, crosses no mount. May block: thread
 * pool, tests. */
int kr_sweep_measure(const char *path, uint64_t *ret_bytes);
