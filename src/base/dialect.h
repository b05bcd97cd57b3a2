/* Dialects: whose names, defaults and result shapes speak. A listener has one, and an MCP client may ask for another. */
#pragma once

enum kr_dialect {
    KR_DIALECT_KRAIT,
    KR_DIALECT_SANDBOX_MCP,
    KR_DIALECT_PYTHON_SANDBOX,
    KR_DIALECT_SANDBOX_SERVICE,
    KR_DIALECT_PYTHON_EXECUTOR,
    KR_DIALECT_MCP_SANDBOX,
    KR_DIALECT_MAX_,
};

/* "krait", "sandbox-mcp" …; NULL terminated. */
extern const char *const kr_dialect_names[KR_DIALECT_MAX_ + 1];

/* The dialect of that name, or -1. */
int kr_dialect_find(const char *name);
