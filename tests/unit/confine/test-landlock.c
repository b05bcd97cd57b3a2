/* Landlock: what a restricted process can and cannot do, at every ABI this kernel can play, beside an unrestricted
 * one doing the same.
 *
 * A probe is a function that gives 0 or an errno. Each runs in a forked child whose restriction is thrown away
 * with it; the table says from which ABI on it is refused and what happens below. Everything is done in a folder
 * of this test's own. */
#define _GNU_SOURCE 1
#include "landlock.h"
#include "check.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
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

/* Set up by the parent before it forks. The probes' working directory is the test's folder. */
static char base[] = "/tmp/krait-landlock-XXXXXX";
static struct sockaddr_in tcp_server;
static struct sockaddr_un abstract_server;
static socklen_t abstract_len;
static pid_t outsider;

/* --- probes ---------------------------------------------------------------- */

static int failed(int r)
{
    return r < 0 ? errno : 0;
}

static int open_as(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600), r = failed(fd);

    if (fd >= 0)
        close(fd);
    return r;
}

static int read_granted(void)
{
    return open_as("ro/file", O_RDONLY);
}
static int list_granted(void)
{
    return open_as("ro", O_RDONLY | O_DIRECTORY);
}
static int read_elsewhere(void)
{
    return open_as("other/file", O_RDONLY);
}
static int write_read_only(void)
{
    return open_as("ro/file", O_WRONLY);
}
static int create_read_only(void)
{
    return open_as("ro/new", O_WRONLY | O_CREAT);
}
static int remove_read_only(void)
{
    return failed(unlink("ro/gone"));
}
static int truncate_read_only(void)
{
    return failed(truncate("ro/file", 4));
}
static int truncate_existing_only(void)
{
    return open_as("wf/file", O_WRONLY | O_TRUNC);
}
static int create_existing_only(void)
{
    return open_as("wf/new", O_WRONLY | O_CREAT);
}
static int write_granted(void)
{
    return open_as("rw/file", O_RDWR | O_CREAT | O_TRUNC);
}
static int make_everything(void)
{
    if (mkdir("rw/d", 0700) < 0 || mkfifo("rw/p", 0600) < 0 || symlink("x", "rw/l") < 0)
        return errno;
    if (unlink("rw/p") < 0 || unlink("rw/l") < 0 || rmdir("rw/d") < 0)
        return errno;
    return 0;
}
static int bind_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int s = socket(AF_UNIX, SOCK_STREAM, 0), r;

    strcpy(at.sun_path, path);
    r = failed(bind(s, (struct sockaddr *)&at, sizeof at));
    close(s);
    if (r == 0 && unlink(path) < 0)
        return errno;
    return r;
}
static int socket_granted(void)
{
    return bind_to("tmp/socket");
}
static int socket_in_writable(void)
{
    return bind_to("rw/socket");
}
static int socket_node(void)
{
    int r = failed(mknod("rw/node", S_IFSOCK | 0600, 0));

    if (r == 0)
        unlink("rw/node");
    return r;
}
/* Made where it may be, moved to where it may not. */
static int socket_moved(void)
{
    int r;

    if (mknod("tmp/moved", S_IFSOCK | 0600, 0) < 0)
        return errno;
    r = failed(rename("tmp/moved", "rw/moved"));
    unlink(r == 0 ? "rw/moved" : "tmp/moved");
    return r == EXDEV ? EACCES : r; /* ABI 1 refuses every move */
}
static int make_device(void)
{
    return failed(mknod("rw/null", S_IFCHR | 0666, makedev(1, 3)));
}
static int rename_in_place(void)
{
    return failed(rename("rw/move1", "rw/moved1"));
}
static int rename_across(void)
{
    return failed(rename("rw/a/move2", "rw/b/moved2"));
}
static int link_across(void)
{
    return failed(link("rw/a/link", "rw/b/link"));
}

static int run_true(const char *path)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        execl(path, "true", (char *)NULL);
        _exit(errno);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}
static int execute_granted(void)
{
    return run_true("/usr/bin/true");
}
static int execute_writable(void)
{
    return run_true("rw/true");
}

