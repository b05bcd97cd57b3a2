/* A family: one builder, its zygote, their cells. Started by the warden, replaced when it has forked enough or has
 * died, and it says so. Invariant: nothing here waits for a family. What it owes has a deadline. A builder that does
 * not answer is killed, and all of the family with it; a zygote alone, and its sessions live on. */
#include "builder.h"
#include "clock.h"
#include "contained.h"
#include "devices.h"
#include "fd.h"
#include "frame.h"
#include "gauges.h"
#include "warden_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_MS 90000 /* a data zygote imports for seconds, minutes under emulation */
#define RESTART_MS 200 /* after the first crash; doubles */
#define RESTART_MAX_MS 30000
#define CRASHES_MAX 5 /* in a row; then it is reported as failed, and tried again */
#define FIRST_CRASHES_MAX 1
#define SERVED_MS 1000 /* a zygote that was ready for so long did not crash by starting */
#define DRAIN_MAX 2048
#define KEPT 8 /* descriptors of a builder, from 3 on */

static void set_state(struct kr_family *f, enum kr_zygote_state state, int status)
{
    struct kr_w_zygote z = {
        .zygote = f->index, .state = state, .generation = f->generation, .status = status, .err = f->err};
    const struct kr_family *serves;
    f->state = state;
    kr_log(KR_LOG_INFO, "zygote", "index=%u generation=%u state=%d status=%d", f->index, f->generation, (int)state,
           status);
    serves = kr_family_current(f->w, f->index);
    if (serves && serves->generation < f->generation)
        return; /* a rotation: the engine goes on with the one that serves until this one is ready */
    (void)kr_warden_tell(f->w, KR_W_ZYGOTE, 0, &z, sizeof z, NULL, 0);
}

/* In the child of the clone: only the builder's descriptors stay, at known numbers, and nothing of ours. */
static _Noreturn void be_builder(struct kr_family *f, const int keep[KEPT], int contained)
{
    const struct kr_warden *w = f->w;
    const char *names[KR_MOUNTS_MAX + 1] = {0};
    struct kr_builder_args a = {
        .control = 3,
        .zygote_control = 4,
        .lifeline = 5,
        .preload = w->config->zygotes[f->index].preload,
        .modules = w->config->zygotes[f->index].modules,
        .venv = keep[7] >= 0 ? 10 : -1,
        .guest_id = f->is_guest ? kr_guest_id(w) : 0,
        .python = w->pythons[f->index],
        .born = f->born,
        .tree = {.python = w->pythons[f->index],
                 .prefix = w->prefixes[f->index][0] != '\0' ? w->prefixes[f->index] : NULL,
                 .prefix_tree = keep[3] >= 0 ? 6 : -1,
                 .devices = keep[4] >= 0 ? 7 : -1,
                 .gauges = keep[5] >= 0 ? 8 : -1,
                 .packages = keep[6] >= 0 ? 9 : -1,
                 .cpus = kr_gauge_cpus_shown(w),
                 .data_places = names},
        .mounts = w->config->mounts,
    };
    int high[KEPT];
    for (size_t i = 0; i < w->config->mount_count; i++)
        names[i] = w->config->mounts[i].name;
    for (int i = 0; i < KEPT; i++) /* out of the way first, so that no dup2 overwrites one still needed */
        high[i] = keep[i] < 0 ? -1 : fcntl(keep[i], F_DUPFD_CLOEXEC, 100);
    for (int i = 0; i < KEPT; i++)
        if (high[i] >= 0 && dup3(high[i], 3 + i, O_CLOEXEC) < 0)
            _exit(70);
    for (int i = 3; i < KEPT; i++)
        if (keep[i] < 0 && close_range(3 + (unsigned)i, 3 + (unsigned)i, 0) < 0)
            _exit(70);
    if (close_range(3 + KEPT, ~0U, 0) < 0)
        _exit(70);
    if (contained)
        kr_contained_main(&a, w->instance.dir, w->instance.slot);
    kr_builder_main(&a);
}

static int clone_builder(struct kr_family *f, const int keep[KEPT], struct kr_err *err)
{
    int contained = f->w->standing.level == KR_LEVEL_CONTAINED;
    struct clone_args args = {
        .flags =
            CLONE_PIDFD |
            (contained ? 0 : CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET),
        .pidfd = (uint64_t)(uintptr_t)&f->builder_pidfd,
        .exit_signal = SIGCHLD,
    };
    long pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid < 0 && errno == ENOSYS && contained) /* a container's filter knows no clone3 */
        pid = fork();
    if (pid == 0)
        be_builder(f, keep, contained);
    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "clone a builder");
    f->builder = (pid_t)pid;
    if (f->builder_pidfd < 0)
        f->builder_pidfd = (int)syscall(SYS_pidfd_open, f->builder, 0);
    return 0;
}

