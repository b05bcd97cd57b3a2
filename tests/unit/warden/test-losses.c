/* What a warden does when a child of it is lost, or is killed and does not go: a zygote, a keeper, a reload. A process
 * in uninterruptible sleep cannot be had by order; a zombie whose tracer does not wait for it looks the same to its
 * parent. So a helper with all rights, the hand, does what the engine cannot: it stops, kills and traces. Needs root
 * and an interpreter. */
#include "check.h"
#include "fd.h"
#include "log.h"
#include "raw-engine.h"
#include "warden.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PYTHON "/usr/bin/python3"
#define STRANGER 54321u /* a uid that is not the server's */
#define STEP_US 10000
#define KEEPER_ENDED "the keeper of the shelf has ended"

static char folder[] = "/tmp/krait-test-losses-XXXXXX";
static char workspace[64], locks[64], shelf[64], lines[64];
static int hand = -1; /* the engine's socket to it: it ends with the engine, and lets go of what it holds */
static pid_t hand_pid;
static int gives_shelf_away; /* the next warden, once its engine is forked */
static int reloads[2];       /* a pipe: the pids of reloads */

/* ---- the hand ---- */

enum task { STOP, END, HOLD, RELEASE };
struct order {
    enum task task;
    pid_t pid;
};

/* RELEASE: waits for the end of what it holds, which its parent can reap from then on. */
static int obey(const struct order *o)
{
    switch (o->task) {
    case STOP:
        return kill(o->pid, SIGSTOP);
    case END:
        return kill(o->pid, SIGKILL);
    case HOLD:
        return (int)ptrace(PTRACE_SEIZE, o->pid, NULL, NULL);
    case RELEASE:
        return waitpid(o->pid, NULL, __WALL) == o->pid ? 0 : -1;
    }
    return -1;
}

static int start_hand(void)
{
    struct order o;
    int pair[2], r;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    hand_pid = fork();
    if (hand_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(pair[0]);
        while (read(pair[1], &o, sizeof o) == (ssize_t)sizeof o) {
            r = obey(&o);
            if (write(pair[1], &r, sizeof r) < 0)
                break;
        }
        _exit(0);
    }
    close(pair[1]);
    hand = pair[0];
    return hand_pid < 0 ? -1 : 0;
}

static void order(enum task task, pid_t pid)
{
    struct order o = {task, pid};
    int r = -1;

    MUST(write(hand, &o, sizeof o) == (ssize_t)sizeof o);
    MUST(read(hand, &r, sizeof r) == (ssize_t)sizeof r && r == 0);
}

/* ---- processes, as the engine sees them ---- */

/* Its state, and its parent in *ret; 'X': it is not there. */
static char state_of(pid_t pid, pid_t *ret)
{
    char path[64], text[512], state = 'X';
    const char *end;

    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text) > 0 && (end = strrchr(text, ')')))
        (void)sscanf(end, ") %c %d", &state, ret);
    return state;
}

/* The child of that process that is neither the engine nor the hand, once there is exactly one. */
static pid_t only_child(pid_t parent)
{
    pid_t found = 0;

    for (uint64_t late = kr_clock_after_ms(WAIT_MS); kr_clock_ns() < late; usleep(STEP_US)) {
        DIR *dir = opendir("/proc");
        unsigned count = 0;

        MUST(dir);
        for (struct dirent *e; (e = readdir(dir));) {
            pid_t pid = (pid_t)atoi(e->d_name), of = 0;

            if (pid <= 0 || pid == getpid() || pid == hand_pid || state_of(pid, &of) == 'X' || of != parent)
                continue;
            found = pid;
            count++;
        }
        closedir(dir);
        if (count == 1)
            return found;
    }
    MUST(!"one child");
    return 0;
}

