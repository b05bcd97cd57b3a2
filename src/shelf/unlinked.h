/* What deleted files take that processes still have open: no walk of a folder finds them. Used by the keeper. */
#pragma once
#include "proto.h"
#include <sys/types.h>

#define KR_UNLINKED_LOOKS_MAX 200000u /* at processes, threads and descriptors; past that the count is not whole */

/* Looks at every descriptor of every thread in `proc`, a /proc that shows the processes to count and no others; its PID
 * 1 is left out. Counts the regular files of the filesystem `dev` that have no name, each once. Reads numbers and file
 * attributes only, waits for no disk, and holds three descriptors. What could not be looked at makes ret->blind 1.
 * 0, or -EACCES when no process shows at all. */
int kr_unlinked_count(int proc, dev_t dev, struct kr_w_counted *ret);
