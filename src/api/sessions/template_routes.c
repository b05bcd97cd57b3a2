/* Templates: save a sandbox as one, list, read, change, delete.
 *
 * Called through the route table. Invariants: a template is found by its owner, or by every user if it is shared,
 * another's is 404; only its owner changes it, and only an administrator shares it. */
#include "template_routes.h"
#include "api.h"
#include "body_read.h"
#include "buf.h"
#include "json.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID "01hv5k8m2nq7r9t3w6x8y0z2a4"

struct save_request {
    const char *sandbox, *name, *description;
    bool shared;
};
struct change_request {
    const char *name, *description;
    bool shared;
    uint8_t shared_given;
};
struct list_query {
    const char *after;
    int64_t limit;
};

/* ---- rows ---- */

/* clang-format off */
#define NAME_FIELD(struct_) \
    {.name = "name", .type = KR_API_STRING, KR_API_AT(struct_, name), .nullable = true, \
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "Unique among one's own.", .example = "science"}
#define DESCRIPTION_FIELD(struct_) \
    {.name = "description", .type = KR_API_STRING, KR_API_AT(struct_, description), .nullable = true, \
     KR_API_LENGTH(0, KR_STORE_DESCRIPTION_MAX), .help = "What it is for.", .example = "numpy 2 and our data"}
static const struct kr_api_field save_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct save_request, sandbox), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name of the sandbox to save.", .example = "analysis"},
    NAME_FIELD(struct save_request),
    DESCRIPTION_FIELD(struct save_request),
    {.name = "shared", .type = KR_API_BOOL, KR_API_AT(struct save_request, shared), .def = "false",
     .nullable = true,
     .help = "Every user can begin a sandbox with it. Administrators only.", .example = "false"},
};
static const struct kr_api_table save_table = KR_API_TABLE("TemplateCreateRequest", "What to save, and its name.",
    save_fields, struct save_request);
static const struct kr_api_field change_fields[] = {
    NAME_FIELD(struct change_request),
    DESCRIPTION_FIELD(struct change_request),
    {.name = "shared", .type = KR_API_BOOL, KR_API_AT(struct change_request, shared),
     KR_API_GIVEN(struct change_request, shared_given), .nullable = true,
     .help = "Every user can begin a sandbox with it. Administrators only.", .example = "true"},
};
static const struct kr_api_table change_table = KR_API_TABLE("TemplateRequest",
    "What is left out stays as it is.", change_fields, struct change_request);
static const struct kr_api_field list_fields[] = {
    {.name = "limit", .type = KR_API_INT, KR_API_AT(struct list_query, limit), KR_API_RANGE(1, 100), .def = "50",
     .help = "At most so many.", .example = "50"},
    {.name = "after", .type = KR_API_STRING, KR_API_AT(struct list_query, after),
     KR_API_LENGTH(1, KR_STORE_CURSOR_ROOM - 1),
     .help = "`next` of the page before.", .example = "1763200000000000." ID},
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Which templates.", list_fields, struct list_query);

static const struct kr_api_prop template_props[] = {
    {.name = "id", .type = KR_API_STRING, .help = "Unguessable, and for good.", .example = ID},
    {.name = "name", .type = KR_API_STRING, .help = "Its name, which also finds it.", .example = "science"},
    {.name = "description", .type = KR_API_STRING, .help = "What it is for.", .example = "numpy 2 and our data"},
    {.name = "shared", .type = KR_API_BOOL, .help = "Every user can begin a sandbox with it.", .example = "false"},
    {.name = "own", .type = KR_API_BOOL, .help = "It is the caller's, who alone can change it.", .example = "true"},
    {.name = "bytes", .type = KR_API_INT, .help = "What it held when it was saved.", .example = "1048576"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
};
static const struct kr_api_schema template_schema = KR_API_SCHEMA("Template",
    "A sandbox as it was saved: files, packages, settings.", template_props);
static const struct kr_api_prop list_props[] = {
    {.name = "templates", .type = KR_API_ARRAY, .of = &template_schema, .help = "Newest first."},
    {.name = "next", .type = KR_API_STRING, .nullable = true, .help = "`after` of the next page; null at the end.",
     .example = "1763200000000000." ID},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Templates", "A page of templates.", list_props);

static const struct kr_api_param template_params[] = {{"template_id", "The template's id, or its name.", "science"},
    {0}};
#define CONFLICT {409, "There is one of that name.", NULL, &kr_api_error_schema, \
    "{\"error\":{\"kind\":\"conflict\",\"message\":\"there is a template called science\",\"field\":\"name\"," \
    "\"request_id\":\"7f3a\"}}", NULL}
static const struct kr_api_response list_ok[] = {{200, "The page.", NULL, &list_schema, NULL, NULL}, {0}};
static const struct kr_api_response create_ok[] = {{201, "It is saved.", NULL, &template_schema, NULL, NULL}, CONFLICT,
    {0}};
static const struct kr_api_response read_ok[] = {{200, "The template.", NULL, &template_schema, NULL, NULL}, {0}};
static const struct kr_api_response change_ok[] = {{200, "The template as it is now.", NULL, &template_schema, NULL,
    NULL}, CONFLICT, {0}};
static const struct kr_api_response delete_ok[] = {{204, "It is gone.", NULL, NULL, NULL, NULL}, {0}};

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "templates", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_api_templates_list_doc = {DOC("list_templates", "List templates", KR_RIGHT_READ),
    .description = "One's own, and those that an administrator has shared.", .query = &list_table,
    .responses = list_ok};
const struct kr_api_doc kr_api_templates_create_doc = {DOC("save_template", "Save a sandbox as a template",
    KR_RIGHT_RUN),
    .description = "Keeps the sandbox's files, packages and settings as they are now; the sandbox goes on. "
                   "`POST /api/v1/sandboxes` with `template` makes sandboxes that begin with it.",
    .body = &save_table, .body_example = "{\"sandbox_id\":\"analysis\",\"name\":\"science\"}", .responses = create_ok};
const struct kr_api_doc kr_api_templates_read_doc = {DOC("read_template", "Read a template", KR_RIGHT_READ),
    .params = template_params, .responses = read_ok};
const struct kr_api_doc kr_api_templates_change_doc = {DOC("change_template", "Rename, describe or share a template",
    KR_RIGHT_RUN),
    .params = template_params, .body = &change_table, .body_example = "{\"description\":\"numpy 2\"}",
    .responses = change_ok};
const struct kr_api_doc kr_api_templates_delete_doc = {DOC("delete_template", "Delete a template", KR_RIGHT_RUN),
    .description = "Sandboxes that began with it stay as they are.", .params = template_params,
    .responses = delete_ok};
/* clang-format on */

/* ---- answers ---- */

static void reply_template(struct kr_http_ex *ex, int status, const struct kr_caller *who,
                           const struct kr_store_template *t)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_box_template_json(&j, who, t);
    kr_api_reply(ex, status, &buf);
}

/* A name that is taken is a conflict. */
static void fail_template(struct kr_http_ex *ex, const struct kr_err *err)
{
    struct kr_err why = *err;

    if (why.code == EEXIST)
        why.kind = KR_ERR_CONFLICT;
    kr_api_fail_named(ex, &why);
}

/* ---- save ---- */

/* A request that waits for the copy. */
struct save_wait {
    struct kr_http_ex *ex;
    struct kr_box_task *task;
    char user[KR_STORE_ID_ROOM];
};

static void on_template_saved(void *data, const struct kr_store_template *t, const struct kr_err *err)
{
    struct save_wait *w = data;
    const struct kr_caller who = {.user = w->user};

    if (t)
        reply_template(w->ex, 201, &who, t);
    else
        fail_template(w->ex, err);
    free(w);
}

static void on_saver_gone(void *data, struct kr_http_ex *ex)
{
    struct save_wait *w = data;

    (void)ex;
    kr_box_task_forget(w->task);
    free(w);
}

static void save_template(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    static const struct kr_http_calls calls = {.on_gone = on_saver_gone};
    const struct save_request *q = request;
    const struct kr_box_template t = {
        .sandbox = q->sandbox, .name = q->name, .description = q->description, .shared = q->shared};
    struct kr_api *api = app;
    struct kr_api_who who;
    struct save_wait *w;
    struct kr_err err;
    int r;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    w = calloc(1, sizeof *w);
    if (w) {
        w->ex = ex;
        snprintf(w->user, sizeof w->user, "%s", who.caller.user);
    }
    r = w ? kr_box_template_save(api->box, &who.caller, &t, on_template_saved, w, &w->task, &err)
          : kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "template");
    if (r < 0) {
        free(w);
        fail_template(ex, &err);
    } else {
        kr_http_defer(ex, &calls, w);
    }
}

