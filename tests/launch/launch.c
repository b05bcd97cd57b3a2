/* The launcher's recipe, alone and small: the calls krait's warden makes, in their order, without anything else around
 * them.
 *
 * warden -> builder (PID 1 of the zygote's user, pid and mount namespaces) -> zygote and, nested, a cell with its init
 * -> a session forked by the zygote into the cell and parked -> workspace attached by the init from a detached
 * (idmapped) mount -> Landlock -> a file written as the session's uid -> read by the server's uid -> exit status known
 * -> one kill ends everything.
 *
 * Run as root it goes through the recipe as root, as an ordinary user and inside two kinds of user namespace. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BASE_ID 0x70000000u
#define TRY(x)                                                                                                         \
    do {                                                                                                               \
        if ((x) < 0) {                                                                                                 \
            fprintf(stderr, "launch: line %d: %s: %s\n", __LINE__, #x, strerror(errno));                               \
            _exit(99);                                                                                                 \
        }                                                                                                              \
    } while (0)

struct how {
    int unique;   /* many ids to give away, so cells get their own and the workspace is idmapped */
    char dir[64]; /* the workspace on disk */
    uid_t owner;
};

static void put(const char *path, const char *text)
{
    int fd;
    TRY(fd = open(path, O_WRONLY | O_CLOEXEC));
    TRY(write(fd, text, strlen(text)));
    close(fd);
}

static void put_maps(pid_t pid, int deny_setgroups, const char *uids, const char *gids)
{
    char path[64];
    if (deny_setgroups) {
        snprintf(path, sizeof path, "/proc/%d/setgroups", pid);
        put(path, "deny");
    }
    snprintf(path, sizeof path, "/proc/%d/uid_map", pid);
    put(path, uids);
    snprintf(path, sizeof path, "/proc/%d/gid_map", pid);
    put(path, gids);
}

