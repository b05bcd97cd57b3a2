/* Device nodes of the cells' own, made by the warden where it is the host's root. */
#pragma once
#include "err.h"

/* A detached tmpfs for the cells of one family, with the family's own nodes in it; its builder mounts it. Returns its
 * descriptor, or -EPERM without a word where device nodes cannot be made (not the host's root, a container that forbids
 * it), or another negative errno. */
int kr_devices_new(struct kr_err *err);
/* Makes the folder of the cell with this index, unless an earlier cell has had it. Nothing of that one is left in it:
 * cells see it read-only, and a lock ends with its process. */
int kr_devices_give(int devices, unsigned index, struct kr_err *err);
/* The folder of the family itself. */
#define KR_DEVICES_FAMILY "family"
