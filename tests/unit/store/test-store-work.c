/* src/store: sandboxes, runs, lists, the audit log; and that owners are apart. Run by tests/run. */
#include "check.h"
#include "store-common.h"
#include "store_key.h"
#include <errno.h>

/* ---- sandboxes ---- */

static void on_folder(void *data, const char *folder)
{
    snprintf(data, KR_STORE_ID_ROOM, "%s", folder);
}

static void test_sandboxes(void)
{
    struct kr_store_sandbox_new new = {.owner = alice, .name = "lab", .settings = "{\"network\":\"none\"}", .now = NOW};
    cleanup_sandbox struct kr_store_sandbox made = {0}, got = {0}, found = {0};
    char folder[KR_STORE_ID_ROOM], doomed[KR_STORE_ID_ROOM];

    CHECK(kr_store_sandbox_add(store, &new, &made, &err) == 0);
    CHECK(!strcmp(made.settings, new.settings) && made.settings_len == strlen(new.settings) && made.created == NOW);
    CHECK(strcmp(made.folder, made.id));
    CHECK(kr_store_sandbox_add(store, &new, &got, &err) == -EEXIST && strstr(err.msg, "name: ") == err.msg);
    CHECK(kr_store_sandbox_find(store, alice, "lab", &found, &err) == 0 && !strcmp(found.id, made.id));
    CHECK(kr_store_sandbox_configure(store, alice, made.id, "{\"env\":{\"A\":\"1\"}}", &err) == 0);
    CHECK(kr_store_sandbox_configure(store, alice, made.id, "[1]", &err) == -EINVAL && strstr(err.msg, "settings"));
    CHECK(kr_store_sandbox_configure(store, alice, made.id, "{", &err) == -EINVAL);
    CHECK(kr_store_sandbox_configure(store, alice, "0000", "{}", &err) == -ENOENT);
    CHECK(kr_store_sandbox_rename(store, alice, made.id, "lab 2", &err) == 0);
    CHECK(kr_store_sandbox_rename(store, alice, made.id, "a\tb", &err) == -EINVAL);
    CHECK(kr_store_sandbox_touch(store, alice, made.id, NOW + 9 * SECOND, &err) == 0);
    CHECK(kr_store_sandbox_get(store, alice, made.id, &got, &err) == 0);
    CHECK(!strcmp(got.name, "lab 2") && got.created == NOW && got.used == NOW);
    CHECK(!strcmp(got.settings, "{\"env\":{\"A\":\"1\"}}"));
    CHECK(kr_store_sandbox_touch(store, alice, made.id, NOW + 10 * SECOND, &err) == 0);
    CHECK(kr_store_sandbox_reset(store, alice, made.id, folder, NOW, &err) == 0 && strcmp(folder, made.folder));
    CHECK(kr_store_folder_known(store, folder, &err) == 1 && kr_store_folder_known(store, made.folder, &err) == 1);
    CHECK(kr_store_folder_known(store, "stray", &err) == 0);
    CHECK(kr_store_doomed_list(store, NOW, 10, on_folder, doomed, &err) == 1 && !strcmp(doomed, made.folder));
    CHECK(kr_store_doomed_done(store, doomed, &err) == 0 && kr_store_folder_known(store, doomed, &err) == 0);
    kr_store_sandbox_done(&got);
    CHECK(kr_store_sandbox_get(store, alice, made.id, &got, &err) == 0);
    CHECK(!strcmp(got.folder, folder) && got.used == NOW + 10 * SECOND);
    CHECK(kr_store_sandbox_delete(store, alice, made.id, NOW, &err) == 0);
    CHECK(kr_store_sandbox_delete(store, alice, made.id, NOW, &err) == -ENOENT);
    CHECK(kr_store_doomed_list(store, NOW, 10, on_folder, doomed, &err) == 1 && !strcmp(doomed, folder));
    CHECK(kr_store_doomed_done(store, doomed, &err) == 0);
}

