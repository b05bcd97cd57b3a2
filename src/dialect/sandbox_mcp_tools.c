/* execute_python_code of document 000 (sandbox-mcp), and of document 004 (mcp-sandbox) when a sandbox is named. Called
 * through THE table of tools.
 *
 * A session keeps its variables; without a session_id a new one is opened and named in the answer. The value: output,
 * images, session_id; after a failure also error (the exception's class) and traceback. */
#include "dialect_results.h"
#include "dialect_tools.h"
#include <string.h>

#define CUT_MARK "\n[output was cut here]\n"

struct execute_args {
    struct kr_text code;
    const char *session, *sandbox;
    int64_t timeout;
};

/* clang-format off */
static const struct kr_api_field execute_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct execute_args, code), .required = true,
     .help = "Python to run.", .example = "print('Hello, World!')"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct execute_args, session), .nullable = true,
     KR_API_LENGTH(1, KR_BOX_SESSION_NAME_MAX),
     .help = "The session whose variables it sees; made if it is not there. Without it: a new one.",
     .example = "my-session"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct execute_args, timeout), .nullable = true,
     KR_API_RANGE(0, 86400), .help = "Seconds; without it, or 0: 30.", .example = "30"},
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct execute_args, sandbox), .nullable = true,
     KR_API_LENGTH(1, 64),
     .help = "A sandbox, by id or name: the code runs there in a process of its own.", .example = "default"},
};
static const struct kr_api_table execute_table = KR_API_TABLE("SandboxMcpExecuteInput", "What to run.", execute_fields,
    struct execute_args);
/* clang-format on */

/* Figures as the document writes them; those that do not fit are left out and counted. */
static json_t *images_of(const struct kr_mcp_outcome *o, size_t cap, size_t *ret_left_out)
{
    json_t *images = json_array(), *display;
    size_t i, sum = 0;

    *ret_left_out = 0;
    json_array_foreach(o->displays, i, display)
    {
        json_t *png = json_object_get(json_object_get(display, "data"), "image/png");

        if (!json_is_string(png))
            continue;
        sum += json_string_length(png);
        if (sum > cap)
            ++*ret_left_out;
        else
            json_array_append_new(images, json_pack("{s:s, s:s, s:O}", "type", "image", "format", "png", "data", png));
    }
    return images;
}

static json_t *output_of(const struct kr_mcp_outcome *o, size_t cap, size_t left_out)
{
    const char *result = json_string_value(json_object_get(o->result, "text"));
    struct kr_buf text;
    json_t *value;

    kr_buf_init(&text, 3 * KR_MCP_OUTPUT_MAX);
    kr_buf_add(&text, kr_buf_str(&o->both), o->both.len);
    kr_buf_add_str(&text, result ? result : "");
    if (left_out)
        kr_buf_printf(&text, "\n[%zu images are left out: the answer would be too large]\n", left_out);
    value = kr_compat_text(&text, SIZE_MAX, cap, o->cut, CUT_MARK);
    kr_buf_done(&text);
    return value;
}

static json_t *make_sandbox_mcp(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    json_t *value = json_object(), *error;
    const json_t *type = json_object_get(o->error, "type");
    size_t left_out;
    json_t *images = images_of(o, cap, &left_out);
    int code;

    (void)c, (void)data;
    json_object_set_new(value, "output", output_of(o, cap / 4, left_out));
    json_object_set_new(value, "images", images);
    json_object_set_new(value, "session_id", json_string(o->session));
    if (kr_compat_good(o, &code) || o->running)
        return value;
    error = o->cause == KR_CAUSE_EXCEPTION && type ? json_incref((json_t *)type) : kr_compat_error(o);
    json_object_set_new(value, "error", error);
    json_object_set_new(value, "traceback", kr_compat_traceback(o));
    return value;
}

static void render_sandbox_mcp(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    kr_compat_answer(c, kr_compat_fit(c, o, make_sandbox_mcp, data, KR_COMPAT_WRAPPED), KR_COMPAT_WRAPPED);
}

static void run_sandbox_mcp(struct kr_mcp_call *c, const void *args)
{
    const struct execute_args *a = args;
    char made_up[KR_STORE_ID_ROOM];
    struct kr_mcp_run_spec spec = {
        .spec = {.session = a->session,
                 .code = a->code,
                 .timeout_ms =
                     a->timeout > 0 ? (uint64_t)a->timeout * 1000 : kr_compat_timeout(c, KR_DIALECT_SANDBOX_MCP)},
        .render = render_sandbox_mcp,
        .ask_client = true,
    };

    if (a->sandbox) {
        kr_compat_run_in_sandbox(c, a->sandbox, &a->code);
        return;
    }
    if (!a->session) {
        kr_store_new_id(made_up);
        spec.spec.session = made_up;
    }
    kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_sandbox_mcp_execute = {
    .name = "execute_python_code",
    .title = "Execute Python code",
    .description =
        "Runs Python in a session that keeps its variables from call to call. Answers with what was printed, with "
        "figures as PNG, and with the session's id: give it again to go on in the same session.",
    .dialects = KR_IN_SANDBOX_MCP,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &execute_table,
    .run = run_sandbox_mcp,
};
