/* The domain as a whole: its life, its users, what is done once a turn of the loop and once in a while.
 *
 * Called by `krait serve` and `krait mcp`. Invariants: rows of runs and audit are safe from kill -9 before a client
 * hears of them, and are written to the store together; callbacks to the voices come from the kick, never from
 * inside their own calls; upkeep is done in small pieces. */
#include "box_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "log.h"
#include "store_audit.h"
#include "store_key.h"
#include "work.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DOOMED_AT_ONCE 8u
#define DELETE_STEPS 5000u
#define PRUNE_AGAIN_MS 20u
#define DISK_KNOWN_MS 600000u
#define SHRINK_PAGES 64u
#define SETTLE_MS 200u           /* rows of runs and audit wait so long to be written together, … */
#define SETTLE_BYTES (64u << 10) /* … unless there are so many: more would hold the loop up, and save nothing */
#define SETTLE_AGAIN_MS 1000u
#define LOCK_TRIES 400 /* the start of another process holds it for a moment */
#define LOCK_STEP_MS 5
#define HURRY_MS 100u /* to the first upkeep, and … */
#define HURRIES 30u   /* … so many more while a predecessor lets go of its locks */

/* ---- users ---- */

struct kr_box_user *kr_box_user_get(struct kr_box *b, const char *id)
{
    struct kr_box_user *u;

    TAILQ_FOREACH(u, &b->users, link)
    if (strcmp(u->id, id) == 0)
        break;
    if (!u) {
        u = calloc(1, sizeof *u);
        if (!u)
            return NULL;
        snprintf(u->id, sizeof u->id, "%s", id);
        u->number = ++b->last_user;
        u->tokens = b->config.runs_per_minute;
        u->tokens_ns = kr_clock_ns();
        TAILQ_INSERT_HEAD(&b->users, u, link);
    }
    u->refs++;
    return u;
}

static void refill_tokens(const struct kr_box *b, struct kr_box_user *u)
{
    uint64_t now = kr_clock_ns();
    double most = b->config.runs_per_minute;

    u->tokens += (double)(now - u->tokens_ns) / 60e9 * most;
    u->tokens_ns = now;
    if (u->tokens > most)
        u->tokens = most;
}

/* A user who has used up runs is kept until they have come back; the size of a user's disk is kept for
 * DISK_KNOWN_MS. */
void kr_box_user_drop(struct kr_box *b, struct kr_box_user *u)
{
    if (--u->refs > 0)
        return;
    refill_tokens(b, u);
    if (b->config.runs_per_minute && u->tokens < b->config.runs_per_minute - 0.5)
        return;
    if (u->disk_ns && kr_clock_ns() - u->disk_ns < DISK_KNOWN_MS * UINT64_C(1000000) && !b->stopping)
        return;
    TAILQ_REMOVE(&b->users, u, link);
    free(u);
}

int kr_box_user_may_run(struct kr_box *b, struct kr_box_user *u, struct kr_err *err)
{
    if (!b->config.runs_per_minute)
        return 0;
    refill_tokens(b, u);
    if (u->tokens < 1)
        return kr_err_set(err, KR_ERR_TOO_MANY, 0, "more than %u runs a minute; try again in a moment",
                          b->config.runs_per_minute);
    u->tokens -= 1;
    return 0;
}

static void forget_users(struct kr_box *b)
{
    struct kr_box_user *u, *next;

    for (u = TAILQ_FIRST(&b->users); u; u = next) {
        next = TAILQ_NEXT(u, link);
        if (u->refs == 0) {
            u->refs = 1;
            kr_box_user_drop(b, u);
        }
    }
}

/* ---- a turn of the loop ---- */

void kr_box_kick(struct kr_box *b)
{
    kr_soon_ask(b->kick);
}

/* ---- rows of runs and audit ---- */

static void settle(struct kr_box *b)
{
    struct kr_err err;

    if (kr_store_settle(b->config.store, &err) >= 0) {
        b->settle_fail = false;
        return;
    }
    if (!b->settle_fail)
        kr_log(KR_LOG_ERROR, "rows of runs and audit not written, trying again", "error=\"%s\"", err.msg);
    b->settle_fail = true;
    kr_timer_arm(b->settler, SETTLE_AGAIN_MS);
}

