/* A session: a fork of the zygote inside its cell. Serves the engine's frames on descriptor 3 and runs what they say.
 *
 * Invariants: SIGINT is blocked except while user code runs, so a late one never reaches the next run; a copy of this
 * process that user code forked never touches the channel; only this loop reports that a run took place. */
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "kernel.h"
#include "landlock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GO_MS 10000
#define MASK_TRIES 8
#define HEAD_TRIES 1000 /* milliseconds */

static struct kr_fork current;
static char scratch[256];   /* "" in a cell */
static pid_t session_pid;   /* 0 in the zygote */
static long long inherited; /* bytes of data, or -errno */
static uint32_t current_run;
static unsigned frames_read;
static int ruleset = -1; /* of a cell; -1: contained, or there is no Landlock */

static int is_copy(void)
{
    return getpid() != session_pid;
}

/* ---- frames ---- */

unsigned char *kr_session_frame(struct kr_frame *head)
{
    struct kr_err err;
    unsigned char *payload;
    if (kr_fd_read_all(KR_CHANNEL_FD, head, sizeof *head) < 0 || kr_frame_check(head, KR_FRAME_CHANNEL_MAX, &err) < 0)
        _exit(KR_EXIT_NO_CHANNEL);
    frames_read++;
    payload = malloc((size_t)head->len + 1);
    if (!payload || (head->len > 0 && kr_fd_read_all(KR_CHANNEL_FD, payload, head->len) < 0))
        _exit(KR_EXIT_NO_CHANNEL);
    payload[head->len] = '\0';
    return payload;
}

