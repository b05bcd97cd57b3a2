/* The keeper: what the builder is where no namespace can be made. It starts the zygote and is the subreaper of
 * everything below, so that nothing outlives the zygote or the warden: orphans become its children, and it kills its
 * children until there are none.
 *
 * What holds a session at this level is Landlock (files, TCP, signals, abstract sockets), the stricter syscall filter
 * and rlimits; not this process. */
#include "contained.h"
#include "caps.h"
#include "clock.h"
#include "embed.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "programs.h"
#include "zygote_exec.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_MS 1000

static _Noreturn void die(const struct kr_builder_args *a, const struct kr_err *err)
{
    (void)kr_frame_send(a->control, KR_B_FAILED, 0, err, sizeof *err, NULL, 0);
    _exit(1);
}

/* One of the kernel's files, put beside its name and then renamed: a zygote that is being replaced may still have the
 * old one mapped. */
static int put_one(const char *dir, const struct kr_embed *e)
{
    char path[400], next[420];
    int r;
    cleanup_fd int fd = -1;
    snprintf(path, sizeof path, "%s/%s", dir, e->name);
    snprintf(next, sizeof next, "%s.%d", path, getpid());
    fd = open(next, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = kr_fd_write_all(fd, e->data, e->len);
    return r < 0 ? r : rename(next, path) < 0 ? -errno : 0;
}

static int put_kernel(const char *dir, const char *scratch, const char *python, struct kr_err *err)
{
    int r;
    if ((mkdir(dir, 0700) < 0 && errno != EEXIST) || (mkdir(scratch, 0700) < 0 && errno != EEXIST))
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make %s", dir);
    for (size_t i = 0; i < kr_embed_files_count; i++) {
        r = put_one(dir, &kr_embed_files[i]);
        if (r < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "put %s into %s", kr_embed_files[i].name, dir);
    }
    r = kr_programs_put(dir, python);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "put programs into %s", dir) : 0;
}

/* Kills our children, and those that become ours by it, until waitpid() knows of none. */
static _Noreturn void end_all(void)
{
    char path[64], text[8192];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    for (uint64_t deadline = kr_clock_after_ms(KILL_MS); kr_clock_ns() < deadline; usleep(500)) {
        ssize_t n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
        char *save = NULL;
        for (char *word = n > 0 ? strtok_r(text, " \n", &save) : NULL; word; word = strtok_r(NULL, " \n", &save))
            (void)kill((pid_t)strtol(word, NULL, 10), SIGKILL); /* ours, and not reaped yet: the pid is its */
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            _exit(0);
    }
    _exit(1);
}

static void on_children(const struct kr_builder_args *a, int signals, pid_t zygote)
{
    struct signalfd_siginfo info;
    int status;
    (void)!read(signals, &info, sizeof info);
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct kr_b_gone gone = {.pid = pid, .status = status, .zygote = 1};
        if (pid != zygote)
            continue;
        (void)kr_frame_send(a->control, KR_B_GONE, 0, &gone, sizeof gone, NULL, 0);
        end_all();
    }
}

static int prepare(const struct kr_builder_args *a)
{
    struct kr_err err = {0};
    struct kr_frame f;
    struct kr_i_go go;
    int fds[KR_FRAME_FDS_MAX];
    sigset_t set;
    if (kr_frame_recv(a->control, &f, &go, sizeof go, fds, kr_clock_after_ms(10000), &err) < 0)
        _exit(0);
    if (kr_no_new_privs(&err) < 0 || kr_caps_keep(0, &err) < 0)
        die(a, &err);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0) < 0 || setsid() < 0)
        _exit(1);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM); /* the lifeline says the same; this only makes it sooner */
    sigprocmask(SIG_SETMASK, &set, NULL);
    sigdelset(&set, SIGTERM);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

_Noreturn void kr_contained_main(const struct kr_builder_args *a, const char *runtime_dir, unsigned slot)
{
    struct kr_err err = {0};
    struct kr_b_ready ready = {0};
    char dir[240], scratch[240];
    int signals;
    pid_t zygote;
    cleanup_fd int pidfd = -1;
    kr_log_set_who("keeper");
    snprintf(dir, sizeof dir, "%s/kernel-%u", runtime_dir, slot);
    snprintf(scratch, sizeof scratch, "%s/scratch-%u", runtime_dir, slot);
    signals = prepare(a);
    if (signals < 0 || put_kernel(dir, scratch, a->python, &err) < 0)
        die(a, &err);
    zygote = fork();
    if (zygote == 0)
        kr_zygote_exec(a, dir, scratch, 0);
    close(a->zygote_control);
    ready.zygote_pid = zygote;
    pidfd = (int)syscall(SYS_pidfd_open, zygote, 0);
    if (pidfd < 0 || kr_frame_send(a->control, KR_B_READY, 0, &ready, sizeof ready, &pidfd, 1) < 0)
        end_all();
    pidfd = kr_fd_close(pidfd);
    for (;;) {
        struct pollfd p[] = {{a->control, POLLIN, 0}, {a->lifeline, POLLIN, 0}, {signals, POLLIN, 0}};
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            end_all();
        if (p[2].revents != 0)
            on_children(a, signals, zygote);
        if (p[0].revents != 0 || p[1].revents != 0) /* nothing is ever asked of a keeper: the warden is gone */
            end_all();
    }
}
