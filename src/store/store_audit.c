/* The audit log.
 *
 * Called by the server for every run, login, key use and refusal. Invariants: a row's
 * content cannot keep it out; ids ascend and are never used twice. */
#include "store_audit.h"
#include "notes.h"
#include "store_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How far the clock may have been set back and a search by time still finds every row. */
#define SKEW_US (INT64_C(3600) * 1000000)

static const char *cut(char *out, size_t size, const char *text)
{
    return kr_store_text_cut(out, size, text ? text : "", text ? strlen(text) : 0, size);
}

int kr_audit_put(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_AUDIT_ADD, err, "ittttttt", row->at, row->who, row->what, row->object, row->outcome,
                       row->address, row->request, row->detail);

    return r < 0 ? r : 0;
}

int kr_store_audit_add(struct kr_store *s, const struct kr_store_audit *row, struct kr_err *err)
{
    char who[33], what[49], object[257], outcome[33], address[65], request[129];
    const char *detail = row->detail && *row->detail ? row->detail : "{}";
    struct kr_store_audit own = {.at = row->at, .detail = detail};

    if (strnlen(detail, KR_STORE_DETAIL_MAX + 1) > KR_STORE_DETAIL_MAX)
        own.detail = "{\"lost\":\"too long\"}";
    own.who = cut(who, sizeof who, row->who);
    own.what = cut(what, sizeof what, row->what);
    own.object = cut(object, sizeof object, row->object);
    own.outcome = cut(outcome, sizeof outcome, row->outcome);
    own.address = cut(address, sizeof address, row->address);
    own.request = cut(request, sizeof request, row->request);
    return s->notes_fd >= 0 ? kr_note_audit(s, &own, err) : kr_audit_put(s, &own, err);
}

static void fill(sqlite3_stmt *st, struct kr_store_audit *row)
{
    row->id = sqlite3_column_int64(st, 0);
    row->at = sqlite3_column_int64(st, 1);
    row->who = (const char *)sqlite3_column_text(st, 2);
    row->what = (const char *)sqlite3_column_text(st, 3);
    row->object = (const char *)sqlite3_column_text(st, 4);
    row->outcome = (const char *)sqlite3_column_text(st, 5);
    row->address = (const char *)sqlite3_column_text(st, 6);
    row->request = (const char *)sqlite3_column_text(st, 7);
    row->detail = (const char *)sqlite3_column_text(st, 8);
}

static bool passes(const struct kr_store_audit_filter *f, const struct kr_store_audit *row)
{
    return (!f->who || !strcmp(f->who, row->who)) && (!f->what || !strcmp(f->what, row->what)) &&
           (!f->object || !strcmp(f->object, row->object)) && (!f->outcome || !strcmp(f->outcome, row->outcome)) &&
           (!f->request || !strcmp(f->request, row->request)) && row->at >= f->since &&
           (!f->until || row->at < f->until);
}

/* The first id that is surely not before `until`: halving works because ids and times ascend together, but for a
 * clock that was set back. Some 20 lookups by the primary key, in place of passing over all that is newer. */
static int skip_to(struct kr_store *s, int64_t until, int64_t *cursor, struct kr_err *err)
{
    int64_t low = 1, high = kr_st_int(s, KR_ST_AUDIT_LAST, err, "");

    if (high < 0)
        return (int)high;
    high++;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, at = kr_st_int(s, KR_ST_AUDIT_AT, err, "i", middle);

        if (at < 0)
            return (int)at;
        if (at - SKEW_US >= until)
            high = middle;
        else
            low = middle + 1;
    }
    if (low < *cursor)
        *cursor = low;
    return 0;
}

static int open_list(struct kr_store *s, const struct kr_store_audit_filter *f, int64_t below, sqlite3_stmt **ret_st,
                     struct kr_err *err)
{
    if (f->object)
        return kr_st_open(s, KR_ST_AUDIT_LIST_OBJECT, ret_st, err, "it", below, f->object);
    if (f->request)
        return kr_st_open(s, KR_ST_AUDIT_LIST_REQUEST, ret_st, err, "it", below, f->request);
    if (f->outcome && strcmp(f->outcome, "ok") != 0)
        return kr_st_open(s, KR_ST_AUDIT_LIST_OUTCOME, ret_st, err, "it", below, f->outcome);
    if (f->who)
        return kr_st_open(s, KR_ST_AUDIT_LIST_WHO, ret_st, err, "it", below, f->who);
    if (f->what)
        return kr_st_open(s, KR_ST_AUDIT_LIST_WHAT, ret_st, err, "it", below, f->what);
    return kr_st_open(s, KR_ST_AUDIT_LIST, ret_st, err, "i", below);
}

int kr_store_audit_list(struct kr_store *s, const struct kr_store_audit_filter *filter, struct kr_store_page *page,
                        void (*on_row)(void *data, const struct kr_store_audit *row), void *data, struct kr_err *err)
{
    static const struct kr_store_audit_filter none;
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_audit row;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, true, err);

    filter = filter ? filter : &none;
    kr_store_settle_quietly(s);
    if (r < 0 || (filter->until && (r = skip_to(s, filter->until, &w.time, err)) < 0) ||
        (r = open_list(s, filter, w.time, &st, err)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        bool wanted;

        fill(st, &row);
        if (row.at < filter->since - SKEW_US)
            break; /* nothing further down is newer */
        wanted = passes(filter, &row);
        if (!kr_walk_more(&w, wanted))
            break;
        kr_walk_at(&w, row.id, NULL);
        if (wanted)
            on_row(data, &row);
    }
    return r < 0 ? r : (int)w.given;
}

/* The id up to which the oldest rows are beyond keep. Their number, or -errno. */
static int find_old(struct kr_store *s, const struct kr_store_keep *keep, int64_t *ret_id, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_totals t;
    int count = 0, r;

    if ((r = kr_store_totals(s, &t, err)) < 0 ||
        (r = kr_st_open(s, KR_ST_AUDIT_OLDEST, &st, err, "i", (int64_t)KR_STORE_PRUNE_MAX)) < 0)
        return r;
    while ((r = kr_st_step(s, st, err)) > 0) {
        uint64_t size = (uint64_t)sqlite3_column_int64(st, 2);

        if (!(keep->since && sqlite3_column_int64(st, 1) < keep->since) && !(keep->count && t.audits > keep->count) &&
            !(keep->bytes && t.audit_bytes > keep->bytes))
            break;
        *ret_id = sqlite3_column_int64(st, 0);
        t.audits--;
        t.audit_bytes -= size < t.audit_bytes ? size : t.audit_bytes;
        count++;
    }
    return r < 0 ? r : count;
}

int kr_store_audit_prune(struct kr_store *s, const struct kr_store_keep *keep, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    int64_t last = 0;
    int count, r;

    if ((r = kr_store_settle(s, err)) < 0 || (r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    count = find_old(s, keep, &last, err);
    if (count <= 0)
        return count;
    if ((r = kr_st_exec(s, KR_ST_AUDIT_DELETE, err, "i", last)) < 0 || (r = kr_txn_commit(&t, false, err)) < 0)
        return r;
    return count;
}
