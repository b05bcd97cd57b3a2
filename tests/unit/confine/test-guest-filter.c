/* What is left of a session's making to a zygote that imports the packages of a template: put on a child as the zygote
 * takes it, on top of the common part, beside a child that has the common part alone. */
#define _GNU_SOURCE 1
#include "caps.h"
#include "check.h"
#include "seccomp_rules.h"
#include <errno.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof *(a))
#define CHECK_THAT(cond, ...)                                                                                          \
    do {                                                                                                               \
        if (!(cond)) {                                                                                                 \
            printf("FAIL %s: %s:%d: %s: ", __func__, __FILE__, __LINE__, #cond);                                       \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            check_failed_ = 1;                                                                                         \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)
#define OTHER 1 /* a process that is there */
#define LISTENER SECCOMP_FILTER_FLAG_NEW_LISTENER

static struct kr_seccomp common, guest;

/* What is left to it of the calls that make a session: they only ever take away, or need what the warden sends. */
static const uint16_t free_calls[] = {SYS_setns,  SYS_setgroups, SYS_setresgid, SYS_setresuid,
                                      SYS_capset, SYS_setsid,    SYS_pidfd_open};

static void every_call_of_the_setup_is_judged(void)
{
    for (size_t i = 0; i < kr_sc_guest_rows_count; i++) {
        const struct kr_sc_server_row *r = &kr_sc_guest_rows[i];

        CHECK_THAT(i == 0 || r[-1].nr < r->nr, "number %u", r->nr);
        CHECK_THAT(r->act >= KR_SC_CHECK_FIRST_ && strlen(r->why) > 5 && !strchr(r->why, '|'), "number %u", r->nr);
    }
    for (size_t i = 0; i < kr_sc_setup_count; i++) {
        int found = 0;

        for (size_t k = 0; k < kr_sc_guest_rows_count; k++)
            found += kr_sc_guest_rows[k].nr == kr_sc_setup[i];
        for (size_t k = 0; k < LEN(free_calls); k++)
            found += free_calls[k] == kr_sc_setup[i];
        CHECK_THAT(found == 1, "call %u", kr_sc_setup[i]);
    }
    for (size_t i = 0; i < kr_sc_rows_count; i++) { /* on which the kinds of cell differ */
        const struct kr_sc_row *r = &kr_sc_rows[i];
        int found = r->act[KR_SECCOMP_CELL_NONE] == r->act[KR_SECCOMP_CELL_LOOPBACK];

        for (size_t k = 0; k < kr_sc_guest_rows_count; k++)
            found |= kr_sc_guest_rows[k].nr == r->nr;
        CHECK_THAT(found, "%s", r->name);
    }
}

static unsigned judged(const struct kr_seccomp *s, unsigned nr, const unsigned long long *a)
{
    return kr_seccomp_simulate(s, KR_SC_ARCH, (int)nr, a);
}

/* Its sessions inherit it: what theirs lets by, this one does. */
static void nothing_is_taken_from_a_session(void)
{
    for (int p = KR_SECCOMP_CELL_NONE; p <= KR_SECCOMP_CELL_LOOPBACK; p++) {
        struct kr_seccomp whole = {0};
        struct kr_err err;

        CHECK(kr_seccomp_compile((enum kr_seccomp_profile)p, KR_SECCOMP_WHOLE, &whole, &err) == 0);
        for (size_t i = 0; i < kr_sc_guest_rows_count; i++)
            for (unsigned long long v = 0; v < 0x9000; v++)
                for (int k = 0; k < 2; k++) {
                    unsigned nr = kr_sc_guest_rows[i].nr;
                    unsigned long long a[6] = {nr == SYS_ioctl ? 0 : v, nr == SYS_ioctl ? v : (unsigned)k, 0, 0, 0, 0};

                    CHECK_THAT(judged(&whole, nr, a) != SECCOMP_RET_ALLOW || judged(&guest, nr, a) == SECCOMP_RET_ALLOW,
                               "profile %d, call %u, %llx", p, nr, v);
                }
        kr_seccomp_done(&whole);
    }
}

/* --- the kernel ------------------------------------------------------------ */

static const struct {
    const char *name;
    long nr, a[5];
    int error, plain; /* under it; without it, where it would not be harmful: -1 */
} tried[] = {
    {"unshare user", SYS_unshare, {CLONE_NEWUSER}, EPERM, -1},
    {"unshare mount", SYS_unshare, {CLONE_NEWNS}, EPERM, -1},
    {"unshare cgroup and net", SYS_unshare, {CLONE_NEWCGROUP | CLONE_NEWNET}, EPERM, -1},
    {"unshare nothing", SYS_unshare, {0}, EPERM, 0},
    {"a netlink socket", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, EPERM, 0},
    {"a packet socket", SYS_socket, {AF_PACKET, SOCK_RAW, 0}, EPERM, 0},
    {"an unknown socket", SYS_socket, {99, SOCK_STREAM, 0}, EPERM, EAFNOSUPPORT},
    {"a TCP socket", SYS_socket, {AF_INET, SOCK_STREAM, 0}, 0, 0},
    {"a filter with a listener", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, LISTENER, 0}, EPERM, EFAULT},
    {"a filter with flags far up", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, 1L << 32 | 1, 0}, EPERM, EFAULT},
    {"strict mode with arguments", SYS_seccomp, {SECCOMP_SET_MODE_STRICT, 1, 0}, EPERM, EINVAL},
    {"a filter of a session", SYS_seccomp, {SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, 0}, EFAULT, EFAULT},
    {"limits of another", SYS_prlimit64, {OTHER, RLIMIT_NOFILE, 0, 0}, EPERM, 0},
    {"its own limits", SYS_prlimit64, {0, RLIMIT_NOFILE, 0, 0}, 0, 0},
    {"PR_SET_KEEPCAPS", SYS_prctl, {PR_SET_KEEPCAPS, 1}, EINVAL, 0},
    {"PR_SET_SECCOMP", SYS_prctl, {PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0}, EINVAL, EFAULT},
    {"PR_CAP_AMBIENT raise", SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 99, 0, 0}, EINVAL, EINVAL},
    {"PR_CAP_AMBIENT clear", SYS_prctl, {PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0}, 0, 0},
    {"PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 1}, 0, 0},
    {"input into a terminal", SYS_ioctl, {-1, TIOCSTI, 0}, EPERM, EBADF},
    {"an unknown ioctl", SYS_ioctl, {-1, 0x12345678, 0}, ENOTTY, EBADF},
    {"the size of a terminal", SYS_ioctl, {-1, TIOCGWINSZ, 0}, EBADF, EBADF},
    {"setns", SYS_setns, {-1, 0}, EBADF, EBADF},
    {"mount", SYS_mount, {0, 0, 0, 0, 0}, EPERM, -1},
};

static int try_all(int with)
{
    for (size_t i = 0; i < LEN(tried); i++) {
        int wanted = with ? tried[i].error : tried[i].plain;
        long r;

        if (wanted < 0)
            continue;
        errno = 0;
        r = syscall(tried[i].nr, tried[i].a[0], tried[i].a[1], tried[i].a[2], tried[i].a[3], tried[i].a[4]);
        if (r < 0 ? errno != wanted : wanted != 0) {
            printf("# %s: %s, not %s\n", tried[i].name, strerror(r < 0 ? errno : 0), strerror(wanted));
            fflush(stdout);
            return 1;
        }
        if (r > 2)
            close((int)r);
    }
    return 0;
}

static int in_child(int with)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || kr_seccomp_install(&common, NULL) < 0 ||
            (with && kr_seccomp_install(&guest, NULL) < 0))
            _exit(99);
        _exit(try_all(with));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void the_kernel_refuses_what_is_not_left(void)
{
    CHECK(in_child(1) == 0);
}

