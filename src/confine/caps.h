/* Capabilities: ask for one, keep only a set. Called by warden, builder, init and session; never by the engine after
 * its fork. */
#pragma once
#include "err.h"
#include <stdint.h>

#define KR_CAP(x) (UINT64_C(1) << (x))

/* The effective set of the calling thread; 0 if it cannot be read. */
uint64_t kr_caps_effective(void);
/* Permitted and effective alone become the set (as far as we had it), inheritable and ambient become empty. 0 or
 * -errno. */
int kr_caps_hold(uint64_t keep, struct kr_err *err);
/* Keeps exactly these: bounding, permitted and effective become the set (as far as we had it), inheritable and ambient
 * become empty. keep = 0 gives everything up. 0 or -errno. */
int kr_caps_keep(uint64_t keep, struct kr_err *err);
/* No later exec may gain a privilege. */
int kr_no_new_privs(struct kr_err *err);
/* Becomes one id in the calling user namespace: groups, gid, uid, in this order. Where setgroups is denied there are no
 * groups to give up. */
int kr_become(uint32_t uid, uint32_t gid, struct kr_err *err);
/* Gives everything up: no_new_privs, no capability in any set, and as root, if uid is not 0, that uid and gid without
 * further groups. 0 or -errno. */
int kr_become_powerless(uint32_t uid, uint32_t gid, struct kr_err *err);
/* From root of a user namespace to an id there that keeps these capabilities over an exec. 0 or -errno. */
int kr_caps_pass_on(uint32_t id, uint64_t caps, struct kr_err *err);
