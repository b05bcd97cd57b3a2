/* Copies of sandboxes' folders and files, and their removal. */
#pragma once
#include "err.h"

/* Locks the shelf for copies, until the descriptor is closed: shared, so that no move begins, where copies follow no
 * link; else alone, so that no session runs. 0, or -EBUSY with err. */
int kr_shelf_hold(int shelf, struct kr_err *err);
/* Copies what the descriptor is to the path, or for a folder what is in it: hard links, links, modes, owners, times and
 * holes are kept. The descriptor need only be O_PATH. */
int kr_shelf_copy(int from, const char *to, struct kr_err *err);
/* Removes all that is in a folder. */
int kr_shelf_empty(int dir, struct kr_err *err);
/* Removes that folder of a folder with all that is in it; it may be missing. */
int kr_shelf_remove(int dir, const char *name, struct kr_err *err);
