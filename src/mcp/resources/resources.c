/* resources/list, resources/templates/list, resources/read: the rows, and who answers. Called through the table of
 * methods.
 *
 * Resources are the guide, the caller's connections to the outside, the files of the caller's sandboxes, the caller's
 * sessions and runs. Invariants: a caller sees no address of another user's; an address that is not there is an error
 * with data.uri, never an empty answer; lists are one page. */
#include "resource.h"
#include "additions.h"
#include "buf.h"
#include "guide.h"
#include "mcp_internal.h"
#include "store_run.h"
#include <stdio.h>
#include <string.h>

static void read_guide(struct kr_mcp_call *c, const char *uri)
{
    kr_mcp_contents(c, uri, "text/markdown", kr_mcp_guide, strlen(kr_mcp_guide), false);
}

const struct kr_mcp_resource kr_mcp_resources[] = {
    {.uri = KR_MCP_GUIDE_URI,
     .name = "guide",
     .title = "How to use krait",
     .description = "What the tools do, what stays from call to call, and what to do when something fails.",
     .mime = "text/markdown",
     .read = read_guide},
    {.uri = "krait://connections",
     .name = "connections",
     .title = "Connections to the outside",
     .description = "What your sandboxes connected to and what they were refused, the last 100, as JSON.",
     .mime = "application/json",
     .read = kr_mcp_read_connections},
    {.uri = "sandbox://{sandbox}/{+path}",
     .name = "file",
     .title = "A file of a sandbox",
     .description = "sandbox: id or name; path: from the workspace. A folder reads as its list.",
     .is_template = true},
    {.uri = "session://{session_id}",
     .name = "session",
     .title = "A live session",
     .description = "What it is doing, since when, within which limits, as JSON.",
     .mime = "application/json",
     .is_template = true},
    {.uri = "run://{run_id}",
     .name = "run",
     .title = "A run",
     .description = "What it wrote, its result, and how it ended, as JSON.",
     .mime = "application/json",
     .is_template = true},
};
const size_t kr_mcp_resources_count = sizeof kr_mcp_resources / sizeof kr_mcp_resources[0];

const struct kr_mcp_resource *kr_mcp_resource_at(size_t i)
{
    if (i < kr_mcp_resources_count)
        return &kr_mcp_resources[i];
    i -= kr_mcp_resources_count;
    return i < kr_mcp_additions.resource_count ? &kr_mcp_additions.resources[i] : NULL;
}

/* ---- answers ---- */

void kr_mcp_contents(struct kr_mcp_call *c, const char *uri, const char *mime, const char *text, size_t len, bool blob)
{
    json_t *value = json_stringn(text, len), *item;

    if (!value) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "the resource cannot be sent as text");
        return;
    }
    item = json_pack("{s:s, s:s*, s:o}", "uri", uri, "mimeType", mime, blob ? "blob" : "text", value);
    kr_mcp_reply(c, json_pack("{s:[o]}", "contents", item));
}

void kr_mcp_no_resource(struct kr_mcp_call *c, const char *uri)
{
    int code = kr_mcp_revs[kr_mcp_call_rev(c)].not_found;

    kr_mcp_fail(c, code, json_pack("{s:s}", "uri", uri), "Resource not found: %.500s", uri);
}

json_t *kr_mcp_resource_item(const struct kr_mcp_call *c, const struct kr_mcp_resource *r)
{
    bool titles = kr_mcp_revs[kr_mcp_call_rev(c)].titles;

    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", r->is_template ? "uriTemplate" : "uri", r->uri, "name", r->name,
                     "title", titles ? r->title : NULL, "description", r->description, "mimeType", r->mime);
}

/* ---- methods ---- */

/* False: answered. */
static bool may_read(struct kr_mcp_call *c)
{
    if (kr_mcp_caller(c)->rights & KR_RIGHT_READ)
        return true;
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "the key has not the right to read");
    return false;
}

/* There are no pages: a cursor is none of ours. False: answered. */
static bool first_page(struct kr_mcp_call *c)
{
    const json_t *cursor = json_object_get(kr_mcp_params(c), "cursor");

    if (!cursor || json_is_null(cursor))
        return may_read(c);
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "that cursor is none of ours: the list is one page");
    return false;
}

