/* Loop devices. Called for images only. Invariant: every device made here clears itself when its last user goes
 * (LO_FLAGS_AUTOCLEAR), so that a killed krait leaves none. */
#include "fd.h"
#include "shelf_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096u /* of the device: what both filesystems use, and what direct I/O can be on any disk of today */
#define TRIES 16    /* another process may take the free device first */

/* The device whose file this is, or -1. What is open cannot clear itself, so what is found stays. */
static int find_bound(const struct stat *file, char path[KR_LOOP_ROOM])
{
    DIR *all = opendir("/sys/block");
    int found = -1;
    for (struct dirent *e; all && found < 0 && (e = readdir(all));) {
        char bound[300];
        struct loop_info64 info;
        cleanup_fd int fd = -1;
        if (strncmp(e->d_name, "loop", 4) != 0 || strlen(e->d_name) > 12)
            continue;
        snprintf(bound, sizeof bound, "/sys/block/%s/loop/backing_file", e->d_name);
        if (access(bound, F_OK) < 0)
            continue;
        snprintf(path, KR_LOOP_ROOM, "/dev/%.12s", e->d_name);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_device == file->st_dev &&
            info.lo_inode == file->st_ino)
            found = steal_fd(&fd);
    }
    if (all)
        closedir(all);
    return found;
}

int kr_shelf_loop(int file, char path[KR_LOOP_ROOM], struct kr_err *err)
{
    struct loop_config how = {
        .fd = (uint32_t)file, .block_size = BLOCK, .info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
    cleanup_fd int control = -1;
    struct stat st;
    int bound;
    if (fstat(file, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat the image");
    bound = find_bound(&st, path);
    if (bound >= 0)
        return bound;
    control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "open /dev/loop-control");
    for (int i = 0; i < TRIES; i++) {
        int n = ioctl(control, LOOP_CTL_GET_FREE), code;
        cleanup_fd int fd = -1;
        if (n < 0)
            return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "find a free loop device");
        snprintf(path, KR_LOOP_ROOM, "/dev/loop%d", n);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            return kr_err_set(err, KR_ERR_UNAVAILABLE, errno, "open %s", path);
        if (ioctl(fd, LOOP_CONFIGURE, &how) == 0)
            return steal_fd(&fd);
        code = errno;
        if (code != EBUSY)
            return kr_err_set(err, KR_ERR_UNAVAILABLE, code, "attach the image to %s", path);
    }
    return kr_err_set(err, KR_ERR_BUSY, EBUSY, "no loop device is free for long enough");
}
