/* src/job: the life of a job, its progress and log, cancelling, bounds, a restart, retention. With a real store and
 * real logs in a folder that is thrown away. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "job.h"
#include "loop.h"
#include "store-common.h"
#include "store_job.h"
#include "patience.h"
#include <errno.h>
#include <fcntl.h>
#include <uv.h>

#define OWNER "root"

static uv_loop_t loop;
static struct kr_store *store;
static struct kr_runlogs *logs;
static struct kr_jobs *jobs;

/* What the kinds of the test do is recorded here. */
static struct {
    unsigned starts, cancels, closes, attempt;
    struct kr_job *last;
    char params[64];
    int refuse; /* -errno that start() returns */
    bool app_is_ours;
} seen;

static int on_start(struct kr_job *job, void *app, struct kr_err *e)
{
    seen.app_is_ours = app == &seen;
    seen.starts++;
    seen.last = job;
    seen.attempt = kr_job_row(job)->attempt;
    snprintf(seen.params, sizeof seen.params, "%.60s", kr_job_row(job)->params);
    if (seen.refuse)
        return kr_err_set(e, KR_ERR_SYSTEM, -seen.refuse, "begin");
    kr_job_set_data(job, &seen);
    return 0;
}

static void on_cancel(struct kr_job *job)
{
    CHECK(kr_job_data(job) == &seen);
    seen.cancels++;
    kr_job_end(job, KR_CAUSE_CANCELLED, NULL);
}

static void on_close(struct kr_job *job)
{
    (void)job;
    seen.closes++;
}

static const struct kr_job_kind lasting = {
    .name = "test.lasting", .help = "Continues.", .continues = true, .start = on_start, .close = on_close};
static const struct kr_job_kind plain = {.name = "test.plain",
                                         .help = "Cannot continue.",
                                         .user_max = 2,
                                         .start = on_start,
                                         .cancel = on_cancel,
                                         .close = on_close};

static struct kr_jobs_config config_of(void)
{
    return (struct kr_jobs_config){.store = store, .logs = logs, .max = 4, .user_max = 3};
}

static void open_jobs(const struct kr_jobs_config *config)
{
    CHECK(kr_jobs_new(&loop, config, &jobs, &err) == 0);
    CHECK(kr_jobs_add_kind(jobs, &lasting, &seen) == 0);
    CHECK(kr_jobs_add_kind(jobs, &plain, &seen) == 0);
    CHECK(kr_jobs_add_kind(jobs, &plain, &seen) == -EEXIST);
}

static void open_all_of(const char *dir)
{
    struct kr_runlogs_config lc = {.dirfd = -1};
    struct kr_jobs_config config;

    store = must_open(dir);
    lc.dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(uv_loop_init(&loop) == 0);
    CHECK(kr_runlogs_new(&loop, &lc, &logs) == 0);
    memset(&seen, 0, sizeof seen);
    config = config_of();
    open_jobs(&config);
}

static void close_all_of(void)
{
    kr_jobs_close(jobs);
    kr_runlogs_close(logs);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    kr_store_close(store);
}

static int start_as(const char *owner, const char *kind, struct kr_job **ret)
{
    const struct kr_job_spec spec = {
        .kind = kind, .owner = owner, .subject = "the subject", .params = "{\"a\":1}", .address = "127.0.0.1"};

    return kr_job_start(jobs, &spec, ret, &err);
}

struct watcher {
    struct kr_job_watch watch;
    unsigned ends;
    char cause[16], message[64];
    bool had_err;
};

static void on_end(struct kr_job_watch *watch, const struct kr_store_job *row, const struct kr_err *e)
{
    struct watcher *w = (struct watcher *)watch;

    w->ends++;
    w->had_err = e != NULL;
    snprintf(w->cause, sizeof w->cause, "%s", row->cause);
    snprintf(w->message, sizeof w->message, "%.60s", row->message);
}

/* ---- one ---- */

