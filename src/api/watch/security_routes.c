/* GET /api/v1/security-events: what code was refused, and which limits it hit.
 *
 * Handler of the route table; the page is MCP's as well (src/mcp/tools/tool_security.c). Invariant: users see their own
 * events; administrators see all. */
#include "security_routes.h"
#include "body_read.h"
#include "buf.h"
#include "json.h"
#include "reply.h"
#include "security.h"
#include "security_store.h"
#include <errno.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

/* clang-format off */
static const struct kr_api_prop event_props[] = {
    {.name = "event_id", .type = KR_API_STRING, .help = "The event.", .example = ID},
    {.name = "user_id", .type = KR_API_STRING, .help = "Whose code it was.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz"},
    {.name = "sandbox_id", .type = KR_API_STRING, .nullable = true, .help = "The sandbox, which may be gone.",
     .example = ID},
    {.name = "run_id", .type = KR_API_STRING, .nullable = true, .help = "The run; null between runs.", .example = ID},
    {.name = "at", .type = KR_API_NUMBER, .help = "The first of them, Unix time.", .example = "1763200000.1"},
    {.name = "kind", .type = KR_API_ENUM, .choices = kr_security_kinds,
     .help = "policy: the code policy, before the run or during it; syscall: the system call filter ended it; "
             "permission: the kernel refused a file or a call, and the exception ended the run; egress: a connection "
             "was refused; limit: a limit was hit, survived or not.", .example = "policy"},
    {.name = "rule", .type = KR_API_STRING,
     .help = "What refused: the id of a policy rule, `seccomp`, the name of an errno, `denied` or `limit` of a "
             "connection, the name of a limit; `more` of what is past the bound of a minute.", .example = "P101"},
    {.name = "line", .type = KR_API_INT, .nullable = true, .help = "Line of the run's code; null: not known.",
     .example = "1"},
    {.name = "count", .type = KR_API_INT, .help = "How many equal ones it stands for.", .example = "1"},
    {.name = "text", .type = KR_API_STRING, .help = "What was refused; of equal ones, the first.",
     .example = "Import 'os' is not allowed"},
};
static const struct kr_api_schema event_schema = KR_API_SCHEMA("SecurityEvent", "Something that code was refused.",
    event_props);
static const struct kr_api_prop page_props[] = {
    {.name = "events", .type = KR_API_ARRAY, .of = &event_schema, .help = "Newest first."},
    {.name = "next", .type = KR_API_STRING, .nullable = true,
     .help = "`after` of the next page; null at the end. A page may be short, even empty, and have a next one.",
     .example = "1763200000000000." ID},
};
const struct kr_api_schema kr_security_page_schema = KR_API_SCHEMA("SecurityEvents", "A page of security events.",
    page_props);

static const struct kr_api_field query_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct kr_security_query, sandbox),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this sandbox.", .example = ID},
    {.name = "run_id", .type = KR_API_STRING, KR_API_AT(struct kr_security_query, run),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this run.", .example = ID},
    {.name = "kind", .type = KR_API_ENUM, .choices = kr_security_kinds, KR_API_AT(struct kr_security_query, kind),
     .help = "Of this kind.", .example = "policy"},
    {.name = "rule", .type = KR_API_STRING, KR_API_AT(struct kr_security_query, rule),
     KR_API_LENGTH(1, KR_STORE_EVENT_RULE_MAX), .help = "Refused by this rule.", .example = "P101"},
    {.name = "user_id", .type = KR_API_STRING, KR_API_AT(struct kr_security_query, user),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this user. Of another one only for administrators.",
     .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz"},
    {.name = "since", .type = KR_API_NUMBER, KR_API_AT(struct kr_security_query, since), KR_API_RANGE(0, 9e9),
     .help = "Nothing before this time, Unix time.", .example = "1763200000"},
    {.name = "until", .type = KR_API_NUMBER, KR_API_AT(struct kr_security_query, until), KR_API_RANGE(0, 9e9),
     .help = "Only before this time.", .example = "1763203600"},
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct kr_security_query, limit),
     KR_API_RANGE(1, KR_STORE_PAGE_MAX), .def = "50", .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct kr_security_query, after),
     KR_API_LENGTH(1, KR_STORE_CURSOR_ROOM - 1), .help = "`next` of the page before.",
     .example = "1763200000000000." ID},
};
const struct kr_api_table kr_security_query_table = KR_API_TABLE(NULL, "Which security events.", query_fields,
    struct kr_security_query);

