/* A terminal: one program on a pseudo-terminal of the cell, and the relay between it and the session's pipes.
 *
 * Called by kernel_session.c for KR_S_TERMINAL. The program is a process session of its own with the pseudo-terminal as
 * its controlling terminal, and has no other descriptor; the relay is the session's process. Invariants: bytes are
 * passed on as they are, each once; a side that takes nothing holds back the other, and neither holds back the channel;
 * KR_S_EXITED is sent after the last byte that the program's terminal held at its end. Python runs here for one thing:
 * the handler of SIGURG, by which programs ask for packages as they do in a run (python/relay.py). */
#include "fd.h"
#include "frame.h"
#include "kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define HALF 65536u
#define LAST_BYTES (4 * HALF) /* after the end of the program: more than a terminal holds, less than daemons write */
#define RETRY_MS 100          /* the kernel's word that a terminal has room again may be lost: it is tried anyway */
#define EXIT_NO_PROGRAM 127
#define WORDS_MAX 4096u

/* One direction. */
struct half {
    size_t at, len; /* [at, len) waits */
    unsigned char bytes[HALF];
};

static struct relay {
    int master, slave; /* slave: held until the program has ended, so that the terminal does not hang up before */
    int program_fd;    /* pidfd, -1 after its end */
    pid_t program;
    uint32_t run;
    bool input_ended;
    size_t last; /* bytes that were read after its end */
    bool dry;    /* nothing is left to read after its end */
    struct half in, out;
} relay;

static size_t waiting(const struct half *h)
{
    return h->len - h->at;
}

/* ---- the program ---- */

