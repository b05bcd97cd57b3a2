/* How much disk a user has, so that an upload does not pass the user's limit. Called by file_feed.c and file_routes.c.
 *
 * An account is measured by walking the folders of all the user's sandboxes, one after the other on the thread pool, and is
 * believed for FRESH_MS, or FAR_FRESH_MS when it is far from the limit; uploads of that time are added to it as their bytes
 * come, so that several at once share what is left. What programs write meanwhile is seen at the next measuring.
 * Invariant: an account lives while somebody sits in it or it is being measured; seats that wait are told once. */
#include "file_request.h"
#include "clock.h"
#include "fd.h"
#include "walk.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRESH_MS 30000u
#define FAR_FRESH_MS 600000u /* while less than half of the limit is used */
#define WALK_MS 2000u
#define WALK_ENTRIES 200000u
#define ACCOUNTS_MAX 256u    /* kept though nobody sits in them */
#define SANDBOXES_MAX 10000u /* of one user that are looked at */

struct kr_quota {
    TAILQ_ENTRY(kr_quota) link; /* most recently used first */
    struct kr_api_files *files;
    char user[KR_STORE_ID_ROOM];
    uint64_t used, measured_ns; /* measured_ns 0: not yet, or stale */
    unsigned seats;
    bool busy;
    TAILQ_HEAD(, kr_quota_seat) waiting;
    struct kr_work work; /* the measuring: */
    char (*folders)[KR_STORE_ID_ROOM];
    size_t count, room, next;
    int ws;
    uint64_t sum;
    struct kr_files_usage usage;
};

/* ---- measuring ---- */

static void drop(struct kr_quota *q)
{
    TAILQ_REMOVE(&q->files->quotas, q, link);
    q->files->quota_count--;
    kr_fileops_unref(&q->files->ops);
    free(q->folders);
    free(q);
}

static void finish(struct kr_quota *q)
{
    struct kr_quota_seat *seat;

    q->busy = false;
    q->used = q->sum;
    q->measured_ns = kr_clock_ns();
    q->seats++; /* whoever is told may leave at once */
    while ((seat = TAILQ_FIRST(&q->waiting))) {
        TAILQ_REMOVE(&q->waiting, seat, link);
        seat->waiting = false;
        seat->on_ready(seat);
    }
    q->seats--;
    if (!q->files->api && q->seats == 0)
        drop(q);
}

/* On the thread pool. What cannot be read counts as nothing: it is there to be deleted, too. */
static void run_measure(void *data)
{
    struct kr_quota *q = data;
    struct kr_walk_max max = {.entries = WALK_ENTRIES, .deadline_ns = kr_clock_after_ms(WALK_MS)};
    struct kr_err ignored;

    if (kr_files_usage(q->ws, "", &max, &q->usage, &ignored) < 0)
        q->usage = (struct kr_files_usage){0};
}

static void on_measured(void *data);

static void measure_next(struct kr_quota *q)
{
    static const struct kr_work_calls calls = {.run = run_measure, .done = on_measured};
    struct kr_err ignored;

    for (; q->files->api && q->next < q->count; q->next++) {
        struct kr_sandbox s = {0};

        memcpy(s.row.folder, q->folders[q->next], sizeof s.row.folder);
        q->ws = kr_box_sandbox_folder(q->files->api->box, &s, &ignored);
        if (q->ws < 0)
            continue; /* gone meanwhile */
        q->next++;
        kr_work_start(q->files->ops.loop, &q->work, &calls, q);
        return;
    }
    finish(q);
}

static void on_measured(void *data)
{
    struct kr_quota *q = data;

    q->ws = kr_fd_close(q->ws);
    q->sum += q->usage.bytes;
    measure_next(q);
}

static void on_sandbox(void *data, const struct kr_store_sandbox *sandbox)
{
    struct kr_quota *q = data;

    if (q->count == q->room) {
        size_t room = q->room ? 2 * q->room : 16;
        char(*moved)[KR_STORE_ID_ROOM] = realloc(q->folders, room * sizeof *moved);

        if (!moved)
            return; /* counted too low rather than refused */
        q->folders = moved;
        q->room = room;
    }
    memcpy(q->folders[q->count++], sandbox->folder, KR_STORE_ID_ROOM);
}

static int measure(struct kr_quota *q, struct kr_err *err)
{
    char after[KR_STORE_CURSOR_ROOM] = "";
    int r;

    q->count = q->next = 0;
    q->sum = 0;
    do {
        struct kr_store_page page = {.after = after, .limit = KR_STORE_PAGE_MAX};

        r = kr_store_sandboxes_list(q->files->api->store, q->user, &page, on_sandbox, q, err);
        if (r < 0)
            return r;
        memcpy(after, page.next, sizeof after);
    } while (after[0] && q->count < SANDBOXES_MAX);
    q->busy = true;
    measure_next(q);
    return 0;
}

