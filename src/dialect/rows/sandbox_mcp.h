/* Document 000, sandbox-mcp: a REST API of sessions whose runs are streams of NDJSON lines, and four MCP tools.
 *
 * Its code: src/dialect/sandbox_mcp_routes.c (execute), sandbox_mcp_tools.c, sandbox_mcp_sessions.c (tools about
 * sessions). GET /api/v1/sessions and /api/v1/health are krait's own routes as well, in the document's shapes:
 * src/api/sessions, src/api/watch. */
#pragma once

/* clang-format off */
#define KR_SANDBOX_MCP_DEFAULTS \
    { "host",             "0.0.0.0" }, /* where a key guards it: config_check.c; so in the other documents */ \
    { "port",             "16010" }, \
    { "max-sessions",     "10" }, \
    { "idle-timeout",     "300s" }, \
    { "cleanup-interval", "60s" }, \
    { "pool-size",        "3" }, \
    { "timeout",          "30s" }, \
    { "max-timeout",      "30s" }, \
    { "memory",           "512M" }

/* MAX_EXECUTION_TIME of the document is both the default and the ceiling. */
#define KR_SANDBOX_MCP_TRAITS .docs_need_debug = true, .max_timeout_is_timeout = true

#define KR_SANDBOX_MCP_EXECUTE(prefix) \
    {KR_HTTP_POST, prefix "/execute",      KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, \
     kr_api_execute, &kr_api_execute_doc}, \
    {KR_HTTP_POST, prefix "/execute_sync", KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, \
     kr_api_execute_sync, &kr_api_execute_sync_doc}

/* Its program also serves everything beneath this prefix. */
#define KR_SANDBOX_MCP_PREFIX "/ai/sandbox/v1/api"
#define KR_SANDBOX_MCP_ROUTES \
    KR_SANDBOX_MCP_EXECUTE("/api/v1"), \
    KR_SANDBOX_MCP_EXECUTE(KR_SANDBOX_MCP_PREFIX), \
    {KR_HTTP_POST, "/api/v1/sandboxes/{sandbox_id}/execute", KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, \
     kr_api_execute_in_sandbox, &kr_api_execute_in_sandbox_doc}, \
    {KR_HTTP_POST, "/execute_sync", KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, \
     kr_api_execute_sync, &kr_api_execute_sync_doc}, \
    {KR_HTTP_GET, KR_SANDBOX_MCP_PREFIX "/health", 0, 0, kr_api_health_v1, &kr_api_doc_health_v1}, \
    KR_API_SESSIONS_ROUTES(KR_SANDBOX_MCP_PREFIX)

#define KR_SANDBOX_MCP_TOOLS \
    &kr_tool_sandbox_mcp_execute, \
    &kr_tool_sandbox_mcp_list_sessions, \
    &kr_tool_sandbox_mcp_terminate, \
    &kr_tool_sandbox_mcp_open
/* clang-format on */
