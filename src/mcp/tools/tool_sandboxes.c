/* Our tools about sandboxes: create, list, reset, delete. Called through THE table of tools.
 *
 * Invariants: every id or name is looked up among the caller's own, another's is as unknown as one that never was;
 * values of `env` leave the server in no answer. */
#include "buf.h"
#include "err.h"
#include "json.h"
#include "mcp.h"
#include "api.h"
#include "sandbox_fields.h"
#include "tool_rows.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 500u /* sandboxes in one answer */

struct create_args {
    const char *name, *memory, *template;
    double timeout;
    uint8_t timeout_given;
    union kr_api_setting settings[KR_SANDBOX_SETTINGS_MAX];
};
struct which_args {
    const char *sandbox;
};

/* clang-format off */
static struct kr_api_field create_fields[4 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "name", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct create_args, name), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX),
     .help = "Unique among yours; else made up.", .example = "analysis"},
    {.name = "memory", .type = KR_API_STRING, KR_API_AT(struct create_args, memory), .nullable = true,
     KR_API_LENGTH(1, 32), .aliases = (const char *const[]){"memory_limit", NULL},
     .help = "Of each session, as 512M or 2G.", .example = "512M"},
    {.name = "timeout", .type = KR_API_NUMBER, KR_API_AT(struct create_args, timeout),
     KR_API_GIVEN(struct create_args, timeout_given), .nullable = true, KR_API_RANGE(0.1, 86400),
     .ceiling = KR_API_CEILING_TIMEOUT, .help = "Seconds of a run.", .example = "120"},
    {.name = "template", .type = KR_API_STRING, KR_API_AT(struct create_args, template), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "A saved sandbox to begin with.", .example = "science"},
};
static struct kr_api_table create_table = {.name = "CreateSandboxInput", .help = "What the sandbox is to be.",
    .fields = create_fields, .count = 4,
    .size = sizeof(struct create_args)};

static const struct kr_api_field which_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct which_args, sandbox),
     .required = true,
     KR_API_LENGTH(1, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name.", .example = "analysis"},
};
static const struct kr_api_table which_table = KR_API_TABLE("DeleteSandboxInput", "Which sandbox.", which_fields,
    struct which_args);
static const struct kr_api_field reset_fields[] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .tacit = true, KR_API_AT(struct which_args, sandbox),
     .nullable = true,
     KR_API_LENGTH(0, 64), .aliases = (const char *const[]){"sandbox", NULL},
     .help = "Id or name; else `default`.", .example = "default"},
};
static const struct kr_api_table reset_table = KR_API_TABLE("ResetSandboxInput", "Which sandbox.", reset_fields,
    struct which_args);

static struct kr_api_prop sandbox_props[6 + KR_SANDBOX_SETTINGS_MAX] = {
    {.name = "sandbox_id", .type = KR_API_STRING, .help = "Unguessable, and for good.",
     .example = "01hv5k8m2nq7r9t3w6x8y0z2a4"},
    {.name = "name", .type = KR_API_STRING, .help = "Its name, which also finds it.", .example = "analysis"},
    {.name = "state", .type = KR_API_STRING, .help = "Always `active`.", .example = "active"},
    {.name = "created_at", .type = KR_API_NUMBER, .help = "Unix time.", .example = "1763200000.1"},
    {.name = "last_used_at", .type = KR_API_NUMBER, .help = "Unix time; 0: never.", .example = "1763200042"},
    {.name = "sessions", .type = KR_API_INT, .help = "Live ones.", .example = "1"},
};
static struct kr_api_schema sandbox_schema = {.name = "SandboxOutput", .help = "A sandbox.", .props = sandbox_props,
    .count = 6};
