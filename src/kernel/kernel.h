/* What the extension's files share. The extension is loaded by a zygote, which forks sessions with it; only the stable
 * ABI of Python 3.8 is used. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "err.h"
#include "proto.h"
#include "seccomp.h"
#include <sys/types.h>

#define KR_CHANNEL_FD 3 /* of every session */
#define KR_GATE_FD 4    /* until it is handed over */

/* A FORK request as the zygote took it. */
struct kr_fork {
    struct kr_z_fork req;
    int channel, out, err, gate;
    int in;                 /* -1: /dev/null of the cell */
    int init;               /* pidfd of the cell's init, -1 when contained, or where its namespaces are given */
    int spaces[KR_SPACES_]; /* the cell's namespaces, with req.spaces */
    int tasks[8];           /* tasks files of the cell's v1 cgroups */
    unsigned task_count;
};

/* Hooks of the Python side, set once. */
struct kr_hooks {
    PyObject *after_fork, *start, *run, *venv, *packaged, *terminal;
};
extern struct kr_hooks kr_hooks;

/* enter.c: from a fresh copy of the zygote to a confined process. On return every layer but Landlock holds and only
 * descriptors 0 to 4 are open. */
int kr_enter(const struct kr_fork *f, const struct kr_seccomp *filter, struct kr_err *err);

/* kernel_session.c */
/* The session's life: waits for the warden's word, enters the cell, serves the channel. Never returns. */
_Noreturn void kr_session_main(const struct kr_fork *f, const struct kr_seccomp *filter);
/* The request this process was forked for; NULL in the zygote. */
PyObject *kr_py_send(PyObject *self, PyObject *args);
PyObject *kr_py_recv_reply(PyObject *self, PyObject *args);
PyObject *kr_py_recv_packaged(PyObject *self, PyObject *args);
PyObject *kr_py_interruptible(PyObject *self, PyObject *body);
PyObject *kr_py_setrlimits(PyObject *self, PyObject *args);
PyObject *kr_py_restrict(PyObject *self, PyObject *args);
PyObject *kr_py_get_ready(PyObject *self, PyObject *args);
PyObject *kr_py_scratch(PyObject *self, PyObject *args);

/* The next frame of the channel and its payload (malloc'd, NUL terminated). Ends the process when the engine has closed
 * the channel. */
struct kr_frame;
unsigned char *kr_session_frame(struct kr_frame *head);
/* Has the relay of what programs of the cell ask for take the KR_S_PACKAGED that are next on the channel. False: none
 * is. An exception may be set on return, of a handler of the user's. */
bool kr_session_take_packaged(void);

/* kernel_terminal.c: serves KR_S_TERMINAL until its program has ended. */
void kr_terminal_serve(uint32_t run, unsigned char *payload, size_t len);

/* kernel_zygote.c */
PyObject *kr_py_serve(PyObject *self, PyObject *args);
PyObject *kr_py_fail(PyObject *self, PyObject *args);
PyObject *kr_py_confine(PyObject *self, PyObject *args);

/* memory.c: what makes forking cheap, and what keeps siblings apart */
PyObject *kr_py_npseed(PyObject *self, PyObject *args);
PyObject *kr_py_madvise(PyObject *self, PyObject *args);
PyObject *kr_py_anonify(PyObject *self, PyObject *args);
PyObject *kr_py_drain(PyObject *self, PyObject *args);
PyObject *kr_py_fflush(PyObject *self, PyObject *args);
