/* Copies for the root tree, made by the builder as root of the family's user namespace, which can read of the host what
 * every user can. */
#include "copy.h"
#include "fd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 4096
#define DEPTH_MAX 8
#define BYTES_MAX (16u << 20)

struct copying {
    unsigned entries;
    off_t bytes;
};

static int pour(int in, int out)
{
    char buf[65536];
    for (ssize_t n; (n = read(in, buf, sizeof buf)) != 0;) {
        int r;
        if (n < 0)
            return -errno;
        r = kr_fd_write_all(out, buf, (size_t)n);
        if (r < 0)
            return r;
    }
    return 0;
}

int kr_copy_file(int from_dir, const char *from, int to_dir, const char *to)
{
    cleanup_fd int in = openat(from_dir, from, O_RDONLY | O_CLOEXEC);
    cleanup_fd int out = -1;
    if (in < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return out < 0 ? -errno : pour(in, out);
}

static int copy_link(int from_dir, const char *name, int to_dir)
{
    char target[512];
    ssize_t n = readlinkat(from_dir, name, target, sizeof target);
    if (n < 0 || n == sizeof target)
        return 0;
    target[n] = '\0';
    return symlinkat(target, to_dir, name) < 0 ? -errno : 0;
}

static int copy_folder(struct copying *c, int depth, int from_dir, const char *from, int to_dir, const char *to);

static int copy_entry(struct copying *c, int depth, int from_dir, const struct dirent *e, int to_dir)
{
    const char *name = e->d_name;
    struct stat st;
    if (c->entries++ >= ENTRIES_MAX)
        return 0;
    if (e->d_type == DT_LNK) /* most are: no need to look at them twice */
        return copy_link(from_dir, name, to_dir);
    if (fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return copy_link(from_dir, name, to_dir);
    if (S_ISDIR(st.st_mode))
        return depth < DEPTH_MAX ? copy_folder(c, depth + 1, from_dir, name, to_dir, name) : 0;
    if (!S_ISREG(st.st_mode) || st.st_size > BYTES_MAX - c->bytes)
        return 0;
    c->bytes += st.st_size;
    return kr_copy_file(from_dir, name, to_dir, name);
}

static int copy_folder(struct copying *c, int depth, int from_dir, const char *from, int to_dir, const char *to)
{
    cleanup_fd int in = openat(from_dir, from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int out = -1;
    DIR *dir;
    int r = 0;
    if (in < 0)
        return errno == ENOENT || errno == EACCES || errno == ENOTDIR ? 0 : -errno;
    if (mkdirat(to_dir, to, 0755) < 0 || (out = openat(to_dir, to, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return -errno;
    dir = fdopendir(in);
    if (!dir)
        return -errno;
    (void)steal_fd(&in); /* the stream's */
    for (struct dirent *e; r >= 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = copy_entry(c, depth, dirfd(dir), e, out);
    closedir(dir);
    return r;
}

int kr_copy_tree(const char *from, const char *to)
{
    struct copying c = {0};
    return copy_folder(&c, 0, AT_FDCWD, from, AT_FDCWD, to);
}