static void the_common_part_alone_lets_it_by(void)
{
    if (geteuid() != 0) {
        printf("SKIP the_common_part_alone_lets_it_by: needs root\n");
        return;
    }
    CHECK(in_child(0) == 0);
}

/* --- whom the zygote becomes ------------------------------------------------ */

static int become(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct d[2];
    struct kr_err err;

    if (kr_caps_pass_on(4321, KR_CAP(CAP_SYS_ADMIN), &err) < 0)
        return 1;
    if (syscall(SYS_capget, &head, d) < 0 || getuid() != 4321 || getgid() != 4321 ||
        syscall(SYS_getgroups, 0, NULL) != 0)
        return 2;
    if (d[0].permitted != 1u << CAP_SYS_ADMIN || d[0].effective != d[0].permitted || d[1].permitted != 0)
        return 3;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SYS_ADMIN, 0, 0) != 1 ||
        prctl(PR_CAPBSET_READ, CAP_SETUID, 0, 0, 0) != 0 || prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0) != 0)
        return 4;
    return setresuid(0, 0, 0) == 0 ? 5 : 0;
}

static void an_id_that_owns_nothing_keeps_one_capability(void)
{
    int status = -1;
    pid_t pid;

    if (geteuid() != 0) {
        printf("SKIP an_id_that_owns_nothing_keeps_one_capability: needs root\n");
        return;
    }
    pid = fork();
    if (pid == 0)
        _exit(become());
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_THAT(WEXITSTATUS(status) == 0, "step %d", WEXITSTATUS(status));
}

int main(void)
{
    struct kr_err err = {0};

    if (kr_seccomp_compile(KR_SECCOMP_CELL_NONE, KR_SECCOMP_COMMON, &common, &err) < 0 ||
        kr_seccomp_compile(KR_SECCOMP_CELL_LOOPBACK, KR_SECCOMP_GUEST, &guest, &err) < 0) {
        printf("FAIL compile: %s\n", err.msg);
        return 1;
    }
    RUN(every_call_of_the_setup_is_judged);
    RUN(nothing_is_taken_from_a_session);
    RUN(the_kernel_refuses_what_is_not_left);
    RUN(the_common_part_alone_lets_it_by);
    RUN(an_id_that_owns_nothing_keeps_one_capability);
    kr_seccomp_done(&common);
    kr_seccomp_done(&guest);
    CHECK_DONE();
}
