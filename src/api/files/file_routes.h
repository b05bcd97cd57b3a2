/* Files of a sandbox over HTTP, and links to them: the rows for the table of routes (routes.c) and what `krait
 * serve` calls. docs/design/files-api.md has the rules. Loop thread only. */
#pragma once
#include "route_doc.h"
#include "http.h"
#include <stdbool.h>
#include <stdint.h>

struct kr_api;
struct kr_err;

/* Makes api->files; the store and the loop must be there. 0 or -errno with err. */
int kr_api_files_new(struct kr_api *api, struct kr_err *err);
/* Before the box and the store go. What is still written to disk is ended, and tidied up by the loop. Takes an API that
 * has none. */
void kr_api_files_free(struct kr_api *api);
/* For kr_auth_config.is_link: a signed link, which a page of another site may show as an image. */
bool kr_api_is_link(const struct kr_http_ex *ex);

/* What the route table's rows name. */
kr_http_handler kr_api_files_list, kr_api_files_get, kr_api_files_put, kr_api_files_post, kr_api_files_delete,
    kr_api_folders_post, kr_api_links_post, kr_api_link_get, kr_api_sandbox_file, kr_api_fetch_post;
extern const struct kr_api_doc kr_api_files_list_doc, kr_api_files_get_doc, kr_api_files_put_doc, kr_api_files_post_doc,
    kr_api_files_delete_doc, kr_api_folders_post_doc, kr_api_links_post_doc, kr_api_link_get_doc,
    kr_api_sandbox_file_doc, kr_api_fetch_post_doc;

#define KR_API_UPLOAD_MAX (UINT64_C(1) << 40) /* what the table says; kr_api_config.max_upload is what holds */
/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_FILES_ROUTES \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/fetches",       65536, 0, \
     kr_api_fetch_post, &kr_api_fetch_post_doc}, \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}/files",         0, 0, kr_api_files_list, &kr_api_files_list_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/files",         KR_API_UPLOAD_MAX, KR_HTTP_STREAM_BODY, \
     kr_api_files_post, &kr_api_files_post_doc}, \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}/files/{path*}", 0, 0, kr_api_files_get, &kr_api_files_get_doc}, \
    {KR_HTTP_PUT,    "/api/v1/sandboxes/{sandbox_id}/files/{path*}", KR_API_UPLOAD_MAX, KR_HTTP_STREAM_BODY, \
     kr_api_files_put, &kr_api_files_put_doc}, \
    {KR_HTTP_DELETE, "/api/v1/sandboxes/{sandbox_id}/files/{path*}", 0, 0, \
     kr_api_files_delete, &kr_api_files_delete_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/folders",       65536, 0, \
     kr_api_folders_post, &kr_api_folders_post_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/links",         65536, 0, \
     kr_api_links_post, &kr_api_links_post_doc}, \
    {KR_HTTP_GET,    "/files/{token}/{path*}",                    0, 0, kr_api_link_get, &kr_api_link_get_doc}
/* clang-format on */

/* Query strings and bodies, read by the handlers and described by the docs. */
struct kr_files_query {
    const char *path, *path_b64, *after, *after_b64;
    bool recursive, download;
    int64_t limit;
};
extern const struct kr_api_table kr_files_list_query, kr_files_get_query, kr_files_delete_query, kr_files_link_query;
struct kr_folder_request {
    const char *path;
};
extern const struct kr_api_table kr_folder_table;
struct kr_link_request {
    const char *path, *path_b64;
    int64_t expires_in;
    uint8_t expires_given;
    bool download;
};
extern const struct kr_api_table kr_link_table;
struct kr_sandbox_file_query {
    const char *sandbox_id, *file_path, *token;
    bool download;
};
extern const struct kr_api_table kr_sandbox_file_query_table;
