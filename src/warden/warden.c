/* The warden: theory of operation.
 *
 * The process as started keeps its privilege and does one thing: build cells, on request, for an engine it does not
 * trust. It forks the engine first, then looks at what the machine can give, starts a family (builder + zygote) per
 * interpreter and preload, and serves a closed set of requests over one socket. Requests carry indices and numbers,
 * never paths or pids; each field is checked again here. One thread, one epoll; every wait on another process has a
 * deadline. When the engine ends, everything ends; when the warden ends, the lifeline pipe and the pid namespaces end
 * everything without it. */
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "warden_internal.h"
#include "log.h"
#include "setup.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENGINE_STALL_MS 5000 /* an engine that reads nothing for so long is no engine */
#define STOP_MS 2000
#define RELOAD_S 10 /* for files that are read again */
#define TICK_MS 200 /* while a family starts or ends */
#define BUSY_MS 3   /* until a cgroup can be removed */
#define EVENTS 16   /* a round */
#define OPENS_MAX 8 /* under way per family: enough to keep it busy, and never more than its socket holds */

int kr_warden_watch(struct kr_warden *w, int fd, struct kr_source *source, enum kr_source_kind kind, void *owner)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = source};
    *source = (struct kr_source){kind, owner};
    return epoll_ctl(w->epoll, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

int kr_warden_tell(struct kr_warden *w, uint16_t type, uint32_t id, const void *payload, size_t len, const int *fds,
                   unsigned nfds)
{
    uint64_t deadline = kr_clock_after_ms(ENGINE_STALL_MS);
    for (;;) {
        int r = kr_frame_send(w->engine, type, id, payload, len, fds, nfds);
        if (r < 0 && r != -EAGAIN && (id == 0 || type == KR_W_FAILED) && !w->stopping) {
            /* What it does not learn now it never learns: it would wait for a zygote that is ready, or keep a session
             * that has ended. */
            if (r != -EPIPE) /* else it has ended, and has said why */
                kr_log(KR_LOG_ERROR, "cannot send to the engine; stopping", "errno=%d", -r);
            w->stopping = 1;
        }
        if (r != -EAGAIN)
            return r;
        if (kr_fd_wait(w->engine, POLLOUT, deadline) <= 0) {
            kr_log(KR_LOG_ERROR, "the engine does not read; stopping", NULL);
            w->stopping = 1;
            return -ETIMEDOUT;
        }
    }
}

/* ---- requests ---- */

void kr_warden_refuse(struct kr_warden *w, uint32_t id, const struct kr_err *err)
{
    (void)kr_warden_tell(w, KR_W_FAILED, id, err, sizeof *err, NULL, 0);
}

static int check_workspace(const struct kr_warden *w, int32_t workspace, struct kr_err *err)
{
    if (workspace >= KR_WORKSPACE_NONE && workspace < (int32_t)w->config->workspace_count)
        return 0;
    if (workspace == KR_WORKSPACE_SHELF && w->shelf.dir >= 0)
        return 0;
    return kr_err_set(err, KR_ERR_INVALID, EINVAL, "workspace %d was not given at start", workspace);
}

static int check_mounts(const struct kr_warden *w, const struct kr_w_start *req, struct kr_err *err)
{
    if ((req->mounts != 0 || req->venv != 0 || req->read_only != 0) && w->standing.level == KR_LEVEL_CONTAINED)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0,
                          "level contained mounts nothing: no data sets, no environments, no read-only workspace");
    if (((uint64_t)req->mounts >> w->config->mount_count) != 0)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "mounts 0x%x were not given at start", req->mounts);
    if (req->venv > 1 || (req->venv != 0 && w->shelf.dir < 0))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "environment %u: no shelf was given at start", req->venv);
    if (req->read_only > 1)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "read_only %u", req->read_only);
    return 0;
}

