/* The environment of a sandbox, FOLDER/env, which is /venv in its cells: generations g1, g2, …, and `current`, the
 * link to the one that counts. docs/design/packages.md.
 *
 * Called by package jobs on the thread pool; every function may block on the disk. One generation is made at a time: a
 * lock in the environment sees to that among processes. Invariant: `current` leads to a complete generation at every
 * moment, after kill -9 and after the power failed. */
#pragma once
#include "package_store.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;

#define KR_PACKAGE_ITEMS_MAX 1000u /* distributions of an environment */

/* One distribution of a generation. */
struct kr_package_item {
    const char *name, *version; /* as METADATA has them */
    const char *key;            /* folder of the store, or of the environment's own */
    bool own;
    const char *sha256, *index, *file; /* of the wheel; index: where from, or "" */
    bool requested;                    /* by the user, not by another distribution alone */
    const char *const *modules;        /* filled by kr_package_env_read(); ignored by kr_package_env_make() */
    size_t module_count;
};

/* What is the same for all environments of one Python. */
struct kr_package_python {
    const char *version; /* "3.11.2" */
    const char *link;    /* what bin/python leads to in a cell: "/krait/bin/python" */
    const char *home;    /* of pyvenv.cfg: the folder of the interpreter in a cell, "/usr/bin" */
};

/* Makes FOLDER/env with an empty generation if there is none; a cell can be built then. */
int kr_package_env_ensure(int folder, const struct kr_package_python *python, struct kr_err *err);

struct kr_package_list {
    struct kr_package_item *items; /* in order of canonical names */
    size_t count;
    uint32_t generation; /* 0: no environment yet */
};
/* What is installed now. An environment that is not there is an empty list. */
int kr_package_env_read(int folder, struct kr_package_list **ret_list, struct kr_err *err);
void kr_package_list_free(struct kr_package_list *list);
/* By canonical name; NULL if it is not in it. */
const struct kr_package_item *kr_package_list_find(const struct kr_package_list *list, const char *canonical);

struct kr_package_made {
    uint32_t generation;
    uint32_t links, folders; /* how many were made */
    char notes[1024]; /* lines: files that two distributions have (the later one's is used, as pip does), or "" */
};
/* Makes a generation of exactly these and renames `current` over to it. What was there before and is not in `items` is
 * uninstalled. Removes generations before the previous one, and own folders that nothing needs. `based_on` is the
 * generation that the caller has read: KR_ERR_CONFLICT if another process was faster. 0 or -errno with err. */
int kr_package_env_make(int folder, struct kr_package_store *store, const struct kr_package_python *python,
                        const struct kr_package_item *items, size_t count, uint32_t based_on,
                        struct kr_package_made *ret_made, struct kr_err *err);

/* A distribution of the system that cells see, too. */
struct kr_package_system {
    const char *name, *version;
};
/* `pip list`'s columns and `pip freeze`'s lines of the environment and, where it has not the same name, the system. */
int kr_package_list_columns(const struct kr_package_list *list, const struct kr_package_system *system,
                            size_t system_count, struct kr_buf *out);
int kr_package_list_freeze(const struct kr_package_list *list, const struct kr_package_system *system,
                           size_t system_count, struct kr_buf *out);