static void test_sandbox_limits(void)
{
    struct kr_store_sandbox_new new = {.name = "default", .max = 2, .now = NOW};
    cleanup_sandbox struct kr_store_sandbox first = {0}, again = {0};
    static char large[KR_STORE_SETTINGS_MAX + 2];
    char gina[KR_STORE_ID_ROOM], id[KR_STORE_ID_ROOM];

    CHECK(add_user("gina", gina) == 0);
    new.owner = gina;
    CHECK(kr_store_sandbox_ensure(store, &new, &first, &err) == 1);
    CHECK(kr_store_sandbox_ensure(store, &new, &again, &err) == 0 && !strcmp(first.id, again.id));
    new.name = "a";
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == 0);
    new.name = "b";
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == 0);
    new.name = "c";
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == -EDQUOT && err.kind == KR_ERR_LIMIT && strstr(err.msg, "2"));
    CHECK(kr_store_sandboxes_count(store, gina, &err) == 2);
    CHECK(kr_store_sandbox_rename(store, gina, first.id, "x", &err) == -EPERM);
    CHECK(add_sandbox(gina, "d", id) == 0 && kr_store_sandbox_rename(store, gina, id, "default", &err) == -EPERM);
    CHECK(kr_store_sandbox_rename(store, gina, id, "a", &err) == -EEXIST);
    new.owner = "nobody", new.name = "e", new.max = 0;
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == -ENOENT);
    memset(large, ' ', sizeof large - 1);
    new.owner = gina, new.settings = large;
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == -EINVAL && strstr(err.msg, "settings"));
    new.settings = "nonsense";
    CHECK(kr_store_sandbox_add(store, &new, NULL, &err) == -EINVAL && strstr(err.msg, "settings"));
}

/* The first start that knows of dialects gives the one `default` there was to the server's own; later ones change
 * nothing. */
static void test_defaults_of_dialects(void)
{
    struct kr_store_sandbox_new new = {.owner = alice, .name = "default", .max = 1, .now = NOW};
    cleanup_sandbox struct kr_store_sandbox old = {0}, got = {0}, later = {0}, mine = {0};
    char own[KR_STORE_ID_ROOM];

    CHECK(kr_store_is_default("default") && kr_store_is_default("default@x"));
    CHECK(!kr_store_is_default("default2") && !kr_store_is_default("my default@x") && !kr_store_is_default(""));
    CHECK(kr_store_sandbox_ensure(store, &new, &old, &err) == 1);
    CHECK(add_sandbox(alice, "default@x", own) == 0);
    CHECK(kr_store_defaults_settle(store, "default@x", &err) >= 2); /* other tests' users have theirs */
    CHECK(kr_store_sandbox_get(store, alice, own, &mine, &err) == 0);
    CHECK(!strncmp(mine.name, "renamed-", 8) && !strcmp(mine.name + 8, own));
    CHECK(kr_store_sandbox_rename(store, alice, own, "mine", &err) == 0);
    CHECK(kr_store_sandboxes_count(store, alice, &err) == 1);
    CHECK(kr_store_sandbox_delete(store, alice, own, NOW, &err) == 0);
    CHECK(kr_store_doomed_done(store, mine.folder, &err) == 0);
    CHECK(kr_store_sandbox_find(store, alice, "default@x", &got, &err) == 0 && !strcmp(got.id, old.id));
    CHECK(kr_store_sandbox_rename(store, alice, got.id, "mine", &err) == -EPERM);
    CHECK(kr_store_sandbox_ensure(store, &new, &later, &err) == 1 && strcmp(later.id, old.id) != 0);
    CHECK(kr_store_defaults_settle(store, "default@y", &err) == 0);
    CHECK(kr_store_sandboxes_count(store, alice, &err) == 0);
    CHECK(kr_store_sandbox_delete(store, alice, old.id, NOW, &err) == 0);
    CHECK(kr_store_sandbox_delete(store, alice, later.id, NOW, &err) == 0);
    CHECK(kr_store_doomed_done(store, old.folder, &err) == 0 && kr_store_doomed_done(store, later.folder, &err) == 0);
}

