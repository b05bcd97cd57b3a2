/* The measurement of a folder.
 *
 * Called by sweep.c and files_list.c, mostly on the thread pool. Hostile code changes the tree at the same time.
 * Invariants: no entry is left out silently (what cannot be seen is a gap, and a gap counts as over the limit); the
 * walk ends at its bounds; it has at most KEPT_FDS + 2 descriptors, so that a chain of folders of any length costs
 * memory for its names and nothing else. Beyond the kept ones the way back is "..", which is believed only if it leads
 * to the folder that the walk came from. */
#include "measure.h"
#include "clock.h"
#include "fd.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_FDS 32u
#define TRIES 3u
#define DEADLINE_EVERY 64u /* entries between two looks at the clock */
#define SEEN_FIRST 256u    /* slots; a power of two */

const char *const kr_measure_gap_texts[] = {
    [KR_MEASURE_WHOLE] = "it was measured whole",
    [KR_MEASURE_TOO_MANY] = "it has more entries than can be counted (200000)",
    [KR_MEASURE_TOO_LATE] = "it could not be measured in time",
    [KR_MEASURE_UNREADABLE] = "a folder in it cannot be read",
    [KR_MEASURE_MOVED] = "folders deep in it move while it is measured",
    [KR_MEASURE_HIDDEN] = "files that its processes have open cannot be counted",
};
static_assert(sizeof kr_measure_gap_texts / sizeof kr_measure_gap_texts[0] == KR_MEASURE_GAP_MAX_,
              "every gap has its text");

/* A folder on the way from the top to the current one. */
struct level {
    ino_t ino;
    size_t names; /* where the names of its folders begin that were not entered yet */
    int mode;     /* that it is to have again; -1: it has it */
    int fd;       /* -1: not kept */
};

struct measuring {
    struct kr_measure_max max;
    struct kr_measure *out;
    dev_t dev;
    struct level *levels;
    size_t depth, levels_room; /* levels[depth - 1] is the current folder */
    char *names;               /* each with its NUL, the last one is next */
    size_t names_len, names_room;
    uint64_t *seen; /* inode numbers of files with several names; 0: free */
    size_t seen_count, seen_room;
    bool is_over;
};

/* ---- files with several names ---- */

static bool put_seen(uint64_t *slots, size_t room, uint64_t ino)
{
    size_t i = (size_t)(ino * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);

    for (; slots[i]; i = (i + 1) & (room - 1))
        if (slots[i] == ino)
            return false;
    slots[i] = ino;
    return true;
}

static bool grow_seen(struct measuring *m)
{
    size_t room = m->seen_room ? 2 * m->seen_room : SEEN_FIRST;
    uint64_t *slots = calloc(room, sizeof *slots);

    if (!slots)
        return false;
    for (size_t i = 0; i < m->seen_room; i++)
        if (m->seen[i])
            (void)put_seen(slots, room, m->seen[i]);
    free(m->seen);
    m->seen = slots;
    m->seen_room = room;
    return true;
}

/* Whether it is seen for the first time. Without memory each name counts: too much rather than too little. */
static bool is_new_file(struct measuring *m, ino_t ino)
{
    if (2 * m->seen_count >= m->seen_room && !grow_seen(m))
        return true;
    if (ino == 0 || !put_seen(m->seen, m->seen_room, ino))
        return ino == 0;
    m->seen_count++;
    return true;
}

/* ---- one folder ---- */

static bool push_name(struct measuring *m, const char *name)
{
    size_t len = strlen(name) + 1;

    if (m->names_len + len > m->names_room) {
        size_t room = 2 * m->names_room + 4096;
        char *more = realloc(m->names, room);

        if (!more)
            return false;
        m->names = more;
        m->names_room = room;
    }
    memcpy(m->names + m->names_len, name, len);
    m->names_len += len;
    return true;
}

static bool may_go_on(struct measuring *m)
{
    struct kr_measure *out = m->out;

    if (out->entries >= m->max.entries)
        out->gap = KR_MEASURE_TOO_MANY;
    else if (m->max.deadline_ns > 0 && out->entries % DEADLINE_EVERY == 0 && kr_clock_ns() >= m->max.deadline_ns)
        out->gap = KR_MEASURE_TOO_LATE;
    return out->gap == KR_MEASURE_WHOLE;
}

static void miss_folder(struct measuring *m)
{
    m->out->unreadable++;
}

