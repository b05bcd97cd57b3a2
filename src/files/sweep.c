/* Walks of host folders, for their size.
 *
 * Called by session.c for workspaces that are folders of the host. Invariants: a walk (measure.c) is bounded,
 * and on the thread pool unless a new session's folder has a few entries only; one walk at a time, and one for all
 * sessions of a folder; a folder lives while it has sweeps or is walked. */
#include "sweep.h"
#include "clock.h"
#include "fd.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#define FEW_ENTRIES 16u        /* of a folder that is measured at once, when a session opens */
#define FOLDERS_WAITING 65536u /* for the one thread: more than there are sessions */
#define BTRFS_TOP_INODE 256u   /* of a subvolume; those in it have greater numbers */

struct folder {
    LIST_ENTRY(folder) link;
    struct kr_work work;
    struct kr_sweeps *all;
    char *path;
    unsigned sweeps;
    uint64_t numbered; /* the least of what its sweeps said: what is shown for it is judged by each */
    uint64_t unlinked; /* the sum of theirs */
    uint64_t walks;    /* that succeeded */
    struct kr_measure last;
    uint64_t last_began_ns; /* when the walk began that found it */
    uint64_t ended_ns;      /* the last walk */
    uint64_t took_ns;
    uint64_t most; /* `numbered` of the walk under way */
    int found_r;   /* of the walk under way; the thread pool writes these four, the loop reads them after it */
    uint64_t began_ns, found_ns;
    struct kr_measure found;
};

struct kr_sweeps {
    struct kr_lane *lane;
    LIST_HEAD(, folder) folders;
};

struct kr_sweep {
    struct folder *folder;
    uint64_t base_walk; /* the walk whose result is the baseline; it may be to come */
    struct kr_measure base;
    bool have_base;
    uint64_t unlinked;
};

/* 0 or -errno. */
static int measure_path(const char *path, uint64_t entries, struct kr_measure *ret)
{
    const struct kr_measure_max max = {.entries = entries};
    cleanup_fd int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : kr_measure(fd, &max, ret);
}

/* A subvolume numbers its inodes upwards and uses no number twice while it is mounted: the number of a new one says how
 * many there can be at most, without a walk. Further names of a file are not inodes. False: it does not show that there
 * are at most `most`, or no inode can be had. */
static bool numbers_show(const char *path, uint64_t most, struct kr_measure *ret)
{
    cleanup_fd int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC), file = -1;
    struct stat st;

    /* In the folder around it, whose changes are not watched. */
    file = dir < 0 ? -1 : openat(dir, "..", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0 || fstat(file, &st) < 0 || st.st_ino <= BTRFS_TOP_INODE || st.st_ino - BTRFS_TOP_INODE > most)
        return false;
    *ret = (struct kr_measure){.entries = st.st_ino - BTRFS_TOP_INODE};
    return true;
}

static int measure_numbered(const char *path, uint64_t most, struct kr_measure *ret)
{
    uint64_t entries = most < KR_MEASURE_ENTRIES_MAX ? KR_MEASURE_ENTRIES_MAX : most + 1;

    return numbers_show(path, most, ret) ? 0 : measure_path(path, entries, ret);
}

/* ---- a folder ---- */

static void free_folder(struct folder *f)
{
    free(f->path);
    free(f);
}

static void run_walk(void *data)
{
    struct folder *f = data;

    f->began_ns = kr_clock_ns();
    f->found_r = f->most ? measure_numbered(f->path, f->most, &f->found)
                         : measure_path(f->path, KR_MEASURE_ENTRIES_MAX, &f->found);
    f->found_ns = kr_clock_ns() - f->began_ns;
}

static void on_walk_done(void *data)
{
    struct folder *f = data;

    if (!f->sweeps) {
        LIST_REMOVE(f, link);
        free_folder(f);
        return;
    }
    f->took_ns = f->found_ns;
    f->ended_ns = kr_clock_ns();
    if (f->found_r == -ENOENT) /* its sandbox was reset or deleted */
        return;
    if (f->found_r < 0)
        f->found = (struct kr_measure){.unreadable = 1, .gap = KR_MEASURE_UNREADABLE};
    f->walks++;
    f->last = f->found;
    f->last_began_ns = f->began_ns;
}