/* Every call that takes an owner, with another owner's id: nothing is told, nothing changes. */
static void test_owners_are_apart(void)
{
    struct kr_store_run_end end = {.ended = NOW, .cause = "cancelled"};
    struct kr_store_run_start start = {.owner = alice, .code = "x", .code_len = 1, .started = NOW};
    cleanup_sandbox struct kr_store_sandbox sandbox = {0};
    cleanup_store_run struct kr_store_run run = {0};
    char id[KR_STORE_ID_ROOM], folder[KR_STORE_ID_ROOM], running[KR_STORE_ID_ROOM], same[KR_STORE_ID_ROOM];
    struct kr_err unknown;

    kr_store_new_id(running);
    start.id = running, start.sandbox = id, start.session = "s";
    CHECK(add_sandbox(alice, "private", id) == 0 && kr_store_run_start(store, &start, &err) == 0);
    CHECK(kr_store_sandbox_get(store, bob, "0000", &sandbox, &unknown) == -ENOENT);
    CHECK(kr_store_sandbox_get(store, bob, id, &sandbox, &err) == -ENOENT && !memcmp(&err, &unknown, sizeof err));
    CHECK(kr_store_sandbox_find(store, bob, "private", &sandbox, &err) == -ENOENT);
    CHECK(kr_store_sandbox_rename(store, bob, id, "mine", &err) == -ENOENT);
    CHECK(kr_store_sandbox_configure(store, bob, id, "{}", &err) == -ENOENT);
    CHECK(kr_store_sandbox_rename(store, bob, "0000", "mine", &err) == -ENOENT);
    CHECK(kr_store_sandbox_touch(store, bob, id, NOW * 2, &err) == -ENOENT);
    CHECK(kr_store_sandbox_reset(store, bob, id, folder, NOW, &err) == -ENOENT);
    CHECK(kr_store_sandbox_delete(store, bob, id, NOW, &err) == -ENOENT);
    CHECK(kr_store_run_get(store, bob, "0000", &run, &unknown) == -ENOENT);
    CHECK(kr_store_run_get(store, bob, running, &run, &err) == -ENOENT && !memcmp(&err, &unknown, sizeof err));
    CHECK(kr_store_run_end(store, bob, running, &end, &err) == -ENOENT);
    CHECK(kr_store_session_known(store, bob, id, "s", &err) == 0);
    CHECK(kr_store_session_known(store, alice, id, "s", &err) == 1);
    CHECK(kr_store_session_known(store, alice, id, "t", &err) == 0);
    CHECK(add_sandbox(bob, "private", same) == 0); /* a name is the owner's own */
    CHECK(kr_store_sandbox_get(store, alice, id, &sandbox, &err) == 0 && !strcmp(sandbox.settings, "{}"));
    CHECK(!strcmp(sandbox.name, "private") && sandbox.used == NOW);
    CHECK(sql_int(store, "SELECT count(*) FROM doomed") == 0);
    CHECK(kr_store_run_get(store, alice, running, &run, &err) == 0 && !run.ended);
}

/* ---- runs ---- */

static void test_runs(void)
{
    struct kr_store_run_start start = {.owner = alice, .sandbox = NULL, .session = "main", .started = NOW};
    struct kr_store_run_end end = {.ended = NOW + 7,
                                   .cause = "memory_limit",
                                   .exit_code = 137,
                                   .hits = 5,
                                   .message = "too much",
                                   .wall_us = 7,
                                   .cpu_us = 6,
                                   .peak_memory = 5,
                                   .output_bytes = 4,
                                   .kept_bytes = 3,
                                   .truncated = false,
                                   .files = "[\"a\"]"};
    cleanup_store_run struct kr_store_run run = {0}, ended = {0};
    char code[1000], id[KR_STORE_ID_ROOM];

    memset(code, 'x', sizeof code);
    memcpy(code, "\xe5\x9b\xbe\xff\0", 5);
    start.code = code, start.code_len = sizeof code, start.id = id;
    kr_store_new_id(id);
    CHECK(kr_store_run_start(store, &start, &err) == 0);
    CHECK(kr_store_run_start(store, &start, &err) == -EEXIST);
    CHECK(kr_store_run_get(store, alice, id, &run, &err) == 0);
    CHECK(!strncmp(run.code, "\xe5\x9b\xbe\xef\xbf\xbd\xef\xbf\xbdxx", 11)); /* a character, U+FFFD twice */
    CHECK(strlen(run.code) == 3 * 3 + 97 && !run.ended && !run.cause[0] && !run.files && !run.sandbox[0]);
    CHECK(kr_store_run_end(store, alice, id, &end, &err) == 0);
    CHECK(kr_store_run_end(store, alice, id, &end, &err) == -ENOENT); /* once */
    CHECK(kr_store_run_get(store, alice, id, &ended, &err) == 0);
    CHECK(ended.ended == NOW + 7 && !strcmp(ended.cause, "memory_limit") && ended.exit_code == 137 && ended.hits == 5);
    CHECK(!strcmp(ended.message, "too much") && ended.wall_us == 7 && ended.cpu_us == 6 && ended.peak_memory == 5);
    CHECK(ended.output_bytes == 4 && ended.kept_bytes == 3 && !ended.truncated && !strcmp(ended.files, "[\"a\"]"));
    start.owner = "nobody";
    kr_store_new_id(id);
    CHECK(kr_store_run_start(store, &start, &err) == -ENOENT);
}

