/* Cells, cgroups and forks for the staircase, by the warden's own functions. Called by layers.c.
 *
 * Invariant: what a layer does here is the product's code; only who decides about it differs. What must be ready before
 * a request in the product (a cell in stock, its cgroup, the pipes) is made in kr_bench_prepare(), outside the measured
 * time. */
#include "forkbox.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "layers.h"
#include "setup.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 60000
#define WAIT_MS 10000
#define NO_CELL 0xffffu /* an index that no cell has, so that the warden's functions never take a bare child for one */

/* ---- the warden without an engine ---- */

/* What the warden sends to its engine is read and dropped. */
static int listen_only(int control, void *arg)
{
    char buf[KR_FRAME_CONTROL_MAX + KR_FRAME_HEAD];
    (void)arg;
    while (recv(control, buf, sizeof buf, 0) > 0)
        ;
    return 0;
}

static int await_ready(struct kr_family *f, struct kr_err *err)
{
    uint64_t deadline = kr_clock_after_ms(START_MS);
    while (f->state == KR_ZYG_STARTING) {
        struct pollfd p[] = {{f->control, POLLIN, 0}, {f->zygote_control, POLLIN, 0}};
        if (kr_clock_ns() > deadline || poll(p, 2, 1000) < 0)
            return kr_err_set(err, KR_ERR_TIMEOUT, ETIMEDOUT, "the bench's zygote is not ready");
        if (p[0].revents != 0)
            kr_family_on_builder(f);
        if (p[1].revents != 0)
            kr_family_on_zygote(f);
        if (f->err.kind != KR_ERR_NONE) {
            *err = f->err;
            return -EIO;
        }
    }
    return 0;
}

int kr_bench_open(struct kr_warden *w, struct kr_err *err)
{
    int r = kr_setup(w, listen_only, NULL, err);
    for (unsigned i = 0; r >= 0 && i < w->config->zygote_count; i++)
        r = kr_family_start(w, i, err);
    for (struct kr_family *f = w->families; r >= 0 && f; f = f->next)
        r = await_ready(f, err);
    return r;
}

void kr_bench_close(struct kr_warden *w)
{
    for (struct kr_family *f = w->families; f; f = f->next) {
        kr_family_kill(f);
        (void)waitpid(f->builder, NULL, 0);
    }
    kr_fd_close(w->engine);
    if (w->engine_pid > 0)
        (void)waitpid(w->engine_pid, NULL, 0);
    kr_setup_undo(w);
}

struct kr_family *kr_bench_family(struct kr_warden *w, const char *preload)
{
    for (struct kr_family *f = w->families; f; f = f->next)
        if ((w->config->zygotes[f->index].preload == KR_PRELOAD_DATA) == (strcmp(preload, "data") == 0))
            return f;
    return NULL;
}

/* ---- one child ---- */

static int make_pipes(struct kr_bench_child *c)
{
    int p[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
        return -errno;
    c->channel = p[0];
    c->theirs[0] = p[1];
    if (pipe2(p, O_CLOEXEC) < 0)
        return -errno;
    c->out = p[0];
    c->theirs[1] = p[1];
    c->theirs[2] = open("/dev/null", O_WRONLY | O_CLOEXEC);
    c->theirs[3] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return c->theirs[2] < 0 || c->theirs[3] < 0 ? -errno : 0;
}

/* A cell that stands: what the warden's loop does between the request and that. */
static int build(struct kr_family *f, struct kr_cell **ret, struct kr_err *err)
{
    uint64_t deadline = kr_clock_after_ms(WAIT_MS);
    struct kr_cell *c;
    int r = kr_cell_build(f, KR_NET_NONE, &c, err);
    while (r >= 0 && c->state == KR_CELL_BUILDING) {
        struct pollfd p[] = {{f->control, POLLIN, 0}, {c->init_channel, POLLIN, 0}};
        if (kr_clock_ns() > deadline || poll(p, 2, 1000) < 0)
            return kr_err_set(err, KR_ERR_TIMEOUT, ETIMEDOUT, "the bench's cell is not ready");
        if (p[0].revents != 0)
            kr_family_on_builder(f);
        else if (p[1].revents != 0)
            kr_cell_on_init(c);
    }
    if (r >= 0 && c->state != KR_CELL_STOCK)
        r = kr_err_set(err, KR_ERR_SYSTEM, 0, "the bench's cell could not be built");
    *ret = c;
    return r;
}

int kr_bench_prepare(struct kr_family *f, unsigned layers, struct kr_bench_child *ret, struct kr_err *err)
{
    struct kr_warden *w = f->w;
    int r;
    *ret = (struct kr_bench_child){.layers = layers,
                                   .id = ++w->serial << 16 | NO_CELL,
                                   .out = -1,
                                   .channel = -1,
                                   .pidfd = -1,
                                   .theirs = {-1, -1, -1, -1}};
    r = make_pipes(ret);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "pipes");
    if (layers & KR_BENCH_NAMESPACES && !(layers & KR_BENCH_INIT)) {
        if ((r = build(f, &ret->cell, err)) < 0)
            return r;
        ret->id = ret->cell->id;
        ret->group = ret->cell->group;
    }
    return layers & KR_BENCH_CGROUP && !(layers & KR_BENCH_NAMESPACES)
               ? kr_cgroup_take(&w->cgroups, ret->id, &ret->group, err)
               : 0;
}

