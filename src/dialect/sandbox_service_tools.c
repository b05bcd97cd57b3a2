/* execute_python of document 002 (sandbox-service), and the names its library made up. Called through THE table of
 * tools.
 *
 * A fresh process in the sandbox `default` for each call; five fields, output cut at 10,000 characters with a mark, as
 * its route POST /execute answers (src/dialect/sandbox_service_routes.c). */
#include "dialect_results.h"
#include "dialect_tools.h"

#define OUTPUT_CHARS 10000u
#define CUT_MARK "\n[output cut at 10000 characters]"

struct service_args {
    struct kr_text code;
    int64_t timeout;
    uint8_t timeout_given;
};

/* clang-format off */
static const struct kr_api_field service_fields[] = {
    {.name = "code", .type = KR_API_TEXT, KR_API_AT(struct service_args, code), .required = true,
     .help = "Python to run.", .example = "print('Hello, World!')"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct service_args, timeout),
     KR_API_GIVEN(struct service_args, timeout_given), .nullable = true, KR_API_RANGE(1, 120),
     .help = "Seconds; without it: 30.", .example = "30"},
};
static const struct kr_api_table service_table = KR_API_TABLE("SandboxServiceExecuteInput", "What to run.",
    service_fields, struct service_args);
/* clang-format on */

static json_t *make_service_value(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, size_t cap, void *data)
{
    cleanup_buf struct kr_buf err = {0};
    int code;
    bool good = kr_compat_good(o, &code);
    json_t *value = json_object();

    (void)c, (void)data;
    kr_buf_init(&err, 4 * KR_MCP_OUTPUT_MAX);
    kr_compat_stderr(&err, o);
    json_object_set_new(value, "stdout", kr_compat_text(&o->out, OUTPUT_CHARS, cap, false, CUT_MARK));
    json_object_set_new(value, "stderr", kr_compat_text(&err, OUTPUT_CHARS, cap, false, CUT_MARK));
    json_object_set_new(value, "exit_code", json_integer(code));
    json_object_set_new(value, "execution_time", json_real(json_number_value(kr_compat_end(o, "wall_s"))));
    json_object_set_new(value, "success", json_boolean(good));
    return value;
}

static void render_service(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    kr_compat_answer(c, kr_compat_fit(c, o, make_service_value, data, KR_COMPAT_PLAIN), KR_COMPAT_PLAIN);
}

static void run_service(struct kr_mcp_call *c, const void *args)
{
    const struct service_args *a = args;
    struct kr_mcp_run_spec spec = {
        .spec = {.sandbox = KR_STORE_DEFAULT,
                 .fresh = true,
                 .code = a->code,
                 .timeout_ms = a->timeout_given == KR_API_VALUE ? (uint64_t)a->timeout * 1000
                                                                : kr_compat_timeout(c, KR_DIALECT_SANDBOX_SERVICE)},
        .render = render_service,
        .ask_client = true,
    };

    kr_mcp_run(c, &spec);
}

static void run_health(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_compat_answer(c, json_pack("{s:s}", "status", "healthy"), KR_COMPAT_PLAIN);
}

const struct kr_mcp_tool kr_tool_sandbox_service_execute = {
    .name = "execute_python",
    .title = "Execute Python code",
    .description =
        "Runs Python in a fresh process: variables are not kept, files are. Answers with stdout, stderr, exit_code, "
        "execution_time and success. 30 seconds unless asked otherwise, 120 at most; output is cut at 10,000 "
        "characters.",
    .dialects = KR_IN_SANDBOX_SERVICE,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &service_table,
    .run = run_service,
};
const struct kr_mcp_tool kr_tool_sandbox_service_execute_post = {
    .name = "execute_code_execute_post",
    .title = "Execute Python code",
    .description = "execute_python under the name that the document's library made of its route.",
    .dialects = 0,
    .flags = KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &service_table,
    .run = run_service,
};
const struct kr_mcp_tool kr_tool_sandbox_service_health = {
    .name = "health_check_health_get",
    .title = "Health",
    .description = "Tells that the server is there.",
    .dialects = 0,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .run = run_health,
};
