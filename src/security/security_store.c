/* Rows of security events.
 *
 * Called by the domain (security.c) and the lists of src/api/watch and src/mcp. Invariant: a user's many
 * rows push out that user's own, never those of another who has fewer. */
#include "security_store.h"
#include "store_internal.h"
#include <errno.h>
#include <string.h>

static int put_event(struct kr_store *s, const struct kr_store_event *e, struct kr_err *err)
{
    char id[KR_STORE_ID_ROOM];

    kr_store_new_id(id);
    return kr_st_exec(s, KR_ST_EVENT_ADD, err, "ttttittiit", id, e->owner, e->sandbox, e->run, e->at, e->kind, e->rule,
                      (int64_t)e->line, (int64_t)e->count, e->text);
}

/* In the transaction that is open: deletes up to `most` of what is past `max`. How many, or -errno. */
static int trim_events(struct kr_store *s, uint64_t max, uint64_t most, struct kr_err *err)
{
    int64_t total = kr_st_int(s, KR_ST_EVENT_TOTAL, err, "");
    uint64_t past = total > 0 && (uint64_t)total > max ? (uint64_t)total - max : 0;
    int gone = 0;

    if (total < 0)
        return (int)total;
    if (past > most)
        past = most;
    while (past > 0) {
        int r =
            kr_st_exec(s, KR_ST_EVENT_TRIM, err, "i", (int64_t)(past < KR_STORE_PRUNE_MAX ? past : KR_STORE_PRUNE_MAX));

        if (r < 0)
            return r;
        if (r == 0)
            break;
        past -= (uint64_t)r < past ? (uint64_t)r : past;
        gone += r;
    }
    return gone;
}

int kr_store_events_add(struct kr_store *s, const struct kr_store_event *rows, size_t count, uint64_t max,
                        struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r = kr_txn_begin(&t, s, err);

    for (size_t i = 0; r >= 0 && i < count; i++)
        r = put_event(s, &rows[i], err);
    if (r >= 0 && max)
        r = trim_events(s, max, 2 * count, err);
    return r < 0 ? r : kr_txn_commit(&t, false, err);
}

/* ---- the list ---- */

static const char *text_of(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? text : "";
}

static void fill_event(sqlite3_stmt *st, struct kr_store_event *e)
{
    *e = (struct kr_store_event){
        .id = text_of(st, 0),
        .owner = text_of(st, 1),
        .sandbox = text_of(st, 2),
        .run = text_of(st, 3),
        .at = sqlite3_column_int64(st, 4),
        .kind = text_of(st, 5),
        .rule = text_of(st, 6),
        .line = (uint32_t)sqlite3_column_int64(st, 7),
        .count = (uint64_t)sqlite3_column_int64(st, 8),
        .text = text_of(st, 9),
    };
}

static bool is_same(const char *wanted, const char *text)
{
    return !wanted || strcmp(wanted, text) == 0;
}

static bool passes_filter(const struct kr_store_event_filter *f, const struct kr_store_event *e)
{
    return is_same(f->owner, e->owner) && is_same(f->sandbox, e->sandbox) && is_same(f->run, e->run) &&
           is_same(f->kind, e->kind) && is_same(f->rule, e->rule);
}

static int open_events(struct kr_store *s, const struct kr_store_event_filter *f, const struct kr_walk *w,
                       sqlite3_stmt **ret_st, struct kr_err *err)
{
    if (f->run && f->run[0])
        return kr_st_open(s, KR_ST_EVENT_LIST_RUN, ret_st, err, "itt", w->time, w->id, f->run);
    if (f->sandbox && f->sandbox[0])
        return kr_st_open(s, KR_ST_EVENT_LIST_SANDBOX, ret_st, err, "itt", w->time, w->id, f->sandbox);
    if (f->owner && f->kind)
        return kr_st_open(s, KR_ST_EVENT_LIST_KIND, ret_st, err, "ittt", w->time, w->id, f->owner, f->kind);
    if (f->owner)
        return kr_st_open(s, KR_ST_EVENT_LIST_OWNER, ret_st, err, "itt", w->time, w->id, f->owner);
    return kr_st_open(s, KR_ST_EVENT_LIST, ret_st, err, "it", w->time, w->id);
}

int kr_store_events_list(struct kr_store *s, const struct kr_store_event_filter *filter, struct kr_store_page *page,
                         void (*on_row)(void *data, const struct kr_store_event *row), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_event row;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0)
        return r;
    if (filter->until && filter->until <= w.time) {
        w.time = filter->until;
        w.id[0] = '\0';
    }
    if ((r = open_events(s, filter, &w, &st, err)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        bool wanted;

        fill_event(st, &row);
        if (row.at < filter->since)
            break;
        wanted = passes_filter(filter, &row);
        if (!kr_walk_more(&w, wanted))
            break;
        kr_walk_at(&w, row.at, row.id);
        if (wanted)
            on_row(data, &row);
    }
    return r < 0 ? r : (int)w.given;
}

/* ---- retention ---- */

int kr_store_events_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int count = 0, r = kr_txn_begin(&t, s, err);

    if (r < 0)
        return r;
    if (keep->since)
        count = kr_st_exec(s, KR_ST_EVENT_OLD_DELETE, err, "ii", keep->since, (int64_t)KR_STORE_PRUNE_MAX);
    if (count == 0 && keep->count)
        count = trim_events(s, keep->count, KR_STORE_PRUNE_MAX, err);
    if (count <= 0)
        return count;
    r = kr_txn_commit(&t, false, err);
    return r < 0 ? r : count;
}
