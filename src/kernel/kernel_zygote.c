/* The zygote's loop: forks sessions into cells the warden names, reaps them, reports how they ended.
 *
 * One thread, always: glibc's fork() then leaves no lock behind (raw clone3 hangs with a threaded BLAS, so fork() it
 * is). It never reads anything a session or a user wrote. When the warden's socket closes, it ends.
 *
 * One that imports the packages of a template is confined before that, by kr_py_confine(); what its code says to the
 * warden is then judged as a stranger's (docs/design/preload.md). */
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "kernel.h"
#include "landlock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH_FD 100 /* ours live above, so that a session's 0 to 4 are free */

struct child {
    pid_t pid;
    uint64_t cell;
};
struct zygote {
    int control, signals, self; /* self: pidfd of ourselves, the way back into our own pid namespace */
    struct kr_seccomp filters[KR_SECCOMP_SESSIONS_]; /* what a session adds to the one we are under */
    struct child *children;
    size_t count, cap;
};

static int is_confined; /* by kr_py_confine(), before packages were imported */

static enum kr_seccomp_profile profile_of(const struct kr_z_fork *req)
{
    if (req->contained)
        return KR_SECCOMP_CONTAINED;
    return req->network >= KR_NET_LOOPBACK ? KR_SECCOMP_CELL_LOOPBACK : KR_SECCOMP_CELL_NONE;
}

static int remember(struct zygote *z, pid_t pid, uint64_t cell)
{
    if (z->count == z->cap) {
        size_t cap = z->cap == 0 ? 64 : 2 * z->cap;
        struct child *more = realloc(z->children, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        z->children = more;
        z->cap = cap;
    }
    z->children[z->count++] = (struct child){pid, cell};
    return 0;
}

static int fork_into(struct zygote *z, struct kr_fork *f, int *ret_pidfd, struct kr_err *err)
{
    const struct kr_seccomp *filter = &z->filters[profile_of(&f->req)];
    pid_t pid;
    int code, pidfd;
    int into = f->req.spaces ? f->spaces[KR_SPACE_PID] : f->init;
    PyOS_BeforeFork();
    if (into >= 0 && setns(into, CLONE_NEWPID) < 0) {
        code = errno;
        PyOS_AfterFork_Parent();
        return kr_err_set(err, KR_ERR_SYSTEM, code, "enter the cell's pid namespace");
    }
    pid = fork();
    if (pid == 0)
        kr_session_main(f, filter);
    code = errno;
    /* Children must never again be born into that cell: no way back means no zygote. */
    if (into >= 0 && setns(z->self, CLONE_NEWPID) < 0)
        _exit(80);
    PyOS_AfterFork_Parent();
    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, code, "fork a session");
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || remember(z, pid, f->req.cell) < 0) {
        code = errno;
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        kr_fd_close(pidfd);
        return kr_err_set(err, KR_ERR_SYSTEM, code, "keep track of a session");
    }
    *ret_pidfd = pidfd;
    return pid;
}

/* Where each descriptor of a request belongs. How many there are before the tasks files, or 0: there are too few. */
static unsigned place(struct kr_fork *f, const int *fds, unsigned nfds)
{
    unsigned at = 4, cell = f->req.contained ? 0 : f->req.spaces ? KR_SPACES_ : 1;
    if (nfds < at + cell + (f->req.null_stdin ? 0 : 1))
        return 0;
    f->channel = fds[0], f->out = fds[1], f->err = fds[2], f->gate = fds[3];
    if (f->req.spaces && cell > 0)
        memcpy(f->spaces, fds + at, sizeof f->spaces);
    else if (cell > 0)
        f->init = fds[at];
    at += cell;
    if (!f->req.null_stdin)
        f->in = fds[at++];
    return at;
}

static void on_request(struct zygote *z)
{
    struct kr_frame head;
    struct kr_fork f = {.in = -1, .init = -1};
    struct kr_err err = {0};
    int fds[KR_FRAME_FDS_MAX];
    struct kr_z_forked forked = {0};
    cleanup_fd int pidfd = -1;
    unsigned fixed;
    int pid, r;
    if (kr_frame_recv(z->control, &head, &f.req, sizeof f.req, fds, 0, &err) < 0 || head.type != KR_Z_FORK)
        _exit(0); /* the warden is gone */
    fixed = place(&f, fds, head.nfds);
    for (unsigned i = fixed; fixed > 0 && i < head.nfds && f.task_count < sizeof f.tasks / sizeof *f.tasks; i++)
        f.tasks[f.task_count++] = fds[i];
    if (fixed == 0)
        pid = kr_err_set(&err, KR_ERR_PROTOCOL, EPROTO, "a session without its gate, or a cell without its init");
    else
        pid = fork_into(z, &f, &pidfd, &err);
    for (unsigned i = 0; i < head.nfds; i++)
        close(fds[i]);
    forked.cell = f.req.cell;
    forked.pid = pid;
    r = pid < 0 ? kr_frame_send(z->control, KR_Z_FAILED, head.id, &err, sizeof err, NULL, 0)
                : kr_frame_send(z->control, KR_Z_FORKED, head.id, &forked, sizeof forked, &pidfd, 1);
    if (r < 0)
        _exit(0);
}

static uint64_t cpu_ns(const struct rusage *u)
{
    return ((uint64_t)u->ru_utime.tv_sec + (uint64_t)u->ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u->ru_utime.tv_usec + (uint64_t)u->ru_stime.tv_usec) * 1000u;
}

/* Without a pid namespace the session's process group is all we have to take the rest of it down by; the leader is not
 * yet reaped, so the number is still its own. In a cell the group number means another process here, or none, and the
 * init takes everything down instead. */
