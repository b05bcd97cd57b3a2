/* The way of a zygote that imports the packages of a template, from its fork to its interpreter. Called by the
 * builder.
 *
 * Before: a copy of the builder, with its rights over the family's namespaces. After: in a control group with limits
 * of its own, and in a mount namespace of its own in which the template's environment is at /venv, the store of
 * packages is where cells see it, /proc cannot be written to, and nothing of what the builder keeps for cells is
 * left. The cells' own mount namespaces are copies of the builder's and know nothing of it. What comes next
 * (kr_zygote_exec(), then kr_py_confine() in the interpreter) is still krait's code. */
#include "guest_zygote.h"
#include "clock.h"
#include "fd.h"
#include "frame.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GO_MS 20000

static _Noreturn void give_up(const struct kr_builder_args *a, const struct kr_err *err)
{
    (void)kr_frame_send(a->zygote_control, KR_Z_FAILED, 0, err, sizeof *err, NULL, 0);
    _exit(1);
}

/* On v1 a process moves itself; on v2 the warden has moved it before it sends the word. */
static int join_group(const struct kr_builder_args *a, struct kr_err *err)
{
    struct kr_frame head;
    int fds[KR_FRAME_FDS_MAX];
    int r = kr_frame_recv(a->zygote_control, &head, NULL, 0, fds, kr_clock_after_ms(GO_MS), err);
    if (r < 0)
        return r;
    if (head.type != KR_Z_GO)
        r = kr_err_set(err, KR_ERR_PROTOCOL, EPROTO, "a zygote was told %u first", head.type);
    for (unsigned i = 0; i < head.nfds; i++) {
        if (r >= 0 && write(fds[i], "0", 1) < 0)
            r = kr_err_set(err, KR_ERR_SYSTEM, errno, "a zygote's way into its control group");
        close(fds[i]);
    }
    return r;
}

static int make_view(const struct kr_builder_args *a, const struct kr_view *view, struct kr_err *err)
{
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    int r;
    if (unshare(CLONE_NEWNS) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a zygote's mount namespace");
    if ((r = kr_view_guest(view, err)) < 0)
        return r;
    if (syscall(SYS_move_mount, a->venv, "", AT_FDCWD, "/venv", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a zygote's /venv");
    /* Its own: the kernel lets a cell mount a /proc only where the family's is a whole one. */
    if (syscall(SYS_mount_setattr, AT_FDCWD, "/proc", 0, &read_only, sizeof read_only) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a zygote's /proc");
    return 0;
}

void kr_guest_zygote(const struct kr_builder_args *a, const struct kr_view *view)
{
    struct kr_err err = {0};
    if (join_group(a, &err) < 0 || make_view(a, view, &err) < 0)
        give_up(a, &err);
}
