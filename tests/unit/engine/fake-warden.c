/* The fake warden and its fake sessions. See fake-warden.h. */
#define _GNU_SOURCE 1
#include "fake-warden.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "proto.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CELLS 64

static void nap(int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};

    while (nanosleep(&t, &t) < 0 && errno == EINTR)
        ;
}

/* ---- the session ---- */

static int channel;

static void say(uint16_t type, uint32_t id, const char *json)
{
    if (kr_frame_write(channel, type, id, json, strlen(json)) < 0)
        _exit(9);
}

static void end_ok(uint32_t id)
{
    say(KR_S_END, id,
        "{\"cause\":\"ok\",\"exit_code\":0,\"result\":\"42\",\"error\":null,\"variables\":[\"x\"],\"hint\":null,"
        "\"copy\":false}");
}

static void end_error(uint32_t id, const char *type, int number)
{
    char json[256];

    snprintf(json, sizeof json,
             "{\"cause\":\"exception\",\"exit_code\":1,\"error\":{\"type\":\"%s\",\"message\":\"m\",\"traceback\":"
             "\"t\",\"line\":1,\"errno\":%d}}",
             type, number);
    say(KR_S_END, id, json);
}

static void out(int fd, const char *text)
{
    if (kr_fd_write_all(fd, text, strlen(text)) < 0)
        _exit(9);
}

/* As the kernel's Python side does before a display: waits until what was written is read. */
static void barrier(void)
{
    int left;

    while (ioctl(1, FIONREAD, &left) == 0 && left > 0)
        nap(1);
}

/* Reads one frame; the payload is terminated. */
static struct kr_frame hear(char *buf, size_t size)
{
    struct kr_frame f;

    if (kr_fd_read_all(channel, &f, sizeof f) < 0 || f.len >= size || kr_fd_read_all(channel, buf, f.len) < 0)
        _exit(0);
    buf[f.len] = '\0';
    return f;
}

static void wait_for_interrupt(void)
{
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigwait(&set, &sig);
}

static void do_flood(uint32_t id, size_t count)
{
    char chunk[1000];

    memset(chunk, 'x', sizeof chunk);
    for (; count > 0; count -= sizeof chunk)
        if (kr_fd_write_all(1, chunk, sizeof chunk) < 0)
            _exit(9);
    end_ok(id);
}

static void do_input(uint32_t id)
{
    char buf[4096];

    say(KR_S_INPUT, id, "{\"prompt\":\"name? \",\"password\":false}");
    hear(buf, sizeof buf);
    out(1, buf);
    end_ok(id);
}

/* A display whose one format is the unit again and again. */
static void say_many(uint32_t id, const char *unit, int count)
{
    size_t step = strlen(unit), len = 0;
    char *json = malloc(step * (size_t)count + 64);

    if (!json)
        _exit(9);
    len += (size_t)sprintf(json, "{\"data\":{\"x\":[");
    for (int i = 0; i < count; i++, len += step)
        memcpy(json + len, unit, step);
    sprintf(json + len, "1]}}");
    say(KR_S_DISPLAY, id, json);
    free(json);
}

/* A header that promises more than its type may have. */
static void say_head(uint32_t id, uint16_t type, uint32_t len)
{
    struct kr_frame f = {.len = len, .type = type, .id = id};

    (void)!write(channel, &f, sizeof f);
    nap(60000);
}

/* What floods the channel. False: it is another word. */
static bool perform_flood(uint32_t id, const char *code)
{
    int n = 0;

    if (sscanf(code, "arrays %d", &n) == 1) {
        say_many(id, "[],", n);
        end_ok(id);
    } else if (sscanf(code, "texts %d", &n) == 1) {
        say_many(id, "\"[{,\\\"[\",", n);
        end_ok(id);
    } else if (sscanf(code, "displays %d", &n) == 1) {
        while (n-- > 0)
            say(KR_S_DISPLAY, id, "{\"data\":{\"text/plain\":\"d\"}}");
        out(1, "last");
        end_ok(id);
    } else if (strcmp(code, "asks") == 0) {
        for (;;)
            say(KR_S_INPUT, id, "{\"prompt\":\"name? \"}");
    } else if (strcmp(code, "stale flood") == 0) {
        for (;;)
            say(KR_S_DISPLAY, id + 7, "{\"data\":{}}");
    } else if (strcmp(code, "big end") == 0) {
        say_head(id, KR_S_END, (4u << 20) + 1);
    } else if (strcmp(code, "big input") == 0) {
        say_head(id, KR_S_INPUT, (64u << 10) + 1);
    } else {
        return false;
    }
    return true;
}

