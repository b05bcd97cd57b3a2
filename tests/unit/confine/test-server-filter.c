/* The filter of krait's own unprivileged process, put on a child as the server puts it on itself: every call that it
 * refuses is refused by the kernel, beside a child without it, and what the server lives by works. */
#define _GNU_SOURCE 1
#include "seccomp_rules.h"
#include "check.h"
#include "seccomp-probes.h"
#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
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

static struct kr_seccomp filter;

static int refuses(unsigned act)
{
    return act == KR_SC_EPERM || act == KR_SC_ENOSYS;
}

static const struct kr_sc_row *row_of(long nr)
{
    for (size_t i = 0; i < kr_sc_rows_count; i++)
        if (kr_sc_rows[i].nr == nr)
            return &kr_sc_rows[i];
    return NULL;
}

/* Runs fn in a child, filtered or not; its exit status, or 128 + the signal that ended it. */
static int in_child(int filtered, int (*fn)(void *), void *arg)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || (filtered && kr_seccomp_install(&filter, NULL) < 0))
            _exit(99);
        _exit(fn(arg));
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* --- the rows -------------------------------------------------------------- */

static void server_rows_are_sorted_known_and_have_reasons(void)
{
    for (size_t i = 0; i < kr_sc_server_rows_count; i++) {
        const struct kr_sc_server_row *r = &kr_sc_server_rows[i];

        CHECK_THAT(i == 0 || r[-1].nr < r->nr, "number %u", r->nr);
        CHECK_THAT(row_of(r->nr), "number %u is not in the table", r->nr);
        CHECK_THAT(r->act < KR_SC_ACT_MAX_ && !refuses(r->act), "number %u", r->nr);
        CHECK_THAT(strlen(r->why) > 5 && !strchr(r->why, '|'), "number %u", r->nr);
    }
    CHECK_THAT(filter.count > 100 && filter.count < 600, "%u instructions", filter.count);
}

static void egress_rows_are_sorted_known_and_have_reasons(void)
{
    for (size_t i = 0; i < kr_sc_egress_rows_count; i++) {
        const struct kr_sc_server_row *r = &kr_sc_egress_rows[i];

        CHECK_THAT(i == 0 || r[-1].nr < r->nr, "number %u", r->nr);
        CHECK_THAT(row_of(r->nr), "number %u is not in the table", r->nr);
        CHECK_THAT(r->act < KR_SC_ACT_MAX_ && !refuses(r->act), "number %u", r->nr);
        CHECK_THAT(strlen(r->why) > 5 && !strchr(r->why, '|'), "number %u", r->nr);
    }
}

/* By number: bind, listen, programs, processes, tracing, names of files, io_uring; and sockets of another kind. */
static void what_a_taken_egress_process_would_want_is_refused(void)
{
    static const short denied[] = {49,  50,  53,  57,  58,  59,  62,  76,  82,  83,  84,  86,  87,  88, 90,
                                   101, 155, 161, 165, 200, 246, 272, 298, 308, 310, 317, 319, 322, 425};
    static const unsigned long long kinds[][6] = {{1, 1, 0}, {16, 3, 0},  {17, 3, 0},
                                                  {2, 3, 1}, {2, 1, 262}, {40, 1, 0}};
    static const unsigned long long tcp[6] = {2, 1, 0}, udp6[6] = {10, 2, 17}, none[6] = {0};
    struct kr_seccomp egress = {0};
    struct kr_err err;

    CHECK(kr_seccomp_compile(KR_SECCOMP_EGRESS, KR_SECCOMP_WHOLE, &egress, &err) == 0);
    for (size_t i = 0; i < LEN(denied); i++)
        CHECK_THAT(kr_seccomp_simulate(&egress, KR_SC_ARCH, denied[i], none) == (SECCOMP_RET_ERRNO | EPERM), "call %d",
                   denied[i]);
    for (size_t i = 0; i < LEN(kinds); i++)
        CHECK_THAT(kr_seccomp_simulate(&egress, KR_SC_ARCH, SYS_socket, kinds[i]) == (SECCOMP_RET_ERRNO | EPERM),
                   "socket %zu", i);
    CHECK(kr_seccomp_simulate(&egress, KR_SC_ARCH, SYS_socket, tcp) == SECCOMP_RET_ALLOW);
    CHECK(kr_seccomp_simulate(&egress, KR_SC_ARCH, SYS_socket, udp6) == SECCOMP_RET_ALLOW);
    CHECK(kr_seccomp_simulate(&egress, KR_SC_ARCH, SYS_connect, none) == SECCOMP_RET_ALLOW);
    kr_seccomp_done(&egress);
}