const struct kr_api_doc kr_api_security_list_doc = {.id = "list_security_events", .tag = "security",
    .summary = "List security events",
    .description = "Each refusal of code: by the code policy, the system call filter, the kernel's permissions, the "
                   "network rule, and each limit that was hit. Equal ones of half a second are one row; past 300 rows "
                   "of a user in a minute the rest is one row of each kind. They are kept for `retention`, and "
                   "`security_rows` of them. Administrators see those of all users.",
    .voice = KR_API_KRAIT, .needs = KR_RIGHT_READ, .query = &kr_security_query_table,
    .responses = (const struct kr_api_response[]){{200, "The page.", NULL, &kr_security_page_schema, NULL, NULL}, {0}}};
/* clang-format on */

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static void on_listed_event(void *data, const struct kr_store_event *row)
{
    struct kr_json *j = data;

    kr_json_object(j);
    kr_json_key_str(j, "event_id", row->id);
    kr_json_key_str(j, "user_id", row->owner);
    kr_json_key_str(j, "sandbox_id", or_null(row->sandbox));
    kr_json_key_str(j, "run_id", or_null(row->run));
    kr_json_key_double(j, "at", (double)row->at / 1e6);
    kr_json_key_str(j, "kind", row->kind);
    kr_json_key_str(j, "rule", row->rule);
    if (row->line)
        kr_json_key_uint(j, "line", row->line);
    else
        kr_json_key_null(j, "line");
    kr_json_key_uint(j, "count", row->count);
    kr_json_key_str(j, "text", row->text);
    kr_json_object_end(j);
}

int kr_api_security_write(struct kr_api *api, const struct kr_caller *who, const struct kr_security_query *q,
                          struct kr_buf *buf, const char **ret_field, struct kr_err *err)
{
    bool admin = who->rights & KR_RIGHT_ADMIN;
    struct kr_store_page page = {.after = q->after, .limit = (unsigned)q->limit};
    struct kr_store_event_filter filter = {.owner = admin ? q->user : who->user,
                                           .sandbox = q->sandbox,
                                           .run = q->run,
                                           .kind = q->kind >= 0 ? kr_security_kinds[q->kind] : NULL,
                                           .rule = q->rule,
                                           .since = (int64_t)(q->since * 1e6),
                                           .until = (int64_t)(q->until * 1e6)};
    struct kr_json j;
    int r;

    *ret_field = NULL;
    if (q->user && !admin && strcmp(q->user, who->user) != 0) {
        *ret_field = "user_id";
        return kr_err_set(err, KR_ERR_FORBIDDEN, 0, "security events of others are for administrators"), -EACCES;
    }
    kr_box_security_settle(api->box);
    kr_api_page_begin(&j, buf, "events");
    r = kr_store_events_list(api->store, &filter, &page, on_listed_event, &j, err);
    if (r < 0) {
        *ret_field = r == -EINVAL ? "after" : NULL;
        return r;
    }
    kr_api_page_end(&j, page.next);
    return 0;
}

void kr_api_security_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct kr_security_query q;
    struct kr_api_who who;
    const char *field;
    struct kr_err err;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &kr_security_query_table, &q, &in))
        return;
    if (kr_api_security_write(api, &who.caller, &q, &buf, &field, &err) < 0)
        kr_api_fail_field(ex, field, &err);
    else
        kr_api_reply(ex, 200, &buf);
}
