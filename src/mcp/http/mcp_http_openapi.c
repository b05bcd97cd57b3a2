/* The tools as rows of OpenAPI: a path for each that the server's own dialect lists. Called by src/api/pages/pages.c
 * through kr_api.openapi_more. The rows are documentation only: POST /api/v1/tools/{name} serves them all.
 *
 * Invariant: a row's schema is that of tools/list, but for the most of `timeout`, which is here only where more is
 * refused: that a run has the most when it asks for more is advice to models. */
#include "mcp_http_tools.h"
#include "mcp_internal.h"
#include "tool.h"
#include "tool_schema.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN 2u /* rows that are no tool: the list, and a call by name */

struct row {
    struct kr_api_doc doc;
    char id[KR_API_NAME_MAX + 8], pattern[sizeof KR_MCP_TOOLS_PATH + KR_API_NAME_MAX + 2];
    char *schema, *description;
};

struct kr_mcp_openapi {
    struct kr_http_route *routes;
    struct row *rows;
    size_t count; /* of routes; rows: OWN fewer */
};

static bool is_taken(const char *id)
{
    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_api_doc *doc = kr_api_routes[i].doc;

        if (strcmp(doc->id, id) == 0)
            return true;
    }
    return strcmp(kr_mcp_tools_doc.id, id) == 0 || strcmp(kr_mcp_tool_doc.id, id) == 0;
}

static bool has_required(const struct kr_api_table *t)
{
    for (size_t i = 0; t && i < t->count; i++)
        if (t->fields[i].required)
            return true;
    return false;
}

/* Other servers' descriptions need not be sentences. */
static char *sentence(const char *text)
{
    size_t len = strlen(text);
    char *copy = malloc(len + 2);

    while (len && strchr(" \n", text[len - 1]))
        len--;
    if (copy)
        sprintf(copy, "%.*s%s", (int)len, text, len && text[len - 1] == '.' ? "" : ".");
    return copy;
}

static bool has_ceiling(const struct kr_api_table *t)
{
    for (size_t i = 0; t && i < t->count; i++)
        if (t->fields[i].ceiling == KR_API_CEILING_TIMEOUT)
            return true;
    return false;
}

static bool fill_row(struct row *row, const struct kr_mcp_tool *tool, uint64_t timeout_ms)
{
    json_t *schema = kr_mcp_input_schema(tool->input, (tool->dialects & KR_IN_KRAIT) != 0);

    if (has_ceiling(tool->input))
        kr_mcp_bound_timeout(schema, timeout_ms);
    row->schema = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    row->description = sentence(tool->description);
    json_decref(schema);
    snprintf(row->id, sizeof row->id, "%s%s", is_taken(tool->name) ? "tool_" : "", tool->name);
    snprintf(row->pattern, sizeof row->pattern, KR_MCP_TOOLS_PATH "/%s", tool->name);
    row->doc = (struct kr_api_doc){.id = row->id,
                                   .tag = "tools",
                                   .summary = tool->title ? tool->title : tool->name,
                                   .description = row->description,
                                   .voice = KR_API_KRAIT,
                                   .needs = tool->needs,
                                   .body_schema = row->schema,
                                   .body_required = has_required(tool->input),
                                   .responses = kr_mcp_tool_ok};
    return row->schema && row->description;
}

void kr_mcp_openapi_free(struct kr_mcp_openapi *o)
{
    if (!o)
        return;
    for (size_t i = 0; o->rows && i + OWN < o->count; i++) {
        free(o->rows[i].schema);
        free(o->rows[i].description);
    }
    free(o->rows);
    free(o->routes);
    free(o);
}

static struct kr_mcp_openapi *openapi_new(const struct kr_mcp *m, uint64_t timeout_ms)
{
    struct kr_mcp_openapi *o = calloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->routes = calloc(kr_mcp_tools_count + OWN, sizeof *o->routes);
    o->rows = calloc(kr_mcp_tools_count, sizeof *o->rows);
    o->count = OWN;
    if (!o->routes || !o->rows)
        goto out;
    o->routes[0] = (struct kr_http_route){KR_HTTP_GET, KR_MCP_TOOLS_PATH, 0, 0, kr_mcp_http_tools, &kr_mcp_tools_doc};
    o->routes[1] = (struct kr_http_route){
        KR_HTTP_POST, KR_MCP_TOOLS_PATH "/{name}", KR_MCP_MESSAGE_MAX, 0, kr_mcp_http_tool, &kr_mcp_tool_doc};
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *tool = kr_mcp_tools[i];
        struct row *row = &o->rows[o->count - OWN];

        if (!kr_mcp_tool_listed(m, m->config.dialect, tool))
            continue;
        o->routes[o->count++] =
            (struct kr_http_route){KR_HTTP_POST, row->pattern, KR_MCP_MESSAGE_MAX, 0, kr_mcp_http_tool, &row->doc};
        if (!fill_row(row, tool, timeout_ms))
            goto out;
    }
    return o;
out:
    kr_mcp_openapi_free(o);
    return NULL;
}

const struct kr_http_route *kr_mcp_openapi_rows(struct kr_api *api, uint64_t timeout_ms, size_t *ret_count)
{
    struct kr_mcp *m = api->mcp;

    kr_mcp_openapi_free(m->openapi);
    m->openapi = openapi_new(m, timeout_ms);
    *ret_count = m->openapi ? m->openapi->count : 0;
    return m->openapi ? m->openapi->routes : NULL;
}
