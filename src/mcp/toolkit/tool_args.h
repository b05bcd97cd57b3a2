/* The arguments of a tools/call: from what the client sent to the struct of the tool's table. */
#pragma once
#include "tool.h"

struct kr_err;
struct kr_mcp_args;

/* Checks `arguments` (NULL: {}) by the tool's table. 0 with what the tool's run() is given, owned; or -EINVAL with err
 * naming what is wrong, -ENOMEM. */
int kr_mcp_args_parse(const struct kr_mcp_tool *tool, json_t *arguments, struct kr_mcp_args **ret_args,
                      struct kr_err *err);
const void *kr_mcp_args_struct(const struct kr_mcp_args *args); /* NULL for a tool without a table */
void kr_mcp_args_free(void *args);                              /* takes NULL */
