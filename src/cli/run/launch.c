/* Common options and the warden's configuration.
 *
 * Called by the commands before anything is started. Invariant: a path that goes into the configuration
 * is absolute and was there when it was looked at; the warden opens it once, at its start. */
#include "launch.h"
#include "log.h"
#include "seccomp.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void kr_cli_common_default(struct kr_cli_common *c)
{
    *c = (struct kr_cli_common){.python = "/usr/bin/python3", .level = -1, .log_level = -1};
}

int kr_cli_common_apply(const struct kr_cli_common *c, struct kr_warden_config *ret, struct kr_err *err)
{
    int log_level = c->log_level >= 0 ? c->log_level : c->verbose ? KR_LOG_INFO : KR_LOG_WARN;

    kr_log_set_level((enum kr_log_level)log_level);
    if (c->python[0] != '/')
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "--python: \"%.100s\" is not an absolute path; for example /usr/bin/python3", c->python);
    if (access(c->python, X_OK) < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "--python: \"%.100s\" cannot be run", c->python);
    kr_warden_config_default(ret);
    ret->level = c->level;
    ret->allow_contained = c->allow_contained || c->level == KR_LEVEL_CONTAINED;
    return 0;
}

void kr_cli_add_zygote(const struct kr_cli_common *c, struct kr_warden_config *config, enum kr_preload preload)
{
    config->zygotes[config->zygote_count++] = (struct kr_zygote_config){.preload = preload, .python = c->python};
}

int kr_cli_add_workspace(struct kr_warden_config *config, const char *path, bool read_only, char **ret_path,
                         struct kr_err *err)
{
    char *real = realpath(path, NULL);
    struct stat st;

    if (!real || stat(real, &st) < 0) {
        int error = errno;

        free(real);
        return kr_err_set(err, KR_ERR_INVALID, error, "--workspace: \"%.100s\"", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        free(real);
        return kr_err_set(err, KR_ERR_INVALID, 0, "--workspace: \"%.100s\" is not a folder", path);
    }
    config->workspaces[config->workspace_count++] = (struct kr_workspace_config){.path = real, .read_only = read_only};
    *ret_path = real;
    return 0;
}

static int take_filter(struct kr_err *err)
{
    struct kr_seccomp filter = {0};
    int r = kr_seccomp_compile(KR_SECCOMP_SERVER, KR_SECCOMP_WHOLE, &filter, err);

    if (r >= 0)
        r = kr_seccomp_install(&filter, err);
    kr_seccomp_done(&filter);
    return r;
}

/* Before: what the engine's user may reach, by any call its credentials allow; no capability, no_new_privs (setup.c).
 * After, for all threads it will ever have: these paths, no TCP of its own, no signal and no abstract socket outside
 * its domain, and the system calls of server_rules.c. Failing means no engine. */
int kr_cli_confine(const struct kr_landlock_path *paths, size_t count, struct kr_err *err)
{
    int r = 0;

    if (kr_landlock_abi() < 1)
        kr_log(KR_LOG_WARN, "files are not confined for the server itself: this kernel has no Landlock", NULL);
    else
        r = kr_landlock_restrict(paths, count, 0, err);
    return r < 0 ? r : take_filter(err);
}

int kr_cli_confine_engine(int folder, const char *path, const char *cache, struct kr_err *err)
{
    char look[32];
    struct kr_landlock_path paths[] = {
        {"/usr", KR_LL_READ},
        {"/proc", KR_LL_READ}, /* of other processes only what every user may see */
        {"/sys", KR_LL_READ | KR_LL_MAY_MISS},
        {"/dev/null", KR_LL_READ | KR_LL_WRITE_FILE},
        {folder >= 0 ? look
         : path      ? path
                     : "/usr",
         KR_LL_READ},
        {cache ? cache : "/usr", cache ? KR_LL_READ | KR_LL_WRITE : KR_LL_READ},
        {"/dev/urandom", KR_LL_READ | KR_LL_MAY_MISS},
    };

    kr_cli_folder_path(folder, look, sizeof look);
    return kr_cli_confine(paths, sizeof paths / sizeof *paths - (cache ? 0 : 2), err);
}

void kr_cli_folder_path(int folder, char *buf, size_t size)
{
    snprintf(buf, size, "/proc/self/fd/%d", folder);
}

void kr_cli_engine_begin(void)
{
    kr_log_set_who("engine");
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is the errno of a write */
    signal(SIGTTIN, SIG_IGN); /* in the background a terminal's read is EIO, and not a stop of the whole program */
}
