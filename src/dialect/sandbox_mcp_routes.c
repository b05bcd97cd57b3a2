/* `execute`, as documents 000 (sandbox-mcp) and 002 (sandbox-service) wrote it: NDJSON of three line shapes, one
 * envelope, one flat object.
 *
 * Called through the route table. All of them are renderings of the same runs as POST /api/v1/runs; they carry
 * X-Run-Id and X-Session-Id so that a client can go on in our own voice. */
#include "dialect_routes.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "run_routes.h"
#include "run_start.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>

struct execute_request {
    struct kr_text code, input;
    const char *session, *sandbox;
    int64_t timeout;
    json_t *variables, *env;
    bool stream;
};

/* clang-format off */
static const struct kr_api_field execute_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct execute_request, code), .required = true,
     .help = "Python to run.", .example = "print('Hello, World!')"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct execute_request, session), .nullable = true,
     KR_API_LENGTH(1, 128),
     .help = "The session whose variables it sees; made if it is not there. Without it: a new one, named in "
     "X-Session-Id.", .example = "my-session"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct execute_request, timeout), .nullable = true,
     KR_API_RANGE(0, 86400), .ceiling = KR_API_CEILING_TIMEOUT,
     .help = "Seconds; 0 and absent: the default.", .example = "10"},
    {.name = "variables", .type = KR_API_OBJECT, KR_API_AT(struct execute_request, variables), .nullable = true,
     .help = "Set as variables before the code runs.", .example = "{\"n\":3}"},
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct execute_request, sandbox), .nullable = true,
     KR_API_LENGTH(1, 64),
     .help = "The sandbox, by id or name.", .example = "default"},
    {.name = "stdin", .type = KR_API_TEXT, KR_API_AT(struct execute_request, input), .nullable = true,
     .help = "What input() reads.", .example = "Ada\n"},
    {.name = "env", .type = KR_API_MAP, KR_API_AT(struct execute_request, env), .nullable = true, KR_API_LENGTH(0, 64),
     .help = "Environment variables of this run alone.", .example = "{\"MODE\":\"test\"}"},
    {.name = "stream", .type = KR_API_BOOL, KR_API_AT(struct execute_request, stream), .def = "true",
     .nullable = true, .help = "false: one JSON object when the run has ended.", .example = "false"},
};
static const struct kr_api_table execute_table = KR_API_TABLE("ExecuteRequest", "What to run.", execute_fields,
    struct execute_request);

static const struct kr_api_prop document_line_props[] = {
    {.name = "text", .type = KR_API_TEXT, .optional = true, .help = "Output, or the value of a last expression.",
     .example = "Hello, World!\n"},
    {.name = "image", .type = KR_API_STRING, .optional = true, .help = "A figure, base64.", .example = "iVBORw0KGgo="},
    {.name = "format", .type = KR_API_STRING, .optional = true, .help = "Of the image.", .example = "png"},
    {.name = "error", .type = KR_API_TEXT, .optional = true, .help = "The exception.",
     .example = "NameError: name 'x' is not defined"},
    {.name = "traceback", .type = KR_API_STRINGS, .optional = true, .help = "Its lines.",
     .example = "[\"Traceback (most recent call last):\"]"},
};
static const struct kr_api_schema document_line_schema = KR_API_SCHEMA("ExecuteLine",
    "One line of the stream: a text, an image or an error.", document_line_props);