static void on_walk_dropped(void *data)
{
    free_folder(data);
}

static bool must_rest(const struct folder *f)
{
    return f->ended_ns && kr_clock_ns() - f->ended_ns < f->took_ns * KR_SWEEP_REST;
}

static bool walk_folder(struct folder *f)
{
    static const struct kr_work_calls calls = {.run = run_walk, .done = on_walk_done, .dropped = on_walk_dropped};

    if (kr_work_busy(&f->work) || must_rest(f))
        return false;
    f->most = f->numbered;
    return kr_lane_start(f->all->lane, &f->work, &calls, f) >= 0; /* a full lane: the next tick tries again */
}

/* The one of that path, made if it is not there. NULL: no memory. */
static struct folder *get_folder(struct kr_sweeps *all, const char *path)
{
    struct folder *f;

    LIST_FOREACH(f, &all->folders, link)
    if (strcmp(f->path, path) == 0)
        return f;
    f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->all = all;
    f->path = strdup(path);
    if (!f->path) {
        free(f);
        return NULL;
    }
    LIST_INSERT_HEAD(&all->folders, f, link);
    return f;
}

int kr_sweeps_new(struct uv_loop_s *loop, struct kr_sweeps **ret_sweeps)
{
    struct kr_sweeps *all = calloc(1, sizeof *all);

    if (!all || kr_lane_new(loop, 1, FOLDERS_WAITING, &all->lane) < 0) {
        free(all);
        return -ENOMEM;
    }
    LIST_INIT(&all->folders);
    *ret_sweeps = all;
    return 0;
}

void kr_sweeps_close(struct kr_sweeps *all)
{
    if (!all)
        return;
    kr_lane_close(all->lane); /* what is left is walked without sweeps, and goes now or after its walk */
    free(all);
}

/* ---- a session's share ---- */

int kr_sweep_new(struct kr_sweeps *all, const char *path, uint64_t numbered, struct kr_sweep **ret_sweep)
{
    struct kr_sweep *s = calloc(1, sizeof *s);
    struct folder *f = s ? get_folder(all, path) : NULL;

    if (!f) {
        free(s);
        return -ENOMEM;
    }
    s->folder = f;
    f->sweeps++;
    if (f->sweeps == 1 || numbered < f->numbered)
        f->numbered = numbered;
    *ret_sweep = s;
    if (f->walks > 0 && must_rest(f)) { /* another session's walk has just found it */
        s->have_base = true;
        s->base = f->last;
        s->base_walk = f->walks;
        return 0;
    }
    s->base_walk = f->walks + (kr_work_busy(&f->work) ? 2 : 1); /* one that begins after this */
    /* Of a larger one, a thread does it: the loop does not wait. */
    s->have_base = measure_path(path, FEW_ENTRIES, &s->base) == 0 && s->base.gap == KR_MEASURE_WHOLE;
    if (!s->have_base)
        (void)walk_folder(f);
    return 0;
}

void kr_sweep_close(struct kr_sweep *s)
{
    struct folder *f;

    if (!s)
        return;
    f = s->folder;
    kr_sweep_set_unlinked(s, 0);
    free(s);
    if (--f->sweeps > 0 || kr_work_busy(&f->work)) /* on_walk_done() looks again */
        return;
    LIST_REMOVE(f, link);
    free_folder(f);
}

bool kr_sweep_again(struct kr_sweep *s)
{
    struct folder *f = s->folder;

    if (!s->have_base && f->walks >= s->base_walk) {
        s->have_base = true;
        s->base = f->last;
        s->base_walk = f->walks;
    }
    return walk_folder(f);
}

void kr_sweep_set_unlinked(struct kr_sweep *s, uint64_t bytes)
{
    s->folder->unlinked += bytes - s->unlinked;
    s->unlinked = bytes;
}

uint64_t kr_sweep_unlinked(const struct kr_sweep *s)
{
    return s->folder->unlinked;
}

bool kr_sweep_seen(const struct kr_sweep *s, uint64_t from_ns, const struct kr_measure **ret_base,
                   const struct kr_measure **ret_now)
{
    const struct folder *f = s->folder;

    *ret_base = &s->base;
    *ret_now = &f->last;
    return s->have_base && f->walks > 0 && f->walks >= s->base_walk && f->last_began_ns >= from_ns;
}