static void life_of_a_job(void)
{
    struct watcher w = {.watch.on_end = on_end}, gone = {.watch.on_end = on_end};
    struct kr_store_job row;
    struct kr_job *job = NULL;
    char id[KR_STORE_ID_ROOM], *result = NULL;

    open_all_of(fresh_dir());
    CHECK(start_as(OWNER, "test.plain", &job) == 0);
    CHECK(seen.starts == 1 && seen.app_is_ours && seen.last == job && strcmp(seen.params, "{\"a\":1}") == 0);
    memcpy(id, kr_job_row(job)->id, sizeof id);
    kr_job_watch(job, &w.watch);
    kr_job_watch(job, &gone.watch);
    kr_job_unwatch(&gone.watch);
    CHECK(kr_job_is_watched(job));
    CHECK(kr_jobs_running(jobs, OWNER, id) == job && !kr_jobs_running(jobs, "someone", id));

    CHECK(kr_store_job_get(store, OWNER, id, &row, &err) == 0); /* before it ends, for a server that is killed */
    CHECK(row.ended == 0 && row.attempt == 1 && strcmp(row.subject, "the subject") == 0);
    CHECK(strcmp(row.address, "127.0.0.1") == 0 && row.request[0] == '\0');

    CHECK(kr_job_set_result(job, "{\"n\":1}") == 0 && kr_job_set_result(job, "{\"n\":2}") == 0);
    CHECK(kr_jobs_result(jobs, id, &result, &err) == -ENOENT);
    kr_err_set(&err, KR_ERR_SYSTEM, ENOSPC, "write");
    kr_job_end(job, KR_CAUSE_EXCEPTION, &err);
    CHECK(kr_jobs_result(jobs, id, &result, &err) == 0 && strcmp(result, "{\"n\":2}") == 0);
    free(result);
    CHECK(w.ends == 1 && w.had_err && strcmp(w.cause, "exception") == 0);
    CHECK(gone.ends == 0);
    CHECK(strncmp(w.message, "write", 5) == 0);
    CHECK(!kr_jobs_running(jobs, OWNER, id));
    CHECK(kr_jobs_find(jobs, OWNER, id, &row, &err) == 0);
    CHECK(row.ended > 0 && strcmp(row.cause, "exception") == 0 && strcmp(row.kind, "test.plain") == 0);
    CHECK(kr_jobs_find(jobs, NULL, id, &row, &err) == 0);
    CHECK(kr_jobs_find(jobs, "someone", id, &row, &err) == -ENOENT);
    CHECK(kr_store_job_end(store, &row, NULL, NULL, 0, &err) == -ENOENT); /* it ends once */
    close_all_of();
}

static void count_row(void *data, const struct kr_store_job *row)
{
    (void)row;
    ++*(unsigned *)data;
}

struct about {
    unsigned count;
    char first[KR_STORE_ID_ROOM];
};

static bool on_about(void *data, const struct kr_store_job *row)
{
    struct about *a = data;

    if (a->count++ == 0)
        memcpy(a->first, row->id, sizeof a->first);
    return true;
}

static void jobs_about_one_subject(void)
{
    struct kr_job *job = NULL;
    char id[KR_STORE_ID_ROOM], *none = NULL;
    struct about all = {0}, other = {0}, most = {0};

    open_all_of(fresh_dir());
    for (int i = 0; i < 3; i++) {
        CHECK(start_as(OWNER, "test.plain", &job) == 0);
        memcpy(id, kr_job_row(job)->id, sizeof id);
        kr_job_end(job, KR_CAUSE_OK, NULL);
        CHECK(kr_jobs_result(jobs, id, &none, &err) == -ENOENT); /* it had none */
    }
    CHECK(kr_store_jobs_about(store, OWNER, "the subject", 10, on_about, &all, &err) == 0 && all.count == 3);
    CHECK(strcmp(all.first, id) == 0); /* the newest */
    CHECK(kr_store_jobs_about(store, OWNER, "the subject", 2, on_about, &most, &err) == 0 && most.count == 2);
    CHECK(kr_store_jobs_about(store, OWNER, "another", 10, on_about, &other, &err) == 0 && other.count == 0);
    CHECK(kr_store_jobs_about(store, "someone", "the subject", 10, on_about, &other, &err) == 0 && other.count == 0);
    close_all_of();
}

