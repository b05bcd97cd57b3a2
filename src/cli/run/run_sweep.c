/* The bound on the cache of `krait run`.
 *
 * Called by run_packages.c beside the first install of a run. Invariants: the environments of all runs that are there
 * are looked at, or nothing is removed; a wheel that was asked for in the last hour stays, so one that begins meanwhile
 * loses nothing. */
#include "run_sweep.h"
#include "fd.h"
#include "log.h"
#include "package_store.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define EVERY_S 3600
#define GRACE_S 7200u /* an install may take an hour */
#define ROOTS_MAX 256u

/* Is its time come? Then the next one's is an hour away. */
static bool is_due(const struct kr_run_cache *c)
{
    char path[4096];
    struct stat st;
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "%s/packages/swept", c->path);
    if (stat(path, &st) == 0 && st.st_mtime <= time(NULL) && time(NULL) - st.st_mtime < EVERY_S)
        return false;
    fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd >= 0 && futimens(fd, NULL) == 0;
}

/* Folders of environments of all runs. How many; 0: too many, or they cannot be listed. */
static size_t open_roots(const struct kr_run_cache *c, int roots[ROOTS_MAX])
{
    char path[4096];
    const struct dirent *e;
    size_t count = 0;
    DIR *dir;

    snprintf(path, sizeof path, "%s/runs", c->path);
    dir = opendir(path);
    while (dir && count < ROOTS_MAX && (e = readdir(dir))) {
        char name[300];
        int fd;

        if (!kr_id_valid(e->d_name))
            continue;
        snprintf(name, sizeof name, "%s/sandboxes", e->d_name);
        fd = openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) /* else it has just ended, or just begins */
            roots[count++] = fd;
    }
    if (dir)
        closedir(dir);
    if (count < ROOTS_MAX)
        return count;
    while (count > 0)
        kr_fd_close(roots[--count]);
    return 0;
}

static void sweep_cache(void *data)
{
    struct kr_run_sweep *s = data;
    int roots[ROOTS_MAX];
    size_t count = is_due(s->cache) ? open_roots(s->cache, roots) : 0;
    const struct kr_package_sweep sweep = {
        .bytes_max = s->bytes_max ? s->bytes_max : UINT64_MAX, .grace_s = GRACE_S, .roots = roots, .root_count = count};
    uint64_t freed = 0;
    struct kr_err err;

    if (count == 0)
        return;
    if (kr_package_store_sweep(s->store, &sweep, &freed, &err) < 0)
        kr_log(KR_LOG_INFO, "sweep of the cache failed, ignoring", "error=\"%s\"", err.msg);
    else if (freed > 0)
        kr_log(KR_LOG_INFO, "cache swept", "bytes=%llu", (unsigned long long)freed);
    while (count > 0)
        kr_fd_close(roots[--count]);
}

static void on_cache_swept(void *data)
{
    (void)data;
}

void kr_run_sweep_start(struct kr_run_sweep *s, struct uv_loop_s *loop)
{
    static const struct kr_work_calls calls = {.run = sweep_cache, .done = on_cache_swept};

    kr_work_start(loop, &s->work, &calls, s);
}

bool kr_run_sweep_busy(const struct kr_run_sweep *s)
{
    return kr_work_busy(&s->work);
}
