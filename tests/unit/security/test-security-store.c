/* src/security: rows of security events: filters, pages, bounds; that they outlive their sandbox and go with their
 * user. Run by tests/run. */
#include "check.h"
#include "../store/store-common.h"
#include "security_store.h"
#include <errno.h>

static char lab[KR_STORE_ID_ROOM], yard[KR_STORE_ID_ROOM], other[KR_STORE_ID_ROOM];

static struct kr_store_event row_of(const char *owner, const char *sandbox, int64_t at)
{
    return (struct kr_store_event){.owner = owner,
                                   .sandbox = sandbox,
                                   .run = "",
                                   .at = at,
                                   .kind = "policy",
                                   .rule = "P101",
                                   .line = 3,
                                   .count = 2,
                                   .text = "Import 'os' is not allowed"};
}

static void put(struct kr_store_event row)
{
    CHECK(kr_store_events_add(store, &row, 1, 0, &err) == 0);
}

struct found {
    int rows;
    int64_t last_at;
    char ids[500][KR_STORE_ID_ROOM];
};

static void on_found(void *data, const struct kr_store_event *row)
{
    struct found *f = data;

    CHECK(kr_id_valid(row->id) && (f->rows == 0 || row->at <= f->last_at));
    for (int i = 0; i < f->rows; i++)
        CHECK(strcmp(f->ids[i], row->id) != 0);
    f->last_at = row->at;
    memcpy(f->ids[f->rows++], row->id, KR_STORE_ID_ROOM);
}

/* All rows that the filter gives, by pages of 7. */
static int count(const struct kr_store_event_filter *filter)
{
    struct kr_store_page page = {.limit = 7};
    struct found f = {0};

    do {
        page.after = page.next;
        if (kr_store_events_list(store, filter, &page, on_found, &f, &err) < 0)
            return -1;
    } while (page.next[0]);
    return f.rows;
}

static int64_t stored(void)
{
    return sql_int(store, "SELECT count(*) FROM security_events");
}

static void clear(void)
{
    sqlite3_exec(store->db, "DELETE FROM security_events", NULL, NULL, NULL);
}

static bool is_true(void)
{
    return sql_int(store, "SELECT count FROM totals WHERE what = 'security_events'") == stored() &&
           sql_int(store, "SELECT ifnull(sum(count), 0) FROM security_owners") == stored() &&
           kr_store_verify(store, &err) == 0;
}

static void on_whole(void *data, const struct kr_store_event *row)
{
    ++*(int *)data;
    CHECK(!strcmp(row->owner, alice) && !strcmp(row->sandbox, lab) && !strcmp(row->run, "a-run") && row->at == NOW);
    CHECK(!strcmp(row->kind, "policy") && !strcmp(row->rule, "P101") && row->line == 3 && row->count == 2);
    CHECK(!strcmp(row->text, "Import 'os' is not allowed"));
}

static void test_a_row_comes_back_whole(void)
{
    struct kr_store_event row = row_of(alice, lab, NOW);
    struct kr_store_page page = {.limit = 10};
    int rows = 0;

    row.run = "a-run";
    put(row);
    CHECK(kr_store_events_list(store, &(struct kr_store_event_filter){.owner = alice}, &page, on_whole, &rows, &err) ==
          1);
    CHECK(rows == 1 && !page.next[0]);
    CHECK(count(&(struct kr_store_event_filter){.owner = bob}) == 0);
    page.after = "nonsense";
    CHECK(kr_store_events_list(store, &(struct kr_store_event_filter){0}, &page, on_whole, &rows, &err) == -EINVAL);
    clear();
}

/* A row of another's sandbox, or of a user that never was, is none; a sandbox that is gone keeps its rows. */
static void test_rows_without_a_place(void)
{
    struct kr_store_event rows[] = {row_of(alice, other, NOW), row_of("nobody", "", NOW), row_of(alice, "gone", NOW),
                                    row_of(alice, "", NOW), row_of(alice, lab, NOW)};

    CHECK(kr_store_events_add(store, rows, 5, 0, &err) == 0);
    CHECK(stored() == 3 && count(&(struct kr_store_event_filter){.owner = alice}) == 3 && is_true());
    clear();
}

