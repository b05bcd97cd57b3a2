/* `krait shelf move`: all sandboxes from one kind of shelf to the other. */
#pragma once
#include "err.h"
#include <stdint.h>

/* Both refuse while a krait has the data directory. The source is whole until the copy is complete and on the disk; one
 * that was interrupted can be repeated. 0, or -errno with err. */
int kr_shelf_to_image(const char *data, uint64_t size, struct kr_err *err);
int kr_shelf_to_folder(const char *data, struct kr_err *err);
