/* Rows of THE table of tools (tools_table.c) in krait's own dialect: where each lives. One line here and one there
 * makes a tool. The documents' rows are in src/dialect/dialect_tools.h. */
#pragma once
#include "tool.h"

/* tool_execute.c */
extern const struct kr_mcp_tool kr_tool_execute_python;
/* tool_runs.c */
extern const struct kr_mcp_tool kr_tool_read_run, kr_tool_stop_run;
/* tool_terminal.c */
extern const struct kr_mcp_tool kr_tool_execute_terminal_command;
/* tool_list_files.c, tool_read_file.c, tool_upload.c, tool_info.c */
extern const struct kr_mcp_tool kr_tool_list_files, kr_tool_read_file, kr_tool_upload_file, kr_tool_get_sandbox_info;
/* tool_sandboxes.c */
extern const struct kr_mcp_tool kr_tool_create_sandbox, kr_tool_list_sandboxes, kr_tool_reset_sandbox,
    kr_tool_delete_sandbox;
/* tool_packages.c */
extern const struct kr_mcp_tool kr_tool_install_package, kr_tool_uninstall_package, kr_tool_list_packages,
    kr_tool_package_status;
/* tool_templates.c */
extern const struct kr_mcp_tool kr_tool_save_template, kr_tool_list_templates, kr_tool_delete_template;
extern const struct kr_mcp_tool kr_tool_list_security_events;
/* tool_validate.c */
extern const struct kr_mcp_tool kr_tool_validate_code;
/* tool_sessions.c */
extern const struct kr_mcp_tool kr_tool_list_active_sessions, kr_tool_terminate_session;

/* A live session as an object, for krait's own tools and resources (tool_sessions.c). */
struct kr_box_session_info;
json_t *kr_mcp_session_value(const struct kr_box_session_info *s);