static int check_open(struct kr_warden *w, const struct kr_w_open *req, struct kr_err *err)
{
    int r;
    if (req->zygote >= w->config->zygote_count)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "zygote %u was not given at start", req->zygote);
    if (kr_is_guest(w, req->zygote) && req->epoch != w->guests[req->zygote].epoch)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EAGAIN, "zygote %u has other packages by now", req->zygote);
    if (!w->woken[req->zygote])
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "zygote %u was not asked for yet", req->zygote);
    if (w->why_not.kind != KR_ERR_NONE) {
        *err = w->why_not;
        return -EIO;
    }
    if (kr_net_kind_check(req->network, w->config->egress != NULL, err) < 0)
        return -EINVAL;
    if (req->network != KR_NET_NONE && w->standing.level == KR_LEVEL_CONTAINED)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "level contained has no network of its own: only --network none");
    if (req->flags & ~(KR_OPEN_STDIN | KR_OPEN_PARK))
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "flags 0x%x", req->flags);
    if (w->open_count >= w->cell_max)
        return kr_err_set(err, KR_ERR_LIMIT, EAGAIN, "%u sessions wait to be opened, as many as may", w->open_count);
    r = check_workspace(w, req->workspace, err);
    if (r < 0 || (r = kr_limits_check(&req->limits, err)) < 0)
        return r;
    return kr_cgroups_admit(&w->cgroups, w->promised + w->queued + req->limits.memory, err);
}

static void on_open(struct kr_warden *w, uint32_t id, const struct kr_w_open *req)
{
    struct kr_err err = {0};
    struct kr_open *o = NULL;
    if (check_open(w, req, &err) >= 0 && !(o = malloc(sizeof *o)))
        kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "an open that waits");
    if (!o) {
        kr_warden_refuse(w, id, &err);
        return;
    }
    *o = (struct kr_open){.id = id, .req = *req};
    kr_limits_lower(&o->req.limits,
                    &w->config->ceilings); /* of its first moments; START is refused what is past them */
    STAILQ_INSERT_TAIL(&w->opens[req->zygote], o, link);
    w->open_count++;
    w->queued += o->req.limits.memory;
}

/* Those whose turn it is, in the order they came. */
static void serve_opens(struct kr_warden *w)
{
    struct kr_err err;
    for (unsigned i = 0; w->open_count > 0 && i < w->config->zygote_count; i++) {
        for (struct kr_open *o; (o = STAILQ_FIRST(&w->opens[i]));) {
            struct kr_family *f = kr_family_current(w, i);
            if (f && f->uses[KR_USE_WANTED] >= OPENS_MAX)
                break;
            STAILQ_REMOVE_HEAD(&w->opens[i], link);
            w->open_count--;
            w->queued -= o->req.limits.memory; /* from now on its cell counts */
            if (f) {
                kr_cell_open(f, o->id, &o->req);
            } else {
                kr_err_set(&err, KR_ERR_UNAVAILABLE, EAGAIN, "the zygote is not ready");
                kr_warden_refuse(w, o->id, &err);
            }
            free(o);
        }
    }
}

/* May the cell be the owner's? One that was parked for no owner brings a cgroup with all that an owner may have: an
 * owner that has one already would have it twice. */
static int check_owner(const struct kr_warden *w, const struct kr_cell *c, uint64_t owner, struct kr_err *err)
{
    uint64_t user;
    if (c->owner != 0 && owner != c->owner)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "the session was opened for another owner");
    user = w->config->user_groups && c->owner == 0 ? kr_cell_user_of(w, owner) : 0;
    if (user != 0 && user != c->group.user)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, EAGAIN, "the owner has other sessions, which this one cannot join");
    return 0;
}

static void on_start(struct kr_warden *w, uint32_t id, const struct kr_w_start *req)
{
    struct kr_err err = {0};
    struct kr_cell *c = kr_cell_find(w, req->cell);
    int r = check_workspace(w, req->workspace, &err);
    if (r >= 0)
        r = check_mounts(w, req, &err);
    if (r >= 0)
        r = kr_limits_check(&req->limits, &err);
    if (r >= 0)
        r = kr_limits_within(&req->limits, &w->config->ceilings, &err);
    if (r >= 0 && (!c || c->state != KR_CELL_PARKED))
        r = kr_err_set(&err, KR_ERR_NOT_FOUND, ESRCH, "no parked session in cell %llx", (unsigned long long)req->cell);
    if (r >= 0 && c)
        r = check_owner(w, c, req->owner, &err);
    if (r >= 0 && c)
        r = kr_cgroups_admit(&w->cgroups, w->promised - c->promised + req->limits.memory, &err);
    if (r < 0 || !c) {
        kr_warden_refuse(w, id, &err);
        return;
    }
    c->asked = id;
    if (kr_cell_start(c, req, &err) < 0)
        kr_cell_fail(c, &err); /* half handed over is not handed over */
}