static void test_filters_and_pages(void)
{
    for (int i = 0; i < 60; i++) {
        struct kr_store_event row = row_of(i % 3 ? alice : bob,
                                           i % 3 == 0 ? other
                                           : i % 2    ? lab
                                                      : yard,
                                           NOW + i / 4 * SECOND); /* four at a time */

        row.run = i % 5 ? "" : "r1";
        row.kind = i % 4 ? "policy" : "limit";
        row.rule = i % 4 ? "P101" : "memory";
        put(row);
    }
    CHECK(count(&(struct kr_store_event_filter){0}) == 60);
    CHECK(count(&(struct kr_store_event_filter){.owner = alice}) == 40);
    CHECK(count(&(struct kr_store_event_filter){.owner = alice, .sandbox = lab}) == 20);
    CHECK(count(&(struct kr_store_event_filter){.owner = bob, .sandbox = lab}) == 0);
    CHECK(count(&(struct kr_store_event_filter){.sandbox = lab}) == 20);
    CHECK(count(&(struct kr_store_event_filter){.run = "r1"}) == 12);
    CHECK(count(&(struct kr_store_event_filter){.owner = bob, .run = "r1"}) == 4);
    CHECK(count(&(struct kr_store_event_filter){.owner = alice, .kind = "limit"}) == 10);
    CHECK(count(&(struct kr_store_event_filter){.owner = alice, .rule = "P101"}) == 30);
    CHECK(count(&(struct kr_store_event_filter){.kind = "limit", .rule = "P101"}) == 0);
    CHECK(count(&(struct kr_store_event_filter){.kind = "limit"}) == 15);
    CHECK(count(&(struct kr_store_event_filter){.since = NOW + 14 * SECOND}) == 4);
    CHECK(count(&(struct kr_store_event_filter){.until = NOW + SECOND}) == 4);
    CHECK(count(&(struct kr_store_event_filter){.since = NOW + SECOND, .until = NOW + 3 * SECOND}) == 8);
    clear();
}

/* The user with the most rows loses the oldest; one with few keeps all. */
static void test_bounds(void)
{
    struct kr_store_event rows[100];

    for (int i = 0; i < 10; i++)
        put(row_of(bob, other, NOW - SECOND + i));
    for (int i = 0; i < 100; i++)
        rows[i] = row_of(alice, lab, NOW + i);
    CHECK(kr_store_events_add(store, rows, 100, 50, &err) == 0);
    CHECK(stored() == 50 && count(&(struct kr_store_event_filter){.owner = bob}) == 10 && is_true());
    CHECK(count(&(struct kr_store_event_filter){.owner = alice, .since = NOW + 60}) == 40);
    CHECK(kr_store_events_prune(store, &(struct kr_store_keep){.count = 10}, &err) == 40 && stored() == 10);
    CHECK(kr_store_events_prune(store, &(struct kr_store_keep){.count = 10}, &err) == 0);
    CHECK(kr_store_events_prune(store, &(struct kr_store_keep){0}, &err) == 0 && is_true());
    clear();
}

static void test_age(void)
{
    int r, sum = 0;

    for (int i = 0; i < 200; i++)
        put(row_of(alice, lab, NOW + i * SECOND));
    while ((r = kr_store_events_prune(store, &(struct kr_store_keep){.since = NOW + 150 * SECOND}, &err)) > 0) {
        CHECK(r <= (int)KR_STORE_PRUNE_MAX);
        sum += r;
    }
    CHECK(r == 0 && sum == 150 && stored() == 50 && is_true());
    clear();
}

static void test_rows_outlive_their_sandbox_and_go_with_their_user(void)
{
    char carol[KR_STORE_ID_ROOM], place[KR_STORE_ID_ROOM];
    int r, calls = 0;

    CHECK(add_user("carol", carol) == 0 && add_sandbox(carol, "place", place) == 0);
    for (int i = 0; i < 150; i++)
        put(row_of(i % 3 ? carol : alice, i % 3 ? place : lab, NOW + i));
    CHECK(kr_store_sandbox_delete(store, carol, place, NOW, &err) == 0);
    CHECK(count(&(struct kr_store_event_filter){.owner = carol}) == 100);
    while ((r = kr_store_user_delete(store, carol, NULL, NULL, &err)) == 1)
        calls++;
    CHECK(r == 0 && calls == 1 && stored() == 50 && is_true());
    clear();
}

int main(void)
{
    store = must_open(fresh_dir());
    if (add_user("alice", alice) < 0 || add_user("bob", bob) < 0 || add_sandbox(alice, "lab", lab) < 0 ||
        add_sandbox(alice, "yard", yard) < 0 || add_sandbox(bob, "other", other) < 0)
        return 1;
    RUN(test_a_row_comes_back_whole);
    RUN(test_rows_without_a_place);
    RUN(test_filters_and_pages);
    RUN(test_bounds);
    RUN(test_age);
    RUN(test_rows_outlive_their_sandbox_and_go_with_their_user);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}
