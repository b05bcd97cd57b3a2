/* The caller of a request over HTTP. Called by the handlers of MCP's routes. Invariant: where keys are needed, no
 * client without one gets a conversation, also on a route that is open to all (GET /). */
#include "mcp_http_ask.h"
#include "buf.h"
#include "err.h"
#include "mcp_http_stream.h"
#include "links.h"
#include "query.h"
#include "reply.h"
#include <stdio.h>
#include <string.h>

/* False with a text: the query cannot be read or names no dialect. */
static bool read_query(struct kr_http_ex *ex, struct kr_mcp_asker *ret, char *text, size_t room)
{
    cleanup_query struct kr_query q = {0};
    const char *query = kr_http_query(ex), *value;
    struct kr_err err;
    int dialect;

    if (!query[0])
        return true;
    if (kr_query_parse(&q, query, strlen(query), &err) < 0) {
        snprintf(text, room, "query: %s", err.msg);
        return false;
    }
    if (kr_query_get(&q, "dialect", &value, &err) > 0) {
        if ((dialect = kr_dialect_find(value)) < 0) {
            snprintf(text, room,
                     "dialect: one of krait, sandbox-mcp, python-sandbox, sandbox-service, python-executor, "
                     "mcp-sandbox");
            return false;
        }
        ret->config.dialect = (enum kr_dialect)dialect;
    }
    if (kr_query_get(&q, "tools", &value, &err) > 0) {
        ret->config.core = strcmp(value, "core") == 0;
        if (!ret->config.core && strcmp(value, "all") != 0) {
            snprintf(text, room, "tools: core or all");
            return false;
        }
    }
    if (kr_query_get(&q, "structured", &value, &err) > 0) {
        ret->config.structured = strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
        if (!ret->config.structured && strcmp(value, "0") != 0 && strcmp(value, "false") != 0) {
            snprintf(text, room, "structured: 1 or 0");
            return false;
        }
    }
    return true;
}

bool kr_mcp_http_asker(struct kr_http_ex *ex, struct kr_api *api, struct kr_mcp_asker *ret)
{
    cleanup_buf struct kr_buf url;
    char text[300];

    kr_buf_init(&url, sizeof ret->base_url - 1);
    ret->config = (struct kr_mcp_peer_config){.dialect = (enum kr_dialect)kr_http_tag(ex)};
    if (!kr_api_caller(api, ex, &ret->who))
        return false;
    if (!ret->who.user[0]) {
        kr_api_fail_with(ex, KR_ERR_UNAUTHORIZED,
                         "API key required: send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; "
                         "`krait keys create` makes one");
        return false;
    }
    if (!read_query(ex, ret, text, sizeof text)) {
        kr_mcp_http_refuse(ex, 400, NULL, KR_RPC_INVALID_REQUEST, text, NULL);
        return false;
    }
    if (kr_link_add_base(api, ex, &url) < 0)
        kr_buf_reset(&url);
    snprintf(ret->base_url, sizeof ret->base_url, "%s", kr_buf_str(&url));
    ret->config.who = ret->who.caller;
    ret->config.base_url = ret->base_url;
    return true;
}

struct kr_mcp_stream *kr_mcp_http_alone(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker,
                                        enum kr_mcp_rev rev, unsigned due)
{
    struct kr_mcp_peer *peer;
    struct kr_mcp_stream *s;

    asker->config.wire = &kr_mcp_http_wire;
    asker->config.data = NULL;
    asker->config.fleeting = true;
    if (kr_mcp_peer_new(m, &asker->config, &peer) < 0) {
        kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "no memory", NULL);
        return NULL;
    }
    s = kr_mcp_stream_new(m, NULL, peer, rev, ex, due);
    if (!s)
        kr_mcp_peer_free(peer);
    return s;
}
