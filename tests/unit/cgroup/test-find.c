/* Where control groups are found: on a host with many mounts, and where it cannot be known. In a mount namespace of its
 * own; needs root. */
#include "cgroup.h"
#include "check.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOUNTS 700 /* of some 200 bytes in mountinfo each: more than 64 KiB */

static char top[] = "/tmp/krait-find-XXXXXX";

/* What is found, and made in it; nothing is left. */
static int find(struct kr_cgroups *g, struct kr_err *err)
{
    char name[64];
    int r;

    snprintf(name, sizeof name, "krait-test-find-%d", getpid());
    *g = (struct kr_cgroups){0};
    *err = (struct kr_err){0};
    r = kr_cgroups_init(g, name, err);
    if (r >= 0 && kr_cgroups_done(g) < 0)
        return -1;
    return r;
}

static void be_alone(void)
{
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mkdtemp(top) && mount("none", top, "tmpfs", 0, NULL) == 0);
}

static void many_mounts_hide_no_control_groups(void)
{
    static char text[65536];
    struct kr_cgroups before, after;
    struct kr_err err;
    char path[256];

    CHECK(find(&before, &err) == 0);
    for (int i = 0; i < MOUNTS; i++) {
        snprintf(path, sizeof path, "%s/%0150d", top, i);
        CHECK(mkdir(path, 0700) == 0 && mount("none", path, "tmpfs", 0, NULL) == 0);
    }
    CHECK(kr_fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof text) == -E2BIG);
    CHECK(find(&after, &err) == 0);
    CHECK(after.kind == before.kind && after.count == before.count && after.layers == before.layers);
    CHECK(umount2(top, MNT_DETACH) == 0);
}

static void what_cannot_be_read_is_an_error(void)
{
    struct kr_cgroups g;
    struct kr_err err;

    CHECK(find(&g, &err) == 0);
    CHECK(mount("none", "/proc", "tmpfs", 0, NULL) == 0);
    CHECK(find(&g, &err) < 0 && strstr(err.msg, "mountinfo"));
    CHECK(umount2("/proc", MNT_DETACH) == 0);
    CHECK(find(&g, &err) == 0);
}

int main(void)
{
    if (geteuid() != 0) {
        printf("SKIP find: needs root\n");
        return 0;
    }
    RUN(be_alone);
    if (!check_failed_) {
        RUN(many_mounts_hide_no_control_groups);
        RUN(what_cannot_be_read_is_an_error);
    }
    rmdir(top);
    CHECK_DONE();
}
