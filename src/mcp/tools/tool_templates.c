/* Tools about templates: save, list, delete. They can be called and are not listed: a list of tools is read by a model
 * at every turn, and templates are made once in a while. Called through THE table of tools.
 *
 * Invariant: a template is looked up among the caller's own and those that are shared; only its owner deletes it. */
#include "api.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "mcp.h"
#include "tool_rows.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TEMPLATES_MAX 500u /* in one answer */

struct save_args {
    const char *sandbox, *name, *description;
};
struct which_args {
    const char *template;
};

/* clang-format off */
static const struct kr_api_field save_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, KR_API_AT(struct save_args, sandbox), .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL}, .help = "Id or name; else `default`.",
     .example = "default"},
    {.name = "name", .type = KR_API_STRING, KR_API_AT(struct save_args, name), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "Unique among yours; else made up.", .example = "science"},
    {.name = "description", .type = KR_API_STRING, KR_API_AT(struct save_args, description), .nullable = true,
     KR_API_LENGTH(0, KR_STORE_DESCRIPTION_MAX), .help = "What it is for.", .example = "numpy 2 and our data"},
};
static const struct kr_api_table save_table = KR_API_TABLE("SaveTemplateInput", "Which sandbox, and a name.",
    save_fields, struct save_args);
static const struct kr_api_field which_fields[] = {
    {.name = "template", .type = KR_API_STRING, KR_API_AT(struct which_args, template), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .aliases = (const char *const[]){"template_id", "name", NULL},
     .help = "Id or name.", .example = "science"},
};
static const struct kr_api_table which_table = KR_API_TABLE("DeleteTemplateInput", "Which template.", which_fields,
    struct which_args);

static const struct kr_api_prop template_props[] = {
    {.name = "id", .type = KR_API_STRING, .help = "Unguessable, and for good.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "name", .type = KR_API_STRING, .help = "Its name, which also finds it.", .example = "science"},
    {.name = "description", .type = KR_API_STRING, .help = "What it is for.", .example = "numpy 2 and our data"},
    {.name = "shared", .type = KR_API_BOOL, .help = "Every user can begin a sandbox with it.", .example = "false"},
    {.name = "own", .type = KR_API_BOOL, .help = "It is yours.", .example = "true"},
    {.name = "bytes", .type = KR_API_INT, .help = "What it held when it was saved.", .example = "1048576"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
};
static const struct kr_api_schema template_schema = KR_API_SCHEMA("TemplateOutput", "A saved sandbox.",
    template_props);
static const struct kr_api_prop list_props[] = {
    {.name = "templates", .type = KR_API_ARRAY, .of = &template_schema, .help = "Newest first."},
    {.name = "more", .type = KR_API_BOOL, .help = "There are others.", .example = "false"},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("ListTemplatesOutput",
    "Yours, and those that are shared.", list_props);
/* clang-format on */

/* NULL: no memory. */
static json_t *template_value(const struct kr_caller *who, const struct kr_store_template *t)
{
    cleanup_buf struct kr_buf buf = {0};
    struct kr_json j;

    kr_buf_init(&buf, 1u << 16);
    kr_json_init(&j, &buf);
    kr_box_template_json(&j, who, t);
    return kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
}

static void tell_value(struct kr_mcp_call *c, json_t *value)
{
    struct kr_mcp_result r;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, value, 0);
    r.structured = value;
    kr_mcp_tool_done(c, &r);
}

/* ---- save ---- */

/* A call that waits for the copy. */
struct save_wait {
    struct kr_mcp_call *call;
    struct kr_box_task *task;
};

static void on_template_saved(void *data, const struct kr_store_template *t, const struct kr_err *err)
{
    struct save_wait *w = data;

    if (t)
        tell_value(w->call, template_value(kr_mcp_caller(w->call), t));
    else
        kr_mcp_tool_fail(w->call, err);
    free(w);
}

static void on_save_cancelled(void *data, struct kr_mcp_call *c)
{
    struct save_wait *w = data;

    (void)c;
    kr_box_task_forget(w->task);
    free(w);
}

static void run_save_template(struct kr_mcp_call *c, const void *args)
{
    const struct save_args *a = args;
    const struct kr_box_template t = {.sandbox = a->sandbox, .name = a->name, .description = a->description};
    struct save_wait *w = calloc(1, sizeof *w);
    struct kr_err err;
    int r = w ? 0 : kr_err_set(&err, KR_ERR_SYSTEM, ENOMEM, "template");

    if (w) {
        w->call = c;
        r = kr_box_template_save(kr_mcp_api(c)->box, kr_mcp_caller(c), &t, on_template_saved, w, &w->task, &err);
    }
    if (r < 0) {
        free(w);
        kr_mcp_tool_fail(c, &err);
    } else {
        kr_mcp_on_cancel(c, on_save_cancelled, w);
    }
}

/* ---- list, delete ---- */

struct template_listing {
    const struct kr_caller *who;
    json_t *list;
};

static void on_template_row(void *data, const struct kr_store_template *t)
{
    struct template_listing *l = data;

    json_array_append_new(l->list, template_value(l->who, t));
}

static void run_list_templates(struct kr_mcp_call *c, const void *args)
{
    struct template_listing l = {.who = kr_mcp_caller(c), .list = json_array()};
    struct kr_store_page page = {.limit = TEMPLATES_MAX};
    struct kr_err err;

    (void)args;
    if (kr_store_templates_list(kr_mcp_api(c)->store, l.who->user, &page, on_template_row, &l, &err) < 0) {
        json_decref(l.list);
        kr_mcp_tool_fail(c, &err);
        return;
    }
    tell_value(c, json_pack("{s:o, s:b}", "templates", l.list, "more", page.next[0] != '\0'));
}

static void run_delete_template(struct kr_mcp_call *c, const void *args)
{
    const struct which_args *a = args;
    struct kr_mcp_result r;
    struct kr_err err;

    if (kr_box_template_delete(kr_mcp_api(c)->box, kr_mcp_caller(c), a->template, &err) < 0) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_textf(&r, "Template %s is gone; sandboxes that began with it stay.", a->template);
    kr_mcp_tool_done(c, &r);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_save_template = {
    .name = "save_template",
    .title = "Save a sandbox as a template",
    .description =
        "Keeps a sandbox's files, packages and settings as they are now, for create_sandbox with `template`.",
    .dialects = KR_UNLISTED,
    .needs = KR_RIGHT_RUN,
    .input = &save_table,
    .output = &template_schema,
    .run = run_save_template,
};
const struct kr_mcp_tool kr_tool_list_templates = {
    .name = "list_templates",
    .title = "List templates",
    .description = "Lists your templates and those that are shared, newest first.",
    .dialects = KR_UNLISTED,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .output = &list_schema,
    .run = run_list_templates,
};
const struct kr_mcp_tool kr_tool_delete_template = {
    .name = "delete_template",
    .title = "Delete a template",
    .description = "Deletes a template of yours; sandboxes that began with it stay.",
    .dialects = KR_UNLISTED,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &which_table,
    .run = run_delete_template,
};