static const struct kr_api_prop list_props[] = {
    {.name = "sandboxes", .type = KR_API_ARRAY, .of = &sandbox_schema, .help = "Newest first."},
    {.name = "more", .type = KR_API_BOOL, .help = "There are others.", .example = "false"},
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("ListSandboxesOutput", "Your sandboxes.", list_props);
/* clang-format on */

__attribute__((constructor)) static void derive_tool_tables(void)
{
    kr_api_settings_fields(create_fields, &create_table.count, offsetof(struct create_args, settings),
                           KR_API_SETTINGS_TOOL);
    kr_api_settings_props(sandbox_props, &sandbox_schema.count);
}

/* ---- telling ---- */

/* A sandbox as the domain writes it, with the name that other tools take and without what was set; NULL: no memory. */
static json_t *sandbox_value(struct kr_box *box, const struct kr_sandbox *s)
{
    cleanup_buf struct kr_buf buf = {0};
    struct kr_json j;
    json_t *value, *made;

    kr_buf_init(&buf, 1u << 20);
    kr_json_init(&j, &buf);
    kr_box_sandbox_json(box, &j, s);
    value = kr_json_done(&j) < 0 ? NULL : json_loadb(buf.data, buf.len, 0, NULL);
    made = value ? json_pack("{s:O}", "sandbox_id", json_object_get(value, "id")) : NULL;
    if (made) {
        json_object_del(value, "id");
        json_object_del(value, "settings");
        json_object_update(made, value);
    }
    json_decref(value);
    return made;
}

static void tell_sandbox(struct kr_mcp_call *c, const char *what, const struct kr_sandbox *s)
{
    json_t *value = sandbox_value(kr_mcp_api(c)->box, s);
    struct kr_mcp_result r;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    if (what)
        kr_mcp_add_textf(&r, "%s", what);
    kr_mcp_add_json(&r, value, 0);
    r.structured = value;
    kr_mcp_tool_done(c, &r);
}

/* ---- create ---- */

/* `memory` and `timeout` are limits with arguments of their own. 0, or -errno with err: given twice, or no memory. */
static int add_limit(json_t *settings, const char *name, json_t *value, struct kr_err *err)
{
    json_t *limits = json_object_get(settings, "limits");
    int r;

    if (json_object_get(limits, name)) {
        json_decref(value);
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "%s: given twice, here and in limits", name);
    }
    limits = limits ? json_copy(limits) : json_object(); /* the client's own object is never changed */
    r = json_object_set_new(limits, name, value) | json_object_set_new(settings, "limits", limits);
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "limits") : 0;
}

static int settings_of(const struct create_args *a, json_t **ret, struct kr_err *err)
{
    json_t *settings = kr_api_settings_of_args(a->settings);
    int r = settings ? 0 : kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "settings");

    if (r >= 0 && a->memory)
        r = add_limit(settings, "memory", json_string(a->memory), err);
    if (r >= 0 && a->timeout_given == KR_API_VALUE)
        r = add_limit(settings, "timeout", json_real(ceil(a->timeout * 1000) / 1000), err);
    if (r < 0)
        json_decref(settings);
    else
        *ret = settings;
    return r;
}

/* A limit that came as an argument of its own is named as that. */
static void name_argument(const struct create_args *a, struct kr_err *err)
{
    if ((a->memory && strncmp(err->msg, "limits.memory:", 14) == 0) ||
        (a->timeout_given == KR_API_VALUE && strncmp(err->msg, "limits.timeout:", 15) == 0))
        memmove(err->msg, err->msg + 7, strlen(err->msg + 7) + 1);
}

/* A call that waits for the copy of a template. */
struct create_wait {
    struct kr_mcp_call *call;
    struct kr_box_task *task;
};

static void on_sandbox_made(void *data, const struct kr_sandbox *s, const struct kr_err *err)
{
    struct create_wait *w = data;

    if (s)
        tell_sandbox(w->call, NULL, s);
    else
        kr_mcp_tool_fail(w->call, err);
    free(w);
}

static void on_create_cancelled(void *data, struct kr_mcp_call *c)
{
    struct create_wait *w = data;

    (void)c;
    kr_box_task_forget(w->task);
    free(w);
}

static int create_from(struct kr_mcp_call *c, const struct create_args *a, const json_t *settings, struct kr_err *err)
{
    struct create_wait *w = calloc(1, sizeof *w);
    int r;

    if (!w)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "sandbox");
    w->call = c;
    r = kr_box_sandbox_create_from(kr_mcp_api(c)->box, kr_mcp_caller(c), a->template, a->name, settings,
                                   on_sandbox_made, w, &w->task, err);
    if (r < 0)
        free(w);
    else
        kr_mcp_on_cancel(c, on_create_cancelled, w);
    return r;
}

static void run_create_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct create_args *a = args;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    json_t *settings = NULL;
    struct kr_err err;
    int r = settings_of(a, &settings, &err);

    if (r >= 0)
        r = a->template ? create_from(c, a, settings, &err)
                        : kr_box_sandbox_create(kr_mcp_api(c)->box, kr_mcp_caller(c), a->name, settings, &s, &err);
    json_decref(settings);
    if (r < 0) {
        name_argument(a, &err);
        kr_mcp_tool_fail(c, &err);
    } else if (!a->template) {
        tell_sandbox(c, NULL, &s);
    }
}

/* ---- list ---- */

struct listing {
    struct kr_mcp_call *call;
    json_t *list;
};