void kr_box_noted(struct kr_box *b, bool at_once)
{
    struct kr_err err;

    if (kr_store_notes_waiting(b->config.store) == 0)
        return;
    if (!kr_timer_armed(b->settler))
        kr_timer_arm(b->settler, SETTLE_MS);
    if (!at_once) {
        kr_box_kick(b); /* which writes them */
        return;
    }
    if (kr_store_notes_write(b->config.store, &err) >= 0) {
        b->notes_fail = false;
        return;
    }
    if (!b->settle_fail) /* the database may have room that the notes do not */
        settle(b);
    if (!b->notes_fail && kr_store_notes_waiting(b->config.store) > 0) {
        b->notes_fail = true;
        kr_log(KR_LOG_ERROR, "notes of runs and audit not safe from a crash", "error=\"%s\"", err.msg);
    }
}

int kr_box_can_note(struct kr_box *b, struct kr_err *err)
{
    size_t waited = kr_store_notes_waiting(b->config.store);
    int r = kr_store_notes_ready(b->config.store, err);

    if (r >= 0) {
        b->notes_fail = false;
        return 0;
    }
    if (!b->settle_fail && waited > 0)
        settle(b);
    if (waited > 0 && kr_store_notes_waiting(b->config.store) == 0)
        return 0; /* the database takes what the notes do not */
    return kr_err_wrap(err, r, "runs cannot be noted");
}

static void on_settle(void *data)
{
    settle(data);
}

static void tell_live_openers(struct kr_box *b)
{
    struct kr_box_session *session, *next;

    if (!b->live_openers)
        return;
    b->live_openers = false;
    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        struct kr_box_session_info info;

        next = TAILQ_NEXT(session, link);
        if (session->state != KR_BOX_SESSION_LIVE)
            continue;
        kr_box_session_get_info(session, &info);
        while (session->opener_count > 0) {
            session->opener_count--;
            session->openers[session->opener_count].on_open(session->openers[session->opener_count].data, &info, NULL);
        }
    }
}

static void on_kick(void *data)
{
    struct kr_box *b = data;

    kr_box_noted(b, true); /* before any starter hears of its run */
    kr_box_tell_admitted(b);
    kr_box_sessions_admit(b);
    tell_live_openers(b);
    if (kr_store_notes_waiting(b->config.store) > SETTLE_BYTES && !b->settle_fail)
        settle(b);
    kr_box_check_stopped(b);
}

void kr_box_audit_soon(struct kr_box *b, const struct kr_caller *who, const char *what, const char *object,
                       const char *outcome, const char *detail)
{
    struct kr_store_audit row = {.at = kr_store_now(),
                                 .who = who ? who->user : "",
                                 .what = what,
                                 .object = object,
                                 .outcome = outcome,
                                 .address = who ? who->address : "",
                                 .request = who ? who->request : "",
                                 .detail = detail};
    struct kr_err err;

    if (kr_store_audit_add(b->config.store, &row, &err) < 0)
        kr_log(KR_LOG_ERROR, "audit row lost", "what=%s error=\"%s\"", what, err.msg);
    kr_box_noted(b, false);
}

void kr_box_audit(struct kr_box *b, const struct kr_caller *who, const char *what, const char *object,
                  const char *outcome, const char *detail)
{
    kr_box_audit_soon(b, who, what, object, outcome, detail);
    kr_box_noted(b, true); /* the answer may leave before the end of the turn */
}

/* ---- upkeep ---- */

struct removal {
    struct kr_work work;
    struct kr_box *box;
    int shelf;
    char folder[KR_STORE_ID_ROOM];
    int result; /* 0: gone; 1: more is left; -errno */
    struct kr_shelf_ask ask;
    bool was_emptied;
    bool keeps_top; /* the holder removes the folder itself when its files are gone */
};

void kr_box_job_begin(struct kr_box *b)
{
    b->jobs++;
}

