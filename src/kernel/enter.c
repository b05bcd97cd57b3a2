/* The way into a cell, walked by a fresh copy of the zygote before any user code exists in it.
 *
 * Before: the zygote's ids, capabilities and half of the syscall filter, the cell's pid namespace (since the
 * fork), the zygote's other namespaces. After: the cell's namespaces, uid and gid 1000, no capability, no_new_privs,
 * its own session and process group, no descriptor but 0 to 4, the rest of the filter. Every failure is reported and
 * ends the process: there is no half-way cell. */
#include "caps.h"
#include "kernel.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#define SESSION_ID 1000
#define CELL_NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)

static int place_descriptors(const struct kr_fork *f, struct kr_err *err)
{
    /* In the cell, whose node it is: the zygote's would be the family's. */
    int in = f->in >= 0 ? f->in : open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int from[] = {in, f->out, f->err, f->channel, f->gate};
    int high[KR_GATE_FD + 1];
    if (in < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the cell's /dev/null");
    for (int i = 0; i <= KR_GATE_FD; i++) /* out of the way, so that placing one overwrites none */
        if ((high[i] = fcntl(from[i], F_DUPFD, 16)) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "descriptor %d", i);
    for (int i = 0; i <= KR_GATE_FD; i++)
        if (dup3(high[i], i, i >= KR_CHANNEL_FD ? O_CLOEXEC : 0) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "descriptor %d", i);
    if (close_range(KR_GATE_FD + 1, ~0U, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "close_range");
    return 0;
}

static int reset_signals(struct kr_err *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT); /* let through only while user code runs */
    if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "sigprocmask");
    return 0;
}

/* A core_pattern that is a pipe runs a handler on the host even at RLIMIT_CORE 0; at exactly 1 the kernel refuses
 * (core(5)). The filter keeps it there. */
static int no_core(struct kr_err *err)
{
    struct rlimit one = {1, 1};
    if (setrlimit(RLIMIT_CORE, &one) < 0) {
        struct rlimit have;
        if (getrlimit(RLIMIT_CORE, &have) < 0 || have.rlim_max != 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "RLIMIT_CORE");
        /* A hard limit of 0 came from outside and cannot be raised to 1: undumpable is what is left, and is set by the
         * caller. */
        return 1;
    }
    return 0;
}

/* By the descriptors of the namespaces themselves: a pidfd asks for the right to trace the init, which a zygote with
 * packages of a template must not have. Those of the builder's user namespace first, while we have a right in it; the
 * mount namespace asks for CAP_SYS_CHROOT, which we have in the cell's. */
static int enter_spaces(const struct kr_fork *f, struct kr_err *err)
{
    static const int flags[KR_SPACES_] = {[KR_SPACE_NET] = CLONE_NEWNET,
                                          [KR_SPACE_IPC] = CLONE_NEWIPC,
                                          [KR_SPACE_UTS] = CLONE_NEWUTS,
                                          [KR_SPACE_USER] = CLONE_NEWUSER,
                                          [KR_SPACE_MNT] = CLONE_NEWNS};
    for (int i = KR_SPACE_NET; i < KR_SPACES_; i++)
        if (setns(f->spaces[i], flags[i]) < 0)
            return kr_err_set(err, KR_ERR_SYSTEM, errno, "enter namespace %d of the cell", i);
    return 0;
}

static int enter_cell(const struct kr_fork *f, struct kr_err *err)
{
    if (f->req.spaces)
        return enter_spaces(f, err);
    if (setns(f->init, CELL_NAMESPACES) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "enter the cell's namespaces");
    return 0;
}

int kr_enter(const struct kr_fork *f, const struct kr_seccomp *filter, struct kr_err *err)
{
    int r, undumpable;
    if (!f->req.contained && (r = enter_cell(f, err)) < 0)
        return r;
    /* The one namespace that is our own making: its root is where we are, and only we are in the cell's cgroup. */
    if (!f->req.contained && unshare(CLONE_NEWCGROUP) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "cgroup namespace");
    if (!f->req.contained && chdir("/") < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "chdir /");
    if ((r = place_descriptors(f, err)) < 0)
        return r;
    if (setsid() < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "setsid");
    if (!f->req.contained && (r = kr_become(SESSION_ID, SESSION_ID, err)) < 0)
        return r;
    if (prctl(PR_SET_PDEATHSIG, f->req.contained ? SIGKILL : 0, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "parent-death signal");
    undumpable = no_core(err);
    if (undumpable < 0)
        return undumpable;
    if ((r = kr_caps_keep(0, err)) < 0 || (r = kr_no_new_privs(err)) < 0)
        return r;
    /* Changing ids made us undumpable, which hides /proc/self/fd and the like from the user's own code. No other
     * process can look: no ptrace in the filter, and no other uid in the cell. */
    if (!undumpable && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "dumpable");
    if ((r = reset_signals(err)) < 0)
        return r;
    return kr_seccomp_install(filter, err);
}
