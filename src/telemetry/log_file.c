/* The log's files: krait.log, krait.log.1 … in one folder.
 *
 * Called by log.c under its lock. Invariant: one process writes, the one that opened them; no file grows past its
 * size and there are no more than so many; a rename that fails loses no line that was written, it only stops the
 * writing until a rename succeeds. */
#define _GNU_SOURCE 1
#include "clock.h"
#include "err.h"
#include "fd.h"
#include "log_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RETRY_MS 60000u

static struct {
    int dir, fd;
    pid_t owner;
    uint64_t size, max;
    unsigned count;
    uint64_t not_before; /* after a failure: when to try again */
    bool torn;           /* the last line is not whole */
} f = {.dir = -1, .fd = -1};

/* Opens krait.log to append to it. The descriptor, or -errno. */
static int open_file(int dir, uint64_t *ret_size)
{
    cleanup_fd int fd =
        openat(dir, KR_LOG_FILE, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640);
    struct stat st;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    *ret_size = (uint64_t)st.st_size;
    return steal_fd(&fd);
}

void kr_log_file_close(void)
{
    f.fd = kr_fd_close(f.fd);
    f.dir = kr_fd_close(f.dir);
    f.owner = 0;
}

int kr_log_file_open(const char *dir, uint64_t file_max, unsigned files, struct kr_err *err)
{
    cleanup_fd int dirfd = -1;
    uint64_t size = 0;
    int fd;

    if (mkdir(dir, 0750) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the log's folder %.120s cannot be made", dir);
    dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the log's folder %.120s", dir);
    fd = open_file(dirfd, &size);
    if (fd == -EINVAL)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%.120s/" KR_LOG_FILE " is not a regular file", dir);
    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -fd, "%.120s/" KR_LOG_FILE, dir);
    kr_log_file_close();
    f.dir = steal_fd(&dirfd);
    f.fd = fd;
    f.owner = getpid();
    f.size = size;
    f.max = file_max;
    f.count = files < 2 ? 2 : files;
    f.not_before = 0;
    f.torn = false;
    return 0;
}

static bool is_ours(void)
{
    return f.fd >= 0 && f.owner == getpid();
}

int kr_log_file_reopen(void)
{
    uint64_t size = 0;
    int fd;

    if (!is_ours())
        return 0;
    fd = open_file(f.dir, &size);
    if (fd < 0)
        return fd;
    kr_fd_close(f.fd);
    f.fd = fd;
    f.size = size;
    f.torn = false;
    return 0;
}

static void log_file_name(unsigned n, char buf[32])
{
    snprintf(buf, 32, n == 0 ? KR_LOG_FILE : KR_LOG_FILE ".%u", n);
}

/* Is krait.log still what we write to? Another process, or logrotate, may have moved it. */
static bool still_there(void)
{
    struct stat ours, there;

    return fstat(f.fd, &ours) == 0 && fstatat(f.dir, KR_LOG_FILE, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

/* Every file moves up by one, the oldest is replaced, and a new one is begun. The oldest first, so that no file is ever
 * put on top of one that is to stay. */
static int rotate(void)
{
    char from[32], to[32];

    for (unsigned n = f.count - 1; n > 0 && still_there(); n--) {
        log_file_name(n - 1, from);
        log_file_name(n, to);
        if (renameat(f.dir, from, f.dir, to) < 0 && errno != ENOENT)
            return -errno;
    }
    return kr_log_file_reopen();
}

/* Makes room for len bytes; false if there is none now. */
static bool rotate_if_full(size_t len)
{
    uint64_t now;

    if (f.size == 0 || f.size + len <= f.max)
        return true;
    now = kr_clock_ns();
    if (now < f.not_before)
        return false;
    if (rotate() < 0 || (f.size > 0 && f.size + len > f.max)) {
        f.not_before = kr_clock_after_ms(RETRY_MS);
        return false;
    }
    return true;
}

bool kr_log_file_write(const char *line, size_t len)
{
    ssize_t n;

    if (!is_ours())
        return true;
    if (!rotate_if_full(len + 1))
        return false;
    if (f.torn) { /* a full disk cut the last one: this one is a line of its own all the same */
        do
            n = write(f.fd, "\n", 1);
        while (n < 0 && errno == EINTR);
        if (n != 1)
            return false;
        f.size++;
        f.torn = false;
    }
    do
        n = write(f.fd, line, len);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        f.size += (uint64_t)n;
    f.torn = n > 0 && (size_t)n < len;
    return n == (ssize_t)len;
}