PyObject *kr_py_send(PyObject *self, PyObject *args)
{
    int type, r;
    unsigned int run;
    const char *data;
    Py_ssize_t len;
    (void)self;
    if (!PyArg_ParseTuple(args, "iIy#", &type, &run, &data, &len))
        return NULL;
    if (session_pid == 0 || is_copy()) {
        PyErr_SetString(PyExc_OSError, "this process has no channel");
        return NULL;
    }
    if (len > (Py_ssize_t)KR_FRAME_CHANNEL_MAX) {
        PyErr_SetString(PyExc_ValueError, "frame too large");
        return NULL;
    }
    /* The GIL stays held: two threads must not write into each other's frames. The engine always reads. */
    r = kr_frame_write(KR_CHANNEL_FD, (uint16_t)type, run, data, (size_t)len);
    if (r < 0) {
        errno = -r;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

/* Is the channel's next frame an answer about packages? Waits for the rest of a head of which a part has come, for as
 * long as `tries` say. */
static bool next_is_packaged(int tries)
{
    static const struct timespec moment = {0, 1000000};
    struct kr_frame head;

    if (session_pid == 0 || is_copy())
        return false;
    for (;;) {
        ssize_t n = recv(KR_CHANNEL_FD, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);

        if (n == (ssize_t)sizeof head)
            return head.type == KR_S_PACKAGED;
        if (n <= 0 || tries-- == 0)
            return false;
        (void)nanosleep(&moment, NULL);
    }
}

PyObject *kr_py_recv_packaged(PyObject *self, PyObject *args)
{
    struct kr_frame head;
    unsigned char *payload;
    PyObject *r;

    (void)self, (void)args;
    if (!next_is_packaged(0))
        Py_RETURN_NONE;
    payload = kr_session_frame(&head);
    r = Py_BuildValue("Iy#", (unsigned int)head.id, (const char *)payload, (Py_ssize_t)head.len);
    free(payload);
    return r;
}

/* The relay reads them itself: of a frame that is read here a handler of a signal could overtake the next. What it does
 * not take is dropped. */
bool kr_session_take_packaged(void)
{
    struct kr_frame head;
    unsigned before;
    PyObject *r;

    if (!next_is_packaged(HEAD_TRIES))
        return false;
    before = frames_read; /* a handler of SIGURG may take it first: the next one is then not to be dropped */
    r = PyObject_CallFunction(kr_hooks.packaged, NULL);
    if (r != Py_True && frames_read == before && next_is_packaged(0))
        free(kr_session_frame(&head));
    Py_XDECREF(r);
    return true;
}

PyObject *kr_py_recv_reply(PyObject *self, PyObject *args)
{
    unsigned int run;
    (void)self;
    if (!PyArg_ParseTuple(args, "I", &run))
        return NULL;
    for (;;) {
        struct pollfd p = {KR_CHANNEL_FD, POLLIN, 0};
        struct kr_frame head;
        unsigned char *payload = NULL;
        int n, code;
        PyThreadState *gil;
        PyObject *r;
        if (session_pid == 0 || is_copy()) {
            PyErr_SetString(PyExc_EOFError, "this process has no channel");
            return NULL;
        }
        gil = PyEval_SaveThread();
        n = poll(&p, 1, -1);
        code = errno;
        if (n > 0 && !next_is_packaged(HEAD_TRIES))
            payload = kr_session_frame(&head);
        PyEval_RestoreThread(gil);
        if (n < 0 && code == EINTR) {
            if (PyErr_CheckSignals() < 0)
                return NULL;
            continue;
        }
        if (n <= 0)
            continue;
        r = NULL;
        if (!payload)
            (void)kr_session_take_packaged();
        else if (head.type == KR_S_REPLY && head.id == run)
            r = PyBytes_FromStringAndSize((const char *)payload, (Py_ssize_t)head.len);
        free(payload);
        if (r || PyErr_Occurred())
            return r;
    }
}

/* ---- what the Python side asks of the process ---- */

/* Was this run interrupted before its code began? The engine first sends a frame and then the signal, because a signal
 * does not name its run. Looks at the channel without waiting; consumes the frame. */
static int take_interrupt(void)
{
    struct kr_frame head;
    return !is_copy() && recv(KR_CHANNEL_FD, &head, sizeof head, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof head &&
           head.type == KR_S_INTERRUPT && head.id == current_run && head.len == 0 &&
           kr_fd_read_all(KR_CHANNEL_FD, &head, sizeof head) >= 0;
}

static int mask_sigint(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return pthread_sigmask(how, &set, NULL);
}

/* Lets SIGINT through, that of the run before apart. 0, or -1 with an exception: the run was interrupted already. */
static int let_sigint_through(void)
{
    static const struct timespec none = {0, 0};
    sigset_t set;
    int early;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    while (sigtimedwait(&set, NULL, &none) == SIGINT) /* for the run before, or reported by a frame */
        ;
    early = take_interrupt();
    errno = mask_sigint(SIG_UNBLOCK); /* returned, not set */
    if (errno != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (early)
        (void)raise(SIGINT); /* as it would have come: to whatever handler there is */
    return early ? PyErr_CheckSignals() : 0;
}

/* body() with SIGINT let through; returns what it raised, or None. It is held back again in here, because Python code
 * that does so can itself be interrupted on its way to it; one that came before is handled in here, too. */
PyObject *kr_py_interruptible(PyObject *self, PyObject *body)
{
    PyObject *r = NULL, *type, *value, *trace;
    (void)self;
    if (let_sigint_through() == 0)
        r = PyObject_CallObject(body, NULL);
    for (int i = 0; mask_sigint(SIG_BLOCK) != 0 && i < MASK_TRIES; i++)
        ;
    PyErr_Fetch(&type, &value, &trace);
    if (PyErr_CheckSignals() < 0 && type)
        PyErr_Clear();
    if (type)
        PyErr_Restore(type, value, trace);
    Py_XDECREF(r);
    if (!PyErr_Occurred())
        Py_RETURN_NONE;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace && PyException_SetTraceback(value, trace) < 0)
        PyErr_Clear();
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* What a session has from its zygote and is not charged for, or -errno. */
static long long inherited_data(void)
{
    char text[4096];
    const char *at;
    ssize_t n = kr_fd_read_file_at(AT_FDCWD, "/proc/self/status", text, sizeof text);
    if (n == -ENOENT)
        return 256ll << 20; /* no /proc in this cell: more than any preload has */
    if (n < 0 || !(at = strstr(text, "\nVmData:")))
        return n < 0 ? n : -EIO;
    return strtoll(at + 8, NULL, 10) * 1024;
}

/* Names of the START frame, and the limit behind each. */
static const struct {
    const char *name;
    int resource;
} rlimits[KR_RLIMIT_MAX_] = {
    [KR_RLIMIT_DATA] = {"data", RLIMIT_DATA},       [KR_RLIMIT_FSIZE] = {"fsize", RLIMIT_FSIZE},
    [KR_RLIMIT_NOFILE] = {"nofile", RLIMIT_NOFILE}, [KR_RLIMIT_NPROC] = {"nproc", RLIMIT_NPROC},
    [KR_RLIMIT_CPU] = {"cpu", RLIMIT_CPU},
};

static int lower(enum kr_rlimit which, rlim_t value)
{
    struct rlimit have, want;
    int resource = rlimits[which].resource;
    rlim_t hard;
    if (getrlimit(resource, &have) < 0)
        return -1;
    if (which == KR_RLIMIT_DATA)
        value += (rlim_t)inherited;
    hard = resource == RLIMIT_CPU ? value + 1 : value; /* a second between SIGXCPU and SIGKILL */
    want.rlim_max = have.rlim_max < hard ? have.rlim_max : hard;
    want.rlim_cur = value < want.rlim_max ? value : want.rlim_max;
    return setrlimit(resource, &want);
}

PyObject *kr_py_setrlimits(PyObject *self, PyObject *args)
{
    PyObject *dict;
    (void)self;
    if (!PyArg_ParseTuple(args, "O", &dict))
        return NULL;
    for (enum kr_rlimit i = 0; i < KR_RLIMIT_MAX_; i++) {
        PyObject *item = PyDict_GetItemString(dict, rlimits[i].name);
        unsigned long long value;
        if (!item)
            continue;
        value = PyLong_AsUnsignedLongLong(item);
        if (PyErr_Occurred())
            return NULL;
        if (lower(i, (rlim_t)value) < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

/* Without a mount namespace the host's own tree is what is there: its programs and libraries to read, and the session's
 * folders to write. No /etc/passwd, no /home, no /proc but its own. */
static const struct kr_landlock_path contained_paths[] = {
    {"/usr", KR_LL_READ | KR_LL_EXEC},
    {"/bin", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/sbin", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/lib", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/lib32", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/lib64", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/etc/ld.so.cache", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/alternatives", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/fonts", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/ssl/certs", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/ssl/openssl.cnf", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/localtime", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/mime.types", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/matplotlibrc", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/nsswitch.conf", KR_LL_READ | KR_LL_MAY_MISS},
    {"/etc/python3", KR_LL_READ | KR_LL_MAY_MISS},
    {"/dev/null", KR_LL_READ | KR_LL_WRITE_FILE},
    {"/dev/zero", KR_LL_READ | KR_LL_WRITE_FILE},
    {"/dev/full", KR_LL_READ | KR_LL_WRITE_FILE | KR_LL_MAY_MISS},
    {"/dev/random", KR_LL_READ},
    {"/dev/urandom", KR_LL_READ},
    {"/proc/self", KR_LL_READ | KR_LL_MAY_MISS},
};
#define CONTAINED_PATHS (sizeof contained_paths / sizeof *contained_paths)
#define MORE_PATHS 8

/* `paths` is a list of (path, writable) pairs made by start.py from the engine's START frame, before any user code. */
static int restrict_contained(PyObject *paths, struct kr_err *err)
{
    struct kr_landlock_path all[CONTAINED_PATHS + MORE_PATHS];
    PyObject *kept[MORE_PATHS];
    Py_ssize_t n = PyList_Size(paths), i;
    int writable, r = -1;
    memcpy(all, contained_paths, sizeof contained_paths);
    for (i = 0; i < n && i < MORE_PATHS; i++) {
        PyObject *text;
        if (!PyArg_ParseTuple(PyList_GetItem(paths, i), "Up", &text, &writable) ||
            !(kept[i] = PyUnicode_AsUTF8String(text)))
            break;
        all[CONTAINED_PATHS + (size_t)i] = (struct kr_landlock_path){
            PyBytes_AsString(kept[i]), KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS | (writable ? KR_LL_WRITE : 0)};
    }
    if (!PyErr_Occurred())
        r = kr_landlock_restrict(all, CONTAINED_PATHS + (size_t)i, 0, err);
    while (i-- > 0)
        Py_DECREF(kept[i]);
    return r;
}

PyObject *kr_py_scratch(PyObject *self, PyObject *args)
{
    (void)self, (void)args;
    if (scratch[0] == '\0')
        Py_RETURN_NONE;
    return PyUnicode_FromString(scratch);
}

/* Landlock binds the calling thread and what it starts, not its siblings: there must be none. 1, 0 or -errno. */
static int other_threads(void)
{
    struct stat st;
    if (stat("/proc/self/task", &st) < 0)
        return errno == ENOENT ? 0 : -errno; /* no /proc in this cell; start.py is known to start none before this */
    return st.st_nlink != 3;                 /* a folder's two, and one for each thread (proc(5)) */
}

/* The ABI that holds, or -errno. */
static int restrict_cell(struct kr_err *err)
{
    return kr_landlock_enforce(steal_fd(&ruleset), kr_landlock_late_paths, kr_landlock_late_paths_count, err);
}

static int check_alone(struct kr_err *err)
{
    int threads = other_threads();
    if (threads == 0)
        return 0;
    return kr_err_set(err, KR_ERR_SYSTEM, threads < 0 ? -threads : EBUSY, "a thread was started before Landlock");
}

PyObject *kr_py_restrict(PyObject *self, PyObject *args)
{
    struct kr_err err = {0};
    PyObject *paths;
    int abi;
    (void)self;
    if (!PyArg_ParseTuple(args, "O", &paths))
        return NULL;
    abi = check_alone(&err);
    if (abi >= 0)
        abi = current.req.contained ? restrict_contained(paths, &err) : restrict_cell(&err);
    if (PyErr_Occurred())
        return NULL;
    if (abi < 0) {
        errno = -abi;
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    return PyLong_FromLong(abi);
}

/* ---- the loop ---- */

static _Noreturn void fail(const struct kr_err *err)
{
    (void)kr_frame_write(KR_CHANNEL_FD, KR_S_FAILED, 0, err, sizeof *err);
    _exit(112);
}

/* A Python error in our own code, as a kr_err. */
static void python_error(struct kr_err *err, const char *where)
{
    PyObject *type, *value, *trace, *text = NULL, *bytes = NULL;
    char *data = NULL;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value)
        text = PyObject_Repr(value);
    if (text)
        bytes = PyUnicode_AsUTF8String(text);
    if (!bytes || !(data = PyBytes_AsString(bytes)))
        PyErr_Clear();
    kr_err_set(err, KR_ERR_INTERNAL, 0, "%s: %.180s", where, data ? data : "unknown error");
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* START arrives while the init still carries out the warden's order. A byte from the init (at level contained from the
 * warden) means that the limits are set, the workspace is attached and the init has dropped its rights. The end of the
 * pipe means that one of these failed; the warden reports the reason. */
static void wait_for_gate(void)
{
    char open;
    if (kr_fd_wait(KR_GATE_FD, POLLIN, kr_clock_after_ms(GO_MS)) != 1 || kr_fd_read_all(KR_GATE_FD, &open, 1) < 0)
        _exit(116);
    close(KR_GATE_FD);
}

/* The one thing of a plain START that is Python's to do. */
static void use_venv(void)
{
    struct kr_err err = {0};
    PyObject *r = PyObject_CallFunction(kr_hooks.venv, NULL);

    if (!r) {
        python_error(&err, "venv");
        fail(&err);
    }
    Py_DECREF(r);
}

/* What start.py does with a START that says nothing special, without waking Python for it. */
static void start_plain(const struct kr_s_start *s)
{
    struct kr_err err = {0};
    char text[64];
    int abi = 0;
    int n;
    if (chdir("/workspace") < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "chdir /workspace");
        fail(&err);
    }
    for (enum kr_rlimit i = 0; i < KR_RLIMIT_MAX_; i++)
        if (s->rlimits[i] != 0 && lower(i, (rlim_t)s->rlimits[i]) < 0) {
            kr_err_set(&err, KR_ERR_SYSTEM, errno, "limit %s", rlimits[i].name);
            fail(&err);
        }
    if (s->landlock != 0 && (check_alone(&err) < 0 || (abi = restrict_cell(&err)) < 0))
        fail(&err);
    if (s->venv != 0)
        use_venv();
    n = snprintf(text, sizeof text, "{\"landlock_abi\":%d}", abi);
    if (kr_frame_write(KR_CHANNEL_FD, KR_S_STARTED, 0, text, (size_t)n) < 0)
        _exit(0);
}

static void start_special(const unsigned char *json, size_t len)
{
    struct kr_err err = {0};
    char *data;
    Py_ssize_t size;
    PyObject *r = PyObject_CallFunction(kr_hooks.start, "y#", (const char *)json, (Py_ssize_t)len);
    if (!r || PyBytes_AsStringAndSize(r, &data, &size) < 0) {
        python_error(&err, "start");
        fail(&err);
    }
    if (kr_frame_write(KR_CHANNEL_FD, KR_S_STARTED, 0, data, (size_t)size) < 0)
        _exit(0);
    Py_DECREF(r);
}

static void on_start(const unsigned char *payload, size_t len)
{
    struct kr_s_start s;
    memcpy(&s, payload, sizeof s); /* kr_session_frame() has checked the size */
    wait_for_gate();
    if (len == sizeof s)
        start_plain(&s);
    else
        start_special(payload + sizeof s, len - sizeof s);
}

static void on_run(uint32_t id, const unsigned char *payload, size_t len)
{
    static const char lost[] =
        "{\"cause\":\"exception\",\"exit_code\":1,\"result\":null,\"error\":{\"type\":\"SystemError\","
        "\"message\":\"the run was cut off inside krait's own code\",\"traceback\":\"\",\"line\":null,\"errno\":0},"
        "\"variables\":[],\"hint\":null,\"copy\":false}";
    PyObject *r;
    current_run = id;
    r = PyObject_CallFunction(kr_hooks.run, "Iy#", (unsigned int)id, (const char *)payload, (Py_ssize_t)len);
    if (is_copy())
        _exit(!r);
    if (r) {
        Py_DECREF(r);
        return;
    }
    PyErr_Clear();
    if (kr_frame_write(KR_CHANNEL_FD, KR_S_END, id, lost, sizeof lost - 1) < 0)
        _exit(0);
}

/* Waits without the GIL, so that the user's own threads go on between runs. */
static unsigned char *wait_frame(struct kr_frame *head)
{
    for (;;) {
        struct pollfd p = {KR_CHANNEL_FD, POLLIN, 0};
        unsigned char *payload = NULL;
        int n;
        PyThreadState *gil = PyEval_SaveThread();
        n = poll(&p, 1, -1);
        if (n > 0 && !next_is_packaged(HEAD_TRIES))
            payload = kr_session_frame(head);
        PyEval_RestoreThread(gil);
        /* A handler the user installed; what it raises between runs has nowhere to go. */
        if (PyErr_CheckSignals() < 0)
            PyErr_Clear();
        if (!payload && kr_session_take_packaged())
            PyErr_Clear();
        if (payload)
            return payload;
    }
}

static _Noreturn void serve(void)
{
    for (;;) {
        struct kr_frame head;
        unsigned char *payload = wait_frame(&head);
        if (is_copy())
            _exit(0);
        if (head.type == KR_S_START)
            on_start(payload, head.len);
        else if (head.type == KR_S_RUN)
            on_run(head.id, payload, head.len);
        else if (head.type == KR_S_TERMINAL)
            kr_terminal_serve(head.id, payload, head.len);
        else if (head.type != KR_S_REPLY && head.type != KR_S_INTERRUPT && head.type != KR_S_STEER &&
                 head.type != KR_S_PACKAGED)
            _exit(114); /* those come too late for their run */
        free(payload);
    }
}

static void wait_for_go(int channel)
{
    struct kr_frame head;
    if (kr_fd_wait(channel, POLLIN, kr_clock_after_ms(GO_MS)) != 1 || kr_fd_read_all(channel, &head, sizeof head) < 0 ||
        head.type != KR_S_GO || head.len != 0)
        _exit(111);
}

/* The only folder that a contained session may write to; the warden removes it with the cell. */
static int make_scratch(uint64_t cell)
{
    const char *root = getenv("KRAIT_SCRATCH");
    if (!root ||
        (size_t)snprintf(scratch, sizeof scratch, "%s/c%016llx", root, (unsigned long long)cell) >= sizeof scratch)
        return -1;
    return mkdir(scratch, 0700);
}

static void say_ready(void)
{
    char text[256];
    const char *version = Py_GetVersion();
    int n = snprintf(text, sizeof text,
                     "{\"pid\":%d,\"uid\":%u,\"seccomp\":true,\"no_new_privs\":true,\"python\":\"%.*s\"}", getpid(),
                     getuid(), (int)strcspn(version, " \"\\"), version);
    if (kr_frame_write(KR_CHANNEL_FD, KR_S_READY, 0, text, (size_t)n) < 0)
        _exit(0);
}

/* What START needs and can be had before it. The warden and the init are busy with the hand-over meanwhile. */
static int get_ready(struct kr_err *err)
{
    inherited = inherited_data();
    if (inherited < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-inherited, "read the size of the session's data");
    if (current.req.contained || kr_landlock_abi() < 1) /* START carries whether it is required */
        return 0;
    ruleset = kr_landlock_ruleset(kr_landlock_cell_paths, kr_landlock_cell_paths_count,
                                  current.req.network >= KR_NET_LOOPBACK, err);
    return ruleset < 0 ? ruleset : 0;
}

/* For the bench's zygote, whose children do by hand what kr_session_main() does. */
PyObject *kr_py_get_ready(PyObject *self, PyObject *args)
{
    struct kr_err err = {0};
    (void)self, (void)args;
    if (get_ready(&err) < 0) {
        PyErr_SetString(PyExc_OSError, err.msg);
        return NULL;
    }
    Py_RETURN_NONE;
}

_Noreturn void kr_session_main(const struct kr_fork *f, const struct kr_seccomp *filter)
{
    struct kr_err err = {0};
    PyObject *r;
    current = *f;
    for (unsigned i = 0; i < f->task_count; i++)
        if (write(f->tasks[i], "0", 1) < 0)
            _exit(110);      /* the warden looks again before it hands us over */
    wait_for_go(f->channel); /* pages touched before this would be charged to the zygote */
    PyOS_AfterFork_Child();
    if (f->req.contained && make_scratch(f->req.cell) < 0)
        _exit(115);
    if (kr_enter(f, filter, &err) < 0) {
        /* Where the descriptors were placed already, the channel is at 3; else it is where it was. */
        (void)kr_frame_write(fcntl(f->channel, F_GETFD) >= 0 ? f->channel : KR_CHANNEL_FD, KR_S_FAILED, 0, &err,
                             sizeof err);
        _exit(112);
    }
    session_pid = getpid();
    say_ready();
    r = PyObject_CallFunction(kr_hooks.after_fork, NULL);
    if (!r) {
        python_error(&err, "after_fork");
        fail(&err);
    }
    Py_DECREF(r);
    if (get_ready(&err) < 0)
        fail(&err);
    serve();
}
