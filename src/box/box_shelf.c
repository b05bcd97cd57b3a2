/* The folders of sandboxes where a filesystem enforces their limits (engine/holder.h, shelf/shelf.h).
 *
 * Called by box_sandboxes.c (make, limit), box_room.c (sessions that wait), box.c (remove) and box_disk.c (usage). Only
 * the privileged side can make such a folder, and callers do not wait: so a few spare ones are kept, and a new sandbox
 * gets one by a rename. Invariants: a spare has the limits of a sandbox that sets none before it is given away; a
 * sandbox without a folder waits for a spare, and only if none can be made its folder is a plain one, which the engine
 * measures; no session begins while the limits of its folder are being set; the limits that were set last are
 * remembered for LIMITS folders, and set again when that is not known or failed. */
#include "box_internal.h"
#include "log.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARES 16u
#define ASKS 2u        /* spares that are being made at once */
#define LIMITS 4096u   /* a power of two */
#define AGAIN_MS 5000u /* after a spare could not be made, or a limit not be set */
#define LEAST_BYTES (64u << 10)

struct limit {
    char folder[KR_STORE_ID_ROOM]; /* "": free */
    uint64_t bytes, inodes;        /* that were set last */
    uint64_t used;                 /* as last measured */
};

/* A question whose answer changes nothing here. */
struct order {
    struct kr_shelf_ask ask;
    struct kr_box_shelf *shelf;
    LIST_ENTRY(order) link;
    char folder[KR_STORE_ID_ROOM];
};

struct making {
    struct kr_shelf_ask ask;
    struct kr_box_shelf *shelf;
    char name[KR_STORE_ID_ROOM];
};

struct kr_box_shelf {
    struct kr_box *box;
    struct kr_shelf_ask ask; /* what it is */
    enum kr_shelf_kind kind;
    char spares[SPARES][KR_STORE_ID_ROOM];
    unsigned spare_count;
    struct making making[ASKS];
    struct kr_timer *again;
    LIST_HEAD(, order) orders;
    struct limit *limits; /* by the hash of the folder: LIMITS of them */
};

static const struct kr_limits *usual_limits(const struct kr_box *b)
{
    return &b->config.profiles[b->config.dialect].limits;
}

/* The row of a folder; another folder's is replaced. */
static struct limit *limit_of(struct kr_box_shelf *s, const char *folder)
{
    uint32_t hash = 2166136261u;
    struct limit *row;

