/* The fake warden. See fake-warden.h. */
#define _GNU_SOURCE 1
#include "fake-warden.h"
#include "clock.h"
#include "fake-session.h"
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
        .memory_peak = oom ? UINT64_C(1) << 40 : 1 << 20,
        .cpu_ns = kr_clock_ns() - cells[i].born_ns,
        .oom_kills = oom,
        .memory_hits = oom,
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
        close(in[1]);
        close(chan[0]);
        close(control);
        fake_session(chan[1],
                     open->limits.open_files == 17); /* a number no other test uses: a session that is not confined */
    }
    tell(KR_W_OPENED, id, &opened, sizeof opened, (int[]){chan[0], o[0], e[0], in[1]},
         open->flags & KR_OPEN_STDIN ? 4 : 3);
    for (size_t k = 0; k < 2; k++) {
        close(chan[k]);
        close(o[k]);
        close(e[k]);
        close(in[k]);
    }
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
