/* MCP's rows of the table of routes, and the two things HTTP asks for beside the protocol: where tokens come from, and
 * errors of the HTTP engine itself as JSON-RPC has them. Given to kr_http_server_new() by `krait serve`, behind
 * kr_api_routes.
 *
 * Invariant: every row but GET / and the metadata asks for a key where keys are asked for; GET / asks as soon as it
 * would be a conversation. */
#include "mcp_http_routes.h"
#include "api.h"
#include "buf.h"
#include "route_doc.h"
#include "mcp_http_tools.h"
#include "json.h"
#include "links.h"
#include "mcp_internal.h"
#include "pages.h"
#include "reply.h"
#include <string.h>

#define MESSAGE_MAX KR_MCP_MESSAGE_MAX
#define ALIAS "/ai/sandbox/v1/mcp"

static const struct kr_api_response post_ok[] = {
    {200, "The answer: one JSON object, or events of which the last is the answer.", "application/json", NULL, NULL,
     NULL},
    {202, "A notification or an answer of the client's was taken.", NULL, NULL, NULL, NULL},
    {0}};
static const struct kr_api_response get_ok[] = {{200, "Events.", "text/event-stream", NULL, NULL, NULL}, {0}};
static const struct kr_api_response none[] = {{200, "Done.", NULL, NULL, NULL, NULL}, {0}};
static const struct kr_api_response metadata_ok[] = {{200, "RFC 9728.", "application/json", NULL, NULL, NULL}, {0}};

#define DOC(id_, summary_) .id = (id_), .tag = "info", .summary = (summary_), .voice = KR_API_KRAIT, .hidden = true
static const struct kr_api_doc post_doc = {DOC("mcp_post", "The Model Context Protocol: one message"),
                                           .responses = post_ok};
static const struct kr_api_doc get_doc = {DOC("mcp_get", "The Model Context Protocol: events"), .responses = get_ok};
static const struct kr_api_doc delete_doc = {DOC("mcp_delete", "The Model Context Protocol: the end of a session"),
                                             .responses = none};
static const struct kr_api_doc sse_doc = {DOC("mcp_sse", "The Model Context Protocol of 2024-11-05: events"),
                                          .responses = get_ok};
static const struct kr_api_doc messages_doc = {
    DOC("mcp_messages", "The Model Context Protocol of 2024-11-05: one message"), .responses = post_ok};
static const struct kr_api_doc metadata_doc = {
    DOC("mcp_metadata", "Where tokens for the Model Context Protocol come from"), .open = true,
    .responses = metadata_ok};

/* clang-format off */
#define ENDPOINT(path) \
    {KR_HTTP_POST,   path, MESSAGE_MAX, 0, kr_mcp_http_post, &post_doc}, \
    {KR_HTTP_GET,    path, 0, 0, kr_mcp_http_get, &get_doc}, \
    {KR_HTTP_DELETE, path, 0, 0, kr_mcp_http_delete, &delete_doc}

const struct kr_http_route kr_mcp_routes[] = {
    {KR_HTTP_GET,    "/", 0, 0, kr_mcp_http_root, &kr_api_root_doc},
    {KR_HTTP_POST,   "/", MESSAGE_MAX, 0, kr_mcp_http_post, &post_doc},
    {KR_HTTP_DELETE, "/", 0, 0, kr_mcp_http_delete, &delete_doc},
    ENDPOINT("/mcp"),
    ENDPOINT("/mcp/"),
    ENDPOINT(ALIAS),
    ENDPOINT(ALIAS "/"),
    {KR_HTTP_GET,  "/sse", 0, 0, kr_mcp_http_sse, &sse_doc},
    {KR_HTTP_GET,  "/sse/", 0, 0, kr_mcp_http_sse, &sse_doc},
    {KR_HTTP_GET,  "/mcp/sse", 0, 0, kr_mcp_http_sse, &sse_doc},
    {KR_HTTP_GET,  "/mcp/sse/", 0, 0, kr_mcp_http_sse, &sse_doc},
    {KR_HTTP_POST, "/messages", MESSAGE_MAX, 0, kr_mcp_http_messages, &messages_doc},
    {KR_HTTP_POST, "/messages/", MESSAGE_MAX, 0, kr_mcp_http_messages, &messages_doc},
    {KR_HTTP_POST, "/mcp/messages", MESSAGE_MAX, 0, kr_mcp_http_messages, &messages_doc},
    {KR_HTTP_POST, "/mcp/messages/", MESSAGE_MAX, 0, kr_mcp_http_messages, &messages_doc},
    {KR_HTTP_GET,  KR_MCP_TOOLS_PATH, 0, 0, kr_mcp_http_tools, &kr_mcp_tools_doc},
    {KR_HTTP_POST, KR_MCP_TOOLS_PATH "/{name}", MESSAGE_MAX, 0, kr_mcp_http_tool, &kr_mcp_tool_doc},
    {KR_HTTP_GET,  "/.well-known/oauth-protected-resource", 0, 0, kr_mcp_http_metadata, &metadata_doc},
    {KR_HTTP_GET,  "/.well-known/oauth-protected-resource/mcp", 0, 0, kr_mcp_http_metadata, &metadata_doc},
};
/* clang-format on */
const size_t kr_mcp_routes_count = sizeof kr_mcp_routes / sizeof kr_mcp_routes[0];

void kr_mcp_http_metadata(struct kr_http_ex *ex, void *app)
{
    const struct kr_api *api = app;
    const struct kr_mcp_config *c = kr_mcp_config(api->mcp);
    cleanup_buf struct kr_buf out, url;
    struct kr_json j;

    kr_buf_init(&out, KR_API_REPLY_MAX);
    kr_buf_init(&url, 4096);
    if (!c->authorization_servers.count) {
        kr_api_fail_with(ex, KR_ERR_NOT_FOUND, "no authorization server is configured: keys are made by `krait keys`");
        return;
    }
    kr_link_add_base(api, ex, &url);
    kr_buf_add_str(&url, KR_API_MCP_ENDPOINT);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "resource", kr_buf_str(&url));
    kr_json_key(&j, "authorization_servers");
    kr_json_array(&j);
    for (size_t i = 0; i < c->authorization_servers.count; i++)
        kr_json_str(&j, c->authorization_servers.items[i]);
    kr_json_array_end(&j);
    kr_json_key(&j, "scopes_supported");
    kr_json_array(&j);
    kr_json_array_end(&j);
    kr_json_key(&j, "bearer_methods_supported");
    kr_json_array(&j);
    kr_json_str(&j, "header");
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

bool kr_mcp_engine_error(const char *path, int status, const char *text, struct kr_buf *out)
{
    if (strcmp(path, "/mcp") != 0 && strcmp(path, "/mcp/") != 0 && strcmp(path, ALIAS) != 0 &&
        strcmp(path, ALIAS "/") != 0)
        return false;
    return kr_mcp_write_error(out, NULL, status >= 500 ? KR_RPC_INTERNAL : KR_RPC_INVALID_REQUEST, text, NULL) == 0;
}
