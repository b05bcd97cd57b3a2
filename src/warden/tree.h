/* The root every zygote and cell sees: read-only, nosuid, nodev. Built once per zygote by its builder, inside the
 * zygote's own namespaces. */
#pragma once
#include "builder.h"
#include "err.h"
#include <stdint.h>

/* Builds the tree on a tmpfs, pivots into it and lets the old root go. What it needs to know beyond that (the
 * interpreter's own folder, names of data sets) is in the builder's arguments. *ret_layers gets KR_LAYER_PROC if a
 * /proc could be mounted. Called with every capability in the zygote's namespaces; afterwards no path leads back to the
 * host's root. Any failure is fatal to the builder. */
int kr_tree_build(const struct kr_builder_args *a, uint32_t *ret_layers, struct kr_err *err);
