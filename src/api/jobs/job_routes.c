/* Jobs by id: list, read, follow, cancel.
 *
 * Called through the route table. Invariant: every id is looked up with its owner; another's is 404. */
#include "job_routes.h"
#include "body_read.h"
#include "buf.h"
#include "json.h"
#include "reply.h"
#include "run_follow.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

struct list_query {
    const char *after;
    int64_t limit;
};
struct events_query {
    int64_t from;
};

/* clang-format off */
static const struct kr_api_param job_params[] = {{"job_id", "The job's id.", ID}, {0}};

static const struct kr_api_prop job_props[] = {
    {.name = "job_id", .type = KR_API_STRING, .help = "The job.", .example = ID},
    {.name = "kind", .type = KR_API_STRING, .help = "What it does.", .example = "packages.install"},
    {.name = "subject", .type = KR_API_STRING, .help = "What it is about: for packages the sandbox's id.",
     .example = ID},
    {.name = "still_running", .type = KR_API_BOOL, .help = "It has not ended; it may wait for its turn.",
     .example = "false"},
    {.name = "attempt", .type = KR_API_INT, .help = "1; more: it was continued after a restart of the server.",
     .example = "1"},
    {.name = "started_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "ended_at", .type = KR_API_NUMBER, .nullable = true, .help = "Unix time; null while it runs.",
     .example = "1763200002.4"},
    {.name = "cause", .type = KR_API_STRING, .nullable = true,
     .help = "How it ended: `ok`, `exception` (the message says why), `cancelled`, `lost` with the server.",
     .example = "ok"},
    {.name = "message", .type = KR_API_STRING, .nullable = true, .help = "Why it failed.", .example = "null"},
    {.name = "done", .type = KR_API_INT, .help = "How far it is.", .example = "3"},
    {.name = "total", .type = KR_API_INT, .nullable = true, .help = "Of how many; null: not known.", .example = "3"},
    {.name = "text", .type = KR_API_STRING, .help = "What it does at the moment.", .example = "installing"},
    {.name = "result", .type = KR_API_OBJECT, .optional = true, .nullable = true,
     .help = "What it left; null: nothing, or not yet. Not in lists.",
     .example = "{\"op\":\"install\",\"ok\":true,\"installed\":[{\"name\":\"requests\",\"version\":\"2.31.0\"}]}"},
};
const struct kr_api_schema kr_api_job_schema = KR_API_SCHEMA("Job", "Background work.", job_props);
static const struct kr_api_prop jobs_props[] = {
    {.name = "jobs", .type = KR_API_ARRAY, .of = &kr_api_job_schema, .help = "Newest first."},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "1763200000000000." ID},
};
static const struct kr_api_schema jobs_schema = KR_API_SCHEMA("Jobs", "A page of jobs.", jobs_props);

static const char *const line_types[] = {"started", "stdout", "stderr", "notice", "cut", "end", NULL};
static const struct kr_api_prop line_props[] = {
    {.name = "seq", .type = KR_API_INT, .help = "1, 2, 3 …: say the next one to go on from there.", .example = "2"},
    {.name = "type", .type = KR_API_ENUM, .choices = line_types, .help = "What it is.", .example = "notice"},
    {.name = "text", .type = KR_API_TEXT, .optional = true,
     .help = "Of stdout and stderr: output. Of a notice: what is done at the moment.", .example = "downloading"},
};
const struct kr_api_schema kr_api_job_line_schema = {.name = "JobLine",
    .help = "One line of a job's log; `end`, with the result, is the last.",
    .props = line_props, .count = sizeof line_props / sizeof *line_props, .open = true};

static const struct kr_api_field list_fields[] = {
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct list_query, limit), KR_API_RANGE(1, 500), .def = "50",
     .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_query, after),
     KR_API_LENGTH(1, KR_STORE_CURSOR_ROOM - 1),
     .help = "`next` of the page before.", .example = "1763200000000000." ID},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which jobs.", list_fields, struct list_query);
static const struct kr_api_field events_fields[] = {
    {.name = "from", .type = KR_API_INT, KR_API_AT(struct events_query, from), KR_API_AT_LEAST(0), .def = "0",
     .help = "The first number wanted; Last-Event-ID does the same for server-sent events.", .example = "7"},
};
static const struct kr_api_table events_table = KR_API_TABLE(NULL, "From where.", events_fields, struct events_query);

const struct kr_api_header kr_api_job_headers[] = {{"X-Job-Id", "The job's id.", ID},
    {"Location", "Where the job is.", "/api/v1/jobs/" ID}, {0}};
static const struct kr_api_response list_ok[] = {{200, "The page.", NULL, &jobs_schema, NULL, NULL}, {0}};
static const struct kr_api_response read_ok[] = {{200, "The job.", NULL, &kr_api_job_schema, NULL, NULL}, {0}};
static const struct kr_api_response events_ok[] = {
    {200, "Its log from there, and on until its end.", "application/x-ndjson", &kr_api_job_line_schema,
     KR_API_JOB_LINE_EXAMPLE, NULL},
    {200, "The same as server-sent events, by Accept.", "text/event-stream", &kr_api_job_line_schema,
     KR_API_JOB_LINE_EXAMPLE, NULL}, {0}};
