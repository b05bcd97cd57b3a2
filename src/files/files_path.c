/* Paths from outside, and how they are resolved.
 *
 * Called by all of files.h. Invariant: nothing but kr_files_at() opens a path of more than one part, and it does so
 * with openat2(2) beneath the workspace and through no symbolic link (Linux 5.6), so that a link swapped in between
 * two looks can only make a call fail. The text checks here are for clear errors; they are not the wall. */
#include "base64.h"
#include "fd.h"
#include "files_internal.h"
#include "json.h"
#include "log.h"
#include "utf8.h"
#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN 96u /* bytes of a path in an error */
#define NAME_LEN_MAX 255u
#define AGAIN_MAX 32
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452 /* Linux 6.6; the number is the same on every architecture */
#endif

const char *const kr_file_type_names[KR_FILE_TYPE_MAX_] = {
    [KR_FILE_REGULAR] = "file",
    [KR_FILE_FOLDER] = "folder",
    [KR_FILE_LINK] = "link",
    [KR_FILE_OTHER] = "other",
};

static int refuse_path(struct kr_err *err, enum kr_err_kind kind, int code, const char *path, const char *why)
{
    char shown[SHOWN * 4 + 3];

    kr_log_quote(shown, sizeof shown, path, SHOWN);
    shown[sizeof shown - 1] = '\0';
    kr_err_set(err, kind, 0, "path %.160s: %s", shown, why);
    if (err)
        err->code = code;
    return -code;
}

/* What a failed call means to the client that gave the path. */
static const struct reason {
    int code;
    enum kr_err_kind kind;
    const char *why;
} reasons[] = {
    {ENOENT, KR_ERR_NOT_FOUND, "there is no such file or folder"},
    {ELOOP, KR_ERR_DENIED, "a part of it is a symbolic link, and links are not followed"},
    {EXDEV, KR_ERR_DENIED, "it leaves the workspace"},
    {ENOTDIR, KR_ERR_INVALID, "a part of it is not a folder"},
    {EISDIR, KR_ERR_INVALID, "it is a folder"},
    {EEXIST, KR_ERR_INVALID, "something of that name is there already"},
    {ENOTEMPTY, KR_ERR_INVALID, "the folder is not empty"},
    {EACCES, KR_ERR_DENIED, "its permission bits, or those of a folder above it, do not allow that"},
    {EPERM, KR_ERR_DENIED, "the system does not allow that"},
    {EROFS, KR_ERR_DENIED, "the workspace is read-only"},
    {ENAMETOOLONG, KR_ERR_INVALID, "it is too long"},
    {ENXIO, KR_ERR_INVALID, "it is not a regular file"},
    {ENOSPC, KR_ERR_LIMIT, "no space is left on the server's disk"},
    {EDQUOT, KR_ERR_LIMIT, "the disk quota is used up"},
    {EFBIG, KR_ERR_LIMIT, "it would become too large"},
};

int kr_files_fail(struct kr_err *err, int code, const char *path)
{
    char shown[SHOWN * 4 + 3];

    if (code < 0)
        code = -code;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].code == code)
            return refuse_path(err, reasons[i].kind, code, path, reasons[i].why);
    kr_log_quote(shown, sizeof shown, path, SHOWN);
    return kr_err_set(err, KR_ERR_SYSTEM, code, "path %.160s", shown);
}

static int invalid(struct kr_err *err, const char *path, const char *why)
{
    return refuse_path(err, KR_ERR_INVALID, EINVAL, path, why);
}