static void a_job_that_cannot_begin(void)
{
    struct kr_store_page page = {.limit = 10};
    struct kr_job *job = NULL;
    unsigned listed = 0;

    open_all_of(fresh_dir());
    seen.refuse = -ENOMEM;
    CHECK(start_as(OWNER, "test.plain", &job) == -ENOMEM);
    CHECK(job == NULL);
    CHECK(start_as(OWNER, "test.unknown", &job) == -EINVAL);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE cause = 'exception'") == 1);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs") == 1);
    CHECK(kr_store_jobs_list(store, OWNER, &page, count_row, &listed, &err) == 1 && listed == 1);
    CHECK(kr_store_jobs_list(store, "someone", &page, count_row, &listed, &err) == 0 && listed == 1);
    close_all_of();
}

/* ---- progress and log ---- */

struct events {
    unsigned count, progress, text;
    enum kr_cause cause;
    char end[512];
    bool over;
};

static void on_more(void *data, struct kr_runlog_reader *r)
{
    struct events *e = data;
    struct kr_event event;

    while (kr_runlog_peek(r, &event) == 1) {
        e->count++;
        e->progress += event.type == KR_EVENT_NOTICE && memmem(event.data, event.len, "\"progress\"", 10);
        e->text += event.type == KR_EVENT_STDOUT;
        if (event.type == KR_EVENT_END) {
            e->cause = event.cause;
            snprintf(e->end, sizeof e->end, "%.*s", (int)event.len, event.data);
            e->over = true;
        }
        kr_runlog_take(r);
    }
}

static void read_log(const struct kr_store_job *row, struct events *ret)
{
    struct kr_runlog_reader *reader = NULL;
    struct kr_runlog *log = NULL;

    *ret = (struct events){.cause = KR_CAUSE_MAX_};
    CHECK(kr_jobs_open_log(jobs, row, &log) == 0);
    CHECK(kr_runlog_read(log, 1, on_more, ret, &reader) == 0);
    for (long end = patience_end(); !ret->over && is_before(end);)
        uv_run(&loop, UV_RUN_ONCE);
    kr_runlog_reader_close(reader);
    kr_runlog_unref(log);
}

static void progress_and_log(void)
{
    struct kr_store_job row;
    struct kr_job *job = NULL;
    struct events e;
    char id[KR_STORE_ID_ROOM];

    open_all_of(fresh_dir());
    CHECK(start_as(OWNER, "test.plain", &job) == 0);
    memcpy(id, kr_job_row(job)->id, sizeof id);
    kr_job_progress(job, 1, 1000, "first");
    CHECK(kr_store_job_get(store, OWNER, id, &row, &err) == 0);
    CHECK(row.done == 1 && row.total == 1000 && strcmp(row.text, "first") == 0);
    for (unsigned i = 2; i <= 500; i++)
        kr_job_progress(job, i, 1000, "next");
    CHECK(kr_store_job_get(store, OWNER, id, &row, &err) == 0);
    CHECK(row.done == 1); /* the row has it once a second … */
    CHECK(kr_jobs_find(jobs, OWNER, id, &row, &err) == 0);
    CHECK(row.done == 500 && strcmp(row.text, "next") == 0); /* … and those that ask here at once */
    kr_job_text(job, KR_STREAM_STDOUT, "hello\n", 6);
    kr_job_end(job, KR_CAUSE_OK, NULL);
    CHECK(kr_jobs_find(jobs, OWNER, id, &row, &err) == 0);
    CHECK(row.done == 500 && row.total == 1000 && strcmp(row.cause, "ok") == 0 && row.message[0] == '\0');
    read_log(&row, &e);
    CHECK(e.over && e.cause == KR_CAUSE_OK);
    CHECK(e.count == 4 && e.progress == 1 && e.text == 1); /* started, progress, text, end */
    CHECK(strstr(e.end, "\"done\":500") && strstr(e.end, "\"cause\":\"ok\""));
    close_all_of();
}

/* ---- cancelling ---- */

