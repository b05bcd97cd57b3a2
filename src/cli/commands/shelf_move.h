/* `krait shelf move`: all sandboxes from one kind of shelf to the other, and copies of single files. */
#pragma once
#include "err.h"
#include <stdint.h>

/* Both refuse while a krait has the data directory. The source is whole until the copy is complete and on the disk; one
 * that was interrupted can be repeated. 0, or -errno with err. */
int kr_shelf_to_image(const char *data, uint64_t size, struct kr_err *err);
int kr_shelf_to_folder(const char *data, struct kr_err *err);

/* Removes that folder of a folder with all that is in it; it may be missing. */
int kr_shelf_remove(int dir, const char *name, struct kr_err *err);
/* Copies what the descriptor is to the path, or for a folder what is in it: hard links, links, modes, owners, times and
 * holes are kept. The descriptor need only be O_PATH. */
int kr_shelf_copy(int from, const char *to, struct kr_err *err);