static void test_run_files_that_do_not_fit(void)
{
    static char large[KR_STORE_FILES_MAX + 2];
    const char *const files[] = {"[", large, NULL};
    char id[KR_STORE_ID_ROOM];

    memset(large, '1', sizeof large - 1);
    for (int i = 0; i < 3; i++) {
        struct kr_store_run_start start = {.id = id, .owner = alice, .code = "", .started = NOW};
        struct kr_store_run_end end = {.ended = NOW, .cause = "ok", .files = files[i]};
        cleanup_store_run struct kr_store_run run = {0};

        kr_store_new_id(id);
        CHECK(kr_store_run_start(store, &start, &err) == 0 && kr_store_run_end(store, alice, id, &end, &err) == 0);
        CHECK(kr_store_run_get(store, alice, id, &run, &err) == 0);
        CHECK(files[i] ? run.truncated && !strcmp(run.files, "[]") : !run.truncated && !run.files);
    }
}

static void test_run_retention(void)
{
    char id[KR_STORE_ID_ROOM], oldest[KR_STORE_ID_ROOM];
    cleanup_store_run struct kr_store_run run = {0};
    struct kr_store_totals t;
    struct kr_txn fill = {0};
    int gone = 0, r, sum = 0;

    sqlite3_exec(store->db, "DELETE FROM runs", NULL, NULL, NULL);
    CHECK(kr_txn_begin(&fill, store, &err) == 0);
    for (int i = 0; i < 700; i++)
        CHECK(add_run(i % 2 ? alice : bob, NULL, NOW + i * SECOND, 1000, i ? id : oldest) == 0);
    CHECK(kr_txn_commit(&fill, false, &err) == 0 && totals_are_true());
    CHECK(kr_store_runs_prune(store, &(struct kr_store_keep){0}, on_gone, &gone, &err) == 0);
    CHECK(kr_store_runs_prune(store, &(struct kr_store_keep){.since = NOW}, on_gone, &gone, &err) == 0 && gone == 0);
    CHECK(kr_store_runs_prune(store, &(struct kr_store_keep){.since = NOW + SECOND}, on_gone, &gone, &err) == 1);
    CHECK(gone == 1 && kr_store_run_get(store, bob, oldest, &run, &err) == -ENOENT);
    while ((r = kr_store_runs_prune(store, &(struct kr_store_keep){.count = 100}, on_gone, &gone, &err)) > 0) {
        CHECK(r <= (int)KR_STORE_PRUNE_MAX);
        sum += r;
    }
    CHECK(r == 0 && sum == 599 && gone == 600 && totals_are_true());
    CHECK(kr_store_run_get(store, alice, id, &run, &err) == 0); /* the newest */
    CHECK(kr_store_totals(store, &t, &err) == 0 && t.runs == 100 && t.run_bytes > 100 * 1000);
    CHECK(kr_store_runs_prune(store, &(struct kr_store_keep){.bytes = t.run_bytes / 2}, NULL, NULL, &err) == 50);
    CHECK(kr_store_totals(store, &t, &err) == 0 && t.runs == 50 && totals_are_true());
}

/* A run that has not ended is no matter for retention, however old it is. */
static void test_running_runs_stay(void)
{
    struct kr_store_run_start start = {.owner = alice, .code = "", .started = 1};
    char id[KR_STORE_ID_ROOM], other[KR_STORE_ID_ROOM];
    cleanup_store_run struct kr_store_run run = {0};
    struct kr_store_logs marks = {0};
    int64_t before;

    kr_store_new_id(id);
    start.id = id;
    CHECK(kr_store_run_start(store, &start, &err) == 0 && add_run(alice, NULL, 5, 0, other) == 0);
    CHECK(kr_store_runs_prune(store, &(struct kr_store_keep){.since = 100}, NULL, NULL, &err) == 1);
    CHECK(kr_store_logs_get(store, &marks, &err) == 0 && marks.pruned > 0); /* what goes is marked, and never lower */
    before = marks.pruned;
    CHECK(kr_store_logs_pruned(store, before - 1, &err) == 0 && kr_store_logs_get(store, &marks, &err) == 0);
    CHECK(marks.pruned == before);
    CHECK(kr_store_log_known(store, id, &err) == 1 && kr_store_log_known(store, other, &err) == 0);
    CHECK(kr_store_run_get(store, alice, id, &run, &err) == 0);
    CHECK(kr_store_run_get(store, alice, other, &run, &err) == -ENOENT);
    CHECK(kr_store_runs_lost(store, NOW, &err) == 0); /* this process lives */
    CHECK(kr_store_run_end(store, alice, id, &(struct kr_store_run_end){.ended = 9, .cause = "ok"}, &err) == 0);
}

