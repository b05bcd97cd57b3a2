/* PID 1 of a cell: mounts what is the cell's own, attaches the workspace at hand-off, then gives up its last right and
 * only waits to die.
 *
 * Privilege: it starts with every capability, but only over the namespaces of its own cell, and it runs no code but
 * this. Once the cell stands it keeps CAP_SYS_ADMIN, for the mounts of the workspace and the data sets, and
 * CAP_DAC_OVERRIDE, because an overlay reads a data set with the rights of the one who mounted it (beside those of the
 * reader, who is checked first). At hand-off, before the first byte of user code, both go. When it ends, for
 * whatever reason, the kernel kills everything in the cell. */
#include "init.h"
#include "caps.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include "gauges.h"
#include "proto.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FDS_MAX (3 + KR_MOUNTS_MAX)
#define TERMINALS_MAX "32"
#define WAIT_MS 10000 /* for the warden's first word; after that the lifeline decides */

static _Noreturn void fail(const struct kr_init_args *a, const struct kr_err *err)
{
    (void)kr_frame_send(a->channel, KR_I_FAILED, 0, err, sizeof *err, NULL, 0);
    _exit(1);
}

static int mount_tmpfs(const char *at, unsigned mode, uint64_t bytes, uint64_t inodes, unsigned long flags,
                       struct kr_err *err)
{
    char options[96];
    snprintf(options, sizeof options, "mode=%o,size=%" PRIu64 ",nr_inodes=%" PRIu64, mode, bytes, inodes);
    if (mount("tmpfs", at, "tmpfs", MS_NOSUID | MS_NODEV | flags, options) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount %s", at);
    return 0;
}

/* A fresh /proc that shows only this cell's processes. Where none can be mounted (a container masks parts of its own)
 * an empty folder takes its place, never the zygote's, and the layer is reported as lost. */
static int mount_proc(const struct kr_view *view, uint32_t *layers, struct kr_err *err)
{
    /* ptraceable, not invisible: where there is only one id, "invisible" would show us to the session. Whole where
     * gauges come into it, which kr_gauges_mount() narrows. */
    const char *options = view->cpus > 0 ? "hidepid=ptraceable" : "subset=pid,hidepid=ptraceable";
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) == 0) {
        *layers |= KR_LAYER_PROC | (view->cpus > 0 ? KR_LAYER_GAUGES : 0);
        return 0;
    }
    if (errno != EPERM)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount /proc");
    return mount_tmpfs("/proc", 01777, 4096, 2, MS_RDONLY, err);
}

/* The files of a cell that are in memory are folders of one tmpfs, which is mounted outside of the cell's root: the
 * kernel keeps a place for each mounted filesystem of the machine in each memory cgroup, so that every further one of a
 * cell costs every other cell, too. */
static const struct {
    const char *folder, *at;
    unsigned long flags; /* beyond those of the tmpfs */
} in_memory[] = {{KR_VIEW_FILES "/tmp", "/tmp", 0},
                 {KR_VIEW_FILES "/shm", "/dev/shm", MS_NOEXEC},
                 {KR_VIEW_FILES "/workspace", "/workspace", 0}};
#define FOLDERS (sizeof in_memory / sizeof *in_memory)

static int mount_files(const struct kr_i_go *go, struct kr_err *err)
{
    int r = mount_tmpfs(KR_VIEW_FILES, 0755, go->tmp_bytes, go->tmp_inodes + FOLDERS, 0, err);
    umask(0); /* of this process alone, which makes no other files */
    for (size_t i = 0; r >= 0 && i < FOLDERS; i++) {
        const char *at = in_memory[i].at;
        if (mkdir(in_memory[i].folder, 01777) < 0 || mount(in_memory[i].folder, at, NULL, MS_BIND, NULL) < 0 ||
            (in_memory[i].flags != 0 &&
             mount(NULL, at, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | in_memory[i].flags, NULL) < 0))
            r = kr_err_set(err, KR_ERR_SYSTEM, errno, "mount %s", at);
    }
    return r;
}

/* The cell's own pseudo-terminals: no other cell and not the host see them, and what a cell takes of the machine's
 * number (kernel.pty.max, of which the host keeps kernel.pty.reserve) is bounded. Not nodev: its files are devices.
 * Where the kernel has none for a user namespace the cell goes without, and the layer is reported as lost. */
static int mount_terminals(uint32_t *layers, struct kr_err *err)
{
    static const char options[] = "newinstance,mode=0600,ptmxmode=0666,max=" TERMINALS_MAX;
    if (mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options) == 0)
        *layers |= KR_LAYER_TERMINALS;
    else if (errno != EPERM && errno != EINVAL && errno != ENODEV)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "mount /dev/pts");
    return 0;
}

static int build(const struct kr_init_args *a, const struct kr_i_go *go, uint32_t *layers, struct kr_err *err)
{
    int r;
    if ((r = kr_view_enter(a->view, a->index, layers, err)) < 0 || (r = mount_terminals(layers, err)) < 0 ||
        (r = mount_proc(a->view, layers, err)) < 0 || (r = mount_files(go, err)) < 0)
        return r;
    if (sethostname("krait", 5) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "sethostname");
    return 0;
}

static int resize(const struct kr_i_attach *how, struct kr_err *err)
{
    char options[96];
    snprintf(options, sizeof options, "size=%" PRIu64 ",nr_inodes=%" PRIu64, how->tmp_bytes, how->tmp_inodes + FOLDERS);
    if (mount(NULL, KR_VIEW_FILES, NULL, MS_REMOUNT | MS_NOSUID | MS_NODEV, options) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "resize /tmp");
    return 0;
}

