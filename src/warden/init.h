/* The cell's init: PID 1 inside, our code only, a few kilobytes. */
#pragma once
#include "err.h"
#include "view.h"
#include "warden.h"
#include <stdint.h>

struct kr_init_args {
    int channel;                          /* to the warden */
    int lifeline;                         /* end of file: the warden is gone */
    int shared_id;                        /* there is one id: stay as we are */
    int is_hidden;                        /* its zygote must not trace it: it has imported packages of a template */
    unsigned index;                       /* of the cell */
    const struct kr_view *view;           /* what it gets to see of its family's root */
    const struct kr_mount_config *mounts; /* KR_MOUNTS_MAX of them */
};

/* Runs the init; never returns. Called in the child of a clone() into the cell's namespaces. */
_Noreturn void kr_init_main(const struct kr_init_args *a);
