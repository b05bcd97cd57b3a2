/* Sandboxes: create, list, read, change, reset, delete.
 *
 * Called through the route table. Invariants: every id or name is looked up among the caller's own, another's is 404; a
 * value of `env` leaves the server in no reply, error or log; a change is made whole or not at all. */
#include "sandbox_routes.h"
#include "api.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "sandbox_fields.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

struct settings_request {
    const char *name, *template;
    union kr_api_setting settings[KR_SANDBOX_SETTINGS_MAX];
};
struct list_query {
    const char *after;
    int64_t limit;
};

/* Counted in bytes by the store, and in characters by a row. */
static int check_sandbox_name(const char *value, struct kr_err *err)
{
    size_t len = strlen(value);

    if (len <= KR_STORE_NAME_MAX && value[0] != ' ' && value[len - 1] != ' ')
        return 0;
    kr_err_set(err, KR_ERR_INVALID, 0, "must be at most %u bytes, without a blank at either end", KR_STORE_NAME_MAX);
    return -EINVAL;
}

/* ---- rows ---- */

static const char *const states[] = {KR_STORE_SANDBOX_STATE, NULL};

/* clang-format off */
static struct kr_api_field settings_fields[1 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "name", .type = KR_API_STRING, KR_API_AT(struct settings_request, name), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX),
     .check = check_sandbox_name, .help = "Unique among one's own. One that is made up, if a new sandbox has none.",
     .example = "analysis"},
};
static struct kr_api_field create_fields[2 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "template", .type = KR_API_STRING, KR_API_AT(struct settings_request, template), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX),
     .help = "Id or name of a template: the sandbox begins with its files, packages and settings.",
     .example = "science"},
};
static struct kr_api_table create_table = {.name = "SandboxCreateRequest",
    .help = "A sandbox's name and settings, and what it begins with. What is left out is the template's, or the "
            "server's.",
    .fields = create_fields, .count = 1, .size = sizeof(struct settings_request)};
static struct kr_api_table settings_table = {.name = "SandboxRequest",
    .help = "A sandbox's name and settings. What is left out stays as it is; what is null is the server's.",
    .fields = settings_fields, .count = 1, .size = sizeof(struct settings_request)};

static const struct kr_api_field list_fields[] = {
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct list_query, limit), KR_API_RANGE(1, 100), .def = "50",
     .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_query, after),
     KR_API_LENGTH(1, KR_STORE_CURSOR_ROOM - 1),
     .help = "`next` of the page before.", .example = "1763200000000000." ID},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which sandboxes.", list_fields, struct list_query);

static struct kr_api_prop sandbox_props[8 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "id", .type = KR_API_STRING, .help = "The same as `sandbox_id`.", .example = ID},
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Unguessable, and for good.", .example = ID},
    {.name = "name", .type = KR_API_STRING, .help = "Its name, which also finds it.", .example = "analysis"},
    {.name = "state", .type = KR_API_ENUM, .choices = states, .help = "Always `active`.",
     .example = "active"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "last_used_at", .type = KR_API_NUMBER, .help = "Unix time, to ten seconds; 0: never.",
     .example = "1763200042"},
    {.name = "settings", .type = KR_API_OBJECT, .of = &kr_api_settings_schema,
     .help = "What was set; the members beside it tell what holds for new sessions.",
     .example = "{\"limits\":{\"memory\":\"512M\"},\"env\":{\"MODE\":\"***\"}}"},
    {.name = "sessions", .type = KR_API_INT, .help = "Live ones.", .example = "1"},
};
static struct kr_api_schema sandbox_schema = {.name = "Sandbox", .help = "What lasts: files, settings, a name.",
    .props = sandbox_props, .count = 8};
static const struct kr_api_prop list_props[] = {
    {.name = "sandboxes", .type = KR_API_ARRAY, .of = &sandbox_schema, .help = "Newest first."},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "1763200000000000." ID},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Sandboxes", "A page of sandboxes.", list_props);

