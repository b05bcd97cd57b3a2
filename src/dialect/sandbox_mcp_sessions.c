/* Tools about sessions of document 000 (sandbox-mcp): list_active_sessions, terminate_session,
 * create_session_with_files. Called through THE table of tools.
 *
 * Invariant: every name is looked up among the caller's own sessions. */
#include "api.h"
#include "dialect_results.h"
#include "dialect_tools.h"
#include "err.h"
#include "file_fetch.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SESSIONS_MAX 1000u /* in one answer */
#define WORKSPACE "/workspace"

struct end_args {
    const char *session;
};
struct open_args {
    const char *session;
    json_t *urls;
    int64_t timeout;
};

/* clang-format off */
static const struct kr_api_field end_fields[] = {
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct end_args, session), .required = true,
     KR_API_LENGTH(1, KR_BOX_SESSION_NAME_MAX), .aliases = (const char *const[]){"session", NULL},
     .help = "The session's name.", .example = "main"},
};
static const struct kr_api_table end_table =
    KR_API_TABLE("SandboxMcpTerminateInput", "Which session.", end_fields, struct end_args);
static const struct kr_api_field open_fields[] = {
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct open_args, session), .nullable = true,
     KR_API_LENGTH(1, KR_BOX_SESSION_NAME_MAX),
     .help = "What to call it. Without it a name is made up.", .example = "analysis"},
    {.name = "file_urls", .type = KR_API_STRINGS, KR_API_AT(struct open_args, urls), .nullable = true,
     KR_API_LENGTH(0, 100),
     .help = "Files to fetch first. Each that cannot be is a line of `errors`.", .example = "[]"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct open_args, timeout), .nullable = true, .def = "30",
     KR_API_RANGE(1, 3600),
     .help = "Seconds that the fetching may take.", .example = "30"},
};
static const struct kr_api_table open_table = KR_API_TABLE("CreateSessionWithFilesInput", "A session to open.",
    open_fields, struct open_args);
/* clang-format on */

/* ---- list_active_sessions ---- */

/* The last used of a name is the one that its bare name finds, and the only one the document's shape has room for. */
static void on_document_session(void *data, const struct kr_box_session_info *s)
{
    json_t *list = data;

    if (json_object_size(list) < SESSIONS_MAX)
        json_object_set_new(list, s->name,
                            json_pack("{s:I, s:f, s:s}", "execution_count", (json_int_t)s->executions, "last_activity",
                                      (double)s->last_activity_us / 1e6, "status", "active"));
}

static void run_document_list(struct kr_mcp_call *c, const void *args)
{
    json_t *list = json_object();

    (void)args;
    kr_box_sessions(kr_mcp_api(c)->box, kr_mcp_caller(c), NULL, on_document_session, list);
    kr_compat_answer(c, json_pack("{s:I, s:o}", "total", (json_int_t)json_object_size(list), "sessions", list),
                     KR_COMPAT_WRAPPED);
}

/* ---- terminate_session ---- */

static int end_document_session(struct kr_mcp_call *c, const char *name, struct kr_err *err)
{
    struct kr_box *box = kr_mcp_api(c)->box;
    struct kr_box_session_info info;
    int r = kr_box_session_find(box, kr_mcp_caller(c), NULL, name, &info, err);

    return r < 0 ? r : kr_box_session_close(box, kr_mcp_caller(c), info.sandbox, info.name, err);
}

static void run_document_end(struct kr_mcp_call *c, const void *args)
{
    const struct end_args *a = args;
    struct kr_err err;
    int r = end_document_session(c, a->session, &err);
    const char *status = r >= 0 ? "success" : r == -ENOENT ? "warning" : "error";

    kr_compat_answer(c,
                     json_pack("{s:s, s:o}", "status", status, "message",
                               json_sprintf(r >= 0         ? "Session %s terminated successfully"
                                            : r == -ENOENT ? "Session %s not found"
                                                           : "Session %s could not be ended",
                                            a->session)),
                     KR_COMPAT_WRAPPED);
}

