/* src/security: events on their way: equal ones become one row, what a user causes past a bound becomes a sum, a store
 * that takes nothing loses nothing that has room. Run by tests/run. */
#include "check.h"
#include "../store/store-common.h"
#include "security.h"
#include <uv.h>

static char lab[KR_STORE_ID_ROOM];
static uv_loop_t loop;
static struct kr_security *security;
static uint64_t told, heard;

static void on_event(void *data, const struct kr_security_event *e, bool is_told)
{
    (void)data;
    told += is_told;
    heard += e->count;
}

static void open_security(void)
{
    static const struct kr_security_calls calls = {.on_event = on_event};

    told = heard = 0;
    sqlite3_exec(store->db, "DELETE FROM security_events", NULL, NULL, NULL);
    CHECK(kr_security_new(&loop, store, 100000, &calls, NULL, &security) == 0);
}

static void close_security(void)
{
    kr_security_free(security);
    security = NULL;
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void note(const char *user, const char *run, const char *rule, uint32_t line)
{
    kr_security_note(security, &(struct kr_security_event){.kind = KR_SECURITY_POLICY,
                                                           .rule = rule,
                                                           .line = line,
                                                           .text = "Import 'os' is not allowed",
                                                           .user = user,
                                                           .sandbox = "",
                                                           .run = run});
}

static int64_t rows(const char *where)
{
    char sql[200];

    snprintf(sql, sizeof sql, "SELECT count(*) FROM security_events WHERE %s", where);
    return sql_int(store, sql);
}

static void test_equal_ones_are_one_row(void)
{
    open_security();
    for (int i = 0; i < 1000; i++)
        note(alice, "r1", "P101", 1);
    note(alice, "r1", "P101", 2);
    note(alice, "r1", "P102", 1);
    note(alice, "r2", "P101", 1);
    note(bob, "r1", "P101", 1);
    CHECK(rows("1") == 0); /* nothing is written by the call */
    kr_security_settle(security);
    CHECK(rows("1") == 5 && rows("count = 1000 AND line = 1 AND run = 'r1'") == 1 && rows("count = 1") == 4);
    CHECK(heard == 1004 && told == 11); /* ten of alice's, one of bob's */
    close_security();
}

static void test_they_are_written_by_the_timer(void)
{
    open_security();
    note(alice, "r1", "P101", 1);
    for (int i = 0; i < 1000 && rows("1") == 0; i++) /* the timer of WRITE_MS; the other one is not waited for */
        uv_run(&loop, UV_RUN_ONCE);
    CHECK(rows("1") == 1);
    close_security();
}

/* Past 300 rows of a user there is a sum of each kind at the end; another user is not touched by it. */
static void test_a_flood_is_a_sum(void)
{
    open_security();
    for (uint32_t i = 1; i <= 5000; i++)
        note(alice, "r1", "P101", i);
    note(bob, "r9", "P101", 7);
    kr_security_settle(security);
    CHECK(sql_int(store, "SELECT count(*) FROM security_events WHERE rule = 'P101'") == 301);
    CHECK(rows("run = 'r9'") == 1 && kr_security_figures(security).unlisted == 4700);
    kr_security_flush(security);
    CHECK(rows("rule = 'more' AND count = 4700 AND kind = 'policy' AND run = ''") == 1 && rows("1") == 302);
    CHECK(kr_security_figures(security).dropped == 0 && heard == 5001);
    close_security();
}

/* Every event has a place, or is counted. */
static void test_a_store_that_takes_nothing(void)
{
    open_security();
    sqlite3_exec(store->db,
                 "CREATE TEMP TRIGGER broken BEFORE INSERT ON security_events BEGIN "
                 "SELECT RAISE(ABORT, 'full'); END",
                 NULL, NULL, NULL);
    for (uint32_t i = 1; i <= 300; i++) {
        note(alice, "r1", "P101", i);
        note(bob, "r1", "P101", i);
    }
    CHECK(rows("1") == 0 && kr_security_figures(security).dropped == 600 - 512);
    sqlite3_exec(store->db, "DROP TRIGGER broken", NULL, NULL, NULL);
    kr_security_flush(security);
    CHECK(rows("1") == 512);
    close_security();
}

static void test_texts_are_cut_between_characters(void)
{
    char text[600];

    for (size_t i = 0; i < sizeof text - 2; i += 2)
        memcpy(text + i, "\xc3\xa4", 3);
    open_security();
    kr_security_note(
        security,
        &(struct kr_security_event){
            .kind = KR_SECURITY_LIMIT, .rule = text + 2, .text = text, .user = alice, .sandbox = lab, .run = ""});
    kr_security_settle(security);
    CHECK(rows("length(CAST(rule AS BLOB)) = 40 AND length(CAST(text AS BLOB)) = 256 AND substr(text, -1) = 'ä'") == 1);
    close_security();
}

/* What was closed has given everything back through the loop. */
static void test_nothing_is_left_in_the_loop(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    store = must_open(fresh_dir());
    if (uv_loop_init(&loop) < 0 || add_user("alice", alice) < 0 || add_user("bob", bob) < 0 ||
        add_sandbox(alice, "lab", lab) < 0)
        return 1;
    RUN(test_equal_ones_are_one_row);
    RUN(test_they_are_written_by_the_timer);
    RUN(test_a_flood_is_a_sum);
    RUN(test_a_store_that_takes_nothing);
    RUN(test_texts_are_cut_between_characters);
    RUN(test_nothing_is_left_in_the_loop);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}