bool kr_box_job_end(struct kr_box *b)
{
    b->jobs--;
    if (!b->freed) {
        kr_box_kick(b); /* a stop may wait for it */
        return true;
    }
    if (b->jobs == 0)
        free(b);
    return false;
}

static void run_removal(void *data)
{
    struct removal *m = data;
    struct kr_files_budget bound = {.steps = DELETE_STEPS, .deadline_ns = kr_clock_after_ms(500)};
    struct kr_err err;
    cleanup_fd int fd = openat(m->shelf, m->folder, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        m->result = errno == ENOENT ? 0 : -errno;
        return;
    }
    m->result = kr_files_delete(fd, "", true, &bound, &err);
    if (m->result == 0 && !m->keeps_top && unlinkat(m->shelf, m->folder, AT_REMOVEDIR) < 0)
        m->result = -errno;
}

static void remove_doomed(struct kr_box *b);
static void on_dropped(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err);

static void on_removed(void *data)
{
    struct removal *m = data;
    struct kr_box *b = m->box;
    struct kr_err err;

    if (!kr_box_job_end(b)) {
        free(m);
        return;
    }
    if (m->result == 0 && m->keeps_top) {
        m->keeps_top = false;
        kr_box_job_begin(b);
        if (kr_shelf_ask(b, KR_SHELF_DROP, m->folder, &m->ask, on_dropped, m) >= 0)
            return;
        (void)kr_box_job_end(b);
        m->result = -EIO;
    }
    b->sweeping = false;
    if (m->result < 0)
        b->doomed_skip = (b->doomed_skip + 1) % DOOMED_AT_ONCE;
    if (m->result == 0 && kr_store_doomed_done(b->config.store, m->folder, &err) < 0)
        kr_log(KR_LOG_WARN, "store", "error=\"%s\"", err.msg);
    if (m->result < 0)
        kr_log(KR_LOG_WARN, "folder of a deleted sandbox not removed, trying again", "folder=%s errno=%d", m->folder,
               -m->result);
    if (m->result >= 0)
        remove_doomed(b); /* there may be more: the folder of every run that had one of its own */
    free(m);
    kr_box_check_stopped(b);
}

static void remove_files(struct removal *m)
{
    static const struct kr_work_calls calls = {.run = run_removal, .done = on_removed};

    kr_work_start(m->box->loop, &m->work, &calls, m);
}

/* A subvolume is gone with all that is in it. A project's folder must be empty before its id is free. Of a plain folder
 * the holder removes nothing. */
static void on_dropped(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct removal *m = data;
    bool was_tried = m->result == 0 && m->was_emptied;

    m->result = shelved || err->code == ENOENT ? 0 : -(err->code ? err->code : EIO);
    m->keeps_top = m->result == -ENOTEMPTY && !was_tried;
    if (m->keeps_top || (shelved && shelved->kind == KR_SHELF_IS_FOLDER)) {
        m->was_emptied = true;
        remove_files(m);
    } else {
        on_removed(m);
    }
}

/* A folder that a session still has open as its workspace waits. */
static void on_doomed(void *data, const char *folder)
{
    struct kr_box *b = data;
    struct kr_box_session *session;
    struct removal *m;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (strcmp(session->spec.folder, folder) == 0 || strcmp(session->home, folder) == 0)
        return;
    if (b->doomed_seen++ < b->doomed_skip)
        return;
    if (b->sweeping || !(m = calloc(1, sizeof *m)))
        return;
    m->box = b;
    m->shelf = b->shelf;
    snprintf(m->folder, sizeof m->folder, "%s", folder);
    kr_box_job_begin(b);
    b->sweeping = true;
    if (kr_shelf_ask(b, KR_SHELF_DROP, folder, &m->ask, on_dropped, m) < 0)
        remove_files(m);
}

/* One after the other: a removal asks for the next. */
static void remove_doomed(struct kr_box *b)
{
    struct kr_err err;

    b->doomed_seen = 0;
    if (!b->stopping && kr_store_doomed_list(b->config.store, kr_store_now(), DOOMED_AT_ONCE, on_doomed, b, &err) < 0)
        kr_log(KR_LOG_WARN, "store", "error=\"%s\"", err.msg);
}