/* ---- lists ---- */

struct seen {
    int rows;
    char last[KR_STORE_ID_ROOM];
    char ids[1200][KR_STORE_ID_ROOM];
    bool twice, reenter;
};

static void see(struct seen *seen, const char *id)
{
    for (int i = 0; i < seen->rows && i < 1200; i++)
        seen->twice |= !strcmp(seen->ids[i], id);
    snprintf(seen->ids[seen->rows++ % 1200], KR_STORE_ID_ROOM, "%s", id);
    snprintf(seen->last, sizeof seen->last, "%s", id);
}
static void on_user(void *data, const struct kr_store_user *user)
{
    see(data, user->id);
}
static void on_key(void *data, const struct kr_store_key *key)
{
    see(data, key->id);
}
static void on_sandbox(void *data, const struct kr_store_sandbox *sandbox)
{
    see(data, sandbox->id);
}
static void on_run(void *data, const struct kr_store_run *run)
{
    see(data, run->id);
}
static void on_audit(void *data, const struct kr_store_audit *row)
{
    char id[KR_STORE_ID_ROOM];

    snprintf(id, sizeof id, "%lld", (long long)row->id);
    see(data, id);
}

enum list { USERS, KEYS, ALL_KEYS, SANDBOXES, RUNS, AUDIT, LISTS };

static int list_page(enum list which, const char *owner, struct kr_store_page *page, struct seen *seen)
{
    switch (which) {
    case USERS:
        return kr_store_users_list(store, page, on_user, seen, &err);
    case KEYS:
        return kr_store_keys_list(store, owner, page, on_key, seen, &err);
    case ALL_KEYS:
        return kr_store_keys_list_all(store, page, on_key, seen, &err);
    case SANDBOXES:
        return kr_store_sandboxes_list(store, owner, page, on_sandbox, seen, &err);
    case RUNS:
        return kr_store_runs_list(store, owner, NULL, page, on_run, seen, &err);
    case AUDIT:
    case LISTS:
        break;
    }
    return kr_store_audit_list(store, NULL, page, on_audit, seen, &err);
}

/* All pages of that size. Rows, or -1. */
static int walk(enum list which, const char *owner, unsigned limit, struct seen *seen)
{
    struct kr_store_page page = {.limit = limit};
    int r, sum = 0;

    memset(seen, 0, sizeof *seen);
    do {
        r = list_page(which, owner, &page, seen);
        if (r < 0 || r > (int)limit)
            return -1;
        sum += r;
        page.after = page.next;
    } while (page.next[0]);
    return sum == seen->rows && !seen->twice ? sum : -1;
}

/* Rows of the very same time, in pages of every size: each row once. */
static void test_pages(void)
{
    static struct seen whole, seen;
    char hugo[KR_STORE_ID_ROOM], id[KR_STORE_ID_ROOM], name[20], text[KR_STORE_KEY_ROOM];

    CHECK(add_user("hugo", hugo) == 0);
    for (int i = 0; i < 13; i++) {
        snprintf(name, sizeof name, "p%d", i);
        CHECK(add_user(name, id) == 0 && add_sandbox(hugo, name, id) == 0);
        CHECK(kr_store_key_add(store, &(struct kr_store_key_new){hugo, name, 1, 0, NOW + i % 3}, text, NULL, &err) ==
              0);
        CHECK(add_run(hugo, NULL, NOW + i % 3, 0, id) == 0);
        CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW, .who = hugo, .what = "w"}, &err) == 0);
    }
    CHECK(totals_are_true());
    for (int which = 0; which < LISTS; which++) {
        int all = walk(which, hugo, KR_STORE_PAGE_MAX, &whole);

        CHECK(which == USERS || which == ALL_KEYS || which == AUDIT ? all >= 13 : all == 13);
        for (unsigned limit = 1; limit < 15; limit++) {
            CHECK(walk(which, hugo, limit, &seen) == all);
            CHECK(!memcmp(seen.ids, whole.ids, sizeof seen.ids)); /* in the same order */
        }
    }
}

