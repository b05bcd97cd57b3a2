/* execute_code and list_capabilities of document 001 (python-sandbox). Called through THE table of tools.
 *
 * A fresh interpreter in a throw-away folder for each call. There is no import policy yet: code runs `open`, the
 * answer says so in security_warnings, and a list of allowed imports, which would not be kept to, is refused. */
#include "api.h"
#include "dialect_results.h"
#include "proto.h"
#include "pyvalue.h"
#include "dialect_tools.h"
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
     KR_API_LENGTH(0, 1000), .help = "Modules that may be imported. Refused: there is no import policy yet.",
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

/* The 128 bits of a run's id as a UUID: the document's clients parse it as one. */
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

static json_t *warnings(uintptr_t data)
{
    json_t *list = json_array();

    json_array_append_new(list,
                          json_string("No import policy is enforced: the code ran with policy `open`, held by the "
                                      "sandbox's own walls alone."));
    if (data & DATA_MEMORY)
        json_array_append_new(list, json_string("memory_limit is for container mode and was not applied."));
    return list;
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

    switch (o->cause) {
    case KR_CAUSE_TIMEOUT:
    case KR_CAUSE_CPU_LIMIT:
        return "timeout";
    case KR_CAUSE_MEMORY_LIMIT:
        return "memory";
    case KR_CAUSE_DENIED:
        return "denied";
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

static void set_python_output(json_t *value, const struct kr_mcp_outcome *o, size_t cap, bool capture)
{
    bool cut = capture && (o->cut || json_is_true(kr_compat_end(o, "truncated")));
    static const struct kr_buf nothing;

    json_object_set_new(value, "stdout", kr_compat_text(capture ? &o->out : &nothing, SIZE_MAX, cap, cut, CUT_MARK));
    json_object_set_new(value, "stderr", kr_compat_text(capture ? &o->err : &nothing, SIZE_MAX, cap, false, CUT_MARK));
}

static json_t *make_failure(const struct kr_mcp_outcome *o, size_t cap, uintptr_t data)
{
    json_t *value = json_pack("{s:b}", "success", 0);
    const char *traceback = json_string_value(json_object_get(o->error, "traceback"));
    double seconds = json_number_value(json_object_get(o->end, "wall_s"));

    if (o->cause == KR_CAUSE_TIMEOUT)
        json_object_set_new(value, "error", json_sprintf("Execution timed out after %.0f seconds", seconds));
    else
        json_object_set_new(value, "error", kr_compat_error(o));
    json_object_set_new(value, "error_category", json_string(category_of(o)));
    if (traceback && o->cause != KR_CAUSE_TIMEOUT)
        json_object_set_new(value, "traceback", json_string(traceback));
    set_python_output(value, o, cap, data & DATA_CAPTURE);
    return value;
}

static json_t *make_python_sandbox(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    uintptr_t how = (uintptr_t)data;
    char uuid[UUID_ROOM];
    json_t *value;
    int code;

    (void)c;
    write_uuid(o->run_id, uuid);
    if (!kr_compat_good(o, &code)) {
        value = make_failure(o, cap / 4, how);
        json_object_set_new(value, "execution_id", json_string(uuid));
    } else {
        const json_t *variables = kr_compat_end(o, "variables");

        value = json_pack("{s:b, s:s, s:o}", "success", 1, "execution_id", uuid, "result",
                          cap > KR_MCP_TEXT_MAX / 8 ? result_of(o) : json_null());
        set_python_output(value, o, cap / 4, how & DATA_CAPTURE);
        json_object_set_new(value, "execution_time", json_real(json_number_value(kr_compat_end(o, "wall_s"))));
        json_object_set_new(value, "variables", variables ? json_incref((json_t *)variables) : json_array());
    }
    json_object_set_new(value, "security_warnings", warnings(how));
    return value;
}

static void render_python_sandbox(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    kr_compat_answer(c, kr_compat_fit(c, o, make_python_sandbox, data, KR_COMPAT_COMPACT), KR_COMPAT_COMPACT);
}

static void refuse_code(struct kr_mcp_call *c, const char *error, const char *flaw)
{
    json_t *value = json_pack("{s:b, s:s, s:s, s:o}", "success", 0, "error", error, "error_category", "denied",
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

static void run_python_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct code_args *a = args;
    uintptr_t data = (a->capture ? DATA_CAPTURE : 0) | (a->memory ? DATA_MEMORY : 0);
    struct kr_mcp_run_spec spec = {
        .spec = {.fresh = true,
                 .code = a->code,
                 .timeout_ms = a->timeout_given == KR_API_VALUE ? (uint64_t)a->timeout * 1000
                                                                : kr_compat_timeout(c, KR_DIALECT_PYTHON_SANDBOX)},
        .render = render_python_sandbox,
        .data = (void *)data,
        .ask_client = true,
    };

    if (a->imports)
        refuse_code(
            c,
            "allowed_imports cannot be enforced: this server has no import policy yet. Leave it out to run with "
            "policy `open`.",
            "allowed_imports: not enforced here");
    else if (a->container)
        refuse_code(c, "Container runtime not available: code runs in krait's own sandboxes. Leave use_container out.",
                    NULL);
    else if (strspn(a->code.text, " \t\r\n") == a->code.len)
        refuse_code(c, "Empty code provided", "Empty code provided");
    else if (characters(&a->code) > CODE_CHARS)
        refuse_code(c, "Code too large (max 100KB)", "Code too large (max 100KB)");
    else
        kr_mcp_run(c, &spec);
}

/* ---- list_capabilities ---- */

static json_t *features_of(const struct kr_api *api)
{
    const struct kr_holder_info *hello = kr_engine_info(kr_box_engine(api->box));
    json_t *list = json_array();

    for (size_t i = 0; hello && i < api->config.layer_count; i++)
        if (api->config.layer_names[i] && hello->layers & 1u << i)
            json_array_append_new(list, json_string(api->config.layer_names[i]));
    return list;
}

static void run_capabilities(struct kr_mcp_call *c, const void *args)
{
    const struct kr_api *api = kr_mcp_api(c);
    const struct kr_limits *l = &kr_box_profile(api->box, kr_mcp_caller(c))->limits;

    (void)args;
    kr_compat_answer(c,
                     json_pack("{s:s, s:b, s:b, s:b, s:{s:f, s:i, s:I, s:I}, s:[s], s:o}", "sandbox_type",
                               "krait: processes in namespaces of their own", "restricted_python_available", 0,
                               "container_runtime_available", 0, "container_mode_enabled", 0, "limits",
                               "default_timeout", (double)kr_compat_timeout(c, KR_DIALECT_PYTHON_SANDBOX) / 1000,
                               "max_timeout", 300, "max_output_size", (json_int_t)l->output, "memory_limit_bytes",
                               (json_int_t)l->memory, "safe_modules", "*", "security_features", features_of(api)),
                     KR_COMPAT_COMPACT);
}

const struct kr_mcp_tool kr_tool_python_sandbox_execute = {
    .name = "execute_code",
    .title = "Execute Python code",
    .description =
        "Runs Python in a fresh interpreter with a folder of its own, both thrown away afterwards: nothing is kept "
        "from call to call. Answers with the value of `result` (or of the last expression), stdout, stderr and "
        "the names of variables. 30 seconds unless asked otherwise, 300 at most.",
    .dialects = KR_IN_PYTHON_SANDBOX,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &code_table,
    .run = run_python_sandbox,
};
const struct kr_mcp_tool kr_tool_python_sandbox_capabilities = {
    .name = "list_capabilities",
    .title = "List capabilities",
    .description = "Tells what holds the sandbox and what its limits are.",
    .dialects = 0, /* an old name of the document's, which listed it no longer */
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_capabilities,
};
