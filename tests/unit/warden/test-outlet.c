/* The egress process as the warden keeps it, and the listeners of cells whose network goes beyond loopback. The engine
 * is this program's own function (raw-engine.h), and so is the egress process. Needs root and an interpreter; each case
 * is a warden of its own. */
#include "check.h"
#include "fd.h"
#include "level.h"
#include "log.h"
#include "raw-engine.h"
#include "warden.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"
#define USER 64123u
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static char folder[] = "/tmp/krait-test-outlet-XXXXXX";
static char locks[64];
/* What the egress process and the engine leave for the test. */
static struct shared {
    pid_t egress, engine;
} * shared;

/* What it says of itself. */
struct about {
    pid_t pid, session;
    uid_t uid;
    gid_t gid;
    int groups, dumpable, no_new_privs, fds, oom;
    char caps[4][24]; /* permitted, effective, inheritable, bounding */
};

static void fill_caps(struct about *a)
{
    static const char *const names[] = {"CapPrm:", "CapEff:", "CapInh:", "CapBnd:"};
    char text[4096];

    if (kr_fd_read_file_at(AT_FDCWD, "/proc/thread-self/status", text, sizeof text) <= 0)
        return;
    for (size_t i = 0; i < 4; i++) {
        const char *at = strstr(text, names[i]);

        if (at)
            sscanf(at + strlen(names[i]), "%23s", a->caps[i]);
    }
}

static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static struct about look_at_itself(void)
{
    struct about a = {.pid = getpid(),
                      .session = getsid(0),
                      .uid = getuid(),
                      .gid = getgid(),
                      .groups = getgroups(0, NULL),
                      .dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
                      .no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0),
                      .fds = count_fds()};
    char text[16];

    if (kr_fd_read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", text, sizeof text) > 0)
        a.oom = atoi(text);
    fill_caps(&a);
    return a;
}

/* Says what it is, and ends when it is told to, or by the end of file. */
static int tells(int fd, void *arg)
{
    struct about a = look_at_itself();
    char c;

    (void)arg;
    shared->egress = a.pid;
    if (send(fd, &a, sizeof a, MSG_NOSIGNAL) != (ssize_t)sizeof a)
        return 1;
    return recv(fd, &c, 1, 0) > 0;
}

/* Does not look at its socket. */
static int is_deaf(int fd, void *arg)
{
    (void)fd, (void)arg;
    shared->egress = getpid();
    while (pause() < 0)
        ;
    return 1;
}

/* Is not told of the warden's end by a signal. */
static int has_no_signal(int fd, void *arg)
{
    char c;

    (void)arg;
    if (prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) < 0)
        return 1;
    shared->egress = getpid();
    return recv(fd, &c, 1, 0) > 0;
}

/* ---- the engines ---- */

static void begin(int control, union payload *p)
{
    wake(control, 0);
    expect(control, KR_W_HELLO, p);
    expect_zygote(control, KR_ZYG_STARTING, p);
    expect(control, KR_W_EGRESS, p);
    expect_zygote(control, KR_ZYG_READY, p);
}

static void hear_about(struct about *a)
{
    MUST(outlet >= 0 && kr_fd_wait(outlet, POLLIN, kr_clock_after_ms(WAIT_MS)) > 0);
    MUST(recv(outlet, a, sizeof *a, 0) == (ssize_t)sizeof *a);
}

static int sees_it_confined(int control, void *arg)
{
    int as_root = *(const int *)arg;
    struct about a;
    union payload p;

    begin(control, &p);
    hear_about(&a);
    MUST(a.pid > 1 && a.session == a.pid && a.no_new_privs == 1 && a.dumpable == 0);
    MUST(a.fds == 4);
    for (size_t i = 0; i < 3; i++)
        MUST(strcmp(a.caps[i], "0000000000000000") == 0);
    if (as_root) {
        MUST(strcmp(a.caps[3], "0000000000000000") == 0);
        MUST(a.uid != 0 && a.gid == a.uid && a.groups == 0 && a.uid != getuid() && a.oom == 0);
    }
    return 0;
}

