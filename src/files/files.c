/* Looking at, reading and writing single files of a workspace.
 *
 * Called by the API on the thread pool (and on the loop for small things, as nothing here waits for a peer). Invariant:
 * a file appears under its name whole or not at all, is on the disk when its commit has returned, and what is not a
 * regular file is never read or written. */
#include "clock.h"
#include "fd.h"
#include "files_internal.h"
#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#define RESERVE_MAX (UINT64_C(64) << 20)
#define TEMP_TRIES 16

struct kr_files_upload {
    int ws, fd;
    uint64_t size, max;
    bool failed;
    char temp[sizeof KR_FILES_TEMP + 16];
    char path[KR_FILES_PATH_MAX];
};

int kr_files_stat(int ws, const char *path, struct kr_file_info *ret, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    cleanup_fd int fd = -1;
    struct stat st;
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    fd = kr_files_at(ws, relative, O_PATH, 0);
    if (fd < 0 || fstat(fd, &st) < 0)
        return kr_files_fail(err, fd < 0 ? fd : errno, path);
    kr_files_info_of(&st, ret);
    return 0;
}

/* -errno without err: what fd is opened on is no regular file. */
static int must_be_regular(int fd, struct stat *ret_st)
{
    if (fstat(fd, ret_st) < 0)
        return -errno;
    if (S_ISREG(ret_st->st_mode))
        return 0;
    return S_ISDIR(ret_st->st_mode) ? -EISDIR : S_ISLNK(ret_st->st_mode) ? -ELOOP : -ENXIO;
}

/* Looks with O_PATH first, which has no effect on a device or FIFO, then opens for real and looks again. */
static int open_regular(int ws, const char *relative, int *ret_fd, struct stat *ret_st)
{
    cleanup_fd int look = kr_files_at(ws, relative, O_PATH, 0);
    cleanup_fd int fd = -1;
    int r;

    if (look < 0)
        return look;
    r = must_be_regular(look, ret_st);
    if (r < 0)
        return r;
    fd = kr_files_at(ws, relative, O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0)
        return fd;
    r = must_be_regular(fd, ret_st);
    if (r < 0)
        return r;
    *ret_fd = steal_fd(&fd);
    return 0;
}

int kr_files_open(int ws, const char *path, int *ret_fd, struct kr_file_info *ret_info, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    struct stat st;
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    r = open_regular(ws, relative, ret_fd, &st);
    if (r < 0)
        return kr_files_fail(err, r, path);
    if (ret_info)
        kr_files_info_of(&st, ret_info);
    return 0;
}

/* What fsync(2) of a file does for its name. ext4, XFS and btrfs keep the order of changes to names in their logs, so
 * the file's own sync writes a rename before it, and new folders above it, too. Elsewhere the folder must be asked, and
 * the bytes must be safe before the name is. */
static bool syncs_names(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 &&
           (fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC || fs.f_type == BTRFS_SUPER_MAGIC);
}

/* A folder that may not be read cannot be synced alone: then all of the filesystem, by what was put there. */
static int sync_folder(int dir, int entry)
{
    cleanup_fd int fd = kr_files_at(dir, "", O_RDONLY | O_DIRECTORY, 0);
    int r = fd == -EACCES ? syncfs(entry) : fd < 0 ? fd : fsync(fd);

    return r == -1 ? -errno : r;
}

int kr_files_mkdir(int ws, const char *path, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    const char *name;
    cleanup_fd int fd = -1;
    cleanup_fd int made = -1;
    int r = kr_files_new_path(path, relative, err);

    if (r < 0)
        return r;
    fd = kr_files_parent(ws, relative, true, &name);
    if (fd < 0)
        return kr_files_fail(err, fd, path);
    if (mkdirat(fd, name, 0755) == 0) {
        made = kr_files_at(fd, name, O_RDONLY | O_DIRECTORY, 0);
        r = made < 0 ? made : fsync(made) < 0 ? -errno : syncs_names(made) ? 0 : sync_folder(fd, made);
        return r < 0 ? kr_files_fail(err, r, path) : 0;
    }
    if (errno != EEXIST)
        return kr_files_fail(err, errno, path);
    made = kr_files_at(fd, name, O_PATH | O_DIRECTORY, 0);
    return made < 0 ? kr_files_fail(err, made, path) : 0;
}

/* ---- uploads ---- */

static int make_temp(struct kr_files_upload *u)
{
    uint64_t number;

    for (int i = 0; i < TEMP_TRIES; i++) {
        if (getrandom(&number, sizeof number, 0) != sizeof number)
            return -EIO;
        snprintf(u->temp, sizeof u->temp, KR_FILES_TEMP "%016llx", (unsigned long long)number);
        u->fd = kr_files_at(u->ws, u->temp, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (u->fd != -EEXIST)
            return u->fd < 0 ? u->fd : 0;
    }
    return -EEXIST;
}

static void free_upload(struct kr_files_upload *u)
{
    kr_fd_close(u->fd);
    kr_fd_close(u->ws);
    free(u);
}

int kr_files_upload_begin(int ws, const char *path, uint64_t max, struct kr_files_upload **ret_upload,
                          struct kr_err *err)
{
    struct kr_files_upload *u = calloc(1, sizeof *u);
    int r;

    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "upload");
    u->fd = -1;
    u->max = max;
    u->ws = kr_files_at(ws, "", O_PATH | O_DIRECTORY, 0);
    r = u->ws < 0 ? kr_files_fail(err, u->ws, path) : kr_files_new_path(path, u->path, err);
    if (r == 0) {
        r = make_temp(u);
        if (r < 0)
            kr_files_fail(err, r, path);
    }
    if (r < 0) {
        free_upload(u);
        return r;
    }
    *ret_upload = u;
    return 0;
}

