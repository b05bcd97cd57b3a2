/* resources/read of krait://connections: what the caller's sandboxes connected to. Called through the table of
 * resources. Invariant: a caller reads rows of its own alone, an administrator too: the rest is for REST. */
#include "api.h"
#include "buf.h"
#include "connection_routes.h"
#include "json.h"
#include "resource.h"
#include "store_connection.h"

#define ROWS 100u

static void on_own_connection(void *data, const struct kr_store_connection *row)
{
    kr_api_connection_json(data, row);
}

void kr_mcp_read_connections(struct kr_mcp_call *c, const char *uri)
{
    struct kr_api *api = kr_mcp_api(c);
    const struct kr_store_connection_filter filter = {.owner = kr_mcp_caller(c)->user};
    struct kr_store_page page = {.limit = ROWS};
    cleanup_buf struct kr_buf buf;
    struct kr_json j;
    struct kr_err err;

    kr_buf_init(&buf, KR_MCP_READ_MAX);
    kr_box_connections_settle(api->box);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key(&j, "connections");
    kr_json_array(&j);
    if (kr_store_connections_list(api->store, &filter, &page, on_own_connection, &j, &err) < 0) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "%s", err.msg);
        return;
    }
    kr_json_array_end(&j);
    kr_json_key_bool(&j, "more", page.next[0] != '\0');
    kr_json_object_end(&j);
    if (kr_json_done(&j) < 0)
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "the connections do not fit");
    else
        kr_mcp_contents(c, uri, "application/json", kr_buf_str(&buf), buf.len, false);
}
