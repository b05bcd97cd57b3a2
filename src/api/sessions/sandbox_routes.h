/* Sandboxes over HTTP: create, list, read, change, reset, delete. Our own voice. */
#pragma once
#include "route_doc.h"
#include "http.h"

kr_http_handler kr_api_sandboxes_list, kr_api_sandboxes_create, kr_api_sandboxes_read, kr_api_sandboxes_change,
    kr_api_sandboxes_reset, kr_api_sandboxes_delete;
extern const struct kr_api_doc kr_api_sandboxes_list_doc, kr_api_sandboxes_create_doc, kr_api_sandboxes_read_doc,
    kr_api_sandboxes_change_doc, kr_api_sandboxes_reset_doc, kr_api_sandboxes_delete_doc;

#define KR_API_SANDBOXES_BODY_MAX (256u << 10)
/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_SANDBOXES_ROUTES \
    {KR_HTTP_GET,    "/api/v1/sandboxes",                    0, 0, kr_api_sandboxes_list, &kr_api_sandboxes_list_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes",                    KR_API_SANDBOXES_BODY_MAX, 0, kr_api_sandboxes_create, \
     &kr_api_sandboxes_create_doc}, \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}",       0, 0, kr_api_sandboxes_read, &kr_api_sandboxes_read_doc}, \
    {KR_HTTP_PATCH,  "/api/v1/sandboxes/{sandbox_id}",       KR_API_SANDBOXES_BODY_MAX, 0, kr_api_sandboxes_change, \
     &kr_api_sandboxes_change_doc}, \
    {KR_HTTP_DELETE, "/api/v1/sandboxes/{sandbox_id}",       0, 0, kr_api_sandboxes_delete, \
     &kr_api_sandboxes_delete_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/reset", 0, 0, kr_api_sandboxes_reset, &kr_api_sandboxes_reset_doc}
/* clang-format on */