/* One word, one behaviour. */
static void perform(uint32_t id, const char *code)
{
    static const unsigned char junk[64] = {0xff, 0xff, 0xff, 0xff, 1};
    struct kr_frame big = {.len = (16u << 20) + 1, .type = KR_S_END, .id = id};
    int n = 0;

    if (perform_flood(id, code))
        return;
    if (strncmp(code, "print ", 6) == 0) {
        out(1, code + 6);
        end_ok(id);
    } else if (strncmp(code, "err ", 4) == 0) {
        out(2, code + 4);
        end_ok(id);
    } else if (sscanf(code, "exit %d", &n) == 1) {
        _exit(n);
    } else if (sscanf(code, "signal %d", &n) == 1) {
        signal(n, SIG_DFL);
        raise(n);
    } else if (sscanf(code, "flood %d", &n) == 1) {
        do_flood(id, (size_t)n);
    } else if (sscanf(code, "errno %d", &n) == 1) {
        end_error(id, "OSError", n);
    } else if (strcmp(code, "garbage") == 0) {
        (void)!write(channel, junk, sizeof junk);
        nap(60000);
    } else if (strcmp(code, "badjson") == 0) {
        say(KR_S_END, id, "{\"cause\":\"ok\",");
    } else if (strcmp(code, "badshape") == 0) {
        say(KR_S_END, id, "{\"cause\":\"ok\",\"variables\":[1]}");
    } else if (strcmp(code, "badtype") == 0) {
        say(KR_S_REPLY, id, "{}");
    } else if (strcmp(code, "oversize") == 0) {
        (void)!write(channel, &big, sizeof big);
        nap(60000);
    } else if (strcmp(code, "stale") == 0) {
        end_error(id - 1, "Forged", 0);
        end_error(id + 1, "Forged", 0);
        say(KR_S_DISPLAY, id + 7, "{\"data\":{}}");
        end_ok(id);
        end_error(id, "Forged", 0);
    } else if (strcmp(code, "sleep") == 0) {
        wait_for_interrupt();
        end_error(id, "KeyboardInterrupt", 0);
    } else if (strcmp(code, "deaf") == 0) {
        nap(60000);
    } else if (strcmp(code, "split") == 0) {
        out(1, "\xe2\x82");
        nap(30);
        out(1, "\xac");
        end_ok(id);
    } else if (strcmp(code, "late") == 0) {
        end_ok(id);
        nap(30);
        out(1, "late");
    } else if (strcmp(code, "input") == 0) {
        do_input(id);
    } else if (strcmp(code, "display") == 0) {
        out(1, "before");
        barrier();
        say(KR_S_DISPLAY, id, "{\"data\":{\"text/plain\":\"d\"},\"metadata\":{}}");
        out(1, "after");
        end_ok(id);
    } else if (strcmp(code, "memory") == 0) {
        end_error(id, "MemoryError", 0);
    } else if (strcmp(code, "hangup") == 0) {
        close(channel);
        nap(60000);
    } else if (strcmp(code, "kill warden") == 0) {
        kill(getppid(), SIGKILL);
        nap(60000);
    } else if (strcmp(code, "rotate") == 0) {
        kill(getppid(), SIGUSR1);
        end_ok(id);
    } else if (strcmp(code, "refuse") == 0) {
        kill(getppid(), SIGUSR2);
        end_ok(id);
    } else {
        end_ok(id);
    }
}

static void session(bool lame)
{
    char buf[65536], code[65536], *start, *end;
    sigset_t set;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    say(KR_S_READY, 0,
        lame ? "{\"pid\":2,\"seccomp\":false,\"no_new_privs\":true}"
             : "{\"pid\":2,\"uid\":1000,\"seccomp\":true,\"no_new_privs\":true,\"python\":\"3.11.2\"}");
    for (;;) {
        struct kr_frame f = hear(buf, sizeof buf);

        if (f.type == KR_S_START) {
            say(KR_S_STARTED, 0, "{\"landlock_abi\":7}");
        } else if (f.type == KR_S_RUN) {
            start = strstr(buf, "\"code\":\"") + 8;
            end = strstr(start, "\",\"name\"");
            snprintf(code, sizeof code, "%.*s", (int)(end - start), start);
            perform(f.id, code);
            if (strstr(buf, "\"exit\":true"))
                _exit(0);
        }
    }
}

/* ---- the warden ---- */

static struct {
    uint64_t cell, born_ns;
    pid_t pid;
    bool killed;
} cells[CELLS];
static int control;
static uint64_t last_cell;
static volatile sig_atomic_t rotate, refuse;

static void on_signal(int sig)
{
    if (sig == SIGUSR1)
        rotate = 1;
    else
        refuse = !refuse;
}

static void tell(uint16_t type, uint32_t id, const void *payload, size_t len, const int *fds, unsigned nfds)
{
    if (kr_frame_send(control, type, id, payload, len, fds, nfds) < 0)
        _exit(0);
}

static void tell_zygote(uint32_t state, uint32_t generation)
{
    struct kr_w_zygote z = {.state = state, .generation = generation};

    tell(KR_W_ZYGOTE, 0, &z, sizeof z, NULL, 0);
}

/* CPU time is the cell's age: a core that is always busy. */
static struct kr_usage usage_of(int i, bool oom)
{
    return (struct kr_usage){
        .memory_peak = 1 << 20,
        .cpu_ns = kr_clock_ns() - cells[i].born_ns,
        .oom_kills = oom,
        .have = KR_LAYER_CGROUP_MEMORY | KR_LAYER_CGROUP_CPU | KR_LAYER_CGROUP_PIDS,
    };
}

