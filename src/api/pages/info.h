/* GET /api/v1/info: what this server is, what holds its sandboxes, and what may be asked of it. */
#pragma once
#include "route_doc.h"
#include "http.h"

kr_http_handler kr_api_info;
extern const struct kr_api_doc kr_api_info_doc;

/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_INFO_ROUTES \
    {KR_HTTP_GET, "/api/v1/info", 0, 0, kr_api_info, &kr_api_info_doc}
/* clang-format on */
