/* A cell's way from nothing to a started session, each step taken when the answer to the one before it comes:
 *     BUILDING  cgroup made, the builder asked for an init (CELL, MADE); the init builds (GO, READY)
 *     STOCK     a finished cell, for the next OPEN
 *     FORKING   the zygote asked for a session (FORK, FORKED); it is attached to the cgroup and enters (S_GO)
 *     PARKED    the engine has its descriptors (OPENED)
 *     STARTING  limits set; the init attaches the workspace and opens the gate (ATTACH, DONE)
 *     STARTED   the engine knows (STARTED)
 * Called from the loop by warden.c and family.c. Invariants: nothing here waits; every failure ends the cell, and the
 * engine gets the reason. */
#include "clock.h"
#include "devices.h"
#include "fd.h"
#include "frame.h"
#include "gauges.h"
#include "oom.h"
#include "warden_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALM_MS 4
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* Answers repeat the number of the question: a cell's index, which is its own until it has been answered. */
static uint32_t question_of(const struct kr_cell *c)
{
    return c->index + 1;
}

struct kr_cell *kr_cell_owed(struct kr_family *f, int by_zygote, uint32_t id)
{
    struct kr_cell *c = id > 0 && id <= f->w->cell_max ? f->w->cells[id - 1] : NULL;
    return c && c->family == f && c->debtor == (by_zygote ? KR_OWES_ZYGOTE : KR_OWES_BUILDER) ? c : NULL;
}

/* One whose socket takes nothing more answers nothing either. */
static int ask_family(struct kr_cell *c, int zygote, uint16_t type, const void *payload, size_t len, const int *fds,
                      unsigned nfds, struct kr_err *err)
{
    struct kr_family *f = c->family;
    int r = zygote && f->zygote_control < 0 ? -EPIPE : 0;
    if (r >= 0)
        r = kr_frame_send(zygote ? f->zygote_control : f->control, type, question_of(c), payload, len, fds, nfds);
    if (r < 0) {
        if (zygote)
            kr_family_lose_zygote(f);
        else
            kr_family_kill(f);
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EAGAIN, "%s cannot be asked (error %d); it is being replaced",
                          zygote ? "the zygote" : "the builder", -r);
    }
    f->questions += zygote != 0;
    kr_cell_owe(c, zygote ? KR_OWES_ZYGOTE : KR_OWES_BUILDER);
    return 0;
}

/* ---- a cell that stands ---- */

/* The session's uid as we see it; 0 where all cells share ours. */
uint32_t kr_cell_session_id(const struct kr_cell *c)
{
    const struct kr_standing *s = &c->family->w->standing;
    return s->unique ? s->first_id + 2 + 2 * c->index : 0;
}

static int ask_builder(struct kr_cell *c, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    struct kr_b_cell req = {.cell = c->id,
                            .network = c->network,
                            .init_id = 1 + 2 * c->index,
                            .session_id = 2 + 2 * c->index,
                            .shared_id = !w->standing.unique};
    int pair[2], fds[2];
    cleanup_fd int theirs = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    c->init_channel = pair[0];
    theirs = pair[1];
    fds[0] = theirs;
    fds[1] = w->lifeline_r;
    return ask_family(c, 0, KR_B_CELL, &req, sizeof req, fds, 2, err);
}

/* Takes the cell's cgroup. Where owners have cgroups a parked session's, whose owner is not known, is the first in one:
 * it is handed to an owner that has no live session. */
static int place(struct kr_cell *c, uint64_t owner, uint64_t user, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    int r = w->config->user_groups ? kr_cgroup_take_for(&w->cgroups, c->id, user, &c->group, err)
                                   : kr_cgroup_take(&w->cgroups, c->id, &c->group, err);
    if (r < 0 || (r = kr_cgroup_tasks(&w->cgroups, &c->group, c->tasks, err)) < 0)
        return r;
    kr_cell_placed(c);
    kr_cell_set_owner(c, w->config->user_groups ? owner : 0);
    c->task_count = r;
    return 0;
}

int kr_cell_build(struct kr_family *f, uint32_t network, struct kr_cell **ret, struct kr_err *err)
{
    struct kr_warden *w = f->w;
    struct kr_cell *c = kr_cell_new(f, network, err);
    int r;
    if (!c)
        return -EAGAIN;
    r = w->config->user_groups ? 0 : place(c, 0, 0, err); /* else when it is known whose it is */
    c->layers = w->cgroups.layers;
    if (r >= 0 && w->standing.level == KR_LEVEL_CONTAINED) {
        kr_cell_set_state(c, KR_CELL_STOCK);
    } else if (r >= 0) {
        c->layers |= KR_LAYERS_NAMESPACES | (w->standing.unique ? KR_LAYER_UIDS : 0);
        r = f->devices < 0 ? 0 : kr_devices_give(f->devices, c->index, err);
        r = r < 0 ? r : kr_cell_gauge_new(c, err);
        r = r < 0 ? r : ask_builder(c, err);
    }
    if (r < 0) {
        kr_cell_kill(c);
        return r;
    }
    *ret = c;
    return 0;
}

