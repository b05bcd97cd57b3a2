/* The module _bench: a zygote's loop like src/kernel/kernel_zygote.c, but each FORK says which layers its child takes.
 *
 * Loaded by bench/boot.py into an interpreter that was prepared exactly as a zygote is. It exists so that the product
 * has no switch that leaves a layer out. The child runs its snippet at once, without a word on the wire, and ends: what
 * the engine's wire costs is measured by the engine. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "layers.h"
#include "proto.h"
#include "seccomp.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HIGH_FD 100
#define GO_MS 10000
#define CELL_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

struct zygote {
    int control, signals, self;
    struct kr_seccomp filter;
    PyObject *perform; /* perform(layers): at-fork work, START, the snippet */
};

/* ---- the child ---- */

static int place(const int from[4])
{
    int high[4];
    for (int i = 0; i < 4; i++)
        if ((high[i] = fcntl(from[i], F_DUPFD, 16)) < 0)
            return -errno;
    for (int i = 0; i < 4; i++)
        if (dup3(high[i], i, i == 3 ? O_CLOEXEC : 0) < 0)
            return -errno;
    return close_range(4, ~0U, 0) < 0 ? -errno : 0;
}

static int take_layers(const struct zygote *z, unsigned layers, int init, const int std[4], struct kr_err *err)
{
    int r;
    if (layers & KR_BENCH_NAMESPACES &&
        (setns(init, CELL_NAMESPACES) < 0 || unshare(CLONE_NEWCGROUP) < 0 || chdir("/") < 0))
        return -errno;
    r = place(std);
    if (r < 0)
        return r;
    if (layers & KR_BENCH_NAMESPACES && (setsid() < 0 || kr_become(1000, 1000, err) < 0 || kr_caps_keep(0, err) < 0))
        return -EPERM;
    if (layers & (KR_BENCH_LANDLOCK | KR_BENCH_SECCOMP) && (r = kr_no_new_privs(err)) < 0)
        return r;
    return layers & KR_BENCH_SECCOMP ? kr_seccomp_install(&z->filter, err) : 0;
}

static _Noreturn void be_child(const struct zygote *z, unsigned layers, const int *fds, int init)
{
    const int std[4] = {fds[3], fds[1], fds[2], fds[0]};
    struct kr_err err = {0};
    struct kr_frame head;
    if (layers & KR_BENCH_CGROUP &&
        (kr_fd_wait(fds[0], POLLIN, kr_clock_after_ms(GO_MS)) != 1 || kr_fd_read_all(fds[0], &head, sizeof head) < 0))
        _exit(111);
    PyOS_AfterFork_Child();
    if (take_layers(z, layers, init, std, &err) < 0)
        _exit(112);
    if (!PyObject_CallFunction(z->perform, "I", layers))
        PyErr_Print();
    _exit(0);
}

/* ---- the loop ---- */

static pid_t fork_into(const struct zygote *z, unsigned layers, const int *fds, int init)
{
    pid_t pid;
    PyOS_BeforeFork();
    if (init >= 0 && setns(init, CLONE_NEWPID) < 0)
        _exit(80);
    pid = fork();
    if (pid == 0)
        be_child(z, layers, fds, init);
    if (init >= 0 && setns(z->self, CLONE_NEWPID) < 0)
        _exit(80);
    PyOS_AfterFork_Parent();
    return pid;
}

static void on_request(const struct zygote *z)
{
    struct kr_frame head;
    struct kr_z_fork req;
    struct kr_err err = {0};
    struct kr_z_forked forked = {0};
    int fds[KR_FRAME_FDS_MAX], pidfd;
    pid_t pid;
    if (kr_frame_recv(z->control, &head, &req, sizeof req, fds, 0, &err) < 0 || head.type != KR_Z_FORK)
        _exit(0);
    pid = fork_into(z, req.level, fds, req.level & KR_BENCH_NAMESPACES && head.nfds > 4 ? fds[4] : -1);
    pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    forked.cell = req.cell;
    forked.pid = pid;
    if (pidfd < 0 || kr_frame_send(z->control, KR_Z_FORKED, head.id, &forked, sizeof forked, &pidfd, 1) < 0)
        _exit(0);
    close(pidfd);
    for (unsigned i = 0; i < head.nfds; i++)
        close(fds[i]);
}

/* The pid stands for the cell: the other side has the same number from FORKED. */
static void on_children(const struct zygote *z)
{
    struct signalfd_siginfo info;
    int status;
    while (read(z->signals, &info, sizeof info) == (ssize_t)sizeof info)
        ;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct kr_z_exit e = {.cell = (uint64_t)pid, .status = status};
        if (kr_frame_send(z->control, KR_Z_EXIT, 0, &e, sizeof e, NULL, 0) < 0)
            _exit(0);
    }
}

static int lift(int fd)
{
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    close(fd);
    return high;
}

static PyObject *py_serve(PyObject *self, PyObject *args)
{
    struct zygote z = {0};
    struct kr_err err = {0};
    struct kr_z_hello hello = {.version = KR_PROTO_VERSION};
    int control;
    sigset_t set;
    (void)self;
    if (!PyArg_ParseTuple(args, "iO", &control, &z.perform))
        return NULL;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    z.control = lift(control);
    z.signals = lift(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    z.self = lift((int)syscall(SYS_pidfd_open, getpid(), 0));
    if (z.control < 0 || z.signals < 0 || z.self < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (kr_seccomp_compile(KR_SECCOMP_CELL_NONE, KR_SECCOMP_WHOLE, &z.filter, &err) < 0) {
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    if (kr_frame_send(z.control, KR_Z_HELLO, 0, &hello, sizeof hello, NULL, 0) < 0)
        _exit(0);
    for (;;) {
        struct pollfd p[] = {{z.control, POLLIN, 0}, {z.signals, POLLIN, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            _exit(81);
        if (p[1].revents != 0)
            on_children(&z);
        if (p[0].revents != 0)
            on_request(&z);
    }
}

static PyMethodDef methods[] = {
    {"serve", py_serve, METH_VARARGS, "serve(control_fd, perform): fork children that take the layers asked for"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_bench", "a zygote for measurements", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__bench(void);
PyMODINIT_FUNC PyInit__bench(void)
{
    return PyModule_Create(&definition);
}
