/* The files of a cell's cgroup folder, shared by cgroup.c and cgroup_keep.c. `hier` is an index into g->hier[], `file`
 * a name without slashes. */
#pragma once
#include "cgroup.h"
#include <stddef.h>

/* A path beneath the hierarchy's own folder, which is the group without names; file "": the folder. */
void kr_group_path(const struct kr_group *group, const char *file, char *buf, size_t size);
/* While a folder is made, whatever umask we were started with: its counters are the engine's to read. */
#define KR_GROUP_UMASK 022
/* A descriptor of the caller's own, or -errno. */
int kr_group_open(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file, int flags);
int kr_group_write(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                   const char *text);
/* kr_counter_look() of one of its files. */
int kr_group_look(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, const char *file,
                  const char *key, uint64_t *ret);
/* Sets the limits of a folder that holds cells; `group` zeros: our own. */
int kr_group_bound(const struct kr_cgroups *g, const struct kr_group *group, const struct kr_cgroup_bounds *bounds,
                   struct kr_err *err);
/* Turns the controllers of a v2 folder on for its children. The layers it hands down then. */
uint32_t kr_group_hand_down(const char *path);
/* Closes what is kept open of it. */
void kr_group_close(struct kr_cgroups *g, struct kr_group *group);
/* Writes a v1 CPU quota again, which refills it: what the last cell used up of this period is not the next one's
 * loss. */
int kr_cgroup_refill(const struct kr_cgroups *g, unsigned hier, const struct kr_group *group, struct kr_err *err);
/* Lets the processes of a dead instance's cell die at once: `folder` beneath `dir`. */
void kr_cgroup_unfreeze_stale(int dir, const char *folder);