static int tell_init(struct kr_cell *c, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    struct kr_limits usual;
    struct kr_i_go go = {0};
    int r;
    kr_limits_default(&usual);
    c->tmp_bytes = go.tmp_bytes = usual.disk;
    c->tmp_inodes = go.tmp_inodes = usual.inodes;
    c->cpus = go.cpus = kr_gauge_cpus(usual.cpu_milli);
    c->init = kr_child_of(c->init_pidfd, c->family->builder, "init", err);
    if (c->init < 0)
        return c->init;
    if (c->family->is_guest && (r = kr_cell_open_spaces(c, err)) < 0)
        return r;
    r = kr_warden_watch(w, c->init_channel, &c->from_init, KR_SRC_INIT, c);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "watch an init's channel");
    r = kr_frame_send(c->init_channel, KR_I_GO, 0, &go, sizeof go, NULL, 0);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the init to go") : 0;
}

void kr_cell_on_made(struct kr_cell *c, int pidfd, int listener)
{
    struct kr_err err;
    int r;
    c->init_pidfd = pidfd;
    c->listener = listener;
    kr_cell_owe(c, KR_OWES_NOBODY);
    r = kr_warden_watch(c->family->w, pidfd, &c->from_init_end, KR_SRC_INIT_END, c);
    if (r < 0) {
        c->unwatched = 1;
        kr_err_set(&err, KR_ERR_SYSTEM, -r, "watch an init");
    } else if (c->state == KR_CELL_BUILDING) {
        r = tell_init(c, &err);
    }
    if (r < 0)
        kr_cell_fail(c, &err);
    else if (c->state == KR_CELL_BUILDING)
        kr_cell_owe(c, KR_OWES_INIT);
    else
        kr_cell_kill(c); /* it was given up meanwhile */
}

/* ---- a session in it ---- */

/* channel, stdout, stderr, stdin: c->ends[] for the engine, theirs[] for the session. The pipes belong to `owner`, so
 * that the session may open them again as /dev/stdout and /dev/stderr. A session without stdin opens /dev/null itself:
 * ours is the host's. */
