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
