/* What the server's packages need: the folder of the store before anything is forked, the store in the server.
 *
 * Called by serve_start.c with the privilege that krait was started with, and by serve_app.c. Invariants: the store is
 * the server's own folder, which cells may enter and not list; a Python whose version is not known is no reason not to
 * start: there are no packages then. */
#include "embed.h"
#include "fd.h"
#include "log.h"
#include "package_store.h"
#include "serve.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

void kr_serve_find_python(struct kr_serve *s)
{
    struct kr_serve_python *p = &s->python;
    char *slash;

    if (!realpath(s->config->cells.python, p->home) || !(slash = strrchr(p->home, '/')))
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

const struct kr_package_python *kr_serve_python_facts(const struct kr_serve *s)
{
    return s->python.is_known ? &s->python.facts : NULL;
}

int kr_serve_open_packages(struct kr_serve *s, struct kr_err *err)
{
    cleanup_fd int data = -1;

    if (!s->python.is_known)
        return 0;
    data = open(s->config->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return data < 0 ? kr_err_set_disk(err, errno, "open the data directory")
                    : kr_package_store_open(data, &s->packages, err);
}

const char *kr_serve_carried(const char *name)
{
    for (size_t i = 0; i < kr_embed_files_count; i++)
        if (strcmp(kr_embed_files[i].name, name) == 0)
            return (const char *)kr_embed_files[i].data; /* a NUL follows */
    return NULL;
}
