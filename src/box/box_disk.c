/* The walker of a user's disk: how much the files of all the user's sandboxes and templates take.
 *
 * Called by box_sessions.c when a session opens and by box_run_events.c when a run has ended, so that programs do not
 * pass the user's bound; by file_quota.c of the API and by box_templates.c, so that uploads and templates do not. The
 * sandboxes' folders are walked one after the other on the thread pool; a template counts for what it held when it was
 * saved. Invariants: one walk at a time for a user; a caller that waits gets the sum of a walk that began after it
 * asked; the box itself asks no more often than every LOOK_MS. What a session may add to its folder is at most what the
 * user had left when it opened, as far as that was known: it is accounted, not enforced, and sessions that were opened
 * at the same time share nothing. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "measure.h"
#include "store_template.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2000u
#define FAR_LOOK_MS 30000u /* of a user whose bound is far away */
#define WALK_MS 10000u     /* of one sandbox */
#define SANDBOXES_MAX 10000u

TAILQ_HEAD(asks, kr_disk_ask);

/* Lives while it walks, or while a caller waits. */
struct kr_disk_walk {
    struct kr_work work; /* one sandbox */
    struct kr_shelf_ask shelf_ask;
    struct kr_box *box;
    struct kr_box_user *user; /* a reference */
    struct asks served, next; /* callers of this walk, and those that came after it began */
    char (*folders)[KR_STORE_ID_ROOM];
    size_t count, room, at;
    int ws;
    uint64_t sum;
    bool is_whole; /* every folder so far was measured whole */
    struct kr_measure usage;
};

static void free_walk(struct kr_disk_walk *w)
{
    kr_fd_close(w->ws);
    free(w->folders);
    free(w);
}

/* On the thread pool. What cannot be measured counts as too much: its owner can still read and delete it. */
static void run_walk(void *data)
{
    struct kr_disk_walk *w = data;
    struct kr_measure_max max = {.deadline_ns = kr_clock_after_ms(WALK_MS)};

    if (kr_measure(w->ws, &max, &w->usage) < 0)
        w->usage = (struct kr_measure){.gap = KR_MEASURE_UNREADABLE};
}

/* ---- which folders ---- */

static void on_sandbox(void *data, const struct kr_store_sandbox *sandbox)
{
    struct kr_disk_walk *w = data;

    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 16;
        void *more = room > SANDBOXES_MAX ? NULL : reallocarray(w->folders, room, sizeof *w->folders);

        if (!more) {
            w->is_whole = false;
            return;
        }
        w->folders = more;
        w->room = room;
    }
    memcpy(w->folders[w->count++], sandbox->folder, KR_STORE_ID_ROOM);
}

static int list_folders(struct kr_disk_walk *w, struct kr_err *err)
{
    char after[KR_STORE_CURSOR_ROOM] = "";
    int r;

    w->count = w->at = 0;
    w->is_whole = true;
    r = kr_store_templates_count(w->box->config.store, w->user->id, &w->sum, err);
    if (r < 0)
        return r;
    do {
        struct kr_store_page page = {.after = after, .limit = KR_STORE_PAGE_MAX};

        r = kr_store_sandboxes_list(w->box->config.store, w->user->id, &page, on_sandbox, w, err);
        memcpy(after, page.next, sizeof after);
    } while (r >= 0 && after[0] && w->count < SANDBOXES_MAX);
    return r;
}

/* ---- a walk ---- */

static void on_walked(void *data);
static void walk_files(struct kr_disk_walk *w);

/* What the filesystem counts is taken; a folder that it does not count is walked. */
static void on_used(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_disk_walk *w = data;

    (void)err;
    if (!shelved || shelved->kind == KR_SHELF_IS_FOLDER) {
        walk_files(w);
        return;
    }
    w->usage = (struct kr_measure){.bytes = shelved->bytes, .entries = shelved->inodes};
    kr_shelf_used(w->box, w->folders[w->at - 1], shelved->bytes);
    on_walked(w);
}

static void walk_files(struct kr_disk_walk *w)
{
    static const struct kr_work_calls calls = {.run = run_walk, .done = on_walked};

    kr_work_start(w->box->loop, &w->work, &calls, w);
}

