/* What `krait run` is to run: the code, and where in the sandbox it seems to come from. */
#pragma once
#include "err.h"
#include "run.h"
#include <stddef.h>

struct kr_run_source {
    char *code;
    size_t len;
    struct kr_run_script script;
    char *file;        /* script.file */
    const char **argv; /* script.argv */
};

/* Loads `-c` code (code not NULL), or the file (or "-": stdin) args[0]; args[1…] are the program's. workspace is the
 * real path of the folder that is /workspace, or NULL for a throw-away one; a file outside of it is copied into
 * `copies`, a folder of the sandbox that can be written. May block. 0 or -errno with a line for a person. */
int kr_run_source_load(struct kr_run_source *ret, const char *code, char **args, int count, const char *workspace,
                       const char *copies, struct kr_err *err);
void kr_run_source_done(struct kr_run_source *s);
