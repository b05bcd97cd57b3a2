/* A zygote that is to import the packages of a template, before its interpreter. */
#pragma once
#include "builder.h"

/* In the forked child of the builder: waits for its control group, then makes its view of the files. Ends the process
 * if either fails; the warden has the reason. */
void kr_guest_zygote(const struct kr_builder_args *a, const struct kr_view *view);
