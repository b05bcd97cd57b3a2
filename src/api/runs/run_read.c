/* Runs by id: read, list, follow, cancel, interrupt, answer input().
 *
 * Called through the route table. Every id is looked up with its owner; another's is 404. */
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "run_routes.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
static const struct kr_api_param id_params[] = {{"run_id", "The run's id.", "01hv5k8m2nq7r9t3w6x8y0z2a4"}, {0}};

static const struct kr_api_prop run_props[] = {
    {.name = "run_id", .type = KR_API_STRING, .help = "The run.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "session_id", .type = KR_API_STRING, .nullable = true,
     .help = "Its session; null for one that was thrown away.", .example = "main"},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Its sandbox.", .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "code", .type = KR_API_TEXT, .help = "The first 100 characters of its code.", .example = "print(6 * 7)"},
    {.name = "still_running", .type = KR_API_BOOL, .help = "It has not ended.", .example = "false"},
    {.name = "behind", .type = KR_API_STRING, .optional = true,
     .help = "Only while it waits for its turn: the run that its session executes.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "behind_asks", .type = KR_API_BOOL, .optional = true,
     .help = "Only while it waits for its turn: that run waits for a line of input.", .example = "false"},
    {.name = "started_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "ended_at", .type = KR_API_NUMBER, .nullable = true, .help = "Unix time; null while it runs.",
     .example = "1763200000.2"},
    {.name = "cause", .type = KR_API_STRING, .nullable = true, .help = "How it ended.", .example = "ok"},
    {.name = "exit_code", .type = KR_API_INT, .nullable = true, .help = "As a program's exit status.", .example = "0"},
    {.name = "message", .type = KR_API_STRING, .nullable = true, .help = "What a person should know beyond the cause.",
     .example = "killed"},
    {.name = "wall_s", .type = KR_API_NUMBER, .help = "Seconds it took.", .example = "0.012"},
    {.name = "cpu_s", .type = KR_API_NUMBER, .help = "Seconds of CPU.", .example = "0.01"},
    {.name = "peak_memory_bytes", .type = KR_API_INT, .help = "Most memory its cell has had.", .example = "31457280"},
    {.name = "output_bytes", .type = KR_API_INT, .help = "All it wrote.", .example = "3"},
    {.name = "truncated", .type = KR_API_BOOL, .help = "Output was cut.", .example = "false"},
    {.name = "files", .type = KR_API_ARRAY, .optional = true, .help = "Files it changed.", .example = "[]"},
};
static const struct kr_api_schema run_schema = KR_API_SCHEMA("Run", "What was run, and how it ended.", run_props);
static const struct kr_api_prop runs_props[] = {
    {.name = "runs", .type = KR_API_ARRAY, .of = &run_schema, .help = "Newest first.", .example = NULL},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "x"},
};
static const struct kr_api_schema runs_schema = KR_API_SCHEMA("Runs", "A page of runs.", runs_props);

struct list_query { const char *sandbox, *session, *cause, *after; bool running; int64_t limit; };
static const struct kr_api_field list_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct list_query, sandbox), .help = "Of this sandbox.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct list_query, session), .help = "Of this session.",
     .example = "main"},
    {.name = "cause", .type = KR_API_STRING, KR_API_AT(struct list_query, cause), .help = "That ended so.",
     .example = "timeout"},
    {.name = "running", .type = KR_API_BOOL, KR_API_AT(struct list_query, running), .def = "false",
     .help = "That have not ended.", .example = "true"},
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct list_query, limit), KR_API_RANGE(1, 500), .def = "50",
     .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_query, after), .help = "`next` of the page before.",
     .example = "x"},
};
static const struct kr_api_table list_table = KR_API_TABLE("RunsQuery", "Which runs.", list_fields, struct list_query);

struct events_query { int64_t from; };
static const struct kr_api_field events_fields[] = {
    {.name = "from", .type = KR_API_INT, KR_API_AT(struct events_query, from), KR_API_AT_LEAST(0), .def = "0",
     .help = "The first number wanted; Last-Event-ID does the same for server-sent events.", .example = "7"},
};
static const struct kr_api_table events_table = KR_API_TABLE("EventsQuery", "From where.", events_fields,
    struct events_query);

