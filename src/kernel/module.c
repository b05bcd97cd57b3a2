/* The module _krait: a table of functions for the Python side (src/kernel/python), which is its only caller. */
#include "kernel.h"

struct kr_hooks kr_hooks;

static PyObject *py_set_hooks(PyObject *self, PyObject *args)
{
    struct kr_hooks h;
    (void)self;
    if (!PyArg_ParseTuple(args, "OOOOOO", &h.after_fork, &h.start, &h.run, &h.venv, &h.packaged, &h.terminal))
        return NULL;
    Py_INCREF(h.after_fork);
    Py_INCREF(h.start);
    Py_INCREF(h.run);
    Py_INCREF(h.venv);
    Py_INCREF(h.packaged);
    Py_INCREF(h.terminal);
    kr_hooks = h;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set_hooks", py_set_hooks, METH_VARARGS, "set_hooks(after_fork, start, run, venv, packaged, terminal)"},
    {"serve", kr_py_serve, METH_VARARGS, "serve(control_fd): fork sessions until the warden is gone"},
    {"fail", kr_py_fail, METH_VARARGS, "fail(control_fd, text): tell the warden why this zygote cannot serve"},
    {"confine", kr_py_confine, METH_NOARGS,
     "confine(): this zygote, before it imports what is not krait's to vouch for"},
    {"send", kr_py_send, METH_VARARGS, "send(type, run, payload): one frame to the engine"},
    {"recv_reply", kr_py_recv_reply, METH_VARARGS, "recv_reply(run): the engine's answer to an INPUT frame"},
    {"recv_packaged", kr_py_recv_packaged, METH_NOARGS,
     "recv_packaged(): the next PACKAGED frame as (number, payload), if it is the channel's next; else None"},
    {"interruptible", kr_py_interruptible, METH_O,
     "interruptible(body): call it with SIGINT let through; what it raised, or None"},
    {"setrlimits", kr_py_setrlimits, METH_VARARGS, "setrlimits({name: value}): lower this process's limits for good"},
    {"restrict", kr_py_restrict, METH_VARARGS,
     "restrict(paths): Landlock; paths: (path, writable) pairs, level contained only; returns the ABI used"},
    {"get_ready", kr_py_get_ready, METH_NOARGS, "get_ready(): what setrlimits() and restrict() need, made beforehand"},
    {"scratch", kr_py_scratch, METH_NOARGS, "scratch(): the session's own folder at level contained, else None"},
    {"npseed", kr_py_npseed, METH_VARARGS, "npseed(address): fresh state for numpy's MT19937 there"},
    {"madvise", kr_py_madvise, METH_VARARGS, "madvise(start, end, advice): 0 or -errno"},
    {"anonify", kr_py_anonify, METH_VARARGS,
     "anonify(start, end, prot): make fork copy the page table of a file mapping"},
    {"fflush", kr_py_fflush, METH_NOARGS, "fflush(): write out what C libraries printed"},
    {"drain", kr_py_drain, METH_VARARGS, "drain(fd): wait until the pipe behind fd has been read"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_krait", "krait's kernel side", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__krait(void);
PyMODINIT_FUNC PyInit__krait(void)
{
    PyObject *m = PyModule_Create(&definition);
    if (!m)
        return NULL;
    if (PyModule_AddIntConstant(m, "DISPLAY", KR_S_DISPLAY) < 0 ||
        PyModule_AddIntConstant(m, "INPUT", KR_S_INPUT) < 0 || PyModule_AddIntConstant(m, "END", KR_S_END) < 0 ||
        PyModule_AddIntConstant(m, "STARTED", KR_S_STARTED) < 0 ||
        PyModule_AddIntConstant(m, "PACKAGES", KR_S_PACKAGES) < 0) {
        Py_DECREF(m);
        return NULL;
    }
    return m;
}
