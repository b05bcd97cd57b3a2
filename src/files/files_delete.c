/* Deleting trees that hostile code changes at the same time.
 *
 * Called on the thread pool. Invariant: every removal names one part in a folder that is held open, so that no link
 * is ever followed and nothing outside of the workspace can be reached; at most LEVELS folders are open; a call ends
 * after its steps whatever is put into the tree meanwhile.
 *
 * Depth: a folder LEVELS deep is not entered but moved up to the top of the tree that is being deleted, under a name
 * of ours, and is found there when the top is read again. So a chain of any length (a program can make one far past
 * PATH_MAX) needs neither its path nor a descriptor for each level. */
#include "clock.h"
#include "fd.h"
#include "files_internal.h"
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LEVELS 32u
#define STEPS_DEFAULT 10000u
#define DEADLINE_EVERY 64u
#define MOVED ".krait-deleted-"
#define NAME_ROOM 256u

struct level {
    DIR *dir;
    char name[NAME_ROOM]; /* in the level above */
    bool again;           /* read once more from the start: something was put into it, or removed at all */
};

struct deletion {
    struct level levels[LEVELS];
    unsigned depth; /* levels in use */
    uint64_t steps, deadline_ns;
    uint64_t moved; /* for the next name */
    int error;      /* -errno of the first thing that could not be removed; the rest goes all the same */
};

/* One more step; false when the budget is used up. */
static bool spend(struct deletion *d)
{
    if (d->steps == 0)
        return false;
    d->steps--;
    return d->deadline_ns == 0 || d->steps % DEADLINE_EVERY != 0 || kr_clock_ns() < d->deadline_ns;
}

/* A folder in dirfd, with the rights to empty it. */
static DIR *open_folder(int dirfd, const char *name)
{
    cleanup_fd int path = kr_files_at(dirfd, name, O_PATH | O_DIRECTORY, 0);
    int fd;
    DIR *dir;

    if (path < 0) {
        errno = -path;
        return NULL;
    }
    kr_files_open_up(path); /* if it fails, opening or removing says why */
    fd = openat(path, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    dir = fdopendir(fd);
    if (!dir) {
        kr_fd_close(fd);
        errno = ENOMEM;
    }
    return dir;
}

static int push(struct deletion *d, int dirfd, const char *name)
{
    struct level *l = &d->levels[d->depth];
    DIR *dir = open_folder(dirfd, name);

    if (!dir)
        return -errno;
    l->dir = dir;
    l->again = false;
    snprintf(l->name, sizeof l->name, "%s", name);
    d->depth++;
    return 0;
}

/* Moves a folder that is too deep to the top. */
static int move_up(struct deletion *d, int from, const char *name)
{
    int top = dirfd(d->levels[0].dir);
    char to[64];
    int r = -EEXIST;

    for (int i = 0; i < 64 && r == -EEXIST; i++) {
        snprintf(to, sizeof to, MOVED "%llu", (unsigned long long)d->moved++);
        r = renameat2(from, name, top, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
        if (r == -EACCES) { /* moving a folder changes its "..", which asks for the right to write in it */
            cleanup_fd int fd = kr_files_at(from, name, O_PATH | O_DIRECTORY, 0);

            if (fd >= 0 && kr_files_open_up(fd) == 0)
                r = renameat2(from, name, top, to, RENAME_NOREPLACE) < 0 ? -errno : 0;
        }
    }
    if (r == 0)
        d->levels[0].again = true;
    return r;
}

/* Removes one entry of the deepest open folder, or begins to. 0, or -errno if it stays. */
static int remove_entry(struct deletion *d, const char *name)
{
    struct level *l = &d->levels[d->depth - 1];
    int fd = dirfd(l->dir), r;

    if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR)
        return -errno;
    if (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    r = d->depth < LEVELS ? push(d, fd, name) : move_up(d, fd, name);
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r; /* swapped meanwhile: the next round finds it */
}

/* The deepest folder is read to its end: it goes, or is read again. */
static void pop(struct deletion *d)
{
    struct level *l = &d->levels[d->depth - 1];
    int above = d->depth > 1 ? dirfd(d->levels[d->depth - 2].dir) : -1;

    if (l->again) {
        l->again = false;
        rewinddir(l->dir);
        return;
    }
    closedir(l->dir);
    d->depth--;
    if (above < 0)
        return;
    if (unlinkat(above, l->name, AT_REMOVEDIR) < 0 && errno != ENOENT && errno != ENOTDIR && !d->error) {
        if (errno == ENOTEMPTY || errno == EEXIST)
            d->levels[d->depth - 1].again = true; /* filled meanwhile, or readdir missed some while entries went */
        else
            d->error = -errno;
    }
}

/* Empties the folder at level 0. 0, 1 when the budget is used up, or -errno. */
static int empty(struct deletion *d)
{
    int r = 0;

    while (d->depth > 0 && r == 0) {
        const struct dirent *e = readdir(d->levels[d->depth - 1].dir);

        if (!spend(d)) {
            r = 1;
        } else if (!e) {
            pop(d);
        } else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            int failed = remove_entry(d, e->d_name);

            if (failed < 0 && !d->error)
                d->error = failed;
        }
    }
    while (d->depth > 0)
        closedir(d->levels[--d->depth].dir);
    return d->error ? d->error : r;
}

/* Removes the folder `name`, which is not empty, or only what is in it. */
static int delete_tree(int parent, const char *name, bool itself, const struct kr_files_budget *budget)
{
    struct deletion *d = calloc(1, sizeof *d);
    int r;

    if (!d)
        return -ENOMEM;
    d->steps = budget && budget->steps ? budget->steps : STEPS_DEFAULT;
    d->deadline_ns = budget ? budget->deadline_ns : 0;
    d->moved = kr_clock_ns(); /* so that names of an earlier call are hardly met */
    do {
        r = push(d, parent, name);
        if (r == 0)
            r = empty(d);
        if (r != 0 || !itself)
            break;
        r = unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    } while ((r == -ENOTEMPTY || r == -EEXIST) && spend(d));
    /* A program fills it as fast as it is emptied, has replaced it by a link or a file, or moved it while the kernel
     * looked (EXDEV; nothing is ever mounted in a workspace): the next call sees. */
    if (r == -ENOTEMPTY || r == -EEXIST || r == -ELOOP || r == -ENOTDIR || r == -EXDEV)
        r = 1;
    free(d);
    return r == -ENOENT ? 0 : r;
}

int kr_files_delete(int ws, const char *path, bool tree, const struct kr_files_budget *budget, struct kr_err *err)
{
    char relative[KR_FILES_PATH_MAX];
    cleanup_fd int dir = -1;
    const char *name;
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    if (!*relative) {
        r = tree ? delete_tree(ws, ".", false, budget) : -ENOTEMPTY;
        return r < 0 ? kr_files_fail(err, r, path) : r;
    }
    dir = kr_files_parent(ws, relative, false, &name);
    if (dir < 0)
        return kr_files_fail(err, dir, path);
    r = unlinkat(dir, name, 0) < 0 ? -errno : 0;
    if (r == -EISDIR)
        r = unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
    if ((r == -ENOTEMPTY || r == -EEXIST) && tree)
        r = delete_tree(dir, name, true, budget);
    return r < 0 ? kr_files_fail(err, r, path) : r;
}
