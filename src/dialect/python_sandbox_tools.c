/* execute_code of document 001 (python-sandbox). Called through THE table of tools; validate_code, get_sandbox_info and
 * list_capabilities are in python_sandbox_policy.c.
 *
 * A fresh interpreter in a throw-away folder for each call, under the policy of the listener. Invariant: a result has
 * the members of its kind alone: `security_warnings` where the policy refused something that the code survived,
 * `validation_errors` where it was not run, `security_event` where security is why it failed. */
#include "api.h"
#include "dialect_results.h"
#include "dialect_tools.h"
#include "policy_json.h"
#include "pyvalue.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODE_CHARS 100000u
#define CUT_MARK "\n[Output truncated]"
#define UUID_ROOM 37

struct code_args {
    struct kr_text code;
    int64_t timeout;
    uint8_t timeout_given;
    bool capture, container;
    json_t *imports;
    const char *memory;
};

/* clang-format off */
static const struct kr_api_field code_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct code_args, code), .required = true,
     .help = "Python to run. A variable called `result`, or the last expression, is the result.",
     .example = "result = 2 + 2"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct code_args, timeout),
     KR_API_GIVEN(struct code_args, timeout_given), .nullable = true, KR_API_RANGE(1, 300),
     .help = "Seconds; without it: 30.", .example = "30"},
    {.name = "capture_output", .type = KR_API_BOOL, KR_API_AT(struct code_args, capture), .def = "true",
     .help = "false: stdout and stderr are left out.", .example = "true"},
    {.name = "allowed_imports", .type = KR_API_STRINGS, KR_API_AT(struct code_args, imports), .nullable = true,
     KR_API_LENGTH(0, KR_POLICY_IMPORTS_MAX),
     .help = "Modules that may be imported, of those that the sandbox allows (get_sandbox_info).",
     .example = "[\"math\"]"},
    {.name = "use_container", .type = KR_API_BOOL, KR_API_AT(struct code_args, container), .def = "false",
     .help = "Run in a container. Needs a container runtime, which is not there.", .example = "false"},
    {.name = "memory_limit", .type = KR_API_STRING, KR_API_AT(struct code_args, memory), .nullable = true,
     KR_API_LENGTH(1, 32), .help = "Of a container.", .example = "256m"},
};
static const struct kr_api_table code_table = KR_API_TABLE("PythonSandboxExecuteInput", "What to run.", code_fields,
    struct code_args);
/* clang-format on */

/* What a render needs of the arguments; two words, so that nothing is allocated. */
#define DATA_CAPTURE 1u
#define DATA_MEMORY 2u

/* ---- ids ---- */

