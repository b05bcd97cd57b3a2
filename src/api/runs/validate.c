/* Judging without running: POST /api/v1/validate. The judge is in a cell (docs/design/judge.md); this starts the run
 * that it is, and reads its end.
 *
 * Called through the route table, and by the tools of MCP for the end of their runs. Invariant: an answer `valid` means
 * that the judge came to its end and found nothing. */
#include "validate.h"
#include "body_read.h"
#include "json.h"
#include "json_load.h"
#include "policy.h"
#include "reply.h"
#include "run_follow.h"
#include "run_start.h"
#include <stdlib.h>
#include <string.h>

struct validate_request {
    struct kr_run_spec spec;
};

/* clang-format off */
static const struct kr_api_field validate_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct validate_request, spec.code), .required = true,
     .help = "Python to judge.", .example = "import os\nos.listdir()"},
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct validate_request, spec.sandbox), .nullable = true,
     KR_API_LENGTH(1, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "The sandbox whose policy holds, by id or name. Without it: `default`.", .example = "default"},
    {.name = "policy", .type = KR_API_STRING, KR_API_AT(struct validate_request, spec.asks.policy), .nullable = true,
     KR_API_LENGTH(1, 32), .help = "restricted, where the sandbox is open. An open policy finds syntax errors alone.",
     .example = "restricted"},
    {.name = "profiles", .type = KR_API_STRINGS, KR_API_AT(struct validate_request, spec.asks.profiles),
     .nullable = true, KR_API_LENGTH(0, KR_POLICY_PROFILE_MAX_), .choices = kr_policy_profile_names,
     .help = "Profiles to judge by, of those that the sandbox has.", .example = "[\"basic\"]"},
    {.name = "allowed_imports", .type = KR_API_STRINGS,
     KR_API_AT(struct validate_request, spec.asks.allowed_imports), .nullable = true,
     KR_API_LENGTH(0, KR_POLICY_IMPORTS_MAX),
     .help = "Modules that it may import, of those that the sandbox allows.", .example = "[\"math\"]"},
};
static const struct kr_api_table validate_table = KR_API_TABLE("ValidateRequest", "What to judge, and by what.",
    validate_fields, struct validate_request);

static const struct kr_api_prop validation_props[] = {
    {.name = "valid", .type = KR_API_BOOL, .help = "There are no findings.", .example = "false"},
    {.name = "findings", .type = KR_API_ARRAY,
     .help = "Every place that the policy does not allow, and a syntax error: id, line, column, end_line, end_column, "
             "text, why.",
     .example = "[{\"id\":\"P101\",\"line\":1,\"column\":1,\"end_line\":1,\"end_column\":10,"
                "\"text\":\"Import 'os' is not allowed\",\"why\":\"the module is not in the list\"}]"},
    {.name = "analysis", .type = KR_API_OBJECT,
     .help = "Its figures: line_count, character_count, complexity, estimated_complexity (low, medium, high).",
     .example = "{\"line_count\":2,\"character_count\":22,\"estimated_complexity\":\"low\"}"},
    {.name = "recommendations", .type = KR_API_STRINGS, .help = "What its author could do.",
     .example = "[\"Some operations may be restricted in sandbox environment\"]"},
};
const struct kr_api_schema kr_api_validation_schema = KR_API_SCHEMA("Validation", "What the judge found in the code.",
    validation_props);

static const struct kr_api_response validate_responses[] = {
    {200, "What was found, also if that is nothing.", "application/json", &kr_api_validation_schema, NULL, NULL}, {0}};
const struct kr_api_doc kr_api_validate_doc = {
    .id = "validate_code", .tag = "runs", .summary = "Judge code without running it",
    .description = "Judges Python by a policy and runs nothing. It happens in a cell of its own, within 5 seconds and "
                   "256 MiB.",
    .voice = KR_API_KRAIT, .needs = KR_RIGHT_RUN, .body = &validate_table,
    .body_example = "{\"code\":\"import os\",\"policy\":\"restricted\"}", .responses = validate_responses};
/* clang-format on */

/* ---- its end ---- */

static json_t *no_verdict(const json_t *end)
{
    const char *why = json_string_value(json_object_get(end, "message"));

    return json_pack("[{s:s, s:i, s:i, s:i, s:i, s:o, s:s}]", "id", "P108", "line", 1, "column", 1, "end_line", 1,
                     "end_column", 1, "text",
                     json_sprintf("Code could not be judged: %.200s", why && *why ? why : "the judge has ended"), "why",
                     "the judge has 5 seconds and 256 MiB");
}

static json_t *member_or(const json_t *end, const char *name, json_t *otherwise)
{
    json_t *value = json_object_get(end, name);

    if (!value)
        return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

json_t *kr_api_validation(const json_t *end)
{
    const char *cause = json_string_value(json_object_get(end, "cause"));
    bool judged = cause && strcmp(cause, "ok") == 0 && json_is_object(json_object_get(end, "analysis"));
    json_t *findings = judged ? member_or(end, "findings", json_array()) : no_verdict(end);

    return json_pack("{s:b, s:o, s:o, s:o}", "valid", findings && json_array_size(findings) == 0, "findings", findings,
                     "analysis", member_or(end, "analysis", json_object()), "recommendations",
                     member_or(end, "recommendations", json_array()));
}

static void write_validation(struct kr_buf *buf, const struct kr_outcome *o, bool with_output)
{
    json_t *end = kr_outcome_object(&o->end), *value = kr_api_validation(end);
    char *text = value ? kr_json_dump(value, JSON_COMPACT) : NULL;

    (void)with_output;
    if (text)
        kr_buf_add_str(buf, text);
    else
        kr_buf_add_str(buf, "{\"valid\":false,\"findings\":[],\"analysis\":{},\"recommendations\":[]}");
    free(text);
    json_decref(value);
    json_decref(end);
}

/* ---- the route ---- */

static void on_admitted(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id,
                        unsigned how)
{
    (void)how;
    kr_api_collect(api, ex, log, run_id, false, write_validation);
}

static void validate(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct validate_request *q = request;
    struct kr_api_who who;

    (void)in;
    q->spec.judge_only = true;
    q->spec.leave_cancels = true;
    if (kr_api_caller(app, ex, &who))
        kr_api_start(app, ex, &who, &q->spec, on_admitted, 0);
}

void kr_api_validate(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &validate_table, validate);
}
