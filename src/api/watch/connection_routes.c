/* GET /api/v1/connections: what sandboxes connected to, and what they were refused.
 *
 * Handler of the route table; the object is MCP's as well (src/mcp/resources). Invariant: users see the rows of their
 * own sandboxes; administrators see all. */
#include "connection_routes.h"
#include "body_read.h"
#include "buf.h"
#include "egress_row.h"
#include "json.h"
#include "reply.h"
#include "store_connection.h"
#include <errno.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

struct list_query {
    const char *user, *sandbox, *run, *after;
    int verdict;
    double since, until;
    int64_t limit;
};

/* clang-format off */
static const struct kr_api_prop row_props[] = {
    {.name = "connection_id", .type = KR_API_STRING, .help = "The connection, or the one request of plain HTTP.",
     .example = ID},
    {.name = "user_id", .type = KR_API_STRING, .help = "Whose it was.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz"},
    {.name = "sandbox_id", .type = KR_API_STRING, .nullable = true,
     .help = "The sandbox whose rule judged it; null: none's.", .example = ID},
    {.name = "run_id", .type = KR_API_STRING, .nullable = true,
     .help = "The run that was in the sandbox's session; null between runs, and for what was fetched for it.",
     .example = ID},
    {.name = "at", .type = KR_API_NUMBER, .help = "Its begin, Unix time.", .example = "1763200000.1"},
    {.name = "seconds", .type = KR_API_NUMBER, .help = "How long it was.", .example = "0.25"},
    {.name = "how", .type = KR_API_ENUM, .choices = kr_egress_hows,
     .help = "connect: a tunnel, as for HTTPS; http: a request of plain HTTP; https: one in a tunnel whose TLS ends in "
             "the proxy, for secrets; index: of the package index; fetch: by the server, for the sandbox.",
     .example = "connect"},
    {.name = "method", .type = KR_API_STRING, .help = "Of the request; empty of a tunnel.", .example = "GET"},
    {.name = "host", .type = KR_API_STRING, .help = "The name that was asked for.", .example = "files.example.org"},
    {.name = "port", .type = KR_API_INT, .help = "Its port.", .example = "443"},
    {.name = "address", .type = KR_API_STRING, .nullable = true,
     .help = "What it was connected to; null: to nothing.", .example = "192.0.2.7"},
    {.name = "sent_bytes", .type = KR_API_INT, .help = "To the outside.", .example = "523"},
    {.name = "received_bytes", .type = KR_API_INT, .help = "From there.", .example = "81920"},
    {.name = "status", .type = KR_API_INT, .nullable = true, .help = "Of HTTP; null: none is known.",
     .example = "200"},
    {.name = "verdict", .type = KR_API_ENUM, .choices = kr_egress_verdicts,
     .help = "ok; denied: its rule does not allow it; failed; limit: it came to a bound.", .example = "ok"},
    {.name = "why", .type = KR_API_STRING, .nullable = true, .help = "What was wrong, unless it is ok.",
     .example = "null"},
    {.name = "secrets", .type = KR_API_STRINGS, .help = "Names of the secrets whose values went out with the request.",
     .example = "[]"},
};
static const struct kr_api_schema row_schema = KR_API_SCHEMA("Connection", "A connection to the outside.", row_props);
static const struct kr_api_prop list_props[] = {
    {.name = "connections", .type = KR_API_ARRAY, .of = &row_schema, .help = "Newest first."},
    {.name = "next", .type = KR_API_STRING, .nullable = true,
     .help = "`after` of the next page; null at the end. A page may be short, even empty, and have a next one.",
     .example = "1763200000000000." ID},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Connections", "A page of connections.", list_props);

static const struct kr_api_field list_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct list_query, sandbox),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this sandbox.", .example = ID},
    {.name = "run_id", .type = KR_API_STRING, KR_API_AT(struct list_query, run),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this run.", .example = ID},
    {.name = "verdict", .type = KR_API_ENUM, .choices = kr_egress_verdicts, KR_API_AT(struct list_query, verdict),
     .help = "That ended so.", .example = "denied"},
    {.name = "user_id", .type = KR_API_STRING, KR_API_AT(struct list_query, user),
     KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .help = "Of this user. Of another one only for administrators.",
     .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz"},
    {.name = "since", .type = KR_API_NUMBER, KR_API_AT(struct list_query, since), KR_API_RANGE(0, 9e9),
     .help = "Nothing before this time, Unix time.", .example = "1763200000"},
    {.name = "until", .type = KR_API_NUMBER, KR_API_AT(struct list_query, until), KR_API_RANGE(0, 9e9),
     .help = "Only before this time.", .example = "1763203600"},
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct list_query, limit), KR_API_RANGE(1, KR_STORE_PAGE_MAX),
     .def = "50", .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_query, after),
     KR_API_LENGTH(1, KR_STORE_CURSOR_ROOM - 1), .help = "`next` of the page before.",
     .example = "1763200000000000." ID},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which connections.", list_fields, struct list_query);

