/* Pages and what belongs to them: `/`, `/docs`, the files they load, `/openapi.json`. */
#pragma once
#include "api.h"
#include "route_doc.h"

#define KR_API_NAME "krait"
#define KR_API_ENDPOINT "/api/v1"
#define KR_API_MCP_ENDPOINT "/mcp"

kr_http_handler kr_api_root, kr_api_docs, kr_api_docs_again, kr_api_redoc, kr_api_asset, kr_api_openapi;
extern const struct kr_api_doc kr_api_root_doc, kr_api_docs_doc, kr_api_docs_again_doc, kr_api_redoc_doc,
    kr_api_asset_doc, kr_api_favicon_doc, kr_api_openapi_doc;

/* Is /docs served on listeners of this tag? Not where its document hides it: sandbox-mcp without debug. */
bool kr_api_has_docs(const struct kr_api *api, unsigned tag);
/* Frees what /openapi.json remembers. For the end, when no request is left. */
void kr_api_pages_free(struct kr_api *api);

/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_PAGES_ROUTES \
    {KR_HTTP_GET, "/",                0, 0, kr_api_root, &kr_api_root_doc}, \
    {KR_HTTP_GET, "/assets/{path*}",  0, 0, kr_api_asset, &kr_api_asset_doc}, \
    {KR_HTTP_GET, "/docs",            0, 0, kr_api_docs, &kr_api_docs_doc}, \
    {KR_HTTP_GET, "/docs/",           0, 0, kr_api_docs_again, &kr_api_docs_again_doc}, \
    {KR_HTTP_GET, "/favicon.svg",     0, 0, kr_api_asset, &kr_api_favicon_doc}, \
    {KR_HTTP_GET, "/openapi.json",    0, 0, kr_api_openapi, &kr_api_openapi_doc}, \
    {KR_HTTP_GET, "/redoc",           0, 0, kr_api_redoc, &kr_api_redoc_doc}
/* clang-format on */
