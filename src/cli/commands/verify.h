/* Looking for damage: a backup against its list. */
#pragma once
#include "err.h"
#include <stdbool.h>

#define KR_EXIT_DAMAGED 1 /* of `krait verify` and `krait restore`: damage was found */

/* Every file of the backup against its hash, and its store as of a data directory. 0, -EUCLEAN (damage; the first is in
 * err, all are printed if `prints`), or -errno. May block for long. */
int kr_verify_backup(const char *dir, bool prints, struct kr_err *err);
