/* THE table of tools, in the order in which they are listed: the nine of `--tools core` first, then ours, then each
 * document's, then fixtures. Read by tools.c and `krait dump tools`; the order never depends on anything. */
#include "dialect_tools.h"
#include "fixture.h"
#include "registry.h"
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

    KR_DIALECT_TOOLS,

    KR_MCP_FIXTURE_TOOLS(FIXTURE)
};
/* clang-format on */
const size_t kr_mcp_tools_count = sizeof kr_mcp_tools / sizeof kr_mcp_tools[0];
