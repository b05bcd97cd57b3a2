/* The egress process, as the warden keeps it: forked once cells can be made, and again after it has ended.
 *
 * Called from the loop by warden.c and from setup.c at the end. It is forked after the engine, by when the warden has
 * forgotten what only the engine needs (on_engine_forked), and each time in the same way, so that the first one and one
 * that comes later are confined alike. The warden keeps neither end of its socket: one goes to the engine, and the
 * process sees the end of file when the engine has closed it. Invariants: there is one of them at most; the warden
 * waits for it nowhere but at its own end, and there for a bounded time. */
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "level.h"
#include "log.h"
#include "oom.h"
#include "warden_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EGRESS_FD 3
#define RESTART_MS 100 /* after an end soon after the start; doubles */
#define RESTART_MAX_MS 30000
#define SERVED_MS 10000 /* one that was there for so long did not end by starting */
#define END_MS 2000

/* Who it becomes. Where we are root: an id that neither the engine, nor a cell, nor another instance has; below those
 * of engines (choose_engine()). 0: it stays who we are, as at level user, where our namespace has no other id, and in a
 * namespace whose root is an ordinary user outside and has no ids to give away. */
static void choose_ids(const struct kr_warden *w, uint32_t *ret_uid, uint32_t *ret_gid)
{
    struct kr_id_space space;
    *ret_uid = w->config->egress_uid;
    *ret_gid = w->config->egress_gid;
    if (w->standing.level == KR_LEVEL_USER || geteuid() != 0) {
        *ret_uid = *ret_gid = 0;
        return;
    }
    if (*ret_uid != 0)
        return;
    kr_ids_find(KR_LEVEL_ROOT, &space);
    if (space.per_slot > 1)
        *ret_uid = *ret_gid = space.first - 2 - space.slots - w->instance.id_slot;
}

/* Descriptors 0 to 2 and the socket; nothing else of the warden's. */
static int place_descriptors(int sock, struct kr_err *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), high = fcntl(sock, F_DUPFD_CLOEXEC, 100);
    if (null < 0 || high < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
        dup3(high, EGRESS_FD, O_CLOEXEC) < 0 || close_range(EGRESS_FD + 1, ~0U, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "descriptors of the egress process");
    return 0;
}

/* Before: a copy of the warden, with its rights, its memory without the engine's secrets, and its descriptors. After:
 * an id of its own where there is one, no capability and no way to gain one, no memory that another process of that id
 * could open, no protection where memory runs out, one socket, and an end that comes with the warden's. What it may do
 * beyond that (Landlock, a filter of its own) it takes from itself before it serves. If a step fails it ends, and is
 * tried again. */
static _Noreturn void be_egress(const struct kr_warden *w, int sock, pid_t warden)
{
    uint32_t uid, gid;
    struct kr_err err;
    sigset_t none;
    kr_log_set_who("egress");
    (void)prctl(PR_SET_NAME, "krait-egress"); /* for those who look at processes */
    /* A service manager sends these to all of us: this process ends when the warden does, or the engine. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    choose_ids(w, &uid, &gid);
    if (place_descriptors(sock, &err) < 0 || kr_oom_unprotect(&err) < 0 || kr_become_powerless(uid, gid, &err) < 0) {
        kr_log(KR_LOG_ERROR, "the egress process cannot be confined", "error=\"%s\"", err.msg);
        _exit(1);
    }
    /* After the change of ids, which clears it. Off the terminal: its Ctrl-C is the engine's. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 ||
        getppid() != warden || setsid() < 0)
        _exit(1);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(1);
    _exit(w->config->egress(EGRESS_FD, w->config->egress_arg));
}

/* The next one comes at once after one that has served for a while, else after a pause that grows. */
static void wait_for_next(struct kr_warden *w)
{
    uint64_t now = kr_clock_ns(), pause = RESTART_MS;
    if (now - w->egress.since_ns > SERVED_MS * 1000000ull)
        w->egress.ends = 0;
    for (unsigned i = 0; i < w->egress.ends && pause < RESTART_MAX_MS; i++)
        pause *= 2;
    w->egress.ends++;
    w->egress.due_ns = kr_clock_after_ms(pause < RESTART_MAX_MS ? (unsigned)pause : RESTART_MAX_MS);
}

static int start_egress(struct kr_warden *w, struct kr_err *err)
{
    pid_t warden = getpid();
    int pair[2], r;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    w->egress.since_ns = kr_clock_ns();
    w->egress.pid = fork();
    if (w->egress.pid == 0)
        be_egress(w, pair[1], warden);
    r = w->egress.pid < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "fork the egress process") : 0;
    if (r < 0)
        w->egress.pid = 0;
    else if ((r = kr_warden_tell(w, KR_W_EGRESS, 0, NULL, 0, &pair[0], 1)) < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "tell the engine of the egress process"); /* which ends with its socket */
    close(pair[0]);
    close(pair[1]);
    return r;
}

/* A lazy warden that sleeps has none, nor one that can make no cells. */
static int is_wanted(const struct kr_warden *w)
{
    return w->config->egress && w->egress.pid == 0 && !w->stopping && !w->asleep && w->why_not.kind == KR_ERR_NONE;
}

void kr_outlet_tend(struct kr_warden *w)
{
    struct kr_err err;
    if (!is_wanted(w) || kr_clock_ns() < w->egress.due_ns || start_egress(w, &err) >= 0)
        return;
    kr_log(KR_LOG_ERROR, "no egress process", "error=\"%s\"", err.msg);
    if (w->egress.pid == 0)
        wait_for_next(w);
}

int kr_outlet_pause_ms(const struct kr_warden *w)
{
    uint64_t now = kr_clock_ns();
    if (!is_wanted(w))
        return -1;
    return now < w->egress.due_ns ? (int)((w->egress.due_ns - now) / 1000000u) + 1 : 0;
}

void kr_outlet_reap(struct kr_warden *w)
{
    int status = 0;
    if (w->egress.pid == 0 || waitpid(w->egress.pid, &status, WNOHANG) != w->egress.pid)
        return;
    w->egress.pid = 0;
    if (w->stopping)
        return;
    wait_for_next(w);
    kr_log(KR_LOG_WARN, "the egress process ended and is started again", "status=%d", status);
}

/* It has nothing to save. One that a disk holds up is gone when the disk lets it. */
void kr_outlet_end(struct kr_warden *w)
{
    uint64_t late = kr_clock_after_ms(END_MS);
    if (w->egress.pid > 0)
        (void)kill(w->egress.pid, SIGKILL);
    for (; w->egress.pid > 0 && kr_clock_ns() < late; usleep(500))
        if (waitpid(w->egress.pid, NULL, WNOHANG) != 0)
            w->egress.pid = 0;
}