const struct kr_api_doc kr_api_connections_list_doc = {.id = "list_connections", .tag = "connections",
    .summary = "List connections to the outside",
    .description = "Each connection of a sandbox's code, and each fetch for it, that ended or was refused. They are "
                   "kept for `retention`, and `egress.rows` of them. Administrators see those of all users.",
    .voice = KR_API_KRAIT, .needs = KR_RIGHT_READ, .query = &list_table,
    .responses = (const struct kr_api_response[]){{200, "The page.", NULL, &list_schema, NULL, NULL}, {0}}};
/* clang-format on */

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

static void write_secret_names(struct kr_json *j, const char *names)
{
    kr_json_key(j, "secrets");
    kr_json_array(j);
    while (*names) {
        size_t len = strcspn(names, ",");

        kr_json_str_n(j, names, len);
        names += len + (names[len] == ',');
    }
    kr_json_array_end(j);
}

void kr_api_connection_json(struct kr_json *j, const struct kr_store_connection *row)
{
    kr_json_object(j);
    kr_json_key_str(j, "connection_id", row->id);
    kr_json_key_str(j, "user_id", row->owner);
    kr_json_key_str(j, "sandbox_id", or_null(row->sandbox));
    kr_json_key_str(j, "run_id", or_null(row->run));
    kr_json_key_double(j, "at", (double)row->at / 1e6);
    kr_json_key_double(j, "seconds", (double)row->ms / 1e3);
    kr_json_key_str(j, "how", row->how);
    kr_json_key_str(j, "method", row->method);
    kr_json_key_str(j, "host", row->host);
    kr_json_key_uint(j, "port", row->port);
    kr_json_key_str(j, "address", or_null(row->address));
    kr_json_key_uint(j, "sent_bytes", row->sent);
    kr_json_key_uint(j, "received_bytes", row->received);
    if (row->status)
        kr_json_key_uint(j, "status", row->status);
    else
        kr_json_key_null(j, "status");
    kr_json_key_str(j, "verdict", row->verdict);
    kr_json_key_str(j, "why", or_null(row->why));
    write_secret_names(j, row->secrets);
    kr_json_object_end(j);
}

static void on_listed_connection(void *data, const struct kr_store_connection *row)
{
    kr_api_connection_json(data, row);
}

void kr_api_connections_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct kr_store_connection_filter filter;
    struct kr_store_page page;
    struct kr_api_who who;
    struct list_query q;
    struct kr_json j;
    struct kr_err err;
    bool admin;
    int r;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    admin = who.caller.rights & KR_RIGHT_ADMIN;
    if (q.user && !admin && strcmp(q.user, who.caller.user) != 0) {
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "what others connected to is for administrators");
        return;
    }
    kr_box_connections_settle(api->box);
    page = (struct kr_store_page){.after = q.after, .limit = (unsigned)q.limit};
    filter = (struct kr_store_connection_filter){.owner = admin ? q.user : who.caller.user,
                                                 .sandbox = q.sandbox,
                                                 .run = q.run,
                                                 .verdict = q.verdict >= 0 ? kr_egress_verdicts[q.verdict] : NULL,
                                                 .since = (int64_t)(q.since * 1e6),
                                                 .until = (int64_t)(q.until * 1e6)};
    kr_api_page_begin(&j, &buf, "connections");
    r = kr_store_connections_list(api->store, &filter, &page, on_listed_connection, &j, &err);
    if (r < 0) {
        kr_api_fail_field(ex, r == -EINVAL ? "after" : NULL, &err);
        return;
    }
    kr_api_page_end(&j, page.next);
    kr_api_reply(ex, 200, &buf);
}