static int put_mount(int tree, const char *at, struct kr_err *err)
{
    if (syscall(SYS_move_mount, tree, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "attach %s", at);
    return 0;
}

/* The ceiling that the family knows is the warden's; one that was raised since is for the next family. */
static unsigned shown(const struct kr_view *view, unsigned cpus)
{
    return cpus < view->cpus ? cpus : view->cpus;
}

/* For this cell alone, and for good: the right to undo it goes with the init's last one. */
static int lock_workspace(struct kr_err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/workspace", 0, &attr, sizeof attr) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make /workspace read-only");
    return 0;
}

/* `trees`: the workspace if there is one, then the environment if there is one, then the data sets in the order of
 * their bits; -1 behind the last. */
static int attach(const struct kr_init_args *a, const struct kr_i_attach *how, const int *trees, struct kr_err *err)
{
    char at[64];
    int r;
    if (how->resize != 0 && (r = resize(how, err)) < 0)
        return r;
    if (how->cpus != 0 && (r = kr_gauges_show_cpus(shown(a->view, how->cpus), err)) < 0)
        return r;
    if (how->workspace != 0 && (r = put_mount(*trees++, "/workspace", err)) < 0)
        return r;
    if (how->read_only != 0 && (r = lock_workspace(err)) < 0)
        return r;
    if (how->venv != 0 && (r = put_mount(*trees++, "/venv", err)) < 0)
        return r;
    for (unsigned i = 0; i < KR_MOUNTS_MAX; i++) {
        if (!(how->mounts & (1u << i)))
            continue;
        snprintf(at, sizeof at, "/data/%.40s", a->mounts[i].name);
        if ((r = kr_view_attach(a->view, *trees++, at, err)) < 0)
            return r;
    }
    return 0;
}

/* The last rights go. Undumpable, so that a session that shares our uid (where there is only one) cannot open our
 * memory. */
static int give_up(struct kr_err *err)
{
    int r = kr_caps_hold(0, err);
    if (r < 0)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "undumpable");
    return 0;
}

static void expect(const struct kr_init_args *a, uint16_t type, void *payload, size_t size, int ret_fds[FDS_MAX],
                   uint64_t deadline)
{
    struct kr_frame f;
    struct kr_err err;
    int fds[KR_FRAME_FDS_MAX];
    if (kr_frame_recv(a->channel, &f, payload, size, fds, deadline, &err) < 0 || f.type != type)
        _exit(2); /* the warden has ended, or sent something else: nothing to report to */
    for (unsigned i = 0; i < FDS_MAX; i++)
        ret_fds[i] = i < f.nfds ? fds[i] : -1;
}

/* Sleeps until the hand-off comes, or the warden's end. */
static void wait_for_channel(const struct kr_init_args *a)
{
    for (;;) {
        struct pollfd p[] = {{a->channel, POLLIN, 0}, {a->lifeline, POLLIN, 0}};
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            _exit(3);
        if (p[1].revents != 0)
            _exit(0);
        if (p[0].revents != 0)
            return;
    }
}

static _Noreturn void idle(const struct kr_init_args *a)
{
    for (;;) {
        struct pollfd p = {a->lifeline, POLLIN, 0};
        if (poll(&p, 1, -1) > 0)
            _exit(0);
    }
}

_Noreturn void kr_init_main(const struct kr_init_args *a)
{
    struct kr_err err = {0};
    struct kr_i_go go;
    struct kr_i_attach how;
    struct kr_i_ready ready = {0};
    int fds[FDS_MAX];                        /* of ATTACH: the gate, and what is to be attached */
    if (signal(SIGCHLD, SIG_IGN) == SIG_ERR) /* orphans of the cell end without a trace */
        _exit(4);
    expect(a, KR_I_GO, &go, sizeof go, fds, kr_clock_after_ms(WAIT_MS));
    if (!a->shared_id && kr_become(0, 0, &err) < 0)
        fail(a, &err);
    /* setns(pidfd) asks ptrace_may_access(), which an undumpable process fails; changing ids made us one. Taken back in
     * give_up(). One that is hidden stays undumpable: then only who may trace the warden may trace it. */
    if (!a->is_hidden && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0) {
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "dumpable");
        fail(a, &err);
    }
    /* The bounding set stays as it is: it bounds what an exec can bring, which is nothing under no_new_privs, and we
     * never exec. Emptying it is forty calls and as many copies of our credentials. */
    if (build(a, &go, &ready.layers, &err) < 0 || kr_no_new_privs(&err) < 0 ||
        kr_caps_hold(KR_CAP(CAP_SYS_ADMIN) | KR_CAP(CAP_DAC_OVERRIDE), &err) < 0)
        fail(a, &err);
    if (kr_frame_send(a->channel, KR_I_READY, 0, &ready, sizeof ready, NULL, 0) < 0)
        _exit(5);
    /* While the session is on its way here, with krait's own code; user code comes after ATTACH. */
    if ((ready.layers & KR_LAYER_GAUGES) && kr_gauges_mount(shown(a->view, go.cpus), &err) < 0)
        fail(a, &err);
    wait_for_channel(a);
    expect(a, KR_I_ATTACH, &how, sizeof how, fds, 0);
    if (attach(a, &how, fds + 1, &err) < 0 || give_up(&err) < 0)
        fail(a, &err);
    for (unsigned i = 1; i < FDS_MAX; i++)
        kr_fd_close(fds[i]);
    if (write(fds[0], "1", 1) < 0) { /* from here on the session may run user code */
        kr_err_set(&err, KR_ERR_SYSTEM, errno, "open the gate");
        fail(a, &err);
    }
    close(fds[0]);
    if (kr_frame_send(a->channel, KR_I_DONE, 0, NULL, 0, NULL, 0) < 0)
        _exit(6);
    idle(a);
}