/* Behind a name of the workspace (src/view/tree.c has them as links); NULL if it is another absolute path. */
static const char *inside(const char *path)
{
    static const char *const roots[] = {"/workspace", "/app/results", "/home/user", "/mnt/data"};

    if (*path != '/')
        return path;
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        size_t len = strlen(roots[i]);

        if (strncmp(path, roots[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
            return path + len;
    }
    return NULL;
}

int kr_files_path(const char *path, char out[static KR_FILES_PATH_MAX], struct kr_err *err)
{
    const char *at = inside(path);
    size_t len = 0;

    if (!at)
        return invalid(err, path, "absolute, but not beneath /workspace");
    while (*at) {
        size_t part = strcspn(at, "/");

        if (part == 2 && at[0] == '.' && at[1] == '.')
            return invalid(err, path, "it contains \"..\"");
        if (part > NAME_LEN_MAX)
            return invalid(err, path, "a part of it is longer than 255 bytes");
        if (part > 0 && !(part == 1 && at[0] == '.')) {
            if (len + part + 2 > KR_FILES_PATH_MAX)
                return invalid(err, path, "longer than 4095 bytes");
            if (len > 0)
                out[len++] = '/';
            memcpy(out + len, at, part);
            len += part;
        }
        at += part + (at[part] == '/');
    }
    out[len] = '\0';
    return 0;
}

int kr_files_new_path(const char *path, char out[static KR_FILES_PATH_MAX], struct kr_err *err)
{
    int r = kr_files_path(path, out, err), n;
    const unsigned char *at = (const unsigned char *)out;

    if (r < 0)
        return r;
    if (!*out)
        return invalid(err, path, "it is the workspace itself");
    if (strncmp(out, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) == 0)
        return invalid(err, path, "names that begin with " KR_FILES_TEMP " are the server's own");
    for (size_t left = strlen(out); left > 0; at += n, left -= (size_t)n) {
        n = kr_utf8_next(at, left, NULL);
        if (n <= 0)
            return invalid(err, path, "not valid UTF-8");
        if (*at < 0x20 || *at == 0x7f)
            return invalid(err, path, "it contains a control character");
    }
    return 0;
}

void kr_files_json_path(struct kr_json *j, const char *key, const char *path)
{
    const unsigned char *at = (const unsigned char *)path;
    char name[64], *text;
    size_t left = strlen(path), len = left;
    int n = 1;

    for (; left > 0 && (n = kr_utf8_next(at, left, NULL)) > 0; at += n, left -= (size_t)n)
        ;
    kr_json_key_str(j, key, path);
    if (left == 0)
        return;
    text = malloc(KR_BASE64_ROOM(len));
    snprintf(name, sizeof name, "%s_b64", key);
    kr_json_key(j, name);
    if (text)
        kr_json_str_n(j, text, kr_base64_encode(path, len, text));
    else
        kr_json_null(j);
    free(text);
}

int kr_files_at(int ws, const char *relative, int flags, unsigned mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY),
        .mode = flags & O_CREAT ? mode : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };
    long fd;

    if (flags & O_PATH)
        how.flags &= ~(uint64_t)O_NOCTTY; /* openat2(2) refuses what O_PATH ignores */
    /* EAGAIN: something was renamed or mounted meanwhile and the kernel could not be sure. */
    for (int i = 0; i < AGAIN_MAX; i++) {
        fd = syscall(SYS_openat2, ws, *relative ? relative : ".", &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if (errno != EAGAIN && errno != EINTR)
            break;
    }
    return -errno;
}

/* Opens the folder `name` (one part) in dirfd, making it if asked. A descriptor or -errno. */
static int step_into(int dirfd, const char *name, bool make)
{
    int fd = kr_files_at(dirfd, name, O_PATH | O_DIRECTORY, 0);

    if (fd != -ENOENT || !make)
        return fd;
    if (mkdirat(dirfd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    return kr_files_at(dirfd, name, O_PATH | O_DIRECTORY, 0);
}

int kr_files_parent(int ws, char *relative, bool make, const char **ret_name)
{
    cleanup_fd int fd = kr_files_at(ws, "", O_PATH | O_DIRECTORY, 0);
    char *at = relative, *slash;

    if (fd < 0)
        return fd;
    for (; (slash = strchr(at, '/')); at = slash + 1) {
        int next;

        *slash = '\0';
        next = step_into(fd, at, make);
        *slash = '/';
        if (next < 0)
            return next;
        close(fd);
        fd = next;
    }
    *ret_name = at;
    return steal_fd(&fd);
}

void kr_files_info_of(const struct stat *st, struct kr_file_info *ret)
{
    *ret = (struct kr_file_info){
        .type = S_ISREG(st->st_mode)   ? KR_FILE_REGULAR
                : S_ISDIR(st->st_mode) ? KR_FILE_FOLDER
                : S_ISLNK(st->st_mode) ? KR_FILE_LINK
                                       : KR_FILE_OTHER,
        .size = (uint64_t)st->st_size,
        .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec,
        .ino = st->st_ino,
        .mode = st->st_mode & 07777,
        .links = st->st_nlink,
    };
}

int kr_files_open_up(int fd)
{
    char self[32];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return -errno;
    if ((st.st_mode & 0700) == 0700)
        return 0;
    if (syscall(SYS_fchmodat2, fd, "", (st.st_mode & 07777) | 0700, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno != ENOSYS)
        return -errno;
    /* Before Linux 6.6 an O_PATH descriptor can be changed only by its name in /proc. */
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    return chmod(self, (st.st_mode & 07777) | 0700) < 0 ? -errno : 0;
}
