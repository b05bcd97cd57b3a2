/* The names of the dialects. What each fixes about settings is in src/cli/config/dialects.c, its tools are in src/mcp. */
#include "dialect.h"
#include <assert.h>
#include <stddef.h>
#include <string.h>

const char *const kr_dialect_names[] = {
    [KR_DIALECT_KRAIT] = "krait",
    [KR_DIALECT_SANDBOX_MCP] = "sandbox-mcp",
    [KR_DIALECT_PYTHON_SANDBOX] = "python-sandbox",
    [KR_DIALECT_SANDBOX_SERVICE] = "sandbox-service",
    [KR_DIALECT_PYTHON_EXECUTOR] = "python-executor",
    [KR_DIALECT_MCP_SANDBOX] = "mcp-sandbox",
    NULL,
};
static_assert(sizeof kr_dialect_names / sizeof *kr_dialect_names == KR_DIALECT_MAX_ + 1, "every dialect has its name");

int kr_dialect_find(const char *name)
{
    for (int i = 0; i < KR_DIALECT_MAX_; i++)
        if (strcmp(kr_dialect_names[i], name) == 0)
            return i;
    return -1;
}
