/* execute_python: the tool of our own dialect. Called through the table of tools.
 *
 * Without a session it runs in that of its MCP session, else in `main` of the sandbox, and keeps its variables.
 * Invariant: a timeout past the server's ceiling is brought down to it and the answer says so. */
#include "api.h"
#include "exec.h"
#include "mcp.h"
#include "render.h"
#include "tool_rows.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ANSWER_AFTER_MS 50000u /* clients give a call 60 s */

struct execute_args {
    struct kr_run_spec spec; /* filled by the table, but for the timeout */
    double timeout;
};

/* clang-format off */
static const struct kr_api_field execute_fields[] = {
    {.name = "code", .type = KR_API_TEXT, .tacit = true, KR_API_AT(struct execute_args, spec.code), .required = true,
     .aliases = (const char *const[]){"python_code", "script", NULL},
     .help = "Python code.",
     .example = "import math\nmath.pi"},
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct execute_args, spec.session), .nullable = true,
     KR_API_LENGTH(1, 128),
     .aliases = (const char *const[]){"session", NULL},
     .help = "Another session, made if new, for work in parallel.", .example = "analysis"},
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct execute_args, spec.sandbox),
     .nullable = true,
     KR_API_LENGTH(1, 64),
     .aliases = (const char *const[]){"sandbox", NULL}, .help = "Id or name; else `default`.",
     .example = "default"},
    {.name = "timeout", .type = KR_API_NUMBER, KR_API_AT(struct execute_args, timeout), .nullable = true,
     KR_API_AT_LEAST(0),
     .aliases = (const char *const[]){"timeout_seconds", "timeout_s", NULL},
     .help = "Seconds, usually 45.", .example = "120"},
    {.name = "stdin", .type = KR_API_TEXT, KR_API_AT(struct execute_args, spec.input), .nullable = true,
     .aliases = (const char *const[]){"input", NULL},
     .help = "What input() reads.", .example = "Ada\n"},
    {.name = "env", .type = KR_API_MAP, .tacit = true, KR_API_AT(struct execute_args, spec.env),
     .nullable = true, KR_API_LENGTH(0,
     64),
     .aliases = (const char *const[]){"environment", NULL}, .help = "Environment variables of this run.",
     .example = "{\"MODE\":\"test\"}"},
    {.name = "variables", .type = KR_API_OBJECT, KR_API_AT(struct execute_args, spec.variables), .nullable = true,
     .help = "Variables to set first.", .example = "{\"n\":3}"},
    {.name = "fresh", .type = KR_API_BOOL, KR_API_AT(struct execute_args, spec.fresh), .def = "false",
     .help = "In an interpreter of its own; files stay only with sandbox_id.",
     .example = "true"},
    {.name = "policy", .type = KR_API_STRING, .unlisted = true, KR_API_AT(struct execute_args, spec.asks.policy),
     .nullable = true, KR_API_LENGTH(1, 32),
     .help = "open; restricted: the code is judged before it runs and watched while it runs.", .example = "restricted"},
    {.name = "profiles", .type = KR_API_STRINGS, .unlisted = true,
     KR_API_AT(struct execute_args, spec.asks.profiles), .nullable = true, KR_API_LENGTH(0, KR_POLICY_PROFILE_MAX_),
     .aliases = (const char *const[]){"profile", NULL}, .choices = kr_policy_profile_names,
     .help = "Under restricted: what it may import, reach and write.", .example = "[\"basic\"]"},
    {.name = "allowed_imports", .type = KR_API_STRINGS, .unlisted = true,
     KR_API_AT(struct execute_args, spec.asks.allowed_imports), .nullable = true,
     KR_API_LENGTH(0, KR_POLICY_IMPORTS_MAX),
     .help = "Modules that it may import, of those that its sandbox allows.", .example = "[\"math\"]"},
};
static const struct kr_api_table execute_table = KR_API_TABLE("ToolExecutePython", "What to run, and where.",
    execute_fields, struct execute_args);
/* clang-format on */

uint64_t kr_mcp_clamp_timeout(const struct kr_mcp_call *c, double seconds, struct kr_mcp_render_how *how)
{
    uint64_t most = kr_box_profile(kr_mcp_api(c)->box, kr_mcp_caller(c))->ceilings.timeout_ms;
    double ms = ceil(seconds * 1000);

    if (most && ms > (double)most) {
        snprintf(how->note, sizeof how->note, "timeout: %.10g s was asked for, %.10g s is the most", seconds,
                 (double)most / 1000);
        return most;
    }
    return ms < 1e15 ? (uint64_t)ms : (uint64_t)1e15;
}

uint64_t kr_mcp_answer_after(const struct kr_mcp_call *c)
{
    uint64_t ms = kr_mcp_config(kr_mcp_of(c))->answer_after_ms;

    return ms ? ms : ANSWER_AFTER_MS;
}

static void execute(struct kr_mcp_call *c, const void *args)
{
    const struct execute_args *a = args;
    struct kr_mcp_render_how *how = calloc(1, sizeof *how);
    struct kr_mcp_run_spec spec = {.spec = a->spec,
                                   .render = kr_mcp_render,
                                   .free_data = free,
                                   .data = how,
                                   .answer_after_ms = kr_mcp_answer_after(c),
                                   .ask_client = true,
                                   .small_files = true};

    if (!how) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return;
    }
    if (a->spec.fresh && a->spec.session) {
        free(how);
        kr_mcp_tool_refuse(c, "execute_python: fresh is a session of its own: leave session_id out");
        return;
    }
    if (!a->spec.session && !a->spec.fresh)
        spec.spec.session = kr_mcp_own_session(c);
    spec.spec.readable = true;
    spec.spec.timeout_ms = kr_mcp_clamp_timeout(c, a->timeout, how);
    kr_mcp_run(c, &spec);
}

const struct kr_mcp_tool kr_tool_execute_python = {
    .name = "execute_python",
    .title = "Run Python",
    .description =
        "Runs Python 3 in a Linux sandbox like a notebook cell: returns output, the last value, figures as images, "
        "changed files. Variables stay for later calls, files in /workspace (the working directory) too. Usually with "
        "numpy, pandas, matplotlib; no network unless the sandbox has one. After 50 s it may answer with a run id: "
        "see read_run.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_CORE | KR_TOOL_TASK,
    .needs = KR_RIGHT_RUN,
    .input = &execute_table,
    .output = &kr_mcp_structure_schema,
    .run = execute,
};