static void on_open(uint32_t id, const struct kr_w_open *open)
{
    struct kr_w_opened opened = {.cell = ++last_cell, .layers = KR_LAYER_USERNS | KR_LAYER_CGROUP_PIDS};
    struct kr_err err;
    int chan[2], o[2], e[2], in[2], i = 0;

    if (refuse) {
        kr_err_set(&err, KR_ERR_UNAVAILABLE, EPERM, "no cells today");
        tell(KR_W_FAILED, id, &err, sizeof err, NULL, 0);
        return;
    }
    while (cells[i].pid)
        i++;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, chan) < 0 || pipe(o) < 0 || pipe(e) < 0 || pipe(in) < 0)
        _exit(8);
    cells[i].cell = opened.cell;
    cells[i].born_ns = kr_clock_ns();
    cells[i].killed = false;
    cells[i].pid = fork();
    if (cells[i].pid == 0) {
        dup2(in[0], 0);
        dup2(o[1], 1);
        dup2(e[1], 2);
        channel = chan[1];
        close(in[1]);
        close(chan[0]);
        close(control);
        session(open->limits.open_files == 17); /* a number no other test uses: a session that is not confined */
    }
    tell(KR_W_OPENED, id, &opened, sizeof opened, (int[]){chan[0], o[0], e[0], in[1]},
         open->flags & KR_OPEN_STDIN ? 4 : 3);
    int all[] = {chan[0], chan[1], o[0], o[1], e[0], e[1], in[0], in[1]};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        close(all[k]);
}

static int find(uint64_t cell)
{
    for (int i = 0; i < CELLS; i++)
        if (cells[i].pid && cells[i].cell == cell)
            return i;
    return -1;
}

static void on_frame(const struct kr_frame *f, const void *payload)
{
    const struct kr_w_cell *cell = payload;
    int i = f->type == KR_W_OPEN ? -1 : find(cell->cell);
    struct kr_err err;

    if (f->type == KR_W_OPEN) {
        on_open(f->id, payload);
    } else if (f->type == KR_W_START || f->type == KR_W_STAT) {
        struct kr_w_stats stats = {.cell = cell->cell};

        kr_err_set(&err, KR_ERR_NOT_FOUND, ENOENT, "no such cell");
        if (i < 0) {
            tell(KR_W_FAILED, f->id, &err, sizeof err, NULL, 0);
        } else if (f->type == KR_W_START) {
            tell(KR_W_STARTED, f->id, cell, sizeof *cell, NULL, 0);
        } else {
            stats.usage = usage_of(i, false);
            tell(KR_W_STATS, f->id, &stats, sizeof stats, NULL, 0);
        }
    } else if (f->type == KR_W_SIGNAL && i >= 0) {
        kill(cells[i].pid, SIGINT);
    } else if (f->type == KR_W_KILL && i >= 0) {
        cells[i].killed = true;
        kill(cells[i].pid, SIGKILL);
    }
}

static void reap(void)
{
    int status;

    for (int i = 0; i < CELLS; i++) {
        struct kr_w_ended ended = {.cell = cells[i].cell, .known = 1};

        if (!cells[i].pid || waitpid(cells[i].pid, &status, WNOHANG) != cells[i].pid)
            continue;
        ended.status = status;
        ended.usage = usage_of(i, WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && !cells[i].killed);
        cells[i].pid = 0;
        tell(KR_W_ENDED, 0, &ended, sizeof ended, NULL, 0);
    }
}

static void warden(void)
{
    struct kr_w_hello hello = {.version = KR_PROTO_VERSION, .landlock_abi = 7, .layers = KR_LAYER_USERNS};
    uint32_t generation = 1;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGUSR1, on_signal);
    signal(SIGUSR2, on_signal);
    tell(KR_W_HELLO, 0, &hello, sizeof hello, NULL, 0);
    tell_zygote(KR_ZYG_STARTING, generation);
    nap(10);
    tell_zygote(KR_ZYG_READY, generation);
    for (;;) {
        struct pollfd p = {.fd = control, .events = POLLIN};
        int fds[KR_FRAME_FDS_MAX];
        char buf[KR_FRAME_CONTROL_MAX];
        struct kr_frame f;

        poll(&p, 1, 5);
        reap();
        if (rotate) {
            rotate = 0;
            tell_zygote(KR_ZYG_RETIRED, generation++);
            tell_zygote(KR_ZYG_STARTING, generation);
            tell_zygote(KR_ZYG_READY, generation);
        }
        if (!(p.revents & (POLLIN | POLLHUP)))
            continue;
        if (kr_frame_recv(control, &f, buf, sizeof buf, fds, kr_clock_after_ms(100), NULL) < 0)
            _exit(0);
        on_frame(&f, buf);
    }
}

int fake_warden_start(void)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        abort();
    if (fork() == 0) {
        close(pair[0]);
        control = pair[1];
        warden();
    }
    close(pair[1]);
    return pair[0];
}
