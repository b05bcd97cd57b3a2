/* Small helpers for the Python side: page-table inheritance, huge pages, numpy's seed, the drain barrier. None of them
 * is needed for isolation. */
#include "kernel.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define MT_WORDS 624
#define DRAIN_SPINS 20 /* yields before sleeping */
#define DRAIN_STEP_NS 20000
#define DRAIN_MAX_NS 2000000000ull

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* numpy's legacy generator is uint32 key[624] and int pos; pos = 624 makes it generate a fresh block from the key. */
PyObject *kr_py_npseed(PyObject *self, PyObject *args)
{
    unsigned long long address;
    uint32_t *state;
    int pos;
    char *at;
    (void)self;
    if (!PyArg_ParseTuple(args, "K", &address))
        return NULL;
    state = (uint32_t *)(uintptr_t)address;
    at = (char *)state;
    for (size_t left = MT_WORDS * sizeof *state; left > 0;) {
        ssize_t n = getrandom(at, left, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        at += n;
        left -= (size_t)n;
    }
    pos = MT_WORDS;
    memcpy(state + MT_WORDS, &pos, sizeof pos);
    Py_RETURN_NONE;
}

PyObject *kr_py_madvise(PyObject *self, PyObject *args)
{
    unsigned long long start, end;
    int advice, r;
    (void)self;
    if (!PyArg_ParseTuple(args, "KKi", &start, &end, &advice))
        return NULL;
    r = madvise((void *)(uintptr_t)start, (size_t)(end - start), advice);
    return PyLong_FromLong(r < 0 ? -errno : 0);
}

/* fork() copies no page table of a file mapping that was never written to, so each session would fault the
 * interpreter's text in again. One byte written back as it was gives the mapping an anon_vma, and with it the copy. */
PyObject *kr_py_anonify(PyObject *self, PyObject *args)
{
    unsigned long long start, end;
    int prot;
    volatile char *p;
    char byte;
    size_t len;
    (void)self;
    if (!PyArg_ParseTuple(args, "KKi", &start, &end, &prot))
        return NULL;
    p = (volatile char *)(uintptr_t)start;
    len = (size_t)(end - start);
    if (mprotect((void *)p, len, prot | PROT_WRITE) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    byte = *p;
    *p = byte;
    if (mprotect((void *)p, len, prot) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    return PyLong_FromLong(madvise((void *)p, len, MADV_POPULATE_READ) < 0 ? -errno : 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void drain(int fd)
{
    static const struct timespec none = {0, 0}, step = {0, DRAIN_STEP_NS};
    uint64_t end = 0;
    int left = 0;
    for (int spins = 0; ioctl(fd, FIONREAD, &left) == 0 && left > 0; spins++) {
        if (spins < DRAIN_SPINS) {
            nanosleep(&none, NULL);
            continue;
        }
        if (end == 0)
            end = now_ns() + DRAIN_MAX_NS;
        if (now_ns() > end)
            return; /* a reader this slow gets its streams in two orders rather than never */
        nanosleep(&step, NULL);
    }
}

PyObject *kr_py_drain(PyObject *self, PyObject *args)
{
    int fd;
    PyThreadState *gil;
    (void)self;
    if (!PyArg_ParseTuple(args, "i", &fd))
        return NULL;
    gil = PyEval_SaveThread();
    drain(fd);
    PyEval_RestoreThread(gil);
    Py_RETURN_NONE;
}

PyObject *kr_py_fflush(PyObject *self, PyObject *args)
{
    PyThreadState *gil;
    (void)self, (void)args;
    gil = PyEval_SaveThread();
    (void)fflush(NULL); /* what a closed descriptor refuses is the user's own doing */
    PyEval_RestoreThread(gil);
    Py_RETURN_NONE;
}
