/* What the process takes from itself before it looks at its socket.
 *
 * Called once by egress_main.c, while there is one thread. Before: an id of its own, no capability, no_new_privs
 * (warden/outlet.c), and every file and system call that such a process has. After, for all threads it will ever have:
 * the files that the C library resolves names by, the folder of the index if that is one, no TCP but connect(), and the
 * calls of confine/egress_rules.c. If a step fails the process ends. A kernel that lacks Landlock is said in
 * the log: the id, the filter and the lack of every capability hold, as for the server itself. */
#include "egress_parts.h"
#include "fd.h"
#include "landlock.h"
#include "log.h"
#include "seccomp.h"
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RESOLV_CONF "/etc/resolv.conf"

/* A resolv.conf that another program replaces is a link into that program's folder: then the folder, so that the next
 * one is found as well. NULL: it is a plain file. To be freed. */
static char *folder_of_link(const char *path)
{
    char *real = realpath(path, NULL), *folder = NULL;

    if (real && strcmp(real, path) != 0 && strncmp(real, "/run/", 5) == 0)
        folder = strdup(dirname(real));
    free(real);
    return folder;
}

static int confine_files(const struct kr_eg *eg, struct kr_err *err)
{
    const char *resolv_conf = eg->config->resolv_conf ? eg->config->resolv_conf : RESOLV_CONF;
    const char *reads = kr_eg_hooks.reads ? kr_eg_hooks.reads(eg) : NULL;
    cleanup_free char *folder = folder_of_link(resolv_conf);
    const struct kr_landlock_path paths[] = {
        {resolv_conf, KR_LL_READ | KR_LL_MAY_MISS},
        {folder ? folder : resolv_conf, KR_LL_READ | KR_LL_MAY_MISS},
        {"/etc/hosts", KR_LL_READ | KR_LL_MAY_MISS},
        {"/etc/host.conf", KR_LL_READ | KR_LL_MAY_MISS},
        {"/etc/nsswitch.conf", KR_LL_READ | KR_LL_MAY_MISS},
        {"/etc/gai.conf", KR_LL_READ | KR_LL_MAY_MISS},
        {reads ? reads : resolv_conf, KR_LL_READ | KR_LL_MAY_MISS},
    };
    int r;

    if (kr_landlock_abi() < 1) {
        kr_log(KR_LOG_WARN, "files are not confined for the egress process: this kernel has no Landlock", NULL);
        return 0;
    }
    r = kr_landlock_restrict(paths, sizeof paths / sizeof *paths, KR_LANDLOCK_TCP_CONNECT, err);
    return r < 0 ? r : 0;
}

int kr_eg_confine(const struct kr_eg *eg, struct kr_err *err)
{
    struct kr_seccomp filter = {0};
    int r = confine_files(eg, err);

    if (r >= 0)
        r = kr_seccomp_compile(KR_SECCOMP_EGRESS, KR_SECCOMP_WHOLE, &filter, err);
    if (r >= 0)
        r = kr_seccomp_install(&filter, err);
    kr_seccomp_done(&filter);
    return r < 0 ? r : 0;
}