static void on_stat(struct kr_warden *w, uint32_t id, uint64_t cell)
{
    struct kr_err err;
    struct kr_cell *c = kr_cell_find(w, cell);
    struct kr_w_stats stats = {.cell = cell};
    if (!c) {
        kr_err_set(&err, KR_ERR_NOT_FOUND, ESRCH, "no cell %llx", (unsigned long long)cell);
        kr_warden_refuse(w, id, &err);
        return;
    }
    if (c->state == KR_CELL_PARKED) /* there is time for it now; the hand-over looks again if it is not so */
        (void)kr_cell_check_place(c, &err);
    kr_cell_usage(c, &stats.usage);
    (void)kr_warden_tell(w, KR_W_STATS, id, &stats, sizeof stats, NULL, 0);
}

static uint64_t at_ceiling(uint64_t asked, uint64_t ceiling)
{
    return ceiling != 0 && (asked == 0 || asked > ceiling) ? ceiling : asked;
}

/* How large the image is, is the administrator's to say: GROW comes from a command alone. */
static int check_shelf_op(uint32_t op, struct kr_err *err)
{
    if (op == KR_SHELF_OPEN || op == KR_SHELF_MAKE || op == KR_SHELF_COPY || op == KR_SHELF_LIMIT ||
        op == KR_SHELF_DROP || op == KR_SHELF_USAGE)
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, EPERM, "shelf operation %u is not an engine's to ask for", op);
}

/* The keeper answers by itself, and its answers are passed on: the disk may be slow. The administrator's ceilings hold
 * for what is on the shelf, too; the answer says what is enforced. */
static void on_shelf(struct kr_warden *w, uint32_t id, const struct kr_w_shelf *req)
{
    struct kr_w_shelf question = *req;
    struct kr_err err;
    int r = check_shelf_op(question.op, &err);
    if (r >= 0)
        r = kr_setup_shelf(w, &err);
    if (question.op == KR_SHELF_MAKE || question.op == KR_SHELF_COPY || question.op == KR_SHELF_LIMIT) {
        question.bytes = at_ceiling(question.bytes, w->config->ceilings.disk);
        question.inodes = at_ceiling(question.inodes, w->config->ceilings.inodes);
    }
    if (r >= 0 && (r = kr_frame_send(w->keeper, KR_W_SHELF, id, &question, sizeof question, NULL, 0)) < 0)
        kr_err_set(&err, KR_ERR_BUSY, -r, "the keeper of the shelf does not take a question");
    if (r < 0)
        kr_warden_refuse(w, id, &err);
}

/* Hands the cell's /proc to the keeper, which looks at each descriptor of the cell and answers by itself. */
static int ask_keeper(struct kr_warden *w, uint32_t id, const struct kr_cell *c, int proc, struct kr_err *err)
{
    struct kr_k_count question = {.dev = c->workspace_dev};
    int r = w->shelf.dir >= 0 ? kr_setup_shelf(w, err) : kr_setup_keeper(w, err);
    if (r >= 0 && (r = kr_frame_send(w->keeper, KR_K_COUNT, id, &question, sizeof question, &proc, 1)) < 0)
        kr_err_set(err, KR_ERR_BUSY, -r, "the keeper does not take a question");
    return r;
}

/* A session whose first thread has ended shows no /proc while others of its threads live: that is blind, not gone. */
static void on_count(struct kr_warden *w, uint32_t id, uint64_t cell)
{
    static const struct kr_w_counted blind = {.blind = 1};
    struct kr_cell *c = kr_cell_find(w, cell);
    struct kr_err err = {0};
    cleanup_fd int proc = -1;
    int r = 0;
    if (!c || c->state != KR_CELL_STARTED)
        r = kr_err_set(&err, KR_ERR_NOT_FOUND, ESRCH, "no session in cell %llx", (unsigned long long)cell);
    else if (c->workspace_dev == 0 || (proc = kr_cell_proc(c)) == -EOPNOTSUPP)
        r = kr_err_set(&err, KR_ERR_UNAVAILABLE, EOPNOTSUPP, "open files of this cell cannot be counted");
    else if (proc >= 0)
        r = ask_keeper(w, id, c, proc, &err);
    else
        (void)kr_warden_tell(w, KR_W_COUNTED, id, &blind, sizeof blind, NULL, 0);
    if (r < 0)
        kr_warden_refuse(w, id, &err);
}

