/* How much disk a user has, so that programs do not pass the user's bound.
 *
 * Called by box_sessions.c when a session opens, by box_run_events.c when a run has ended. The folders of all the user's
 * sandboxes are walked on the thread pool. Invariants: one walk at a time for a user, and not more often than every LOOK_MS; what
 * a session may add to its folder is at most what the user had left when it opened, as far as that was known: it is
 * accounted, not enforced, and sessions that were opened at the same time share nothing. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "walk.h"
#include "work.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2000u
#define FAR_LOOK_MS 30000u /* of a user whose bound is far away */
#define WALK_MS 2000u
#define WALK_ENTRIES 200000u
#define SANDBOXES_MAX 10000u

struct measure {
    struct kr_work work;
    struct kr_box *box;
    struct kr_box_user *user; /* a reference */
    int shelf;                /* its own descriptor */
    char (*folders)[KR_STORE_ID_ROOM];
    size_t count, room;
    uint64_t sum;
};

static void measure_free(struct measure *m)
{
    kr_fd_close(m->shelf);
    free(m->folders);
    free(m);
}

/* On the thread pool. What cannot be read counts as nothing: it is there to be deleted, too. */
static void run_measure(void *data)
{
    struct measure *m = data;
    struct kr_walk_max max = {.entries = WALK_ENTRIES, .deadline_ns = kr_clock_after_ms(WALK_MS)};
    struct kr_files_usage usage;
    struct kr_err ignored;

    for (size_t i = 0; i < m->count; i++) {
        char path[KR_STORE_ID_ROOM + 8];

        snprintf(path, sizeof path, "%s/files", m->folders[i]);
        cleanup_fd int fd = openat(m->shelf, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && kr_files_usage(fd, "", &max, &usage, &ignored) >= 0)
            m->sum += usage.bytes;
    }
}

static void on_measured(void *data)
{
    struct measure *m = data;

    if (kr_box_job_end(m->box)) { /* else the user went with it */
        m->user->disk = m->sum;
        m->user->disk_ns = kr_clock_ns();
        m->user->measuring = false;
        kr_box_user_drop(m->box, m->user);
    }
    measure_free(m);
}

static void on_sandbox(void *data, const struct kr_store_sandbox *sandbox)
{
    struct measure *m = data;

    if (m->count == m->room) {
        size_t room = m->room ? 2 * m->room : 16;
        void *more = room > SANDBOXES_MAX ? NULL : reallocarray(m->folders, room, sizeof *m->folders);

        if (!more)
            return; /* counted too low rather than refused */
        m->folders = more;
        m->room = room;
    }
    memcpy(m->folders[m->count++], sandbox->folder, KR_STORE_ID_ROOM);
}

static int list_folders(struct measure *m)
{
    char after[KR_STORE_CURSOR_ROOM] = "";
    struct kr_err ignored;
    int r;

    do {
        struct kr_store_page page = {.after = after, .limit = KR_STORE_PAGE_MAX};

        r = kr_store_sandboxes_list(m->box->config.store, m->user->id, &page, on_sandbox, m, &ignored);
        memcpy(after, page.next, sizeof after);
    } while (r >= 0 && after[0] && m->count < SANDBOXES_MAX);
    return r;
}

static bool is_fresh(const struct kr_box *b, const struct kr_box_user *u)
{
    bool is_far = u->disk + b->config.profiles[b->config.dialect].limits.disk < b->config.max_disk_per_user / 2;

    return u->disk_ns && (kr_clock_ns() - u->disk_ns) / 1000000 < (is_far ? FAR_LOOK_MS : LOOK_MS);
}

void kr_disk_look(struct kr_box *b, struct kr_box_user *u)
{
    static const struct kr_work_calls calls = {.run = run_measure, .done = on_measured};
    struct measure *m;

    if (!b->config.max_disk_per_user || u->measuring || b->stopping || is_fresh(b, u))
        return;
    m = calloc(1, sizeof *m);
    if (!m)
        return;
    *m = (struct measure){.box = b, .user = u, .shelf = fcntl(b->shelf, F_DUPFD_CLOEXEC, 0)};
    if (m->shelf < 0 || list_folders(m) < 0) {
        measure_free(m);
        return;
    }
    kr_work_start(b->loop, &m->work, &calls, m);
    kr_box_job_begin(b);
    u->measuring = true;
    u->refs++;
}

uint64_t kr_disk_left(const struct kr_box *b, const struct kr_box_user *u, uint64_t limit)
{
    uint64_t most = b->config.max_disk_per_user;

    if (!most)
        return limit;
    if (u->disk >= most)
        return 1; /* it may read, compute and delete */
    return most - u->disk < limit ? most - u->disk : limit;
}
