/* A bounded walk beneath a folder that hostile code changes at the same time. Pure: thread pool. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define KR_WALK_DEPTH_MAX 64u /* folders within each other that are entered; a walk has as many descriptors at most */

struct kr_walk_max {
    uint64_t entries;     /* 0: no limit */
    unsigned depth;       /* 1: the folder's own entries; 0: KR_WALK_DEPTH_MAX */
    uint64_t deadline_ns; /* kr_clock_ns() scale; 0: none */
};

struct kr_walk_entry {
    const char *path; /* from the folder, without a leading slash */
    size_t path_len;
    const char *name; /* its last part */
    unsigned depth;   /* 1: an entry of the folder itself */
    const struct stat *st;
};

/* KR_WALK_ON goes on (into the entry, if it is a folder), KR_WALK_PASS does not enter it, KR_WALK_STOP ends the
 * walk. */
enum kr_walk_do { KR_WALK_ON, KR_WALK_PASS, KR_WALK_STOP };
typedef enum kr_walk_do kr_walk_fn(void *arg, const struct kr_walk_entry *e);

struct kr_walk_result {
    uint64_t entries;    /* that were looked at */
    uint64_t unreadable; /* folders that could not be opened or read */
    bool too_many, too_deep, too_late;
    bool stopped; /* by the function */
};
/* Whether all of it was seen. */
bool kr_walk_complete(const struct kr_walk_result *r);

/* Calls fn for each entry beneath the folder, a folder before its entries, in no order. Opens nothing but folders,
 * follows no link, crosses no mount. 0 or -errno when the folder itself cannot be read. dirfd stays the caller's, its
 * position is not touched. May block. */
int kr_walk(int dirfd, const struct kr_walk_max *max, kr_walk_fn *fn, void *arg, struct kr_walk_result *ret);
