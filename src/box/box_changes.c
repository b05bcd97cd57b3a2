/* Which files a run changed: looks at its sandbox's folder before and after it.
 *
 * Called by box_sessions.c (before the first run of a session) and box_run_events.c (at the begin and the end of one).
 * The sessions of a folder share its mirror (mirror.h). A look is done on the loop if it is a matter of a few names,
 * else on the thread pool, in a lane of its own. Invariants: one look at a time for each session and one sync at a time
 * for each folder; a look is answered by a sync that began after it was asked for; the one after a run is the one
 * before the next; a session lives until its look is over; files that are stored while a session waits for its look
 * start it anew RELOOKS times at most, and then the run's list is said to be incomplete. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "hash.h"
#include "json.h"
#include "mirror.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS 2000u
#define RELOOKS 2u
#define LOOKS_AT_ONCE 2u              /* threads; one for each folder */
#define LOOKS_WAITING 65536u          /* folders: more than there are sessions */
#define DRAIN_MS 20u                  /* while runs go on: before the kernel's queue of changes is full */
#define DRAIN_IDLE_MS 1000u           /* while only what they left behind does */
#define KEEP_NS UINT64_C(60000000000) /* a folder without sessions, … */
#define KEEP_MAX 64u                  /* … and how many of them */
#define TRIM_LEAST 32u                /* changes that are kept in any case */
#define BYTES_MAX (256u << 20)        /* of all mirrors: those of idle folders go first */

TAILQ_HEAD(look_list, look);
TAILQ_HEAD(folder_list, kr_box_folder);
TAILQ_HEAD(coded_list, kr_box_session);

/* A session that waits for a sync. */
struct look {
    TAILQ_ENTRY(look) link;
    struct kr_box_session *session;
    struct kr_box_run *run; /* NULL: before it */
    struct kr_mirror_mark since, now;
    struct kr_buf json;
    bool incomplete;
    uint64_t bytes; /* of all files, as they say their sizes; 0: no run asks */
};

/* A folder, and the looks that wait for it. */
struct kr_box_folder {
    TAILQ_ENTRY(kr_box_folder) link;
    struct kr_work work;
    struct kr_box *box;
    struct kr_mirror *mirror;
    char name[KR_FOLDER_ROOM]; /* on the shelf; "": the host's */
    LIST_HEAD(, kr_box_session) sessions;
    struct coded_list coded; /* those of them that have run code, the first to do so first */
    int ws;                  /* open while it is synced */
    struct kr_mirror_max max;
    struct look_list served, next; /* of this sync, and of the one after it */
    uint64_t used_ns;
    size_t bytes;
    size_t trim_at; /* with so many changes kept it is asked which of them are needed */
    int synced_r;
};

struct kr_looks {
    struct kr_lane *lane;
    struct kr_timer *drainer;
    struct folder_list folders; /* least recently used first */
    size_t bytes;               /* of all mirrors */
    unsigned runs, unused;      /* runs that go on; folders without sessions */
};

/* ---- what a run is told ---- */

static void write_changes(struct look *l, const struct kr_changes *c)
{
    struct kr_json j;

    kr_json_init(&j, &l->json);
    kr_json_array(&j);
    for (size_t i = 0; i < c->count; i++) {
        kr_json_object(&j);
        kr_files_json_path(&j, "path", c->files[i].path);
        kr_json_key_str(&j, "change", kr_change_names[c->files[i].change]);
        kr_json_key_uint(&j, "size", c->files[i].size);
        kr_json_object_end(&j);
    }
    kr_json_array_end(&j);
    if (kr_json_done(&j) < 0) {
        kr_buf_reset(&l->json);
        l->incomplete = true;
    }
}

/* The mirror is up to date, or that failed. On the thread that did it. */
static void answer_look(struct kr_mirror *m, int synced_r, struct look *l)
{
    struct kr_changes changes;

    l->now = kr_mirror_mark(m);
    if (synced_r < 0) {
        l->incomplete = true;
        return;
    }
    if (!l->run)
        return;
    if (kr_mirror_changes(m, &l->since, &changes) < 0) {
        l->incomplete = true;
        return;
    }
    l->incomplete = changes.incomplete;
    l->bytes = kr_mirror_sum(m, changes.count > 0);
    write_changes(l, &changes);
    kr_changes_done(&changes);
}