static int make_pipes(struct kr_cell *c, int theirs[4])
{
    uint32_t owner = kr_cell_session_id(c);
    int p[2], off = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p) < 0)
        return -errno;
    c->ends[0] = p[0], theirs[0] = p[1];
    /* Neither end may hand the other descriptors: not a session to the engine, and not a server that was taken over its
     * sockets of the host's network to a session, which may connect. Before Linux 6.16, which lacks the option, read(2)
     * drops them, and a session that asks for them gets them. */
    (void)setsockopt(p[0], SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
    (void)setsockopt(p[1], SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
    for (int i = 1; i <= 3; i++) {
        if (i == 3 && !(c->flags & KR_OPEN_STDIN))
            return 0;
        if (pipe2(p, O_CLOEXEC) < 0)
            return -errno;
        c->ends[i] = p[i == 3], theirs[i] = p[i != 3];
        if (owner != 0 && fchown(theirs[i], owner, owner) < 0)
            return -errno;
    }
    return 0;
}

static int ask_zygote(struct kr_cell *c, const int theirs[4], int gate, struct kr_err *err)
{
    const struct kr_standing *s = &c->family->w->standing;
    int contained = s->level == KR_LEVEL_CONTAINED;
    struct kr_z_fork req = {.cell = c->id,
                            .network = c->network,
                            .level = s->level,
                            .contained = contained != 0,
                            .null_stdin = theirs[3] < 0,
                            .spaces = c->family->is_guest != 0};
    int fds[5 + KR_SPACES_ + KR_HIERARCHIES_MAX] = {theirs[0], theirs[1], theirs[2], gate, c->init_pidfd};
    unsigned fixed = contained ? 4 : 5;
    if (req.spaces) {
        memcpy(fds + 4, c->spaces, sizeof c->spaces);
        fixed = 4 + KR_SPACES_;
    }
    if (!req.null_stdin)
        fds[fixed++] = theirs[3];
    memcpy(fds + fixed, c->tasks, sizeof c->tasks);
    return ask_family(c, 1, KR_Z_FORK, &req, sizeof req, fds, fixed + (unsigned)c->task_count, err);
}

static int fork_session(struct kr_cell *c, struct kr_err *err)
{
    int theirs[4] = {-1, -1, -1, -1}, gate[2] = {-1, -1};
    int r = make_pipes(c, theirs);
    if (r >= 0 && pipe2(gate, O_CLOEXEC) < 0)
        r = -errno;
    c->gate = gate[1];
    if (r < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "pipes for a session");
    else if ((r = kr_cgroup_limit(&c->family->w->cgroups, &c->group, &c->limits, err)) >= 0)
        r = ask_zygote(c, theirs, gate[0], err);
    kr_fd_close(gate[0]);
    for (int i = 0; i < 4; i++)
        kr_fd_close(theirs[i]);
    while (c->task_count > 0)
        close(c->tasks[--c->task_count]);
    kr_cell_close_spaces(c);
    return r;
}

/* A cell that stands is in stock, or goes on to its session. */
static void use(struct kr_cell *c)
{
    struct kr_err err;
    kr_cell_set_state(c, c->asked != 0 ? KR_CELL_FORKING : KR_CELL_STOCK);
    if (c->asked != 0 && fork_session(c, &err) < 0)
        kr_cell_fail(c, &err);
}

/* The oldest of those that stand, else of those that are being built, else a new one. */
static struct kr_cell *take_spare(struct kr_family *f, uint32_t network)
{
    struct kr_cell *best = NULL, *c;
    TAILQ_FOREACH(c, &f->spares, spare_link)
    {
        if (c->network != network)
            continue;
        if (!best || c->state > best->state || (c->state == best->state && c->id < best->id))
            best = c;
    }
    return best;
}

void kr_cell_open(struct kr_family *f, uint32_t id, const struct kr_w_open *req)
{
    struct kr_err err;
    uint64_t user = f->w->config->user_groups ? kr_cell_user_of(f->w, req->owner) : 0;
    struct kr_cell *c = NULL;
    if (user != 0 && kr_cgroups_admit_user(&f->w->cgroups, user, &err) < 0) {
        kr_warden_refuse(f->w, id, &err);
        return;
    }
    c = take_spare(f, req->network);
    if (!c && kr_cell_build(f, req->network, &c, &err) < 0) {
        kr_warden_refuse(f->w, id, &err);
        return;
    }
    c->asked = id;
    c->flags = req->flags;
    c->limits = req->limits;
    kr_cell_promise(c, req->limits.memory);
    kr_cell_set_use(c, KR_USE_WANTED);
    if (c->group.name == 0 && place(c, req->owner, user, &err) < 0) {
        kr_cell_fail(c, &err);
        return;
    }
    if (c->state == KR_CELL_STOCK)
        use(c);
}

static int open_for_engine(struct kr_cell *c, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    struct kr_w_opened opened = {.cell = c->id,
                                 .user = c->group.user,
                                 .group = c->group.name,
                                 .layers = c->layers | KR_LAYER_LANDLOCK | KR_LAYER_SECCOMP,
                                 .flags = c->listener >= 0 ? KR_OPENED_LISTENER : 0};
    unsigned n = c->flags & KR_OPEN_STDIN ? 4 : 3;
    int fds[5], r;
    memcpy(fds, c->ends, sizeof c->ends);
    if (c->listener >= 0)
        fds[n++] = c->listener;
    c->session = kr_child_of(c->session_pidfd, c->family->zygote, "session", err);
    if (c->session < 0 && kr_fd_wait(c->family->zygote_pidfd, POLLIN, 0) > 0) /* it has lost its parent since */
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote ended; it is being replaced");
    if (c->session < 0)
        return c->session;
    if (c->family->is_guest && (r = kr_guest_check_forked(c, err)) < 0)
        return r;
    r = kr_cgroup_attach(&w->cgroups, &c->group, c->session, err);
    if (c->family->shared == 0)
        c->family->shared = kr_oom_shared(c->family->zygote, w->cgroups.bounds.memory);
    if (r < 0 || (r = kr_oom_expose(c->session, c->family->shared, err)) < 0)
        return r;
    if ((r = kr_frame_write(c->ends[0], KR_S_GO, 0, NULL, 0)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the session to go");
    r = kr_warden_tell(w, KR_W_OPENED, c->asked, &opened, sizeof opened, fds, n);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "hand the session's descriptors to the engine");
    return 0;
}

void kr_cell_on_forked(struct kr_cell *c, pid_t inside, int pidfd)
{
    struct kr_err err;
    c->session_pidfd = pidfd;
    c->session_inside = inside;
    c->family->forks++;
    kr_cell_owe(c, KR_OWES_NOBODY);
    if (c->state != KR_CELL_FORKING) {
        kr_cell_kill(c); /* it was given up meanwhile */
        return;
    }
    if (open_for_engine(c, &err) < 0) {
        kr_cell_fail(c, &err);
        return;
    }
    for (int i = 0; i < 4; i++)
        c->ends[i] = kr_fd_close(c->ends[i]);
    c->listener = kr_fd_close(c->listener);
    c->asked = 0;
    c->announced = 1;
    c->family->w->calm_at = kr_clock_after_ms(CALM_MS);
    kr_cell_set_state(c, KR_CELL_PARKED);
    kr_cell_set_use(c, KR_USE_GIVEN);
}

/* ---- the hand-over ---- */

int kr_cell_check_place(struct kr_cell *c, struct kr_err *err)
{
    int r = c->placed ? 0 : kr_cgroup_check(&c->family->w->cgroups, &c->group, c->session, err);
    c->placed = r >= 0;
    return r;
}

static int say_started(struct kr_cell *c, struct kr_err *err)
{
    struct kr_w_cell cell = {c->id};
    int r = kr_warden_tell(c->family->w, KR_W_STARTED, c->asked, &cell, sizeof cell, NULL, 0);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the engine that a session may start");
    c->asked = 0;
    kr_cell_set_state(c, KR_CELL_STARTED);
    kr_cell_gauge_started(c);
    return 0;
}

/* At level contained there is no init: the warden opens the gate itself. */
static int open_gate(struct kr_cell *c, struct kr_err *err)
{
    if (write(c->gate, "1", 1) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the gate");
    c->gate = kr_fd_close(c->gate);
    return say_started(c, err);
}

int kr_cell_start(struct kr_cell *c, const struct kr_w_start *req, struct kr_err *err)
{
    struct kr_warden *w = c->family->w;
    int r;
    kr_cell_set_state(c, KR_CELL_STARTING);
    kr_cell_promise(c, req->limits.memory);
    c->limits = req->limits;
    if (w->config->user_groups)
        kr_cell_set_owner(c, req->owner);
    /* Usually what it was parked with, and only confirmed. */
    r = kr_cgroup_limit(&w->cgroups, &c->group, &req->limits, err);
    if (r < 0 || (r = kr_cell_check_place(c, err)) < 0)
        return r;
    if (w->standing.level == KR_LEVEL_CONTAINED)
        return open_gate(c, err);
    if ((r = kr_cell_attach(c, req, err)) < 0)
        return r;
    kr_cell_owe(c, KR_OWES_INIT);
    kr_cell_gauge_start(c); /* here, where only the init has work to do */
    return 0;
}

/* ---- what the init says ---- */

void kr_cell_on_init(struct kr_cell *c)
{
    struct kr_frame f;
    struct kr_err err;
    _Alignas(8) char buf[sizeof(struct kr_err)];
    int r, owed;
    if (c->init_channel < 0) /* closed by what came with the same round's events */
        return;
    r = kr_frame_recv_few(c->init_channel, &f, buf, sizeof buf, NULL, 0, 0, &err);
    if (r == -ETIMEDOUT)
        return;
    if (r == -ENODATA) { /* its end; whose fault it was is known when it is finished */
        kr_cell_kill(c);
        return;
    }
    owed = c->debtor == KR_OWES_INIT;
    if (r >= 0 && owed)
        kr_cell_owe(c, KR_OWES_NOBODY);
    if (r < 0) {
        kr_err_wrap(&err, r, "the cell's init");
    } else if (f.type == KR_I_FAILED) {
        memcpy(&err, buf, sizeof err);
        err.msg[sizeof err.msg - 1] = '\0';
        r = -EIO;
    } else if (f.type == KR_I_READY && owed && c->state == KR_CELL_BUILDING) {
        c->layers |= ((const struct kr_i_ready *)buf)->layers;
        c->gauge.shown = (c->layers & KR_LAYER_GAUGES) != 0;
        if ((c->layers & KR_LAYERS_COUNTED) != KR_LAYERS_COUNTED)
            c->layers &= ~(uint32_t)KR_LAYER_GAUGES; /* they show limits, and no use */
        use(c);
    } else if (f.type == KR_I_DONE && owed && c->state == KR_CELL_STARTING) {
        r = say_started(c, &err); /* its channel stays until the end: closing it now would be in the session's way */
    } else {
        r = kr_err_set(&err, KR_ERR_PROTOCOL, EPROTO, "the cell's init said %u", f.type);
    }
    if (r < 0)
        kr_cell_fail(c, &err);
}
