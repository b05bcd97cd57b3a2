/* The builder: PID 1 of a zygote's namespaces. Makes the tree, starts the zygote, clones inits of cells. Ends, and
 * everything with it, when the warden or the zygote does. */
#pragma once
#include "proto.h"
#include "tree.h"
#include "warden.h"

struct kr_builder_args {
    int control;        /* to the warden */
    int zygote_control; /* the zygote's end of its own socket to the warden */
    int lifeline;
    enum kr_preload preload;
    const char *modules; /* of KR_PRELOAD_TEMPLATE: what is imported, with commas; "": what was asked for */
    int venv;            /* of KR_PRELOAD_TEMPLATE: detached mount of the template's environment; else -1 */
    uint32_t guest_id;   /* of KR_PRELOAD_TEMPLATE: whom the zygote becomes in the builder's user namespace; else 0 */
    const char *python;
    uint64_t born; /* CLOCK_BOOTTIME in seconds: the start of the machine, as its cells see it */
    struct kr_tree_args tree;
    const struct kr_mount_config *mounts; /* KR_MOUNTS_MAX of them, name NULL behind the last */
};

/* Runs the builder; never returns. Called in the child of a clone() into the zygote's namespaces, before its id maps
 * are written: the first frame on `control` (KR_I_GO) says they are. */
_Noreturn void kr_builder_main(const struct kr_builder_args *a);
