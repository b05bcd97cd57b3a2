/* What privilege we were given and which ids we have to give away. Decided once at start by the warden; everything else
 * asks here. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stdint.h>

struct kr_standing {
    enum kr_level level;
    int unique;        /* cells get host ids no other live cell has; else all share ours */
    uint32_t first_id; /* of this instance's range, in our user namespace */
    uint32_t id_count;
    uint32_t uid, gid; /* ours */
    char why[192];     /* what is missing */
};

/* Ids per instance and instances that fit; 1 slot range of one id where there is none to give. */
struct kr_id_space {
    uint32_t first, per_slot, slots;
};

/* Which level is possible: tries a user namespace in a child. `wanted` is an enum kr_level or -1. Fails with what is
 * missing and the setting that helps; contained only if allowed. */
int kr_level_find(int wanted, int allow_contained, enum kr_level *ret, struct kr_err *err);
/* The ids our own user namespace lets us give away. */
void kr_ids_find(enum kr_level level, struct kr_id_space *ret);
/* At level user: becomes root of a user and mount namespace of our own. What holds before: an ordinary user with one
 * thread. After: every capability, but only over what this namespace owns. On failure nothing has changed that outlives
 * the process. */
int kr_level_enter(struct kr_err *err);
/* Writes the id maps of a process that was cloned into a new user namespace beneath ours. */
int kr_maps_write(int pid, const char *map_uid, const char *map_gid, int deny_setgroups, struct kr_err *err);
