/* The last steps before a zygote: limits, capabilities, descriptors, environment, exec. Called by the builder (cells)
 * and the keeper (contained). Invariant: nothing of krait's own environment, arguments or descriptors reaches
 * Python. */
#include "zygote_exec.h"
#include "caps.h"
#include "signals.h"
#include "slice.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CONTROL_FD 3

/* Limits that a zygote hands to its sessions and that no cgroup counts. Queued signals and POSIX timers are charged to
 * the owner of krait as well as to the cell, so one cell could take all of them (tried: the host's timer_create()
 * failed). In the zygote, not in us: the limit of the process that makes a cell's user namespace is what all its
 * siblings share. */
static int limit_sessions(void)
{
    static const struct {
        int resource;
        rlim_t most;
    } rows[] = {{RLIMIT_SIGPENDING, 256}, {RLIMIT_MSGQUEUE, 0}, {RLIMIT_RTPRIO, 0}, {RLIMIT_NICE, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct rlimit have;
        if (getrlimit(rows[i].resource, &have) < 0)
            return -errno;
        if (have.rlim_max > rows[i].most)
            have.rlim_max = rows[i].most;
        if (have.rlim_cur > have.rlim_max)
            have.rlim_cur = have.rlim_max;
        if (setrlimit(rows[i].resource, &have) < 0)
            return -errno;
    }
    return 0;
}

static int place_descriptors(const struct kr_builder_args *a)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int high = fcntl(a->zygote_control, F_DUPFD_CLOEXEC, 10); /* dup2() onto itself would keep CLOEXEC */
    if (null < 0 || high < 0 || dup2(null, 0) < 0 ||
        dup2(null, 1) < 0) /* stderr stays: a zygote that fails to start says why */
        return -errno;
    if (dup2(high, CONTROL_FD) < 0 || close_range(CONTROL_FD + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

/* What krait's caller ignored must not be ignored by sessions: a shell's background job ignores SIGINT, and Python
 * would then never be interrupted. By the raw call, because glibc keeps two signals to itself. All zero is the kernel's
 * struct sigaction of SIG_DFL. */
static int reset_signals(void)
{
    static const unsigned long zero[4];
    for (int sig = 1; sig <= 64; sig++)
        if (sig != SIGKILL && sig != SIGSTOP && syscall(SYS_rt_sigaction, sig, zero, NULL, sizeof(unsigned long)) < 0)
            return -errno;
    return 0;
}

_Noreturn void kr_zygote_exec(const struct kr_builder_args *a, const char *dir, const char *scratch, uint64_t keep_caps)
{
    static const char *const preloads[] = {"basic", "data", "template"};
    int is_guest = a->preload == KR_PRELOAD_TEMPLATE;
    const char *folder = scratch ? scratch : "/tmp";
    char boot[300], control[16], home[300], mpl[300], own[300];
    /* Thread counts are 1 because only one thread may exist when the zygote forks. The last one is for level contained
     * alone. */
    char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin",
                         "LANG=C.UTF-8",
                         "LC_ALL=C.UTF-8",
                         "TZ=UTC",
                         "OPENBLAS_NUM_THREADS=1",
                         "OMP_NUM_THREADS=1",
                         "MKL_NUM_THREADS=1",
                         "NUMEXPR_NUM_THREADS=1",
                         "MPLBACKEND=Agg",
                         "PYTHONDONTWRITEBYTECODE=1",
                         home,
                         mpl,
                         scratch ? own : NULL,
                         NULL};
    char *const argv[] = {(char *)a->python,
                          "-I",
                          "-S",
                          boot,
                          (char *)preloads[a->preload],
                          control,
                          is_guest ? (char *)a->modules : NULL,
                          NULL};
    struct kr_err err;
    sigset_t blocked;
    snprintf(boot, sizeof boot, "%s/boot.py", dir);
    snprintf(control, sizeof control, "%d", CONTROL_FD);
    snprintf(home, sizeof home, "HOME=%s", folder);
    snprintf(mpl, sizeof mpl, "MPLCONFIGDIR=%s", folder);
    snprintf(own, sizeof own, "KRAIT_SCRATCH=%s", folder);
    if (limit_sessions() < 0 ||
        (is_guest ? kr_caps_pass_on(a->guest_id, keep_caps, &err) : kr_caps_keep(keep_caps, &err)) < 0)
        _exit(71);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0) /* a change of ids clears it */
        _exit(71);
    kr_slice_set(KR_SLICE_SESSION_NS);
    if (place_descriptors(a) < 0 || (is_guest && dup2(1, 2) < 0)) /* our log is not for its packages to write to */
        _exit(73);
    /* Blocked and not ignored: a session sets its own mask, and would inherit what is ignored. A service manager sends
     * SIGTERM and SIGHUP to all of us; a zygote ends by its family. */
    kr_signals_strays(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGHUP);
    if (reset_signals() < 0 || sigprocmask(SIG_SETMASK, &blocked, NULL) < 0)
        _exit(73);
    execve(a->python, argv, env);
    _exit(74);
}