static void test_pages_while_rows_go(void)
{
    static struct seen seen;
    struct kr_store_page page = {.limit = 5};
    char ines[KR_STORE_ID_ROOM], ids[20][KR_STORE_ID_ROOM];

    CHECK(add_user("ines", ines) == 0);
    for (int i = 0; i < 20; i++)
        CHECK(add_run(ines, NULL, NOW + i, 0, ids[i]) == 0);
    memset(&seen, 0, sizeof seen);
    CHECK(kr_store_runs_list(store, ines, NULL, &page, on_run, &seen, &err) == 5 && !strcmp(seen.last, ids[15]));
    CHECK(kr_st_exec(store, KR_ST_RUN_DELETE, &err, "t", ids[15]) == 1); /* the very row of the cursor */
    CHECK(kr_st_exec(store, KR_ST_RUN_DELETE, &err, "t", ids[14]) == 1);
    CHECK(add_run(ines, NULL, NOW + 99, 0, ids[15]) == 0);
    page.after = page.next;
    CHECK(kr_store_runs_list(store, ines, NULL, &page, on_run, &seen, &err) == 5 && !strcmp(seen.last, ids[9]));
    CHECK(!seen.twice);
}

static void test_pages_refused(void)
{
    static const char *const cursors[] = {
        "x", "-5.a", "5", "5.", ".a", "5.abcdefghijklmnopqrstuvwxyz012345", "99999999999999999999.a"};
    static struct seen seen;
    struct kr_store_page page = {.limit = 0};

    CHECK(list_page(USERS, NULL, &page, &seen) == -EINVAL && strstr(err.msg, "limit"));
    page.limit = KR_STORE_PAGE_MAX + 1;
    CHECK(list_page(USERS, NULL, &page, &seen) == -EINVAL);
    page.limit = 1;
    for (size_t i = 0; i < sizeof cursors / sizeof cursors[0]; i++) {
        page.after = cursors[i];
        CHECK(i == 3 || (list_page(USERS, NULL, &page, &seen) == -EINVAL && strstr(err.msg, "cursor")));
        CHECK(i == 2 || list_page(AUDIT, NULL, &page, &seen) == -EINVAL);
    }
}

static void on_key_again(void *data, const struct kr_store_key *key)
{
    struct kr_store_page page = {.limit = 1};
    struct kr_store_key copy;
    int *result = data;

    *result = kr_store_keys_list(store, key->owner, &page, on_key_again, data, &err);
    if (kr_store_key_get(store, key->owner, key->id, &copy, &err) < 0 || strcmp(copy.id, key->id))
        *result = 1;
}

static void test_a_callback_may_call_but_not_itself(void)
{
    struct kr_store_page page = {.limit = 1};
    int result = 0;
    char text[KR_STORE_KEY_ROOM];

    CHECK(kr_store_key_add(store, &(struct kr_store_key_new){bob, "k", 1, 0, NOW}, text, NULL, &err) == 0);
    CHECK(kr_store_keys_list(store, bob, &page, on_key_again, &result, &err) == 1 && result == -EDEADLK);
}

static void test_run_filters(void)
{
    static struct seen seen;
    char jo[KR_STORE_ID_ROOM], ids[4][KR_STORE_ID_ROOM];
    struct kr_store_page page = {.limit = 10};
    struct kr_store_run_filter f = {.sandbox = "A", .session = "s"};

    CHECK(add_user("jo", jo) == 0);
    for (int i = 0; i < 4; i++) {
        struct kr_store_run_start start = {.id = ids[i], .owner = jo, .code = "", .started = NOW + i};

        kr_store_new_id(ids[i]);
        start.sandbox = i < 2 ? "A" : "B", start.session = i % 2 ? "s" : "t";
        CHECK(kr_store_run_start(store, &start, &err) == 0);
    }
    CHECK(kr_store_run_end(store, jo, ids[0], &(struct kr_store_run_end){.ended = NOW, .cause = "timeout"}, &err) == 0);
    memset(&seen, 0, sizeof seen);
    CHECK(kr_store_runs_list(store, jo, &f, &page, on_run, &seen, &err) == 1 && !strcmp(seen.last, ids[1]));
    f = (struct kr_store_run_filter){.sandbox = "A"};
    CHECK(kr_store_runs_list(store, jo, &f, &page, on_run, &seen, &err) == 2);
    f = (struct kr_store_run_filter){.session = "s"};
    CHECK(kr_store_runs_list(store, jo, &f, &page, on_run, &seen, &err) == 2);
    f = (struct kr_store_run_filter){.cause = "timeout"};
    CHECK(kr_store_runs_list(store, jo, &f, &page, on_run, &seen, &err) == 1 && !strcmp(seen.last, ids[0]));
    f = (struct kr_store_run_filter){.running = true};
    CHECK(kr_store_runs_list(store, jo, &f, &page, on_run, &seen, &err) == 3);
}

