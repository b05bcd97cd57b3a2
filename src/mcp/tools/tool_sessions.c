/* Tools about sessions. Called through THE table of tools.
 *
 * Invariant: every name is looked up among the caller's own sessions. */
#include "api.h"
#include "buf.h"
#include "err.h"
#include "report.h"
#include "session.h"
#include "tool_rows.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_MAX 1000u /* of one answer */

struct where_args {
    const char *sandbox;
};
struct end_args {
    const char *session, *sandbox;
};

/* clang-format off */
#define SANDBOX(struct_, tacit_, help_) \
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = (tacit_), KR_API_AT(struct struct_, sandbox), \
    .nullable = true, KR_API_LENGTH(0, 64), \
    .aliases = (const char *const[]){"sandbox", NULL}, .help = (help_), .example = "default"}
#define SESSION(struct_) \
    {.name = "session_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct struct_, session), .required = true, \
    KR_API_LENGTH(1, KR_BOX_SESSION_NAME_MAX), \
    .aliases = (const char *const[]){"session", NULL}, .help = "Its name.", .example = "main"}
static const struct kr_api_field where_fields[] = {SANDBOX(where_args, true, "Of this sandbox alone, by id or name.")};
static const struct kr_api_table where_table = KR_API_TABLE("ListSessionsInput", "Which sessions.", where_fields,
    struct where_args);
static const struct kr_api_field end_fields[] = {SESSION(end_args),
    SANDBOX(end_args, false, "Id or name; else the one last used of that name.")};
static const struct kr_api_table end_table = KR_API_TABLE("TerminateSessionInput", "Which session.", end_fields,
    struct end_args);

static const struct kr_api_prop session_props[] = {
    {.name = "session_id", .type = KR_API_STRING, .help = "Its name.", .example = "main"},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox it is in.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "sandbox_name", .type = KR_API_STRING, .help = "The name of that sandbox.", .example = "default"},
    {.name = "state", .type = KR_API_STRING, .help = "What it does: opening, idle, running and the like.",
     .example = "idle"},
    {.name = "is_busy", .type = KR_API_BOOL, .help = "A run is in it, or waits for it.", .example = "false"},
    {.name = "queued", .type = KR_API_INT, .help = "Runs that wait for it.", .example = "0"},
    {.name = "execution_count", .type = KR_API_INT, .help = "Runs so far.", .example = "3"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "last_activity", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200042.5"},
};
static const struct kr_api_schema session_schema = KR_API_SCHEMA("SessionOutput", "A live interpreter.", session_props);
static const struct kr_api_prop list_props[] = {
    {.name = "sessions", .type = KR_API_ARRAY, .of = &session_schema, .help = "The last used first."},
    {.name = "total", .type = KR_API_INT, .help = "How many there are.", .example = "1"},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("ListSessionsOutput", "Your live sessions.", list_props);
/* clang-format on */

/* ---- list ---- */

struct listing {
    json_t *list; /* an array */
    size_t total;
};

json_t *kr_mcp_session_value(const struct kr_box_session_info *s)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:I, s:I, s:f, s:f}", "session_id", s->name, "sandbox_id", s->sandbox,
                     "sandbox_name", s->sandbox_name, "state",
                     s->session ? kr_session_state_names[kr_session_state(s->session)] : "opening", "is_busy", s->busy,
                     "queued", (json_int_t)s->queued, "execution_count", (json_int_t)s->executions, "created_at",
                     (double)s->created_us / 1e6, "last_activity", (double)s->last_activity_us / 1e6);
}

static void add_session(void *data, const struct kr_box_session_info *info)
{
    struct listing *l = data;

    l->total++;
    json_array_insert_new(l->list, 0, kr_mcp_session_value(info)); /* they come least recently used first */
    json_array_remove(l->list, SESSIONS_MAX);                      /* if there are so many */
}

/* Id of the sandbox that is meant; "" for any. 0 or -errno. */
static int find_sandbox(struct kr_mcp_call *c, const char *given, char id[KR_STORE_ID_ROOM], struct kr_err *err)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    int r;

    id[0] = '\0';
    if (!given || !given[0])
        return 0;
    r = kr_box_sandbox_find(kr_mcp_api(c)->box, kr_mcp_caller(c), given, &s, err);
    if (r >= 0)
        memcpy(id, s.row.id, KR_STORE_ID_ROOM);
    return r;
}

static void run_list_sessions(struct kr_mcp_call *c, const void *args)
{
    const struct where_args *a = args;
    struct listing l = {.list = json_array()};
    char sandbox[KR_STORE_ID_ROOM];
    struct kr_mcp_result r;
    struct kr_err err;

    if (find_sandbox(c, a->sandbox, sandbox, &err) < 0) {
        json_decref(l.list);
        kr_mcp_tool_fail(c, &err);
        return;
    }
    kr_box_sessions(kr_mcp_api(c)->box, kr_mcp_caller(c), sandbox[0] ? sandbox : NULL, add_session, &l);
    kr_mcp_result_init(&r);
    r.structured = json_pack("{s:o, s:I}", "sessions", l.list, "total", (json_int_t)l.total);
    kr_mcp_add_json(&r, r.structured, 0);
    kr_mcp_tool_done(c, &r);
}

/* ---- end ---- */

static int end_session(struct kr_mcp_call *c, const struct end_args *a, struct kr_err *err)
{
    struct kr_box *box = kr_mcp_api(c)->box;
    struct kr_box_session_info info;
    char sandbox[KR_STORE_ID_ROOM];
    int r = find_sandbox(c, a->sandbox, sandbox, err);

    if (r >= 0)
        r = kr_box_session_find(box, kr_mcp_caller(c), sandbox[0] ? sandbox : NULL, a->session, &info, err);
    if (r >= 0)
        r = kr_box_session_close(box, kr_mcp_caller(c), info.sandbox, info.name, err);
    return r;
}

static void run_end(struct kr_mcp_call *c, const void *args)
{
    const struct end_args *a = args;
    struct kr_mcp_result r;
    struct kr_err err;

    if (end_session(c, a, &err) < 0) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_textf(&r, "Session %s is ended: its variables are gone, the files stay.", a->session);
    kr_mcp_tool_done(c, &r);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_list_active_sessions = {
    .name = "list_active_sessions",
    .title = "List sessions",
    .description = "Lists your live sessions: interpreters that keep variables.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &where_table,
    .output = &list_schema,
    .run = run_list_sessions,
};
const struct kr_mcp_tool kr_tool_terminate_session = {
    .name = "terminate_session",
    .title = "End a session",
    .description = "Ends a session and its variables; files stay.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &end_table,
    .run = run_end,
};