static void cancelling(void)
{
    struct watcher w = {.watch.on_end = on_end};
    struct kr_job *job = NULL, *other = NULL;
    char id[KR_STORE_ID_ROOM];

    open_all_of(fresh_dir());
    CHECK(start_as(OWNER, "test.plain", &job) == 0);
    CHECK(start_as(OWNER, "test.lasting", &other) == 0);
    memcpy(id, kr_job_row(job)->id, sizeof id);
    kr_job_watch(job, &w.watch);
    CHECK(kr_jobs_cancel(jobs, "someone", id, &err) == -ENOENT);
    CHECK(seen.cancels == 0);
    CHECK(kr_jobs_cancel(jobs, OWNER, id, &err) == 0);
    CHECK(seen.cancels == 1 && w.ends == 1 && strcmp(w.cause, "cancelled") == 0);
    CHECK(kr_jobs_cancel(jobs, OWNER, id, &err) == -ENOENT); /* it is not open any more */
    CHECK(kr_jobs_cancel(jobs, NULL, kr_job_row(other)->id, &err) < 0);
    CHECK(err.kind == KR_ERR_CONFLICT); /* its kind has no cancel() */
    kr_job_end(other, KR_CAUSE_OK, NULL);
    close_all_of();
}

/* ---- bounds ---- */

static void bounds(void)
{
    struct kr_job *all[4] = {0}, *more = NULL;
    struct kr_job_spec spec = {.kind = "test.plain", .owner = OWNER};
    char longer[KR_STORE_JOB_SUBJECT_ROOM + 1];

    open_all_of(fresh_dir());
    CHECK(start_as("a", "test.plain", &all[0]) == 0);
    CHECK(start_as("a", "test.plain", &all[1]) == 0);
    CHECK(start_as("a", "test.plain", &more) < 0 && err.kind == KR_ERR_TOO_MANY); /* two of that kind */
    CHECK(start_as("a", "test.lasting", &all[2]) == 0);
    CHECK(start_as("a", "test.lasting", &more) < 0 && err.kind == KR_ERR_TOO_MANY); /* three of a user */
    CHECK(start_as("b", "test.plain", &all[3]) == 0);
    CHECK(start_as("c", "test.plain", &more) < 0 && err.kind == KR_ERR_BUSY); /* four in all */
    CHECK(more == NULL);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs") == 4); /* a job that was refused has no row */
    kr_job_end(all[0], KR_CAUSE_OK, NULL);
    CHECK(start_as("c", "test.plain", &all[0]) == 0);
    for (int i = 0; i < 4; i++)
        kr_job_end(all[i], KR_CAUSE_OK, NULL);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    spec.subject = longer;
    CHECK(kr_job_start(jobs, &spec, &more, &err) == -EINVAL && err.kind == KR_ERR_INVALID);
    close_all_of();
}

/* ---- a restart ---- */

static void a_restart_continues_or_ends(void)
{
    char dir[96], id[KR_STORE_ID_ROOM], other_id[KR_STORE_ID_ROOM];
    struct kr_store_job row;
    struct kr_job *job = NULL, *other = NULL;
    struct events e;

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    open_all_of(dir);
    CHECK(start_as(OWNER, "test.lasting", &job) == 0);
    CHECK(start_as(OWNER, "test.plain", &other) == 0);
    memcpy(id, kr_job_row(job)->id, sizeof id);
    memcpy(other_id, kr_job_row(other)->id, sizeof other_id);
    kr_job_progress(job, 7, 9, "before");
    CHECK(kr_jobs_resume(jobs, &err) == 0); /* its own are not orphans */
    close_all_of();
    CHECK(seen.closes == 2);

    open_all_of(dir);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE cause = 'lost'") == 1);
    CHECK(kr_jobs_resume(jobs, &err) == 1);
    CHECK(seen.starts == 1 && seen.attempt == 2 && strcmp(seen.params, "{\"a\":1}") == 0);
    CHECK(kr_jobs_find(jobs, OWNER, id, &row, &err) == 0);
    CHECK(row.ended == 0 && row.attempt == 2 && row.done == 7 && strcmp(row.text, "before") == 0);
    CHECK(kr_jobs_find(jobs, OWNER, other_id, &row, &err) == 0);
    CHECK(strcmp(row.cause, "lost") == 0);
    kr_job_end(seen.last, KR_CAUSE_OK, NULL);
    CHECK(kr_jobs_find(jobs, OWNER, id, &row, &err) == 0);
    CHECK(strcmp(row.cause, "ok") == 0 && row.attempt == 2);
    read_log(&row, &e);
    CHECK(e.over && e.cause == KR_CAUSE_OK && e.count == 2); /* the log of the second attempt */
    close_all_of();

    open_all_of(dir); /* control: what has ended is not found again */
    CHECK(kr_jobs_resume(jobs, &err) == 0);
    CHECK(seen.starts == 0);
    close_all_of();
}