static void reap(struct zygote *z, int contained)
{
    siginfo_t info;
    while (memset(&info, 0, sizeof info),
           waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        int status = 0;
        struct rusage used;
        if (contained)
            kill(-info.si_pid, SIGKILL);
        if (wait4(info.si_pid, &status, 0, &used) < 0)
            return;
        for (size_t i = 0; i < z->count; i++) {
            struct kr_z_exit e = {.cell = z->children[i].cell, .status = status, .cpu_ns = cpu_ns(&used)};
            if (z->children[i].pid != info.si_pid)
                continue;
            z->children[i] = z->children[--z->count];
            if (kr_frame_send(z->control, KR_Z_EXIT, 0, &e, sizeof e, NULL, 0) < 0)
                _exit(0);
            break;
        }
    }
}

static void on_children(struct zygote *z, int contained)
{
    struct signalfd_siginfo info;
    while (read(z->signals, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    reap(z, contained);
}

static uint64_t own_data_bytes(void)
{
    char text[4096];
    const char *at;
    if (kr_fd_read_file_at(AT_FDCWD, "/proc/self/status", text, sizeof text) <= 0 || !(at = strstr(text, "\nVmData:")))
        return 0;
    return strtoull(at + 8, NULL, 10) * 1024;
}

static int take_part(enum kr_seccomp_profile profile, enum kr_seccomp_part part, struct kr_err *err)
{
    struct kr_seccomp s = {0};
    int r = kr_seccomp_compile(profile, part, &s, err);
    if (r >= 0 && (r = kr_no_new_privs(err)) >= 0)
        r = kr_seccomp_install(&s, err);
    kr_seccomp_done(&s);
    return r;
}

/* From here on we are under the part of the filter that all our sessions share, and they inherit it: the kernel takes
 * about 0.1 ms to load it. What a session still has to do before user code is let through by it, and refused by what
 * the session adds. Failing means no zygote. */
static int take_filter(struct zygote *z, int contained, struct kr_err *err)
{
    int r = 0;
    for (int i = 0; i < KR_SECCOMP_SESSIONS_ && r >= 0; i++)
        if ((i == KR_SECCOMP_CONTAINED) == contained)
            r = kr_seccomp_compile((enum kr_seccomp_profile)i, KR_SECCOMP_REST, &z->filters[i], err);
    if (r < 0 || is_confined)
        return r;
    return take_part(contained ? KR_SECCOMP_CONTAINED : KR_SECCOMP_CELL_NONE, KR_SECCOMP_COMMON, err);
}

/* Before: krait's own code in the interpreter, with CAP_SYS_ADMIN over the family's namespaces, in a control group with
 * limits, with an id and a view of the files of its own. After: the same, but of the calls that are let through for the
 * making of sessions it can make that alone, and of all others what a session may. No Landlock: it would hold for the
 * sessions, too, and a layer that does not know their folders lets nothing be renamed between those (tried on Linux
 * 6.18, also with a layer that has no right of a path). The code of packages comes next. Failing means no zygote. */
PyObject *kr_py_confine(PyObject *self, PyObject *args)
{
    struct kr_err err = {0};
    (void)self, (void)args;
    if (take_part(KR_SECCOMP_CELL_NONE, KR_SECCOMP_COMMON, &err) < 0 ||
        take_part(KR_SECCOMP_CELL_LOOPBACK, KR_SECCOMP_GUEST, &err) < 0) {
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    is_confined = 1;
    Py_RETURN_NONE;
}

static int open_zygote(struct zygote *z, int control, int contained, struct kr_err *err)
{
    sigset_t set;
    int low;
    z->control = fcntl(control, F_DUPFD_CLOEXEC, HIGH_FD);
    close(control);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigdelset(&set, SIGINT);
    low = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    z->signals = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
    close(low);
    low = (int)syscall(SYS_pidfd_open, getpid(), 0);
    z->self = fcntl(low, F_DUPFD_CLOEXEC, HIGH_FD);
    close(low);
    if (z->control < 0 || z->signals < 0 || z->self < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the zygote's descriptors");
    return take_filter(z, contained, err);
}

static int hello(struct zygote *z)
{
    struct kr_z_hello h = {
        .version = KR_PROTO_VERSION, .landlock_abi = (uint32_t)kr_landlock_abi(), .data_bytes = own_data_bytes()};
    snprintf(h.python, sizeof h.python, "%.60s", Py_GetVersion());
    return kr_frame_send(z->control, KR_Z_HELLO, 0, &h, sizeof h, NULL, 0);
}

PyObject *kr_py_fail(PyObject *self, PyObject *args)
{
    int control;
    const char *text;
    struct kr_err err;
    int r;
    (void)self;
    if (!PyArg_ParseTuple(args, "is", &control, &text))
        return NULL;
    kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, "%.230s", text);
    r = kr_frame_send(control, KR_Z_FAILED, 0, &err, sizeof err, NULL, 0);
    if (r < 0) {
        errno = -r;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

PyObject *kr_py_serve(PyObject *self, PyObject *args)
{
    struct zygote z = {0};
    struct kr_err err = {0};
    int control, contained;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &control))
        return NULL;
    contained = getenv("KRAIT_SCRATCH") != NULL; /* set by the keeper, never by a builder */
    if (open_zygote(&z, control, contained, &err) < 0) {
        (void)kr_frame_send(z.control, KR_Z_FAILED, 0, &err, sizeof err, NULL, 0);
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    if (contained && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (hello(&z) < 0)
        _exit(0);
    for (;;) {
        struct pollfd p[] = {{z.control, POLLIN, 0}, {z.signals, POLLIN, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            _exit(81);
        if (p[1].revents != 0)
            on_children(&z, contained);
        if (p[0].revents != 0)
            on_request(&z);
    }
}
