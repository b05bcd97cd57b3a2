/* Sessions over HTTP: list, open, read, end, interrupt. `/api/v1/sessions` is both ours and document 000's
 * (sandbox-mcp): the answers have that document's members, and more; errors are in its voice. */
#pragma once
#include "route_doc.h"
#include "http.h"

kr_http_handler kr_api_sessions_list, kr_api_sessions_create, kr_api_sessions_read, kr_api_sessions_delete,
    kr_api_sessions_interrupt;
extern const struct kr_api_doc kr_api_sessions_list_doc, kr_api_sessions_create_doc, kr_api_sessions_read_doc,
    kr_api_sessions_delete_doc, kr_api_sessions_interrupt_doc;

#define KR_API_SESSIONS_BODY_MAX (256u << 10)
/* Rows of the one table (routes.c), once for each of the two prefixes. */
/* clang-format off */
#define KR_API_SESSIONS_ROUTES(prefix) \
    {KR_HTTP_GET,    prefix "/sessions",                        0, 0, kr_api_sessions_list, \
     &kr_api_sessions_list_doc}, \
    {KR_HTTP_POST,   prefix "/sessions",                        KR_API_SESSIONS_BODY_MAX, 0, kr_api_sessions_create, \
     &kr_api_sessions_create_doc}, \
    {KR_HTTP_GET,    prefix "/sessions/{session_id}",           0, 0, kr_api_sessions_read, \
     &kr_api_sessions_read_doc}, \
    {KR_HTTP_DELETE, prefix "/sessions/{session_id}",           0, 0, kr_api_sessions_delete, \
     &kr_api_sessions_delete_doc}, \
    {KR_HTTP_POST,   prefix "/sessions/{session_id}/interrupt", 0, 0, kr_api_sessions_interrupt, \
     &kr_api_sessions_interrupt_doc}
/* clang-format on */
