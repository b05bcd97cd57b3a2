/* The files of a data directory that belong to the store: the directory itself, the database's birth, the lock file
 * and the pepper.
 *
 * Called by store.c at open. Invariants: every file is 0600 and belongs to the owner of the directory, also
 * when root made it; the pepper is there whole or not at all; a lock dies with its process, because it hangs on the
 * open file (OFD), not on a pid or a file's content. */
#include "store_internal.h"
#include "fd.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that root makes in a directory of the server's user must stay usable by the server. The server itself may be
 * root of a user namespace: its files have the right owner, and its filter refuses the call. */
static int own_as_directory(const struct kr_store *s, int fd)
{
    struct stat dir, file;

    if (geteuid() != 0)
        return 0;
    if (fstat(s->dir_fd, &dir) < 0 || fstat(fd, &file) < 0)
        return -errno;
    if (dir.st_uid == file.st_uid && dir.st_gid == file.st_gid)
        return 0;
    return fchown(fd, dir.st_uid, dir.st_gid) < 0 ? -errno : 0;
}

int kr_store_file_open(const struct kr_store *s, const char *name, int flags)
{
    int fd = openat(s->dir_fd, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), r;
    struct stat st;

    if (fd >= 0) {
        r = own_as_directory(s, fd);
    } else if (errno == EEXIST) {
        fd = openat(s->dir_fd, name, flags | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            r = -errno;
        else if (!S_ISREG(st.st_mode))
            r = -EUCLEAN;
        else
            r = (st.st_mode & 077) && fchmod(fd, 0600) < 0 ? -errno : 0;
    } else {
        return -errno;
    }
    if (r < 0) {
        kr_fd_close(fd);
        return r;
    }
    return fd;
}

int kr_store_dir_open(struct kr_store *s, const char *dir, unsigned flags, struct kr_err *err)
{
    struct stat st;

    if ((flags & KR_STORE_CREATE) && mkdir(dir, 0700) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "cannot make the data directory %.150s", dir);
    s->dir = realpath(dir, NULL);
    if (!s->dir)
        return kr_err_set(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno, "the data directory %.150s",
                          dir);
    s->dir_fd = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the data directory %.150s", s->dir);
    if (asprintf(&s->path, "%s/" KR_STORE_DB, s->dir) < 0) {
        s->path = NULL;
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the data directory %.150s", s->dir);
    }
    if (!(flags & KR_STORE_CREATE) && fstatat(s->dir_fd, KR_STORE_DB, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return kr_store_err(err, errno == ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, errno,
                            "%.150s has no store of krait: %s", s->dir, strerrordesc_np(errno));
    s->lock_fd = kr_store_file_open(s, KR_STORE_LOCK, O_RDWR);
    if (s->lock_fd == -EUCLEAN)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN, "%.150s/" KR_STORE_LOCK " is not a plain file: remove it",
                            s->dir);
    if (s->lock_fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, s->lock_fd, "cannot write to the data directory %.150s", s->dir);
    return 0;
}

/* A file that is there is not opened: POSIX locks go with any descriptor of the file that a process closes, and
 * SQLite's are such. Another store of the same process would be without, and the file in danger. */
int kr_store_db_make(struct kr_store *s, struct kr_err *err)
{
    struct stat st;
    int fd = -1, r = 0;

    if (fstatat(s->dir_fd, KR_STORE_DB, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        fd = errno == ENOENT ? kr_store_file_open(s, KR_STORE_DB, O_RDWR) : -errno;
        r = fd < 0 ? fd : 0;
        kr_fd_close(fd);
    } else if (!S_ISREG(st.st_mode)) {
        r = -ELOOP;
        if (!S_ISLNK(st.st_mode))
            return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                                "%.150s is not a plain file: move it away, or give another --data", s->path);
    } else if ((st.st_mode & 077) && fchmodat(s->dir_fd, KR_STORE_DB, 0600, 0) < 0) {
        r = -errno;
    }
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, r, "cannot use %.180s", s->path) : 0;
}

/* ---- locks: byte 0 is shared by those who have the store open, any other byte is one process ---- */

static int set_lock(const struct kr_store *s, short type, int64_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

    return fcntl(s->lock_fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

int kr_store_lock(struct kr_store *s, bool exclusive, struct kr_err *err)
{
    int r = set_lock(s, exclusive ? F_WRLCK : F_RDLCK, 0);

    if (r == 0 || r == -EAGAIN || r == -EACCES) /* POSIX allows either for a lock that is taken */
        return r ? -EAGAIN : 0;
    return kr_err_set(err, KR_ERR_SYSTEM, r, "cannot lock %.150s/" KR_STORE_LOCK, s->dir);
}

void kr_store_unlock(struct kr_store *s)
{
    set_lock(s, F_UNLCK, 0);
}

int kr_store_hold(struct kr_store *s, struct kr_err *err)
{
    int r;

    do { /* a number that is taken already is next to impossible, and harmless */
        randombytes_buf(&s->holder, sizeof s->holder);
        s->holder = (s->holder & (INT64_MAX >> 1)) | 1;
        r = set_lock(s, F_WRLCK, s->holder);
    } while (r == -EAGAIN || r == -EACCES);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, r, "cannot lock %.150s/" KR_STORE_LOCK, s->dir) : 0;
}

bool kr_store_holder_lives(const struct kr_store *s, int64_t holder)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = holder, .l_len = 1};

    if (holder == s->holder)
        return true;
    /* What cannot be told counts as alive: a run is not called lost on a guess. */
    return fcntl(s->lock_fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* ---- files of 32 random bytes: the pepper, the key of secrets ---- */

bool kr_store_pepper_exists(const struct kr_store *s)
{
    struct stat st;

    return fstatat(s->dir_fd, KR_STORE_PEPPER, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Under a name of its own, synced, then linked to its place: whole or not there, and the first of two makers wins. */
int kr_store_file_make(const struct kr_store *s, const char *name, const void *bytes, size_t len)
{
    char own[64 + KR_STORE_ID_ROOM], id[KR_STORE_ID_ROOM];
    cleanup_fd int fd = -1;
    int r;

    kr_store_new_id(id);
    snprintf(own, sizeof own, "%.60s.%s", name, id);
    fd = kr_store_file_open(s, own, O_RDWR);
    if (fd < 0)
        return fd;
    r = kr_fd_write_all(fd, bytes, len);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r == 0 && linkat(s->dir_fd, own, s->dir_fd, name, 0) < 0 && errno != EEXIST)
        r = -errno;
    unlinkat(s->dir_fd, own, 0);
    if (r == 0 && fsync(s->dir_fd) < 0)
        r = -errno;
    return r;
}

static int make_random(const struct kr_store *s, const char *name)
{
    unsigned char bytes[KR_STORE_HASH_BYTES];
    int r;

    randombytes_buf(bytes, sizeof bytes);
    r = kr_store_file_make(s, name, bytes, sizeof bytes);
    sodium_memzero(bytes, sizeof bytes);
    return r;
}

/* -EUCLEAN: it is not a file of its size; -1 for what is no file at all. */
static int read_random(const struct kr_store *s, const char *name, unsigned char ret_bytes[KR_STORE_HASH_BYTES],
                       int64_t *ret_size)
{
    cleanup_fd int fd = openat(s->dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size != KR_STORE_HASH_BYTES) {
        *ret_size = S_ISREG(st.st_mode) ? st.st_size : -1;
        return -EUCLEAN;
    }
    if ((st.st_mode & 077) && fchmod(fd, 0600) < 0)
        kr_log(KR_LOG_WARN, "a file of the data folder can be read by others, ignoring", "dir=%s file=%s", s->dir,
               name);
    r = kr_fd_read_all(fd, ret_bytes, KR_STORE_HASH_BYTES);
    return r < 0 ? r : 0;
}

int kr_store_pepper_load(struct kr_store *s, struct kr_err *err)
{
    static const char setting[] = "pepper_check";
    unsigned char check[KR_STORE_HASH_BYTES], known[KR_STORE_HASH_BYTES];
    int have = kr_store_setting_get(s, setting, known, sizeof known, err), r;
    int64_t size = 0;

    if (have < 0 && have != -ENOENT)
        return have;
    r = read_random(s, KR_STORE_PEPPER, s->pepper, &size);
    if (r == -ENOENT && have == -ENOENT) {
        r = make_random(s, KR_STORE_PEPPER);
        if (r == 0)
            r = read_random(s, KR_STORE_PEPPER, s->pepper, &size);
    }
    if (r == -EUCLEAN && size < 0)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.120s/" KR_STORE_PEPPER " is not a plain file: put the file back from a backup", s->dir);
    if (r == -EUCLEAN)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.120s/" KR_STORE_PEPPER " has %lld bytes and not %zu: put it back from a backup", s->dir,
                            (long long)size, sizeof s->pepper);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.120s/" KR_STORE_PEPPER " is missing: without it no key can be checked, put it back",
                            s->dir);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, r, "cannot use %.150s/" KR_STORE_PEPPER, s->dir);
    kr_store_hash(s, "check", s->instance, check);
    if (have == -ENOENT) {
        r = kr_store_setting_set(s, setting, check, sizeof check, err);
        return r < 0 ? r : 0;
    }
    if (have != sizeof known || sodium_memcmp(check, known, sizeof check) != 0)
        return kr_store_err(
            err, KR_ERR_SYSTEM, EUCLEAN,
            "%.120s/" KR_STORE_PEPPER " is not the one of this store: no key would be known, put it back", s->dir);
    return 0;
}

int kr_store_secrets_key_load(struct kr_store *s, bool make, struct kr_err *err)
{
    int64_t size = 0;
    int r = read_random(s, KR_STORE_SECRETS_KEY, s->secrets_key, &size);

    if (r == -ENOENT && !make)
        return 0;
    if (r == -ENOENT && (r = make_random(s, KR_STORE_SECRETS_KEY)) == 0)
        r = read_random(s, KR_STORE_SECRETS_KEY, s->secrets_key, &size);
    if (r == -EUCLEAN)
        return kr_store_err(err, KR_ERR_SYSTEM, EUCLEAN,
                            "%.120s/" KR_STORE_SECRETS_KEY " is not a file of %d bytes: put it back from a backup, or "
                            "remove it and store all secrets anew",
                            s->dir, KR_STORE_HASH_BYTES);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, r, "cannot use %.150s/" KR_STORE_SECRETS_KEY, s->dir);
    s->has_secrets_key = true;
    return 0;
}
