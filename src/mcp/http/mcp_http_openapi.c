/* The tools as rows of OpenAPI: a path for each that the server's own dialect lists. Called by src/api/pages/pages.c through
 * kr_api.openapi_more. The rows are told, not served: POST /api/v1/tools/{name} serves them all.
 *
 * Invariant: a row's schema is the one that tools/list tells, byte by byte. */
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

struct kr_mcp_told {
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

static bool fill(struct row *row, const struct kr_mcp_tool *tool)
{
    json_t *schema = kr_mcp_input_schema(tool->input, (tool->dialects & KR_IN_KRAIT) != 0);

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

void kr_mcp_told_free(struct kr_mcp_told *told)
{
    if (!told)
        return;
    for (size_t i = 0; told->rows && i + OWN < told->count; i++) {
        free(told->rows[i].schema);
        free(told->rows[i].description);
    }
    free(told->rows);
    free(told->routes);
    free(told);
}

static struct kr_mcp_told *told_new(const struct kr_mcp *m)
{
    struct kr_mcp_told *told = calloc(1, sizeof *told);

    if (!told)
        return NULL;
    told->routes = calloc(kr_mcp_tools_count + OWN, sizeof *told->routes);
    told->rows = calloc(kr_mcp_tools_count, sizeof *told->rows);
    told->count = OWN;
    if (!told->routes || !told->rows)
        goto out;
    told->routes[0] =
        (struct kr_http_route){KR_HTTP_GET, KR_MCP_TOOLS_PATH, 0, 0, kr_mcp_http_tools, &kr_mcp_tools_doc};
    told->routes[1] = (struct kr_http_route){
        KR_HTTP_POST, KR_MCP_TOOLS_PATH "/{name}", KR_MCP_MESSAGE_MAX, 0, kr_mcp_http_tool, &kr_mcp_tool_doc};
    for (size_t i = 0; i < kr_mcp_tools_count; i++) {
        const struct kr_mcp_tool *tool = kr_mcp_tools[i];
        struct row *row = &told->rows[told->count - OWN];

        if (!kr_mcp_tool_listed(m, m->config.dialect, tool))
            continue;
        told->routes[told->count++] =
            (struct kr_http_route){KR_HTTP_POST, row->pattern, KR_MCP_MESSAGE_MAX, 0, kr_mcp_http_tool, &row->doc};
        if (!fill(row, tool))
            goto out;
    }
    return told;
out:
    kr_mcp_told_free(told);
    return NULL;
}

const struct kr_http_route *kr_mcp_openapi_rows(struct kr_api *api, size_t *ret_count)
{
    struct kr_mcp *m = api->mcp;

    if (!m->told)
        m->told = told_new(m);
    *ret_count = m->told ? m->told->count : 0;
    return m->told ? m->told->routes : NULL;
}