static int tcp_bind(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int s = socket(AF_INET, SOCK_STREAM, 0);

    return s < 0 ? errno : failed(bind(s, (struct sockaddr *)&at, sizeof at));
}
static int tcp_connect(void)
{
    int s = socket(AF_INET, SOCK_STREAM, 0);

    return s < 0 ? errno : failed(connect(s, (struct sockaddr *)&tcp_server, sizeof tcp_server));
}
static int abstract_connect(void)
{
    int s = socket(AF_UNIX, SOCK_STREAM, 0);

    return s < 0 ? errno : failed(connect(s, (struct sockaddr *)&abstract_server, abstract_len));
}
static int abstract_own(void)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    socklen_t len = sizeof any;
    int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);

    if (bind(s, (struct sockaddr *)&any, sizeof any.sun_family) < 0 || listen(s, 1) < 0 ||
        getsockname(s, (struct sockaddr *)&any, &len) < 0)
        return errno;
    return failed(connect(c, (struct sockaddr *)&any, len));
}
static int signal_outside(void)
{
    return failed(kill(outsider, 0));
}
static int signal_own_child(void)
{
    int status, r;
    pid_t pid = fork();

    if (pid == 0) {
        pause();
        _exit(0);
    }
    r = failed(kill(pid, SIGKILL));
    waitpid(pid, &status, 0);
    return r;
}
/* A command that Landlock counts as the device's own; /dev/null knows none, so unrestricted it is ENOTTY. */
static int device_ioctl(const char *path)
{
    struct winsize w;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    int r = fd < 0 ? errno : failed(ioctl(fd, TIOCGWINSZ, &w));

    close(fd);
    return r;
}
static int ioctl_refused(void)
{
    return device_ioctl("/dev/null");
}
static int ioctl_granted(void)
{
    return device_ioctl("/dev/zero");
}

enum { NETWORK = 1, DEVICES = 2 };
/* Refused with `refused` from ABI `since` on, `plain` below it and without Landlock. since 99: never. */
static const struct probe {
    const char *name;
    int (*run)(void);
    int plain, since, refused, needs;
} probes[] = {
    {"read a granted file", read_granted, 0, 99, 0, 0},
    {"list a granted folder", list_granted, 0, 99, 0, 0},
    {"read elsewhere", read_elsewhere, 0, 1, EACCES, 0},
    {"write a read-only file", write_read_only, 0, 1, EACCES, 0},
    {"create in a read-only folder", create_read_only, 0, 1, EACCES, 0},
    {"remove from a read-only folder", remove_read_only, 0, 1, EACCES, 0},
    {"truncate a read-only file", truncate_read_only, 0, 3, EACCES, 0},
    {"truncate where files may be written", truncate_existing_only, 0, 99, 0, 0},
    {"create where files may be written", create_existing_only, 0, 1, EACCES, 0},
    {"write and create", write_granted, 0, 99, 0, 0},
    {"make and remove everything", make_everything, 0, 99, 0, 0},
    {"bind to a path where sockets are granted", socket_granted, 0, 99, 0, 0},
    {"bind to a path where files may be made", socket_in_writable, 0, 1, EACCES, 0},
    {"make a socket file where files may be made", socket_node, 0, 1, EACCES, 0},
    {"move a socket file to where files may be made", socket_moved, 0, 1, EACCES, 0},
    {"make a device", make_device, 0, 1, EACCES, DEVICES},
    {"rename in one folder", rename_in_place, 0, 99, 0, 0},
    {"execute a granted file", execute_granted, 0, 99, 0, 0},
    {"execute where only writing is granted", execute_writable, 0, 1, EACCES, 0},
    {"bind TCP", tcp_bind, 0, 4, EACCES, NETWORK},
    {"connect TCP", tcp_connect, 0, 4, EACCES, NETWORK},
    {"connect to an abstract socket outside", abstract_connect, 0, 6, EPERM, 0},
    {"connect to an abstract socket of one's own", abstract_own, 0, 99, 0, 0},
    {"signal a process outside", signal_outside, 0, 6, EPERM, 0},
    {"signal one's own child", signal_own_child, 0, 99, 0, 0},
    {"ioctl on a device", ioctl_refused, ENOTTY, 5, EACCES, 0},
    {"ioctl on a granted device", ioctl_granted, ENOTTY, 99, 0, 0},
};
/* These turn the other way: ABI 1 refuses them whatever the rules say, from 2 on a rule can allow them. */
static const struct probe moves[] = {
    {"rename across folders", rename_across, 0, 99, EXDEV, 0},
    {"link across folders", link_across, 0, 99, EXDEV, 0},
};

