/* Opening and reading files of settings.
 *
 * Called by config_load.c and config_check.c. Invariant: what is judged and what is read is the same open file, so
 * no other file can take its name in between; and it is a plain file, so that opening and reading cannot hang. */
#include "config_rows.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* At most max bytes and one more, which tells that there are more. */
static int read_settings_file(int fd, size_t max, char **ret_text, size_t *ret_len)
{
    cleanup_free char *text = malloc(max + 2);
    size_t len = 0;

    if (!text)
        return -ENOMEM;
    while (len <= max) {
        ssize_t n = read(fd, text + len, max + 1 - len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        len += (size_t)n;
    }
    if (len > max)
        return -EFBIG;
    text[len] = '\0';
    *ret_text = steal_ptr(&text);
    *ret_len = len;
    return 0;
}

/* Why a file of the current folder does not count, or NULL. A user who can write it could make us listen to the world
 * or mount what they like; and a folder such as /tmp has files of any user. */
static const char *distrusted(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "it is not a plain file";
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others can write it (chmod go-w)";
    return NULL;
}

int kr_config_read_here(const char *name, size_t max, char **ret_text, size_t *ret_len, char *why, size_t why_size,
                        struct kr_err *err)
{
    /* O_NOFOLLOW: a link could lead to a file of root's that was never meant for us. O_NONBLOCK: nor wait for a
     * FIFO. */
    cleanup_fd int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    const char *reason = NULL;
    struct stat st;
    int r;

    why[0] = '\0';
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 && errno == ELOOP)
        reason = "it is a symbolic link";
    else if (fd < 0 && (errno == EACCES || errno == EPERM || errno == ENXIO))
        reason = "it cannot be opened";
    else if (fd < 0 || fstat(fd, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "%s", name);
    else
        reason = distrusted(&st);
    if (reason) {
        snprintf(why, why_size, "%s in the current folder does not count: %s; --%s names one that does", name, reason,
                 strcmp(name, ".env") == 0 ? "env-file" : "config");
        return 0;
    }
    r = read_settings_file(fd, max, ret_text, ret_len);
    return r < 0 ? kr_err_set(err, KR_ERR_INVALID, -r, "%s", name) : 1;
}

int kr_config_read_named(const char *path, size_t max, char **ret_text, size_t *ret_len, struct kr_err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return kr_err_set(err, KR_ERR_INVALID, errno, "%.150s", path);
    if (!S_ISREG(st.st_mode)) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%.150s is not a plain file", path);
        return -EINVAL;
    }
    if (st.st_mode & S_IWOTH) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%.150s can be written by every user (chmod o-w)", path);
        return -EINVAL;
    }
    r = read_settings_file(fd, max, ret_text, ret_len);
    return r < 0 ? kr_err_set(err, KR_ERR_INVALID, -r, "%.150s", path) : 0;
}