/* By number, apart from the table: programs, processes, sockets of its own, other processes' memory, namespaces and
 * mounts, the kernel's own surface. */
static void what_a_taken_server_would_want_is_refused(void)
{
    static const short denied[] = {41,  42,  49,  53,  57,  58,  59,  62,  101, 135, 139, 155, 157, 161, 165,
                                   166, 175, 176, 200, 206, 246, 248, 250, 253, 272, 298, 300, 303, 304, 308,
                                   310, 311, 312, 313, 314, 317, 319, 320, 321, 322, 323, 329, 424, 425, 426,
                                   427, 428, 429, 430, 431, 432, 434, 438, 440, 442, 447, 448, 29,  64,  68,
                                   92,  105, 106, 117, 126, 141, 144, 188, 203, 251, 109, 112};
    static const short unknown[] = {435, 449, 461, 500, 1000};
    const unsigned long long none[6] = {0};

    for (size_t i = 0; i < LEN(denied); i++)
        CHECK_THAT(kr_seccomp_simulate(&filter, KR_SC_ARCH, denied[i], none) == (SECCOMP_RET_ERRNO | EPERM), "call %d",
                   denied[i]);
    for (size_t i = 0; i < LEN(unknown); i++)
        CHECK_THAT(kr_seccomp_simulate(&filter, KR_SC_ARCH, unknown[i], none) == (SECCOMP_RET_ERRNO | ENOSYS),
                   "call %d", unknown[i]);
    CHECK(kr_seccomp_simulate(&filter, AUDIT_ARCH_I386, 20, none) == SECCOMP_RET_KILL_PROCESS);
}

/* --- the kernel ------------------------------------------------------------ */

/* The kernel is asked every call that is refused as a whole; the filter answers, so no argument can do harm. */
static int ask_all_refused(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < kr_sc_rows_count; i++) {
        const struct kr_sc_row *r = &kr_sc_rows[i];
        unsigned act = kr_sc_act(r, KR_SECCOMP_SERVER);

        if (!refuses(act) || r->nr == 335 || r->nr == 336) /* uretprobe, uprobe: past every filter since Linux 6.14 */
            continue;
        errno = 0;
        if (syscall(r->nr, -1, -1, -1, -1, -1, -1) != -1 || errno != (act == KR_SC_EPERM ? EPERM : ENOSYS)) {
            printf("# %s: %s\n", r->name, strerror(errno));
            fflush(stdout);
            return 1;
        }
    }
    return 0;
}

static void every_refused_call_is_refused_by_the_kernel(void)
{
    size_t refused = 0;

    for (size_t i = 0; i < kr_sc_rows_count; i++)
        refused += (size_t)refuses(kr_sc_act(&kr_sc_rows[i], KR_SECCOMP_SERVER));
    CHECK_THAT(refused > 200 && refused < kr_sc_rows_count, "%zu", refused);
    CHECK(in_child(1, ask_all_refused, NULL) == 0);
}

/* Calls that fail in another way without the filter (or do nothing), so that the refusal is known to be the
 * filter's. */
