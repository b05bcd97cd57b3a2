/* From the body of a POST to JSON. Called by mcp_http_post.c, mcp_http_tools.c and mcp_http_sse.c.
 *
 * Invariants: `then` is called with a live exchange or not at all; the large bodies that wait for a thread are
 * bounded. */
#include "mcp_http_body.h"
#include "api.h"
#include "mcp_http_stream.h"
#include "body_read.h"
#include "rpc_id.h"
#include <stdlib.h>

#define PARSING_MAX (128u << 20) /* bytes of bodies that wait for a thread, of all clients; past it 503 */

struct message_read {
    struct kr_api *api;
    kr_mcp_http_then *then;
    size_t counted;    /* of `parsing` */
    json_t *root, *id; /* the id if there is no root */
    struct kr_mcp_flaw flaw;
};

static void parse_message(void *data, const char *text, size_t len)
{
    struct message_read *r = data;

    if (kr_mcp_parse(text, len, &r->root, &r->flaw) == 0)
        return;
    r->root = NULL;
    r->id = kr_mcp_find_id(text, len);
}

/* MCP, or NULL: it has ended, and HTTP before it without a call of on_gone. */
static struct kr_mcp *give_back(struct message_read *r)
{
    struct kr_mcp *m = r->api->mcp;

    if (m)
        m->parsing -= r->counted;
    return m;
}

static void on_message_parsed(void *data, struct kr_http_ex *ex)
{
    struct message_read *r = data;

    if (give_back(r))
        r->then(ex, r->api, r->root, &r->flaw, r->id);
    else
        json_decref(r->root);
    json_decref(r->id);
    free(r);
}

static void on_message_dropped(void *data)
{
    struct message_read *r = data;

    (void)give_back(r);
    json_decref(r->root);
    json_decref(r->id);
    free(r);
}

void kr_mcp_http_read(struct kr_http_ex *ex, struct kr_api *api, kr_mcp_http_then *then)
{
    static const struct kr_body_calls calls = {
        .parse = parse_message, .done = on_message_parsed, .dropped = on_message_dropped};
    struct kr_mcp *m = api->mcp;
    struct message_read *r;
    size_t len, counted;

    (void)kr_http_body(ex, &len);
    counted = len > KR_API_INLINE_MAX ? len : 0;
    if (counted > 0 && m->parsing + counted > PARSING_MAX) {
        kr_http_drop_body(ex);
        kr_http_set_header(ex, "Retry-After", "1");
        kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "too many large messages at once: try again in a moment",
                           NULL);
        return;
    }
    r = calloc(1, sizeof *r);
    if (r) {
        *r = (struct message_read){.api = api, .then = then, .counted = counted};
        m->parsing += counted;
        if (kr_body_read(api->loop, ex, &calls, r) == 0)
            return;
        m->parsing -= counted;
    }
    free(r);
    kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "no memory", NULL);
}