struct input_request { struct kr_text text; bool eof; };
static const struct kr_api_field input_fields[] = {
    {.name = "text", .type = KR_API_TEXT, KR_API_AT(struct input_request, text), .nullable = true,
     .help = "The line, without its newline.", .example = "Ada"},
    {.name = "eof", .type = KR_API_BOOL, KR_API_AT(struct input_request, eof), .def = "false", .nullable = true,
     .help = "End of input instead.", .example = "false"},
};
static const struct kr_api_table input_table = KR_API_TABLE("InputRequest", "The answer to input().", input_fields,
    struct input_request);

static const struct kr_api_response list_ok[] = {{200, "The page.", NULL, &runs_schema, NULL, NULL}, {0}};
static const struct kr_api_response read_ok[] = {{200, "The run.", NULL, &run_schema, NULL, NULL}, {0}};
static const struct kr_api_response events_ok[] = {
    {200, "Its log from there, and on until its end.", "application/x-ndjson", &kr_api_run_line_schema,
     "{\"seq\":2,\"type\":\"stdout\",\"text\":\"42\\n\"}", NULL},
    {200, "The same as server-sent events, by Accept.", "text/event-stream", &kr_api_run_line_schema,
     "{\"seq\":2,\"type\":\"stdout\",\"text\":\"42\\n\"}", NULL}, {0}};
static const struct kr_api_response said_ok[] = {{202, "It was told.", NULL, &kr_api_message_schema,
    "{\"message\":\"cancelling\"}", NULL}, {0}};

const struct kr_api_doc kr_api_runs_list_doc = {.id = "list_runs", .tag = "runs", .summary = "List runs",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_READ, .query = &list_table, .responses = list_ok};
const struct kr_api_doc kr_api_runs_read_doc = {.id = "read_run", .tag = "runs", .summary = "Read a run",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_READ, .params = id_params, .responses = read_ok};
const struct kr_api_doc kr_api_runs_events_doc = {.id = "follow_run", .tag = "runs",
    .summary = "Follow a run from a number",
    .description = "Nothing is lost and nothing comes twice: what is missing is a `cut` line that says so.",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_READ, .params = id_params, .query = &events_table, .responses = events_ok};
const struct kr_api_doc kr_api_runs_cancel_doc = {.id = "cancel_run", .tag = "runs", .summary = "Cancel a run",
    .description = "A run that does not obey KeyboardInterrupt within two seconds loses its session.",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_RUN, .params = id_params, .responses = said_ok};
const struct kr_api_doc kr_api_runs_interrupt_doc = {.id = "interrupt_run", .tag = "runs", .summary = "Interrupt a run",
    .description = "KeyboardInterrupt, and nothing more.", .voice = KR_API_KRAIT, .needs = KR_RIGHT_RUN,
    .params = id_params, .responses = said_ok};
const struct kr_api_doc kr_api_runs_input_doc = {.id = "answer_input", .tag = "runs", .summary = "Answer input()",
    .voice = KR_API_KRAIT,
    .needs = KR_RIGHT_RUN, .params = id_params, .body = &input_table, .responses = said_ok};
/* clang-format on */

/* Whom it is written for. */
struct run_page {
    struct kr_json j;
    struct kr_box *box;
    const struct kr_caller *who;
};

