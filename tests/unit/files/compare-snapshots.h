/* What differs between two walks of a folder: what mirror.c must agree with. */
#pragma once
#include "changes.h"

/* What differs: another inode, size, mtime or ctime (which no program can set). At most max (0: KR_CHANGES_MAX).
 * With an incomplete `before`, a file it does not have counts as created only if its ctime is not older than that
 * snapshot; with an incomplete `after`, nothing is called deleted. 0 or -ENOMEM. */
int kr_changes_find(const struct kr_snapshot *before, const struct kr_snapshot *after, size_t max,
                    struct kr_changes *ret);
