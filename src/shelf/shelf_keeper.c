/* The keeper: a process of its own between the warden and the disk. A question takes tens of microseconds, but a
 * filesystem that is committing can hold it for seconds, and the warden must not wait that long. Neither must it wait
 * for a look at all descriptors of a cell (unlinked.c). It has the warden's
 * user and only the capabilities that its calls need, and holds no descriptor but the shelf's and its socket. */
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "log.h"
#include "shelf_internal.h"
#include "signals.h"
#include "unlinked.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* SYS_ADMIN: quotas, subvolumes, the loop device. SYS_RESOURCE: growing ext4. The others: folders of the server. */
#define KEEPER_CAPS                                                                                                    \
    (KR_CAP(CAP_SYS_ADMIN) | KR_CAP(CAP_SYS_RESOURCE) | KR_CAP(CAP_CHOWN) | KR_CAP(CAP_FOWNER) |                       \
     KR_CAP(CAP_DAC_OVERRIDE) | KR_CAP(CAP_DAC_READ_SEARCH))

#define CLEAN_MS 1000 /* dropped folders are freed within this; several at once */

static int compare_fds(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Everything but the standard streams and these. */
static int close_others(int *keep, size_t count)
{
    unsigned from = 3;
    qsort(keep, count, sizeof *keep, compare_fds);
    for (size_t i = 0; i < count; i++) {
        if (keep[i] < (int)from)
            continue;
        if (keep[i] > (int)from && close_range(from, (unsigned)keep[i] - 1, 0) < 0)
            return -errno;
        from = (unsigned)keep[i] + 1;
    }
    return close_range(from, ~0u, 0) < 0 ? -errno : 0;
}

static int answer_shelf(struct kr_shelf *s, int sock, uint32_t id, const struct kr_w_shelf *question)
{
    struct kr_w_shelved shelved;
    struct kr_err err = {0};
    if (kr_shelf_do(s, question, &shelved, &err) < 0)
        return kr_frame_send(sock, KR_W_FAILED, id, &err, sizeof err, NULL, 0);
    return kr_frame_send(sock, KR_W_SHELVED, id, &shelved, sizeof shelved, NULL, 0);
}

/* The rights for it: our user made the user namespace that the cell's is in, and that gives every capability over its
 * processes (user_namespaces(7)); CAP_DAC_READ_SEARCH opens their folders in /proc. */
static int answer_count(int sock, uint32_t id, const struct kr_k_count *question, int proc)
{
    struct kr_w_counted counted;
    struct kr_err err = {0};
    int r = kr_unlinked_count(proc, (dev_t)question->dev, &counted);
    if (r >= 0)
        return kr_frame_send(sock, KR_W_COUNTED, id, &counted, sizeof counted, NULL, 0);
    kr_err_set(&err, KR_ERR_UNAVAILABLE, -r, "processes of the cell cannot be looked at");
    return kr_frame_send(sock, KR_W_FAILED, id, &err, sizeof err, NULL, 0);
}

static int answer(struct kr_shelf *s, int sock)
{
    _Alignas(8) char buf[KR_FRAME_CONTROL_MAX];
    int fds[KR_FRAME_FDS_MAX];
    struct kr_frame f;
    struct kr_err err = {0};
    int r = kr_frame_recv(sock, &f, buf, sizeof buf, fds, 0, &err);
    if (r == -ETIMEDOUT)
        return 0;
    if (r >= 0 && f.type == KR_W_SHELF)
        return answer_shelf(s, sock, f.id, (const struct kr_w_shelf *)buf);
    if (r < 0 || f.type != KR_K_COUNT)
        return -1;
    r = answer_count(sock, f.id, (const struct kr_k_count *)buf, fds[0]);
    kr_fd_close(fds[0]);
    return r;
}

/* One question, or until that time. -1: the warden is gone. */
static int serve_until(struct kr_shelf *s, int sock, uint64_t when)
{
    uint64_t now = kr_clock_ns();
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int n = poll(&p, 1, when == UINT64_MAX ? -1 : when <= now ? 0 : (int)((when - now) / 1000000u) + 1);
    if (n < 0)
        return errno == EINTR ? 0 : -1;
    return n == 0 ? 0 : answer(s, sock);
}

static _Noreturn void be_keeper(struct kr_shelf *s, int sock)
{
    int keep[] = {sock, s->dir, s->file, s->loop};
    struct kr_err err;
    sigset_t none;
    kr_log_set_who("keeper");
    (void)prctl(PR_SET_NAME, "krait-keeper"); /* for those who look at processes */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* A terminal or a service manager sends these to all of us: the keeper ends when the warden does. */
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    kr_signals_ignore_strays();
    /* Before: all that the warden may. After: what its own calls need, for good. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || close_others(keep, sizeof keep / sizeof keep[0]) < 0 ||
        kr_caps_keep(KEEPER_CAPS, &err) < 0 || kr_no_new_privs(&err) < 0)
        _exit(1);
    for (uint64_t tend_at = 0;;) {
        uint64_t now = kr_clock_ns();
        if (now >= tend_at) {
            int ms = kr_shelf_tend(s);
            tend_at = ms < 0 ? UINT64_MAX : kr_clock_after_ms((unsigned)ms);
        }
        if (serve_until(s, sock, tend_at) < 0)
            _exit(0);
        if (s->dropped && tend_at > kr_clock_after_ms(CLEAN_MS))
            tend_at = kr_clock_after_ms(CLEAN_MS);
    }
}

int kr_shelf_keeper(struct kr_shelf *s, pid_t *ret_pid, struct kr_err *err)
{
    cleanup_fd int mine = -1, its = -1;
    int pair[2];
    pid_t pid;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "socketpair");
    mine = pair[0];
    its = pair[1];
    if (fcntl(mine, F_SETFL, O_NONBLOCK) < 0) /* a keeper that waits for its disk must not make us wait */
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "fcntl");
    pid = fork();
    if (pid < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "fork the keeper of the shelf");
    if (pid == 0)
        be_keeper(s, its);
    *ret_pid = pid;
    return steal_fd(&mine);
}
