/* Connections of sandboxes to the outside over HTTP, and one of them as an object. Our own voice. */
#pragma once
#include "api.h"
#include "route_doc.h"

struct kr_json;
struct kr_store_connection;

kr_http_handler kr_api_connections_list;
extern const struct kr_api_doc kr_api_connections_list_doc;

void kr_api_connection_json(struct kr_json *j, const struct kr_store_connection *row);

/* Rows of the one table (routes.c). */
#define KR_API_CONNECTIONS_ROUTES                                                                                      \
    {                                                                                                                  \
        KR_HTTP_GET, "/api/v1/connections", 0, 0, kr_api_connections_list, &kr_api_connections_list_doc                \
    }
