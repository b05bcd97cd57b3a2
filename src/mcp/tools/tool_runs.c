/* read_run and stop_run: going on with a run that outlived its call, reading what an answer had to cut. Called through
 * the table of tools. Invariant: a run is found together with its owner; another's is unknown. */
#include "api.h"
#include "exec.h"
#include "render.h"
#include "store_run.h"
#include "shell_snippet.h"
#include "tool_rows.h"
#include <errno.h>

struct read_args {
    const char *run;
    int64_t from, offset;
    double wait;
};

struct stop_args {
    const char *run;
};

/* clang-format off */
static const struct kr_api_field read_fields[] = {
    {.name = "run_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct read_args, run),
     .required = true, KR_API_LENGTH(1, 64),
     .aliases = (const char *const[]){"id", NULL}, .help = "As an answer named it.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "from", .type = KR_API_INT, KR_API_AT(struct read_args, from), .nullable = true, KR_API_RANGE(0, 1e15),
     .help = "As an answer named it.", .example = "17"},
    {.name = "offset", .type = KR_API_INT, .tacit = true,
     KR_API_AT(struct read_args, offset), .nullable = true, KR_API_RANGE(0, 1e9),
     .help = "As an answer named it.", .example = "8000"},
    {.name = "wait_s", .type = KR_API_NUMBER, .tacit = true,
     KR_API_AT(struct read_args, wait), .def = "10", KR_API_RANGE(0, 50),
     .aliases = (const char *const[]){"wait", NULL}, .help = "Seconds to wait for its end.",
     .example = "30"},
};
static const struct kr_api_table read_table = KR_API_TABLE("ToolReadRun", "Which run, and from where.", read_fields,
    struct read_args);
static const struct kr_api_field stop_fields[] = {
    {.name = "run_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct stop_args, run),
     .required = true, KR_API_LENGTH(1, 64),
     .aliases = (const char *const[]){"id", NULL}, .help = "As an answer named it.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
};
static const struct kr_api_table stop_table = KR_API_TABLE("ToolStopRun", "Which run.", stop_fields, struct stop_args);
/* clang-format on */

#define STOP_WAIT_MS 5000u /* the grace is 2 s; then its session is killed */

/* The run of a shell command is shown in the form of the tool that began it. */
static bool is_terminal(struct kr_mcp_call *c, const char *run_id)
{
    struct kr_store_run row;
    bool is;

    if (kr_store_run_get(kr_mcp_api(c)->store, kr_mcp_caller(c)->user, run_id, &row, NULL) < 0)
        return false;
    is = kr_mcp_terminal_is(row.code);
    kr_store_run_done(&row);
    return is;
}

static void render_read(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    const struct read_args *a = data;
    bool is_there = a->from > 0 && o->told_seq == (uint64_t)a->from; /* of an event before it nothing is left out */
    struct kr_mcp_render_how how = {.is_terminal = is_terminal(c, o->run_id),
                                    .offset = is_there ? (uint64_t)a->offset : 0};

    kr_mcp_render(c, o, &how);
}

static void read_run(struct kr_mcp_call *c, const void *args)
{
    const struct read_args *a = args;

    kr_mcp_run_go_on(c, a->run, (uint64_t)a->from, (uint64_t)(a->wait * 1000), render_read, (void *)(uintptr_t)a);
}

/* What it left is the answer; that it was stopped, as was asked, is no error. */
static void render_stopped(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data)
{
    struct kr_mcp_render_how how = {.is_fine = true, .is_terminal = is_terminal(c, o->run_id)};

    (void)data;
    kr_mcp_render(c, o, &how);
}

static void stop_run(struct kr_mcp_call *c, const void *args)
{
    const struct stop_args *a = args;
    struct kr_err err;
    int r = kr_box_run_cancel(kr_mcp_api(c)->box, kr_mcp_caller(c), a->run, false, &err);

    if (r < 0 && r != -EALREADY)
        kr_mcp_tool_fail(c, &err);
    else
        kr_mcp_run_read(c, a->run, 0, STOP_WAIT_MS, render_stopped, NULL);
}

const struct kr_mcp_tool kr_tool_read_run = {
    .name = "read_run",
    .title = "Read a run",
    .description =
        "Goes on with a run after [still running], [cut] or [more]: waits for its end, returns what it wrote. "
        "Unread for 10 minutes, it ends.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_CORE | KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &read_table,
    .output = &kr_mcp_structure_schema,
    .run = read_run,
};

const struct kr_mcp_tool kr_tool_stop_run = {
    .name = "stop_run",
    .title = "Stop a run",
    .description = "Interrupts a run, after 2 s by ending its session; returns what it wrote.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_CORE | KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &stop_table,
    .output = &kr_mcp_structure_schema,
    .run = stop_run,
};
