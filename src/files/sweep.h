/* The size of host folders, found by walking them on the thread pool: accounted, not enforced.
 *
 * Sessions over the same folder share one walk. A folder is not walked again before it has been left alone for ten
 * times as long as its last walk took, so that walks take at most a tenth of one thread, whatever is in the folder.
 * Walks have a lane of one thread. */
#pragma once
#include "measure.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_sweep;
struct kr_sweeps;
struct uv_loop_s;

#define KR_SWEEP_REST 10u /* how many times its last walk's time a folder is left alone */

/* The folders that are walked. 0 or -errno. */
int kr_sweeps_new(struct uv_loop_s *loop, struct kr_sweeps **ret_sweeps);
/* Every sweep was closed before. A walk that is under way goes on alone. Takes NULL. */
void kr_sweeps_close(struct kr_sweeps *all);

/* A session's share in the walks of a folder. The baseline is what the folder has now: what another session's walk has
 * just found, or a walk that starts here. `numbered`: not 0 for a folder just below the top of a btrfs subvolume that
 * may have so many entries; it is walked only if the numbers of its inodes do not show that it has no more. 0 or
 * -errno. */
int kr_sweep_new(struct kr_sweeps *all, const char *path, uint64_t numbered, struct kr_sweep **ret_sweep);
/* May be called while a walk is under way. Takes NULL. */
void kr_sweep_close(struct kr_sweep *s);
/* Starts another walk. False if one is under way or the folder must be left alone: then what was written last is not
 * seen yet. */
bool kr_sweep_again(struct kr_sweep *s);
/* What deleted files take that the session's processes have open: a walk does not find them. */
void kr_sweep_set_unlinked(struct kr_sweep *s, uint64_t bytes);
/* The sum for all sessions of the folder. */
uint64_t kr_sweep_unlinked(const struct kr_sweep *s);
/* The baseline and the last look. False until there is a look that began at from_ns or later (kr_clock_ns() scale): an
 * older one, which another session may have asked for, does not say what the folder holds since then. */
bool kr_sweep_seen(const struct kr_sweep *s, uint64_t from_ns, const struct kr_measure **ret_base,
                   const struct kr_measure **ret_now);
