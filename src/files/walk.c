/* The walk beneath a folder.
 *
 * Called by sweep.c, files_list.c and changes.c, mostly on the thread pool. Invariant: a walk opens nothing but
 * folders, one name at a time and never through a symbolic link, stays on the folder's filesystem, and ends at its
 * bounds whatever is done to the tree meanwhile: each entry looked at counts, also one that is seen twice. */
#include "walk.h"
#include "clock.h"
#include "fd.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define NAME_ROOM 256u     /* NAME_MAX and a slash */
#define DEADLINE_EVERY 64u /* entries between two looks at the clock */

struct walk {
    struct kr_walk_max max;
    kr_walk_fn *fn;
    void *arg;
    struct kr_walk_result *result;
    dev_t dev;
    char *path; /* room for KR_WALK_DEPTH_MAX names */
};

static bool walk_dir(struct walk *w, DIR *dir, unsigned depth, size_t path_len);

bool kr_walk_complete(const struct kr_walk_result *r)
{
    return !r->too_many && !r->too_deep && !r->too_late && !r->stopped && r->unreadable == 0;
}

/* NULL if it cannot be opened; takes nothing. */
static DIR *open_dir(int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir;

    if (fd < 0)
        return NULL;
    dir = fdopendir(fd);
    if (!dir)
        kr_fd_close(fd);
    return dir;
}

/* Whether another entry may be looked at. */
static bool may_go_on(struct walk *w)
{
    struct kr_walk_result *r = w->result;

    if (w->max.entries > 0 && r->entries >= w->max.entries) {
        r->too_many = true;
        return false;
    }
    if (w->max.deadline_ns > 0 && r->entries % DEADLINE_EVERY == 0 && kr_clock_ns() >= w->max.deadline_ns) {
        r->too_late = true;
        return false;
    }
    r->entries++;
    return true;
}

/* False when the walk is over. */
static bool enter(struct walk *w, DIR *dir, const char *name, const struct stat *seen, unsigned depth, size_t path_len)
{
    struct stat st;
    bool go_on;
    DIR *sub;

    if (seen->st_dev != w->dev)
        return true;
    if (depth >= w->max.depth) {
        w->result->too_deep = true;
        return true;
    }
    sub = open_dir(dirfd(dir), name);
    if (!sub) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) /* not gone or swapped meanwhile */
            w->result->unreadable++;
        return true;
    }
    go_on = fstat(dirfd(sub), &st) < 0 || st.st_dev != w->dev || walk_dir(w, sub, depth + 1, path_len);
    closedir(sub);
    return go_on;
}

static bool visit(struct walk *w, DIR *dir, const char *name, unsigned depth, size_t path_len)
{
    size_t name_len = strnlen(name, NAME_ROOM);
    struct kr_walk_entry e = {.path = w->path, .name = w->path + path_len, .depth = depth};
    enum kr_walk_do what;
    struct stat st;

    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || name_len >= NAME_ROOM)
        return true;
    if (!may_go_on(w))
        return false;
    if (fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT)
            w->result->unreadable++; /* a folder that may be read but not searched */
        return true;
    }
    memcpy(w->path + path_len, name, name_len + 1);
    e.path_len = path_len + name_len;
    e.st = &st;
    what = w->fn(w->arg, &e);
    if (what == KR_WALK_STOP)
        w->result->stopped = true;
    if (what != KR_WALK_ON || !S_ISDIR(st.st_mode))
        return what != KR_WALK_STOP;
    w->path[e.path_len] = '/';
    return enter(w, dir, name, &st, depth, e.path_len + 1);
}

/* False when the walk is over. */
static bool walk_dir(struct walk *w, DIR *dir, unsigned depth, size_t path_len)
{
    const struct dirent *e;

    for (;;) {
        errno = 0;
        e = readdir(dir);
        if (!e)
            break;
        if (!visit(w, dir, e->d_name, depth, path_len))
            return false;
    }
    if (errno != 0)
        w->result->unreadable++;
    return true;
}

int kr_walk(int dirfd, const struct kr_walk_max *max, kr_walk_fn *fn, void *arg, struct kr_walk_result *ret)
{
    struct walk w = {.max = *max, .fn = fn, .arg = arg, .result = ret};
    struct stat st;
    int r = 0;
    DIR *dir;

    memset(ret, 0, sizeof *ret);
    if (w.max.depth == 0 || w.max.depth > KR_WALK_DEPTH_MAX)
        w.max.depth = KR_WALK_DEPTH_MAX;
    dir = open_dir(dirfd, ".");
    if (!dir)
        return errno ? -errno : -ENOMEM;
    w.path = malloc((size_t)w.max.depth * NAME_ROOM + 1);
    if (!w.path || fstat(dirfd, &st) < 0)
        r = w.path ? -errno : -ENOMEM;
    if (r == 0) {
        w.dev = st.st_dev;
        walk_dir(&w, dir, 1, 0);
    }
    free(w.path);
    closedir(dir);
    return r;
}
