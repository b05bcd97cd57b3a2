/* Bodies of MCP requests, large ones parsed off the loop. Not for other folders. */
#pragma once
#include "http.h"
#include "jsonrpc.h"

struct kr_api;

/* The body is parsed: root (the callee's), or NULL with flaw, and the id if one could be read (borrowed). Answers, or
 * defers as a handler does. */
typedef void kr_mcp_http_then(struct kr_http_ex *ex, struct kr_api *api, json_t *root, const struct kr_mcp_flaw *flaw,
                              json_t *id);

/* Parses the body of the exchange and calls `then`: before it returns for a short one, else later, from the loop. Not
 * called when the peer leaves meanwhile. */
void kr_mcp_http_read(struct kr_http_ex *ex, struct kr_api *api, kr_mcp_http_then *then);