/* ---- create_session_with_files ---- */

struct opening {
    struct kr_mcp_call *call;        /* NULL: gone */
    struct kr_file_fetches *fetches; /* under way */
    json_t *urls;                    /* owned; NULL: none */
    uint64_t timeout_ms;
    char session[KR_BOX_SESSION_NAME_MAX + 1];
};

static void free_opening(struct opening *o)
{
    json_decref(o->urls);
    free(o);
}

static void on_opening_gone(void *data, struct kr_mcp_call *c)
{
    struct opening *o = data;

    (void)c;
    o->call = NULL;
    if (!o->fetches)
        return; /* its session is on the way */
    kr_file_fetches_forget(o->fetches);
    free_opening(o);
}

static void refuse_opening(struct kr_mcp_call *c, const struct kr_err *err)
{
    kr_compat_answer(c, json_pack("{s:s, s:s}", "status", "error", "error", kr_compat_reason(err)), KR_COMPAT_PLAIN);
}

static void on_files_fetched(void *data, const json_t *names, const json_t *errors)
{
    struct opening *o = data;

    kr_compat_answer(o->call,
                     json_pack("{s:s, s:s, s:O, s:O, s:s}", "session_id", o->session, "working_directory", WORKSPACE,
                               "downloaded_files", names, "errors", errors, "status", "success"),
                     KR_COMPAT_PLAIN);
    free_opening(o);
}

static void on_session_opened(void *data, const struct kr_box_session_info *info, const struct kr_err *err)
{
    struct opening *o = data;
    struct kr_err failed;

    if (o->call && !info)
        refuse_opening(o->call, err);
    if (!o->call || !info) {
        free_opening(o);
        return;
    }
    snprintf(o->session, sizeof o->session, "%s", info->name);
    if (kr_file_fetches_start(kr_mcp_api(o->call), kr_mcp_caller(o->call), info->sandbox, o->urls, NULL, o->timeout_ms,
                              on_files_fetched, o, &o->fetches) >= 0)
        return;
    kr_err_set(&failed, KR_ERR_SYSTEM, ENOMEM, "files of a session");
    refuse_opening(o->call, &failed);
    free_opening(o);
}

static void run_open(struct kr_mcp_call *c, const void *args)
{
    const struct open_args *a = args;
    struct opening *o = calloc(1, sizeof *o);
    struct kr_err err;

    if (!o) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    o->call = c;
    o->urls = json_incref(a->urls);
    o->timeout_ms = (uint64_t)a->timeout * 1000;
    if (kr_box_session_open(kr_mcp_api(c)->box, kr_mcp_caller(c), NULL, a->session, on_session_opened, o, &err) >= 0) {
        kr_mcp_on_cancel(c, on_opening_gone, o);
        return;
    }
    free_opening(o);
    refuse_opening(c, &err);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_sandbox_mcp_list_sessions = {
    .name = "list_active_sessions",
    .title = "List active sessions",
    .description =
        "Lists the sessions that are live, by their ids: how many executions each has had, and when the last was.",
    .dialects = KR_IN_SANDBOX_MCP,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .run = run_document_list,
};
const struct kr_mcp_tool kr_tool_sandbox_mcp_terminate = {
    .name = "terminate_session",
    .title = "Terminate a session",
    .description = "Ends a session and forgets its variables.",
    .dialects = KR_IN_SANDBOX_MCP,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &end_table,
    .run = run_document_end,
};
const struct kr_mcp_tool kr_tool_sandbox_mcp_open = {
    .name = "create_session_with_files",
    .title = "Create a session with files",
    .description = "Opens a session for later executions, with files from addresses in its workspace. Each that cannot "
                   "be fetched is a "
                   "line of `errors`.",
    .dialects = KR_IN_SANDBOX_MCP,
    .needs = KR_RIGHT_RUN,
    .input = &open_table,
    .run = run_open,
};
