/* Handlers of MCP's routes. Not for other folders. */
#pragma once
#include "http.h"

kr_http_handler kr_mcp_http_post, kr_mcp_http_get, kr_mcp_http_delete, kr_mcp_http_root;
kr_http_handler kr_mcp_http_sse, kr_mcp_http_messages, kr_mcp_http_metadata;