/* Attached before it touches its pages, as the product does it; then the limits of a session. */
static int attach(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err)
{
    struct kr_limits limits;
    int32_t pid;
    int status;
    int r = kr_bench_hear(f, c, &pid, &status, err);
    if (r != 0)
        return r < 0 ? r : kr_err_set(err, KR_ERR_SYSTEM, ESRCH, "the child ended before it began, status %d", status);
    kr_limits_default(&limits);
    if ((r = kr_cgroup_attach(&f->w->cgroups, &c->group, kr_pid_of(c->pidfd), err)) < 0 ||
        (r = kr_cgroup_limit(&f->w->cgroups, &c->group, &limits, err)) < 0)
        return r;
    r = kr_frame_write(c->channel, KR_S_GO, 0, NULL, 0);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the child to go") : 0;
}

int kr_bench_fork(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err)
{
    struct kr_z_fork req = {.level = c->layers};
    int fds[5] = {c->theirs[0], c->theirs[1], c->theirs[2], c->theirs[3], -1};
    int r = 0;
    if (c->layers & KR_BENCH_INIT && (r = build(f, &c->cell, err)) < 0)
        return r;
    if (c->cell) {
        c->id = c->cell->id;
        c->group = c->cell->group;
        fds[4] = c->cell->init_pidfd;
    }
    req.cell = c->id;
    r = kr_frame_send(f->zygote_control, KR_Z_FORK, 1, &req, sizeof req, fds, c->cell ? 5 : 4);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "ask the bench's zygote");
    for (int i = 0; i < 4; i++)
        c->theirs[i] = kr_fd_close(c->theirs[i]);
    return c->layers & KR_BENCH_CGROUP ? attach(f, c, err) : 0;
}

int kr_bench_hear(struct kr_family *f, struct kr_bench_child *c, int32_t *ret_pid, int *ret_status, struct kr_err *err)
{
    struct kr_frame head;
    _Alignas(8) char buf[KR_FRAME_CONTROL_MAX];
    int fds[KR_FRAME_FDS_MAX];
    int r = kr_frame_recv(f->zygote_control, &head, buf, sizeof buf, fds, kr_clock_after_ms(WAIT_MS), err);
    if (r < 0)
        return r;
    if (head.type == KR_Z_FORKED && c) {
        c->pid = ((const struct kr_z_forked *)buf)->pid;
        c->pidfd = fds[0];
        return 0;
    }
    if (head.type != KR_Z_EXIT)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "the bench's zygote said %u", head.type);
    *ret_pid = (int32_t)((const struct kr_z_exit *)buf)->cell;
    *ret_status = ((const struct kr_z_exit *)buf)->status;
    return 1;
}

static int finish_cell(struct kr_cell *c, struct kr_err *err)
{
    kr_cell_kill(c);
    if (kr_fd_wait(c->init_pidfd, POLLIN, kr_clock_after_ms(WAIT_MS)) != 1)
        return kr_err_set(err, KR_ERR_TIMEOUT, ETIMEDOUT, "a cell does not end");
    kr_cell_on_init_end(c);
    while (kr_cell_finish(c) == 0)
        usleep(200);
    return 0;
}

int kr_bench_finish(struct kr_family *f, struct kr_bench_child *c, struct kr_err *err)
{
    for (int i = 0; i < 4; i++)
        kr_fd_close(c->theirs[i]);
    kr_fd_close(c->out);
    kr_fd_close(c->channel);
    kr_fd_close(c->pidfd);
    if (c->cell)
        return finish_cell(c->cell, err);
    for (int i = 0; i < 1000 && c->layers & KR_BENCH_CGROUP && kr_cgroup_remove(&f->w->cgroups, &c->group) == -EBUSY;
         i++)
        usleep(200);
    return 0;
}
