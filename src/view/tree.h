/* The root every zygote and cell sees: read-only, nosuid, nodev. Built once per zygote by its builder, inside the
 * zygote's own namespaces. */
#pragma once
#include "err.h"
#include <stdint.h>

struct kr_tree_args {
    const char *prefix;             /* interpreter's folder outside /usr, or NULL */
    int prefix_tree;                /* detached mount of it, or -1 */
    const char *const *data_places; /* names of data sets, NULL behind the last */
};

/* Builds the tree on a tmpfs, pivots into it and lets the old root go. What it needs to know beyond that (the
 * interpreter's own folder, names of data sets) is in the arguments. *ret_layers gets KR_LAYER_PROC if a
 * /proc could be mounted. Called with every capability in the zygote's namespaces; afterwards no path leads back to the
 * host's root. Any failure is fatal to the builder. */
int kr_tree_build(const struct kr_tree_args *a, uint32_t *ret_layers, struct kr_err *err);
