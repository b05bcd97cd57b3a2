/* The count of deleted files that are still open.
 *
 * Called by the keeper for a cell, whose processes open, close, fork and end meanwhile. Invariants: a name from /proc
 * is used only if it is a number; nothing is opened but folders of /proc; what is gone when it is looked at is left
 * out, and every other failure is told (blind), never passed over. */
#include "unlinked.h"
#include "clock.h"
#include "fd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct deleted {
    uint64_t ino, bytes;
};

struct counting {
    dev_t dev;
    unsigned looks, processes;
    bool is_blind;
    struct deleted *files; /* one for each descriptor */
    size_t count, room;
};

/* A process, thread or descriptor that has ended or was closed is no failure. */
static void note_failure(struct counting *c, int error)
{
    c->is_blind |= error != ENOENT && error != ESRCH;
}

static bool may_look(struct counting *c)
{
    if (c->looks < KR_UNLINKED_LOOKS_MAX) {
        c->looks++;
        return true;
    }
    c->is_blind = true;
    return false;
}

/* NULL: errno says why. */
static DIR *open_list(int at, const char *path)
{
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        kr_fd_close(fd);
    return d;
}

/* The next entry that is a number, or NULL at the end of the list or of what may be looked at. */
static const char *next_number(struct counting *c, DIR *d)
{
    const struct dirent *e;
    for (;;) {
        errno = 0;
        e = readdir(d);
        if (!e) {
            note_failure(c, errno == 0 ? ENOENT : errno);
            return NULL;
        }
        if (e->d_name[strspn(e->d_name, "0123456789")] == '\0')
            return may_look(c) ? e->d_name : NULL;
    }
}

static void add_file(struct counting *c, const struct statx *x)
{
    if (c->count == c->room) {
        size_t room = c->room ? 2 * c->room : 64;
        struct deleted *more = realloc(c->files, room * sizeof *more);
        if (!more) {
            c->is_blind = true;
            return;
        }
        c->files = more;
        c->room = room;
    }
    c->files[c->count++] = (struct deleted){.ino = x->stx_ino, .bytes = x->stx_blocks * 512};
}

/* The link of a descriptor leads to the open file itself, so no path is resolved. DONT_SYNC: a network filesystem is
 * not asked. */
static void look_at_descriptor(struct counting *c, int list, const char *number)
{
    struct statx x;
    if (statx(list, number, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_NLINK | STATX_INO | STATX_BLOCKS,
              &x) < 0)
        note_failure(c, errno);
    else if (S_ISREG(x.stx_mode) && x.stx_nlink == 0 && makedev(x.stx_dev_major, x.stx_dev_minor) == c->dev)
        add_file(c, &x);
}

/* A thread that has ended and that its parent has not awaited yet has no files, and its folder is root's: a keeper of a
 * plain user may not open it. It has no working directory either, which tells it from one that lives. */
static void note_unopened(struct counting *c, int error, int threads, const char *thread)
{
    char path[32], byte;
    snprintf(path, sizeof path, "%.12s/cwd", thread);
    note_failure(c, error == EACCES && readlinkat(threads, path, &byte, 1) < 0 ? errno : error);
}

/* Each thread can have a table of descriptors of its own (clone(2) without CLONE_FILES), and that of the first thread
 * is empty once it has ended. */
static void look_at_threads(struct counting *c, int proc, const char *process)
{
    char path[32];
    const char *thread, *number;
    DIR *threads, *list;
    snprintf(path, sizeof path, "%.12s/task", process);
    threads = open_list(proc, path);
    if (!threads)
        note_failure(c, errno);
    while (threads && (thread = next_number(c, threads))) {
        snprintf(path, sizeof path, "%.12s/fd", thread);
        list = open_list(dirfd(threads), path);
        if (!list)
            note_unopened(c, errno, dirfd(threads), thread);
        while (list && (number = next_number(c, list)))
            look_at_descriptor(c, dirfd(list), number);
        if (list)
            closedir(list);
    }
    if (threads)
        closedir(threads);
}

static int compare_inodes(const void *a, const void *b)
{
    uint64_t x = ((const struct deleted *)a)->ino, y = ((const struct deleted *)b)->ino;
    return x < y ? -1 : x > y;
}

/* A file that is open several times counts once. */
static void add_up(struct counting *c, struct kr_w_counted *ret)
{
    if (c->count > 0)
        qsort(c->files, c->count, sizeof *c->files, compare_inodes);
    for (size_t i = 0; i < c->count; i++)
        if (i == 0 || c->files[i].ino != c->files[i - 1].ino) {
            ret->bytes += c->files[i].bytes;
            ret->files++;
        }
}

int kr_unlinked_count(int proc, dev_t dev, struct kr_w_counted *ret)
{
    struct counting c = {.dev = dev};
    uint64_t began = kr_clock_ns();
    DIR *processes = open_list(proc, ".");
    const char *number;
    if (!processes)
        note_failure(&c, errno);
    while (processes && (number = next_number(&c, processes))) {
        if (strcmp(number, "1") == 0)
            continue;
        c.processes++;
        look_at_threads(&c, proc, number);
    }
    if (processes)
        closedir(processes);
    *ret = (struct kr_w_counted){0};
    add_up(&c, ret);
    ret->blind = c.is_blind;
    ret->took_ns = kr_clock_ns() - began;
    free(c.files);
    return c.processes > 0 || c.is_blind ? 0 : -EACCES;
}