/* One that has ended is started again by the next question after it is reaped; those that it took are answered by their
 * deadlines. Its socket is taken out of the epoll first: a copy that a child has would keep it there (epoll(7)). */
static void on_keeper(struct kr_warden *w)
{
    _Alignas(8) char buf[KR_FRAME_CONTROL_MAX];
    struct kr_frame f;
    struct kr_err err;
    int r = kr_frame_recv_few(w->keeper, &f, buf, sizeof buf, NULL, 0, 0, &err);
    if (r >= 0 && (f.type == KR_W_SHELVED || f.type == KR_W_COUNTED || f.type == KR_W_FAILED)) {
        (void)kr_warden_tell(w, f.type, f.id, buf, f.len, NULL, 0);
        return;
    }
    if (r == -ETIMEDOUT)
        return;
    kr_log(KR_LOG_ERROR, "the keeper of the shelf has ended", NULL);
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, w->keeper, NULL);
    w->keeper = kr_fd_close(w->keeper);
    if (w->keeper_pid > 0)
        (void)kill(w->keeper_pid, SIGKILL);
}

static void reap_keeper(struct kr_warden *w)
{
    if (w->keeper_pid > 0 && waitpid(w->keeper_pid, NULL, WNOHANG) == w->keeper_pid)
        w->keeper_pid = 0; /* the number may be another's from now on; its socket says that it has ended */
}

static void on_signal(struct kr_warden *w, const struct kr_w_signal *req)
{
    struct kr_cell *c = kr_cell_find(w, req->cell);
    if (c && req->signo == SIGINT)
        (void)kr_cell_signal(c, req->since_ns, SIGINT);
}

static void on_pace(struct kr_warden *w, const struct kr_w_pace *req)
{
    struct kr_cell *c = kr_cell_find(w, req->cell);
    if (c && req->pace < KR_PACE_MAX_)
        kr_cell_pace(c, (enum kr_pace)req->pace);
}

/* The session itself stays: what is known of it is its pid, which is no other process's before it is reaped. */
static void on_clear(struct kr_warden *w, uint32_t id, const struct kr_w_clear *req)
{
    struct kr_cell *c = kr_cell_find(w, req->cell);
    struct kr_w_cleared cleared = {.cell = req->cell};
    struct kr_err err = {0};
    int r;
    if (!c || c->state != KR_CELL_STARTED || req->hard > 1 ||
        syscall(SYS_pidfd_send_signal, c->session_pidfd, 0, NULL, 0) < 0)
        r = kr_err_set(&err, KR_ERR_NOT_FOUND, ESRCH, "no session in cell %llx", (unsigned long long)req->cell);
    else
        r = kr_cgroup_clear(&w->cgroups, &c->group, c->session, req->since_ns, (int)req->hard, &err);
    if (r < 0 || !c) {
        kr_warden_refuse(w, id, &err);
        return;
    }
    cleared.left = (uint32_t)r;
    kr_cell_usage(c, &cleared.usage);
    (void)kr_warden_tell(w, KR_W_CLEARED, id, &cleared, sizeof cleared, NULL, 0);
}

static int say_hello(struct kr_warden *w);

/* `err` counts only if this fails: a step that continues without something (own ids, a cgroup) may have set it. */
static void wake(struct kr_warden *w)
{
    struct kr_err err;
    if (w->why_not.kind == KR_ERR_NONE && kr_setup_late(w, &err) < 0)
        w->why_not = err;
    if (w->why_not.kind == KR_ERR_NONE)
        (void)say_hello(w);
    else
        kr_log(KR_LOG_ERROR, "no cell can be made here", "error=\"%s\"", w->why_not.msg);
}

/* The first wake does what a start that is not lazy does at once. A failure is reported as the zygote's: its opens are
 * refused with the reason, and the engine goes on without cells. */