/* Killed: nothing was closed. A kind that cannot continue, one that is not known any more, and one that cannot begin
 * again. */
static void a_kill_leaves_no_job_open(void)
{
    char dir[96];
    struct kr_job *job = NULL;

    snprintf(dir, sizeof dir, "%s", fresh_dir());
    open_all_of(dir);
    CHECK(start_as(OWNER, "test.plain", &job) == 0);
    CHECK(start_as(OWNER, "test.lasting", &job) == 0);
    CHECK(start_as(OWNER, "test.lasting", &job) == 0);
    CHECK(sqlite3_exec(store->db,
                       "UPDATE jobs SET holder = 1;"
                       "UPDATE jobs SET kind = 'test.unknown' WHERE n = (SELECT max(n) FROM jobs)",
                       NULL, NULL, NULL) == SQLITE_OK);
    seen.starts = 0;
    seen.refuse = -ENOMEM;
    CHECK(kr_jobs_resume(jobs, &err) == 3);
    CHECK(seen.starts == 1);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE ended IS NULL") == 0);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE cause = 'lost'") == 2);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE cause = 'exception' AND attempt = 2") == 1);
    close_all_of();
}

/* More than one transaction takes over. */
static void a_restart_finds_all(void)
{
    open_all_of(fresh_dir());
    CHECK(
        sqlite3_exec(store->db,
                     "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 600) "
                     "INSERT INTO jobs (id, owner, kind, subject, params, address, request, attempt, holder, started) "
                     "SELECT 'j' || i, 'root', 'test.unknown', '', '{}', '', '', 1, 1, i FROM c",
                     NULL, NULL, NULL) == SQLITE_OK);
    CHECK(kr_jobs_resume(jobs, &err) == 600);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE cause = 'lost'") == 600);
    close_all_of();
}

/* ---- retention ---- */

static void ended_jobs_go(void)
{
    struct kr_jobs_config config;
    struct kr_job *job = NULL;
    unsigned gone = 0;

    open_all_of(fresh_dir());
    for (int i = 0; i < 3; i++) {
        CHECK(start_as(OWNER, "test.lasting", &job) == 0);
        if (i < 2)
            kr_job_end(job, KR_CAUSE_OK, NULL);
    }
    CHECK(sqlite3_exec(store->db, "UPDATE jobs SET ended = 1 WHERE n = 1", NULL, NULL, NULL) == SQLITE_OK);
    config = config_of();
    config.retention_ms = 3600000;
    kr_jobs_close(jobs);
    open_jobs(&config);
    for (int i = 0; i < 3; i++) /* its timer is a minute away: what it calls */
        CHECK(kr_store_jobs_prune(store, kr_store_now() - INT64_C(3600000000), count_row, &gone, &err) == (i == 0));
    CHECK(gone == 1);
    CHECK(sql_int(store, "SELECT count(*) FROM jobs") == 2); /* one ended a moment ago, one is open */
    CHECK(sql_int(store, "SELECT count(*) FROM jobs WHERE ended IS NULL") == 1);
    close_all_of();
}

int main(void)
{
    atexit(remove_top);
    RUN(life_of_a_job);
    RUN(jobs_about_one_subject);
    RUN(a_job_that_cannot_begin);
    RUN(progress_and_log);
    RUN(cancelling);
    RUN(bounds);
    RUN(a_restart_continues_or_ends);
    RUN(a_kill_leaves_no_job_open);
    RUN(a_restart_finds_all);
    RUN(ended_jobs_go);
    CHECK_DONE();
}
