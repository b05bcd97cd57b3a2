/* Handlers of the documents' REST routes, which the documents' rows (rows/sandbox_mcp.h …) name. */
#pragma once
#include "http.h"
#include "route_doc.h"

/* Document 000: sandbox_mcp_routes.c */
kr_http_handler kr_api_execute, kr_api_execute_in_sandbox, kr_api_execute_sync;
extern const struct kr_api_doc kr_api_execute_doc, kr_api_execute_in_sandbox_doc, kr_api_execute_sync_doc;

/* Document 002: sandbox_service_routes.c, sandbox_service_packages.c */
kr_http_handler kr_api_service_execute, kr_api_service_install;
extern const struct kr_api_doc kr_api_service_execute_doc, kr_api_service_install_doc, kr_api_service_install_alias_doc;

/* Document 004: mcp_sandbox_accounts.c, mcp_sandbox_sandboxes.c */
kr_http_handler kr_account_register, kr_account_token, kr_account_me, kr_account_key, kr_account_new_key;
kr_http_handler kr_account_sandboxes, kr_account_sandbox_create, kr_account_sandbox, kr_account_sandbox_delete;
extern const struct kr_api_doc kr_account_register_doc, kr_account_token_doc, kr_account_me_doc, kr_account_key_doc,
    kr_account_new_key_doc, kr_account_sandboxes_doc, kr_account_sandbox_create_doc, kr_account_sandbox_doc,
    kr_account_sandbox_delete_doc;
