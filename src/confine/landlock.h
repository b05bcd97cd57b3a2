/* Landlock: the session's last restriction. Newest ABI the kernel has; what an older one lacks is reported, not
 * hidden. */
#pragma once
#include "err.h"
#include "proto.h"
#include <stddef.h>

/* The newest ABI whose rights this code handles; a newer kernel is used as this one. */
#define KR_LANDLOCK_ABI_KNOWN 7

/* The kernel's ABI, 0 if there is no Landlock. */
int kr_landlock_abi(void);

struct kr_landlock_path {
    const char *path;
    unsigned rights; /* KR_LL_* */
};
#define KR_LL_READ 1u /* read files and directories */
#define KR_LL_EXEC 2u
#define KR_LL_WRITE 4u      /* change, create, remove, rename, truncate; never device nodes nor socket files */
#define KR_LL_WRITE_FILE 8u /* write to existing files only (devices, /proc/self) */
#define KR_LL_IOCTL_DEV 16u
#define KR_LL_MAY_MISS 32u  /* no error if the path is not there */
#define KR_LL_MAKE_SOCK 64u /* bind() to a path */

/* What of TCP is let through. */
enum kr_landlock_tcp {
    KR_LANDLOCK_TCP_NONE,    /* neither bind() nor connect() */
    KR_LANDLOCK_TCP_ALL,     /* both: the network namespace is the caller's own */
    KR_LANDLOCK_TCP_CONNECT, /* connect() alone */
};

/* Restricts the calling thread (no_new_privs must be set): only these paths; of TCP what `tcp` (enum kr_landlock_tcp)
 * says; signals and abstract sockets kept inside the domain. Returns the ABI used (at most KR_LANDLOCK_ABI_KNOWN), or
 * -errno. */
int kr_landlock_restrict(const struct kr_landlock_path *paths, size_t count, int tcp, struct kr_err *err);
/* The same in two steps, for a caller that does most of it in advance. Returns a ruleset with these rules, which
 * restricts no thread yet, or -errno. */
int kr_landlock_ruleset(const struct kr_landlock_path *paths, size_t count, int tcp, struct kr_err *err);
/* Adds these rules and restricts the calling thread as kr_landlock_restrict() does; closes the ruleset. */
int kr_landlock_enforce(int ruleset, const struct kr_landlock_path *paths, size_t count, struct kr_err *err);
/* As kr_landlock_restrict(), as if the kernel had this ABI and no newer one (1 to kr_landlock_abi()): for tests. */
int kr_landlock_restrict_abi(const struct kr_landlock_path *paths, size_t count, int tcp, int abi, struct kr_err *err);
/* The paths of a session in a cell: what stands from the beginning, and what is attached at hand-off. */
extern const struct kr_landlock_path kr_landlock_cell_paths[], kr_landlock_late_paths[];
extern const size_t kr_landlock_cell_paths_count, kr_landlock_late_paths_count;
