/* PID 1 of a zygote's user, pid, mount, ipc, uts and network namespaces.
 *
 * Theory: a zygote may only enter cells whose user namespace is a child of its own and whose pid namespace lies beneath
 * its own (setns(2)), so cells are cloned here, by a small process that lives in the same namespaces, and not by the
 * warden. Being PID 1, its end is the end of the zygote and of every cell, however deep. The zygote's end is not: its
 * sessions become our children. It has one thread, runs only this code, and waits on nothing without a deadline but its
 * work. */
#include "builder.h"
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "guest_zygote.h"
#include "init.h"
#include "level.h"
#include "log.h"
#include "netns.h"
#include "zygote_exec.h"
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* SYS_ADMIN to make and enter namespaces, SETUID and SETGID to write the cells' maps, NET_ADMIN to raise lo, SYS_CHROOT
 * for pivoted mounts, SETPCAP to shrink the zygote's set, SETFCAP because a map that names our own root asks for it
 * (user_namespaces(7), Linux 5.12). All of them only over what the zygote's user namespace owns. */
#define BUILDER_CAPS                                                                                                   \
    (KR_CAP(CAP_SYS_ADMIN) | KR_CAP(CAP_SETUID) | KR_CAP(CAP_SETGID) | KR_CAP(CAP_NET_ADMIN) |                         \
     KR_CAP(CAP_SYS_CHROOT) | KR_CAP(CAP_SETPCAP) | KR_CAP(CAP_SETFCAP))
/* What the zygote keeps: setns() into a cell's pid and network namespaces asks for CAP_SYS_ADMIN in ours. Over its
 * cells it has every right anyway, as the owner of their user namespaces. */
#define ZYGOTE_CAPS KR_CAP(CAP_SYS_ADMIN)
#define GO_WAIT_MS 10000

struct builder {
    const struct kr_builder_args *a;
    struct kr_view view; /* what its cells get of the tree */
    struct kr_netns_stock nets;
    int signals;
    pid_t zygote;
};

static _Noreturn void die(const struct builder *b, const struct kr_err *err)
{
    (void)kr_frame_send(b->a->control, KR_B_FAILED, 0, err, sizeof *err, NULL, 0);
    _exit(1);
}

static void start_zygote(struct builder *b)
{
    struct kr_err err;
    b->zygote = fork();
    if (b->zygote == 0) {
        if (b->a->preload == KR_PRELOAD_TEMPLATE)
            kr_guest_zygote(b->a, &b->view);
        kr_zygote_exec(b->a, "/krait", NULL, ZYGOTE_CAPS);
    }
    if (b->zygote < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "fork the zygote");
        die(b, &err);
    }
}

static pid_t clone_init(int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (pid > 0)
        *ret_pidfd = pidfd;
    return pid < 0 ? -errno : pid;
}

static _Noreturn void be_init(const struct builder *b, const struct kr_b_cell *req, const int *fds, unsigned nfds)
{
    struct kr_init_args a = {.channel = 0,
                             .lifeline = 1,
                             .shared_id = req->shared_id != 0,
                             .is_hidden = b->a->preload == KR_PRELOAD_TEMPLATE,
                             .index = req->cell & 0xffff,
                             .view = &b->view,
                             .mounts = b->a->mounts};
    sigset_t none;
    int high[KR_FRAME_FDS_MAX];
    for (unsigned i = 0; i < nfds; i++) /* out of the way, so that placing one overwrites none */
        if ((high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 100)) < 0)
            _exit(70);
    for (unsigned i = 0; i < nfds; i++)
        if (dup3(high[i], (int)i, O_CLOEXEC) < 0)
            _exit(70);
    if (close_range(nfds, ~0U, 0) < 0)
        _exit(70);
    sigemptyset(&none);
    if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(70);
    kr_init_main(&a);
}

/* made_fds: the pidfd of the init, and the listener of its network or -1; the caller's, also on failure. */
static int make_cell(struct builder *b, const struct kr_b_cell *req, const int *fds, unsigned nfds,
                     struct kr_b_made *made, int made_fds[2], struct kr_err *err)
{
    char map[64];
    int r = kr_netns_enter(&b->nets, req->network, &made_fds[1], err);
    pid_t pid;
    if (r < 0)
        return r;
    /* Changing ids made us undumpable, and an undumpable child's uid_map belongs to the host's root; the flag is copied
     * by clone. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        r = kr_err_set(err, KR_ERR_SYSTEM, errno, "dumpable");
        kr_netns_unused(&b->nets);
        return r;
    }
    pid = clone_init(&made_fds[0]);
    if (pid == 0)
        be_init(b, req, fds, nfds);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        _exit(1); /* readable for good is not what the cells were promised: they all go, and a new builder comes */
    if (pid < 0) {
        kr_netns_unused(&b->nets);
        return kr_err_set(err, KR_ERR_SYSTEM, (int)-pid, "clone an init");
    }
    kr_netns_used_by(&b->nets, pid, req->network);
    if (req->shared_id)
        snprintf(map, sizeof map, "1000 0 1\n");
    else
        snprintf(map, sizeof map, "0 %u 1\n1000 %u 1\n", req->init_id, req->session_id);
    r = kr_maps_write(pid, map, map, 0, err);
    if (r < 0) {
        kill(pid, SIGKILL);
        return r;
    }
    *made = (struct kr_b_made){.cell = req->cell, .pid = pid};
    return 0;
}

