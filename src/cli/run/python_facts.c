/* What an engine that installs packages knows of the interpreter, and the Python files that the program carries.
 *
 * Called by `krait serve` and `krait run`, before anything is forked (kr_cli_find_python()) and in the engine.
 * Invariant: a Python whose version is not known is no reason for a server not to start: there are no packages then. */
#include "python_facts.h"
#include "embed.h"
#include "log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PYTHON_OF_CELLS "/krait/bin/python"

/* "python3.11", the file that every name of an interpreter leads to, says which version it is. */
static bool read_version(const char *file, char *out, size_t size)
{
    unsigned major, minor;
    int used = 0;

    if (sscanf(file, "python%1u.%2u%n", &major, &minor, &used) != 2 || file[used] != '\0')
        return false;
    snprintf(out, size, "%u.%u.0", major, minor);
    return true;
}

void kr_cli_find_python(const char *python, struct kr_cli_python *p)
{
    char *slash;

    if (!realpath(python, p->home) || !(slash = strrchr(p->home, '/')))
        return; /* that it cannot be run is said elsewhere */
    if (!read_version(slash + 1, p->version, sizeof p->version)) {
        kr_log(KR_LOG_WARN, "packages cannot be installed: the name of the interpreter does not tell its version",
               "python=%s", p->home);
        return;
    }
    *slash = '\0';
    p->facts = (struct kr_package_python){.version = p->version, .link = PYTHON_OF_CELLS, .home = p->home};
    p->is_known = true;
}

const char *kr_cli_carried(const char *name)
{
    for (size_t i = 0; i < kr_embed_files_count; i++)
        if (strcmp(kr_embed_files[i].name, name) == 0)
            return (const char *)kr_embed_files[i].data; /* a NUL follows */
    return NULL;
}
