/* `python`, `python3`, `pip`, `pip3` and `uv` of one interpreter, as files of a folder.
 *
 * Called by the builder for its root tree, and by the keeper of level contained. Debian has no `python`, and the host's
 * `python3` and `pip` may be another interpreter's than the one that sessions run in. Invariant: each file is put
 * beside its name and then renamed, since a family that is being replaced may still use the old one. */
#include "programs.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* With an environment it is a request to the server (pip_command.py), else the system's. A failed download ends in
 * words about versions; the reason is said behind them. */
static const char pip[] =
    "#!/bin/sh\n"
    "if [ -e /venv/pyvenv.cfg ]; then exec /venv/bin/python -I \"${0%/*}/../pip_command.py\" \"$0\" \"$@\"; fi\n"
    "\"${0%/*}/python\" -m pip \"$@\"\n"
    "status=$?\n"
    "case $status.$1 in\n"
    "0.*) ;;\n"
    "*.install | *.download | *.wheel)\n"
    "    echo 'pip: this sandbox has no network, so only local files and folders can be installed' >&2 ;;\n"
    "esac\n"
    "exit $status\n";

/* The real one, where there is one and no environment (pip_command.py). */
static const char uv[] = "#!/bin/sh\n"
                         "exec \"${0%/*}/python\" -I \"${0%/*}/../pip_command.py\" \"$0\" \"$@\"\n";

static const struct {
    const char *name, *text; /* a link to the interpreter where there is no text */
} programs[] = {{"python", NULL}, {"python3", NULL}, {"pip", pip}, {"pip3", pip}, {"uv", uv}};

static int put_script(int dir, const char *name, const char *text)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    return fd < 0 ? -errno : kr_fd_write_all(fd, text, strlen(text));
}

static int put_program(int dir, const char *name, const char *text, const char *python)
{
    char next[32];
    int r;
    snprintf(next, sizeof next, "%s.%d", name, getpid());
    if (unlinkat(dir, next, 0) < 0 && errno != ENOENT)
        return -errno;
    r = text ? put_script(dir, next, text) : symlinkat(python, dir, next) < 0 ? -errno : 0;
    return r < 0 ? r : renameat(dir, next, dir, name) < 0 ? -errno : 0;
}

int kr_programs_put(const char *dir, const char *python)
{
    char path[512];
    int r = 0;
    cleanup_fd int fd = -1;
    snprintf(path, sizeof path, "%s/" KR_PROGRAMS_DIR, dir);
    if ((mkdir(path, 0755) < 0 && errno != EEXIST) || (fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return -errno;
    for (size_t i = 0; r >= 0 && i < sizeof programs / sizeof *programs; i++)
        r = put_program(fd, programs[i].name, programs[i].text, python);
    return r;
}