static void write_run(struct run_page *page, const struct kr_store_run *r)
{
    struct kr_json *j = &page->j;
    struct kr_box_behind behind;

    kr_json_object(j);
    kr_json_key_str(j, "run_id", r->id);
    kr_json_key_str(j, "session_id", r->session[0] ? r->session : NULL);
    kr_json_key_str(j, "sandbox_id", r->sandbox);
    kr_json_key_str(j, "code", r->code);
    kr_json_key_bool(j, "still_running", r->ended == 0);
    if (!r->ended && kr_box_run_behind(page->box, page->who, r->id, &behind)) {
        kr_json_key_str(j, "behind", behind.run);
        kr_json_key_bool(j, "behind_asks", behind.asks);
    }
    kr_json_key_double(j, "started_at", (double)r->started / 1e6);
    if (r->ended) {
        kr_json_key_double(j, "ended_at", (double)r->ended / 1e6);
        kr_json_key_str(j, "cause", r->cause);
        kr_json_key_int(j, "exit_code", r->exit_code);
    } else {
        kr_json_key_null(j, "ended_at");
        kr_json_key_null(j, "cause");
        kr_json_key_null(j, "exit_code");
    }
    kr_json_key_str(j, "message", r->message[0] ? r->message : NULL);
    kr_json_key_double(j, "wall_s", (double)r->wall_us / 1e6);
    kr_json_key_double(j, "cpu_s", (double)r->cpu_us / 1e6);
    kr_json_key_uint(j, "peak_memory_bytes", r->peak_memory);
    kr_json_key_uint(j, "output_bytes", r->output_bytes);
    kr_json_key_bool(j, "truncated", r->truncated);
    if (r->files) {
        kr_json_key(j, "files");
        kr_json_raw(j, r->files, r->files_len);
    }
    kr_json_object_end(j);
}

static void on_listed(void *data, const struct kr_store_run *run)
{
    write_run(data, run);
}

void kr_api_runs_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct list_query q;
    struct kr_api_who who;
    struct run_page out = {.box = api->box, .who = &who.caller};
    struct kr_store_page page;
    struct kr_err err;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    page = (struct kr_store_page){.after = q.after, .limit = (unsigned)q.limit};
    kr_api_page_begin(&out.j, &buf, "runs");
    if (kr_store_runs_list(api->store, who.caller.user,
                           &(struct kr_store_run_filter){q.sandbox, q.session, q.cause, q.running}, &page, on_listed,
                           &out, &err) < 0) {
        kr_api_fail(ex, &err);
        return;
    }
    kr_api_page_end(&out.j, page.next);
    kr_api_reply(ex, 200, &buf);
}

void kr_api_runs_read(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_buf struct kr_buf buf;
    cleanup_store_run struct kr_store_run run = {0};
    struct kr_api_who who;
    struct run_page out = {.box = api->box, .who = &who.caller};
    struct kr_err err;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_store_run_get(api->store, who.caller.user, kr_http_param(ex, "run_id"), &run, &err) < 0) {
        kr_api_fail(ex, &err);
        return;
    }
    kr_json_init(&out.j, &buf);
    write_run(&out, &run);
    kr_api_reply(ex, 200, &buf);
}

void kr_api_runs_events(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    const char *id = kr_http_param(ex, "run_id"), *last = kr_http_header(ex, "Last-Event-ID");
    struct events_query q;
    struct kr_runlog *log;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &events_table, &q, &in))
        return;
    if (kr_box_run_open_log(api->box, &who.caller, id, &log, &err) < 0) {
        kr_api_fail(ex, &err);
        return;
    }
    if (last && q.from == 0)
        q.from = (int64_t)strtoull(last, NULL, 10) + 1;
    kr_api_follow(api, ex, log, id, (uint64_t)q.from, kr_api_form_of(ex, false));
    kr_runlog_unref(log);
}

void kr_api_runs_cancel(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_box_run_cancel(api->box, &who.caller, kr_http_param(ex, "run_id"), false, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_reply_message(ex, 202, "cancelling");
}

void kr_api_runs_interrupt(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_box_run_interrupt(api->box, &who.caller, kr_http_param(ex, "run_id"), &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_reply_message(ex, 202, "interrupted");
}

static void answer_input(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct kr_api *api = app;
    struct input_request *q = request;
    struct kr_api_who who;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    if (!q->text.text && !q->eof)
        kr_api_fail_with(ex, KR_ERR_INVALID, "text or eof is missing");
    else if (kr_box_run_reply(api->box, &who.caller, kr_http_param(ex, "run_id"), q->eof ? NULL : q->text.text,
                              q->text.len, &err) < 0)
        kr_api_fail(ex, &err);
    else
        kr_api_reply_message(ex, 202, "answered");
}

void kr_api_runs_input(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &input_table, answer_input);
}
