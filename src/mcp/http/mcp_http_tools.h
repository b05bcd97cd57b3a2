/* The tools over plain HTTP, for clients that speak OpenAPI instead of MCP. Not for other folders. */
#pragma once
#include "route_doc.h"
#include "http.h"

struct kr_api;
struct kr_mcp_openapi;

#define KR_MCP_TOOLS_PATH "/api/v1/tools"

/* GET: what tools/list tells. POST /{name}: the body is the arguments, the answer what tools/call answers. */
kr_http_handler kr_mcp_http_tools, kr_mcp_http_tool;
extern const struct kr_api_doc kr_mcp_tools_doc, kr_mcp_tool_doc;
extern const struct kr_api_response kr_mcp_tool_ok[]; /* a CallToolResult */

/* Is the exchange of one of these routes, which are answered without JSON-RPC? */
bool kr_mcp_is_plain(const struct kr_http_ex *ex);
/* Answers with what a peer sends: a result's message (code 0) or an error's, which becomes one in our voice. */
void kr_mcp_plain_answer(struct kr_http_ex *ex, int code, const char *json, size_t len);

/* ---- mcp_http_openapi.c ---- */

/* For kr_api.openapi_more: the two routes, and a row for each tool that the server's own dialect lists. Kept until the
 * next call, or kr_mcp_free(). NULL: no memory. */
const struct kr_http_route *kr_mcp_openapi_rows(struct kr_api *api, uint64_t timeout_ms, size_t *ret_count);
void kr_mcp_openapi_free(struct kr_mcp_openapi *o); /* takes NULL */