/* What the probes are given: `wf` like /dev, `ro` like /usr, `rw` like the workspace; a file, a missing path. */
static const struct kr_landlock_path granted[] = {
    {"ro", KR_LL_READ},
    {"rw", KR_LL_READ | KR_LL_WRITE},
    {"tmp", KR_LL_READ | KR_LL_WRITE | KR_LL_MAKE_SOCK},
    {"wf", KR_LL_READ | KR_LL_WRITE_FILE},
    {"/usr", KR_LL_READ | KR_LL_EXEC},
    {"/lib64", KR_LL_READ | KR_LL_EXEC | KR_LL_MAY_MISS},
    {"/etc/ld.so.cache", KR_LL_READ | KR_LL_MAY_MISS},
    {"/dev/null", KR_LL_READ | KR_LL_WRITE},
    {"/dev/zero", KR_LL_READ | KR_LL_WRITE_FILE | KR_LL_IOCTL_DEV},
    {"not-there", KR_LL_READ | KR_LL_MAY_MISS},
};

/* --- around them ----------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static int touch(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, "text", 4) != 4)
        return -1;
    return close(fd);
}

/* A fresh folder for each run, so that one run's leavings are not the next one's luck. */
static int make_folder(void)
{
    static const char *const dirs[] = {"ro", "rw", "tmp", "wf", "other", "rw/a", "rw/b"};
    static const char *const files[] = {"ro/file",  "ro/gone",    "wf/file",  "other/file",
                                        "rw/move1", "rw/a/move2", "rw/a/link"};

    strcpy(base + sizeof base - 7, "XXXXXX");
    if (!mkdtemp(base) || chdir(base) < 0)
        return -1;
    for (size_t i = 0; i < LEN(dirs); i++) {
        if (mkdir(dirs[i], 0700) < 0)
            return -1;
    }
    for (size_t i = 0; i < LEN(files); i++) {
        if (touch(files[i]) < 0)
            return -1;
    }
    return system("cp /usr/bin/true rw/true") == 0 ? 0 : -1;
}

