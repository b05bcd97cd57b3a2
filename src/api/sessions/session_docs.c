/* Sessions: the fields of their requests and replies, and the words of the docs. Used by session_routes.c and the
 * route table.
 *
 * Invariant: whatever document 000 (sandbox-mcp) lists is here under its own name; what is ours comes after it. */
#include "session_routes.h"
#include "limit_fields.h"
#include "session_routes_internal.h"
#include <errno.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

/* A session's name is counted in bytes by the domain, and in characters by a row. */
static int check_session_name(const char *value, struct kr_err *err)
{
    if (strlen(value) <= KR_BOX_SESSION_NAME_MAX)
        return 0;
    kr_err_set(err, KR_ERR_INVALID, 0, "must be at most %u bytes", KR_BOX_SESSION_NAME_MAX);
    return -EINVAL;
}

/* clang-format off */
static const struct kr_api_field file_fields[] = {
    {.name = "url", .type = KR_API_STRING, KR_API_AT(struct kr_api_session_file, url), .required = true,
     KR_API_LENGTH(1, 2048),
     .help = "Where the file is.", .example = "https://example.org/data.csv"},
    {.name = "id", .type = KR_API_STRING, KR_API_AT(struct kr_api_session_file, id), .nullable = true,
     KR_API_LENGTH(0, 256),
     .help = "What the client calls it.", .example = "data-1"},
};
const struct kr_api_table kr_api_session_file_table =
    KR_API_TABLE("SessionFile", "A file to be fetched.", file_fields, struct kr_api_session_file);

static const char *const sandbox_aliases[] = {"sandbox", NULL};
static const struct kr_api_field create_fields[] = {
    {.name = "session_id", .type = KR_API_STRING, KR_API_AT(struct kr_api_session_create, session), .nullable = true,
     KR_API_LENGTH(0, KR_BOX_SESSION_NAME_MAX), .check = check_session_name,
     .help = "What to call it; one that is live already is answered as it is. Without it a name is made up.",
     .example = "analysis"},
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct kr_api_session_create, sandbox), .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = sandbox_aliases,
     .help = "The sandbox, by id or name. Without it: `default`.", .example = "default"},
    {.name = "file_urls", .type = KR_API_STRINGS, KR_API_AT(struct kr_api_session_create, urls), .nullable = true,
     KR_API_LENGTH(0, 100),
     .help = "Files to fetch first. Each that cannot be is a line of `errors`.", .example = "[]"},
    {.name = "files", .type = KR_API_ARRAY, KR_API_AT(struct kr_api_session_create, files), .nullable = true,
     KR_API_LENGTH(0, 100),
     .of = &kr_api_session_file_table, .help = "The same, with names of the client's.", .example = "[]"},
    {.name = "timeout", .type = KR_API_INT, KR_API_AT(struct kr_api_session_create, timeout), .nullable = true,
     .def = "30", KR_API_RANGE(1, 3600),
     .help = "Seconds that the fetching of files may take.", .example = "30"},
};
const struct kr_api_table kr_api_session_create_table =
    KR_API_TABLE("SessionCreate", "A session to open.", create_fields, struct kr_api_session_create);

static const struct kr_api_field where_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct kr_api_session_where, sandbox), KR_API_LENGTH(0, 64),
     .aliases = sandbox_aliases, .help = "Only in this sandbox, by id or name. Without it: in any of the caller's.",
     .example = "default"},
};
const struct kr_api_table kr_api_session_where_table =
    KR_API_TABLE(NULL, "Where.", where_fields, struct kr_api_session_where);

#define SESSION_PROPS \
    {.name = "session_id", .type = KR_API_STRING, .help = "Its name.", .example = "analysis"}, \
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"}, \
    {.name = "last_activity", .type = KR_API_NUMBER, .help = "Unix time of its last use.", .example = "1763200042.5"}, \
    {.name = "is_busy", .type = KR_API_BOOL, .help = "A run is in it, or waits for it.", .example = "false"}, \
    {.name = "execution_count", .type = KR_API_INT, .help = "Runs so far.", .example = "3"}, \
    {.name = "working_directory", .type = KR_API_STRING, .help = "Where its code runs, as its code sees it.", \
     .example = KR_API_WORKSPACE}, \
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox it is in.", .example = ID}, \
    {.name = "sandbox_name", .type = KR_API_STRING, .help = "The name of that sandbox.", .example = "default"}, \
    {.name = "state", .type = KR_API_STRING, .help = "`opening` until it is there; then `idle`, `running` and so on.", \
     .example = "idle"}, \
    {.name = "queued", .type = KR_API_INT, .help = "Runs that wait for it.", .example = "0"}

static const struct kr_api_prop session_props[] = {SESSION_PROPS};
static const struct kr_api_schema session_schema = KR_API_SCHEMA("Session", "A live interpreter.", session_props);

