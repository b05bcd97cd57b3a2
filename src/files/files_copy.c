/* A copy of a whole folder, for templates where no filesystem takes snapshots. Called by the box on the thread pool.
 *
 * Invariants: nothing outside the two folders is opened, since every name is one part and opened beneath its folder
 * through no link; a file's blocks are shared with its copy where the filesystem can (FICLONE), and copied by the
 * kernel otherwise. */
#include "clock.h"
#include "fd.h"
#include "files_internal.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define COPY_DEPTH_MAX 256u /* folders within each other: two descriptors each */
#define COPY_AT_ONCE (64u << 20)

struct copy {
    const struct kr_files_copy_max *max;
    uint64_t entries;
    struct kr_err *err;
};

static int copy_fails(struct copy *c, int code, const char *name)
{
    return kr_files_fail(c->err, code, name);
}

static int is_over(struct copy *c)
{
    c->entries++;
    if (c->max->entries && c->entries > c->max->entries)
        return kr_err_set(c->err, KR_ERR_LIMIT, 0, "more than %llu files and folders",
                          (unsigned long long)c->max->entries);
    if (c->max->deadline_ns && kr_clock_ns() > c->max->deadline_ns)
        return kr_err_set(c->err, KR_ERR_LIMIT, 0, "copying the files took too long");
    return 0;
}

static int keep_times(int fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};

    return futimens(fd, times) < 0 ? -errno : 0;
}

static int copy_bytes(struct copy *c, int from, int to)
{
    ssize_t n;

    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    while ((n = copy_file_range(from, NULL, to, NULL, COPY_AT_ONCE, 0)) > 0)
        if (c->max->deadline_ns && kr_clock_ns() > c->max->deadline_ns)
            return -ETIME;
    return n < 0 ? -errno : 0;
}

static int copy_file(struct copy *c, int from, int to, const char *name)
{
    /* Not blocking: a FIFO may have taken the place of the file. */
    cleanup_fd int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), out = -1;
    struct stat st;
    int r;

    if (in < 0)
        return errno == ENOENT ? 0 : copy_fails(c, errno, name);
    if (fstat(in, &st) < 0)
        return copy_fails(c, errno, name);
    if (!S_ISREG(st.st_mode))
        return 0;
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (out < 0)
        return copy_fails(c, errno, name);
    r = copy_bytes(c, in, out);
    if (r >= 0 && fchmod(out, st.st_mode & 0777) < 0)
        r = -errno;
    if (r >= 0)
        r = keep_times(out, &st);
    return r < 0 ? copy_fails(c, -r, name) : 0;
}

static int copy_link(struct copy *c, int from, int to, const char *name)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(from, name, target, sizeof target - 1);

    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : copy_fails(c, errno, name);
    target[n] = '\0';
    return symlinkat(target, to, name) < 0 ? copy_fails(c, errno, name) : 0;
}

static int copy_entries(struct copy *c, int from, int to, unsigned depth);

static int copy_folder(struct copy *c, int from, int to, const char *name, unsigned depth)
{
    cleanup_fd int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), out = -1;
    struct stat st;
    int r;

    if (in < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : copy_fails(c, errno, name);
    if (depth >= COPY_DEPTH_MAX)
        return kr_err_set(c->err, KR_ERR_LIMIT, 0, "folders are more than %u deep", COPY_DEPTH_MAX);
    if (fstat(in, &st) < 0 || mkdirat(to, name, 0700) < 0)
        return copy_fails(c, errno, name);
    out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out < 0)
        return copy_fails(c, errno, name);
    r = copy_entries(c, in, out, depth + 1);
    if (r >= 0 && (fchmod(out, st.st_mode & 01777) < 0 || keep_times(out, &st) < 0))
        r = copy_fails(c, errno, name);
    return r;
}

static int copy_entry(struct copy *c, int from, int to, const struct dirent *e, unsigned depth)
{
    struct stat st = {0};
    unsigned char type = e->d_type;
    int r = is_over(c);

    if (r < 0)
        return r;
    if (type == DT_UNKNOWN) {
        if (fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return errno == ENOENT ? 0 : copy_fails(c, errno, e->d_name);
        type = (unsigned char)IFTODT(st.st_mode);
    }
    return type == DT_REG   ? copy_file(c, from, to, e->d_name)
           : type == DT_DIR ? copy_folder(c, from, to, e->d_name, depth)
           : type == DT_LNK ? copy_link(c, from, to, e->d_name)
                            : 0;
}

static int copy_entries(struct copy *c, int from, int to, unsigned depth)
{
    int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        r = copy_fails(c, errno, "");
        kr_fd_close(fd);
        return r;
    }
    while (r >= 0 && (errno = 0, e = readdir(dir)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strncmp(e->d_name, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) != 0)
            r = copy_entry(c, from, to, e, depth);
    if (r >= 0 && errno)
        r = copy_fails(c, errno, "");
    closedir(dir);
    return r;
}

int kr_files_copy(int from, int to, const struct kr_files_copy_max *max, struct kr_err *err)
{
    struct copy c = {.max = max, .err = err};

    return copy_entries(&c, from, to, 0);
}
