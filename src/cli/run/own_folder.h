/* Folders of the engine's own, made before it is forked. */
#pragma once
#include "err.h"
#include <stdint.h>

/* Whose they are. uid 0: the user's who started krait. */
struct kr_owner {
    uint32_t uid, gid;
};

/* What a folder is, for a person. */
struct kr_own_folder {
    const char *what, *flag; /* "data", "--data" */
    const char *choice;      /* "--data or --user" */
};

/* Who an engine with folders is where we are root: the user of that name or number; NULL: `krait`, or an id below those
 * of cells. 0 or -errno with err. */
int kr_own_find_user(const char *name, struct kr_owner *ret, struct kr_err *err);
/* Makes the folders above it, and checks that its owner can pass them. 0 or -errno with err. */
int kr_own_way(const struct kr_owner *owner, const char *path, const struct kr_own_folder *f, struct kr_err *err);
/* The owner's, made if it is missing, and a descriptor of it. As root, one that was made or that is empty and root's is
 * handed to the owner; any other is left alone. It is handed over by descriptor and only if it is still ours: a name
 * may come to mean something else at any time in a folder that others can write. Or -errno with err. */
int kr_own_folder(const struct kr_owner *owner, int at, const char *path, const struct kr_own_folder *f,
                  struct kr_err *err);