/* It comes again, after a pause that grows. */
static int ends_it(int control, void *arg)
{
    struct about a, b;
    uint64_t began, first, second;
    union payload p;

    (void)arg;
    begin(control, &p);
    hear_about(&a);
    began = kr_clock_ns();
    MUST(send(outlet, "x", 1, MSG_NOSIGNAL) == 1);
    close(outlet);
    expect(control, KR_W_EGRESS, &p);
    first = kr_clock_ns() - began;
    hear_about(&b);
    MUST(b.pid != a.pid);
    began = kr_clock_ns();
    close(outlet); /* its end of file */
    expect(control, KR_W_EGRESS, &p);
    second = kr_clock_ns() - began;
    hear_about(&a);
    MUST(a.pid != b.pid);
    MUST(first >= 100000000u && second >= 200000000u);
    return 0;
}

static uint64_t namespace_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof cookie;

    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) < 0 ? 0 : cookie;
}

static int gets_listeners(int control, void *arg)
{
    static const enum kr_net_kind kinds[] = {KR_NET_INDEX, KR_NET_ALLOW, KR_NET_OPEN};
    uint64_t last = 0;
    union payload p;

    (void)arg;
    begin(control, &p);
    for (size_t i = 0; i < 2; i++) { /* the controls */
        ask_open_with(control, i == 0 ? KR_NET_NONE : KR_NET_LOOPBACK, 0);
        expect(control, KR_W_OPENED, &p);
        MUST(p.opened.flags == 0 && listener < 0);
    }
    for (size_t i = 0; i < 3; i++) {
        struct sockaddr_in at = {0};
        socklen_t len = sizeof at;
        int listens = 0;

        ask_open_with(control, kinds[i], 0);
        expect(control, KR_W_OPENED, &p);
        MUST(p.opened.flags == KR_OPENED_LISTENER && listener >= 0);
        MUST(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
        MUST(at.sin_family == AF_INET && ntohs(at.sin_port) == KR_EGRESS_PORT);
        MUST(ntohl(at.sin_addr.s_addr) == INADDR_LOOPBACK);
        len = sizeof listens;
        MUST(getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens == 1);
        MUST(fcntl(listener, F_GETFL) & O_NONBLOCK);
        MUST(namespace_of(listener) == 0 || namespace_of(listener) != last);
        last = namespace_of(listener);
    }
    return 0;
}

static int is_refused(int control, void *arg)
{
    union payload p;

    (void)arg;
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    expect_zygote(control, KR_ZYG_STARTING, &p);
    expect_zygote(control, KR_ZYG_READY, &p);
    ask_open_with(control, KR_NET_INDEX, 0);
    expect(control, KR_W_FAILED, &p);
    MUST(p.err.kind == KR_ERR_UNSUPPORTED && strstr(p.err.msg, "egress") != NULL);
    ask_open_with(control, KR_NET_LOOPBACK, 0);
    expect(control, KR_W_OPENED, &p);
    return 0;
}

/* At level contained there is a process, for the server, and no cell that could use it. */
static int is_contained(int control, void *arg)
{
    struct about a;
    union payload p;

    (void)arg;
    begin(control, &p);
    hear_about(&a);
    MUST(strcmp(a.caps[1], "0000000000000000") == 0 && a.uid != 0 && a.uid != getuid());
    ask_open_with(control, KR_NET_OPEN, 0);
    expect(control, KR_W_FAILED, &p);
    MUST(p.err.kind == KR_ERR_UNAVAILABLE && strstr(p.err.msg, "contained") != NULL);
    return 0;
}

static int ends_at_once(int control, void *arg)
{
    union payload p;

    (void)arg;
    begin(control, &p);
    while (shared->egress == 0)
        usleep(1000);
    return 0;
}

static int stays(int control, void *arg)
{
    union payload p;
    struct kr_frame f;

    (void)arg;
    begin(control, &p);
    while (shared->egress == 0)
        usleep(1000);
    shared->engine = getpid();
    MUST(hear(control, &p, &f, WAIT_MS) == -ENODATA); /* as a real engine: it ends with the warden */
    return 0;
}

/* ---- the wardens ---- */

static int launch(kr_egress_entry *egress, kr_engine_main *engine, int level, int *arg, struct kr_err *err)
{
    struct kr_warden_config c;

    kr_warden_config_default(&c);
    c.lazy = 1;
    c.level = level;
    c.allow_contained = level == KR_LEVEL_CONTAINED;
    c.zygotes[0] = (struct kr_zygote_config){.preload = KR_PRELOAD_BASIC, .python = PYTHON};
    c.zygote_count = 1;
    c.runtime_dir = locks;
    c.egress = egress;
    return kr_warden_launch(&c, engine, arg, err);
}

static void check_launch(const char *name, kr_egress_entry *egress, kr_engine_main *engine, int level)
{
    int as_root = level != KR_LEVEL_USER;
    struct kr_err err = {0};
    int r;

    shared->egress = shared->engine = 0;
    outlet = listener = -1;
    r = launch(egress, engine, level, &as_root, &err);
    if (r != 0) {
        printf("FAIL %s: status %d %s\n", name, r, err.msg);
        check_failed_ = 1;
    }
}

static bool is_gone_soon(pid_t pid)
{
    for (uint64_t late = kr_clock_after_ms(WAIT_MS); kr_clock_ns() < late; usleep(2000))
        if (kill(pid, 0) < 0 && errno == ESRCH)
            return true;
    return false;
}

static void it_is_confined(void)
{
    check_launch("root", tells, sees_it_confined, -1);
}

static void it_comes_again(void)
{
    check_launch("root", tells, ends_it, -1);
}

static void cells_have_listeners(void)
{
    check_launch("root", tells, gets_listeners, -1);
}

static void without_it_networks_are_refused(void)
{
    check_launch("root", NULL, is_refused, -1);
}

static void contained_has_it_and_no_listeners(void)
{
    check_launch("contained", tells, is_contained, KR_LEVEL_CONTAINED);
}

/* The same as an ordinary user: no id of its own, the rest holds. */
static void a_user_has_it(void)
{
    kr_engine_main *const engines[] = {sees_it_confined, gets_listeners};

    CHECK(mkdir(locks, 0700) == 0 && chown(locks, USER, USER) == 0);
    for (size_t i = 0; i < 2; i++) {
        int status = -1;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            if (setgroups(0, NULL) < 0 || setresgid(USER, USER, USER) < 0 || setresuid(USER, USER, USER) < 0 ||
                prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
                _exit(2);
            check_launch("user", tells, engines[i], KR_LEVEL_USER);
            fflush(stdout);
            _exit(check_failed_);
        }
        CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void it_ends_with_krait(void)
{
    check_launch("deaf", is_deaf, ends_at_once, -1);
    CHECK(shared->egress > 1 && is_gone_soon(shared->egress));
}

/* Whoever kills the warden leaves no process, whether the signal comes or the end of file. */
static void it_ends_with_a_killed_warden(void)
{
    kr_egress_entry *const entries[] = {is_deaf, has_no_signal};

    for (size_t i = 0; i < 2; i++) {
        int status = -1;
        pid_t pid;

        shared->egress = shared->engine = 0;
        fflush(stdout);
        pid = fork();
        if (pid == 0) {
            struct kr_err err;

            _exit(launch(entries[i], stays, -1, NULL, &err) != 0);
        }
        for (uint64_t late = kr_clock_after_ms(WAIT_MS); shared->engine == 0 && kr_clock_ns() < late;)
            usleep(1000);
        CHECK(shared->engine > 1 && kill(shared->egress, 0) == 0);
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
        CHECK(is_gone_soon(shared->egress) && is_gone_soon(shared->engine));
    }
}

int main(void)
{
    char command[96];

    if (geteuid() != 0 || access(PYTHON, X_OK) < 0) {
        printf("SKIP outlet: needs root and %s\n", PYTHON);
        return 0;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(folder) || chmod(folder, 0755) < 0)
        return 1;
    kr_log_set_level(KR_LOG_ERROR);
    snprintf(locks, sizeof locks, "%s/user", folder);
    RUN(a_user_has_it);
    snprintf(locks, sizeof locks, "%s/locks", folder);
    RUN(it_is_confined);
    RUN(it_comes_again);
    RUN(cells_have_listeners);
    RUN(without_it_networks_are_refused);
    RUN(contained_has_it_and_no_listeners);
    RUN(it_ends_with_krait);
    RUN(it_ends_with_a_killed_warden);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        return 1;
    CHECK_DONE();
}