static void on_wake(struct kr_warden *w, uint32_t index)
{
    struct kr_w_zygote z = {.zygote = index, .state = KR_ZYG_FAILED};
    int r = 0;
    if (index >= w->config->zygote_count || w->woken[index] || kr_is_guest(w, index))
        return;
    w->woken[index] = 1;
    if (w->asleep) {
        w->asleep = 0;
        wake(w);
    }
    z.err = w->why_not;
    if (w->why_not.kind == KR_ERR_NONE)
        r = kr_family_start(w, index, &z.err);
    if (r < 0 || w->why_not.kind != KR_ERR_NONE)
        (void)kr_warden_tell(w, KR_W_ZYGOTE, 0, &z, sizeof z, NULL, 0);
}

static void on_engine(struct kr_warden *w)
{
    struct kr_frame f;
    _Alignas(8) char buf[KR_FRAME_CONTROL_MAX];
    struct kr_err err;
    int r = kr_frame_recv_few(w->engine, &f, buf, sizeof buf, NULL, 0, 0, &err);
    struct kr_cell *c;
    if (r == -ETIMEDOUT || r == -EAGAIN)
        return;
    if (r < 0) {
        if (r != -ENODATA)
            kr_log(KR_LOG_ERROR, "the engine broke the protocol; stopping", "error=\"%s\"", err.msg);
        w->stopping = 1;
        return;
    }
    switch (f.type) {
    case KR_W_OPEN:
        on_open(w, f.id, (const struct kr_w_open *)buf);
        return;
    case KR_W_START:
        on_start(w, f.id, (const struct kr_w_start *)buf);
        return;
    case KR_W_SIGNAL:
        on_signal(w, (const struct kr_w_signal *)buf);
        return;
    case KR_W_KILL:
        c = kr_cell_find(w, ((const struct kr_w_cell *)buf)->cell);
        if (c)
            kr_cell_kill(c);
        return;
    case KR_W_PACE:
        on_pace(w, (const struct kr_w_pace *)buf);
        return;
    case KR_W_CLEAR:
        on_clear(w, f.id, (const struct kr_w_clear *)buf);
        return;
    case KR_W_WAKE:
        on_wake(w, ((const struct kr_w_wake *)buf)->zygote);
        return;
    case KR_W_PRELOAD:
        kr_guest_preload(w, (const struct kr_w_preload *)buf);
        return;
    case KR_W_STAT:
        on_stat(w, f.id, ((const struct kr_w_cell *)buf)->cell);
        return;
    case KR_W_SHELF:
        on_shelf(w, f.id, (const struct kr_w_shelf *)buf);
        return;
    case KR_W_COUNT:
        on_count(w, f.id, ((const struct kr_w_cell *)buf)->cell);
        return;
    case KR_W_PING:
        (void)kr_warden_tell(w, KR_W_PONG, f.id, NULL, 0, NULL, 0);
        return;
    default:
        kr_log(KR_LOG_ERROR, "the engine sent a frame that is not its to send; stopping", "type=%u", f.type);
        w->stopping = 1;
    }
}

/* ---- SIGHUP ---- */

/* Before: the warden's rights and descriptors, in a copy of it. After: nothing; it does one thing and ends, with the
 * warden or after RELOAD_S too. A reload that is under way is given up for the new one, which begins when the old one
 * is reaped: a file may hold it up although it is killed, and the warden does not wait for that. */
static void start_reload(struct kr_warden *w)
{
    pid_t warden = getpid();
    if (!w->config->on_reload)
        return;
    w->reload_due = w->reload_pid > 0;
    if (w->reload_due) {
        (void)kill(w->reload_pid, SIGKILL);
        return;
    }
    w->reload_pid = fork();
    if (w->reload_pid < 0)
        kr_log(KR_LOG_ERROR, "settings not read again", "errno=%d", errno);
    if (w->reload_pid != 0)
        return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != warden)
        _exit(1);
    signal(SIGALRM, SIG_DFL);
    alarm(RELOAD_S);
    w->config->on_reload(w->arg);
    _exit(0);
}

static void reap_reload(struct kr_warden *w)
{
    if (w->reload_pid <= 0 || waitpid(w->reload_pid, NULL, WNOHANG) == 0)
        return;
    w->reload_pid = 0;
    if (w->reload_due && !w->stopping)
        start_reload(w);
}

/* ---- the loop ---- */

