/* Rows of connections.
 *
 * Called by the domain (src/box/box_connections.c) and the list of src/api/watch. Invariants: a user's many rows push
 * out that user's own, never those of another who has fewer; the rows of a sandbox that is gone are in no list from the
 * moment it is deleted, and go some at a time. */
#include "store_connection.h"
#include "store_internal.h"
#include <errno.h>
#include <string.h>

static int put_connection(struct kr_store *s, const struct kr_store_connection *c, struct kr_err *err)
{
    char id[KR_STORE_ID_ROOM];

    kr_store_new_id(id);
    return kr_st_exec(s, KR_ST_CONNECTION_ADD, err, "ttttiittttitiiitt", id, c->owner, c->sandbox, c->run, c->at,
                      (int64_t)c->ms, c->how, c->method, c->host, c->verdict, (int64_t)c->port, c->address,
                      (int64_t)c->sent, (int64_t)c->received, (int64_t)c->status, c->why, c->secrets ? c->secrets : "");
}

/* In the transaction that is open: deletes up to `most` of what is past `max`. How many, or -errno. */
static int trim(struct kr_store *s, uint64_t max, uint64_t most, struct kr_err *err)
{
    int64_t total = kr_st_int(s, KR_ST_CONNECTION_TOTAL, err, "");
    uint64_t past = total > 0 && (uint64_t)total > max ? (uint64_t)total - max : 0;
    int gone = 0;

    if (total < 0)
        return (int)total;
    if (past > most)
        past = most;
    while (past > 0) {
        int r = kr_st_exec(s, KR_ST_CONNECTION_TRIM, err, "i",
                           (int64_t)(past < KR_STORE_PRUNE_MAX ? past : KR_STORE_PRUNE_MAX));

        if (r < 0)
            return r;
        if (r == 0)
            break;
        past -= (uint64_t)r < past ? (uint64_t)r : past;
        gone += r;
    }
    return gone;
}

int kr_store_connections_add(struct kr_store *s, const struct kr_store_connection *rows, size_t count, uint64_t max,
                             struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int r = kr_txn_begin(&t, s, err);

    for (size_t i = 0; r >= 0 && i < count; i++)
        r = put_connection(s, &rows[i], err);
    if (r >= 0 && max)
        r = trim(s, max, 2 * count, err);
    return r < 0 ? r : kr_txn_commit(&t, false, err);
}

/* ---- the list ---- */

static const char *text_of(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);

    return text ? text : "";
}

static void fill_connection(sqlite3_stmt *st, struct kr_store_connection *c)
{
    *c = (struct kr_store_connection){
        .id = text_of(st, 0),
        .owner = text_of(st, 1),
        .sandbox = text_of(st, 2),
        .run = text_of(st, 3),
        .at = sqlite3_column_int64(st, 4),
        .ms = (uint64_t)sqlite3_column_int64(st, 5),
        .how = text_of(st, 6),
        .method = text_of(st, 7),
        .host = text_of(st, 8),
        .verdict = text_of(st, 9),
        .port = (uint16_t)sqlite3_column_int64(st, 10),
        .address = text_of(st, 11),
        .sent = (uint64_t)sqlite3_column_int64(st, 12),
        .received = (uint64_t)sqlite3_column_int64(st, 13),
        .status = (unsigned)sqlite3_column_int64(st, 14),
        .why = text_of(st, 15),
        .secrets = text_of(st, 16),
    };
}

static bool passes_filter(const struct kr_store_connection_filter *f, const struct kr_store_connection *c)
{
    return (!f->owner || !strcmp(f->owner, c->owner)) && (!f->sandbox || !strcmp(f->sandbox, c->sandbox)) &&
           (!f->run || !strcmp(f->run, c->run)) && (!f->verdict || !strcmp(f->verdict, c->verdict));
}

static int open_connections(struct kr_store *s, const struct kr_store_connection_filter *f, const struct kr_walk *w,
                            sqlite3_stmt **ret_st, struct kr_err *err)
{
    if (f->run && f->run[0])
        return kr_st_open(s, KR_ST_CONNECTION_LIST_RUN, ret_st, err, "itt", w->time, w->id, f->run);
    if (f->sandbox)
        return kr_st_open(s, KR_ST_CONNECTION_LIST_SANDBOX, ret_st, err, "itt", w->time, w->id, f->sandbox);
    if (f->owner && f->verdict && strcmp(f->verdict, "ok") != 0)
        return kr_st_open(s, KR_ST_CONNECTION_LIST_VERDICT, ret_st, err, "ittt", w->time, w->id, f->owner, f->verdict);
    if (f->owner)
        return kr_st_open(s, KR_ST_CONNECTION_LIST_OWNER, ret_st, err, "itt", w->time, w->id, f->owner);
    return kr_st_open(s, KR_ST_CONNECTION_LIST, ret_st, err, "it", w->time, w->id);
}

int kr_store_connections_list(struct kr_store *s, const struct kr_store_connection_filter *filter,
                              struct kr_store_page *page,
                              void (*on_row)(void *data, const struct kr_store_connection *row), void *data,
                              struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_connection row;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0)
        return r;
    if (filter->until && filter->until <= w.time) {
        w.time = filter->until;
        w.id[0] = '\0';
    }
    if ((r = open_connections(s, filter, &w, &st, err)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        bool wanted;

        fill_connection(st, &row);
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

/* Rows of one sandbox that is gone. How many, or -errno. */
static int prune_doomed(struct kr_store *s, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    char sandbox[KR_STORE_ID_ROOM];
    int done, r = kr_st_open(s, KR_ST_CONNECTION_DOOMED, &st, err, "");

    if (r < 0 || (r = kr_st_step(s, st, err)) <= 0)
        return r;
    kr_st_text(st, 0, sandbox, sizeof sandbox);
    kr_st_cleanup_(&st);
    r = kr_st_exec(s, KR_ST_CONNECTION_SANDBOX_DELETE, err, "ti", sandbox, (int64_t)KR_STORE_PRUNE_MAX);
    if (r < 0 || r == (int)KR_STORE_PRUNE_MAX)
        return r;
    done = kr_st_exec(s, KR_ST_CONNECTION_DOOMED_DONE, err, "t", sandbox);
    return done < 0 ? done : r + 1; /* another may wait */
}

int kr_store_connections_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int count, r = kr_txn_begin(&t, s, err);

    if (r < 0)
        return r;
    count = prune_doomed(s, err);
    if (count == 0 && keep->since)
        count = kr_st_exec(s, KR_ST_CONNECTION_OLD_DELETE, err, "ii", keep->since, (int64_t)KR_STORE_PRUNE_MAX);
    if (count == 0 && keep->count)
        count = trim(s, keep->count, KR_STORE_PRUNE_MAX, err);
    if (count <= 0)
        return count;
    r = kr_txn_commit(&t, false, err);
    return r < 0 ? r : count;
}
