/* The interpreter as environments need to know it; files that the program carries. */
#pragma once
#include "package_env.h"
#include <stdbool.h>

struct kr_cli_python {
    bool is_known;
    char version[16], home[4096];
    struct kr_package_python facts; /* texts are those above */
};
/* `python`: the path of the interpreter. *ret stays where it is. */
void kr_cli_find_python(const char *python, struct kr_cli_python *ret);
/* The text of a file of src/kernel/python; NULL: there is none of that name. */
const char *kr_cli_carried(const char *name);