static void await_zombie(pid_t pid)
{
    pid_t parent;

    for (uint64_t late = kr_clock_after_ms(WAIT_MS); state_of(pid, &parent) != 'Z' && kr_clock_ns() < late;)
        usleep(STEP_US);
    MUST(state_of(pid, &parent) == 'Z');
}

static pid_t await_reload(void)
{
    pid_t pid = 0;

    MUST(kr_fd_wait(reloads[0], POLLIN, kr_clock_after_ms(WAIT_MS)) > 0);
    MUST(read(reloads[0], &pid, sizeof pid) == (ssize_t)sizeof pid);
    return pid;
}

/* It serves: a round for each. */
static void ping(int control, unsigned times)
{
    union payload p;
    struct kr_frame f;

    while (times-- > 0) {
        tell(control, KR_W_PING, 3, NULL, 0);
        MUST(hear(control, &p, &f, WAIT_MS / 3) == 0 && f.type == KR_W_PONG);
    }
}

/* ---- engines ---- */

/* The answer to OPEN, whatever else is said meanwhile; 0: there is none in time. */
static uint16_t answer_to_open(int control, union payload *p, unsigned ms)
{
    uint64_t late = kr_clock_after_ms(ms);
    struct kr_frame f;

    while (kr_clock_ns() < late) {
        if (hear(control, p, &f, QUIET_MS) == 0 && (f.type == KR_W_FAILED || f.type == KR_W_OPENED))
            return f.type;
    }
    return 0;
}

static void await_ready(int control, union payload *p)
{
    do
        expect(control, KR_W_ZYGOTE, p);
    while (p->zygote.state != KR_ZYG_READY);
}

/* Opens a session of a zygote that stands still, and kills its cell, by a guess of its id, while the zygote is to fork
 * it. If that was too early the cell is refused at once, and it is tried again, later. */
static void kill_while_owed(int control, union payload *p)
{
    for (unsigned ms = 20, serial = 1; ms < 4000; ms *= 2, serial++) {
        ask_open(control);
        usleep(ms * 1000);
        for (uint64_t index = 0; index < 4; index++) {
            struct kr_w_cell c = {.cell = (uint64_t)serial << 16 | index};

            tell(control, KR_W_KILL, 0, &c, sizeof c);
        }
        if (answer_to_open(control, p, 2 * QUIET_MS) == 0)
            return;
    }
    MUST(!"a cell that waits for its zygote");
}

/* A cell that is killed while its zygote owes it an answer ends with that zygote, and its family with it. */
static int loses_a_zygote_that_owes(int control, void *arg)
{
    union payload p;
    pid_t builder, zygote;

    (void)arg;
    wake(control, 0);
    expect(control, KR_W_HELLO, &p);
    await_ready(control, &p);
    builder = only_child(getppid());
    zygote = only_child(builder);
    order(STOP, zygote);
    kill_while_owed(control, &p);
    order(END, zygote);
    MUST(answer_to_open(control, &p, WAIT_MS / 3) == KR_W_FAILED);
    await_ready(control, &p);
    MUST(only_child(getppid()) != builder);
    ask_open(control); /* the control */
    MUST(answer_to_open(control, &p, WAIT_MS) == KR_W_OPENED);
    return 0;
}

static int uses_the_shelf(int control, void *arg)
{
    union payload p;

    (void)arg;
    ask_shelf(control, 1, KR_SHELF_OPEN, "", 0);
    expect(control, KR_W_SHELVED, &p);
    return 0;
}

/* A refused folder stays refused, however often it is asked for. */
static int uses_a_strangers_shelf(int control, void *arg)
{
    union payload p;

    (void)arg;
    for (uint32_t i = 1; i < 4; i++) {
        ask_shelf(control, i, KR_SHELF_OPEN, "", 0);
        expect(control, KR_W_FAILED, &p);
    }
    return 0;
}

