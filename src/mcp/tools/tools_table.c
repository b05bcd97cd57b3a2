/* THE table of tools, in the order in which they are listed: those of `--tools core` first, then the rest of krait's,
 * then each document's. Read by tools.c, mcp_http_openapi.c and `krait dump tools`; the order never depends on
 * anything. */
#include "dialect_tools.h"
#include "registry.h"
#include "tool_rows.h"

/* clang-format off */
const struct kr_mcp_tool *const kr_mcp_tools[] = {
    &kr_tool_execute_python,
    &kr_tool_read_run,
    &kr_tool_stop_run,
    &kr_tool_execute_terminal_command,
    &kr_tool_install_package,
    &kr_tool_list_files,
    &kr_tool_read_file,
    &kr_tool_upload_file,
    &kr_tool_get_sandbox_info,

    &kr_tool_create_sandbox,
    &kr_tool_list_sandboxes,
    &kr_tool_reset_sandbox,
    &kr_tool_delete_sandbox,
    &kr_tool_validate_code,
    &kr_tool_list_active_sessions,
    &kr_tool_terminate_session,
    &kr_tool_list_packages,
    &kr_tool_package_status,
    &kr_tool_uninstall_package,

    &kr_tool_save_template,
    &kr_tool_list_templates,
    &kr_tool_delete_template,
    &kr_tool_list_security_events,

    KR_DIALECT_TOOLS,
};
/* clang-format on */
const size_t kr_mcp_tools_count = sizeof kr_mcp_tools / sizeof kr_mcp_tools[0];