static void on_run_pruned(void *data, const char *id)
{
    (void)kr_runlogs_delete(((struct kr_box *)data)->logs, id);
}

/* Removes a small piece, and another one soon if that was not all: a busy day makes more rows than any fixed number of
 * pieces a minute removes. */
static void on_prune(void *data)
{
    struct kr_box *b = data;
    struct kr_store *s = b->config.store;
    struct kr_store_keep keep = {.bytes = b->config.max_data};
    struct kr_err err;
    int lines, runs, rows = 0, grants = 0;

    if (b->config.retention_ms)
        keep.since = kr_store_now() - (int64_t)b->config.retention_ms * 1000;
    if (b->stopping)
        return;
    lines = kr_connections_prune(b, keep.since);
    if (lines == 0)
        lines = kr_security_prune(b->security, keep.since);
    if (lines > 0)
        kr_timer_arm(b->pruner, PRUNE_AGAIN_MS);
    if (lines < 0 || (!keep.since && !keep.bytes))
        return;
    runs = kr_store_runs_prune(s, &keep, on_run_pruned, b, &err);
    if (runs >= 0)
        rows = kr_store_audit_prune(s, &keep, &err);
    if (rows >= 0)
        grants = kr_store_grants_prune(s, keep.since, kr_store_now(), &err);
    if (runs < 0 || rows < 0 || grants < 0)
        kr_log(KR_LOG_WARN, "retention", "error=\"%s\"", err.msg);
    else if (runs > 0 || rows > 0)
        kr_timer_arm(b->pruner, PRUNE_AGAIN_MS);
    else if (lines == 0 && kr_store_shrink(s, SHRINK_PAGES, &err) < 0)
        kr_log(KR_LOG_WARN, "store", "error=\"%s\"", err.msg);
}

static void on_trimmed(void *data, const struct kr_runlogs_trimmed *result)
{
    struct kr_box *b = data;

    b->trimming = false;
    b->data_bytes = result->bytes + kr_store_size(b->config.store);
    kr_box_check_stopped(b);
}

/* One of the processes on a data directory does retention: the first that has the lock, until it ends. */
static bool is_keeper(struct kr_box *b)
{
    if (!b->keeper)
        b->keeper = flock(b->logs_dir, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    return b->keeper;
}

/* Is this the only process on the data directory at this moment? The lock is shared again afterwards. */
static bool is_alone(struct kr_box *b)
{
    bool alone = flock(b->shelf, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;

    (void)flock(b->shelf, LOCK_SH | LOCK_NB);
    return alone;
}

/* Another process may be writing it. If the store cannot say, it is kept. */
static bool keeps_log(void *data, const char *id)
{
    struct kr_box *b = data;

    return kr_store_run_elsewhere(b->config.store, id, NULL) != 0;
}

/* A second more: the clock of files is coarser than that of rows. If the store cannot note it the logs go all the same:
 * its disk may be full, and they are what makes room. */
static void on_logs_deleting(void *data, uint64_t until_ms)
{
    struct kr_box *b = data;
    struct kr_err err;

    if (kr_store_logs_pruned(b->config.store, (int64_t)(until_ms + 1000) * 1000, &err) < 0)
        kr_log(KR_LOG_WARN, "retention not noted, ignoring", "error=\"%s\"", err.msg);
}

static void cull(struct kr_box *b)
{
    struct kr_box_session *session, *next;
    int64_t now = kr_store_now();

    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        int64_t idle_us = (int64_t)session->profile->idle_timeout_ms * 1000;

        next = TAILQ_NEXT(session, link);
        if (session->state == KR_BOX_SESSION_LIVE && !session->current && !session->terminal &&
            !session->waiting_count && !session->opener_count && idle_us > 0 && session->used_us < now - idle_us)
            kr_box_session_end(session, "idle");
    }
}

static void on_upkeep(void *data)
{
    struct kr_box *b = data;
    struct kr_runlogs_trim how = {
        .max_age_s = b->config.retention_ms / 1000, .keeps = keeps_log, .on_deleting = on_logs_deleting, .data = b};
    uint64_t store = kr_store_size(b->config.store);
    bool hurry;

    if (b->stopping)
        return;
    if (!b->cleared && (b->was_alone || is_alone(b))) { /* not at the start, where it would begin with making threads */
        kr_strays_look(b);
        b->cleared = true;
    }
    /* One that was killed a moment ago may still hold its locks. */
    hurry = (!is_keeper(b) || !b->cleared) && b->hurries++ < HURRIES;
    kr_timer_arm(b->upkeep, hurry ? HURRY_MS : b->config.cleanup_interval_ms);
    b->most = 0;
    cull(b);
    forget_users(b);
    kr_box_sessions_admit(b); /* deadlines */
    if (!is_keeper(b))
        return;
    on_prune(b);
    if (b->config.max_data) /* what the store leaves of it; 0 would be no bound */
        how.max_bytes = b->config.max_data > store ? b->config.max_data - store : 1;
    if (!b->trimming && kr_runlogs_trim(b->logs, &how, on_trimmed, b) >= 0)
        b->trimming = true;
    remove_doomed(b);
}

/* The first deadline of a session that waits for a slot is reached. */
static void on_slot_deadline(void *data)
{
    kr_box_sessions_admit(data);
}

/* ---- life ---- */

static int open_folder(int data, const char *name, int *ret, struct kr_err *err)
{
    if (mkdirat(data, name, 0700) < 0 && errno != EEXIST)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "make %s in the data directory", name);
    *ret = openat(data, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return *ret < 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "open %s in the data directory", name) : 0;
}

