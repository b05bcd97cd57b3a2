/* The folder of a generation, made of links into unpacked wheels.
 *
 * Called by package_env.c with the environment's lock held. Invariant: a name that several wheels have in a folder
 * leads to the last one's, or, if all have a folder there, to a folder of ours in which the same holds. */
#pragma once
#include "package_env.h"
#include "package_store_internal.h"

/* An unpacked wheel. */
struct kr_package_source {
    const char *name; /* of the distribution, for notes */
    int base;         /* the folder that KEY is in */
    const char *key;
    const char *at;       /* the same in a cell: "/krait/packages" or "/venv/own" */
    const json_t *spread; /* of its facts: folders below site/ that are made, not linked; may be NULL */
};

/* Fills the empty folder `generation` and waits until each folder in it is on the disk. `python`: see package_env.h;
 * *made: links, folders and notes are added to. 0 or -errno with err. */
int kr_package_tree_make(int generation, const struct kr_package_python *python,
                         const struct kr_package_source *sources, size_t count, struct kr_package_made *made,
                         struct kr_err *err);
