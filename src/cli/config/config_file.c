/* Opening and reading files of settings.
 *
 * Called by config_load.c and config_check.c. Invariant: what is judged and what is read is the same open file, so
 * no other file can take its name in between; and it is a plain file, so that opening and reading cannot hang. */
#include "config_rows.h"
#include "config_tray.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
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

static int open_here(const char *name, size_t max, char **ret_text, size_t *ret_len, char *why, size_t why_size,
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

static int open_named(const char *path, size_t max, char **ret_text, size_t *ret_len, struct kr_err *err)
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

/* ---- with a tray ---- */

/* What a process with the right to open the file has kept of it. A file that it never came to is one of a name that
 * only we have been given, and counts as missing. */
static int answer_kept(const struct kr_config_tray *tray, const char *name, struct kr_config_kept *ret)
{
    const struct kr_config_kept *k = kr_config_find_kept(tray, name);

    *ret = (struct kr_config_kept){.result = -ENOENT};
    if (!k)
        return kr_err_set(&ret->err, KR_ERR_INVALID, ENOENT, "%.150s", name);
    *ret = *k;
    if (!k->text)
        return 0;
    ret->text = malloc(k->len + 1);
    if (!ret->text)
        return ret->result = kr_err_set(&ret->err, KR_ERR_SYSTEM, ENOMEM, "the configuration");
    memcpy(ret->text, k->text, k->len + 1);
    return 0;
}

/* Hands over what `k` has, and keeps a copy where there is a tray to fill. */
static int settle_read(struct kr_config_tray *tray, struct kr_config_kept *k, char **ret_text, size_t *ret_len,
                       struct kr_err *err)
{
    int r = kr_config_keep(tray, k);

    if (r < 0)
        k->result = kr_err_set(&k->err, KR_ERR_SYSTEM, -r, "the configuration");
    if (k->result < 0 || !k->text) {
        free(k->text);
        if (k->result < 0 && err)
            *err = k->err;
        return k->result;
    }
    *ret_text = k->text;
    *ret_len = k->len;
    return k->result;
}

int kr_config_read_here(struct kr_config_tray *tray, const char *name, size_t max, char **ret_text, size_t *ret_len,
                        char *why, size_t why_size, struct kr_err *err)
{
    struct kr_config_kept k = {.name = (char *)name};

    if (tray && tray->is_full)
        (void)answer_kept(tray, name, &k);
    else
        k.result = open_here(name, max, &k.text, &k.len, k.why, sizeof k.why, &k.err);
    snprintf(why, why_size, "%s", k.why);
    return settle_read(tray, &k, ret_text, ret_len, err);
}

int kr_config_read_named(struct kr_config_tray *tray, const char *path, size_t max, char **ret_text, size_t *ret_len,
                         struct kr_err *err)
{
    struct kr_config_kept k = {.name = (char *)path};

    if (tray && tray->is_full)
        (void)answer_kept(tray, path, &k);
    else
        k.result = open_named(path, max, &k.text, &k.len, &k.err);
    return settle_read(tray, &k, ret_text, ret_len, err);
}