/* ---- folders ---- */

static bool is_busy(const struct kr_box_folder *f)
{
    return kr_work_busy(&f->work);
}

static void free_folder(struct kr_box_folder *f)
{
    struct look *l;

    TAILQ_CONCAT(&f->served, &f->next, link);
    while ((l = TAILQ_FIRST(&f->served))) {
        TAILQ_REMOVE(&f->served, l, link);
        kr_buf_done(&l->json);
        free(l);
    }
    kr_fd_close(f->ws);
    kr_mirror_free(f->mirror);
    free(f);
}

static void run_mirror_free(void *data)
{
    struct kr_box_folder *f = data;

    kr_mirror_free(f->mirror);
    f->mirror = NULL;
}

static void on_mirror_freed(void *data)
{
    free_folder(data);
}

/* It is idle, and no session has a mark of it. A watch ends on the thread pool: the kernel takes its time. */
static void drop_folder(struct kr_box_folder *f)
{
    static const struct kr_work_calls calls = {.run = run_mirror_free, .done = on_mirror_freed};
    struct kr_looks *all = f->box->looks;

    TAILQ_REMOVE(&all->folders, f, link);
    all->unused -= LIST_EMPTY(&f->sessions);
    all->bytes -= f->bytes;
    if (kr_mirror_watched(f->mirror))
        kr_work_start(f->box->loop, &f->work, &calls, f);
    else
        free_folder(f);
}

/* Sessions that were in it look anew before their next run. */
static bool drop_idle_folder(struct kr_box_folder *f)
{
    struct kr_box_session *session;

    if (is_busy(f))
        return false;
    LIST_FOREACH(session, &f->sessions, folder_link)
    if (session->current)
        return false;
    while ((session = LIST_FIRST(&f->sessions))) {
        LIST_REMOVE(session, folder_link);
        session->folder = NULL;
        kr_changes_forget(session);
        f->box->looks->unused += LIST_EMPTY(&f->sessions);
    }
    drop_folder(f);
    return true;
}

/* After a folder has grown, or has lost its last session. */
static void keep_bounds(struct kr_looks *all)
{
    struct kr_box_folder *f, *next;

    for (f = TAILQ_FIRST(&all->folders); f && all->bytes > BYTES_MAX; f = next) {
        next = TAILQ_NEXT(f, link);
        (void)drop_idle_folder(f);
    }
    for (f = TAILQ_FIRST(&all->folders); f && all->unused > 0; f = next) {
        next = TAILQ_NEXT(f, link);
        if (LIST_EMPTY(&f->sessions) && !is_busy(f) &&
            (all->unused > KEEP_MAX || !kr_mirror_watched(f->mirror) || kr_clock_ns() - f->used_ns > KEEP_NS))
            drop_folder(f);
    }
}

static void on_drain(void *data)
{
    struct kr_looks *all = data;
    struct kr_box_folder *f;
    bool is_watched = false;

    TAILQ_FOREACH(f, &all->folders, link)
    if (!is_busy(f) && kr_mirror_watched(f->mirror)) {
        is_watched = true;
        kr_mirror_drain(f->mirror);
    } else if (is_busy(f)) {
        is_watched = true; /* it may be */
    }
    keep_bounds(all);
    if (is_watched)
        kr_timer_arm(all->drainer, all->runs > 0 ? DRAIN_MS : DRAIN_IDLE_MS);
}

int kr_changes_open(struct kr_box *b)
{
    struct kr_looks *all = b->looks = calloc(1, sizeof *all);

    if (!all)
        return -ENOMEM;
    TAILQ_INIT(&all->folders);
    if (kr_lane_new(b->loop, LOOKS_AT_ONCE, LOOKS_WAITING, &all->lane) < 0)
        return -ENOMEM;
    kr_lane_bound_each(all->lane, 1);
    return kr_timer_new(b->loop, on_drain, all, &all->drainer);
}