static void say(int sock, char what, int fd)
{
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec iov = {&what, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        struct cmsghdr *c;
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    TRY(sendmsg(sock, &m, MSG_NOSIGNAL));
}

#define PATIENCE_MS 30000 /* a loaded machine; how long it took is not judged */

/* Waits for one word; exits the process if another comes, or none comes in time. Returns the descriptor that came
 * with it, or -1. */
static int hear(int sock, char what)
{
    struct pollfd p = {sock, POLLIN, 0};
    int fd = -1;
    char got = 0, control[CMSG_SPACE(sizeof fd)];
    struct iovec iov = {&got, 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t n;
    struct cmsghdr *c;
    if (poll(&p, 1, PATIENCE_MS) != 1)
        _exit(98);
    n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
    if (n != 1 || got != what)
        _exit(97);
    c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

static int pidfd_of(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    TRY(fd);
    return fd;
}

static pid_t clone_into(int flags)
{
    pid_t pid = (pid_t)syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, NULL, 0);
    TRY(pid);
    return pid;
}

static void become(uid_t id)
{
    (void)setgroups(0, NULL); /* refused where setgroups is denied, and then there is nothing to clear */
    TRY(setresgid(id, id, id));
    TRY(setresuid(id, id, id));
}

static void build_tree(void)
{
    const char *const links[] = {"bin", "lib", "lib64"};
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    TRY(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
    TRY(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755"));
    TRY(chdir("/tmp"));
    TRY(mkdir("usr", 0755));
    TRY(mkdir("proc", 0755));
    TRY(mkdir("workspace", 0755));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        char target[16];
        snprintf(target, sizeof target, "usr/%s", links[i]);
        TRY(symlink(target, links[i]));
    }
    TRY(mount("/usr", "usr", NULL, MS_BIND | MS_REC, NULL));
    TRY(syscall(SYS_mount_setattr, AT_FDCWD, "usr", AT_RECURSIVE, &ro, sizeof ro));
    TRY(mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL));
    TRY(syscall(SYS_pivot_root, ".", "."));
    TRY(umount2(".", MNT_DETACH));
    TRY(chdir("/"));
}

/* PID 1 of the cell. */
static void init_main(int sock, int unique)
{
    int tree;
    hear(sock, 'g'); /* maps are written */
    if (unique)
        become(0);
    TRY(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* setns(pidfd) asks ptrace_may_access(): the session has yet to enter */
    TRY(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "subset=pid"));
    TRY(mount("tmpfs", "/workspace", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777,size=1m"));
    say(sock, 'r', -1);
    tree = hear(sock, 'a');
    TRY(syscall(SYS_move_mount, tree, "", AT_FDCWD, "/workspace", MOVE_MOUNT_F_EMPTY_PATH));
    close(tree);
    TRY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    say(sock, 'd', -1);
    for (;;)
        pause();
}

static void landlock_workspace(void)
{
    struct landlock_ruleset_attr attr = {.handled_access_fs =
                                             LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG};
    struct landlock_path_beneath_attr beneath = {.allowed_access = attr.handled_access_fs};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr.handled_access_fs, 0);
    TRY(rules);
    TRY(beneath.parent_fd = open("/workspace", O_PATH | O_CLOEXEC));
    TRY(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0));
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    TRY(syscall(SYS_landlock_restrict_self, rules, 0));
}

/* The session: already in the cell's pid namespace, still in the zygote's others. */
static void session_main(int sock, int init_pidfd)
{
    int fd;
    TRY(setns(init_pidfd, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS));
    become(1000);
    TRY(prctl(PR_SET_PDEATHSIG, 0)); /* nothing may tie it to its zygote */
    say(sock, 'p', -1);              /* parked */
    hear(sock, 's');                 /* the workspace is attached */
    TRY(chdir("/workspace"));
    landlock_workspace();
    if (mount("tmpfs", "/workspace", "tmpfs", 0, NULL) == 0 || getpid() == 1 || getuid() != 1000)
        _exit(96);
    if (open("/usr/x", O_CREAT | O_WRONLY, 0600) >= 0)
        _exit(95);
    TRY(fd = open("made-inside", O_CREAT | O_WRONLY, 0640));
    TRY(write(fd, "hello", 5));
    _exit(42);
}

static void zygote_main(int sock)
{
    int init_pidfd = hear(sock, 'f');
    int session_sock = hear(sock, 'c');
    int self = pidfd_of(getpid());
    pid_t pid;
    int status;
    TRY(setns(init_pidfd, CLONE_NEWPID));
    pid = fork();
    TRY(pid);
    if (pid == 0)
        session_main(session_sock, init_pidfd);
    TRY(setns(self, CLONE_NEWPID));
    say(sock, 'k', pidfd_of(pid));
    TRY(waitpid(pid, &status, 0));
    say(sock, WIFEXITED(status) && WEXITSTATUS(status) == 42 ? 'y' : 'n', -1);
    for (;;)
        pause();
}

static void builder_main(int sock, int zygote_sock, int init_sock, int unique)
{
    pid_t init;
    const char *map;
    hear(sock, 'g');
    become(0);
    TRY(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* after the change of ids, which clears it */
    build_tree();
    if (fork() == 0)
        zygote_main(zygote_sock);
    /* Changing ids made us undumpable, and an undumpable child's /proc/PID/uid_map belongs to the host's root. */
    TRY(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    init = clone_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS);
    if (init == 0)
        init_main(init_sock, unique);
    TRY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    /* Outside ids 0x70000001 and 0x70000002 are 1 and 2 in the zygote's namespace. */
    map = unique ? "0 1 1\n1000 2 1\n" : "1000 0 1\n";
    put_maps(init, !unique, map, map);
    say(sock, 'm', pidfd_of(init));
    for (;;)
        pause();
}

/* A user namespace whose only use is to be the id map of a mount: what `owner` has on disk is the session's. */
static int idmap_namespace(uid_t owner)
{
    char map[64], path[64];
    int gate[2], fd;
    pid_t pid;
    TRY(pipe2(gate, O_CLOEXEC));
    pid = clone_into(CLONE_NEWUSER);
    if (pid == 0) {
        char c;
        close(gate[1]);
        _exit(read(gate[0], &c, 1) < 0);
    }
    snprintf(map, sizeof map, "%u %u 1\n", owner, BASE_ID + 2);
    put_maps(pid, 0, map, map);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    TRY(fd);
    close(gate[0]);
    close(gate[1]);
    waitpid(pid, NULL, 0);
    return fd;
}

static int detached_workspace(const struct how *h)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, h->dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    TRY(tree);
    if (h->unique) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)idmap_namespace(h->owner);
    }
    TRY(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr));
    return tree;
}

static int is_gone_soon(int pidfd)
{
    struct pollfd p = {pidfd, POLLIN, 0};
    return poll(&p, 1, PATIENCE_MS) == 1;
}

