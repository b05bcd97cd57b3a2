/* What the warden keeps of root: one row per capability, with what it is for. deploy/krait.service has the same list
 * (unit/warden-caps compares them). */
#pragma once
#include "err.h"
#include <stddef.h>

struct kr_warden_cap {
    int cap; /* linux/capability.h */
    const char *name;
    int nested; /* kept inside a user namespace alone, over which it has no meaning outside */
    const char *why;
};
extern const struct kr_warden_cap kr_warden_caps[];
extern const size_t kr_warden_caps_count;

/* Gives up every other capability of this user namespace, for good. 0 or -errno: then nothing may be started. */
int kr_warden_caps_drop(struct kr_err *err);