static const struct kr_api_param sandbox_params[] = {{"sandbox_id", "The sandbox's id, or its name.", "analysis"}, {0}};
static const struct kr_api_header created_headers[] = {{"Location", "Where it is from now on.",
    "/api/v1/sandboxes/" ID}, {0}};
#define CONFLICT(help_, text_) {409, help_, NULL, &kr_api_error_schema, \
    "{\"error\":{\"kind\":\"conflict\",\"message\":\"" text_ "\",\"field\":null,\"request_id\":\"7f3a\"}}", NULL}
static const struct kr_api_response list_ok[] = {{200, "The page.", NULL, &list_schema, NULL, NULL}, {0}};
static const struct kr_api_response create_ok[] = {{201, "It is made.", NULL, &sandbox_schema, NULL, created_headers},
    CONFLICT("There is one of that name.", "there is a sandbox called analysis"), {0}};
static const struct kr_api_response read_ok[] = {{200, "The sandbox.", NULL, &sandbox_schema, NULL, NULL}, {0}};
static const struct kr_api_response change_ok[] = {{200, "The sandbox as it is now.", NULL, &sandbox_schema, NULL,
    NULL},
    CONFLICT("There is one of that name, or it keeps its own.", "there is a sandbox called analysis"), {0}};
static const struct kr_api_response reset_ok[] = {{200, "The sandbox, empty.", NULL, &sandbox_schema, NULL, NULL}, {0}};
static const struct kr_api_response delete_ok[] = {{204, "It is gone.", NULL, NULL, NULL, NULL},
    CONFLICT("`default` is never deleted.", "the sandbox called default stays"), {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "sandboxes", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_sandboxes_list_doc = {DOC("list_sandboxes", "List sandboxes", KR_RIGHT_READ),
    .query = &list_table, .responses = list_ok};
const struct kr_api_doc kr_api_sandboxes_create_doc = {DOC("create_sandbox", "Create a sandbox", KR_RIGHT_RUN),
    .body = &create_table,
    .body_example = "{\"name\":\"analysis\",\"limits\":{\"memory\":\"512M\"},\"env\":{\"MODE\":\"test\"}}",
    .description = "With `template` it begins with a copy of that template, and the reply comes when it is whole.",
    .responses = create_ok};
const struct kr_api_doc kr_api_sandboxes_read_doc = {DOC("read_sandbox", "Read a sandbox", KR_RIGHT_READ),
    .params = sandbox_params, .responses = read_ok};
const struct kr_api_doc kr_api_sandboxes_change_doc = {DOC("change_sandbox", "Rename a sandbox, change its settings",
    KR_RIGHT_RUN),
    .description = "Sessions that live keep the settings they were opened with.", .params = sandbox_params,
    .body = &settings_table,
    .body_example = "{\"name\":\"reports\",\"limits\":{\"timeout\":300,\"memory\":null}}", .responses = change_ok};
const struct kr_api_doc kr_api_sandboxes_reset_doc = {DOC("reset_sandbox", "Empty a sandbox", KR_RIGHT_RUN),
    .description = "Ends its sessions and takes away its files; id, name and settings stay.", .params = sandbox_params,
    .responses = reset_ok};
const struct kr_api_doc kr_api_sandboxes_delete_doc = {DOC("delete_sandbox", "Delete a sandbox", KR_RIGHT_RUN),
    .description = "Ends its sessions and takes away its files. The list of its runs stays. `default` cannot be "
                   "deleted: reset it.",
    .params = sandbox_params, .responses = delete_ok};
/* clang-format on */

__attribute__((constructor)) static void derive_sandbox_tables(void)
{
    create_fields[create_table.count++] = settings_fields[0]; /* the name */
    kr_api_settings_fields(create_fields, &create_table.count, offsetof(struct settings_request, settings),
                           KR_API_SETTINGS_REST);
    kr_api_settings_fields(settings_fields, &settings_table.count, offsetof(struct settings_request, settings),
                           KR_API_SETTINGS_REST);
    kr_api_settings_props(sandbox_props, &sandbox_schema.count);
}

/* ---- answers ---- */

static void reply_sandbox(struct kr_api *api, struct kr_http_ex *ex, int status, const struct kr_sandbox *s)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_box_sandbox_json(api->box, &j, s);
    kr_api_reply(ex, status, &buf);
}

/* A name that is taken or fixed is a conflict. */
static void fail_sandbox(struct kr_http_ex *ex, struct kr_err *err)
{
    if (err->code == EEXIST || err->code == EPERM)
        err->kind = KR_ERR_CONFLICT;
    kr_api_fail_named(ex, err);
}

/* The sandbox that the path names. False: answered. */
static bool find_sandbox(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_who *who, struct kr_sandbox *ret)
{
    struct kr_err err;

    if (!kr_api_caller(api, ex, who))
        return false;
    if (kr_box_sandbox_find(api->box, &who->caller, kr_http_param(ex, "sandbox_id"), ret, &err) == 0)
        return true;
    kr_api_fail(ex, &err);
    return false;
}

/* As it is now. */
static void reply_again(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who, const char *id)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_err err;

    if (kr_box_sandbox_find(api->box, &who->caller, id, &s, &err) < 0)
        kr_api_fail(ex, &err);
    else
        reply_sandbox(api, ex, 200, &s);
}

