/* The lock file of an instance. Invariant: only the holder of the lock of a slot's file removes what the file names. */
#include "instance.h"
#include "cgroup.h"
#include "clock.h"
#include "fd.h"
#include "log.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define STALE_MS 1000

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *walk)
{
    (void)st, (void)flag, (void)walk;
    (void)remove(path);
    return 0;
}

/* One thing a dead instance noted. Checked again: the file says where, never that anything may go. */
static int remove_line(const struct kr_instance *in, const char *line)
{
    char kind[16], path[520];
    size_t own = strlen(in->dir);
    if (sscanf(line, "%15s %519[^\n]", kind, path) != 2)
        return 0;
    if (strcmp(kind, "cgroup") == 0)
        return kr_cgroup_remove_stale(path);
    if (strcmp(kind, "scratch") == 0 && strncmp(path, in->dir, own) == 0 && path[own] == '/' && !strstr(path, ".."))
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    return 0;
}

/* Removes what a dead instance noted. Its processes may still be dying: their cgroups are waited for, a second at
 * most. */
static int remove_noted(const struct kr_instance *in, char *text, uint64_t wait_ms)
{
    char *save = NULL;
    uint64_t deadline = kr_clock_after_ms(wait_ms);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int r;
        while ((r = remove_line(in, line)) == -EBUSY && kr_clock_ns() < deadline)
            usleep(5000);
        if (r < 0) {
            /* busy: processes of one that was killed are ending just now, which is no concern of who starts another */
            kr_log(r == -EBUSY ? KR_LOG_INFO : KR_LOG_WARN, "an earlier instance left what cannot be removed yet",
                   "errno=%d", -r);
            return r;
        }
    }
    return 0;
}

void kr_instance_remove(const struct kr_instance *in, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", in->dir, name);
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Our uid as the host knows it: inside a user namespace every user is 0, and all users share /tmp. */
unsigned kr_host_uid(void)
{
    char text[1024], *save = NULL;
    if (kr_fd_read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text) <= 0)
        return geteuid();
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned long inside, outside, count, me = geteuid();
        if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 && me >= inside && me - inside < count)
            return (unsigned)(outside + (me - inside));
    }
    return geteuid();
}

static int try_lock(int fd)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_SETLK, &l) < 0 ? -errno : 0;
}

/* The folder must be ours alone: another user could otherwise plant a file that names our cgroups. */
static int open_dir(struct kr_instance *in, const char *wanted, struct kr_err *err)
{
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (wanted)
        snprintf(in->dir, sizeof in->dir, "%s", wanted);
    else if (geteuid() == 0 && access("/run", W_OK) == 0)
        snprintf(in->dir, sizeof in->dir, "/run/krait");
    else if (xdg && xdg[0] == '/' && access(xdg, W_OK) == 0 && strlen(xdg) < 150)
        snprintf(in->dir, sizeof in->dir, "%s/krait", xdg);
    else
        snprintf(in->dir, sizeof in->dir, "/tmp/krait-%u", kr_host_uid());
    if (mkdir(in->dir, 0700) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make runtime folder %s", in->dir);
    if (lstat(in->dir, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return kr_err_set(err, KR_ERR_DENIED, EPERM, "runtime folder %s is not ours alone", in->dir);
    in->shift = (unsigned)((st.st_ino ^ st.st_dev * 2654435761u) % 1000003u);
    return 0;
}

static int take_slot(struct kr_instance *in, unsigned slot)
{
    char text[8192];
    int r;
    ssize_t n;
    uint32_t mark;
    cleanup_fd int fd = -1;
    snprintf(in->path, sizeof in->path, "%s/%u.lock", in->dir, slot);
    fd = open(in->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = try_lock(fd);
    if (r < 0)
        return r;
    n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return -errno; /* unread, the notes of a dead owner would be lost with the next line but one */
    if (n > 0) {
        text[n] = '\0';
        if (remove_noted(in, text, STALE_MS) < 0)
            return -EAGAIN; /* the notes stay for the next try */
    }
    if (ftruncate(fd, 0) < 0)
        return -errno;
    in->slot = slot;
    in->lock = steal_fd(&fd);
    if (getrandom(&mark, sizeof mark, 0) != (ssize_t)sizeof mark)
        return -EIO;
    snprintf(in->name, sizeof in->name, "krait-%u-%u-%08x", kr_host_uid(), slot, mark);
    return 0;
}

/* What other dead instances left goes too: they may have been many, and their slots may never be taken again. A living
 * one holds its lock. */
static void sweep(const struct kr_instance *in)
{
    DIR *dir = opendir(in->dir);
    char own[16];
    snprintf(own, sizeof own, "%u.lock", in->slot);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char text[8192];
        size_t len = strlen(e->d_name);
        cleanup_fd int fd = -1;
        ssize_t n;
        if (len < 6 || strcmp(e->d_name + len - 5, ".lock") != 0 || strcmp(e->d_name, own) == 0)
            continue;
        fd = openat(dirfd(dir), e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        n = fd >= 0 && try_lock(fd) == 0 ? pread(fd, text, sizeof text - 1, 0) : -1;
        if (n <= 0)
            continue;
        text[n] = '\0';
        if (remove_noted(in, text, 0) < 0 || ftruncate(fd, 0) < 0)
            kr_log(KR_LOG_INFO, "what a dead instance left stays for the next start", "file=%s", e->d_name);
    }
    if (dir)
        closedir(dir);
}

int kr_instance_open(struct kr_instance *in, const char *runtime_dir, unsigned slots, struct kr_err *err)
{
    int r;
    in->lock = -1;
    r = open_dir(in, runtime_dir, err);
    if (r < 0)
        return r;
    for (unsigned slot = 0; slot < slots; slot++) {
        r = take_slot(in, slot);
        if (r == 0) {
            in->id_slot = (slot + in->shift) % slots;
            sweep(in);
            return 0;
        }
        if (r != -EAGAIN && r != -EACCES)
            return kr_err_set(err, KR_ERR_SYSTEM, -r, "lock %s", in->path);
    }
    return kr_err_set(err, KR_ERR_LIMIT, 0, "%u instances run already in %s", slots, in->dir);
}

int kr_instance_note(struct kr_instance *in, const char *kind, const char *path, struct kr_err *err)
{
    char line[640];
    int n = snprintf(line, sizeof line, "%s %s\n", kind, path);
    int r = kr_fd_write_all(in->lock, line, (size_t)n);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "note in %s", in->path) : 0;
}

void kr_instance_close(struct kr_instance *in, int keep_notes)
{
    if (in->lock >= 0 && !keep_notes && ftruncate(in->lock, 0) < 0)
        kr_log(KR_LOG_WARN, "instance file not emptied, ignoring", "errno=%d", errno);
    in->lock = kr_fd_close(in->lock);
}