static void pair(int p[2])
{
    TRY(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p));
}

static void recipe(struct how *h)
{
    int b[2], z[2], i[2], s[2];
    uid_t me;
    pid_t builder;
    char map[32];
    int init, session;
    gid_t my_group;
    pair(b), pair(z), pair(i), pair(s);
    me = getuid();
    my_group = getgid();
    if (!h->unique) { /* without ids to give away the warden first becomes root of a namespace of its own */
        char uids[32], gids[32];
        TRY(unshare(CLONE_NEWUSER | CLONE_NEWNS));
        snprintf(uids, sizeof uids, "0 %u 1\n", me);
        snprintf(gids, sizeof gids, "0 %u 1\n", my_group);
        put_maps(getpid(), 1, uids, gids);
    }
    builder = clone_into(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET);
    if (builder == 0)
        builder_main(b[1], z[1], i[1], h->unique);
    snprintf(map, sizeof map, "0 %u %u\n", h->unique ? BASE_ID : 0, h->unique ? 65536u : 1u);
    put_maps(builder, !h->unique, map, map);
    say(b[0], 'g', -1);
    init = hear(b[0], 'm');
    say(i[0], 'g', -1);
    hear(i[0], 'r');
    say(z[0], 'f', init);
    say(z[0], 'c', s[1]);
    session = hear(z[0], 'k');
    hear(s[0], 'p');
    say(i[0], 'a', detached_workspace(h));
    hear(i[0], 'd');
    say(s[0], 's', -1);
    hear(z[0], 'y'); /* the zygote knows how it ended */
    TRY(kill(builder, SIGKILL));
    waitpid(builder, NULL, 0);
    if (!is_gone_soon(init) || !is_gone_soon(session))
        _exit(94);
}

static void expect_file(const struct how *h)
{
    char path[128], text[8] = {0};
    struct stat st;
    int fd;
    snprintf(path, sizeof path, "%s/made-inside", h->dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, 5) != 5 || strcmp(text, "hello") != 0 || fstat(fd, &st) < 0 || st.st_uid != h->owner)
        _exit(93);
    TRY(unlink(path));
}

/* Runs the recipe in a process that first becomes `uid`, and enters a user namespace that holds one id or many. */
static int way(const char *name, uid_t uid, int nest, unsigned nested_ids)
{
    struct how h = {.owner = uid, .unique = uid == 0 && nest == 0};
    int gate[2], status = 0, ok;
    pid_t pid;
    snprintf(h.dir, sizeof h.dir, "/var/tmp/krait-launch-XXXXXX");
    TRY(mkdtemp(h.dir) ? 0 : -1);
    TRY(chown(h.dir, uid, uid));
    pair(gate);
    pid = fork();
    if (pid == 0) {
        pid_t worker;
        if (uid != 0)
            become(uid);
        TRY(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
        if (nest) {
            TRY(unshare(CLONE_NEWUSER | CLONE_NEWNS));
            say(gate[1], 'u', -1);
            hear(gate[1], 'm');
            become(0);
        }
        worker = fork(); /* the recipe may leave for a namespace; the file is read from where we are */
        if (worker == 0) {
            recipe(&h);
            _exit(0);
        }
        waitpid(worker, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 92);
        h.owner = getuid();
        expect_file(&h);
        _exit(0);
    }
    if (nest) {
        char map[64];
        hear(gate[0], 'u');
        snprintf(map, sizeof map, "0 %u 1\n", uid);
        if (nested_ids > 1)
            snprintf(map + strlen(map), sizeof map - strlen(map), "1 %u %u\n", BASE_ID, nested_ids - 1);
        put_maps(pid, nested_ids == 1, map, map);
        say(gate[0], 'm', -1);
    }
    waitpid(pid, &status, 0);
    ok = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    TRY(rmdir(h.dir));
    if (ok)
        printf("PASS launch:%s\n", name);
    else
        printf("FAIL launch:%s: ended with %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
    return !ok;
}

int main(void)
{
    int bad;
    if (getuid() != 0)
        return way("as-i-am", getuid(), 0, 0);
    bad = way("root", 0, 0, 0);
    bad |= way("user", 54321, 0, 0);
    bad |= way("userns-one-id", 54321, 1, 1);
    bad |= way("userns-range", 54321, 1, 65536);
    return bad;
}