/* ---- accounts ---- */

static bool is_far(const struct kr_quota *q)
{
    return q->used < kr_box_config(q->files->api->box)->max_disk_per_user / 2;
}

static bool is_fresh(const struct kr_quota *q)
{
    uint64_t age_ms = (kr_clock_ns() - q->measured_ns) / 1000000;

    return !q->busy && q->measured_ns && age_ms < (is_far(q) ? FAR_FRESH_MS : FRESH_MS);
}

static struct kr_quota *find(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q;

    TAILQ_FOREACH(q, &f->quotas, link)
    if (strcmp(q->user, user) == 0)
        return q;
    return NULL;
}

/* Lets go of the account that was not used for longest. Forwards: TAILQ_LAST() of glibc reads the links as another type
 * than they are written, and the optimizer takes it at its word. */
static void make_room(struct kr_api_files *f)
{
    struct kr_quota *q, *oldest = NULL;

    if (f->quota_count < ACCOUNTS_MAX)
        return;
    TAILQ_FOREACH(q, &f->quotas, link)
    if (q->seats == 0 && !q->busy)
        oldest = q;
    if (oldest)
        drop(oldest);
}

static struct kr_quota *get(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q = find(f, user);

    if (q) {
        TAILQ_REMOVE(&f->quotas, q, link);
        TAILQ_INSERT_HEAD(&f->quotas, q, link);
        return q;
    }
    make_room(f);
    q = calloc(1, sizeof *q);
    if (!q)
        return NULL;
    q->files = f;
    kr_fileops_ref(&f->ops);
    memcpy(q->user, user, strnlen(user, sizeof q->user - 1));
    TAILQ_INIT(&q->waiting);
    TAILQ_INSERT_HEAD(&f->quotas, q, link);
    f->quota_count++;
    return q;
}

int kr_quota_join(struct kr_api_files *f, const struct kr_caller *who, struct kr_quota_seat *seat,
                  void (*on_ready)(struct kr_quota_seat *seat), struct kr_err *err)
{
    struct kr_quota *q;
    int r = 0;

    *seat = (struct kr_quota_seat){.on_ready = on_ready};
    if (kr_box_config(f->api->box)->max_disk_per_user == 0) {
        on_ready(seat);
        return 0;
    }
    q = get(f, who->user);
    if (!q)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "disk account");
    seat->quota = q;
    q->seats++;
    if (is_fresh(q)) {
        on_ready(seat);
        return 0;
    }
    seat->waiting = true;
    TAILQ_INSERT_TAIL(&q->waiting, seat, link);
    if (!q->busy)
        r = measure(q, err);
    if (r < 0)
        kr_quota_leave(seat);
    return r;
}

int kr_quota_room(const struct kr_quota_seat *seat, uint64_t bytes, struct kr_err *err)
{
    uint64_t limit, used;

    if (!seat->quota || !seat->quota->files->api)
        return 0;
    limit = kr_box_config(seat->quota->files->api->box)->max_disk_per_user;
    used = seat->quota->used;
    if (used <= limit && bytes <= limit - used)
        return 0;
    kr_err_set(err, KR_ERR_LIMIT, 0,
               "your files may take %" PRIu64 " bytes in all, and %" PRIu64 " are taken: delete some first", limit,
               used);
    err->code = EDQUOT;
    return -EDQUOT;
}

int kr_quota_charge(struct kr_quota_seat *seat, uint64_t bytes, struct kr_err *err)
{
    int r = kr_quota_room(seat, bytes, err);

    if (r < 0 || !seat->quota)
        return r;
    seat->quota->used += bytes;
    seat->charged += bytes;
    return 0;
}

void kr_quota_leave(struct kr_quota_seat *seat)
{
    struct kr_quota *q = seat->quota;
    int64_t now;

    if (!q)
        return;
    if (seat->waiting)
        TAILQ_REMOVE(&q->waiting, seat, link);
    now = (int64_t)(q->used - (seat->charged < q->used ? seat->charged : q->used)) + seat->kept;
    q->used = now > 0 ? (uint64_t)now : 0;
    *seat = (struct kr_quota_seat){0};
    q->seats--;
    if (!q->files->api && q->seats == 0 && !q->busy)
        drop(q);
}

void kr_quota_stale(struct kr_api_files *f, const char *user)
{
    struct kr_quota *q = find(f, user);

    if (q && f->api && !is_far(q))
        q->measured_ns = 0;
}

void kr_quotas_close(struct kr_api_files *f)
{
    struct kr_quota *q, *next;

    for (q = TAILQ_FIRST(&f->quotas); q; q = next) {
        next = TAILQ_NEXT(q, link);
        if (q->seats == 0 && !q->busy)
            drop(q);
    }
}
