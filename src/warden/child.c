/* Who is behind a pidfd. Called by the warden for every process a family names.
 * Invariant: a pid is used only after its parent was seen to be the one who named it. */
#include "fd.h"
#include "warden_internal.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* Linux 6.13; Debian 12's headers do not have it. The first version of the structure, which every later kernel
 * takes. */
struct who {
    uint64_t mask, cgroupid;
    uint32_t pid, tgid, ppid, ids[8], spare;
};
#define WHO_PID 1u                          /* PIDFD_INFO_PID */
#define GET_WHO _IOWR(0xFF, 11, struct who) /* PIDFD_GET_INFO */
static_assert(sizeof(struct who) == 64, "PIDFD_INFO_SIZE_VER0");

pid_t kr_pid_of(int pidfd)
{
    char path[64], text[512];
    ssize_t n;
    const char *at;
    pid_t pid;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return (pid_t)n;
    at = strstr(text, "\nPid:");
    pid = at ? (pid_t)strtol(at + 5, NULL, 10) : -1;
    return pid > 0 ? pid : -ESRCH;
}

/* Before Linux 6.13. */
static int look_up(int pidfd, pid_t *ret_pid, pid_t *ret_parent)
{
    char path[64], text[512];
    pid_t pid = kr_pid_of(pidfd);
    ssize_t n;
    const char *after;
    if (pid < 0)
        return pid;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    n = kr_fd_read_file_at(AT_FDCWD, path, text, sizeof text);
    if (n < 0)
        return (int)n;
    after = strrchr(text, ')'); /* the name may hold anything */
    if (!after || sscanf(after + 1, " %*c %d", ret_parent) != 1)
        return -EIO;
    *ret_pid = pid;
    return 0;
}

pid_t kr_child_of(int pidfd, pid_t parent, const char *who, struct kr_err *err)
{
    struct who info = {.mask = WHO_PID};
    pid_t pid = -1, found = -1;
    int r = 0;
    if (ioctl(pidfd, GET_WHO, &info) == 0 && (info.mask & WHO_PID)) {
        pid = (pid_t)info.pid;
        found = (pid_t)info.ppid;
    } else {
        r = look_up(pidfd, &pid, &found);
    }
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "find the %s", who);
    if (pid <= 0 || found != parent)
        return kr_err_set(err, KR_ERR_PROTOCOL, EPERM, "the %s named is not a child of the process that named it", who);
    return pid;
}