uint64_t kr_files_reserve(uint64_t size)
{
    return size / 64 < RESERVE_MAX ? size / 64 : RESERVE_MAX;
}

/* 0 or -ENOSPC. A filesystem that does not say what is free is not refused. */
static int has_room(const struct kr_files_upload *u, size_t len)
{
    struct statvfs f;

    if (fstatvfs(u->fd, &f) < 0 || f.f_blocks == 0)
        return 0;
    return (uint64_t)f.f_bavail * f.f_frsize < kr_files_reserve((uint64_t)f.f_blocks * f.f_frsize) + len ? -ENOSPC : 0;
}

int kr_files_upload_write(struct kr_files_upload *u, const void *data, size_t len, struct kr_err *err)
{
    int r = u->failed ? -EPIPE : len > u->max - u->size ? -EFBIG : has_room(u, len);

    if (r == 0)
        r = kr_fd_write_all(u->fd, data, len);
    if (r < 0) {
        u->failed = true;
        return kr_files_fail(err, r, u->path);
    }
    u->size += len;
    return 0;
}

uint64_t kr_files_upload_size(const struct kr_files_upload *u)
{
    return u->size;
}

int kr_files_upload_fd(const struct kr_files_upload *u)
{
    return u->fd;
}

uint64_t kr_files_upload_room(const struct kr_files_upload *u)
{
    struct statvfs f;
    uint64_t free, reserve;

    if (fstatvfs(u->fd, &f) < 0 || f.f_blocks == 0)
        return u->max;
    free = (uint64_t)f.f_bavail * f.f_frsize;
    reserve = kr_files_reserve((uint64_t)f.f_blocks * f.f_frsize);
    free = free > reserve ? free - reserve : 0;
    return free < u->max ? free : u->max;
}

int kr_files_upload_settle(struct kr_files_upload *u, const char *path, struct kr_err *err)
{
    struct stat st;
    int r = kr_files_new_path(path, u->path, err);

    if (r < 0)
        return r;
    if (fstat(u->fd, &st) < 0)
        return kr_files_fail(err, -errno, path);
    u->size = (uint64_t)st.st_size;
    return u->size > u->max ? kr_files_fail(err, -EFBIG, path) : 0;
}

/* The mode of the regular file that is replaced, without set-id bits; 0644 for a new one. */
static unsigned mode_to_be(int dir, const char *name)
{
    struct stat st;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        return st.st_mode & 0777;
    return 0644;
}

/* Gives it its name, and returns when a power cut no longer takes it. What had the name before must not be replaced on
 * the disk by a file whose bytes are not there yet. flags: of renameat2(2). */
static int rename_durably(const struct kr_files_upload *u, int dir, const char *name, unsigned flags)
{
    bool once = syncs_names(u->fd), replaces = faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW | AT_EACCESS) == 0;

    if ((!once || replaces) && fsync(u->fd) < 0)
        return -errno;
    /* If the program in the workspace has put something else under the temporary name, it renames that: its own file
     * in its own folder, which it could have done without us. */
    if (renameat2(u->ws, u->temp, dir, name, flags) < 0)
        return -errno;
    if (once)
        return fsync(u->fd) < 0 ? -errno : 0;
    return sync_folder(dir, u->fd);
}

/* flags: of renameat2(2). */
static int rename_upload(struct kr_files_upload *u, unsigned flags, struct kr_err *err)
{
    cleanup_fd int dir = -1;
    const char *name;
    int r = u->failed ? -EPIPE : 0;

    if (r == 0) {
        dir = kr_files_parent(u->ws, u->path, true, &name);
        r = dir < 0 ? dir : 0;
    }
    if (r == 0 && fchmod(u->fd, mode_to_be(dir, name)) < 0)
        r = -errno;
    if (r == 0)
        r = rename_durably(u, dir, name, flags);
    if (r < 0) {
        kr_files_fail(err, r, u->path);
        kr_files_upload_abort(u);
        return r;
    }
    free_upload(u);
    return 0;
}

int kr_files_upload_commit(struct kr_files_upload *u, struct kr_err *err)
{
    return rename_upload(u, 0, err);
}

int kr_files_upload_create(struct kr_files_upload *u, struct kr_err *err)
{
    return rename_upload(u, RENAME_NOREPLACE, err);
}

void kr_files_upload_abort(struct kr_files_upload *u)
{
    if (!u)
        return;
    unlinkat(u->ws, u->temp, 0);
    free_upload(u);
}

static bool is_older(const struct stat *st, const struct timespec *t)
{
    return st->st_ctim.tv_sec < t->tv_sec || (st->st_ctim.tv_sec == t->tv_sec && st->st_ctim.tv_nsec < t->tv_nsec);
}

int kr_files_clean(int ws, const struct timespec *before, struct kr_err *err)
{
    int fd = kr_files_at(ws, "", O_RDONLY | O_DIRECTORY, 0), others = 0;
    const struct dirent *e;
    struct stat st;
    DIR *dir;

    if (fd < 0)
        return kr_files_fail(err, fd, "");
    dir = fdopendir(fd);
    if (!dir) {
        kr_fd_close(fd);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "workspace");
    }
    /* A folder of that name was made by a program in the workspace and stays. */
    while ((e = readdir(dir))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (strncmp(e->d_name, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) != 0 ||
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISDIR(st.st_mode) ||
            (before && !is_older(&st, before)) || unlinkat(fd, e->d_name, 0) < 0)
            others++;
    }
    closedir(dir);
    return others == 0;
}
