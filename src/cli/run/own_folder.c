/* Folders of the engine's own: the data of a server, the cache of `krait run`.
 *
 * Called before anything is forked, with whatever privilege krait was started with: by serve_start.c and run_cache.c.
 * Invariant: as root, a folder is handed to the engine's user by descriptor, and only if it was made here or is an
 * empty one of root's. Each failure is one line that says what, why and which option changes it. */
#include "own_folder.h"
#include "fd.h"
#include "instance.h"
#include "level.h"
#include "launch.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int kr_own_find_user(const char *name, struct kr_owner *ret, struct kr_err *err)
{
    const struct passwd *pw = NULL;
    struct kr_id_space cells;
    uint64_t uid, gid;

    *ret = (struct kr_owner){0};
    if (geteuid() != 0)
        return 0;
    kr_ids_find(KR_LEVEL_ROOT, &cells);
    if (name && strspn(name, "0123456789") == strlen(name)) {
        uid = gid = strtoull(name, NULL, 10);
    } else {
        pw = getpwnam(name ? name : "krait");
        if (!pw && name)
            return kr_err_set(err, KR_ERR_INVALID, 0, "unknown user %s (--user)", name);
        uid = pw ? pw->pw_uid : cells.first - 1; /* unused, just below the cells' own */
        gid = pw ? pw->pw_gid : uid;
    }
    if (cells.per_slot == 1 && !name && !pw && kr_host_uid() != 0)
        return 0; /* root of a namespace with no other ids, and an ordinary user outside: as ourselves */
    if (uid == 0 || gid == 0)
        return kr_err_set(err, KR_ERR_DENIED, 0, "the server never runs as root (--user)");
    if (uid >= UINT32_MAX || (uid >= cells.first && uid - cells.first < (uint64_t)cells.per_slot * cells.slots))
        return kr_err_set(err, KR_ERR_INVALID, 0, "uid %s is not the server's to have (--user)",
                          name ? name : "of krait");
    *ret = (struct kr_owner){.uid = (uint32_t)uid, .gid = (uint32_t)gid};
    return 0;
}

static int make_parents(const char *path)
{
    char part[4096];

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

/* As root we reach what the engine's user may not: a folder above that is closed to it is named now. */
static int check_way(const struct kr_owner *owner, const char *path, const struct kr_own_folder *f, struct kr_err *err)
{
    char part[4096];
    struct stat st;

    snprintf(part, sizeof part, "%s", path);
    for (char *at = part + 1; owner->uid && (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        if (stat(part, &st) == 0 && !(st.st_mode & S_IXOTH) && !(st.st_gid == owner->gid && (st.st_mode & S_IXGRP)) &&
            !(st.st_uid == owner->uid && (st.st_mode & S_IXUSR)))
            return kr_err_set(err, KR_ERR_DENIED, 0,
                              "%s directory %s: the server's user (uid %u) cannot pass %s; chmod o+x it, or choose %s",
                              f->what, path, owner->uid, part, f->choice);
    }
    return 0;
}

int kr_own_way(const struct kr_owner *owner, const char *path, const struct kr_own_folder *f, struct kr_err *err)
{
    int r = make_parents(path);

    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "make the folders above %s (%s)", path, f->flag)
                 : check_way(owner, path, f, err);
}

/* Whether a folder that was there before may be handed to the server's user: it is ours, holds nothing, and no other
 * user can put something into it. Another krait that starts at the same time may have made it a moment ago; both then
 * hand it over. */
static bool may_take_over(int fd, const struct stat *st)
{
    cleanup_fd int list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct dirent *e = NULL;
    unsigned names = 0;
    DIR *dir;

    if (geteuid() != 0 || st->st_uid != 0 || (st->st_mode & (S_IWGRP | S_IWOTH)) || list < 0)
        return false;
    dir = fdopendir(list);
    if (!dir)
        return false;
    (void)steal_fd(&list); /* the stream's */
    errno = 0;
    while (names < 3 && (e = readdir(dir)))
        names++;
    if (!e && errno != 0)
        names = 3; /* what cannot be read is not known to be empty */
    closedir(dir);
    return names == 2;
}

int kr_own_folder(const struct kr_owner *owner, int at, const char *path, const struct kr_own_folder *f,
                  struct kr_err *err)
{
    uint32_t uid = owner->uid ? owner->uid : geteuid();
    uint32_t gid = owner->uid ? owner->gid : getegid();
    bool made = mkdirat(at, path, 0700) == 0;
    struct stat st;
    cleanup_fd int fd = -1;

    if (!made && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "%s directory %s (%s)", f->what, path, f->flag);
    fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "%s directory %s (%s)", f->what, path, f->flag);
    /* One that is not empty may have been handed over, and used, since we looked: its owner is looked at again. */
    if (st.st_uid == geteuid() && st.st_uid != uid &&
        (((made || may_take_over(fd, &st)) && fchown(fd, uid, gid) < 0) || fstat(fd, &st) < 0))
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "give the %s directory %s to uid %u", f->what, path, uid);
    if (st.st_uid != uid) {
        kr_err_set(err, KR_ERR_DENIED, 0,
                   "%s directory %s belongs to uid %u and the server is uid %u: chown it, or choose %s%s", f->what,
                   path, st.st_uid, uid, f->choice,
                   st.st_uid == 0
                       ? "; of root's folders the server takes over only an empty one that no other user can write"
                       : "");
        return -EPERM;
    }
    if (geteuid() == uid && faccessat(at, path, R_OK | W_OK | X_OK, AT_EACCESS) < 0)
        return kr_err_set(err, KR_ERR_DENIED, errno, "%s directory %s cannot be written (%s)", f->what, path, f->flag);
    return steal_fd(&fd);
}
