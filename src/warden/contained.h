/* The level without namespaces: a keeper in the builder's place, for a process inside a hardened container. */
#pragma once
#include "builder.h"

/* Runs the keeper of a zygote; never returns. Puts the kernel's files into a folder of `runtime_dir`, starts the zygote
 * and stays its parent, so that everything that is orphaned comes to it and is killed when the zygote or the warden
 * ends. */
_Noreturn void kr_contained_main(const struct kr_builder_args *a, const char *runtime_dir, unsigned slot);