static const struct kr_api_prop list_props[] = {
    {.name = "sessions", .type = KR_API_OBJECT, .each = true, .of = &session_schema,
     .help = "By name. Of several with one name in different sandboxes the last used has it; the others' keys are "
             "`<sandbox id>/<name>`."},
    {.name = "total", .type = KR_API_INT, .help = "How many.", .example = "1"},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Sessions", "The caller's sessions.", list_props);

static const struct kr_api_prop listed_file_props[] = {
    {.name = "id", .type = KR_API_STRING, .help = "Its path from the workspace.", .example = "out/table.csv"},
    {.name = "filename", .type = KR_API_STRING, .help = "The last part of it.", .example = "table.csv"},
    {.name = "exists", .type = KR_API_BOOL, .help = "Always true: only what is there is listed.", .example = "true"},
    {.name = "size", .type = KR_API_INT, .help = "Bytes.", .example = "1204"},
    {.name = "path", .type = KR_API_STRING, .help = "Its path as code in the session sees it.",
     .example = KR_API_WORKSPACE "/out/table.csv"},
};
static const struct kr_api_schema listed_file_schema =
    KR_API_SCHEMA("SessionListedFile", "A file of the workspace.", listed_file_props);

static const struct kr_api_prop detail_props[] = {
    SESSION_PROPS,
    {.name = "python", .type = KR_API_STRING, .nullable = true, .help = "The interpreter's version.",
     .example = "3.11.2"},
    {.name = "limits", .type = KR_API_OBJECT, .of = &kr_api_limits_schema, .help = "What holds for it."},
    {.name = "files", .type = KR_API_ARRAY, .of = &listed_file_schema,
     .help = "Files of its workspace, the first 1000."},
    {.name = "total_files", .type = KR_API_INT, .help = "How many are listed.", .example = "1"},
    {.name = "files_incomplete", .type = KR_API_BOOL, .help = "There are others: see the files of the sandbox.",
     .example = "false"},
};
static const struct kr_api_schema detail_schema =
    KR_API_SCHEMA("SessionDetail", "A session and the files of its workspace.", detail_props);

static const struct kr_api_prop opened_props[] = {
    {.name = "session_id", .type = KR_API_STRING, .help = "Its name.", .example = "analysis"},
    {.name = "working_directory", .type = KR_API_STRING, .help = "Where its code runs, as its code sees it.",
     .example = KR_API_WORKSPACE},
    {.name = "downloaded_files", .type = KR_API_STRINGS, .help = "Names of files that were fetched.", .example = "[]"},
    {.name = "errors", .type = KR_API_STRINGS, .help = "A sentence for each file that was not.", .example = "[]"},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "The sandbox it is in.", .example = ID},
    {.name = "sandbox_name", .type = KR_API_STRING, .help = "The name of that sandbox.", .example = "default"},
};
static const struct kr_api_schema opened_schema =
    KR_API_SCHEMA("SessionOpened", "A session that was opened.", opened_props);
static const struct kr_api_prop envelope_props[] = {
    {.name = "resultCode", .type = KR_API_INT, .help = "0: it went well.", .example = "0"},
    {.name = "resultMsg", .type = KR_API_STRING, .help = "The same as a word.", .example = "success"},
    {.name = "data", .type = KR_API_OBJECT, .of = &opened_schema, .help = "The session."},
};
static const struct kr_api_schema envelope_schema =
    KR_API_SCHEMA("SessionEnvelope", "The answer to opening a session.", envelope_props);

static const struct kr_api_param id_params[] = {{"session_id", "The session's name.", "analysis"}, {0}};
#define NOT_FOUND {404, "There is no such session.", NULL, &kr_api_detail_schema, \
    KR_API_DETAIL_EXAMPLE("not_found", "Session not found"), NULL}
static const struct kr_api_response list_responses[] = {{200, "The sessions.", NULL, &list_schema, NULL, NULL}, {0}};
static const struct kr_api_response create_responses[] = {{200, "It is open.", NULL, &envelope_schema, NULL, NULL},
    {0}};
static const struct kr_api_response read_responses[] = {{200, "The session.", NULL, &detail_schema, NULL, NULL},
    NOT_FOUND, {0}};
static const struct kr_api_response delete_responses[] = {
    {200, "It is ended.", NULL, &kr_api_message_schema, "{\"message\":\"Session analysis terminated\"}", NULL},
     NOT_FOUND, {0}};
static const struct kr_api_response interrupt_responses[] = {
    {200, "The session was interrupted.", NULL, &kr_api_message_schema,
     "{\"message\":\"Session analysis interrupted\"}", NULL}, NOT_FOUND, {0}};

const struct kr_api_doc kr_api_sessions_list_doc = {.id = "list_sessions", .tag = "sessions",
    .summary = "List sessions",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_READ, .query = &kr_api_session_where_table,
    .responses = list_responses};
const struct kr_api_doc kr_api_sessions_create_doc = {.id = "open_session", .tag = "sessions",
    .summary = "Open a session",
    .description = "A run opens the session it names by itself; this opens one without running anything.",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .body = &kr_api_session_create_table,
    .responses = create_responses};
const struct kr_api_doc kr_api_sessions_read_doc = {.id = "read_session", .tag = "sessions",
    .summary = "Read a session",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_READ, .params = id_params, .query = &kr_api_session_where_table,
    .responses = read_responses};
const struct kr_api_doc kr_api_sessions_delete_doc = {.id = "end_session", .tag = "sessions",
    .summary = "End a session",
    .description = "Its variables are gone, its files stay. What runs in it ends as `cancelled`.",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .params = id_params, .query = &kr_api_session_where_table,
    .responses = delete_responses};
const struct kr_api_doc kr_api_sessions_interrupt_doc = {.id = "interrupt_session", .tag = "sessions",
    .summary = "Interrupt a session",
    .description = "KeyboardInterrupt in what runs in it; nothing if nothing does.",
    .voice = KR_API_DOCUMENT, .needs = KR_RIGHT_RUN, .params = id_params, .query = &kr_api_session_where_table,
    .responses = interrupt_responses};
/* clang-format on */