static const struct {
    const char *name;
    long nr, a[6];
    int plain; /* ANY_ERROR: anything but EPERM and ENOSYS */
} controls[] = {
    {"execve", SYS_execve, {0, 0, 0}, EFAULT},
    {"execveat", SYS_execveat, {-1, 0, 0, 0, 0x7fff}, ANY_ERROR},
    {"clone of a process", SYS_clone, {CLONE_SIGHAND | SIGCHLD}, EINVAL},
    {"socket AF_INET", SYS_socket, {AF_INET, SOCK_STREAM, 0}, 0},
    {"socket AF_UNIX", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, 0},
    {"socketpair", SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, 0}, EFAULT},
    {"connect", SYS_connect, {-1, 0, 0}, EBADF},
    {"bind", SYS_bind, {-1, 0, 0}, EBADF},
    {"sendto an address", SYS_sendto, {-1, 0, 0, 0, 1, 0}, EBADF},
    {"sendto an address, upper half alone", SYS_sendto, {-1, 0, 0, 0, HIGH, 0}, EBADF},
    {"kill", SYS_kill, {NOPID, 0}, ESRCH},
    {"tkill", SYS_tkill, {NOPID, 0}, ESRCH},
    {"tgkill with another signal", SYS_tgkill, {NOPID, NOPID, SIGTERM}, ESRCH},
    {"pidfd_open", SYS_pidfd_open, {NOPID, 0}, ESRCH},
    {"pidfd_send_signal", SYS_pidfd_send_signal, {-1, 0, 0, 0}, EBADF},
    {"mmap that can be executed", SYS_mmap, {0, 0, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, EINVAL},
    {"mprotect that makes executable", SYS_mprotect, {1, 4096, PROT_READ | PROT_EXEC}, EINVAL},
    {"prlimit64 of another", SYS_prlimit64, {NOPID, RLIMIT_NOFILE, 0, 0}, ESRCH},
    {"prlimit64 sets a limit", SYS_prlimit64, {0, RLIMIT_NOFILE, 1, 0}, EFAULT},
    {"setpriority", SYS_setpriority, {0, NOPID, 0}, ESRCH},
    {"setxattr", SYS_setxattr, {MISSING, (long)"user.x", 0, 0, 0}, ENOENT},
    {"chown", SYS_chown, {MISSING, -1, -1}, ENOENT},
    {"memfd_create", SYS_memfd_create, {0, 0}, EFAULT},
    {"shmget", SYS_shmget, {0, 0, 0}, EINVAL},
    {"waitid", SYS_waitid, {99, 0, 0, 0, 0}, EINVAL},
    {"prctl PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 99}, EINVAL},
    {"landlock_create_ruleset", SYS_landlock_create_ruleset, {0, 0, 1}, ANY_ERROR},
};

static int ask_controls(void *arg)
{
    int *got = arg;

    for (size_t i = 0; i < LEN(controls); i++) {
        const long *a = controls[i].a;

        errno = 0;
        got[i] = syscall(controls[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 ? errno : 0;
    }
    return 0;
}

static void the_refusals_are_the_filter_s(void)
{
    int *got = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(in_child(0, ask_controls, got) == 0);
    for (size_t i = 0; i < LEN(controls); i++) {
        if (controls[i].plain != ANY_ERROR)
            CHECK_THAT(got[i] == controls[i].plain, "%s unfiltered: %s", controls[i].name, strerror(got[i]));
        else
            CHECK_THAT(got[i] != EPERM, "%s unfiltered: %s", controls[i].name, strerror(got[i]));
    }
    CHECK(in_child(1, ask_controls, got) == 0);
    for (size_t i = 0; i < LEN(controls); i++)
        CHECK_THAT(got[i] == EPERM, "%s: %s", controls[i].name, strerror(got[i]));
}

/* The probes of sessions, asked under the server's filter: what is refused to the server is EPERM or ENOSYS. */
static int ask_probes(void *arg)
{
    int *got = arg;

    for (size_t i = 0; i < LEN(probes); i++) {
        const long *a = probes[i].a;

        errno = 0;
        got[i] = syscall(probes[i].nr, a[0], a[1], a[2], a[3], a[4], a[5]) == -1 ? errno : 0;
    }
    return 0;
}

static void probes_of_sessions_are_answered_by_the_server_s_rows(void)
{
    int *got = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    size_t refused = 0;

    CHECK(sizeof *got * LEN(probes) <= 4096);
    CHECK(in_child(1, ask_probes, got) == 0);
    for (size_t i = 0; i < LEN(probes); i++) {
        unsigned long long a[6];
        unsigned want;

        for (size_t k = 0; k < 6; k++)
            a[k] = (unsigned long long)probes[i].a[k];
        want = kr_seccomp_simulate(&filter, KR_SC_ARCH, (int)probes[i].nr, a);
        if (want == SECCOMP_RET_ALLOW)
            continue;
        refused++;
        CHECK_THAT(got[i] == (int)(want & SECCOMP_RET_DATA), "%s: %s", probes[i].name, strerror(got[i]));
    }
    CHECK_THAT(refused > 70, "%zu", refused);
}

static int try_fork(void *arg)
{
    pid_t pid = fork();

    (void)arg;
    if (pid == 0)
        _exit(0);
    return pid < 0 ? errno : 0;
}

static int make_code(void *arg)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)arg;
    return mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0 ? errno : 0;
}

static void no_process_and_no_code_is_made(void)
{
    CHECK(in_child(0, try_fork, NULL) == 0 && in_child(1, try_fork, NULL) == EPERM);
    CHECK(in_child(0, make_code, NULL) == 0 && in_child(1, make_code, NULL) == EPERM);
}

/* A listener that was shut down is an unconnected TCP socket, which a send can connect: what a server that was taken
 * over holds, without socket() and connect(). */
struct opening {
    int listener;
    struct sockaddr_in to;
    bool by_message;
};

static int open_by_sending(void *arg)
{
    struct opening *o = arg;
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_name = &o->to, .msg_namelen = sizeof o->to, .msg_iov = &v, .msg_iovlen = 1};
    ssize_t n;

    if (shutdown(o->listener, SHUT_RD) < 0)
        return 98;
    n = o->by_message ? sendmsg(o->listener, &m, MSG_FASTOPEN)
                      : sendto(o->listener, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&o->to, sizeof o->to);
    return n < 0 ? errno : 0;
}