static int write_builder_maps(struct kr_family *f, struct kr_err *err)
{
    const struct kr_standing *s = &f->w->standing;
    char map_uid[48], map_gid[48];
    if (s->level == KR_LEVEL_CONTAINED)
        return 0;
    snprintf(map_uid, sizeof map_uid, "0 %u %u\n", s->unique ? s->first_id : s->uid, s->unique ? s->id_count : 1);
    snprintf(map_gid, sizeof map_gid, "0 %u %u\n", s->unique ? s->first_id : s->gid, s->unique ? s->id_count : 1);
    return kr_maps_write(f->builder, map_uid, map_gid, !s->unique, err);
}

/* An interpreter outside /usr brings its folder along; as root its owner's folders may be closed to the builder's id,
 * so the mount is cloned here. */
static int open_prefix(const struct kr_family *f)
{
    const char *prefix = f->w->prefixes[f->index];
    if (prefix[0] == '\0' || f->w->standing.level == KR_LEVEL_CONTAINED)
        return -1;
    return (int)syscall(SYS_open_tree, AT_FDCWD, prefix, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

/* Where we are the host's root its cells get device nodes of their own. */
static int make_devices(struct kr_family *f, struct kr_err *err)
{
    int fd = f->w->standing.level == KR_LEVEL_ROOT ? kr_devices_new(err) : -EPERM;
    if (fd == -EPERM)
        return 0;
    f->devices = fd < 0 ? -1 : fd;
    return fd < 0 ? fd : 0;
}

/* Where its cells have a /proc of their own. A machine that lets us make no place for them has none. */
static int make_gauges(struct kr_family *f, struct kr_err *err)
{
    int fd = f->w->standing.level == KR_LEVEL_CONTAINED ? -EPERM : kr_gauges_new(f->w->cell_max, err);
    f->gauges = fd < 0 ? -1 : fd;
    return fd < 0 && fd != -EPERM ? fd : 0;
}

/* The store of packages, as a mount that cells cannot change: *ret_tree -1 if there is none. At level contained there
 * is no mount. */
static int open_packages(const struct kr_family *f, int *ret_tree, struct kr_err *err)
{
    const struct kr_warden *w = f->w;
    int tree = -1;
    if (w->packages.dir >= 0 && w->standing.level != KR_LEVEL_CONTAINED &&
        (tree = kr_workspace_tree(&w->packages, -1, err)) < 0)
        return tree;
    *ret_tree = tree;
    return 0;
}

static void family_free(struct kr_family *f)
{
    kr_fd_close(f->builder_pidfd);
    kr_fd_close(f->zygote_pidfd);
    kr_fd_close(f->control);
    kr_fd_close(f->devices);
    kr_fd_close(f->gauges);
    kr_fd_close(f->zygote_control);
    free(f);
}

static int launch(struct kr_family *f, struct kr_err *err)
{
    static const struct kr_i_go go = {0};
    int b[2], z[2], keep[KEPT], r;
    cleanup_fd int builder_end = -1, zygote_end = -1, tree = -1, packages = -1, venv = -1;
    if (f->is_guest && (r = kr_guest_begin(f, &venv, err)) < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, b) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    f->control = b[0];
    builder_end = b[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, z) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    f->zygote_control = z[0];
    zygote_end = z[1];
    tree = open_prefix(f);
    if ((r = make_devices(f, err)) < 0 || (r = make_gauges(f, err)) < 0 || (r = open_packages(f, &packages, err)) < 0)
        return r;
    if (fcntl(b[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(z[0], F_SETFL, O_NONBLOCK) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a family's sockets");
    keep[0] = builder_end;
    keep[1] = zygote_end;
    keep[2] = f->w->lifeline_r;
    keep[3] = tree;
    keep[4] = f->devices;
    keep[5] = f->gauges;
    keep[6] = packages;
    keep[7] = venv;
    r = clone_builder(f, keep, err);
    if (r < 0 || (r = write_builder_maps(f, err)) < 0)
        return r;
    r = kr_frame_send(f->control, KR_I_GO, 0, &go, sizeof go, NULL, 0);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the builder to go");
    if ((r = kr_warden_watch(f->w, f->control, &f->from_builder, KR_SRC_BUILDER, f)) < 0 ||
        (r = kr_warden_watch(f->w, f->zygote_control, &f->from_zygote, KR_SRC_ZYGOTE, f)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "watch a family");
    return 0;
}

int kr_family_start(struct kr_warden *w, unsigned index, struct kr_err *err)
{
    struct kr_family *f = calloc(1, sizeof *f);
    int r;
    if (!f)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a zygote's family");
    *f = (struct kr_family){.w = w,
                            .index = index,
                            .is_guest = kr_is_guest(w, index),
                            .generation = ++w->generation,
                            .builder = -1,
                            .zygote = -1,
                            .builder_pidfd = -1,
                            .zygote_pidfd = -1,
                            .control = -1,
                            .devices = -1,
                            .gauges = -1,
                            .zygote_control = -1,
                            .born = kr_gauge_born(),
                            .start_deadline = kr_clock_after_ms(START_MS)};
    TAILQ_INIT(&f->spares);
    r = launch(f, err);
    if (r < 0) {
        kr_family_kill(f);
        if (f->builder > 0)
            (void)waitpid(f->builder, NULL, 0);
        (void)kr_cgroup_remove(&w->cgroups, &f->group); /* what stays goes with the next start */
        family_free(f);
        return r;
    }
    f->next = w->families;
    w->families = f;
    set_state(f, KR_ZYG_STARTING, 0);
    return 0;
}

void kr_family_kill(struct kr_family *f)
{
    f->lost = 1;
    if (f->builder > 0 && f->builder_pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, f->builder_pidfd, SIGKILL, NULL, 0);
    for (unsigned i = 0; f->w->cells && i < f->w->cell_max; i++) /* a frozen one would take its time to die */
        if (f->w->cells[i] && f->w->cells[i]->family == f && f->w->cells[i]->group.pace == KR_PACE_FROZEN)
            kr_cell_pace(f->w->cells[i], KR_PACE_RUN);
}

struct kr_family *kr_family_current(struct kr_warden *w, unsigned index)
{
    for (struct kr_family *f = w->families; f; f = f->next)
        if (f->index == index && f->state == KR_ZYG_READY && !f->lost)
            return f;
    return NULL;
}

/* The newest READY one serves; older ones of the same index live on until their last session has ended. */
static void retire_older(struct kr_family *newest)
{
    for (struct kr_family *f = newest->w->families; f; f = f->next)
        if (f != newest && f->index == newest->index && f->state == KR_ZYG_READY)
            set_state(f, KR_ZYG_RETIRED, 0);
}

void kr_family_retire(struct kr_warden *w, unsigned index)
{
    for (struct kr_family *f = w->families; f; f = f->next)
        if (f->index == index && (f->state == KR_ZYG_READY || f->state == KR_ZYG_STARTING))
            set_state(f, KR_ZYG_RETIRED, 0);
}

/* What each of the two may say, and when: a zygote that speaks for its builder, or greets twice, is no zygote of ours.
 * `c` is the cell that it owes the answer to. */
static int in_place(const struct kr_family *f, int from_zygote, const struct kr_frame *head, const void *payload,
                    const struct kr_cell *c)
{
    switch (head->type) {
    case KR_B_READY:
        return !from_zygote && f->state == KR_ZYG_STARTING && f->zygote_pidfd < 0;
    case KR_B_MADE: /* with a listener if the cell's network has one, and only then */
        return !from_zygote && c && ((const struct kr_b_made *)payload)->cell == c->id &&
               head->nfds == 1 + (c->network >= KR_NET_EGRESS_MIN_);
    case KR_B_FAILED:
        return !from_zygote && (head->id == 0 || c);
    case KR_B_GONE:
    case KR_B_EXIT:
        return !from_zygote;
    case KR_Z_HELLO:
        return from_zygote && f->state == KR_ZYG_STARTING;
    case KR_Z_FORKED:
        return from_zygote && c && ((const struct kr_z_forked *)payload)->cell == c->id;
    case KR_Z_FAILED:
        return from_zygote && (c || (head->id == 0 && (f->state == KR_ZYG_STARTING || !f->is_guest)));
    case KR_Z_EXIT:
        return from_zygote;
    default:
        return 0;
    }
}

/* It could not do what it was asked to, or, with no cell, not even start. */
static void on_failed(struct kr_family *f, struct kr_cell *c, const struct kr_err *payload)
{
    struct kr_err err = *payload;
    err.msg[sizeof err.msg - 1] = '\0';
    if (f->is_guest)
        kr_guest_plain(&err);
    if (!c) {
        f->err = err;
        return;
    }
    kr_cell_owe(c, KR_OWES_NOBODY);
    kr_cell_fail(c, &err);
}

static void on_hello(struct kr_family *f, const struct kr_z_hello *hello)
{
    struct kr_err err;
    if (f->is_guest && kr_guest_greeted(f, &err) < 0) {
        f->err = err;
        kr_family_kill(f);
        return;
    }
    f->landlock_abi = hello->landlock_abi;
    if (!f->is_guest) /* the code of packages may end it as often as it likes */
        f->w->crashes[f->index] = 0;
    f->w->greeted[f->index] = 1;
    f->ready_at = kr_clock_ns();
    f->rotate_at = kr_clock_after_ms(f->w->config->rotate_rest_ms);
    set_state(f, KR_ZYG_READY, 0);
    retire_older(f);
}

static void on_frame(struct kr_family *f, int from_zygote, const struct kr_frame *head, const void *payload,
                     const int fds[2])
{
    struct kr_cell *c = kr_cell_owed(f, from_zygote, head->id);
    if ((f->is_guest && from_zygote && !kr_guest_may_say(f)) || !in_place(f, from_zygote, head, payload, c)) {
        kr_fd_close(fds[0]);
        kr_fd_close(fds[1]);
        kr_log(KR_LOG_ERROR, "frame out of place from a family", "type=%u", head->type);
        kr_family_kill(f);
        return;
    }
    switch (head->type) {
    case KR_B_READY:
        f->layers = ((const struct kr_b_ready *)payload)->layers;
        f->zygote_pidfd = fds[0];
        f->zygote = kr_pid_of(fds[0]);
        if (f->is_guest && kr_guest_go(f, &f->err) < 0)
            kr_family_kill(f);
        return;
    case KR_Z_HELLO:
        on_hello(f, payload);
        return;
    case KR_B_MADE:
        kr_cell_on_made(c, fds[0], fds[1]);
        return;
    case KR_Z_FORKED:
        kr_cell_on_forked(c, ((const struct kr_z_forked *)payload)->pid, fds[0]);
        return;
    case KR_Z_EXIT:
        kr_cell_on_exit(f, payload);
        return;
    case KR_B_FAILED:
    case KR_Z_FAILED:
        on_failed(f, c, payload);
        return;
    case KR_B_GONE:
        kr_log(KR_LOG_WARN, "zygote ended", "index=%u status=%d", f->index,
               ((const struct kr_b_gone *)payload)->status);
        if (f->is_guest)
            kr_guest_why(f);
        if (f->err.kind == KR_ERR_NONE)
            kr_err_set(&f->err, KR_ERR_SYSTEM, 0, "the zygote ended with wait status %d",
                       ((const struct kr_b_gone *)payload)->status);
        kr_family_lose_zygote(f);
        return;
    case KR_B_EXIT:
        kr_cell_on_orphan_exit(f, payload);
        return;
    default:
        return;
    }
}

/* One frame, if there is one. */
static int take_frame(struct kr_family *f, int sock, int from_zygote)
{
    struct kr_frame head;
    struct kr_err err;
    _Alignas(8) char buf[KR_FRAME_CONTROL_MAX];
    int fds[2] = {-1, -1}; /* none of the types that are in place brings more */
    int r = kr_frame_recv_few(sock, &head, buf, sizeof buf, fds, from_zygote ? 1 : 2, 0, &err);
    if (r >= 0)
        on_frame(f, from_zygote, &head, buf, fds);
    return r;
}

void kr_family_on_builder(struct kr_family *f)
{
    int r = take_frame(f, f->control, 0);
    if (r >= 0 || r == -ETIMEDOUT)
        return;
    (void)epoll_ctl(f->w->epoll, EPOLL_CTL_DEL, f->control, NULL);
    kr_family_kill(f); /* without its PID 1 there is no family */
}

void kr_family_on_zygote(struct kr_family *f)
{
    int r = f->zygote_control < 0 ? -ETIMEDOUT : take_frame(f, f->zygote_control, 1);
    if (r == -EPROTO)
        kr_family_kill(f); /* no zygote of ours */
    else if (r < 0 && r != -ETIMEDOUT)
        kr_family_lose_zygote(f);
}

/* Another start after a pause, twice as long each time; 0: there is no hope in it, and the engine is to know. One that
 * never was ready will fail again, but it may have been killed (by a person, by the system for memory): two tries. One
 * that was is tried on, for what is short now may be there later. */
static int try_later(struct kr_warden *w, unsigned index)
{
    unsigned crashes = ++w->crashes[index];
    uint64_t pause;
    if (!w->greeted[index] && crashes > FIRST_CRASHES_MAX)
        return 0;
    if (kr_is_guest(w, index) && crashes > CRASHES_MAX)
        return 0;
    pause = crashes < 16 ? (uint64_t)RESTART_MS << (crashes - 1) : RESTART_MAX_MS;
    w->restart_at[index] = kr_clock_after_ms(pause < RESTART_MAX_MS ? pause : RESTART_MAX_MS);
    return crashes <= CRASHES_MAX;
}

/* A rotation is under way when a younger one of the same index is starting. */
static int being_replaced(const struct kr_family *f)
{
    for (const struct kr_family *o = f->w->families; o; o = o->next)
        if (o->index == f->index && o->state == KR_ZYG_STARTING)
            return 1;
    return 0;
}

/* What it said before it ended: the ends of sessions, above all. The first answer may be the error that it left frames
 * of ours unread. A full socket has fewer than DRAIN_MAX. */
static void drain_zygote(struct kr_family *f, int sock)
{
    int errors = 0;
    for (unsigned i = 0; i < DRAIN_MAX && errors < 2; i++)
        errors += take_frame(f, sock, 1) < 0;
    close(sock);
}

/* A family whose zygote has served for a while gets its successor at once; else after a pause. */
static void replace(struct kr_family *f)
{
    if (being_replaced(f))
        return;
    if (!f->is_guest && kr_clock_ns() - f->ready_at > SERVED_MS * 1000000ull)
        f->w->restart_at[f->index] = kr_clock_ns();
    else if (!try_later(f->w, f->index) && f->is_guest)
        kr_guest_given_up(f, f->w->crashes[f->index]); /* it stays ENDED, and is freed when its last session ends */
}

void kr_family_lose_zygote(struct kr_family *f)
{
    struct kr_warden *w = f->w;
    enum kr_zygote_state before = f->state;
    int sock = f->zygote_control;
    struct kr_err err;
    if (sock < 0 || f->lost)
        return;
    f->zygote_control = -1;
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, sock, NULL);
    if (before == KR_ZYG_STARTING && f->is_guest)
        kr_guest_why(f);
    if (before == KR_ZYG_STARTING && f->err.kind == KR_ERR_NONE)
        kr_err_set(&f->err, KR_ERR_UNAVAILABLE, 0,
                   "%.100s ended before it was ready (stderr has what it said): is it Python 3.8 or newer?",
                   w->pythons[f->index]);
    if (w->standing.level == KR_LEVEL_CONTAINED || before == KR_ZYG_STARTING) {
        close(sock);
        kr_family_kill(f);
        return;
    }
    (void)syscall(SYS_pidfd_send_signal, f->zygote_pidfd, SIGKILL, NULL, 0);
    drain_zygote(f, sock);
    if (f->lost) /* by what it said */
        return;
    set_state(f, KR_ZYG_ENDED, 0); /* first: an open that is tried again waits for the successor then */
    if (before == KR_ZYG_READY)
        replace(f);
    kr_err_set(&err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote ended; it is being replaced");
    for (unsigned i = 0; i < w->cell_max; i++) {
        struct kr_cell *c = w->cells[i];
        if (!c || c->family != f)
            continue;
        if (c->debtor == KR_OWES_ZYGOTE) /* whatever the cell is there for: one that ends waits for it, too */
            kr_cell_owe(c, KR_OWES_NOBODY);
        if (c->use == KR_USE_WANTED)
            kr_cell_fail(c, &err);
    }
}

/* The builder is reaped: the cells' inits are dead or dying with it, each reported by its own pidfd. */
static void on_gone(struct kr_family *f, int status)
{
    struct kr_warden *w = f->w;
    enum kr_zygote_state before = f->state;
    struct kr_family *serves;
    int hopeless;
    f->lost = 1;
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, f->control, NULL);
    if (f->zygote_control >= 0)
        (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, f->zygote_control, NULL);
    for (unsigned i = 0; i < w->cell_max; i++) /* where there are inits, each reports its own end */
        if (w->cells[i] && w->cells[i]->family == f && w->cells[i]->init_pidfd < 0)
            kr_cell_gone(w->cells[i]);
    if (w->stopping || before == KR_ZYG_RETIRED || before == KR_ZYG_ENDED) {
        if (before != KR_ZYG_ENDED)
            set_state(f, KR_ZYG_ENDED, status);
        return;
    }
    if (f->err.kind == KR_ERR_NONE)
        kr_err_set(&f->err, KR_ERR_SYSTEM, 0, "the zygote's builder ended with wait status %d", status);
    hopeless = !try_later(w, f->index);
    if (w->restart_at[f->index] == 0 && (serves = kr_family_current(w, f->index)))
        serves->forks = 0; /* it was to be its successor: the next is tried after as many forks */
    set_state(f, hopeless ? KR_ZYG_FAILED : KR_ZYG_ENDED, status);
}

static int family_due(struct kr_family *f)
{
    const struct kr_warden_config *c = f->w->config;
    return f->state == KR_ZYG_READY && c->rotate_after > 0 && f->forks >= c->rotate_after &&
           f->w->restart_at[f->index] == 0 && kr_clock_ns() >= f->rotate_at;
}

static void reap(struct kr_family *f)
{
    int status = 0;
    pid_t pid = f->builder > 0 ? waitpid(f->builder, &status, WNOHANG) : 0;
    f->w->children_ended |= pid < 0; /* asked again */
    if (pid != f->builder)
        return;
    f->builder = -1;         /* the number may be another's from now on */
    kr_family_on_builder(f); /* its last words, if any are queued */
    on_gone(f, status);
}

static void tend_one(struct kr_family *f)
{
    struct kr_err err;
    if (f->state == KR_ZYG_STARTING && kr_clock_ns() > f->start_deadline && !f->lost) {
        if (f->err.kind == KR_ERR_NONE) /* else it has given a reason, and did not end */
            kr_err_set(&f->err, KR_ERR_TIMEOUT, ETIMEDOUT, "the zygote was not ready after %u s",
                       f->is_guest ? f->w->config->guest_start_ms / 1000 : START_MS / 1000);
        kr_family_kill(f);
    }
    if ((f->state == KR_ZYG_RETIRED || f->state == KR_ZYG_ENDED) && f->cells == f->uses[KR_USE_SPARE] && !f->lost)
        kr_family_kill(f); /* its stock goes along */
    kr_guest_tend(f);
    if (family_due(f) && !being_replaced(f) && kr_family_start(f->w, f->index, &err) < 0) {
        kr_log(KR_LOG_ERROR, "rotation failed", "error=\"%s\"", err.msg);
        f->forks = 0; /* try again after as many forks */
    }
}

void kr_family_tend(struct kr_warden *w)
{
    struct kr_err err;
    int ended = w->children_ended;
    w->children_ended = 0;
    for (struct kr_family *f = w->families; f; f = f->next) {
        if (ended)
            reap(f);
        tend_one(f);
    }
    for (struct kr_family **at = &w->families; *at;) {
        struct kr_family *f = *at;
        if (f->builder < 0 && f->cells == 0 && kr_guest_gone(f)) {
            *at = f->next;
            family_free(f);
        } else {
            at = &f->next;
        }
    }
    for (unsigned i = 0; i < w->config->zygote_count; i++) {
        struct kr_w_zygote failed = {.zygote = i, .state = KR_ZYG_FAILED};
        if (w->stopping || w->restart_at[i] == 0 || kr_clock_ns() < w->restart_at[i])
            continue;
        w->restart_at[i] = kr_is_guest(w, i) && kr_guest_lingers(w, i) ? kr_clock_ns() : 0;
        if (w->restart_at[i] != 0) /* looked at again with the next event, or tick */
            continue;
        if (kr_family_start(w, i, &err) >= 0)
            continue;
        kr_log(KR_LOG_ERROR, "zygote not restarted", "error=\"%s\"", err.msg);
        failed.generation = w->generation;
        failed.err = err;
        if (!try_later(w, i) && !kr_family_current(w, i))
            (void)kr_warden_tell(w, KR_W_ZYGOTE, 0, &failed, sizeof failed, NULL, 0);
    }
}
