/* completion/complete: what an argument of a prompt or of a resource template may be. Called through the table of
 * methods.
 *
 * Ids and paths are the caller's own. Invariants: at most VALUES_MAX values; an unknown prompt, template or argument
 * has no values and is no error. Paths are looked for on the thread pool, in one folder. */
#include "buf.h"
#include "clock.h"
#include "mcp_fileop.h"
#include "rpc_method.h"
#include "prompt.h"
#include "resource.h"
#include "store_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 100u
#define LIST_MS 1000u

struct answer {
    const char *prefix;
    json_t *values;
    size_t total;
};

static void offer(struct answer *a, const char *value)
{
    if (strncmp(value, a->prefix, strlen(a->prefix)) != 0)
        return;
    if (a->total++ < VALUES_MAX)
        json_array_append_new(a->values, json_string(value));
}

static void reply_completion(struct kr_mcp_call *c, struct answer *a)
{
    kr_mcp_reply(c, json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", a->values, "total", (json_int_t)a->total,
                              "hasMore", a->total > VALUES_MAX));
}

/* ---- prompts ---- */

static void complete_prompt(struct kr_mcp_call *c, struct answer *a, const char *name, const char *argument)
{
    const struct kr_mcp_prompt *p;

    for (size_t i = 0; name && (p = kr_mcp_prompt_at(i)); i++) {
        if (strcmp(p->name, name) != 0)
            continue;
        for (const struct kr_mcp_prompt_arg *arg = p->args; arg && arg->name; arg++)
            for (size_t n = 0; strcmp(arg->name, argument) == 0 && arg->choices && arg->choices[n]; n++)
                offer(a, arg->choices[n]);
    }
    reply_completion(c, a);
}

/* ---- ids ---- */

static void on_sandbox_id(void *data, const struct kr_store_sandbox *s)
{
    offer(data, s->id);
    offer(data, s->name);
}

static void on_session_id(void *data, const struct kr_box_session_info *s)
{
    offer(data, s->name);
}

static void on_run_id(void *data, const struct kr_store_run *run)
{
    offer(data, run->id);
}

static void complete_ids(struct kr_mcp_call *c, struct answer *a, const char *argument)
{
    const char *user = kr_mcp_caller(c)->user;
    struct kr_api *api = kr_mcp_api(c);
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    struct kr_store_run_filter any = {0};
    struct kr_err ignored; /* what cannot be looked up is not offered */

    if (strcmp(argument, "sandbox") == 0)
        kr_store_sandboxes_list(api->store, user, &page, on_sandbox_id, a, &ignored);
    else if (strcmp(argument, "session_id") == 0)
        kr_box_sessions(api->box, kr_mcp_caller(c), NULL, on_session_id, a);
    else if (strcmp(argument, "run_id") == 0)
        kr_store_runs_list(api->store, user, &any, &page, on_run_id, a, &ignored);
    reply_completion(c, a);
}

/* ---- paths ---- */

struct looking {
    struct kr_fileop op;
    struct kr_files_list list;
    bool listed;
    char prefix[KR_FILES_PATH_MAX];
};

static void list_paths(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;
    struct kr_files_list_spec spec = {.limit = 10000, .deadline_ns = kr_clock_after_ms(LIST_MS)};

    l->listed = kr_files_list(op->ws, op->path, &spec, &l->list, &op->err) >= 0;
}

static void free_listing(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;

    if (l->listed)
        kr_files_list_done(&l->list);
}

static void on_paths_listed(struct kr_fileop *op)
{
    struct looking *l = (struct looking *)op;
    struct answer a = {.prefix = l->prefix, .values = json_array()};
    struct kr_mcp_call *c = kr_mcp_fileop_take(op);

    for (size_t i = 0; l->listed && i < l->list.count; i++)
        offer(&a, l->list.entries[i].path);
    reply_completion(c, &a);
    kr_fileop_end(op);
}

/* The folder that the text so far is in. */
static void complete_path(struct kr_mcp_call *c, struct answer *a, const char *sandbox)
{
    static const struct kr_fileop_kind kind = {.size = sizeof(struct looking), .done = free_listing};
    char folder[KR_FILES_PATH_MAX];
    const char *slash = strrchr(a->prefix, '/');
    struct kr_err err;
    struct looking *l;

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - a->prefix) : 0, a->prefix);
    l = strlen(a->prefix) < sizeof folder ? kr_mcp_fileop_new(c, &kind, &err) : NULL;
    if (!l) {
        reply_completion(c, a);
        return;
    }
    snprintf(l->prefix, sizeof l->prefix, "%s", a->prefix);
    if (kr_mcp_fileop_place(&l->op, sandbox, folder, false) < 0) {
        reply_completion(kr_mcp_fileop_take(&l->op), a);
        kr_fileop_end(&l->op);
        return;
    }
    json_decref(a->values);
    kr_fileop_run(&l->op, list_paths, on_paths_listed);
}

/* ---- the method ---- */

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static void complete_template(struct kr_mcp_call *c, struct answer *a, const char *template, const char *argument)
{
    const json_t *context = json_object_get(json_object_get(kr_mcp_params(c), "context"), "arguments");
    const struct kr_mcp_resource *r;

    for (size_t i = 0; (r = kr_mcp_resource_at(i)); i++)
        if (r->is_template && !r->read && strcmp(r->uri, template) == 0) {
            if (strcmp(argument, "path") == 0 && strstr(template, "{+path}"))
                complete_path(c, a, text_of(context, "sandbox"));
            else
                complete_ids(c, a, strstr(template, argument) ? argument : "");
            return;
        }
    reply_completion(c, a);
}

void kr_mcp_complete(struct kr_mcp_call *c)
{
    const json_t *ref = json_object_get(kr_mcp_params(c), "ref");
    const json_t *given = json_object_get(kr_mcp_params(c), "argument");
    const char *type = text_of(ref, "type"), *argument = text_of(given, "name"), *value = text_of(given, "value");
    struct answer a = {.prefix = value};

    if (!type || !argument || !value) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "ref.type, argument.name and argument.value must be texts");
        return;
    }
    if (strcmp(type, "ref/prompt") != 0 && strcmp(type, "ref/resource") != 0) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "ref.type: must be ref/prompt or ref/resource");
        return;
    }
    a.values = json_array();
    if (strcmp(type, "ref/prompt") == 0)
        complete_prompt(c, &a, text_of(ref, "name"), argument);
    else if (text_of(ref, "uri") && kr_mcp_caller(c)->rights & KR_RIGHT_READ)
        complete_template(c, &a, text_of(ref, "uri"), argument);
    else
        reply_completion(c, &a);
}
