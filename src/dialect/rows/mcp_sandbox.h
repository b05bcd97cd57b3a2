/* Document 004, mcp-sandbox: MCP tools over named sandboxes, links to the files that code made, and accounts.
 *
 * Its code: src/dialect/mcp_sandbox_tools.c, mcp_sandbox_packages.c, mcp_sandbox_accounts.c, mcp_sandbox_sandboxes.c;
 * the route of its links is src/api/files/file_link.c. */
#pragma once

/* clang-format off */
/* The document has no time limit: the default is krait's ceiling. */
#define KR_MCP_SANDBOX_DEFAULTS \
    { "port",                   "8181" }, \
    { "timeout",                "1h" }, \
    { "memory",                 "1G" }, \
    { "max-sandboxes-per-user", "3" }, \
    { "login-ttl",              "300m" }, \
    { "allow-registration",     "true" }

#define KR_MCP_SANDBOX_TRAITS .reads_config_toml = true

#define KR_MCP_SANDBOX_ROUTES \
    {KR_HTTP_POST,   "/api/register",                      KR_ACCOUNTS_BODY_MAX, 0, \
     kr_account_register, &kr_account_register_doc}, \
    {KR_HTTP_POST,   "/api/token",                         KR_ACCOUNTS_BODY_MAX, 0, \
     kr_account_token, &kr_account_token_doc}, \
    {KR_HTTP_GET,    "/api/users/me",                      0, 0, kr_account_me, &kr_account_me_doc}, \
    {KR_HTTP_GET,    "/api/users/me/api-key",              0, 0, kr_account_key, &kr_account_key_doc}, \
    {KR_HTTP_POST,   "/api/users/me/api-key/regenerate",   0, 0, kr_account_new_key, &kr_account_new_key_doc}, \
    {KR_HTTP_GET,    "/api/users/me/sandboxes",            0, 0, kr_account_sandboxes, &kr_account_sandboxes_doc}, \
    {KR_HTTP_POST,   "/api/users/me/sandboxes",            KR_ACCOUNTS_BODY_MAX, 0, \
     kr_account_sandbox_create, &kr_account_sandbox_create_doc}, \
    {KR_HTTP_GET,    "/api/users/me/sandboxes/{sandbox_id}",  0, 0, kr_account_sandbox, &kr_account_sandbox_doc}, \
    {KR_HTTP_DELETE, "/api/users/me/sandboxes/{sandbox_id}",  0, 0, \
     kr_account_sandbox_delete, &kr_account_sandbox_delete_doc}, \
    {KR_HTTP_GET,    "/sandbox/file",                      0, 0, kr_api_sandbox_file, &kr_api_sandbox_file_doc}

#define KR_MCP_SANDBOX_TOOLS \
    &kr_tool_mcp_sandbox_create, \
    &kr_tool_mcp_sandbox_list, \
    &kr_tool_mcp_sandbox_execute, \
    &kr_tool_mcp_sandbox_install, \
    &kr_tool_mcp_sandbox_status, \
    &kr_tool_mcp_sandbox_command, \
    &kr_tool_mcp_sandbox_upload, \
    &kr_tool_mcp_sandbox_delete, \
    &kr_tool_mcp_sandbox_create_env, \
    &kr_tool_mcp_sandbox_list_envs
/* clang-format on */
