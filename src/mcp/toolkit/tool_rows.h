/* The rows of THE table of tools (tools_table.c): where each lives. One line here and one there makes a tool. */
#pragma once
#include "tool.h"

/* tool_execute.c */
extern const struct kr_mcp_tool kr_tool_execute_python;
/* tool_runs.c */
extern const struct kr_mcp_tool kr_tool_read_run, kr_tool_stop_run;
/* tool_terminal.c */
extern const struct kr_mcp_tool kr_tool_execute_terminal_command;
/* tool_list_files.c, tool_read_file.c, tool_upload.c, tool_info.c */
extern const struct kr_mcp_tool kr_tool_list_files, kr_tool_read_file, kr_tool_upload_file, kr_tool_get_sandbox_info,
    kr_tool_python_executor_info;
/* tool_sandboxes.c */
extern const struct kr_mcp_tool kr_tool_create_sandbox, kr_tool_list_sandboxes, kr_tool_reset_sandbox,
    kr_tool_delete_sandbox;
/* tool_sessions.c */
extern const struct kr_mcp_tool kr_tool_list_active_sessions, kr_tool_terminate_session,
    kr_tool_sandbox_mcp_list_sessions, kr_tool_sandbox_mcp_terminate, kr_tool_sandbox_mcp_open;
/* compat_*.c: the documents' */
extern const struct kr_mcp_tool kr_tool_sandbox_mcp_execute;
extern const struct kr_mcp_tool kr_tool_python_sandbox_execute, kr_tool_python_sandbox_capabilities;
extern const struct kr_mcp_tool kr_tool_sandbox_service_execute, kr_tool_sandbox_service_execute_post,
    kr_tool_sandbox_service_health;
extern const struct kr_mcp_tool kr_tool_python_executor_execute, kr_tool_python_executor_reset;
extern const struct kr_mcp_tool kr_tool_mcp_sandbox_create, kr_tool_mcp_sandbox_list, kr_tool_mcp_sandbox_execute,
    kr_tool_mcp_sandbox_command, kr_tool_mcp_sandbox_upload, kr_tool_mcp_sandbox_delete, kr_tool_mcp_sandbox_create_env,
    kr_tool_mcp_sandbox_list_envs;