static const struct kr_api_header run_headers[] = {{"X-Run-Id", "The run's id.", "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {"X-Session-Id", "Its session.", "my-session"}, {0}};
static const struct kr_api_response execute_ok[] = {
    {200, "What happens, as it happens.", "application/x-ndjson", &document_line_schema,
     "{\"text\":\"Hello, World!\\n\"}", run_headers},
    {200, "The same as server-sent events, by Accept.", "text/event-stream", &document_line_schema,
     "{\"text\":\"Hello, World!\\n\"}", NULL},
    {200, "With `stream` false: the outcome.", "application/json", &kr_api_run_outcome_schema, NULL, NULL}, {0}};

static const struct kr_api_prop sync_error_props[] = {
    {.name = "error", .type = KR_API_TEXT, .help = "The exception.", .example = "NameError: name 'x' is not defined"},
    {.name = "traceback", .type = KR_API_STRINGS, .help = "Its lines.", .example = "[]"},
};
static const struct kr_api_schema sync_error_schema = KR_API_SCHEMA("ExecuteError", "An exception.", sync_error_props);
static const struct kr_api_prop sync_data_props[] = {
    {.name = "texts", .type = KR_API_STRINGS, .help = "Output, then the value of a last expression.",
     .example = "[\"Hello, World!\\n\"]"},
    {.name = "images", .type = KR_API_STRINGS, .help = "Figures, base64.", .example = "[]"},
    {.name = "errors", .type = KR_API_ARRAY, .of = &sync_error_schema, .help = "Exceptions.", .example = "[]"},
};
static const struct kr_api_schema sync_data_schema = KR_API_SCHEMA("ExecuteSyncData", "What it left.", sync_data_props);
static const struct kr_api_prop sync_props[] = {
    {.name = "resultCode", .type = KR_API_INT, .help = "0.", .example = "0"},
    {.name = "resultMsg", .type = KR_API_STRING, .help = "success.", .example = "success"},
    {.name = "data", .type = KR_API_OBJECT, .of = &sync_data_schema, .help = "What it left.", .example = NULL},
};
static const struct kr_api_schema sync_schema = KR_API_SCHEMA("ExecuteSync",
    "The envelope of document 000 (sandbox-mcp).", sync_props);
static const struct kr_api_response sync_ok[] = {{200, "The outcome.", NULL, &sync_schema, NULL, run_headers}, {0}};

static const struct kr_api_param sandbox_params[] = {{"sandbox_id", "The sandbox, by id or name.", "default"}, {0}};

const struct kr_api_doc kr_api_execute_doc = {.id = "execute", .tag = KR_API_TAG_000,
    .summary = "Run code, as a stream of text, images and errors",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .body = &execute_table,
    .body_example = "{\"code\":\"print('Hello, World!')\"}", .responses = execute_ok};
const struct kr_api_doc kr_api_execute_in_sandbox_doc = {.id = "execute_in_sandbox", .tag = "runs",
    .summary = "Run code in a sandbox",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .params = sandbox_params, .body = &execute_table,
    .body_example = "{\"code\":\"print('Hello, World!')\"}", .responses = execute_ok};
const struct kr_api_doc kr_api_execute_sync_doc = {.id = "execute_sync", .tag = KR_API_TAG_000,
    .summary = "Run code and wait",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .body = &execute_table, .body_example = "{\"code\":\"1 + 1\"}",
    .responses = sync_ok};
/* clang-format on */

/* ---- 000: execute ---- */

enum { HOW_COLLECT, HOW_STREAM, HOW_SYNC };

static void write_texts(struct kr_json *j, const struct kr_outcome *o, bool with_output)
{
    json_t *result = kr_outcome_object(&o->result);
    const json_t *text = json_object_get(result, "text");

    kr_json_key(j, "texts");
    kr_json_array(j);
    if (o->both.len && with_output)
        kr_json_str_n(j, o->both.data, o->both.len);
    if (o->cut || !with_output)
        kr_json_str(j, "\n[output was cut here]\n");
    if (json_is_string(text))
        kr_json_str_n(j, json_string_value(text), json_string_length(text));
    kr_json_array_end(j);
    json_decref(result);
}

static void write_images(struct kr_json *j, const struct kr_outcome *o)
{
    json_t *displays = kr_outcome_displays(o), *one;
    size_t i;

    kr_json_key(j, "images");
    kr_json_array(j);
    json_array_foreach(displays, i, one)
    {
        const char *png = json_string_value(json_object_get(json_object_get(one, "data"), "image/png"));

        if (png)
            kr_json_str(j, png);
    }
    kr_json_array_end(j);
    json_decref(displays);
}

static void write_errors(struct kr_json *j, const struct kr_outcome *o)
{
    cleanup_buf struct kr_buf one;
    struct kr_json inner;
    bool some;

    kr_buf_init(&one, 4u << 20);
    kr_json_init(&inner, &one);
    kr_json_object(&inner);
    some = kr_api_document_failure(&inner, o->cause, &o->error, kr_buf_str(&o->end), o->end.len);
    kr_json_object_end(&inner);
    kr_json_key(j, "errors");
    kr_json_array(j);
    if (some && kr_json_done(&inner) >= 0)
        kr_json_raw(j, one.data, one.len);
    kr_json_array_end(j);
}

static void write_sync(struct kr_buf *buf, const struct kr_outcome *o, bool with_output)
{
    static const struct kr_outcome nothing;
    struct kr_json j;

    kr_json_init(&j, buf);
    kr_json_object(&j);
    kr_json_key_int(&j, "resultCode", 0);
    kr_json_key_str(&j, "resultMsg", "success");
    kr_json_key(&j, "data");
    kr_json_object(&j);
    write_texts(&j, o, with_output);
    write_images(&j, with_output ? o : &nothing);
    write_errors(&j, o);
    kr_json_object_end(&j);
    kr_json_object_end(&j);
}

static void on_execute_admitted(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id,
                                unsigned how)
{
    if (how == HOW_STREAM)
        kr_api_follow(api, ex, log, run_id, 0, kr_api_form_of(ex, true));
    else
        kr_api_collect(api, ex, log, run_id, how == HOW_SYNC, how == HOW_SYNC ? write_sync : kr_api_write_outcome);
}

static void start_execute(struct kr_http_ex *ex, struct kr_api *api, struct execute_request *q, const char *sandbox,
                          unsigned how)
{
    char made_up[KR_STORE_ID_ROOM];
    struct kr_api_who who;
    struct kr_run_spec spec = {.sandbox = sandbox,
                               .session = q->session,
                               .code = q->code,
                               .input = q->input,
                               .variables = q->variables,
                               .env = q->env,
                               .timeout_ms = (uint64_t)q->timeout < UINT64_MAX / 1000
                                                 ? (uint64_t)q->timeout * 1000
                                                 : UINT64_MAX, /* past any ceiling, which says so */
                               .leave_cancels = true};

    if (!q->session) { /* a client learns its name from the answer */
        kr_store_new_id(made_up);
        spec.session = made_up;
    }
    if (kr_api_caller(api, ex, &who))
        kr_api_start(api, ex, &who, &spec, on_execute_admitted, how);
}

static void execute(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct execute_request *q = request;

    (void)in;
    start_execute(ex, app, q, q->sandbox, q->stream ? HOW_STREAM : HOW_COLLECT);
}

static void execute_in_sandbox(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct execute_request *q = request;

    (void)in;
    start_execute(ex, app, q, kr_http_param(ex, "sandbox_id"), q->stream ? HOW_STREAM : HOW_COLLECT);
}

static void execute_sync(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct execute_request *q = request;

    (void)in;
    start_execute(ex, app, q, q->sandbox, HOW_SYNC);
}

void kr_api_execute(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &execute_table, execute);
}

void kr_api_execute_in_sandbox(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &execute_table, execute_in_sandbox);
}

void kr_api_execute_sync(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &execute_table, execute_sync);
}