void kr_changes_close(struct kr_box *b)
{
    struct kr_looks *all = b->looks;
    struct kr_box_folder *f, *next;

    if (!all)
        return;
    for (f = TAILQ_FIRST(&all->folders); f; f = next) {
        next = TAILQ_NEXT(f, link);
        if (!is_busy(f))
            free_folder(f);
    }
    kr_lane_close(all->lane); /* frees those that are synced, now or after that */
    kr_timer_close(all->drainer);
    free(all);
    b->looks = NULL;
}

/* Into its folder's order of those that have run code, or out of it. Almost always it is the last. */
static void set_coded(struct kr_box_session *session, bool coded)
{
    struct kr_box_session *before = NULL;

    if (session->coded)
        TAILQ_REMOVE(&session->folder->coded, session, coded_link);
    session->coded = coded && session->folder;
    if (!session->coded)
        return;
    TAILQ_FOREACH_REVERSE(before, &session->folder->coded, coded_list, coded_link)
    if (before->code_ns <= session->code_ns)
        break;
    if (before)
        TAILQ_INSERT_AFTER(&session->folder->coded, before, session, coded_link);
    else
        TAILQ_INSERT_HEAD(&session->folder->coded, session, coded_link);
}

void kr_changes_leave(struct kr_box_session *session)
{
    struct kr_box_folder *f = session->folder;

    if (!f)
        return;
    LIST_REMOVE(session, folder_link);
    set_coded(session, false);
    session->folder = NULL;
    if (!LIST_EMPTY(&f->sessions))
        return;
    f->used_ns = kr_clock_ns();
    f->box->looks->unused++;
    keep_bounds(f->box->looks);
}

static struct kr_box_folder *make_folder(struct kr_box *b, const char *name)
{
    struct kr_box_folder *f = calloc(1, sizeof *f);

    if (!f || kr_mirror_new(&f->mirror) < 0) {
        free(f);
        return NULL;
    }
    f->box = b;
    f->ws = -1;
    snprintf(f->name, sizeof f->name, "%s", name);
    TAILQ_INIT(&f->coded);
    TAILQ_INIT(&f->served);
    TAILQ_INIT(&f->next);
    TAILQ_INSERT_TAIL(&b->looks->folders, f, link);
    b->looks->unused++;
    return f;
}

/* The folder that the session is in. NULL: no memory. */
static struct kr_box_folder *join_folder(struct kr_box_session *session)
{
    struct kr_looks *all = session->box->looks;
    struct kr_box_folder *f = session->folder;

    if (f && strcmp(f->name, session->spec.folder) == 0)
        return f;
    kr_changes_leave(session);
    TAILQ_FOREACH(f, &all->folders, link)
    if (strcmp(f->name, session->spec.folder) == 0)
        break;
    if (!f && !(f = make_folder(session->box, session->spec.folder)))
        return NULL;
    all->unused -= LIST_EMPTY(&f->sessions);
    LIST_INSERT_HEAD(&f->sessions, session, folder_link);
    session->folder = f;
    set_coded(session, session->code_ns > 0);
    return f;
}