static json_t *rows(struct kr_mcp_call *c, bool templates)
{
    json_t *list = json_array();
    const struct kr_mcp_resource *r;

    for (size_t i = 0; (r = kr_mcp_resource_at(i)); i++)
        if (r->is_template == templates)
            json_array_append_new(list, kr_mcp_resource_item(c, r));
    return list;
}

void kr_mcp_resources_list(struct kr_mcp_call *c)
{
    if (first_page(c))
        kr_mcp_resource_list(c, rows(c, false));
}

void kr_mcp_templates_list(struct kr_mcp_call *c)
{
    if (first_page(c))
        kr_mcp_reply(c, json_pack("{s:o}", "resourceTemplates", rows(c, true)));
}

static const struct kr_mcp_resource *row_of(const char *uri)
{
    const struct kr_mcp_resource *r;

    for (size_t i = 0; (r = kr_mcp_resource_at(i)); i++)
        if (r->read && (r->is_template ? r->matches && r->matches(uri) : strcmp(r->uri, uri) == 0))
            return r;
    return NULL;
}

void kr_mcp_resources_read(struct kr_mcp_call *c)
{
    const json_t *given = json_object_get(kr_mcp_params(c), "uri");
    const char *text = json_string_value(given);
    const struct kr_mcp_resource *row;
    struct kr_mcp_uri uri;

    if (!may_read(c))
        return;
    if (!text || strlen(text) != json_string_length(given)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "uri: must be a text without NUL");
        return;
    }
    row = row_of(text);
    if (row)
        row->read(c, text);
    else if (kr_mcp_uri_parse(text, &uri) < 0)
        kr_mcp_no_resource(c, text);
    else
        kr_mcp_resource_read(c, text, &uri);
}

/* ---- what changes ---- */

static bool has_subscribers(const struct kr_mcp *m)
{
    const struct kr_mcp_peer *p;

    if (!TAILQ_EMPTY(&m->listens))
        return true;
    TAILQ_FOREACH(p, &m->peers, entry)
    if (json_object_size(p->subscriptions) > 0)
        return true;
    return false;
}

/* A client may have subscribed by the sandbox's id or by its name. */
void kr_mcp_file_changed(struct kr_mcp *m, const char *user, const char *sandbox, const char *name, const char *path)
{
    const char *const ids[] = {sandbox, name};

    if (!has_subscribers(m))
        return;
    for (size_t i = 0; i < 2; i++) {
        cleanup_buf struct kr_buf uri = {0};

        kr_buf_init(&uri, KR_MCP_URI_MAX);
        if (kr_mcp_uri_file(&uri, ids[i], path) == 0)
            kr_mcp_resource_updated(m, user, kr_buf_str(&uri));
    }
}

static void tell_files(struct kr_mcp *m, struct kr_api *api, const struct kr_store_run *row)
{
    json_t *files = row->files ? json_loadb(row->files, row->files_len, 0, NULL) : NULL, *file;
    cleanup_sandbox struct kr_store_sandbox s = {0};
    struct kr_err err;
    size_t i;

    if (json_array_size(files) > 0 && kr_store_sandbox_get(api->store, row->owner, row->sandbox, &s, &err) == 0)
        json_array_foreach(files, i, file)
        {
            const char *path = json_string_value(json_object_get(file, "path"));

            if (path)
                kr_mcp_file_changed(m, row->owner, s.id, s.name, path);
        }
    json_decref(files);
}

void kr_mcp_run_ended(struct kr_mcp *m, struct kr_api *api, const struct kr_box_run *run)
{
    cleanup_store_run struct kr_store_run row = {0};
    cleanup_buf struct kr_buf uri = {0};
    struct kr_err err;
    const char *files = kr_box_run_files(run);
    char text[64];

    if (files && (strstr(files, "\"change\":\"created\"") || strstr(files, "\"change\":\"deleted\"")))
        kr_mcp_files_moved(m, kr_box_run_user(run)); /* a quote in a file's name is escaped */
    if (!has_subscribers(m) || kr_store_run_get(api->store, kr_box_run_user(run), kr_box_run_id(run), &row, &err) < 0)
        return;
    if (row.sandbox[0])
        tell_files(m, api, &row);
    snprintf(text, sizeof text, "run://%s", row.id);
    kr_mcp_resource_updated(m, row.owner, text);
    kr_buf_init(&uri, KR_MCP_URI_MAX);
    if (row.session[0] && kr_mcp_uri_session(&uri, row.session) == 0)
        kr_mcp_resource_updated(m, row.owner, kr_buf_str(&uri));
}
