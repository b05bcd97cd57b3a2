/* The root of a family, which its cells see through views of their own (view.h): read-only, nosuid, nodev. Built once
 * per zygote by its builder, inside the zygote's own namespaces. */
#pragma once
#include "err.h"
#include "view.h"
#include <stdint.h>

struct kr_tree_args {
    const char *python;             /* what `python` and `pip` are to mean in a session */
    const char *prefix;             /* interpreter's folder outside /usr, or NULL */
    int prefix_tree;                /* detached mount of it, or -1 */
    int devices;                    /* detached tmpfs of device nodes (devices.h), or -1: the host's are mounted */
    int gauges;                     /* detached tmpfs of gauges (gauges.h), or -1 */
    int packages;                   /* detached mount of the store of packages, or -1 */
    unsigned cpus;                  /* and the most processors that a cell may be shown */
    const char *const *data_places; /* names of data sets, NULL behind the last */
};

/* Builds the tree on a tmpfs, pivots into it and lets the old root go. What it needs to know beyond that (the
 * interpreter's own folder, names of data sets) is in the arguments. *ret_view says what cells get of it. *ret_layers
 * gets KR_LAYER_PROC if a /proc could be mounted. Called with every capability in the zygote's namespaces; afterwards
 * no path leads back to the host's root. Any failure is fatal to the builder. */
int kr_tree_build(const struct kr_tree_args *a, struct kr_view *ret_view, uint32_t *ret_layers, struct kr_err *err);