static void on_process_signal(struct kr_warden *w)
{
    struct signalfd_siginfo s;
    while (read(w->signals, &s, sizeof s) == (ssize_t)sizeof s) {
        w->children_ended |= s.ssi_signo == SIGCHLD;
        /* A terminal's SIGINT (SI_KERNEL) reaches the engine by itself; one that was sent to us alone does not. */
        if (s.ssi_signo == SIGTERM || s.ssi_signo == SIGHUP || (s.ssi_signo == SIGINT && s.ssi_code == SI_USER))
            (void)kill(w->engine_pid, (int)s.ssi_signo); /* the engine decides how to end; we follow it */
        if (s.ssi_signo == SIGHUP)
            start_reload(w);
    }
}

static void finish_cells(struct kr_warden *w)
{
    for (struct kr_cell *c = TAILQ_FIRST(&w->gone), *next; c; c = next) {
        next = TAILQ_NEXT(c, gone_link);
        (void)kr_cell_finish(c);
    }
}

static int is_short(const struct kr_family *f)
{
    const struct kr_warden *w = f->w;
    return !w->stopping && w->standing.level != KR_LEVEL_CONTAINED && f->state == KR_ZYG_READY && !f->lost &&
           f->uses[KR_USE_SPARE] < w->config->stock && w->cell_count < w->cell_max;
}

/* Opens are under way and the next one would find nothing: no calm to wait for. */
static int is_pressed(const struct kr_family *f)
{
    return f->uses[KR_USE_SPARE] == 0 && f->uses[KR_USE_WANTED] > 0;
}

/* One ready cell more for each family that is short of them: at once where opens follow each other, else one at a time
 * and after the calm. */
static void restock(struct kr_warden *w)
{
    struct kr_err err;
    struct kr_cell *c;
    for (struct kr_family *f = w->families; f; f = f->next) {
        if (!is_short(f) || (!is_pressed(f) && (w->debts > 0 || kr_clock_ns() < w->calm_at)))
            continue;
        if (kr_cell_build(f, KR_NET_NONE, &c, &err) < 0)
            kr_log(KR_LOG_WARN, "no cell for the stock", "error=\"%s\"", err.msg);
    }
}

static void dispatch(struct kr_warden *w, const struct kr_source *s)
{
    switch (s->kind) {
    case KR_SRC_ENGINE:
        on_engine(w);
        return;
    case KR_SRC_SIGNAL:
        on_process_signal(w);
        return;
    case KR_SRC_BUILDER:
        kr_family_on_builder(s->owner);
        return;
    case KR_SRC_ZYGOTE:
        kr_family_on_zygote(s->owner);
        return;
    case KR_SRC_INIT:
        kr_cell_on_init(s->owner);
        return;
    case KR_SRC_INIT_END:
        kr_cell_on_init_end(s->owner);
        return;
    case KR_SRC_KEEPER:
        on_keeper(w);
        return;
    }
}

static int at_most(int ms, int than)
{
    return ms < 0 || than < ms ? than : ms;
}

/* How long nothing need be looked at unasked: an idle warden sleeps. */
static int pause_ms(const struct kr_warden *w)
{
    uint64_t now = kr_clock_ns();
    int ms = w->gone_count > 0 ? BUSY_MS : w->debts > 0 || w->children_ended ? TICK_MS : -1;
    for (const struct kr_family *f = w->families; f; f = f->next) {
        if (f->state != KR_ZYG_READY || f->lost)
            ms = at_most(ms, TICK_MS);
        else if (w->debts == 0 && is_short(f))
            ms = at_most(ms, now < w->calm_at ? (int)((w->calm_at - now) / 1000000u) + 1 : 0);
    }
    for (size_t i = 0; i < w->config->zygote_count; i++)
        if (w->restart_at[i] != 0)
            ms = at_most(ms, TICK_MS);
    if (kr_outlet_pause_ms(w) >= 0)
        ms = at_most(ms, kr_outlet_pause_ms(w));
    if (w->gauges_at != 0)
        ms = at_most(ms, now < w->gauges_at ? (int)((w->gauges_at - now) / 1000000u) + 1 : 0);
    return ms;
}

/* Handling one event may end what another of the same round points to, but nothing is freed until all are handled. */
static void one_round(struct kr_warden *w, int wait_ms)
{
    struct epoll_event e[EVENTS];
    int n = epoll_wait(w->epoll, e, EVENTS, wait_ms);
    for (int i = 0; i < n; i++)
        dispatch(w, e[i].data.ptr);
    serve_opens(w);
    if (w->debts > 0 && kr_clock_ns() >= w->look_at) {
        kr_cells_look(w);
        w->look_at = kr_clock_after_ms(TICK_MS);
    }
    if (w->children_ended) {
        reap_keeper(w);
        reap_reload(w);
        kr_outlet_reap(w);
    }
    kr_outlet_tend(w);
    kr_gauges_tend(w);
    kr_family_tend(w);
    finish_cells(w);
    restock(w);
}

