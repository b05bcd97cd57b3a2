/* The registry of dialects: names, and what is in the documents' headers beside this file.
 *
 * Read by the configuration (defaults) and by whatever differs between listeners. Invariant: a default here is what the
 * dialect's own document or program says; where it says nothing, krait's default holds. */
#include "dialect.h"
#include "registry.h"
#include <assert.h>
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

#define DEFAULTS(...) ((const struct kr_dialect_default[]){__VA_ARGS__, {NULL, NULL}})

/* clang-format off */
const struct kr_dialect_row kr_dialects[] = {
    [KR_DIALECT_KRAIT] = {.defaults = (const struct kr_dialect_default[]){{NULL, NULL}}},
    [KR_DIALECT_SANDBOX_MCP] = {.document = "000", .defaults = DEFAULTS(KR_SANDBOX_MCP_DEFAULTS),
                                    KR_SANDBOX_MCP_TRAITS},
    [KR_DIALECT_PYTHON_SANDBOX] = {.document = "001", .defaults = DEFAULTS(KR_PYTHON_SANDBOX_DEFAULTS),
                                    KR_PYTHON_SANDBOX_TRAITS},
    [KR_DIALECT_SANDBOX_SERVICE] = {.document = "002", .defaults = DEFAULTS(KR_SANDBOX_SERVICE_DEFAULTS),
                                    KR_SANDBOX_SERVICE_TRAITS},
    [KR_DIALECT_PYTHON_EXECUTOR] = {.document = "003", .defaults = DEFAULTS(KR_PYTHON_EXECUTOR_DEFAULTS)},
    [KR_DIALECT_MCP_SANDBOX] = {.document = "004", .defaults = DEFAULTS(KR_MCP_SANDBOX_DEFAULTS),
                                    KR_MCP_SANDBOX_TRAITS},
};
/* clang-format on */
static_assert(sizeof kr_dialects / sizeof *kr_dialects == KR_DIALECT_MAX_, "every dialect has its row");

int kr_dialect_find(const char *name)
{
    for (int i = 0; i < KR_DIALECT_MAX_; i++)
        if (strcmp(kr_dialect_names[i], name) == 0)
            return i;
    return -1;
}

const char *kr_dialect_default(enum kr_dialect dialect, const char *flag)
{
    for (const struct kr_dialect_default *d = kr_dialects[dialect].defaults; d->flag; d++)
        if (strcmp(d->flag, flag) == 0)
            return d->value;
    return NULL;
}