/* Counts one entry. False when the walk is over. */
static bool count_entry(struct measuring *m, int dir, const char *name)
{
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    if (!may_go_on(m))
        return false;
    m->out->entries++;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            miss_folder(m); /* it may be read but not searched */
        return true;
    }
    if (S_ISDIR(st.st_mode) || st.st_nlink < 2 || is_new_file(m, st.st_ino))
        m->out->bytes += (uint64_t)st.st_blocks * 512;
    if (S_ISDIR(st.st_mode) && st.st_dev == m->dev && !push_name(m, name))
        miss_folder(m);
    return true;
}

/* Counts all entries of the current folder. False when the walk is over. */
static bool count_entries(struct measuring *m, int fd)
{
    int list = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = list < 0 ? NULL : fdopendir(list);
    const struct dirent *e;
    bool goes_on = true;

    if (!dir) {
        kr_fd_close(list);
        miss_folder(m);
        return true;
    }
    errno = 0;
    while (goes_on && (e = readdir(dir))) {
        goes_on = count_entry(m, dirfd(dir), e->d_name);
        errno = 0;
    }
    if (goes_on && errno != 0)
        miss_folder(m);
    closedir(dir);
    return goes_on;
}

/* ---- from folder to folder ---- */

/* Lets its owner, us, read and search a folder. fchmod(2) refuses an O_PATH descriptor, and a name cannot be looked up
 * in a folder that is closed: the descriptor's name in /proc works for both, and follows no link. */
static int open_up(int path_fd, mode_t mode)
{
    char name[40];

    snprintf(name, sizeof name, "/proc/self/fd/%d", path_fd);
    return chmod(name, (mode & 07777) | S_IRWXU) < 0 ? -errno : 0;
}

/* Opens a folder, "" for `at` itself. One of ours that is closed to us is opened up first: what its owner hides in it
 * counts like the rest. *ret_mode is the mode that it is to have again, or -1. A descriptor or -errno. */