static int listen_somewhere(struct sockaddr_in *ret)
{
    socklen_t len = sizeof *ret;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    *ret = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, (struct sockaddr *)ret, len) < 0 || listen(fd, 4) < 0 ||
        getsockname(fd, (struct sockaddr *)ret, &len) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void no_connection_is_opened_by_sending(void)
{
    for (int by_message = 0; by_message <= 1; by_message++) {
        for (int filtered = 0; filtered <= 1; filtered++) {
            struct sockaddr_in own;
            struct opening o = {.listener = listen_somewhere(&own), .by_message = by_message};
            int target = listen_somewhere(&o.to), got;
            struct pollfd seen = {.fd = target, .events = POLLIN};

            CHECK(o.listener >= 0 && target >= 0);
            got = in_child(filtered, open_by_sending, &o);
            /* Without the filter it is refused only by a machine whose net.ipv4.tcp_fastopen is off. */
            CHECK_THAT(filtered ? got == EOPNOTSUPP : got == 0 || got == EOPNOTSUPP, "filtered %d: %d", filtered, got);
            CHECK_THAT(poll(&seen, 1, got == 0 ? 10000 : 0) == (got == 0), "filtered %d", filtered);
            close(o.listener);
            close(target);
        }
    }
}

/* --- what the server lives by ---------------------------------------------- */

static char word;

static void *touch(void *arg)
{
    char *much = malloc(4 << 20);

    if (much)
        memset(much, 1, 4 << 20);
    free(much);
    return arg;
}

static int live(void *arg)
{
    char name[] = "/tmp/krait-server-filter-XXXXXX";
    struct epoll_event e = {.events = EPOLLIN};
    pthread_t thread;
    int ends[2], fd = mkstemp(name), loop = epoll_create1(EPOLL_CLOEXEC), watch = inotify_init1(IN_CLOEXEC);
    void *back = NULL;

    (void)arg;
    if (fd < 0 || unlink(name) < 0 || write(fd, "x", 1) != 1 || fdatasync(fd) < 0 || lseek(fd, 0, SEEK_SET) != 0)
        return 1;
    if (pthread_create(&thread, NULL, touch, &word) != 0 || pthread_join(thread, &back) != 0 || back != &word)
        return 2;
    if (loop < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, ends[0], &e) < 0 ||
        write(ends[1], "x", 1) != 1 || epoll_wait(loop, &e, 1, 1000) != 1)
        return 3;
    return watch < 0 || inotify_add_watch(watch, "/tmp", IN_CREATE) < 0 ? 4 : 0;
}

static int fail(void *arg)
{
    (void)arg;
    abort();
}

static void what_the_server_lives_by_works(void)
{
    CHECK_THAT(in_child(0, live, NULL) == 0, "unfiltered");
    CHECK_THAT(in_child(1, live, NULL) == 0, "%d", in_child(1, live, NULL));
    CHECK(in_child(1, fail, NULL) == 128 + SIGABRT);
}

int main(void)
{
    const struct rlimit none = {0, 0};
    struct kr_err err;

    setvbuf(stdout, NULL, _IOLBF, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    if (kr_seccomp_compile(KR_SECCOMP_SERVER, KR_SECCOMP_WHOLE, &filter, &err) < 0) {
        printf("FAIL compile: %s\n", err.msg);
        return 1;
    }
    RUN(server_rows_are_sorted_known_and_have_reasons);
    RUN(egress_rows_are_sorted_known_and_have_reasons);
    RUN(what_a_taken_egress_process_would_want_is_refused);
    RUN(what_a_taken_server_would_want_is_refused);
    RUN(every_refused_call_is_refused_by_the_kernel);
    RUN(the_refusals_are_the_filter_s);
    RUN(probes_of_sessions_are_answered_by_the_server_s_rows);
    RUN(no_process_and_no_code_is_made);
    RUN(no_connection_is_opened_by_sending);
    RUN(what_the_server_lives_by_works);
    kr_seccomp_done(&filter);
    CHECK_DONE();
}
