/* Rows of the documents' MCP tools, which the documents' rows (rows/sandbox_mcp.h …) list. */
#pragma once
#include "tool.h"

/* Document 000: sandbox_mcp_tools.c, sandbox_mcp_sessions.c */
extern const struct kr_mcp_tool kr_tool_sandbox_mcp_execute, kr_tool_sandbox_mcp_list_sessions,
    kr_tool_sandbox_mcp_terminate, kr_tool_sandbox_mcp_open;
/* Document 001: python_sandbox_tools.c, python_sandbox_policy.c */
extern const struct kr_mcp_tool kr_tool_python_sandbox_execute, kr_tool_python_sandbox_validate,
    kr_tool_python_sandbox_info, kr_tool_python_sandbox_capabilities;
/* Document 002: sandbox_service_tools.c, sandbox_service_packages.c */
extern const struct kr_mcp_tool kr_tool_sandbox_service_execute, kr_tool_sandbox_service_execute_post,
    kr_tool_sandbox_service_install, kr_tool_sandbox_service_install_post, kr_tool_sandbox_service_health;
/* Document 003: python_executor_tools.c, python_executor_packages.c */
extern const struct kr_mcp_tool kr_tool_python_executor_execute, kr_tool_python_executor_install,
    kr_tool_python_executor_list, kr_tool_python_executor_info, kr_tool_python_executor_reset;
/* Document 004: mcp_sandbox_tools.c, mcp_sandbox_packages.c */
extern const struct kr_mcp_tool kr_tool_mcp_sandbox_install, kr_tool_mcp_sandbox_status;
extern const struct kr_mcp_tool kr_tool_mcp_sandbox_create, kr_tool_mcp_sandbox_list, kr_tool_mcp_sandbox_execute,
    kr_tool_mcp_sandbox_command, kr_tool_mcp_sandbox_upload, kr_tool_mcp_sandbox_delete, kr_tool_mcp_sandbox_create_env,
    kr_tool_mcp_sandbox_list_envs;
