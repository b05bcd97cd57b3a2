/* The tool that lists security events. It can be called and is not listed: a model does not need it at every turn.
 * Called through THE table of tools. Invariant: a caller sees what GET /api/v1/security-events would show. */
#include "buf.h"
#include "mcp.h"
#include "security_routes.h"
#include "tool_rows.h"

#define PAGE_BYTES (1u << 20)

static void run_list_security_events(struct kr_mcp_call *c, const void *args)
{
    cleanup_buf struct kr_buf buf;
    struct kr_mcp_result r;
    const char *field;
    struct kr_err err;
    json_t *page;

    kr_buf_init(&buf, PAGE_BYTES);
    if (kr_api_security_write(kr_mcp_api(c), kr_mcp_caller(c), args, &buf, &field, &err) < 0) {
        kr_mcp_tool_fail(c, &err);
        return;
    }
    page = json_loadb(buf.data, buf.len, 0, NULL);
    if (!page) {
        kr_mcp_tool_refuse(c, "these events do not fit into one answer; ask for fewer with `limit`");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, page, 0);
    r.structured = page;
    kr_mcp_tool_done(c, &r);
}

const struct kr_mcp_tool kr_tool_list_security_events = {
    .name = "list_security_events",
    .title = "List security events",
    .description = "Lists what code of yours was refused, newest first: by the code policy, the system call filter, "
                   "file permissions, the network rule, limits.",
    .dialects = KR_UNLISTED,
    .flags = KR_TOOL_READ_ONLY | KR_TOOL_IDEMPOTENT,
    .needs = KR_RIGHT_READ,
    .input = &kr_security_query_table,
    .output = &kr_security_page_schema,
    .run = run_list_security_events,
};