static int open_pair(const struct kr_s_terminal *how, struct kr_err *err)
{
    struct winsize size = {.ws_col = (unsigned short)how->cols, .ws_row = (unsigned short)how->rows};
    struct termios t;
    int unlocked = 0;

    relay.master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (relay.master < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "this sandbox has no terminals");
    if (ioctl(relay.master, TIOCSPTLCK, &unlocked) < 0 ||
        (relay.slave = ioctl(relay.master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0 ||
        ioctl(relay.master, TIOCSWINSZ, &size) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open a terminal");
    if (tcgetattr(relay.slave, &t) == 0) {
        t.c_iflag |= IUTF8; /* an erased character is a whole one */
        (void)tcsetattr(relay.slave, TCSANOW, &t);
    }
    return 0;
}

/* In the child. Python ignores signals that programs expect to die of, and this process blocks SIGINT. */
static void as_programs_expect(void)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        (void)signal(i, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void be_program(char *const *words)
{
    static char *const bash[] = {(char *)"bash", NULL}, *const sh[] = {(char *)"sh", NULL};
    static const char none[] = "krait: the program cannot be started: ";
    const char *why;

    as_programs_expect();
    if (setsid() < 0 || ioctl(relay.slave, TIOCSCTTY, 0) < 0)
        _exit(EXIT_NO_PROGRAM);
    for (int fd = 0; fd <= 2; fd++)
        if (dup2(relay.slave, fd) < 0)
            _exit(EXIT_NO_PROGRAM);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
        _exit(EXIT_NO_PROGRAM);
    if (words[0]) {
        (void)execvp(words[0], words);
    } else {
        (void)execv("/bin/bash", bash);
        (void)execv("/bin/sh", sh);
    }
    why = strerror(errno);
    if (write(2, none, sizeof none - 1) < 0 || write(2, why, strlen(why)) < 0 || write(2, "\r\n", 2) < 0)
        _exit(EXIT_NO_PROGRAM);
    _exit(EXIT_NO_PROGRAM);
}

static int start_program(char *const *words, struct kr_err *err)
{
    relay.program = fork();
    if (relay.program == 0)
        be_program(words);
    if (relay.program < 0)
        return kr_err_set(err, KR_ERR_LIMIT, errno, "start the terminal's program");
    relay.program_fd = (int)syscall(SYS_pidfd_open, relay.program, 0);
    return relay.program_fd < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "watch the terminal's program") : 0;
}

/* ---- the relay ---- */

static void set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/* Reads into an empty half. 1, 0 nothing now, -1 the end. */
static int fill(struct half *h, int fd)
{
    ssize_t n;

    if (waiting(h) > 0)
        return 1;
    n = read(fd, h->bytes, sizeof h->bytes);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    h->at = 0;
    h->len = (size_t)n;
    return 1;
}

/* False: the other side is gone. */
static bool drain(struct half *h, int fd)
{
    ssize_t n;

    if (waiting(h) == 0)
        return true;
    n = write(fd, h->bytes + h->at, waiting(h));
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    h->at += (size_t)n;
    return true;
}

static void steer(const struct kr_s_steer *how)
{
    struct winsize size;
    pid_t group;

    if (how->cols > 0 && how->rows > 0 && ioctl(relay.master, TIOCGWINSZ, &size) == 0) {
        size.ws_col = (unsigned short)how->cols;
        size.ws_row = (unsigned short)how->rows;
        (void)ioctl(relay.master, TIOCSWINSZ, &size); /* which sends SIGWINCH */
    }
    if (how->signo == 0)
        return;
    group = tcgetpgrp(relay.master);
    if (group > 0)
        (void)kill(-group, (int)how->signo);
}

/* A frame is there: of this terminal, or of one whose end crossed it. */
static void on_frame(void)
{
    struct kr_frame head;
    unsigned char *payload;
    struct kr_s_steer how;

    if (kr_session_take_packaged()) {
        PyErr_Clear();
        return;
    }
    payload = kr_session_frame(&head);
    if (head.type == KR_S_STEER && head.id == relay.run) {
        memcpy(&how, payload, sizeof how);
        steer(&how);
    } else if (head.type != KR_S_STEER && head.type != KR_S_INTERRUPT && head.type != KR_S_REPLY &&
               head.type != KR_S_PACKAGED) {
        _exit(114);
    }
    free(payload);
}

static void on_program_end(int *ret_status)
{
    if (waitpid(relay.program, ret_status, WNOHANG) != relay.program)
        return;
    relay.program_fd = kr_fd_close(relay.program_fd);
    relay.slave = kr_fd_close(relay.slave);
}

/* What the terminal still holds. Others may go on writing to it: what comes past LAST_BYTES is theirs. */
static void take_last_bytes(void)
{
    if (waiting(&relay.out) > 0)
        return;
    if (fill(&relay.out, relay.master) <= 0)
        relay.dry = true;
    else
        relay.last += waiting(&relay.out);
    relay.dry |= relay.last > LAST_BYTES;
}

enum { P_CHANNEL, P_IN, P_MASTER, P_OUT, P_PROGRAM, P_MAX_ };

static void choose(struct pollfd p[P_MAX_])
{
    bool runs = relay.program_fd >= 0;
    short master = (short)((waiting(&relay.out) == 0 && runs ? POLLIN : 0) | (waiting(&relay.in) > 0 ? POLLOUT : 0));

    p[P_CHANNEL] = (struct pollfd){KR_CHANNEL_FD, POLLIN, 0};
    p[P_IN] = (struct pollfd){waiting(&relay.in) == 0 && !relay.input_ended && runs ? 0 : -1, POLLIN, 0};
    p[P_MASTER] = (struct pollfd){master && runs ? relay.master : -1, master, 0};
    p[P_OUT] = (struct pollfd){waiting(&relay.out) > 0 ? 1 : -1, POLLOUT, 0};
    p[P_PROGRAM] = (struct pollfd){relay.program_fd, POLLIN, 0};
}

/* One turn. False: the engine takes nothing any more. */
static bool turn(int *ret_status)
{
    struct pollfd p[P_MAX_];

    int wait_ms = relay.program_fd < 0 && waiting(&relay.out) == 0 ? 0 : waiting(&relay.in) > 0 ? RETRY_MS : -1;

    /* Before the poll, for the handler may take frames of the channel. One that comes in between is sent again by the
     * program that waits. */
    if (PyErr_CheckSignals() < 0)
        PyErr_Clear();
    choose(p);
    if (poll(p, P_MAX_, wait_ms) < 0 && errno != EINTR)
        return false;
    if (p[P_CHANNEL].revents)
        on_frame();
    if (p[P_IN].revents)
        relay.input_ended = fill(&relay.in, 0) < 0;
    if (relay.program_fd >= 0) {
        if (!drain(&relay.in, relay.master))
            relay.in.at = relay.in.len; /* it takes no more: its end is near */
        if (p[P_MASTER].revents & POLLIN)
            (void)fill(&relay.out, relay.master);
        if (p[P_PROGRAM].revents)
            on_program_end(ret_status);
    } else {
        take_last_bytes();
    }
    return drain(&relay.out, 1);
}

static int relay_bytes(void)
{
    int status = 0;

    set_nonblocking(0);
    set_nonblocking(1);
    while (relay.program_fd >= 0 || !relay.dry || waiting(&relay.out) > 0)
        if (!turn(&status))
            _exit(KR_EXIT_NO_CHANNEL);
    relay.master = kr_fd_close(relay.master);
    return status;
}

/* ---- the frame ---- */

/* The texts behind the struct: TERM, then the program. -EPROTO for what is cut. */
static int take_texts(char *at, size_t len, uint32_t count, char *words[WORDS_MAX + 1])
{
    const char *end = at + len;

    if (count == 0 || count > WORDS_MAX)
        return -EPROTO;
    for (uint32_t i = 0; i < count; i++) {
        size_t n = strnlen(at, (size_t)(end - at));

        if (at + n == end)
            return -EPROTO;
        words[i] = at;
        at += n + 1;
    }
    words[count] = NULL;
    return at == end ? 0 : -EPROTO;
}

/* Of a shell that a person sees: a short prompt, and no file of its history among those of the sandbox. */
static void set_variables(const char *term)
{
    if (*term)
        (void)setenv("TERM", term, 1);
    (void)setenv("PS1", "\\w \\$ ", 0);
    (void)setenv("HISTFILE", "", 0);
}

static int begin_terminal(const struct kr_s_terminal *how, char **words, struct kr_err *err)
{
    int r;

    set_variables(words[0]);
    r = open_pair(how, err);
    return r < 0 ? r : start_program(words + 1, err);
}

/* To the relay: what is asked for from now on is asked in this terminal. */
static void say_terminal(uint32_t run)
{
    PyObject *r = PyObject_CallFunction(kr_hooks.terminal, "I", (unsigned int)run);

    Py_XDECREF(r);
    PyErr_Clear();
}

void kr_terminal_serve(uint32_t run, unsigned char *payload, size_t len)
{
    static char *words[WORDS_MAX + 1];
    struct kr_s_terminal how;
    struct kr_s_exited end = {0};
    struct kr_err err = {0};

    memcpy(&how, payload, sizeof how); /* the codec has checked the size */
    relay = (struct relay){.master = -1, .slave = -1, .program_fd = -1, .run = run};
    if (take_texts((char *)payload + sizeof how, len - sizeof how, how.texts, words) < 0)
        _exit(114);
    say_terminal(run);
    if (begin_terminal(&how, words, &err) < 0) {
        (void)kr_frame_write(KR_CHANNEL_FD, KR_S_FAILED, run, &err, sizeof err);
        _exit(112);
    }
    end.status = relay_bytes();
    if (kr_frame_write(KR_CHANNEL_FD, KR_S_EXITED, run, &end, sizeof end) < 0)
        _exit(0);
}
