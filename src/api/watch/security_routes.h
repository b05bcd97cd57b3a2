/* Security events over HTTP, and one of them as an object. Our own voice; the tool of MCP has the same query. */
#pragma once
#include "api.h"
#include "route_doc.h"

struct kr_json;
struct kr_store_event;

kr_http_handler kr_api_security_list;
extern const struct kr_api_doc kr_api_security_list_doc;

struct kr_security_query {
    const char *user, *sandbox, *run, *rule, *after;
    int kind;
    double since, until;
    int64_t limit;
};
extern const struct kr_api_table kr_security_query_table;
extern const struct kr_api_schema kr_security_page_schema;

/* Writes the page that `who` may see of what is asked for. 0, or -errno with err, whose field is *ret_field (may be
 * NULL) if it is one. */
int kr_api_security_write(struct kr_api *api, const struct kr_caller *who, const struct kr_security_query *q,
                          struct kr_buf *buf, const char **ret_field, struct kr_err *err);

/* Rows of the one table (routes.c). */
#define KR_API_SECURITY_ROUTES                                                                                         \
    {                                                                                                                  \
        KR_HTTP_GET, "/api/v1/security-events", 0, 0, kr_api_security_list, &kr_api_security_list_doc                  \
    }
