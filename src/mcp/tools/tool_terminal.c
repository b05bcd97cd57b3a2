/* execute_terminal_command: a shell command in the cell of a sandbox. Called through the table of tools.
 *
 * The shell is started by a snippet (shell_snippet.c) in a session beside that of Python code, so that it neither waits
 * behind it nor keeps it waiting; the workspace is the same. It is the MCP session's own where there is one, else
 * `terminal`. */
#include "shell_snippet.h"
#include "api.h"
#include "buf.h"
#include "render.h"
#include "tool_rows.h"
#include <stdlib.h>

#define ANSWER_AFTER_MS 50000u

struct terminal_args {
    struct kr_text command, input;
    const char *session, *sandbox, *folder;
    double timeout;
    json_t *env;
};

/* clang-format off */
static const struct kr_api_field terminal_fields[] = {
    {.name = "command", .type = KR_API_TEXT, .tacit = true, KR_API_AT(struct terminal_args, command), .required = true,
     .aliases = (const char *const[]){"cmd", NULL},
     .help = "Pipes, redirects, several lines.", .example = "ls -la | wc -l"},
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct terminal_args, sandbox),
     .nullable = true,
     KR_API_LENGTH(1, 64),
     .aliases = (const char *const[]){"sandbox", NULL}, .help = "Id or name; else `default`.",
     .example = "default"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct terminal_args, session), .nullable = true,
     KR_API_LENGTH(1, 128),
     .aliases = (const char *const[]){"session", NULL},
     .help = "Another session, to share its processes and /tmp.",
     .example = "terminal"},
    {.name = "timeout", .type = KR_API_NUMBER, KR_API_AT(struct terminal_args, timeout), .nullable = true,
     KR_API_AT_LEAST(0),
     .aliases = (const char *const[]){"timeout_seconds", "timeout_s", NULL},
     .help = "Seconds, usually 45.", .example = "120"},
    {.name = "stdin", .type = KR_API_TEXT, .tacit = true, KR_API_AT(struct terminal_args, input), .nullable = true,
     .aliases = (const char *const[]){"input", NULL},
     .help = "What it reads.", .example = "Ada\n"},
    {.name = "env", .type = KR_API_MAP, .tacit = true, KR_API_AT(struct terminal_args, env), .nullable = true,
     KR_API_LENGTH(0, 64),
     .aliases = (const char *const[]){"environment", NULL}, .help = "Environment variables of this command.",
     .example = "{\"MODE\":\"test\"}"},
    {.name = "cwd", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct terminal_args, folder), .nullable = true,
     KR_API_LENGTH(1, 4096),
     .aliases = (const char *const[]){"working_directory", NULL}, .help = "Where it starts; else /workspace.",
     .example = "/workspace"},
};
static const struct kr_api_table terminal_table = KR_API_TABLE("ToolExecuteTerminalCommand", "What to run, and where.",
    terminal_fields, struct terminal_args);
/* clang-format on */

static void terminal(struct kr_mcp_call *c, const void *args)
{
    const struct terminal_args *a = args;
    struct kr_mcp_terminal t = {a->command.text, a->command.len, a->input.text, a->input.len, a->folder};
    struct kr_mcp_render_how *how = calloc(1, sizeof *how);
    struct kr_mcp_run_spec spec = {.spec = {.sandbox = a->sandbox,
                                            .session = a->session ? a->session : kr_mcp_own_terminal(c),
                                            .input = {"", 0},
                                            .env = a->env,
                                            .shell = true},
                                   .render = kr_mcp_render,
                                   .free_data = free,
                                   .data = how,
                                   .answer_after_ms = kr_mcp_answer_after(c)};
    cleanup_buf struct kr_buf code;

    kr_buf_init(&code, 16u << 20);
    if (!how || kr_mcp_terminal_code(&code, &t) < 0) {
        free(how);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return;
    }
    how->is_terminal = true;
    spec.spec.code = (struct kr_text){code.data, code.len};
    spec.spec.timeout_ms = kr_mcp_clamp_timeout(c, a->timeout, how);
    kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_execute_terminal_command = {
    .name = "execute_terminal_command",
    .title = "Run a shell command",
    .description =
        "Runs a bash command in /workspace, the folder that Python code sees. Each call is a new shell: cd and exports "
        "do not stay. No root.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_CORE | KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &terminal_table,
    .output = &kr_mcp_structure_schema,
    .run = terminal,
};
