/* What a program of `krait run` needs: --with, --requirements, and what it says of itself (PEP 723). */
#pragma once
#include "options.h"
#include <stddef.h>

struct kr_run_needs {
    char *text; /* of a requirements.txt, owned; NULL: nothing is needed */
};

struct kr_run_needs_of {
    const struct kr_opt_list *with;
    const char *file;        /* a requirements.txt; NULL: none */
    const char *name, *code; /* the program, as errors call it */
    size_t len;              /* of the code */
    const char *python;      /* "3.11.0": of which the last number is not known */
};

/* Reads all of it and checks it by its grammar. 0, or -errno with a line that names where it stands. */
int kr_run_needs_load(struct kr_run_needs *ret, const struct kr_run_needs_of *of, struct kr_err *err);
void kr_run_needs_done(struct kr_run_needs *n);