/* The next sandbox; false: there is none. */
static bool walk_next(struct kr_disk_walk *w)
{
    while (!w->box->stopping && w->at < w->count) {
        char path[KR_STORE_ID_ROOM + 8];

        /* Not kr_box_sandbox_folder(): that would make the folder of a sandbox that was deleted meanwhile. */
        snprintf(path, sizeof path, "%s/files", w->folders[w->at++]);
        w->ws = openat(w->box->shelf, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (w->ws < 0)
            continue;
        kr_box_job_begin(w->box);
        if (kr_shelf_ask(w->box, KR_SHELF_USAGE, w->folders[w->at - 1], &w->shelf_ask, on_used, w) < 0)
            walk_files(w);
        return true;
    }
    return false;
}

/* Calls those that asked before the walk began; each may ask again, or forget another. */
static void serve_asks(struct kr_disk_walk *w)
{
    struct kr_disk_ask *ask;

    while ((ask = TAILQ_FIRST(&w->served))) {
        TAILQ_REMOVE(&w->served, ask, link);
        ask->walk = NULL;
        ask->on_measured(ask, w->sum);
    }
}

/* Where the filesystem enforces limits, what the user has left is enforced with them. */
static void limit_sessions(const struct kr_disk_walk *w)
{
    const struct kr_box_session *session;

    TAILQ_FOREACH(session, &w->box->sessions, link)
    if (session->user == w->user && session->spec.workspace == KR_WORKSPACE_SHELF)
        kr_shelf_limit(w->box, w->user->id, session->spec.folder, &session->spec.limits);
}

/* Walks for those that wait; the walk goes when there are none. */
static void finish_walk(struct kr_disk_walk *w)
{
    struct kr_disk_ask *ask;
    struct kr_err ignored;
    uint64_t measured;

    for (;;) {
        w->sum = w->is_whole ? w->sum : KR_DISK_UNKNOWN;
        measured = w->sum;
        w->user->disk = w->sum;
        w->user->disk_ns = kr_clock_ns();
        limit_sessions(w);
        serve_asks(w);
        if (TAILQ_EMPTY(&w->next))
            break;
        while ((ask = TAILQ_FIRST(&w->next))) {
            TAILQ_REMOVE(&w->next, ask, link);
            TAILQ_INSERT_TAIL(&w->served, ask, link);
        }
        if (list_folders(w, &ignored) < 0)
            w->sum = measured; /* the store failed: what was measured last holds, not 0 */
        else if (walk_next(w))
            return;
    }
    w->user->walk = NULL;
    kr_box_user_drop(w->box, w->user);
    free_walk(w);
}

static void on_walked(void *data)
{
    struct kr_disk_walk *w = data;

    w->ws = kr_fd_close(w->ws);
    w->sum += w->usage.bytes;
    w->is_whole &= w->usage.gap == KR_MEASURE_WHOLE;
    if (!kr_box_job_end(w->box)) /* the user went with the box, and the callers before it */
        free_walk(w);
    else if (!walk_next(w))
        finish_walk(w);
}

/* Begins one, with the ask (or NULL) as its first caller. 0 or -errno with err. */
static int start_walk(struct kr_box *b, struct kr_box_user *u, struct kr_disk_ask *ask, struct kr_err *err)
{
    struct kr_disk_walk *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "disk account");
    w->box = b;
    w->user = u;
    w->ws = -1;
    TAILQ_INIT(&w->served);
    TAILQ_INIT(&w->next);
    r = list_folders(w, err);
    if (r < 0) {
        free_walk(w);
        return r;
    }
    u->refs++;
    u->walk = w;
    if (ask) {
        ask->walk = w;
        TAILQ_INSERT_TAIL(&w->served, ask, link);
    }
    if (!walk_next(w))
        finish_walk(w);
    return 0;
}

int kr_box_disk_measure(struct kr_box *b, const char *user, struct kr_disk_ask *ask, struct kr_err *err)
{
    struct kr_box_user *u = kr_box_user_get(b, user);
    int r = 0;

    ask->walk = NULL;
    if (!u)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "disk account");
    if (u->walk) {
        ask->walk = u->walk;
        TAILQ_INSERT_TAIL(&u->walk->next, ask, link);
    } else {
        r = start_walk(b, u, ask, err);
    }
    kr_box_user_drop(b, u);
    return r;
}

void kr_box_disk_forget(struct kr_disk_ask *ask)
{
    const struct kr_disk_ask *other;
    struct kr_disk_walk *w = ask->walk;

    if (!w)
        return;
    ask->walk = NULL;
    TAILQ_FOREACH(other, &w->next, link)
    if (other == ask) {
        TAILQ_REMOVE(&w->next, ask, link);
        return;
    }
    TAILQ_REMOVE(&w->served, ask, link);
}

/* ---- what programs may add ---- */

static bool is_fresh(const struct kr_box *b, const struct kr_box_user *u)
{
    bool is_far = u->disk + b->config.profiles[b->config.dialect].limits.disk < b->config.max_disk_per_user / 2;

    return u->disk_ns && (kr_clock_ns() - u->disk_ns) / 1000000 < (is_far ? FAR_LOOK_MS : LOOK_MS);
}

void kr_disk_look(struct kr_box *b, struct kr_box_user *u)
{
    struct kr_err ignored;

    if (b->config.max_disk_per_user && !u->walk && !b->stopping && !is_fresh(b, u))
        (void)start_walk(b, u, NULL, &ignored);
}

uint64_t kr_disk_left(const struct kr_box *b, const struct kr_box_user *u)
{
    uint64_t most = b->config.max_disk_per_user;

    if (!most)
        return 0;
    return u->disk >= most ? 1 : most - u->disk; /* 1: it may read, compute and delete */
}