static void on_request(struct builder *b)
{
    struct kr_frame f;
    struct kr_b_cell req;
    struct kr_b_made made;
    struct kr_err err = {0};
    int fds[KR_FRAME_FDS_MAX], made_fds[2] = {-1, -1};
    int r;
    if (kr_frame_recv(b->a->control, &f, &req, sizeof req, fds, 0, &err) < 0 || f.type != KR_B_CELL)
        _exit(0); /* the warden is gone, or not one we know */
    r = make_cell(b, &req, fds, f.nfds, &made, made_fds, &err);
    for (unsigned i = 0; i < f.nfds; i++)
        close(fds[i]);
    r = r < 0 ? kr_frame_send(b->a->control, KR_B_FAILED, f.id, &err, sizeof err, NULL, 0)
              : kr_frame_send(b->a->control, KR_B_MADE, f.id, &made, sizeof made, made_fds, 1 + (made_fds[1] >= 0));
    for (int i = 0; i < 2; i++)
        kr_fd_close(made_fds[i]);
    if (r < 0)
        _exit(0);
}

static void zygote_ended(struct builder *b, int status)
{
    struct kr_b_gone gone = {.pid = b->zygote, .status = status, .zygote = 1};
    b->zygote = -1;
    if (kr_frame_send(b->a->control, KR_B_GONE, 0, &gone, sizeof gone, NULL, 0) < 0)
        _exit(0);
}

static uint64_t cpu_ns(const struct rusage *u)
{
    return ((uint64_t)u->ru_utime.tv_sec + (uint64_t)u->ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)u->ru_utime.tv_usec + (uint64_t)u->ru_stime.tv_usec) * 1000u;
}

/* Our children are the inits and the zygote. When the zygote has ended, its sessions are ours too: the kernel gives
 * them to PID 1 of their parent's namespace. They run on, and their ends are reported from here. An orphan is seen only
 * after its parent (both change under one lock of the kernel), so one look at the zygote tells whether it can be one.
 * The ends of inits are reported with them: the warden knows which numbers are sessions. */
static void on_children(struct builder *b)
{
    struct signalfd_siginfo info;
    struct rusage used;
    int status, last;
    (void)!read(b->signals, &info, sizeof info);
    for (pid_t pid; (pid = wait4(-1, &status, WNOHANG, &used)) > 0;) {
        struct kr_b_exit e = {.pid = pid, .status = status, .cpu_ns = cpu_ns(&used)};
        kr_netns_recycle(&b->nets, pid);
        if (pid == b->zygote) {
            zygote_ended(b, status);
            continue;
        }
        if (b->zygote > 0 && waitpid(b->zygote, &last, WNOHANG) == b->zygote)
            zygote_ended(b, last);
        if (b->zygote < 0 && kr_frame_send(b->a->control, KR_B_EXIT, 0, &e, sizeof e, NULL, 0) < 0)
            _exit(0);
    }
}

/* The inits of cells are copies of us, and we are one of the warden: its arguments and environment, with whatever
 * secrets they hold, end here. Only the kernel knows their position (proc(5), stat fields 48 to 51). */
static void wipe_arguments(void)
{
    char text[2048];
    unsigned long start[2], end[2];
    ssize_t n = kr_fd_read_file_at(AT_FDCWD, "/proc/self/stat", text, sizeof text);
    const char *at = n > 0 ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 48; field++)
        at = strchr(at + 1, ' ');
    if (!at || sscanf(at, " %lu %lu %lu %lu", &start[0], &end[0], &start[1], &end[1]) != 4)
        _exit(1);
    environ = NULL;
    for (int i = 0; i < 2; i++)
        if (start[i] != 0 && end[i] > start[i])
            memset((void *)start[i], 0, end[i] - start[i]);
}

/* What is forked from here on counts the time since the machine's start from the family's own: start times of
 * processes, which ps holds against /proc/uptime, and sysinfo(2). CLOCK_MONOTONIC stays as it is: deadlines cross the
 * boundary. Asks for CAP_SYS_TIME over a time namespace of our own. A kernel without them, or with no /proc to say it
 * in, leaves processes with the machine's start times, and nothing else is lost. */
