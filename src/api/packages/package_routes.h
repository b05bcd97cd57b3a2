/* Packages of a sandbox over HTTP: install, uninstall, list, freeze, the status of one. Our own voice. */
#pragma once
#include "http.h"
#include "route_doc.h"

kr_http_handler kr_api_packages_get, kr_api_packages_install, kr_api_packages_uninstall, kr_api_package_get,
    kr_api_package_delete, kr_api_requirements_get;
extern const struct kr_api_doc kr_api_packages_get_doc, kr_api_packages_install_doc, kr_api_packages_uninstall_doc,
    kr_api_package_get_doc, kr_api_package_delete_doc, kr_api_requirements_get_doc;

#define KR_API_PACKAGES_BODY_MAX (1u << 20)
/* Rows of the one table (routes.c). */
/* clang-format off */
#define KR_API_PACKAGES_ROUTES \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}/packages",           0, 0, kr_api_packages_get, \
     &kr_api_packages_get_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/packages",           KR_API_PACKAGES_BODY_MAX, 0, \
     kr_api_packages_install, &kr_api_packages_install_doc}, \
    {KR_HTTP_POST,   "/api/v1/sandboxes/{sandbox_id}/packages/uninstall", KR_API_PACKAGES_BODY_MAX, 0, \
     kr_api_packages_uninstall, &kr_api_packages_uninstall_doc}, \
    {KR_HTTP_DELETE, "/api/v1/sandboxes/{sandbox_id}/packages/{package}", 0, 0, kr_api_package_delete, \
     &kr_api_package_delete_doc}, \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}/packages/{package}", 0, 0, kr_api_package_get, \
     &kr_api_package_get_doc}, \
    {KR_HTTP_GET,    "/api/v1/sandboxes/{sandbox_id}/requirements",       0, 0, kr_api_requirements_get, \
     &kr_api_requirements_get_doc}
/* clang-format on */
