/* Templates over HTTP: save, list, read, change, delete. Our own voice. */
#pragma once
#include "route_doc.h"
#include "http.h"

kr_http_handler kr_api_templates_list, kr_api_templates_create, kr_api_templates_read, kr_api_templates_change,
    kr_api_templates_delete;
extern const struct kr_api_doc kr_api_templates_list_doc, kr_api_templates_create_doc, kr_api_templates_read_doc,
    kr_api_templates_change_doc, kr_api_templates_delete_doc;

#define KR_API_TEMPLATES_BODY_MAX (16u << 10)
/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_TEMPLATES_ROUTES \
    {KR_HTTP_GET,    "/api/v1/templates",               0, 0, kr_api_templates_list, &kr_api_templates_list_doc}, \
    {KR_HTTP_POST,   "/api/v1/templates",               KR_API_TEMPLATES_BODY_MAX, 0, kr_api_templates_create, \
     &kr_api_templates_create_doc}, \
    {KR_HTTP_GET,    "/api/v1/templates/{template_id}", 0, 0, kr_api_templates_read, &kr_api_templates_read_doc}, \
    {KR_HTTP_PATCH,  "/api/v1/templates/{template_id}", KR_API_TEMPLATES_BODY_MAX, 0, kr_api_templates_change, \
     &kr_api_templates_change_doc}, \
    {KR_HTTP_DELETE, "/api/v1/templates/{template_id}", 0, 0, kr_api_templates_delete, &kr_api_templates_delete_doc}
/* clang-format on */