static int begin_time(const struct builder *b, uint32_t layers, struct kr_err *err)
{
    char text[48];
    int r;
    if (!(layers & KR_LAYER_PROC) || b->view.cpus == 0)
        return 0;
    if (unshare(CLONE_NEWTIME) < 0)
        return errno == EINVAL || errno == EPERM ? 0 : kr_err_set(err, KR_ERR_SYSTEM, errno, "a time namespace");
    snprintf(text, sizeof text, "boottime -%llu 0\n", (unsigned long long)b->a->born);
    /* A process that has changed its ids owns nothing in /proc until it is dumpable. No other is here yet. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "dumpable");
    r = kr_fd_write_file_at(AT_FDCWD, "/proc/self/timens_offsets", text);
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "undumpable");
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "the beginning of a family's time") : 0;
}

static void prepare(struct builder *b, uint32_t *layers)
{
    struct kr_err err = {0};
    struct kr_frame f;
    struct kr_i_go go;
    int fds[KR_FRAME_FDS_MAX];
    sigset_t set;
    wipe_arguments();
    if (kr_frame_recv(b->a->control, &f, &go, sizeof go, fds, kr_clock_after_ms(GO_WAIT_MS), &err) < 0)
        _exit(0);
    /* Before: a process of the caller's uid with every capability in a namespace just made. After: uid 0 of that
     * namespace, the named capabilities, no way to gain another. Failing means no zygote. */
    if (kr_become(0, 0, &err) < 0 || kr_tree_build(&b->a->tree, &b->view, layers, &err) < 0 ||
        begin_time(b, *layers, &err) < 0 || kr_caps_keep(BUILDER_CAPS, &err) < 0 || kr_no_new_privs(&err) < 0)
        die(b, &err);
    /* After the change of ids, which clears it; the lifeline covers the gap. Off the terminal: its Ctrl-C is the
     * engine's. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || setsid() < 0)
        _exit(1);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_SETMASK, &set, NULL);
    b->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (b->signals < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "signalfd");
        die(b, &err);
    }
}

/* What an init runs, by the beginning of its name: the program itself (which has none here), the C library, its loader.
 * And what is the server's alone; the last two come with its look-up of users. */
static const char *const needed[] = {"libc.so.", "ld-", "linux-vdso"};
static const char *const spare[] = {"libuv.so.",      "libjansson.so.", "libsqlite3.so.", "libsodium.so.",
                                    "libseccomp.so.", "libm.so.",       "libcap.so.",     "libnss_"};

static int has(const char *const *list, size_t count, const char *name)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    for (size_t i = 0; i < count; i++)
        if (strncmp(base, list[i], strlen(list[i])) == 0)
            return 1;
    return 0;
}

/* A preloaded library, a sanitizer: it may stand between the program and the C library, and call whatever it likes. */
static int is_foreign(struct dl_phdr_info *object, size_t size, void *data)
{
    const char *name = object->dlpi_name;
    (void)size, (void)data;
    return *name != '\0' && !has(needed, sizeof needed / sizeof *needed, name) &&
           !has(spare, sizeof spare / sizeof *spare, name);
}

static int keep_from_inits(struct dl_phdr_info *object, size_t size, void *data)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size, (void)data;
    if (!has(spare, sizeof spare / sizeof *spare, object->dlpi_name))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        uintptr_t from = (object->dlpi_addr + p->p_vaddr) & ~(page - 1);
        uintptr_t end = (object->dlpi_addr + p->p_vaddr + p->p_memsz + page - 1) & ~(page - 1);
        if (p->p_type == PT_LOAD)                                   /* dearer without, not wrong */
            (void)madvise((void *)from, end - from, MADV_DONTFORK); // NOLINT(performance-no-int-to-ptr)
    }
    return 0;
}

_Noreturn void kr_builder_main(const struct kr_builder_args *a)
{
    struct builder b = {.a = a, .signals = -1};
    struct kr_b_ready ready = {0};
    cleanup_fd int pidfd = -1;
    kr_log_set_who("builder");
    prepare(&b, &ready.layers);
    kr_netns_init(&b.nets);
    start_zygote(&b);
    close(a->zygote_control);
    kr_fd_close(a->venv);
    ready.zygote_pid = b.zygote;
    pidfd = (int)syscall(SYS_pidfd_open, b.zygote, 0);
    if (pidfd < 0 || kr_frame_send(a->control, KR_B_READY, 0, &ready, sizeof ready, &pidfd, 1) < 0)
        _exit(1);
    pidfd = kr_fd_close(pidfd);
    /* Half of what a short session's init costs is the copy of our mappings and its end. The server's libraries are no
     * use to it. */
    if (dl_iterate_phdr(is_foreign, NULL) == 0)
        (void)dl_iterate_phdr(keep_from_inits, NULL);
    for (;;) {
        struct pollfd p[] = {{a->control, POLLIN, 0}, {a->lifeline, POLLIN, 0}, {b.signals, POLLIN, 0}};
        if (poll(p, 3, -1) < 0 && errno != EINTR)
            _exit(1);
        if (p[1].revents != 0)
            _exit(0);
        if (p[2].revents != 0)
            on_children(&b);
        if (p[0].revents != 0)
            on_request(&b);
    }
}
