/* POST /execute of document 002 (sandbox-service), at the root; /pip_install is in sandbox_service_packages.c.
 *
 * Called through the route table. A fresh process for each call, 30 seconds unless asked otherwise, 120 at most,
 * output cut at 10,000 characters, leaving cancels: as its document says. */
#include "dialect_routes.h"
#include "json.h"
#include "json_load.h"
#include "body_read.h"
#include "import_name.h"
#include "reply.h"
#include "run_routes.h"
#include "run_start.h"
#include "utf8.h"
#include <stdio.h>
#include <string.h>

#define OUTPUT_CHARS 10000u

struct service_request {
    struct kr_text code;
    int64_t timeout;
    uint8_t timeout_given;
};

/* clang-format off */
static const struct kr_api_field service_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct service_request, code), .required = true,
     .help = "Python to run.", .example = "print('Hello, World!')"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct service_request, timeout), KR_API_RANGE(1, 120),
     KR_API_GIVEN(struct service_request, timeout_given), .nullable = true,
     .ceiling = KR_API_CEILING_TIMEOUT, .def = "30", .help = "Seconds.", .example = "10"},
};
static const struct kr_api_table service_table = KR_API_TABLE("ServiceExecuteRequest", "What to run.", service_fields,
    struct service_request);
static const struct kr_api_prop service_props[] = {
    {.name = "stdout", .type = KR_API_TEXT, .help = "What it wrote to stdout.", .example = "Hello, World!\n"},
    {.name = "stderr", .type = KR_API_TEXT, .help = "What it wrote to stderr, and its traceback.", .example = ""},
    {.name = "exit_code", .type = KR_API_INT, .help = "0 if all went well.", .example = "0"},
    {.name = "execution_time", .type = KR_API_NUMBER, .help = "Seconds.", .example = "0.012"},
    {.name = "success", .type = KR_API_BOOL, .help = "Whether all went well.", .example = "true"},
};
static const struct kr_api_schema service_schema = KR_API_SCHEMA("ServiceExecuteResult", "The outcome.", service_props);
static const struct kr_api_response service_ok[] = {{200, "The outcome; a program that failed is one too.", NULL,
    &service_schema, NULL, NULL}, {0}};
const struct kr_api_doc kr_api_service_execute_doc = {.id = "service_execute", .tag = KR_API_TAG_002,
    .summary = "Run code in a fresh process",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .body = &service_table,
    .body_example = "{\"code\":\"print('Hello, World!')\"}", .responses = service_ok};
/* clang-format on */

/* At most OUTPUT_CHARS characters, and a mark where it was cut. The text is what was written, then the two others. */
static void write_cut(struct kr_json *j, const char *key, const struct kr_buf *text, const char *more, const char *last)
{
    cleanup_buf struct kr_buf buf;
    size_t chars = 0, at;

    kr_buf_init(&buf, KR_API_COLLECT_MAX + (2u << 20));
    kr_buf_add(&buf, kr_buf_str(text), text->len);
    kr_buf_add_str(&buf, more ? more : "");
    if (last && *last)
        kr_buf_printf(&buf, "%s%s\n", buf.len && buf.data[buf.len - 1] != '\n' ? "\n" : "", last);
    for (at = 0; at < buf.len && chars < OUTPUT_CHARS; chars++)
        do
            at++;
        while (at < buf.len && ((unsigned char)buf.data[at] & 0xc0) == 0x80);
    if (at < buf.len) {
        struct kr_buf cut;

        kr_buf_init(&cut, at + 64);
        kr_buf_add(&cut, buf.data, at);
        kr_buf_printf(&cut, "\n[output cut at %u characters]", OUTPUT_CHARS);
        kr_json_key(j, key);
        kr_json_str_n(j, kr_buf_str(&cut), cut.len);
        kr_buf_done(&cut);
        return;
    }
    kr_json_key(j, key);
    kr_json_str_n(j, kr_buf_str(&buf), buf.len);
}

/* Output is cut at OUTPUT_CHARS, so that it always fits. */
static void write_service(struct kr_buf *buf, const struct kr_outcome *o, bool with_output)
{
    json_t *end = kr_json_load(kr_buf_str(&o->end), o->end.len, 0, NULL);
    json_t *error = o->error.len ? kr_json_load(o->error.data, o->error.len, 0, NULL) : NULL;
    const char *traceback = json_string_value(json_object_get(error, "traceback"));
    const char *message = json_string_value(json_object_get(end, "message"));
    int code = (int)json_integer_value(json_object_get(end, "exit_code"));
    bool good = o->cause == KR_CAUSE_OK || (o->cause == KR_CAUSE_EXIT && code == 0);
    struct kr_json j;

    (void)with_output;
    kr_json_init(&j, buf);
    kr_json_object(&j);
    write_cut(&j, "stdout", &o->out, NULL, NULL);
    write_cut(&j, "stderr", &o->err, traceback, good ? NULL : message);
    kr_json_key_int(&j, "exit_code", good ? 0 : code != 0 ? code : 1);
    kr_json_key_double(&j, "execution_time", json_number_value(json_object_get(end, "wall_s")));
    kr_json_key_bool(&j, "success", good);
    kr_json_object_end(&j);
    json_decref(end);
    json_decref(error);
}

static void on_service_admitted(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id,
                                unsigned how)
{
    (void)how;
    kr_api_collect(api, ex, log, run_id, false, write_service);
}

/* Its own, or the document's 30 s, or what the administrator allows if that is less: a client that asked for nothing
 * has done nothing wrong. */
static uint64_t service_timeout(const struct service_request *q, const struct kr_profile *profile)
{
    uint64_t ms = (uint64_t)q->timeout * 1000, most = profile->ceilings.timeout_ms;

    return q->timeout_given != KR_API_VALUE && most && ms > most ? most : ms;
}

static void service_execute(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct kr_api *api = app;
    struct service_request *q = request;
    struct kr_api_who who;
    struct kr_run_spec spec = {.sandbox = KR_STORE_DEFAULT,
                               .fresh = true,
                               .code = q->code,
                               .timeout_ms = service_timeout(q, kr_api_profile(api, ex)),
                               .install_call = "POST /pip_install {\"package\":\"" KR_IMPORT_NAME "\"}",
                               .leave_cancels = true};

    (void)in;
    if (kr_api_caller(api, ex, &who))
        kr_api_start(api, ex, &who, &spec, on_service_admitted, 0);
}

void kr_api_service_execute(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &service_table, service_execute);
}