static int open_folder(const struct kr_box_folder *f)
{
    char path[KR_FOLDER_ROOM + 8];

    if (!f->name[0])
        return openat(f->box->host, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/files", f->name);
    return openat(f->box->shelf, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Since when the oldest process has the folder that runs a user's code. A session that has not run any is krait's own
 * code; one whose process has ended has nothing open. Host folders belong to other programs too. */
static uint64_t oldest_code(const struct kr_box_folder *f)
{
    const struct kr_box_session *session;
    uint64_t oldest_ns = f->name[0] ? UINT64_MAX : 0;

    TAILQ_FOREACH(session, &f->coded, coded_link)
    if (session->engine_session && session->executions > 0)
        return session->code_ns < oldest_ns ? session->code_ns : oldest_ns;
    return oldest_ns;
}

/* ---- syncs ---- */

/* On the thread pool: touches the folder's mirror and its looks alone. */
static void run_sync(void *data)
{
    struct kr_box_folder *f = data;
    struct look *l;

    f->max.deadline_ns = kr_clock_after_ms(LOOK_MS);
    f->synced_r = kr_mirror_sync(f->mirror, f->ws, &f->max);
    TAILQ_FOREACH(l, &f->served, link)
    answer_look(f->mirror, f->synced_r, l);
}

static void start_sync(struct kr_box_folder *f);

/* What no session has a mark before is not needed any more. A folder may have thousands of sessions, so they are asked
 * only when there is twice as much as the last time left. */
static void trim_mirror(struct kr_box_folder *f)
{
    struct kr_mirror_mark oldest = kr_mirror_mark(f->mirror);
    const struct kr_box_session *session;

    if (kr_mirror_kept(f->mirror) < f->trim_at)
        return;
    LIST_FOREACH(session, &f->sessions, folder_link)
    if ((session->current || session->look == KR_BOX_LOOK_DONE) && session->mark.at < oldest.at)
        oldest = session->mark;
    kr_mirror_trim(f->mirror, &oldest);
    f->trim_at = 2 * kr_mirror_kept(f->mirror) + TRIM_LEAST;
}

/* Counts its memory, and has changes drained from now on if the kernel tells them. */
static void settle_folder(struct kr_box_folder *f)
{
    struct kr_looks *all = f->box->looks;

    trim_mirror(f);
    all->bytes -= f->bytes;
    f->bytes = kr_mirror_bytes(f->mirror);
    all->bytes += f->bytes;
    f->used_ns = kr_clock_ns();
    if (f != TAILQ_LAST(&all->folders, folder_list)) {
        TAILQ_REMOVE(&all->folders, f, link);
        TAILQ_INSERT_TAIL(&all->folders, f, link);
    }
    if (kr_mirror_watched(f->mirror) && !kr_timer_armed(all->drainer))
        kr_timer_arm(all->drainer, DRAIN_MS);
}

/* Other sessions in the same folder look again before their next run, so that it does not report these changes. */
static void forget_others(const struct kr_box_session *changed)
{
    struct kr_box_session *session;

    if (changed->folder)
        LIST_FOREACH(session, &changed->folder->sessions, folder_link)
    if (session != changed && !session->current && !kr_changes_looking(session))
        kr_changes_forget(session);
}

/* The one after a run is the one before the next. Frees the look. */
static void finish_look(struct look *l)
{
    struct kr_box_session *session = l->session;
    struct kr_box_run *run = l->run;
    bool was_stale = session->look == KR_BOX_LOOK_STALE, looks_again = was_stale && session->relooks < RELOOKS;

    session->mark = l->now;
    session->look = looks_again ? KR_BOX_LOOK_NEEDED : KR_BOX_LOOK_DONE;
    session->relooks = looks_again ? session->relooks + 1 : 0;
    session->unsure |= was_stale && !looks_again;
    if (run) {
        l->incomplete |= session->unsure;
        session->unsure = false;
        if (l->json.len > strlen("[]"))
            forget_others(session);
        kr_box_run_finish(run, l->json.len ? kr_buf_str(&l->json) : NULL, l->incomplete, l->bytes);
    }
    kr_buf_done(&l->json);
    free(l);
}

static void finish_looks(struct kr_box *b, struct look_list *looks)
{
    struct look *l;

    kr_box_job_begin(b); /* so that the box does not stop before the last of them */
    while ((l = TAILQ_FIRST(looks))) {
        struct kr_box_session *session = l->session;
        bool was_before = !l->run;

        TAILQ_REMOVE(looks, l, link);
        finish_look(l);
        if (was_before)
            kr_box_session_proceed(session);
    }
    (void)kr_box_job_end(b);
}

static void on_synced(void *data)
{
    struct kr_box_folder *f = data;
    struct look_list looks = TAILQ_HEAD_INITIALIZER(looks);
    struct kr_box *b = f->box;

    if (!kr_box_job_end(b)) { /* sessions and runs went with it */
        free_folder(f);
        return;
    }
    f->ws = kr_fd_close(f->ws);
    TAILQ_CONCAT(&looks, &f->served, link);
    settle_folder(f);
    if (!TAILQ_EMPTY(&f->next))
        start_sync(f);
    finish_looks(b, &looks);
}

/* For all that wait. */
static void start_sync(struct kr_box_folder *f)
{
    static const struct kr_work_calls calls = {.run = run_sync, .done = on_synced, .dropped = on_synced};
    struct kr_lane *lane = f->box->looks->lane;

    TAILQ_CONCAT(&f->served, &f->next, link);
    f->max = (struct kr_mirror_max){.oldest_ns = oldest_code(f)};
    f->ws = open_folder(f);
    kr_box_job_begin(f->box);
    if (kr_lane_start_for(lane, kr_hash_text(KR_HASH_START, f->name), &f->work, &calls, f) < 0)
        kr_work_start(f->box->loop, &f->work, &calls, f);
}

/* A few names are looked at here: they were in use a moment ago, so the system has them in memory, and a thread would
 * take longer to wake. False: there are more, and others must not wait for them. */
static bool look_here(struct kr_box_folder *f, struct look *l)
{
    struct kr_mirror_max max = {.here = true, .oldest_ns = oldest_code(f)};

    if (is_busy(f) || !f->name[0])
        return false;
    f->ws = open_folder(f);
    f->synced_r = f->ws < 0 ? -errno : kr_mirror_sync(f->mirror, f->ws, &max);
    f->ws = kr_fd_close(f->ws);
    if (f->synced_r == -EAGAIN)
        return false;
    answer_look(f->mirror, f->synced_r, l);
    settle_folder(f);
    return true;
}

/* ---- for sessions ---- */

bool kr_changes_looking(const struct kr_box_session *session)
{
    return session->look == KR_BOX_LOOK_UNDER_WAY || session->look == KR_BOX_LOOK_STALE;
}

void kr_changes_forget(struct kr_box_session *session)
{
    if (session->spec.workspace == KR_WORKSPACE_NONE)
        session->look = KR_BOX_LOOK_DONE;
    else
        session->look = kr_changes_looking(session) ? KR_BOX_LOOK_STALE : KR_BOX_LOOK_NEEDED;
}

void kr_changes_begin(struct kr_box_session *session)
{
    struct kr_looks *all = session->box->looks;

    if (session->executions == 1) {
        session->code_ns = kr_clock_ns();
        set_coded(session, true);
    }
    if (session->spec.workspace == KR_WORKSPACE_NONE)
        return;
    if (all->runs++ == 0 && kr_timer_armed(all->drainer))
        kr_timer_arm(all->drainer, DRAIN_MS);
}

void kr_changes_end(struct kr_box_session *session)
{
    if (session->spec.workspace != KR_WORKSPACE_NONE)
        session->box->looks->runs--;
}

void kr_changes_look(struct kr_box_session *session, struct kr_box_run *run)
{
    struct kr_looks *all = session->box->looks;
    struct look *l = calloc(1, sizeof *l);
    struct kr_box_folder *f;

    if (all->bytes > BYTES_MAX)
        keep_bounds(all);
    f = join_folder(session);
    if (run)
        all->runs--;
    if (!f || !l) {
        free(l);
        session->look = KR_BOX_LOOK_DONE;
        session->mark = (struct kr_mirror_mark){0};
        if (run)
            kr_box_run_finish(run, NULL, true, 0);
        return;
    }
    *l = (struct look){.session = session, .run = run, .since = session->mark};
    kr_buf_init(&l->json, KR_STORE_FILES_MAX);
    if (look_here(f, l)) {
        finish_look(l);
        return;
    }
    session->look = KR_BOX_LOOK_UNDER_WAY;
    TAILQ_INSERT_TAIL(&f->next, l, link);
    if (!is_busy(f))
        start_sync(f);
}