/* ---- settings ---- */

static void reply_created(struct kr_api *api, struct kr_http_ex *ex, const struct kr_sandbox *s)
{
    char location[64];

    snprintf(location, sizeof location, "/api/v1/sandboxes/%s", s->row.id);
    kr_http_set_header(ex, "Location", location); /* without memory: without it */
    reply_sandbox(api, ex, 201, s);
}

/* A request that waits for a copy of its template. */
struct create_wait {
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_box_task *task;
};

static void on_sandbox_made(void *data, const struct kr_sandbox *s, const struct kr_err *err)
{
    struct create_wait *w = data;
    struct kr_err why;

    if (s) {
        reply_created(w->api, w->ex, s);
    } else {
        why = *err;
        fail_sandbox(w->ex, &why);
    }
    free(w);
}

static void on_creator_gone(void *data, struct kr_http_ex *ex)
{
    struct create_wait *w = data;

    (void)ex;
    kr_box_task_forget(w->task);
    free(w);
}

static int create_from(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who,
                       const struct settings_request *q, const json_t *settings, struct kr_err *err)
{
    static const struct kr_http_calls calls = {.on_gone = on_creator_gone};
    struct create_wait *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "sandbox");
    w->api = api;
    w->ex = ex;
    r = kr_box_sandbox_create_from(api->box, &who->caller, q->template, q->name, settings, on_sandbox_made, w, &w->task,
                                   err);
    if (r < 0)
        free(w);
    else
        kr_http_defer(ex, &calls, w);
    return r;
}

static void create_sandbox(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct kr_api *api = app;
    const struct settings_request *q = request;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api_who who;
    struct kr_err err;
    json_t *settings;
    int r;

    if (!kr_api_caller(api, ex, &who))
        return;
    settings = kr_api_settings_of_body(in->root, q->template != NULL);
    if (!settings)
        r = kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "settings");
    else if (q->template)
        r = create_from(api, ex, &who, q, settings, &err);
    else
        r = kr_box_sandbox_create(api->box, &who.caller, q->name, settings, &s, &err);
    json_decref(settings);
    if (r < 0)
        fail_sandbox(ex, &err);
    else if (!q->template)
        reply_created(api, ex, &s);
}

void kr_api_sandboxes_create(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &create_table, create_sandbox);
}

/* Would the name be taken? So that settings are not changed for a request that fails at its name. 0 or -errno. */
static int check_new_name(struct kr_api *api, const struct kr_api_who *who, const struct kr_sandbox *s,
                          const char *name, struct kr_err *err)
{
    cleanup_sandbox struct kr_store_sandbox other = {0};

    if (kr_store_is_default(s->row.name)) {
        kr_err_set(err, KR_ERR_CONFLICT, 0, "name: the sandbox called %s keeps its name", s->row.name);
        return -EPERM;
    }
    if (kr_store_sandbox_find(api->store, who->caller.user, name, &other, err) < 0)
        return 0; /* whatever else is wrong, the rename will say so */
    kr_err_set(err, KR_ERR_CONFLICT, 0, "name: there is a sandbox called %s", name);
    return -EEXIST;
}