/* What a filter wants is the oldest of many: it is on the first page, and a full page says whether there is more. */
static void test_filtered_pages_are_full(void)
{
    static const struct kr_store_run_filter filters[] = {
        {.sandbox = "B"},
        {.session = "x"},
        {.cause = "timeout"},
        {.running = true},
        {.sandbox = "B", .session = "x"},
        {.session = "x", .cause = "timeout"},
        {.sandbox = "B", .session = "x", .running = true},
    };
    static struct seen seen;
    const struct kr_store_run_end ok = {.ended = NOW, .cause = "ok"}, late = {.ended = NOW, .cause = "timeout"};
    char kim[KR_STORE_ID_ROOM], ids[4][KR_STORE_ID_ROOM], id[KR_STORE_ID_ROOM];
    struct kr_txn fill = {0};

    CHECK(add_user("kim", kim) == 0 && kr_txn_begin(&fill, store, &err) == 0);
    for (int i = 0; i < 5004; i++) {
        char *own = i < 4 ? ids[i] : id;
        struct kr_store_run_start start = {.id = own, .owner = kim, .code = "", .started = NOW + i};

        kr_store_new_id(own);
        start.sandbox = i < 4 ? "B" : "A", start.session = i < 4 ? "x" : "main";
        CHECK(kr_store_run_start(store, &start, &err) == 0);
        CHECK((i > 1 && i < 4) || kr_store_run_end(store, kim, own, i < 2 ? &late : &ok, &err) == 0);
    }
    CHECK(kr_txn_commit(&fill, false, &err) == 0);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        struct kr_store_page page = {.limit = 1}, all = {.limit = 500}, exact = {.limit = 2};
        int want = filters[i].cause || filters[i].running ? 2 : 4;

        memset(&seen, 0, sizeof seen);
        CHECK(kr_store_runs_list(store, kim, &filters[i], &all, on_run, &seen, &err) == want && !all.next[0]);
        CHECK(kr_store_runs_list(store, kim, &filters[i], &page, on_run, &seen, &err) == 1 && page.next[0]);
        CHECK(kr_store_runs_list(store, kim, &filters[i], &exact, on_run, &seen, &err) == 2);
        CHECK(!exact.next[0] == (want == 2));
    }
}

/* ---- audit ---- */

struct kept {
    char who[40], what[60], object[300], detail[100], address[80];
};
static void on_kept(void *data, const struct kr_store_audit *row)
{
    struct kept *k = data;

    snprintf(k->who, sizeof k->who, "%s", row->who);
    snprintf(k->what, sizeof k->what, "%s", row->what);
    snprintf(k->object, sizeof k->object, "%s", row->object);
    snprintf(k->detail, sizeof k->detail, "%s", row->detail);
    snprintf(k->address, sizeof k->address, "%s", row->address);
}

/* No content keeps a row out. */
static void test_audit_takes_everything(void)
{
    static char large[KR_STORE_DETAIL_MAX + 2], name[1000];
    struct kr_store_page page = {.limit = 1};
    struct kept kept;

    memset(large, '1', sizeof large - 1);
    memset(name, 'n', sizeof name - 1);
    name[0] = '\xff';
    CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW}, &err) == 0);
    CHECK(kr_store_audit_list(store, NULL, &page, on_kept, &kept, &err) == 1);
    CHECK(!kept.who[0] && !kept.object[0] && !strcmp(kept.detail, "{}"));
    CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW, .object = name, .detail = large}, &err) == 0);
    CHECK(kr_store_audit_list(store, NULL, &page, on_kept, &kept, &err) == 1);
    CHECK(strlen(kept.object) == 256 && !strncmp(kept.object, "\xef\xbf\xbdnn", 5));
    CHECK(!strcmp(kept.detail, "{\"lost\":\"too long\"}"));
    CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW, .who = name, .detail = "{\"a\":"}, &err) == 0);
    CHECK(kr_store_audit_list(store, NULL, &page, on_kept, &kept, &err) == 1);
    CHECK(!strcmp(kept.detail, "{\"lost\":\"not JSON\"}") && totals_are_true());
}

static int audit_count(const struct kr_store_audit_filter *f, int *ret_calls)
{
    static struct seen seen;
    struct kr_store_page page = {.limit = 100};
    int r, sum = 0, calls = 0;

    memset(&seen, 0, sizeof seen);
    do {
        r = kr_store_audit_list(store, f, &page, on_audit, &seen, &err);
        sum += r > 0 ? r : 0;
        page.after = page.next;
        calls++;
    } while (r >= 0 && page.next[0]);
    if (ret_calls)
        *ret_calls = calls;
    return r < 0 ? r : sum;
}

