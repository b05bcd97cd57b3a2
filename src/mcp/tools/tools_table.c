/* THE table of tools, in the order in which they are listed: the nine of `--tools core` first, then ours, then each
 * document's, then fixtures. Read by tools.c and `krait dump tools`; the order never depends on anything. */
#include "fixture.h"
#include "tool_rows.h"

#define FIXTURE(name) &kr_fixture_##name,

/* clang-format off */
const struct kr_mcp_tool *const kr_mcp_tools[] = {
    &kr_tool_execute_python,
    &kr_tool_read_run,
    &kr_tool_stop_run,
    &kr_tool_execute_terminal_command,
    &kr_tool_list_files,
    &kr_tool_read_file,
    &kr_tool_upload_file,
    &kr_tool_get_sandbox_info,

    &kr_tool_create_sandbox,
    &kr_tool_list_sandboxes,
    &kr_tool_reset_sandbox,
    &kr_tool_delete_sandbox,
    &kr_tool_list_active_sessions,
    &kr_tool_terminate_session,

    &kr_tool_sandbox_mcp_execute,
    &kr_tool_sandbox_mcp_list_sessions,
    &kr_tool_sandbox_mcp_terminate,
    &kr_tool_sandbox_mcp_open,

    &kr_tool_python_sandbox_execute,
    &kr_tool_python_sandbox_capabilities,

    &kr_tool_sandbox_service_execute,
    &kr_tool_sandbox_service_execute_post,
    &kr_tool_sandbox_service_health,

    &kr_tool_python_executor_execute,
    &kr_tool_python_executor_info,
    &kr_tool_python_executor_reset,

    &kr_tool_mcp_sandbox_create,
    &kr_tool_mcp_sandbox_list,
    &kr_tool_mcp_sandbox_execute,
    &kr_tool_mcp_sandbox_command,
    &kr_tool_mcp_sandbox_upload,
    &kr_tool_mcp_sandbox_delete,
    &kr_tool_mcp_sandbox_create_env,
    &kr_tool_mcp_sandbox_list_envs,

    KR_MCP_FIXTURE_TOOLS(FIXTURE)
};
/* clang-format on */
const size_t kr_mcp_tools_count = sizeof kr_mcp_tools / sizeof kr_mcp_tools[0];