/* A reload that does not go is not waited for; the next begins when it is gone. */
static int reloads_twice(int control, void *arg)
{
    pid_t first;

    (void)arg;
    ping(control, 1); /* before it serves, SIGHUP would be its end */
    (void)signal(SIGHUP, SIG_IGN);
    MUST(kill(getppid(), SIGHUP) == 0);
    first = await_reload();
    order(HOLD, first);
    MUST(kill(getppid(), SIGHUP) == 0);
    await_zombie(first); /* the warden has killed it */
    ping(control, 2);
    MUST(kr_fd_wait(reloads[0], POLLIN, kr_clock_after_ms(QUIET_MS)) == 0);
    order(RELEASE, first);
    MUST(await_reload() != first);
    ping(control, 1);
    return 0;
}

static unsigned count_lines(const char *what)
{
    static char text[1 << 20];
    unsigned count = 0;

    (void)kr_fd_read_file_at(AT_FDCWD, lines, text, sizeof text);
    for (const char *at = text; (at = strstr(at, what)); at++)
        count++;
    return count;
}

/* Kills the keeper; returns when the warden has learned of it. */
static void end_keeper(pid_t keeper)
{
    order(END, keeper);
    for (uint64_t late = kr_clock_after_ms(WAIT_MS); count_lines(KEEPER_ENDED) == 0 && kr_clock_ns() < late;)
        usleep(STEP_US);
    MUST(count_lines(KEEPER_ENDED) > 0);
}

static void await_shelf(int control)
{
    union payload p;
    struct kr_frame f = {0};

    for (uint64_t late = kr_clock_after_ms(WAIT_MS); f.type != KR_W_SHELVED && kr_clock_ns() < late; usleep(STEP_US)) {
        ask_shelf(control, 5, KR_SHELF_OPEN, "", 0);
        MUST(hear(control, &p, &f, WAIT_MS) == 0);
    }
    MUST(f.type == KR_W_SHELVED);
}

/* A reload has a copy of the socket of a keeper that ends: the warden learns of its end once. */
static int loses_a_keeper_whose_socket_is_copied(int control, void *arg)
{
    pid_t keeper;

    (void)uses_the_shelf(control, arg);
    keeper = only_child(getppid());
    (void)signal(SIGHUP, SIG_IGN);
    MUST(kill(getppid(), SIGHUP) == 0);
    (void)await_reload();
    end_keeper(keeper);
    ping(control, 5);
    await_shelf(control);
    ping(control, 5);
    MUST(count_lines(KEEPER_ENDED) == 1);
    return 0;
}

/* There is no second keeper before the first is gone. */
static int loses_a_keeper_that_does_not_go(int control, void *arg)
{
    union payload p;
    pid_t keeper;

    (void)uses_the_shelf(control, arg);
    keeper = only_child(getppid());
    order(HOLD, keeper);
    end_keeper(keeper);
    for (uint32_t i = 1; i < 4; i++) {
        ask_shelf(control, i, KR_SHELF_OPEN, "", 0);
        expect(control, KR_W_FAILED, &p);
        MUST(p.err.kind == KR_ERR_BUSY);
    }
    MUST(only_child(getppid()) == keeper);
    order(RELEASE, keeper);
    await_shelf(control);
    MUST(only_child(getppid()) != keeper);
    return 0;
}

/* ---- wardens ---- */

static void on_reload(void *arg)
{
    pid_t pid = getpid();

    (void)arg;
    if (write(reloads[1], &pid, sizeof pid) == (ssize_t)sizeof pid)
        pause();
}

static void on_engine_forked(void *arg)
{
    (void)arg;
    hand = kr_fd_close(hand);
    if (gives_shelf_away && chown(shelf, STRANGER, STRANGER) < 0)
        perror(shelf);
}