static int open_folder(int at, const char *name, struct stat *ret, int *ret_mode)
{
    cleanup_fd int fd = openat(at, *name ? name : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_fd int path = -1;
    int r;

    *ret_mode = -1;
    if (fd >= 0 && fstat(fd, ret) < 0)
        return -errno;
    if (fd >= 0 && ((ret->st_mode & S_IXUSR) || ret->st_uid != geteuid()))
        return steal_fd(&fd);
    if (fd < 0 && errno != EACCES)
        return -errno;
    path = *name ? openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : fcntl(at, F_DUPFD_CLOEXEC, 3);
    if (path < 0 || fstat(path, ret) < 0)
        return -errno;
    r = open_up(path, ret->st_mode);
    if (r < 0)
        return -EACCES;
    *ret_mode = ret->st_mode & 07777;
    fd = kr_fd_close(fd);
    fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -EACCES : steal_fd(&fd);
}

static struct level *add_level(struct measuring *m)
{
    size_t room = m->levels_room ? 2 * m->levels_room : 64;
    void *more;

    if (m->depth == m->levels_room) {
        more = reallocarray(m->levels, room, sizeof *m->levels);
        if (!more)
            return NULL;
        m->levels = more;
        m->levels_room = room;
    }
    return &m->levels[m->depth++];
}

/* Into a folder of the current one. The current folder's descriptor, old or new. */
static int go_down(struct measuring *m, int fd, const char *name)
{
    struct level *level = NULL;
    struct stat st = {0};
    int mode = 0, sub = open_folder(fd, name, &st, &mode);

    if (sub >= 0 && (st.st_dev != m->dev || !(level = add_level(m)))) {
        kr_fd_close(sub);
        if (st.st_dev == m->dev)
            miss_folder(m);
        return fd;
    }
    if (sub < 0) {
        if (sub != -ENOENT && sub != -ENOTDIR && sub != -ELOOP) /* not gone or swapped meanwhile */
            miss_folder(m);
        return fd;
    }
    *level = (struct level){.ino = st.st_ino, .names = m->names_len, .mode = mode, .fd = -1};
    if (m->levels[m->depth - 2].fd < 0)
        kr_fd_close(fd);
    if (m->depth <= KEPT_FDS)
        level->fd = sub;
    if (!count_entries(m, sub))
        m->is_over = true;
    return sub;
}

/* A folder that was opened up is closed again, as far as it is still reached; else it stays open to its owner. */
static void leave_folder(const struct level *left, int fd)
{
    if (left->mode >= 0)
        (void)fchmod(fd, (mode_t)left->mode);
    kr_fd_close(fd);
}

/* Back to the folder above. Its descriptor; -1: the walk is over. */
static int go_up(struct measuring *m, int fd)
{
    const struct level *left = &m->levels[m->depth - 1], *above = left - 1;
    struct stat st;
    int up = -1;

    if (m->depth > 1)
        up = above->fd >= 0 ? above->fd : openat(fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    leave_folder(left, fd);
    m->depth--;
    if (m->depth == 0)
        return -1;
    if (up < 0 || (above->fd < 0 && (fstat(up, &st) < 0 || st.st_dev != m->dev || st.st_ino != above->ino))) {
        kr_fd_close(up); /* not a kept one: those are not compared */
        m->out->gap = KR_MEASURE_MOVED;
        m->is_over = true;
        return -1;
    }
    return up;
}

/* Walks from the folder's own descriptor, which it takes. */
static void walk_from(struct measuring *m, int fd)
{
    const struct level *here;

    if (!count_entries(m, fd))
        m->is_over = true;
    while (fd >= 0 && !m->is_over) {
        here = &m->levels[m->depth - 1];
        if (m->names_len > here->names) {
            size_t at = m->names_len - 1;

            while (at > here->names && m->names[at - 1] != '\0')
                at--;
            m->names_len = at; /* go_down() may write over the name once it has opened it */
            fd = go_down(m, fd, m->names + at);
        } else {
            fd = go_up(m, fd);
        }
    }
    if (fd >= 0 && m->levels[m->depth - 1].fd < 0)
        leave_folder(&m->levels[m->depth - 1], fd);
    for (; m->depth > 0; m->depth--) /* the walk ended early */
        if (m->levels[m->depth - 1].fd >= 0)
            leave_folder(&m->levels[m->depth - 1], m->levels[m->depth - 1].fd);
}

static int measure_once(struct measuring *m, int dirfd)
{
    struct stat st = {0};
    int fd, mode = 0;

    *m->out = (struct kr_measure){0};
    m->names_len = m->seen_count = 0;
    m->is_over = false;
    if (m->seen)
        memset(m->seen, 0, m->seen_room * sizeof *m->seen);
    fd = open_folder(dirfd, "", &st, &mode);
    if (fd < 0)
        return fd;
    m->dev = st.st_dev;
    if (!add_level(m)) {
        kr_fd_close(fd);
        return -ENOMEM;
    }
    m->levels[0] = (struct level){.ino = st.st_ino, .mode = mode, .fd = fd};
    walk_from(m, fd);
    if (m->out->gap == KR_MEASURE_WHOLE && m->out->unreadable > 0)
        m->out->gap = KR_MEASURE_UNREADABLE;
    return 0;
}

int kr_measure(int dirfd, const struct kr_measure_max *max, struct kr_measure *ret)
{
    struct kr_measure out = {0};
    struct measuring m = {.max = *max, .out = &out};
    int r = 0;

    if (m.max.entries == 0)
        m.max.entries = KR_MEASURE_ENTRIES_MAX;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        r = measure_once(&m, dirfd);
        if (r < 0 || out.gap != KR_MEASURE_MOVED)
            break;
    }
    free(m.levels);
    free(m.names);
    free(m.seen);
    if (r >= 0)
        *ret = out;
    return r;
}

enum kr_measure_over kr_measure_judge(const struct kr_measure_bound *b, const struct kr_measure *base,
                                      const struct kr_measure *now)
{
    uint64_t bytes = b->bytes, entries = b->entries;

    if (b->grows) {
        bytes += base->bytes;
        entries += base->entries;
    } else {
        if (b->left < bytes && base->bytes + b->left < bytes)
            bytes = base->bytes + b->left;
        bytes = bytes > base->bytes ? bytes : base->bytes; /* what was there may stay, and be read and deleted */
        entries = entries > base->entries ? entries : base->entries;
    }
    if (now->bytes > bytes)
        return KR_MEASURE_OVER_BYTES;
    if (now->entries > entries)
        return KR_MEASURE_OVER_ENTRIES;
    if (now->gap == KR_MEASURE_WHOLE || (b->grows && base->gap == now->gap && base->unreadable >= now->unreadable))
        return KR_MEASURE_WITHIN;
    return KR_MEASURE_OVER_GAP;
}