static void change_sandbox(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    struct kr_api *api = app;
    const struct settings_request *q = request;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    bool renames;
    struct kr_api_who who;
    struct kr_err err;
    json_t *changes;
    int r;

    if (!find_sandbox(api, ex, &who, &s))
        return;
    renames = q->name && strcmp(q->name, s.row.name) != 0;
    changes = kr_api_settings_of_body(in->root, true);
    r = changes ? 0 : kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "settings");
    if (r == 0 && renames)
        r = check_new_name(api, &who, &s, q->name, &err);
    if (r == 0 && json_object_size(changes) > 0)
        r = kr_box_sandbox_configure(api->box, &who.caller, s.row.id, changes, &err);
    if (r == 0 && renames)
        r = kr_box_sandbox_rename(api->box, &who.caller, s.row.id, q->name, &err);
    json_decref(changes);
    if (r < 0)
        fail_sandbox(ex, &err);
    else
        reply_again(api, ex, &who, s.row.id);
}

void kr_api_sandboxes_change(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &settings_table, change_sandbox);
}

/* ---- list, read ---- */

struct listing {
    struct kr_api *api;
    const struct kr_caller *caller;
    struct kr_json j;
};

static void on_listed(void *data, const struct kr_store_sandbox *row)
{
    struct listing *l = data;
    cleanup_box_sandbox struct kr_sandbox s = {0};

    if (kr_box_sandbox_find(l->api->box, l->caller, row->id, &s, NULL) == 0)
        kr_box_sandbox_json(l->api->box, &l->j, &s);
}

void kr_api_sandboxes_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_box_sandbox struct kr_sandbox first = {0};
    cleanup_buf struct kr_buf buf;
    struct kr_api_who who;
    struct listing l = {.api = api, .caller = &who.caller};
    struct kr_store_page page;
    struct list_query q;
    struct kr_err err;
    int r;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    page = (struct kr_store_page){.after = q.after, .limit = (unsigned)q.limit};
    kr_api_page_begin(&l.j, &buf, "sandboxes");
    /* Every user has a default: it is made here. A list needs no room on a full disk, so it may be without. */
    (void)kr_box_sandbox_find(api->box, &who.caller, NULL, &first, &err);
    r = kr_store_sandboxes_list(api->store, who.caller.user, &page, on_listed, &l, &err);
    if (r < 0) {
        kr_api_fail_field(ex, r == -EINVAL ? "after" : NULL, &err);
        return;
    }
    kr_api_page_end(&l.j, page.next);
    kr_api_reply(ex, 200, &buf);
}

void kr_api_sandboxes_read(struct kr_http_ex *ex, void *app)
{
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api_who who;

    if (find_sandbox(app, ex, &who, &s))
        reply_sandbox(app, ex, 200, &s);
}

/* ---- reset, delete ---- */

void kr_api_sandboxes_reset(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api_who who;
    struct kr_err err;

    if (!find_sandbox(api, ex, &who, &s))
        return;
    if (kr_box_sandbox_reset(api->box, &who.caller, s.row.id, &err) < 0)
        fail_sandbox(ex, &err);
    else
        reply_again(api, ex, &who, s.row.id);
}

void kr_api_sandboxes_delete(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_api_who who;
    struct kr_err err;

    if (!find_sandbox(api, ex, &who, &s))
        return;
    if (kr_store_is_default(s.row.name))
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "the sandbox called %s stays; POST /api/v1/sandboxes/%s/reset empties it",
                         s.row.name, s.row.name);
    else if (kr_box_sandbox_delete(api->box, &who.caller, s.row.id, &err) < 0)
        fail_sandbox(ex, &err);
    else
        kr_api_reply_nothing(ex);
}