static void on_sandbox_row(void *data, const struct kr_store_sandbox *row)
{
    struct listing *l = data;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box *box = kr_mcp_api(l->call)->box;

    if (kr_box_sandbox_find(box, kr_mcp_caller(l->call), row->id, &s, NULL) == 0)
        json_array_append_new(l->list, sandbox_value(box, &s));
}

static void run_list_sandboxes(struct kr_mcp_call *c, const void *args)
{
    cleanup_box_sandbox struct kr_sandbox first = {0};
    struct listing l = {.call = c, .list = json_array()};
    struct kr_store_page page = {.limit = LIST_MAX};
    struct kr_api *api = kr_mcp_api(c);
    struct kr_mcp_result r;
    struct kr_err err;
    int e;

    (void)args;
    e = kr_box_sandbox_find(api->box, kr_mcp_caller(c), NULL, &first, &err); /* every user has a default */
    if (e >= 0)
        e = kr_store_sandboxes_list(api->store, kr_mcp_caller(c)->user, &page, on_sandbox_row, &l, &err);
    if (e < 0) {
        json_decref(l.list);
        kr_mcp_tool_fail(c, &err);
        return;
    }
    kr_mcp_result_init(&r);
    r.structured = json_pack("{s:o, s:b}", "sandboxes", l.list, "more", page.next[0] != '\0');
    kr_mcp_add_json(&r, r.structured, 0);
    kr_mcp_tool_done(c, &r);
}

/* ---- reset, delete ---- */

static void run_reset_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct which_args *a = args;
    cleanup_box_sandbox struct kr_sandbox s = {0}, now = {0};
    struct kr_box *box = kr_mcp_api(c)->box;
    struct kr_err err;

    if (kr_box_sandbox_find(box, kr_mcp_caller(c), a->sandbox, &s, &err) < 0 ||
        kr_box_sandbox_reset(box, kr_mcp_caller(c), s.row.id, &err) < 0 ||
        kr_box_sandbox_find(box, kr_mcp_caller(c), s.row.id, &now, &err) < 0)
        kr_mcp_tool_fail(c, &err);
    else
        tell_sandbox(c, "The sandbox is empty: its sessions are ended and its files are gone. Name and settings stay.",
                     &now);
}

static void run_delete_sandbox(struct kr_mcp_call *c, const void *args)
{
    const struct which_args *a = args;
    cleanup_box_sandbox struct kr_sandbox s = {0};
    struct kr_box *box = kr_mcp_api(c)->box;
    struct kr_mcp_result r;
    struct kr_err err;

    if (kr_box_sandbox_find(box, kr_mcp_caller(c), a->sandbox, &s, &err) < 0) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    if (kr_store_is_default(s.row.name)) {
        kr_mcp_tool_refuse(c, "The sandbox called %s stays; reset_sandbox empties it.", s.row.name);
        return;
    }
    if (kr_box_sandbox_delete(box, kr_mcp_caller(c), s.row.id, &err) < 0) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_textf(&r, "Sandbox %s is gone, with its files and its sessions.", s.row.name);
    kr_mcp_tool_done(c, &r);
}

/* ---- rows ---- */

const struct kr_mcp_tool kr_tool_create_sandbox = {
    .name = "create_sandbox",
    .title = "Create a sandbox",
    .description =
        "Makes a sandbox with files, limits and sessions of its own, until it is deleted; ordinary work needs "
        "none but `default`. Answers with its sandbox_id.",
    .dialects = KR_IN_KRAIT,
    .needs = KR_RIGHT_RUN,
    .input = &create_table,
    .output = &sandbox_schema,
    .run = run_create_sandbox,
};
const struct kr_mcp_tool kr_tool_list_sandboxes = {
    .name = "list_sandboxes",
    .title = "List sandboxes",
    .description = "Lists your sandboxes.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .output = &list_schema,
    .run = run_list_sandboxes,
};
const struct kr_mcp_tool kr_tool_reset_sandbox = {
    .name = "reset_sandbox",
    .title = "Empty a sandbox",
    .description = "Ends a sandbox's sessions and deletes all its files, for good; its settings stay. To lose only "
                   "variables: terminate_session.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &reset_table,
    .output = &sandbox_schema,
    .run = run_reset_sandbox,
};
const struct kr_mcp_tool kr_tool_delete_sandbox = {
    .name = "delete_sandbox",
    .title = "Delete a sandbox",
    .description = "Deletes a sandbox with its files and sessions, for good; never `default`.",
    .dialects = KR_IN_KRAIT,
    .flags = KR_TOOL_DESTRUCTIVE | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_RUN,
    .input = &which_table,
    .run = run_delete_sandbox,
};