static void serve(struct kr_warden *w)
{
    while (!w->stopping)
        one_round(w, pause_ms(w));
}

/* Everything goes: the builders are killed, their namespaces take the rest along, the cgroups are removed. */
static void stop(struct kr_warden *w)
{
    uint64_t deadline = kr_clock_after_ms(STOP_MS);
    w->stopping = 1;
    (void)epoll_ctl(w->epoll, EPOLL_CTL_DEL, w->engine, NULL);
    w->engine = kr_fd_close(w->engine);
    for (size_t i = 0; i < KR_ZYGOTES_MAX; i++)
        for (struct kr_open *o; (o = STAILQ_FIRST(&w->opens[i])); free(o))
            STAILQ_REMOVE_HEAD(&w->opens[i], link);
    w->open_count = 0;
    w->queued = 0;
    for (struct kr_family *f = w->families; f; f = f->next)
        kr_family_kill(f);
    while ((w->families || w->cell_count > 0) && kr_clock_ns() < deadline)
        one_round(w, 2);
    if (w->cell_count > 0)
        kr_log(KR_LOG_WARN, "cells not gone in time, ignoring", "count=%u", w->cell_count);
}

static int reap_engine(struct kr_warden *w)
{
    int status = 0;
    for (uint64_t deadline = kr_clock_after_ms(STOP_MS); kr_clock_ns() < deadline; usleep(1000))
        if (waitpid(w->engine_pid, &status, WNOHANG) == w->engine_pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    (void)kill(w->engine_pid, SIGKILL);
    (void)waitpid(w->engine_pid, &status, 0);
    return 128 + SIGKILL;
}

static int say_hello(struct kr_warden *w)
{
    struct kr_w_hello h = {.version = KR_PROTO_VERSION,
                           .level = w->standing.level,
                           .layers = kr_setup_layers(w),
                           .landlock_abi = (uint32_t)w->landlock_abi,
                           .cgroup_kind = w->cgroups.kind,
                           .id_count = w->standing.unique ? w->standing.id_count : 1};
    int dirs[KR_HIERARCHIES_MAX]; /* to read by: what is ours there it could not write without them either */
    snprintf(h.detail, sizeof h.detail, "%.120s%s%.120s", w->standing.why,
             w->standing.why[0] && w->cgroups.why[0] ? "\n" : "", w->cgroups.why);
    for (unsigned i = 0; i < w->cgroups.count; i++) {
        h.hier[i] = w->cgroups.hier[i].is;
        dirs[i] = w->cgroups.hier[i].dir;
    }
    return kr_warden_tell(w, KR_W_HELLO, 0, &h, sizeof h, dirs, w->cgroups.count);
}

int kr_warden_launch(const struct kr_warden_config *c, kr_engine_main *engine, void *arg, struct kr_err *err)
{
    struct kr_warden w = {
        .config = c, .arg = arg, .epoll = -1, .engine = -1, .lifeline_r = -1, .lifeline_w = -1, .signals = -1};
    int r, hello, status;
    r = kr_setup(&w, engine, arg, err);
    for (unsigned i = 0; r >= 0 && !c->lazy && i < c->zygote_count; i++) {
        if (kr_is_guest(&w, i))
            continue;
        w.woken[i] = 1;
        r = kr_family_start(&w, i, err);
    }
    hello = r >= 0 && !c->lazy ? say_hello(&w) : 0;
    if (hello < 0 && hello != -EPIPE) /* EPIPE: the engine has ended already, and has said why */
        r = kr_err_set(err, KR_ERR_SYSTEM, -hello, "greet the engine");
    if (r >= 0)
        serve(&w);
    else if (w.engine_pid > 0)
        (void)kill(w.engine_pid, SIGKILL); /* it has received nothing yet, so nothing was run */
    stop(&w);
    status = w.engine_pid > 0 ? reap_engine(&w) : 0;
    kr_setup_undo(&w);
    return r < 0 ? r : status;
}