static void remove_folder(void)
{
    if (chdir("/") == 0)
        nftw(base, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

struct results {
    int restricted; /* what kr_landlock_restrict_abi() returned */
    struct kr_err err;
    int probe[LEN(probes)], move[LEN(moves)];
};

/* Runs all probes in a child restricted at `abi` (0: not at all). Results in shared memory, NULL if the child
 * failed. */
static struct results *run(int abi, int loopback)
{
    struct results *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = -1;
    pid_t pid;

    if (r == MAP_FAILED || make_folder() < 0)
        return NULL;
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        r->restricted = abi ? kr_landlock_restrict_abi(granted, LEN(granted), loopback, abi, &r->err) : 0;
        for (size_t i = 0; r->restricted >= 0 && i < LEN(probes); i++)
            r->probe[i] = probes[i].run();
        for (size_t i = 0; r->restricted >= 0 && i < LEN(moves); i++)
            r->move[i] = moves[i].run();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    remove_folder();
    return status == 0 ? r : NULL;
}

static int listen_on(int family, void *address, socklen_t *len)
{
    int s = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (s < 0 || bind(s, address, *len) < 0 || listen(s, 64) < 0)
        return -1;
    *len = family == AF_UNIX ? sizeof(struct sockaddr_un) : sizeof(struct sockaddr_in);
    return getsockname(s, address, len);
}

static int have; /* NETWORK, DEVICES: what this machine lets an unrestricted process do */

static void unrestricted_everything_works(void)
{
    struct results *r = run(0, 0);

    CHECK(r);
    for (size_t i = 0; i < LEN(probes); i++) {
        if (probes[i].needs && r->probe[i] != 0)
            printf("# no control: %s: %s\n", probes[i].name, strerror(r->probe[i]));
        else
            have |= probes[i].needs;
        if (!probes[i].needs)
            CHECK_THAT(r->probe[i] == probes[i].plain, "%s: %s", probes[i].name, strerror(r->probe[i]));
    }
    for (size_t i = 0; i < LEN(moves); i++)
        CHECK_THAT(r->move[i] == 0, "%s: %s", moves[i].name, strerror(r->move[i]));
}

static void check_abi(int abi, int loopback)
{
    struct results *r = run(abi, loopback);

    CHECK_THAT(r, "ABI %d", abi);
    CHECK_THAT(r->restricted == abi, "ABI %d: %d %s", abi, r->restricted, r->err.msg);
    for (size_t i = 0; i < LEN(probes); i++) {
        const struct probe *p = &probes[i];
        int refused = abi >= p->since && !(p->needs == NETWORK && loopback);

        if (p->needs & ~have && !refused)
            continue;
        CHECK_THAT(r->probe[i] == (refused ? p->refused : p->plain), "ABI %d, loopback %d, %s: %s", abi, loopback,
                   p->name, strerror(r->probe[i]));
    }
    for (size_t i = 0; i < LEN(moves); i++)
        CHECK_THAT(r->move[i] == (abi < 2 ? EXDEV : 0), "ABI %d, %s: %s", abi, moves[i].name, strerror(r->move[i]));
}

static int newest(void)
{
    int abi = kr_landlock_abi();

    return abi < KR_LANDLOCK_ABI_KNOWN ? abi : KR_LANDLOCK_ABI_KNOWN;
}

static void every_abi_refuses_what_it_can(void)
{
    for (int abi = 1; abi <= newest() && !check_failed_; abi++)
        check_abi(abi, 0);
}

static void loopback_leaves_tcp_alone(void)
{
    for (int abi = 4; abi <= newest() && !check_failed_; abi++)
        check_abi(abi, 1);
}

/* --- the paths of a cell --------------------------------------------------- */

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int r = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;

    close(fd);
    return r;
}

/* User and mount namespaces in which we are the owner of what we make. */
static int enter_namespaces(void)
{
    char uid[32], gid[32];

    snprintf(uid, sizeof uid, "0 %u 1", geteuid());
    snprintf(gid, sizeof gid, "0 %u 1", getegid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || write_text("/proc/self/setgroups", "deny") < 0)
        return -1;
    return write_text("/proc/self/uid_map", uid) < 0 || write_text("/proc/self/gid_map", gid) < 0 ? -1 : 0;
}

/* A stand-in for a cell's tree, in namespaces of its own. 0 or 1. */
static int build_cell(int workspace)
{
    static const char *const dirs[] = {"tmp", "dev", "dev/shm", "proc", "usr", "workspace"};

    if (enter_namespaces() < 0 || mount("cell", base, "tmpfs", 0, NULL) < 0 || chdir(base) < 0)
        return 1;
    for (size_t i = 0; i < LEN(dirs) - !workspace; i++) {
        if (mkdir(dirs[i], 0755) < 0)
            return 1;
    }
    return touch("dev/null") < 0 || touch("proc/self") < 0 || touch("usr/file") < 0 || chroot(".") < 0 ||
           chdir("/") < 0;
}

/* As a session does it: what stands from the beginning, then what is attached at hand-off. */
static int restrict_cell(struct kr_err *err)
{
    int ruleset = kr_landlock_ruleset(kr_landlock_cell_paths, kr_landlock_cell_paths_count, 0, err);

    return ruleset < 0 ? ruleset
                       : kr_landlock_enforce(ruleset, kr_landlock_late_paths, kr_landlock_late_paths_count, err);
}

static int cell_rules(void)
{
    static const struct {
        const char *path;
        int flags, want;
    } files[] = {
        {"/usr/file", O_RDONLY, 0},
        {"/usr/file", O_WRONLY, EACCES},
        {"/usr/new", O_WRONLY | O_CREAT, EACCES},
        {"/new", O_WRONLY | O_CREAT, EACCES},
        {"/tmp/new", O_RDWR | O_CREAT, 0},
        {"/workspace/new", O_RDWR | O_CREAT | O_TRUNC, 0},
        {"/dev/shm/new", O_RDWR | O_CREAT, 0},
        {"/dev/null", O_RDWR, 0},
        {"/dev/new", O_WRONLY | O_CREAT, EACCES},
        {"/proc/self", O_RDONLY, 0},
        {"/proc/self", O_WRONLY | O_TRUNC, EACCES},
        {"/proc/new", O_WRONLY | O_CREAT, EACCES},
    };
    struct kr_err err = {0};
    int r = build_cell(1);

    if (r)
        return r;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (restrict_cell(&err) != newest()) {
        fprintf(stderr, "%s\n", err.msg);
        return 2;
    }
    for (size_t i = 0; i < LEN(files); i++) {
        if (open_as(files[i].path, files[i].flags) != files[i].want) {
            fprintf(stderr, "%s: not %s\n", files[i].path, strerror(files[i].want));
            return 3;
        }
    }
    if (bind_to("/workspace/socket") != EACCES || bind_to("/tmp/socket") != 0 || bind_to("/dev/shm/socket") != 0)
        return 6;
    if (rename("/workspace/new", "/tmp/moved") < 0)
        return newest() >= 2 ? 4 : 0;
    return rename("/tmp/moved", "/usr/moved") == 0 ? 5 : 0;
}

/* A path that must be there and is not: the error names it, and nothing has been restricted. */
static int cell_without_workspace(void)
{
    struct kr_err err = {0};
    int r = build_cell(0);

    if (r)
        return r;
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (restrict_cell(&err) != -ENOENT)
        return 2;
    return !strstr(err.msg, "/workspace") || open_as("/usr/file", O_WRONLY) != 0;
}

static void check_child(int (*fn)(void), const char *name)
{
    int status = -1;
    pid_t pid;

    strcpy(base + sizeof base - 7, "XXXXXX");
    CHECK(mkdtemp(base) && chdir("/") == 0);
    pid = fork();
    if (pid == 0)
        _exit(fn());
    waitpid(pid, &status, 0);
    rmdir(base);
    CHECK_THAT(status == 0, "%s: status %x", name, (unsigned)status);
}

static int namespaces_work(void)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(enter_namespaces() < 0 || mount("cell", "/tmp", "tmpfs", 0, NULL) < 0);
    waitpid(pid, &status, 0);
    return status == 0;
}

