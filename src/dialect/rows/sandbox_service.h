/* Document 002, sandbox-service: POST /execute and POST /pip_install, and the same as MCP tools.
 *
 * Its code: src/dialect/sandbox_service_routes.c, sandbox_service_tools.c,
 * sandbox_service_packages.c. */
#pragma once

/* clang-format off */
#define KR_SANDBOX_SERVICE_DEFAULTS \
    { "host",        "0.0.0.0" }, \
    { "port",        "8001" }, \
    { "timeout",     "30s" }, \
    { "max-timeout", "120s" }, \
    { "memory",      "512M" }

#define KR_SANDBOX_SERVICE_TRAITS .mcp_get_is_sse = true, .logs_code = true, .timeout_is_error = true

#define KR_SANDBOX_SERVICE_ROUTES \
    {KR_HTTP_POST, "/execute",     KR_API_CODE_MAX, KR_API_CONFIGURED_BODY, \
     kr_api_service_execute, &kr_api_service_execute_doc}, \
    {KR_HTTP_POST, "/pip/install", 1u << 20, 0, kr_api_service_install, &kr_api_service_install_alias_doc}, \
    {KR_HTTP_POST, "/pip_install", 1u << 20, 0, kr_api_service_install, &kr_api_service_install_doc}

#define KR_SANDBOX_SERVICE_TOOLS \
    &kr_tool_sandbox_service_execute, \
    &kr_tool_sandbox_service_install, \
    &kr_tool_sandbox_service_execute_post, \
    &kr_tool_sandbox_service_install_post, \
    &kr_tool_sandbox_service_health
/* clang-format on */
