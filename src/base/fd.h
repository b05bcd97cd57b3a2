/* File descriptors: owned ones close themselves, whole reads and writes with deadlines. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

void kr_fd_cleanup_(int *fd);
void kr_free_cleanup_(void *pointer_to_pointer);
#define cleanup_fd __attribute__((cleanup(kr_fd_cleanup_)))
#define cleanup_free __attribute__((cleanup(kr_free_cleanup_)))

/* Hands over what a cleanup variable owns. */
static inline int steal_fd(int *fd)
{
    int r = *fd;
    *fd = -1;
    return r;
}
#define steal_ptr(p)                                                                                                   \
    ({                                                                                                                 \
        __typeof__(*(p)) *pp_ = (p);                                                                                   \
        __typeof__(*(p)) v_ = *pp_;                                                                                    \
        *pp_ = NULL;                                                                                                   \
        v_;                                                                                                            \
    })

/* Closes if >= 0 and leaves errno alone; returns -1 so that `fd = kr_fd_close(fd)` forgets it. */
int kr_fd_close(int fd);
/* Writes all of it, restarting on EINTR. 0 or -errno. Blocks. */
int kr_fd_write_all(int fd, const void *data, size_t len);
/* Reads exactly len bytes. 0, -ENODATA at end of file before the first byte, -EPIPE at one after it, or -errno.
 * Blocks. */
int kr_fd_read_all(int fd, void *data, size_t len);
/* Reads up to len bytes at pos, fewer only at the end of the file. How many, or -errno. */
ssize_t kr_fd_read_at(int fd, void *data, size_t len, uint64_t pos);
/* Reads a whole small file into buf (always NUL terminated, at most size - 1 bytes, more is -E2BIG). Length or
 * -errno. */
ssize_t kr_fd_read_file_at(int dirfd, const char *path, char *buf, size_t size);
/* Opens, writes the text in one write, closes. 0 or -errno. Never creates. */
int kr_fd_write_file_at(int dirfd, const char *path, const char *text);
/* Waits for events (poll(2) bits) until the deadline (kr_clock_ns() scale). 1 ready, 0 deadline passed, -errno. */
int kr_fd_wait(int fd, short events, uint64_t deadline_ns);