void kr_api_templates_create(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &save_table, save_template);
}

/* ---- list, read ---- */

struct template_listing {
    const struct kr_caller *who;
    struct kr_json j;
};

static void on_template_row(void *data, const struct kr_store_template *t)
{
    struct template_listing *l = data;

    kr_box_template_json(&l->j, l->who, t);
}

void kr_api_templates_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_input struct kr_api_input in = {0};
    cleanup_buf struct kr_buf buf;
    struct kr_api_who who;
    struct template_listing l = {.who = &who.caller};
    struct kr_store_page page;
    struct list_query q;
    struct kr_err err;
    int r;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    if (!kr_api_caller(api, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    page = (struct kr_store_page){.after = q.after, .limit = (unsigned)q.limit};
    kr_api_page_begin(&l.j, &buf, "templates");
    r = kr_store_templates_list(api->store, who.caller.user, &page, on_template_row, &l, &err);
    if (r < 0) {
        kr_api_fail_field(ex, r == -EINVAL ? "after" : NULL, &err);
        return;
    }
    kr_api_page_end(&l.j, page.next);
    kr_api_reply(ex, 200, &buf);
}

static void reply_found(struct kr_api *api, struct kr_http_ex *ex, const struct kr_caller *who, const char *id)
{
    cleanup_template struct kr_store_template t = {0};
    struct kr_err err;

    if (kr_box_template_find(api->box, who, id, &t, &err) < 0)
        fail_template(ex, &err);
    else
        reply_template(ex, 200, who, &t);
}

void kr_api_templates_read(struct kr_http_ex *ex, void *app)
{
    struct kr_api_who who;

    if (kr_api_caller(app, ex, &who))
        reply_found(app, ex, &who.caller, kr_http_param(ex, "template_id"));
}

/* ---- change, delete ---- */

static void change_template(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct change_request *q = request;
    const char *id = kr_http_param(ex, "template_id");
    cleanup_template struct kr_store_template t = {0};
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    /* Found first, since a new name may be what finds it from then on. */
    if (kr_box_template_find(api->box, &who.caller, id, &t, &err) < 0 ||
        kr_box_template_change(api->box, &who.caller, t.id, q->name, q->description,
                               q->shared_given == KR_API_VALUE ? q->shared : -1, &err) < 0)
        fail_template(ex, &err);
    else
        reply_found(api, ex, &who.caller, t.id);
}

void kr_api_templates_change(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &change_table, change_template);
}

void kr_api_templates_delete(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_box_template_delete(api->box, &who.caller, kr_http_param(ex, "template_id"), &err) < 0)
        fail_template(ex, &err);
    else
        kr_api_reply_nothing(ex);
}
