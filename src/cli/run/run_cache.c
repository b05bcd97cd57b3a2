/* The cache of `krait run`: wheels that last, and a folder of each run that does not.
 *
 *     CACHE/packages/   the store of unpacked wheels (package_store.h), shared by all runs
 *     CACHE/runs/ID/    the data of one run: its store, its sandbox with the environment
 *
 * Called by cmd_run.c (before the fork) and run_packages.c (in the engine). Invariants: runs/ID is locked by the
 * processes of its run for as long as one of them lives, so what is not locked is what a killed run has left, and the
 * next run removes it; nothing beneath the folder is removed with more rights than the engine's. */
#include "run_cache.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "log.h"
#include "store.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 4
#define CLEAR_MAX 16u  /* runs that are cleared by one */
#define CLEAR_MS 2000u /* and for so long: the next goes on */
#define REMOVE_MS 10000u

static const struct kr_own_folder cache_folder = {"cache", "--cache", "another --cache"};

static int find_path(struct kr_run_cache *c, const char *dir, struct kr_err *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const struct passwd *pw;
    char here[PATH_MAX];
    int n;

    if (dir && dir[0] == '/')
        n = snprintf(c->path, sizeof c->path, "%s", dir);
    else if (dir && *dir)
        n = getcwd(here, sizeof here) ? snprintf(c->path, sizeof c->path, "%s/%s", here, dir) : -1;
    else if (dir)
        n = -1;
    else if (geteuid() == 0)
        n = snprintf(c->path, sizeof c->path, "/var/cache/krait");
    else if (xdg && xdg[0] == '/')
        n = snprintf(c->path, sizeof c->path, "%s/krait", xdg);
    else {
        if ((!home || home[0] != '/') && (pw = getpwuid(geteuid())))
            home = pw->pw_dir;
        n = home && home[0] == '/' ? snprintf(c->path, sizeof c->path, "%s/.cache/krait", home) : -1;
    }
    while (n > 1 && (size_t)n < sizeof c->path && c->path[n - 1] == '/')
        c->path[--n] = '\0';
    if (n > 0 && (size_t)n < sizeof c->path - 64)
        return 0;
    return kr_err_set(err, KR_ERR_INVALID, 0, "packages need a folder to be kept in: name one with --cache");
}

/* A folder of its own, with the lock; whoever clears up may have had it between the two, and then it is another. */
static int make_run(struct kr_run_cache *c, int runs, struct kr_err *err)
{
    for (int i = 0; i < TRIES; i++) {
        cleanup_fd int fd = -1, shelf = -1;
        struct stat st;

        kr_store_new_id(c->id);
        fd = kr_own_folder(&c->owner, runs, c->id, &cache_folder, err);
        if (fd < 0)
            return fd;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0)
            continue;
        shelf = kr_own_folder(&c->owner, fd, "sandboxes", &cache_folder, err);
        if (shelf < 0)
            return shelf;
        c->lock = steal_fd(&fd);
        return 0;
    }
    return kr_err_set(err, KR_ERR_SYSTEM, EBUSY, "make a folder in %.100s/runs", c->path);
}

int kr_run_cache_prepare(struct kr_run_cache *c, const char *dir, struct kr_err *err)
{
    cleanup_fd int top = -1, packages = -1, wheels = -1, runs = -1;
    int r;

    *c = (struct kr_run_cache){.lock = -1};
    if ((r = kr_own_find_user(NULL, &c->owner, err)) < 0 || (r = find_path(c, dir, err)) < 0 ||
        (r = kr_own_way(&c->owner, c->path, &cache_folder, err)) < 0 ||
        (r = top = kr_own_folder(&c->owner, AT_FDCWD, c->path, &cache_folder, err)) < 0 ||
        (r = packages = kr_own_folder(&c->owner, top, "packages", &cache_folder, err)) < 0 ||
        (r = wheels = kr_own_folder(&c->owner, packages, "store", &cache_folder, err)) < 0 ||
        (r = runs = kr_own_folder(&c->owner, top, "runs", &cache_folder, err)) < 0)
        return r;
    if (fchmod(wheels, 0711) < 0) /* cells enter it by names that they know, and list nothing */
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "the folder of packages in %.100s", c->path);
    r = make_run(c, runs, err);
    if (r < 0)
        return r;
    snprintf(c->run, sizeof c->run, "%s/runs/%s", c->path, c->id);
    snprintf(c->shelf, sizeof c->shelf, "%s/sandboxes", c->run);
    snprintf(c->wheels, sizeof c->wheels, "%s/packages/store", c->path);
    return 0;
}

static int open_runs(const struct kr_run_cache *c)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/runs", c->path);
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_run(int runs, const char *id, unsigned ms)
{
    const struct kr_files_budget budget = {.steps = UINT64_MAX, .deadline_ns = kr_clock_after_ms(ms)};
    struct kr_err err;
    int r = kr_files_delete(runs, id, true, &budget, &err);

    if (r != 0 && r != -ENOENT)
        kr_log(KR_LOG_INFO, "folder of a run not removed, ignoring", "run=%s error=\"%s\"", id,
               r < 0 ? err.msg : "it takes long");
}

void kr_run_cache_clear(const struct kr_run_cache *c)
{
    cleanup_fd int runs = open_runs(c);
    uint64_t until = kr_clock_after_ms(CLEAR_MS);
    unsigned count = 0;
    const struct dirent *e;
    DIR *dir = runs < 0 ? NULL : fdopendir(dup(runs));

    while (dir && count < CLEAR_MAX && kr_clock_ns() < until && (e = readdir(dir))) {
        cleanup_fd int fd = -1;

        if (!kr_id_valid(e->d_name) || strcmp(e->d_name, c->id) == 0)
            continue;
        fd = openat(runs, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            continue;
        remove_run(runs, e->d_name, CLEAR_MS);
        count++;
    }
    if (dir)
        closedir(dir);
}

void kr_run_cache_remove(const struct kr_run_cache *c)
{
    cleanup_fd int runs = open_runs(c);

    if (runs >= 0)
        remove_run(runs, c->id, REMOVE_MS);
}

void kr_run_cache_close(struct kr_run_cache *c)
{
    c->lock = kr_fd_close(c->lock);
}
