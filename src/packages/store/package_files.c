/* Work on folders that only the server writes: made, locked, removed. See package_store_internal.h. */
#include "clock.h"
#include "err.h"
#include "fd.h"
#include "package_store_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_STEP_NS 2000000
#define DEPTH_MAX 80u /* of a tree that is removed: more than a wheel may have */

int kr_package_open_folder(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int kr_package_make_folder(int dir, const char *name, unsigned mode)
{
    cleanup_fd int fd = -1;

    if (mkdirat(dir, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = kr_package_open_folder(dir, name);
    if (fd < 0)
        return fd;
    if (fchmod(fd, mode) < 0)
        return -errno;
    return steal_fd(&fd);
}

static int remove_in(int dir, const char *name, unsigned depth);

/* All that is in it. */
static int empty(int fd, unsigned depth)
{
    DIR *d = fdopendir(fd);
    struct dirent *e;
    int r = 0;

    if (!d) {
        r = -errno;
        close(fd);
        return r;
    }
    while (r == 0 && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = remove_in(dirfd(d), e->d_name, depth + 1);
    if (r == 0 && errno != 0)
        r = -errno;
    closedir(d);
    return r;
}

static int remove_in(int dir, const char *name, unsigned depth)
{
    int fd, r;

    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    if (depth > DEPTH_MAX)
        return -ELOOP;
    fd = kr_package_open_folder(dir, name);
    r = fd < 0 ? fd : empty(fd, depth);
    if (r == 0 && unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        r = -errno;
    return r;
}

int kr_package_remove(int dir, const char *name)
{
    return remove_in(dir, name, 0);
}

int kr_package_write_file(int dir, const char *name, const char *text, size_t len, bool syncs)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : kr_fd_write_all(fd, text, len);

    if (r == 0 && (fchmod(fd, 0644) < 0 || (syncs && fsync(fd) < 0)))
        r = -errno;
    return r;
}

int kr_package_each_name(int dir, kr_package_name_fn *fn, void *data)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    if (!d) {
        r = -errno;
        kr_fd_close(fd);
        return r;
    }
    while (r == 0 && (errno = 0, e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = fn(dir, e->d_name, data);
    if (r == 0 && errno != 0)
        r = -errno;
    closedir(d);
    return r;
}

json_t *kr_package_read_json(int dir, const char *name, int *ret_error)
{
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_free char *text = NULL;
    struct stat st;
    ssize_t n;
    json_t *value;

    *ret_error = -EIO;
    if (fd < 0 || fstat(fd, &st) < 0) {
        *ret_error = -errno;
        return NULL;
    }
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)KR_PACKAGE_JSON_MAX)
        return NULL;
    text = malloc((size_t)st.st_size + 1);
    n = text ? kr_fd_read_at(fd, text, (size_t)st.st_size, 0) : -ENOMEM;
    if (n < 0) {
        *ret_error = (int)n;
        return NULL;
    }
    value = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

int kr_package_flock(int fd, int kind, unsigned ms)
{
    const struct timespec step = {.tv_nsec = LOCK_STEP_NS};

    for (uint64_t deadline = kr_clock_after_ms(ms);;) {
        if (flock(fd, kind | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return -errno;
        if (kr_clock_ns() >= deadline)
            return -ETIMEDOUT;
        nanosleep(&step, NULL);
    }
}
