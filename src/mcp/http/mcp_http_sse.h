/* HTTP+SSE of 2024-11-05: a GET whose events are all that the server says, and POSTs that name it. The connection is
 * the session. Not for other folders. */
#pragma once
#include "mcp_http_ask.h"

struct kr_mcp_sessions;

#define KR_MCP_SSE_MAX 1024u         /* open at once; 503 */
#define KR_MCP_SSE_PER_USER_MAX 256u /* of one user; 503 */

/* Opens it on this exchange; `messages` is the path that its first event names. */
void kr_mcp_sse_open(struct kr_http_ex *ex, struct kr_api *api, const struct kr_mcp_asker *asker, const char *messages);
/* Ends those whose key is no longer good. */
void kr_mcp_sse_end_stale(struct kr_mcp_sessions *all);
/* Ends all of them. */
void kr_mcp_sse_stop(struct kr_mcp_sessions *all);
/* The same when HTTP is gone. */
void kr_mcp_sse_free(struct kr_mcp_sessions *all);