/* Its log and its engine's words are in a file meanwhile. */
static int launch(kr_engine_main *engine, struct kr_err *err)
{
    cleanup_fd int file = open(lines, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644), was = dup(2);
    struct kr_warden_config c;
    int r;

    kr_warden_config_default(&c);
    c.lazy = 1;
    c.zygotes[0] = (struct kr_zygote_config){.preload = KR_PRELOAD_BASIC, .python = PYTHON};
    c.zygote_count = 1;
    c.stock = 0;
    c.workspaces[0] = (struct kr_workspace_config){.path = workspace};
    c.workspace_count = 1;
    if (engine != loses_a_zygote_that_owes)
        c.shelf = (struct kr_shelf_config){.path = shelf, .choice = KR_SHELF_FOLDER};
    c.runtime_dir = locks;
    c.on_reload = on_reload;
    c.on_engine_forked = on_engine_forked;
    if (start_hand() < 0)
        return -1;
    (void)dup2(file, 2);
    r = kr_warden_launch(&c, engine, NULL, err);
    (void)dup2(was, 2);
    return r;
}

/* Each warden is a process of its own: with it goes what it does not wait for. */
static void check_engine(const char *name, kr_engine_main *engine)
{
    char text[4096] = "";
    struct kr_err err = {0};
    int status = -1, r;
    pid_t pid = fork();

    if (pid == 0) {
        r = launch(engine, &err);
        if (r != 0)
            fprintf(stderr, "%s: %d %s\n", name, r, err.msg);
        _exit(r == 0 ? 0 : 1);
    }
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
        return;
    (void)kr_fd_read_file_at(AT_FDCWD, lines, text, sizeof text);
    fprintf(stderr, "%s", text);
    printf("FAIL %s: status %d\n", name, status);
    check_failed_ = 1;
}

#define CASE(engine)                                                                                                   \
    static void engine##_test(void)                                                                                    \
    {                                                                                                                  \
        check_engine(#engine, engine);                                                                                 \
    }
CASE(loses_a_zygote_that_owes)
CASE(uses_the_shelf)
CASE(reloads_twice)
CASE(loses_a_keeper_whose_socket_is_copied)
CASE(loses_a_keeper_that_does_not_go)

static void shelf_is_given_away_after_the_start(void)
{
    gives_shelf_away = 1;
    check_engine(__func__, uses_a_strangers_shelf);
    gives_shelf_away = 0;
    CHECK(chown(shelf, 0, 0) == 0);
}

static void shelf_is_a_strangers_at_the_start(void)
{
    CHECK(chown(shelf, STRANGER, STRANGER) == 0);
    check_engine(__func__, uses_a_strangers_shelf);
    CHECK(chown(shelf, 0, 0) == 0);
}

static int make_places(void)
{
    if (!mkdtemp(folder) || chmod(folder, 0755) < 0)
        return -1;
    snprintf(workspace, sizeof workspace, "%s/workspace", folder);
    snprintf(locks, sizeof locks, "%s/locks", folder);
    snprintf(shelf, sizeof shelf, "%s/sandboxes", folder);
    snprintf(lines, sizeof lines, "%s/lines", folder);
    return mkdir(workspace, 0755) < 0 || mkdir(locks, 0700) < 0 || mkdir(shelf, 0700) < 0 ? -1 : 0;
}

int main(void)
{
    char command[96];

    if (geteuid() != 0 || access(PYTHON, X_OK) < 0) {
        printf("SKIP losses: needs root and %s\n", PYTHON);
        return 0;
    }
    if (make_places() < 0 || pipe2(reloads, O_CLOEXEC) < 0)
        return 1;
    kr_log_set_level(KR_LOG_ERROR);
    RUN(loses_a_zygote_that_owes_test);
    RUN(uses_the_shelf_test); /* the control of the next two */
    RUN(shelf_is_given_away_after_the_start);
    RUN(shelf_is_a_strangers_at_the_start);
    RUN(reloads_twice_test);
    RUN(loses_a_keeper_whose_socket_is_copied_test);
    RUN(loses_a_keeper_that_does_not_go_test);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0)
        return 1;
    CHECK_DONE();
}
