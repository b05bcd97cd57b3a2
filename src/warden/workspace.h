/* Host folders that become /workspace: opened once at start, cloned per cell as a detached, idmapped, nosuid, nodev
 * mount. Nothing is ever chowned. Only the warden calls it. */
#pragma once
#include "err.h"
#include <stdint.h>

struct kr_workspace {
    int dir;           /* O_PATH, opened at start; -1: none */
    uint32_t uid, gid; /* who owns it on disk: what the session writes will be theirs */
    uint64_t dev;      /* of its filesystem */
    int read_only;
    char path[256]; /* for messages */
};

/* A user namespace in which the on-disk uid and gid are as_id, and nothing else: what an idmapped mount is made with. A
 * descriptor or -errno. */
int kr_idmap_new(uint32_t uid, uint32_t gid, uint32_t as_id, struct kr_err *err);
int kr_workspace_open(struct kr_workspace *w, const char *path, int read_only, struct kr_err *err);
/* Opens it once more, in the mount namespace we are in by now: the very folder that w->dir is, whatever its path has
 * come to mean. w->dir is closed, or stays as it is on failure. */
int kr_workspace_reopen(struct kr_workspace *w, struct kr_err *err);
/* The folder SHELF/NAME/PART, PART being KR_SHELF_FILES or KR_SHELF_ENV. The name comes from the engine: it is one
 * part, and neither it nor PART may be a link; it must belong to the shelf's owner. ret->dir is the caller's to
 * close. */
#define KR_SHELF_FILES "files"
#define KR_SHELF_ENV "env"
int kr_workspace_on_shelf(const struct kr_workspace *shelf, const char *name, const char *part,
                          struct kr_workspace *ret, struct kr_err *err);
/* A detached mount of it in which the owner's ids appear as those of `idmap` (kr_idmap_new()); -1: no mapping, all ids
 * are ours. A filesystem that cannot map ids is refused by name. */
int kr_workspace_tree(const struct kr_workspace *w, int idmap, struct kr_err *err);