static void cell_paths_give_what_a_session_needs(void)
{
    check_child(cell_rules, "cell_paths");
}

static void a_missing_path_is_named(void)
{
    check_child(cell_without_workspace, "missing_path");
}

static void no_landlock_is_told(void)
{
    struct kr_err err = {0};

    CHECK(kr_landlock_restrict_abi(granted, LEN(granted), 0, 0, &err) == -EOPNOTSUPP);
    CHECK(err.kind == KR_ERR_UNAVAILABLE);
    CHECK(kr_landlock_enforce(-1, granted, LEN(granted), &err) == -EOPNOTSUPP);
}

int main(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof any;

    RUN(no_landlock_is_told);
    if (kr_landlock_abi() == 0) {
        printf("SKIP landlock: this kernel has none\n");
        CHECK_DONE();
    }
    outsider = getpid();
    abstract_server.sun_family = AF_UNIX;
    abstract_len = sizeof abstract_server.sun_family;
    tcp_server = any;
    if (listen_on(AF_UNIX, &abstract_server, &abstract_len) < 0 || listen_on(AF_INET, &tcp_server, &len) < 0)
        printf("# no control: cannot listen: %s\n", strerror(errno));
    RUN(unrestricted_everything_works);
    RUN(every_abi_refuses_what_it_can);
    RUN(loopback_leaves_tcp_alone);
    if (namespaces_work()) {
        RUN(cell_paths_give_what_a_session_needs);
        RUN(a_missing_path_is_named);
    } else {
        printf("SKIP cell_paths_give_what_a_session_needs: no user and mount namespaces here\n");
        printf("SKIP a_missing_path_is_named: no user and mount namespaces here\n");
    }
    CHECK_DONE();
}
