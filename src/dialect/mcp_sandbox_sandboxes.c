/* The account routes of document 004 (mcp-sandbox), the sandboxes: /api/users/me/sandboxes. Handlers of the route
 * table, in the documents' voice.
 *
 * What the document's page calls and its server never had (POST, GET of one) is there. Invariants: a caller
 * reads and changes only the caller's own sandboxes; default sandboxes are not listed. */
#include "dialect_routes.h"
#include "accounts.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REPLY_MAX 16384u
#define NAMES_TRIED 20

/* clang-format off */
static const struct kr_api_prop sandbox_props[] = {
    { .name = "id", .type = KR_API_STRING, .help = "The sandbox's id.", .example = "5zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "user_id", .type = KR_API_STRING, .help = "Whose it is.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "name", .type = KR_API_STRING, .help = "What it is called.", .example = "Sandbox 1" },
    { .name = "created_at", .type = KR_API_STRING, .format = "date-time", .help = "When it was made.",
     .example = "2027-01-15T08:00:00.250000Z" },
    { .name = "docker_container_id", .type = KR_API_STRING, .nullable = true,
     .help = "Always null: there is no container.", .example = "null" },
};
static const struct kr_api_schema sandbox_schema = KR_API_SCHEMA("AccountSandbox",
    "A sandbox, as document 004 (mcp-sandbox) writes it.", sandbox_props);
static const struct kr_api_prop sandboxes_props[] = {
    { .name = "sandboxes", .type = KR_API_ARRAY, .of = &sandbox_schema, .help = "All but the one called default." },
};
static const struct kr_api_schema sandboxes_schema = KR_API_SCHEMA("AccountSandboxes", "One's sandboxes.",
    sandboxes_props);

struct sandbox_new {
    const char *name;
};
static const struct kr_api_field sandbox_fields[] = {
    { .name = "name", .type = KR_API_STRING, KR_API_AT(struct sandbox_new, name), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "What it is to be called; one is made up without it.",
     .example = "Sandbox 1" },
};
static const struct kr_api_table sandbox_table = KR_API_TABLE("AccountSandboxCreate", "A sandbox to make.",
    sandbox_fields, struct sandbox_new);

static const struct kr_api_param sandbox_params[] = {{ "sandbox_id", "A sandbox's id.", "5zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { 0 }};

#define DOCUMENT .voice = KR_API_DOCUMENT, .tag = KR_API_TAG_004
const struct kr_api_doc kr_account_sandboxes_doc = {
    .id = "account_sandboxes", .summary = "The caller's sandboxes (document 004)", DOCUMENT, .needs = KR_RIGHT_READ,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "All of them.", .schema = &sandboxes_schema},
    {0}},
};
const struct kr_api_doc kr_account_sandbox_create_doc = {
    .id = "account_sandbox_create", .summary = "Make a sandbox (document 004)", DOCUMENT, .needs = KR_RIGHT_RUN,
    .body = &sandbox_table,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The sandbox.", .schema = &sandbox_schema},
    {0}},
};
const struct kr_api_doc kr_account_sandbox_doc = {
    .id = "account_sandbox", .summary = "A sandbox of the caller (document 004)", DOCUMENT, .needs = KR_RIGHT_READ,
    .params = sandbox_params,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The sandbox.", .schema = &sandbox_schema},
    {0}},
};
const struct kr_api_doc kr_account_sandbox_delete_doc = {
    .id = "account_sandbox_delete", .summary = "Delete a sandbox (document 004)", DOCUMENT, .needs = KR_RIGHT_RUN,
    .params = sandbox_params,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "It is gone.",
    .schema = &kr_api_message_schema}, {0}},
};
/* clang-format on */

static void write_sandbox(struct kr_json *j, const struct kr_store_sandbox *s)
{
    kr_json_object(j);
    kr_json_key_str(j, "id", s->id);
    kr_json_key_str(j, "user_id", s->owner);
    kr_json_key_str(j, "name", s->name);
    kr_accounts_date_json(j, "created_at", s->created);
    kr_json_key_null(j, "docker_container_id");
    kr_json_object_end(j);
}

static void on_sandbox(void *data, const struct kr_store_sandbox *s)
{
    if (!kr_store_is_default(s->name))
        write_sandbox(data, s);
}

void kr_account_sandboxes(struct kr_http_ex *ex, void *app)
{
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    struct kr_api *api = app;
    cleanup_buf struct kr_buf out;
    struct kr_api_who who;
    struct kr_err err;
    struct kr_json j;

    kr_buf_init(&out, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who))
        return;
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key(&j, "sandboxes");
    kr_json_array(&j);
    do {
        if (kr_store_sandboxes_list(api->store, who.user, &page, on_sandbox, &j, &err) < 0) {
            kr_accounts_fail(ex, &err);
            return;
        }
        page.after = page.next;
    } while (page.next[0]);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

static void reply_sandbox(struct kr_http_ex *ex, const struct kr_sandbox *s)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    write_sandbox(&j, &s->row);
    kr_api_reply(ex, 200, &out);
}

static void fail_account_sandbox(struct kr_http_ex *ex, const struct kr_err *err)
{
    if (err->kind == KR_ERR_NOT_FOUND)
        kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "Sandbox not found");
    else
        kr_api_fail(ex, err);
}

/* Without a name it is called as the document's server calls it: "Sandbox 1", the next number that is free. */
static int make_account_sandbox(struct kr_api *api, const struct kr_api_who *who, const char *name,
                                struct kr_sandbox *ret, struct kr_err *err)
{
    char numbered[32];
    int count, r = -EEXIST;

    if (name)
        return kr_box_sandbox_create(api->box, &who->caller, name, NULL, ret, err);
    count = kr_store_sandboxes_count(api->store, who->user, err);
    if (count < 0)
        return count;
    for (int n = count + 1; n <= count + NAMES_TRIED && r == -EEXIST; n++) {
        snprintf(numbered, sizeof numbered, "Sandbox %d", n);
        r = kr_box_sandbox_create(api->box, &who->caller, numbered, NULL, ret, err);
    }
    return r == -EEXIST ? kr_box_sandbox_create(api->box, &who->caller, NULL, NULL, ret, err) : r;
}

static void on_sandbox_create(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    const struct sandbox_new *q = request;
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    if (make_account_sandbox(api, &who, q->name, &s, &err) < 0)
        fail_account_sandbox(ex, &err);
    else
        reply_sandbox(ex, &s);
}

void kr_account_sandbox_create(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &sandbox_table, on_sandbox_create);
}

void kr_account_sandbox(struct kr_http_ex *ex, void *app)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_box_sandbox_find(api->box, &who.caller, kr_http_param(ex, "sandbox_id"), &s, &err) < 0)
        fail_account_sandbox(ex, &err);
    else
        reply_sandbox(ex, &s);
}

void kr_account_sandbox_delete(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_box_sandbox_delete(api->box, &who.caller, kr_http_param(ex, "sandbox_id"), &err) < 0)
        fail_account_sandbox(ex, &err);
    else
        kr_api_reply_message(ex, 200, "Sandbox deleted successfully");
}