static void test_audit_filters(void)
{
    struct kr_store_keep keep = {.since = NOW + 9};
    struct kr_txn fill = {0};
    int calls;

    sqlite3_exec(store->db, "DELETE FROM audit", NULL, NULL, NULL);
    CHECK(kr_txn_begin(&fill, store, &err) == 0);
    for (int i = 0; i < 6000; i++) {
        struct kr_store_audit row = {.at = NOW + i * SECOND, .who = i % 2 ? alice : bob, .what = "run.start"};

        row.what = i == 7 ? "rare" : row.what, row.object = i % 1000 ? "o" : "special",
        row.outcome = i % 3 ? "ok" : "no";
        row.request = i == 11 ? "r11" : "";
        CHECK(kr_store_audit_add(store, &row, &err) == 0);
    }
    CHECK(kr_txn_commit(&fill, false, &err) == 0 && totals_are_true());
    CHECK(audit_count(NULL, NULL) == 6000);
    CHECK(audit_count(&(struct kr_store_audit_filter){.who = alice}, NULL) == 3000);
    CHECK(audit_count(&(struct kr_store_audit_filter){.object = "special"}, &calls) == 6 && calls == 1);
    CHECK(audit_count(&(struct kr_store_audit_filter){.object = "special", .who = alice}, NULL) == 0);
    CHECK(audit_count(&(struct kr_store_audit_filter){.what = "rare"}, &calls) == 1 && calls == 1);
    CHECK(audit_count(&(struct kr_store_audit_filter){.request = "r11"}, &calls) == 1 && calls == 1);
    CHECK(audit_count(&(struct kr_store_audit_filter){.outcome = "no"}, &calls) == 2000 && calls == 20);
    CHECK(audit_count(&(struct kr_store_audit_filter){.outcome = "ok"}, &calls) == 4000 && calls == 40);
    CHECK(audit_count(&(struct kr_store_audit_filter){.since = NOW + 5990 * SECOND}, &calls) == 10 && calls <= 5);
    CHECK(audit_count(&(struct kr_store_audit_filter){.until = NOW + 10 * SECOND}, &calls) == 10 && calls <= 5);
    CHECK(audit_count(&(struct kr_store_audit_filter){.since = NOW + 5 * SECOND, .until = NOW + 8 * SECOND}, NULL) ==
          3);
    CHECK(kr_store_audit_prune(store, &keep, &err) == 1 && audit_count(NULL, NULL) == 5999);
    keep = (struct kr_store_keep){.count = 5900};
    CHECK(kr_store_audit_prune(store, &keep, &err) == (int)KR_STORE_PRUNE_MAX);
    CHECK(kr_store_audit_prune(store, &keep, &err) == 99 - (int)KR_STORE_PRUNE_MAX);
    CHECK(kr_store_audit_prune(store, &keep, &err) == 0);
    keep = (struct kr_store_keep){.bytes = 1000};
    while ((calls = kr_store_audit_prune(store, &keep, &err)) > 0)
        CHECK(calls <= (int)KR_STORE_PRUNE_MAX);
    CHECK(calls == 0 && totals_are_true() && audit_count(NULL, NULL) >= 1 && audit_count(NULL, NULL) < 5);
    keep = (struct kr_store_keep){.since = NOW * 2};
    CHECK(kr_store_audit_prune(store, &keep, &err) > 0 && audit_count(NULL, NULL) == 0);
    CHECK(kr_store_audit_add(store, &(struct kr_store_audit){.at = NOW}, &err) == 0);
    CHECK(sql_int(store, "SELECT id FROM audit") > 6000); /* never an id twice */
}

int main(void)
{
    store = must_open(fresh_dir());
    if (add_user("alice", alice) < 0 || add_user("bob", bob) < 0)
        return 1;
    RUN(test_sandboxes);
    RUN(test_sandbox_limits);
    RUN(test_defaults_of_dialects);
    RUN(test_owners_are_apart);
    RUN(test_runs);
    RUN(test_run_files_that_do_not_fit);
    RUN(test_run_retention);
    RUN(test_running_runs_stay);
    RUN(test_pages);
    RUN(test_pages_while_rows_go);
    RUN(test_pages_refused);
    RUN(test_a_callback_may_call_but_not_itself);
    RUN(test_run_filters);
    RUN(test_filtered_pages_are_full);
    RUN(test_audit_takes_everything);
    RUN(test_audit_filters);
    kr_store_close(store);
    remove_top();
    CHECK_DONE();
}
