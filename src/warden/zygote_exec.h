/* From a forked child of a builder or keeper to a Python that will be a zygote. */
#pragma once
#include "builder.h"
#include <stdint.h>

/* Executes the interpreter on `dir`/boot.py with a scrubbed environment, the named capabilities and the zygote's end of
 * its control socket at descriptor 3. `scratch`: the folder for sessions at level contained, NULL in cells. Never
 * returns. */
_Noreturn void kr_zygote_exec(const struct kr_builder_args *a, const char *dir, const char *scratch,
                              uint64_t keep_caps);
