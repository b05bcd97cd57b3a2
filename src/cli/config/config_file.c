/* Opening and reading files of settings.
 *
 * Called by config_load.c and config_check.c. Invariants: what is judged and what is read is the same open file, so
 * no other file can take its name in between; it is a plain file, so that opening and reading cannot hang; and what is
 * read for a process of another user was not chosen by that user. */
#include "config_rows.h"
#include "config_tray.h"
#include "fd.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) /* O_NONBLOCK: a FIFO is not waited for */
#define LINKS_MAX 40u                                             /* as in the kernel's own walk (path_resolution(7)) */

/* ---- a way that is not the reader's ---- */

/* What is left of a path, and the folder it starts from. */
struct way {
    int dir;
    unsigned links;
    char rest[PATH_MAX];
};

static bool for_other(const struct kr_config_tray *tray)
{
    return tray && tray->reader_uid != 0;
}

/* Whether the user that a tray is filled for can change this, or put something else in its place. In a sticky folder
 * that is only what is its own, which is judged by itself. */
static bool is_of_reader(const struct kr_config_tray *tray, int fd)
{
    struct stat st;

    if (fstat(fd, &st) < 0 || st.st_uid == tray->reader_uid)
        return true;
    if (S_ISLNK(st.st_mode) || (S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX)))
        return false;
    return st.st_mode & S_IWOTH || (st.st_gid == tray->reader_gid && (st.st_mode & S_IWGRP));
}

/* Takes the first name off the rest of a way. False if there is none. */
static bool take_name(struct way *w, char name[NAME_MAX + 1])
{
    const char *at = w->rest + strspn(w->rest, "/");
    size_t len = strcspn(at, "/");

    if (len == 0 || len > NAME_MAX)
        return false;
    memcpy(name, at, len);
    name[len] = '\0';
    at += len + strspn(at + len, "/");
    memmove(w->rest, at, strlen(at) + 1);
    return true;
}

static int start_way(struct way *w, const char *path)
{
    kr_fd_close(w->dir);
    w->dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return w->dir < 0 ? -errno : 0;
}

static int follow_link(struct way *w, int link)
{
    char target[2 * PATH_MAX];
    ssize_t n = readlinkat(link, "", target, PATH_MAX);

    if (n <= 0 || n == PATH_MAX || w->links++ == LINKS_MAX)
        return n < 0 ? -errno : -ELOOP;
    if ((size_t)snprintf(target + n, sizeof target - (size_t)n, "/%s", w->rest) + (size_t)n >= sizeof w->rest)
        return -ENAMETOOLONG;
    memcpy(w->rest, target, strlen(target) + 1);
    return target[0] == '/' ? start_way(w, target) : 0;
}

/* One name further: 0, or the descriptor if the name was the last. -EPERM: it is the reader's to choose. */
static int step_on(const struct kr_config_tray *tray, struct way *w)
{
    char name[NAME_MAX + 1];
    struct stat st;
    cleanup_fd int fd = -1;

    if (!take_name(w, name))
        return -ENOENT;
    fd = openat(w->dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (is_of_reader(tray, w->dir) || is_of_reader(tray, fd))
        return -EPERM;
    if (S_ISLNK(st.st_mode))
        return follow_link(w, fd);
    if (w->rest[0] == '\0') {
        int file = openat(w->dir, name, OPEN_FLAGS | O_NOFOLLOW);

        return file < 0 ? -errno : file;
    }
    kr_fd_close(w->dir);
    w->dir = steal_fd(&fd);
    return 0;
}

/* Opens as open(2) does, links included, unless a folder, a link or the file itself is the reader's to change: a server
 * that was taken over must not have root read a file for it, neither by a link in a folder of its own nor by a path in
 * a file of settings that it can write. Links as such are not refused, since secrets of container engines come as
 * links. By descriptors, so that what is judged is what is used. The descriptor or -errno. */
static int open_for_reader(const struct kr_config_tray *tray, const char *path)
{
    struct way w = {.dir = -1};
    int r;

    if ((size_t)snprintf(w.rest, sizeof w.rest, "%s", path) >= sizeof w.rest)
        return -ENAMETOOLONG;
    for (r = start_way(&w, path); r == 0;)
        r = step_on(tray, &w);
    kr_fd_close(w.dir);
    return r;
}

/* ---- reading ---- */

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

static int refuse_reader(const struct kr_config_tray *tray, const char *path, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_DENIED, 0,
               "%.150s is not read again: the server's user (uid %u) can write it, or a folder or link on its way",
               path, tray->reader_uid);
    return -EPERM;
}

static int open_here(const struct kr_config_tray *tray, const char *name, size_t max, char **ret_text, size_t *ret_len,
                     char *why, size_t why_size, struct kr_err *err)
{
    /* O_NOFOLLOW: a link could lead to a file of root's that was never meant for us. */
    cleanup_fd int fd = open(name, OPEN_FLAGS | O_NOFOLLOW);
    cleanup_fd int here = for_other(tray) ? open(".", O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
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
    if (for_other(tray) && (is_of_reader(tray, here) || is_of_reader(tray, fd)))
        return refuse_reader(tray, name, err);
    r = read_settings_file(fd, max, ret_text, ret_len);
    return r < 0 ? kr_err_set(err, KR_ERR_INVALID, -r, "%s", name) : 1;
}

static int open_named(const struct kr_config_tray *tray, const char *path, size_t max, char **ret_text, size_t *ret_len,
                      struct kr_err *err)
{
    cleanup_fd int fd = for_other(tray) ? open_for_reader(tray, path) : open(path, OPEN_FLAGS);
    struct stat st;
    int r;

    if (for_other(tray) && fd == -EPERM)
        return refuse_reader(tray, path, err);
    if (for_other(tray) && fd < 0)
        errno = -fd;
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
        k.result = open_here(tray, name, max, &k.text, &k.len, k.why, sizeof k.why, &k.err);
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
        k.result = open_named(tray, path, max, &k.text, &k.len, &k.err);
    return settle_read(tray, &k, ret_text, ret_len, err);
}
