/* File descriptors: closing without losing errno, whole reads and writes, small files, waits with a deadline.
 *
 * Called from every folder, the privileged one included. Invariant: nothing here keeps a descriptor open past its
 * return, and nothing here opens one without O_CLOEXEC. */
#define _GNU_SOURCE 1
#include "fd.h"
#include "clock.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void kr_fd_cleanup_(int *fd)
{
    kr_fd_close(*fd);
}

void kr_free_cleanup_(void *pointer_to_pointer)
{
    void *p;

    memcpy(&p, pointer_to_pointer, sizeof p);
    free(p);
}

int kr_fd_close(int fd)
{
    int saved = errno;

    /* Never restarted on EINTR: Linux has released the descriptor by then (close(2)), and another thread may own it. */
    if (fd >= 0)
        close(fd);
    errno = saved;
    return -1;
}

int kr_fd_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = write(fd, p, len);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int kr_fd_read_all(int fd, void *data, size_t len)
{
    char *p = data;
    size_t got = 0;

    while (got < len) {
        ssize_t n = read(fd, p + got, len - got);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (n == 0)
            return got ? -EPIPE : -ENODATA;
        got += (size_t)n;
    }
    return 0;
}

ssize_t kr_fd_read_at(int fd, void *data, size_t len, uint64_t pos)
{
    size_t got = 0;

    while (got < len) {
        ssize_t n = pread(fd, (char *)data + got, len - got, (off_t)(pos + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

ssize_t kr_fd_read_file_at(int dirfd, const char *path, char *buf, size_t size)
{
    cleanup_fd int fd = -1;
    size_t len = 0;

    if (size == 0)
        return -EINVAL;
    buf[0] = '\0';
    fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        char extra;
        int full = len == size - 1;
        ssize_t n = full ? read(fd, &extra, 1) : read(fd, buf + len, size - 1 - len);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            buf[0] = '\0';
            return -errno;
        }
        if (n == 0)
            break;
        if (full) {
            buf[len] = '\0';
            return -E2BIG;
        }
        len += (size_t)n;
    }
    buf[len] = '\0';
    return (ssize_t)len;
}

int kr_fd_write_file_at(int dirfd, const char *path, const char *text)
{
    cleanup_fd int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    ssize_t n;

    if (fd < 0)
        return -errno;
    /* cgroup files, id maps and the like take their whole value in one write or not at all. */
    do
        n = write(fd, text, len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    return (size_t)n == len ? 0 : -EIO;
}

int kr_fd_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = events};

    if (fd < 0)
        return -EBADF; /* poll(2) ignores negative ones and would sleep until the deadline */
    for (;;) {
        uint64_t now = kr_clock_ns();
        uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
        struct timespec ts = {.tv_sec = (time_t)(left / 1000000000u), .tv_nsec = (long)(left % 1000000000u)};
        int n = ppoll(&p, 1, &ts, NULL);

        if (n > 0)
            return p.revents & POLLNVAL ? -EBADF : 1;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (left == 0)
            return 0;
    }
}
