/* The caller of a request over HTTP, and how it is to be answered: what POST, GET and the old streams share. Not for
 * other folders. */
#pragma once
#include "api.h"
#include "peer.h"

struct kr_mcp_asker {
    struct kr_api_who who;
    struct kr_mcp_peer_config config; /* but for wire and data */
    char base_url[512];
};
struct kr_mcp_stream;

/* Fills it from the key, the listener and the query (?dialect=, ?structured=1). False: answered. */
bool kr_mcp_http_asker(struct kr_http_ex *ex, struct kr_api *api, struct kr_mcp_asker *ret);
/* A peer and a stream for this exchange alone, which end with its `due` answers or its connection. NULL: answered. */
struct kr_mcp_stream *kr_mcp_http_alone(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker,
                                        enum kr_mcp_rev rev, unsigned due);