/* The bits of a run's id as a UUID of version 4, which the document's clients parse. */
static void write_uuid(const char *id, char out[UUID_ROOM])
{
    static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";
    unsigned char raw[16] = {0};
    unsigned bits = 0, held = 0;
    size_t n = 0;
    char *at = out;

    for (; *id && n < sizeof raw; id++) {
        const char *found = strchr(alphabet, *id);

        bits = (bits << 5 | (found ? (unsigned)(found - alphabet) : 0)) & 0xfff;
        held += 5;
        if (held >= 8) {
            held -= 8;
            raw[n++] = (unsigned char)(bits >> held);
        }
    }
    raw[6] = (unsigned char)((raw[6] & 0x0f) | 0x40); /* version 4, variant 1 (RFC 9562) */
    raw[8] = (unsigned char)((raw[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof raw; i++)
        at += sprintf(at, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", raw[i]);
}

static json_t *new_uuid(void)
{
    char id[KR_STORE_ID_ROOM], uuid[UUID_ROOM];

    kr_store_new_id(id);
    write_uuid(id, uuid);
    return json_string(uuid);
}

/* ---- execute_code ---- */

/* What the policy found or refused, a line each: "Line 1: Import 'os' is not allowed". NULL: nothing. */
static json_t *lines_of(const json_t *records)
{
    json_t *list = json_array_size(records) > 0 ? json_array() : NULL, *one;
    size_t i;

    json_array_foreach(records, i, one)
    {
        const char *text = json_string_value(json_object_get(one, "text"));
        json_int_t line = json_integer_value(json_object_get(one, "line"));

        json_array_append_new(list, line > 0 ? json_sprintf("Line %" JSON_INTEGER_FORMAT ": %s", line, text ? text : "")
                                             : json_string(text ? text : ""));
    }
    return list;
}

static bool is_rule(const json_t *record, const char *id)
{
    const char *rule = json_string_value(json_object_get(record, "id"));

    return rule && strcmp(rule, id) == 0;
}

/* The refusal that ended the code: an exception with its text. NULL: there is none. */
static const json_t *fatal_refusal(const struct kr_mcp_outcome *o)
{
    const char *message = json_string_value(json_object_get(o->error, "message")), *text;
    const json_t *refused = kr_compat_end(o, "refused"), *one;
    size_t i;

    json_array_foreach(refused, i, one)
    {
        text = json_string_value(json_object_get(one, "text"));
        if (o->cause == KR_CAUSE_EXCEPTION && message && text && strcmp(message, text) == 0)
            return one;
    }
    return NULL;
}

/* What a failure is as an event of security; NULL: it is none. */
static const char *event_of(const struct kr_mcp_outcome *o)
{
    const json_t *findings = kr_compat_end(o, "findings"), *fatal = fatal_refusal(o), *one;
    size_t i;

    json_array_foreach(findings, i, one)
    {
        if (is_rule(one, "P100") || is_rule(one, "P108"))
            return NULL;
        if (is_rule(one, "P101"))
            return "blocked_import";
    }
    if (fatal)
        return is_rule(fatal, "P201") ? "blocked_import" : "blocked_operation";
    if (o->cause != KR_CAUSE_DENIED)
        return NULL;
    return json_array_size(findings) > 0 ? "blocked_operation" : "blocked_system_call";
}

/* The value that repr() wrote where it can be read back, else its text. */
static json_t *result_of(const struct kr_mcp_outcome *o)
{
    const json_t *text = json_object_get(o->result, "text");
    json_t *value = NULL;

    if (!json_is_string(text))
        return json_null();
    value = kr_pyvalue(json_string_value(text), json_string_length(text));
    return value ? value : json_incref((json_t *)text);
}

static const char *category_of(const struct kr_mcp_outcome *o)
{
    const char *type = json_string_value(json_object_get(o->error, "type"));

    if (event_of(o))
        return "security";
    switch (o->cause) {
    case KR_CAUSE_TIMEOUT:
    case KR_CAUSE_CPU_LIMIT:
        return "timeout";
    case KR_CAUSE_MEMORY_LIMIT:
        return "memory";
    case KR_CAUSE_DENIED: /* by the judge, and no matter of security: it could not be parsed */
        return "syntax";
    case KR_CAUSE_EXCEPTION:
        if (type && (strcmp(type, "SyntaxError") == 0 || strcmp(type, "IndentationError") == 0 ||
                     strcmp(type, "TabError") == 0))
            return "syntax";
        return "runtime";
    case KR_CAUSE_OK:
    case KR_CAUSE_EXIT:
    case KR_CAUSE_DISK_LIMIT:
    case KR_CAUSE_PROCESS_LIMIT:
    case KR_CAUSE_SIGNAL:
        return "runtime";
    case KR_CAUSE_INTERRUPTED:
    case KR_CAUSE_CANCELLED:
    case KR_CAUSE_LOST:
    case KR_CAUSE_MAX_:
        break;
    }
    return "internal";
}

/* Of the mark with which the engine ends output at its limit (output.c). */
#define ENGINE_MARK "[output cut: the first "
#define ENGINE_MARK_ROOM 96u

/* A text that ends with the engine's mark loses it, as the document has one of its own. */
static bool drop_mark(const struct kr_mcp_outcome *o, const struct kr_buf *text, struct kr_buf *ret)
{
    size_t near = text->len < ENGINE_MARK_ROOM ? text->len : ENGINE_MARK_ROOM;
    const char *from = kr_buf_str(text) + text->len - near, *found;

    *ret = *text;
    if (!json_is_true(kr_compat_end(o, "truncated")))
        return false;
    found = memmem(from, near, ENGINE_MARK, strlen(ENGINE_MARK));
    if (!found)
        return false;
    ret->len = (size_t)(found - kr_buf_str(text));
    if (ret->len > 0 && ret->data[ret->len - 1] == '\n')
        ret->len--; /* the mark's own line, or the one it ended */
    return true;
}

static json_t *python_text(const struct kr_mcp_outcome *o, const struct kr_buf *text, size_t cap)
{
    struct kr_buf own;
    bool cut = drop_mark(o, text, &own);

    return kr_compat_text(&own, SIZE_MAX, cap, cut, CUT_MARK);
}

static void set_python_output(json_t *value, const struct kr_mcp_outcome *o, size_t cap, bool capture)
{
    static const struct kr_buf nothing;

    json_object_set_new(value, "stdout", python_text(o, capture ? &o->out : &nothing, cap));
    json_object_set_new(value, "stderr", python_text(o, capture ? &o->err : &nothing, cap));
}

/* Why it failed, in the document's words. */
static json_t *failure_text(const struct kr_mcp_outcome *o)
{
    const json_t *findings = kr_compat_end(o, "findings");
    const json_t *first = json_object_get(json_array_get(findings, 0), "text");
    const json_t *fatal = fatal_refusal(o);

    if (o->cause == KR_CAUSE_TIMEOUT)
        return json_sprintf("Execution timed out after %.0f seconds", json_number_value(kr_compat_end(o, "wall_s")));
    if (json_is_string(first))
        return json_sprintf("Line %" JSON_INTEGER_FORMAT ": %s",
                            json_integer_value(json_object_get(json_array_get(findings, 0), "line")),
                            json_string_value(first));
    return fatal ? json_incref(json_object_get(fatal, "text")) : kr_compat_error(o);
}

static json_t *make_failure(const struct kr_mcp_outcome *o, size_t cap, uintptr_t data)
{
    json_t *value = json_pack("{s:b}", "success", 0), *errors = lines_of(kr_compat_end(o, "findings"));
    const char *traceback = json_string_value(json_object_get(o->error, "traceback")), *event = event_of(o);

    json_object_set_new(value, "error", failure_text(o));
    json_object_set_new(value, "error_category", json_string(category_of(o)));
    if (errors)
        json_object_set_new(value, "validation_errors", errors);
    else if (traceback && o->cause != KR_CAUSE_TIMEOUT)
        json_object_set_new(value, "traceback", json_string(traceback));
    if (event)
        json_object_set_new(value, "security_event", json_string(event));
    set_python_output(value, o, cap, data & DATA_CAPTURE);
    return value;
}

static json_t *make_python_sandbox(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    uintptr_t how = (uintptr_t)data;
    json_t *value, *warnings = lines_of(kr_compat_end(o, "refused"));
    char uuid[UUID_ROOM];
    int code;

    (void)c;
    write_uuid(o->run_id, uuid);
    if (!kr_compat_good(o, &code)) {
        value = make_failure(o, cap / 2, how);
        json_object_set_new(value, "execution_id", json_string(uuid));
    } else {
        const json_t *variables = kr_compat_end(o, "variables");

        value = json_pack("{s:b, s:s, s:o}", "success", 1, "execution_id", uuid, "result",
                          cap > KR_MCP_JSON_MAX / 8 ? result_of(o) : json_null());
        set_python_output(value, o, cap / 2, how & DATA_CAPTURE);
        json_object_set_new(value, "execution_time", json_real(json_number_value(kr_compat_end(o, "wall_s"))));
        json_object_set_new(value, "variables", variables ? json_incref((json_t *)variables) : json_array());
    }
    if (json_array_size(warnings) > (fatal_refusal(o) ? 1 : 0)) /* what ended it is its error already */
        json_object_set(value, "security_warnings", warnings);
    json_decref(warnings);
    if (how & DATA_MEMORY)
        json_object_set_new(value, "warnings",
                            json_pack("[s]", "memory_limit is for container mode and was not applied."));
    return value;
}

static void render_python_sandbox(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    kr_compat_answer(c, kr_compat_fit(c, o, make_python_sandbox, data, KR_COMPAT_COMPACT), KR_COMPAT_COMPACT);
}

static void refuse_code(struct kr_mcp_call *c, const char *error, const char *flaw)
{
    json_t *value = json_pack("{s:b, s:s, s:s, s:o}", "success", 0, "error", error, "error_category", "validation",
                              "execution_id", new_uuid());

    if (flaw)
        json_object_set_new(value, "validation_errors", json_pack("[s]", flaw));
    kr_compat_answer(c, value, KR_COMPAT_COMPACT);
}

static size_t characters(const struct kr_text *text)
{
    size_t n = 0;

    for (size_t i = 0; i < text->len; i++)
        n += ((unsigned char)text->text[i] & 0xc0) != 0x80;
    return n;
}

/* A list that would widen the policy of the listener. True: it is answered. */
static bool refuse_imports(struct kr_mcp_call *c, const json_t *imports)
{
    struct kr_policy_ask ask = {0};
    struct kr_policy_spec policy;
    struct kr_err err;

    if (kr_policy_ask_json(&ask, NULL, NULL, imports, &err) >= 0 &&
        kr_policy_narrow(&kr_box_profile(kr_mcp_api(c)->box, kr_mcp_caller(c))->policy, &ask, "the sandbox", &policy,
                         &err) >= 0)
        return false;
    refuse_code(c, err.msg, err.msg);
    return true;
}

static void run_python_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct code_args *a = args;
    uintptr_t data = (a->capture ? DATA_CAPTURE : 0) | (a->memory ? DATA_MEMORY : 0);
    struct kr_mcp_run_spec spec = {
        .spec = {.fresh = true,
                 .code = a->code,
                 .asks.allowed_imports = a->imports,
                 .names_modules = true,
                 .timeout_ms = a->timeout_given == KR_API_VALUE ? (uint64_t)a->timeout * 1000
                                                                : kr_compat_timeout(c, KR_DIALECT_PYTHON_SANDBOX)},
        .render = render_python_sandbox,
        .data = (void *)data,
        .ask_client = true,
    };

    if (a->imports && refuse_imports(c, a->imports))
        return;
    if (a->container)
        refuse_code(c, "Container runtime not available: code runs in krait's own sandboxes. Leave use_container out.",
                    NULL);
    else if (strspn(a->code.text, " \t\r\n") == a->code.len)
        refuse_code(c, "Empty code provided", "Empty code provided");
    else if (characters(&a->code) > CODE_CHARS)
        refuse_code(c, "Code too large (max 100KB)", "Code too large (max 100KB)");
    else
        kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_python_sandbox_execute = {
    .name = "execute_code",
    .title = "Execute Python code",
    .description =
        "Runs Python in a fresh interpreter with a folder of its own, both thrown away afterwards: nothing is kept "
        "from call to call. Answers with the value of `result` (or of the last expression), stdout, stderr and "
        "the names of variables. 30 seconds unless asked otherwise, 300 at most. Which modules may be imported is in "
        "get_sandbox_info.",
    .dialects = KR_IN_PYTHON_SANDBOX,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &code_table,
    .run = run_python_sandbox,
};