    for (const char *p = folder; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    row = &s->limits[hash & (LIMITS - 1)];
    if (strcmp(row->folder, folder) != 0) {
        *row = (struct limit){0};
        snprintf(row->folder, sizeof row->folder, "%s", folder);
    }
    return row;
}

/* ---- spares ---- */

static void fill_spares(struct kr_box_shelf *s);

static void on_spare_made(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct making *m = data;
    struct kr_box_shelf *s = m->shelf;

    if (shelved && shelved->kind != KR_SHELF_IS_FOLDER && s->spare_count < SPARES) {
        memcpy(s->spares[s->spare_count++], m->name, sizeof m->name);
        fill_spares(s);
        kr_box_kick(s->box);
        return;
    }
    if (!shelved)
        kr_log(KR_LOG_WARN, "folder for a sandbox not made, trying again", "error=\"%s\"", err->msg);
    kr_timer_arm(s->again, AGAIN_MS);
    kr_box_kick(s->box);
}

static void fill_spares(struct kr_box_shelf *s)
{
    const struct kr_limits *usual = usual_limits(s->box);
    unsigned under_way = 0;

    for (unsigned i = 0; i < ASKS; i++)
        under_way += s->making[i].ask.id != 0;
    for (unsigned i = 0; i < ASKS && s->spare_count + under_way < SPARES && !s->box->stopping; i++) {
        struct making *m = &s->making[i];
        struct kr_w_shelf question = {.op = KR_SHELF_MAKE, .bytes = usual->disk, .inodes = usual->inodes};

        if (m->ask.id)
            continue;
        m->shelf = s;
        kr_store_new_id(m->name);
        memcpy(question.name, m->name, sizeof question.name);
        if (kr_engine_shelf(s->box->engine, &question, &m->ask, on_spare_made, m) < 0) {
            kr_timer_arm(s->again, AGAIN_MS);
            return;
        }
        under_way++;
    }
}

static void on_again(void *data)
{
    struct kr_box_shelf *s = data;

    fill_spares(s);
    kr_box_kick(s->box);
}

static bool give_spare(struct kr_box *b, const char *folder)
{
    struct kr_box_shelf *s = b->shelves;
    struct limit *row;
    bool is_given = false;

    if (!s || s->kind == KR_SHELF_IS_FOLDER)
        return false;
    while (s->spare_count > 0 && !is_given) { /* one that is gone was removed by another process */
        const char *spare = s->spares[--s->spare_count];

        is_given = renameat2(b->shelf, spare, b->shelf, folder, RENAME_NOREPLACE) == 0;
        if (!is_given && errno != ENOENT)
            break;
    }
    fill_spares(s);
    if (!is_given)
        return false;
    row = limit_of(s, folder);
    row->bytes = usual_limits(b)->disk;
    row->inodes = usual_limits(b)->inodes;
    row->used = 0;
    return true;
}

/* The first inode of every subvolume, which no other folder has. */
#define BTRFS_TOP_INODE 256u

static bool is_plain(const struct kr_box_shelf *s, const char *folder)
{
    struct stat st;

    return s->kind == KR_SHELF_IS_BTRFS && fstatat(s->box->shelf, folder, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           st.st_ino != BTRFS_TOP_INODE;
}

static bool is_in_use(const struct kr_box *b, const struct kr_box_session *but)
{
    const struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (session != but && session->state != KR_BOX_SESSION_WAITING &&
        strcmp(session->spec.folder, but->spec.folder) == 0)
        return true;
    return false;
}

static bool is_coming(const struct kr_box_shelf *s)
{
    bool coming = s->ask.id != 0;

    for (unsigned i = 0; i < ASKS; i++)
        coming |= s->making[i].ask.id != 0;
    return coming;
}

int kr_shelf_place(struct kr_box *b, const char *folder)
{
    struct kr_box_shelf *s = b->shelves;

    if (!s || (s->kind == KR_SHELF_IS_FOLDER && !s->ask.id) ||
        faccessat(b->shelf, folder, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || give_spare(b, folder))
        return 0;
    if (!is_coming(s) && !kr_timer_armed(s->again))
        kr_timer_arm(s->again, AGAIN_MS);
    return 1; /* a plain folder in its place would have no limit at all */
}

/* ---- limits ---- */

static bool is_ordered(const struct kr_box_shelf *s, const char *folder)
{
    const struct order *o;

    LIST_FOREACH(o, &s->orders, link)
    if (strcmp(o->folder, folder) == 0)
        return true;
    return false;
}

/* It is asked for again: by the next request, and by sessions that wait. */
static void forget_limit(struct kr_box_shelf *s, const char *folder)
{
    struct limit *row = limit_of(s, folder);
    struct kr_box_session *session;

    row->bytes = row->inodes = 0;
    TAILQ_FOREACH(session, &s->box->waiting_list, waiting_link)
    if (strcmp(session->spec.folder, folder) == 0)
        session->limit_asked = false;
}

static void on_limited(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct order *o = data;
    struct kr_box_shelf *s = o->shelf;

    LIST_REMOVE(o, link);
    if (!shelved)
        forget_limit(s, o->folder);
    if (!shelved && err->code != ENOENT) {
        kr_log(KR_LOG_WARN, "limit of a sandbox's folder not set", "folder=%s error=\"%s\"", o->folder, err->msg);
        kr_timer_arm(s->again, AGAIN_MS);
    } else {
        kr_box_kick(s->box); /* a session may wait for it */
    }
    free(o);
}

/* 0: they are set, or an order is under way; or -errno. */
static int set_limit(struct kr_box *b, const char *user, const char *folder, const struct kr_limits *limits)
{
    struct kr_box_shelf *s = b->shelves;
    struct kr_w_shelf question = {.op = KR_SHELF_LIMIT, .bytes = limits->disk, .inodes = limits->inodes};
    const struct kr_box_user *u;
    struct limit *row;
    struct order *o;
    uint64_t left;
    int r;

    if (!s || s->kind == KR_SHELF_IS_FOLDER)
        return 0;
    row = limit_of(s, folder);
    TAILQ_FOREACH(u, &b->users, link)
    if (strcmp(u->id, user) == 0 && (left = kr_disk_left(b, u)) > 0 && row->used + left < question.bytes)
        question.bytes = row->used + left > LEAST_BYTES ? row->used + left : LEAST_BYTES;
    if (row->bytes == question.bytes && row->inodes == question.inodes)
        return 0;
    o = calloc(1, sizeof *o);
    if (!o)
        return -ENOMEM;
    o->shelf = s;
    snprintf(o->folder, sizeof o->folder, "%s", folder);
    memcpy(question.name, o->folder, sizeof question.name);
    r = kr_engine_shelf(b->engine, &question, &o->ask, on_limited, o);
    if (r < 0) {
        free(o);
        return r;
    }
    row->bytes = question.bytes;
    row->inodes = question.inodes;
    LIST_INSERT_HEAD(&s->orders, o, link);
    return 0;
}

void kr_shelf_limit(struct kr_box *b, const char *user, const char *folder, const struct kr_limits *limits)
{
    (void)set_limit(b, user, folder, limits); /* the next caller tries again, and no session begins before */
}

void kr_shelf_used(struct kr_box *b, const char *folder, uint64_t bytes)
{
    if (b->shelves && b->shelves->limits)
        limit_of(b->shelves, folder)->used = bytes;
}

bool kr_shelf_ready(struct kr_box *b, struct kr_box_session *session)
{
    const char *folder = session->spec.folder;
    char files[KR_STORE_ID_ROOM + 8];

    if (!b->shelves || session->spec.workspace != KR_WORKSPACE_SHELF)
        return true;
    if (b->shelves->ask.id)
        return false;
    snprintf(files, sizeof files, "%s/files", folder);
    /* An empty plain folder becomes one with limits; what is in use, or not empty, stays what it is. */
    if (is_plain(b->shelves, folder) && !is_in_use(b, session) &&
        (unlinkat(b->shelf, files, AT_REMOVEDIR) == 0 || errno == ENOENT))
        (void)unlinkat(b->shelf, folder, AT_REMOVEDIR);
    if (kr_shelf_place(b, folder) == 1)
        return false;
    (void)mkdirat(b->shelf, folder, 0700); /* EEXIST: as it should be. What is missing the session's start tells */
    (void)mkdirat(b->shelf, files, 0755);
    /* A spare that it got just now has the usual limits. */
    if (!session->limit_asked && set_limit(b, session->user->id, folder, &session->spec.limits) < 0) {
        kr_timer_arm(b->shelves->again, AGAIN_MS);
        return false;
    }
    session->limit_asked = is_ordered(b->shelves, folder);
    return !session->limit_asked;
}

/* ---- questions of others ---- */

bool kr_shelf_enforces(const struct kr_box *b)
{
    return b->shelves && b->shelves->kind != KR_SHELF_IS_FOLDER;
}

int kr_shelf_ask(struct kr_box *b, enum kr_shelf_op op, const char *folder, struct kr_shelf_ask *ask, kr_shelf_fn *fn,
                 void *data)
{
    struct kr_w_shelf question = {.op = op};

    if (!kr_shelf_enforces(b))
        return -EOPNOTSUPP;
    snprintf(question.name, sizeof question.name, "%s", folder);
    if (op == KR_SHELF_DROP)
        *limit_of(b->shelves, folder) = (struct limit){0};
    return kr_engine_shelf(b->engine, &question, ask, fn, data);
}

/* ---- its life ---- */

static void on_kind(void *data, const struct kr_w_shelved *shelved, const struct kr_err *err)
{
    struct kr_box_shelf *s = data;

    kr_box_kick(s->box); /* sessions wait for the answer */
    if (!shelved) {
        kr_log(KR_LOG_WARN, "shelf not asked, disk limits are counted", "error=\"%s\"", err->msg);
        return;
    }
    s->kind = shelved->kind < KR_SHELF_KIND_MAX_ ? shelved->kind : KR_SHELF_IS_FOLDER;
    if (s->kind != KR_SHELF_IS_FOLDER && !s->limits)
        s->limits = calloc(LIMITS, sizeof *s->limits);
    if (!s->limits)
        s->kind = KR_SHELF_IS_FOLDER;
    kr_engine_shelf_is(s->box->engine, s->kind);
    if (s->kind != KR_SHELF_IS_FOLDER)
        fill_spares(s);
}

int kr_shelf_begin(struct kr_box *b)
{
    static const struct kr_w_shelf question = {.op = KR_SHELF_USAGE};
    struct kr_box_shelf *s = calloc(1, sizeof *s);

    if (!s || kr_timer_new(b->loop, on_again, s, &s->again) < 0) {
        free(s);
        return -ENOMEM;
    }
    s->box = b;
    b->shelves = s;
    return kr_engine_shelf(b->engine, &question, &s->ask, on_kind, s);
}

void kr_shelf_stop(struct kr_box *b)
{
    struct kr_box_shelf *s = b->shelves;

    if (!s)
        return;
    kr_timer_disarm(s->again);
    while (s->spare_count > 0) /* what stays is an empty folder without a row, which the next start removes */
        (void)unlinkat(b->shelf, s->spares[--s->spare_count], AT_REMOVEDIR);
}

void kr_shelf_end(struct kr_box *b)
{
    struct kr_box_shelf *s = b->shelves;
    struct order *o;

    if (!s)
        return;
    b->shelves = NULL;
    kr_engine_forget_shelf(b->engine, &s->ask);
    for (unsigned i = 0; i < ASKS; i++)
        kr_engine_forget_shelf(b->engine, &s->making[i].ask);
    while ((o = LIST_FIRST(&s->orders))) {
        kr_engine_forget_shelf(b->engine, &o->ask);
        LIST_REMOVE(o, link);
        free(o);
    }
    kr_timer_close(s->again);
    free(s->limits);
    free(s);
}

int kr_box_shelf(const struct kr_box *b)
{
    return b->shelf;
}