static const struct kr_api_response cancel_ok[] = {
    {202, "It was told.", NULL, &kr_api_message_schema, "{\"message\":\"cancelling\"}", NULL},
    {409, "Jobs of its kind cannot be cancelled, or it has ended.", NULL, &kr_api_error_schema,
     "{\"error\":{\"kind\":\"conflict\",\"message\":\"the job has ended\",\"field\":null,\"request_id\":\"7f3a\"}}",
     NULL}, {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "jobs", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_jobs_list_doc = {DOC("list_jobs", "List jobs", KR_RIGHT_READ), .query = &list_table,
    .responses = list_ok};
const struct kr_api_doc kr_api_jobs_read_doc = {DOC("read_job", "Read a job", KR_RIGHT_READ), .params = job_params,
    .responses = read_ok};
const struct kr_api_doc kr_api_jobs_events_doc = {DOC("follow_job", "Follow a job from a number", KR_RIGHT_READ),
    .description = "Progress is a `notice` with the code `progress`, once a second at most; `end` has the result.",
    .params = job_params, .query = &events_table, .responses = events_ok};
const struct kr_api_doc kr_api_jobs_cancel_doc = {DOC("cancel_job", "Cancel a job", KR_RIGHT_RUN),
    .params = job_params, .responses = cancel_ok};
/* clang-format on */

/* ---- the object ---- */

static void write_result(struct kr_api *api, struct kr_json *j, const struct kr_store_job *row)
{
    char *result = NULL;
    struct kr_err ignored;

    kr_json_key(j, "result");
    if (row->ended && kr_jobs_result(api->jobs, row->id, &result, &ignored) == 0)
        kr_json_raw(j, result, strlen(result));
    else
        kr_json_null(j);
    free(result);
}

void kr_api_job_json(struct kr_api *api, struct kr_json *j, const struct kr_store_job *row, bool with_result)
{
    kr_json_object(j);
    kr_json_key_str(j, "job_id", row->id);
    kr_json_key_str(j, "kind", row->kind);
    kr_json_key_str(j, "subject", row->subject);
    kr_json_key_bool(j, "still_running", row->ended == 0);
    kr_json_key_uint(j, "attempt", row->attempt);
    kr_json_key_double(j, "started_at", (double)row->started / 1e6);
    if (row->ended)
        kr_json_key_double(j, "ended_at", (double)row->ended / 1e6);
    else
        kr_json_key_null(j, "ended_at");
    kr_json_key_str(j, "cause", row->ended ? row->cause : NULL);
    kr_json_key_str(j, "message", row->message[0] ? row->message : NULL);
    kr_json_key_uint(j, "done", row->done);
    if (row->total)
        kr_json_key_uint(j, "total", row->total);
    else
        kr_json_key_null(j, "total");
    kr_json_key_str(j, "text", row->text);
    if (with_result)
        write_result(api, j, row);
    kr_json_object_end(j);
}

/* ---- list, read ---- */

struct listing {
    struct kr_api *api;
    struct kr_json j;
};

static void on_job_row(void *data, const struct kr_store_job *row)
{
    struct listing *l = data;

    kr_api_job_json(l->api, &l->j, row, false);
}

void kr_api_jobs_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct listing l = {.api = api};
    struct kr_store_page page;
    struct list_query q;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    page = (struct kr_store_page){.after = q.after, .limit = (unsigned)q.limit};
    kr_api_page_begin(&l.j, &buf, "jobs");
    r = kr_store_jobs_list(api->store, who.caller.user, &page, on_job_row, &l, &err);
    if (r < 0) {
        kr_api_fail_field(ex, r == -EINVAL ? "after" : NULL, &err);
        return;
    }
    kr_api_page_end(&l.j, page.next);
    kr_api_reply(ex, 200, &buf);
}

/* The job that the path names. False: answered. */
static bool find_job(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_who *who, struct kr_store_job *ret)
{
    struct kr_err err;

    if (!kr_api_caller(api, ex, who))
        return false;
    if (kr_jobs_find(api->jobs, who->caller.user, kr_http_param(ex, "job_id"), ret, &err) == 0)
        return true;
    kr_api_fail(ex, &err);
    return false;
}

void kr_api_jobs_read(struct kr_http_ex *ex, void *app)
{
    cleanup_buf struct kr_buf buf;
    struct kr_store_job row;
    struct kr_api_who who;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!find_job(app, ex, &who, &row))
        return;
    kr_json_init(&j, &buf);
    kr_api_job_json(app, &j, &row, true);
    kr_api_reply(ex, 200, &buf);
}

/* ---- follow, cancel ---- */

void kr_api_jobs_events(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    const char *last = kr_http_header(ex, "Last-Event-ID");
    struct events_query q;
    struct kr_runlog *log;
    struct kr_store_job row;
    struct kr_api_who who;

    if (!find_job(api, ex, &who, &row) || !kr_api_read_query(ex, &events_table, &q, &in))
        return;
    if (kr_jobs_open_log(api->jobs, &row, &log) < 0) {
        kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "the job has no log");
        return;
    }
    if (last && q.from == 0)
        q.from = (int64_t)strtoull(last, NULL, 10) + 1;
    kr_api_follow(api, ex, log, NULL, (uint64_t)q.from, kr_api_form_of(ex, false));
    kr_runlog_unref(log);
}

void kr_api_jobs_cancel(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_store_job row;
    struct kr_api_who who;
    struct kr_err err;

    if (!find_job(api, ex, &who, &row))
        return;
    if (row.ended)
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "the job has ended");
    else if (kr_jobs_cancel(api->jobs, who.caller.user, row.id, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_reply_message(ex, 202, "cancelling");
}