/* Several processes may have a data directory: each shares the lock of the shelf. A process that can have the lock
 * for itself at its start is alone, and may remove what others left. The lock ends with the process. A file system
 * without locks is treated as if this process were alone. */
static int share_data(struct kr_box *b, struct kr_err *err)
{
    struct timespec moment = {.tv_nsec = LOCK_STEP_MS * 1000000};

    b->was_alone = flock(b->shelf, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    for (int tries = 0; flock(b->shelf, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK; tries++) {
        if (tries == LOCK_TRIES)
            return kr_err_set(err, KR_ERR_BUSY, 0, "the data directory %s is locked by another krait (--data)",
                              b->config.data);
        nanosleep(&moment, NULL);
    }
    return 0;
}

/* The shelf was chosen, and an image mounted, before the lock was shared: a move of the sandboxes (`krait shelf move`)
 * may have ended in between. What was moved away must not be used, so the choice is held against what there is now;
 * from here on no move begins. */
static int check_shelf(const struct kr_box *b, int data, struct kr_err *err)
{
    struct stat image, shelf, now;
    bool named = fstatat(data, "sandboxes.image", &image, AT_SYMLINK_NOFOLLOW) == 0;

    if (!named && errno != ENOENT)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat %s/sandboxes.image", b->config.data);
    if (named != (b->config.image_ino != 0) ||
        (named && ((uint64_t)image.st_ino != b->config.image_ino || (uint64_t)image.st_dev != b->config.image_dev)))
        return kr_err_set(err, KR_ERR_BUSY, EBUSY,
                          named ? "the sandboxes are in %s/sandboxes.image, which is not what is mounted here (`krait "
                                  "shelf move` may just have made it): start krait again"
                                : "the image %s/sandboxes.image is gone (`krait shelf move` may just have removed it): "
                                  "start krait again",
                          b->config.data);
    if (fstat(b->shelf, &shelf) < 0 || fstatat(data, "sandboxes", &now, AT_SYMLINK_NOFOLLOW) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "stat %s/sandboxes", b->config.data);
    if (shelf.st_ino != now.st_ino || shelf.st_dev != now.st_dev)
        return kr_err_set(err, KR_ERR_BUSY, EBUSY, "the folder %s/sandboxes was replaced: start krait again",
                          b->config.data);
    return 0;
}

static int settle_defaults(struct kr_box *b, struct kr_err *err)
{
    const char *name = b->config.profiles[b->config.dialect].sandbox;
    int renamed = kr_store_defaults_settle(b->config.store, name, err);

    if (renamed > 0)
        kr_log(KR_LOG_INFO, "sandboxes called default renamed", "name=%s count=%d", name, renamed);
    return renamed;
}

static int open_data(struct kr_box *b, struct kr_err *err)
{
    struct kr_runlogs_config logs = {0};
    cleanup_fd int data = open(b->config.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (data < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the data directory");
    r = open_folder(data, "sandboxes", &b->shelf, err);
    if (r >= 0)
        r = open_folder(data, "logs", &b->logs_dir, err);
    if (r >= 0)
        r = share_data(b, err);
    if (r >= 0)
        r = check_shelf(b, data, err);
    if (r < 0)
        return r;
    if (b->config.workspace && (b->host = open(b->config.workspace, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "open the workspace %s", b->config.workspace);
    logs.dirfd = b->logs_dir;
    r = kr_runlogs_new(b->loop, &logs, &b->logs);
    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "run logs");
    r = kr_store_notes_open(b->config.store, b->config.accepts_loss, err);
    if (r < 0 || (r = settle_defaults(b, err)) < 0)
        return r;
    do
        r = kr_store_runs_lost(b->config.store, kr_store_now(), err);
    while (r > 0);
    return r;
}

int kr_box_new(struct uv_loop_s *loop, struct kr_engine *engine, const struct kr_box_config *config,
               const struct kr_box_calls *calls, void *data, struct kr_box **ret_box, struct kr_err *err)
{
    struct kr_box *b = calloc(1, sizeof *b);
    int r;

    if (!b)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the domain");
    b->loop = loop;
    b->engine = engine;
    b->config = *config;
    b->calls = calls ? *calls : (struct kr_box_calls){0};
    b->data = data;
    b->shelf = b->logs_dir = b->host = -1;
    kr_box_find_ceilings(b);
    kr_box_tell_offer(b);
    kr_box_egress_open(b);
    TAILQ_INIT(&b->sessions);
    TAILQ_INIT(&b->waiting_list);
    TAILQ_INIT(&b->terminals);
    TAILQ_INIT(&b->users);
    TAILQ_INIT(&b->untold);
    for (size_t i = 0; i < KR_BOX_BUCKETS; i++) {
        TAILQ_INIT(&b->buckets[i]);
        TAILQ_INIT(&b->named[i]);
    }
    r = open_data(b, err);
    if (r >= 0 && (kr_sandbox_cache_new(&b->cache) < 0 || kr_connections_open(b) < 0 || kr_box_security_open(b) < 0 ||
                   kr_box_users_open(b) < 0 || kr_changes_open(b) < 0 || kr_soon_new(loop, on_kick, b, &b->kick) < 0 ||
                   kr_timer_new(loop, on_upkeep, b, &b->upkeep) < 0 ||
                   kr_timer_new(loop, on_slot_deadline, b, &b->slot_timer) < 0 ||
                   kr_timer_new(loop, on_prune, b, &b->pruner) < 0 ||
                   kr_timer_new(loop, on_settle, b, &b->settler) < 0 || kr_timer_new(loop, NULL, b, &b->stopper) < 0))
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the domain");
    if (r < 0) {
        kr_box_free(b);
        return r;
    }
    if (!b->config.is_plain_shelf && kr_shelf_begin(b) < 0)
        kr_log(KR_LOG_WARN, "shelf not asked, disk limits are counted", NULL);
    kr_timer_arm(b->upkeep, HURRY_MS);
    clock_gettime(CLOCK_REALTIME_COARSE, &b->born); /* the clock that files are stamped with */
    *ret_box = b;
    return 0;
}

static void on_flushed(void *data)
{
    struct kr_box *b = data;
    void (*on_stopped)(void *data) = b->on_stopped;

    b->on_stopped = NULL;
    if (on_stopped)
        on_stopped(b->stop_data);
}

void kr_box_check_stopped(struct kr_box *b)
{
    struct kr_err err;

    if (!b->stopping || b->stopped || b->run_count > 0 || b->live > 0 || b->jobs > 0 || b->trimming)
        return;
    b->stopped = true;
    kr_connections_flush(b);
    kr_security_flush(b->security);
    kr_box_noted(b, true);
    kr_timer_disarm(b->settler);
    if (kr_store_settle(b->config.store, &err) < 0)
        kr_log(KR_LOG_ERROR, "store", "error=\"%s\"", err.msg);
    if (kr_runlogs_flush(b->logs, on_flushed, b) < 0)
        on_flushed(b);
}

static void on_grace_over(void *data)
{
    struct kr_box *b = data;
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (session->engine_session)
        kr_session_close(session->engine_session);
}

void kr_box_stop(struct kr_box *b, uint64_t grace_ms, void (*on_stopped)(void *data), void *data)
{
    b->stopping = true;
    b->on_stopped = on_stopped;
    b->stop_data = data;
    kr_timer_disarm(b->upkeep);
    kr_timer_disarm(b->slot_timer);
    kr_timer_disarm(b->pruner);
    kr_shelf_stop(b);
    kr_box_sessions_stop(b);
    kr_timer_close(b->stopper);
    b->stopper = NULL;
    if (kr_timer_new(b->loop, on_grace_over, b, &b->stopper) >= 0)
        kr_timer_arm(b->stopper, grace_ms);
    kr_box_kick(b);
}

bool kr_box_stopping(const struct kr_box *b)
{
    return b->stopping;
}

/* Only where it was not stopped, or the engine was gone before, is there anything left. */
static void free_rest(struct kr_box *b)
{
    struct kr_box_session *session;
    struct kr_box_user *u;
    struct kr_box_run *r;

    for (size_t i = 0; i < KR_BOX_BUCKETS; i++)
        while ((r = TAILQ_FIRST(&b->buckets[i])))
            kr_box_run_free(r);
    while ((session = TAILQ_FIRST(&b->sessions))) {
        TAILQ_REMOVE(&b->sessions, session, link);
        kr_box_session_free(session);
    }
    while ((u = TAILQ_FIRST(&b->users))) {
        TAILQ_REMOVE(&b->users, u, link);
        free(u);
    }
}

void kr_box_free(struct kr_box *b)
{
    if (!b)
        return;
    kr_box_egress_close(b);
    kr_connections_close(b);
    kr_security_free(b->security);
    kr_box_users_close(b);
    free_rest(b);
    kr_box_terminals_free(b);
    kr_box_preloads_close(b);
    kr_strays_close(b);
    kr_shelf_end(b);
    kr_soon_close(b->kick);
    kr_timer_close(b->upkeep);
    kr_timer_close(b->stopper);
    kr_timer_close(b->slot_timer);
    kr_timer_close(b->pruner);
    kr_timer_close(b->settler);
    kr_runlogs_close(b->logs);
    free(b->notes);
    kr_sandbox_cache_free(b->cache);
    kr_fd_close(b->shelf);
    kr_fd_close(b->host);
    kr_fd_close(b->logs_dir);
    b->freed = true;
    b->jobs++; /* those that are dropped here must not free it */
    kr_changes_close(b);
    if (--b->jobs == 0)
        free(b);
}

/* ---- figures ---- */

void kr_box_figures(const struct kr_box *b, struct kr_box_figures *ret)
{
    const struct kr_box_session *session;

    *ret = (struct kr_box_figures){.data_bytes = b->data_bytes};
    TAILQ_FOREACH(session, &b->sessions, link)
    {
        ret->opening += session->state == KR_BOX_SESSION_OPENING;
        ret->sessions += session->state == KR_BOX_SESSION_LIVE;
        ret->busy += session->state == KR_BOX_SESSION_LIVE && (session->current || session->terminal);
        ret->terminals += session->terminal != NULL;
        ret->runs_active += session->current != NULL;
        ret->runs_queued += session->waiting_count;
    }
    kr_runlogs_figures(b->logs, &ret->runlogs);
}

struct kr_engine *kr_box_engine(const struct kr_box *b)
{
    return b->engine;
}

const struct kr_box_config *kr_box_config(const struct kr_box *b)
{
    return &b->config;
}

struct kr_runlogs *kr_box_runlogs(const struct kr_box *b)
{
    return b->logs;
}
