/* Walks of host folders, for their size.
 *
 * Called by session.c for workspaces that are folders of the host. Invariant: a walk (walk.c) looks at no more than
 * KR_SWEEP_ENTRIES_MAX entries, on the thread pool unless a new session's folder has a few only. */
#include "sweep.h"
#include "fd.h"
#include "walk.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FEW_ENTRIES 16u /* of a folder that is measured at once, when a session opens */

struct kr_sweep {
    struct kr_work work;
    struct uv_loop_s *loop;
    char *path;
    bool have_base;
    uint64_t base, now;
    int found_r; /* of the walk under way; the thread pool writes these two, the loop reads them after it */
    uint64_t found;
};

static enum kr_walk_do on_entry(void *arg, const struct kr_walk_entry *e)
{
    *(uint64_t *)arg += (uint64_t)e->st->st_blocks * 512;
    return KR_WALK_ON;
}

/* 1: all of it was seen; 0: there is more; -errno. */
static int measure(const char *path, uint64_t entries, uint64_t *ret_bytes)
{
    const struct kr_walk_max max = {.entries = entries, .depth = KR_WALK_DEPTH_MAX};
    cleanup_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct kr_walk_result seen;
    uint64_t bytes = 0;
    int r;

    if (fd < 0)
        return -errno;
    r = kr_walk(fd, &max, on_entry, &bytes, &seen);
    if (r < 0)
        return r;
    *ret_bytes = bytes;
    return kr_walk_complete(&seen);
}

int kr_sweep_measure(const char *path, uint64_t *ret_bytes)
{
    int r = measure(path, KR_SWEEP_ENTRIES_MAX, ret_bytes);

    return r < 0 ? r : 0;
}

static void free_sweep(void *data)
{
    struct kr_sweep *s = data;

    free(s->path);
    free(s);
}

static void run_sweep(void *data)
{
    struct kr_sweep *s = data;

    s->found_r = kr_sweep_measure(s->path, &s->found);
}

static void on_sweep_done(void *data)
{
    struct kr_sweep *s = data;

    if (s->found_r < 0)
        return;
    if (!s->have_base)
        s->base = s->found;
    s->have_base = true;
    s->now = s->found;
}

void kr_sweep_again(struct kr_sweep *s)
{
    static const struct kr_work_calls calls = {.run = run_sweep, .done = on_sweep_done, .dropped = free_sweep};

    if (!kr_work_busy(&s->work))
        kr_work_start(s->loop, &s->work, &calls, s);
}

int kr_sweep_new(struct uv_loop_s *loop, const char *path, struct kr_sweep **ret_sweep)
{
    struct kr_sweep *s = calloc(1, sizeof *s);

    if (!s)
        return -ENOMEM;
    s->loop = loop;
    s->path = strdup(path);
    if (!s->path) {
        free(s);
        return -ENOMEM;
    }
    s->have_base =
        measure(path, FEW_ENTRIES, &s->base) == 1; /* else a thread does it, so that the loop does not wait */
    s->now = s->base;
    if (!s->have_base) {
        s->base = s->now = 0;
        kr_sweep_again(s);
    }
    *ret_sweep = s;
    return 0;
}

void kr_sweep_close(struct kr_sweep *s)
{
    if (s && !kr_work_drop(&s->work))
        free_sweep(s);
}

uint64_t kr_sweep_growth(const struct kr_sweep *s)
{
    return s->have_base && s->now > s->base ? s->now - s->base : 0;
}
