/* The table of dialects: what each document fixes about address, port, limits and numbers.
 *
 * Read by config_check.c and the texts. Invariant: a value here is what the dialect's own document or program says, never
 * a taste of ours; where it says nothing, krait's default holds. */
#include "dialects.h"
#include <string.h>

/* A host of 0.0.0.0 holds only if a key guards it; see config_check.c. */
/* clang-format off */
const struct kr_dialect_default kr_dialect_defaults[] = {
    { KR_DIALECT_SANDBOX_MCP, "host",             "0.0.0.0" },
    { KR_DIALECT_SANDBOX_MCP, "port",             "16010" },
    { KR_DIALECT_SANDBOX_MCP, "max-sessions",     "10" },
    { KR_DIALECT_SANDBOX_MCP, "idle-timeout",     "300s" },
    { KR_DIALECT_SANDBOX_MCP, "cleanup-interval", "60s" },
    { KR_DIALECT_SANDBOX_MCP, "pool-size",        "3" },
    { KR_DIALECT_SANDBOX_MCP, "timeout",          "30s" },
    { KR_DIALECT_SANDBOX_MCP, "max-timeout",      "30s" },
    { KR_DIALECT_SANDBOX_MCP, "memory",           "512M" },

    { KR_DIALECT_PYTHON_SANDBOX, "host",        "0.0.0.0" },
    { KR_DIALECT_PYTHON_SANDBOX, "port",        "9000" },
    { KR_DIALECT_PYTHON_SANDBOX, "timeout",     "30s" },
    { KR_DIALECT_PYTHON_SANDBOX, "max-timeout", "300s" },
    { KR_DIALECT_PYTHON_SANDBOX, "memory",      "128M" },
    { KR_DIALECT_PYTHON_SANDBOX, "output",      "1M" },

    { KR_DIALECT_SANDBOX_SERVICE, "host",        "0.0.0.0" },
    { KR_DIALECT_SANDBOX_SERVICE, "port",        "8001" },
    { KR_DIALECT_SANDBOX_SERVICE, "timeout",     "30s" },
    { KR_DIALECT_SANDBOX_SERVICE, "max-timeout", "120s" },
    { KR_DIALECT_SANDBOX_SERVICE, "memory",      "512M" },

    { KR_DIALECT_PYTHON_EXECUTOR, "host",        "0.0.0.0" },
    { KR_DIALECT_PYTHON_EXECUTOR, "port",        "8000" },
    { KR_DIALECT_PYTHON_EXECUTOR, "timeout",     "60s" },
    { KR_DIALECT_PYTHON_EXECUTOR, "max-timeout", "300s" },
    { KR_DIALECT_PYTHON_EXECUTOR, "memory",      "2G" },
    { KR_DIALECT_PYTHON_EXECUTOR, "cpu",         "2" },

    /* It has no time limit of its own: the default is krait's ceiling. */
    { KR_DIALECT_MCP_SANDBOX, "port",                   "8181" },
    { KR_DIALECT_MCP_SANDBOX, "timeout",                "1h" },
    { KR_DIALECT_MCP_SANDBOX, "memory",                 "1G" },
    { KR_DIALECT_MCP_SANDBOX, "max-sandboxes-per-user", "3" },
    { KR_DIALECT_MCP_SANDBOX, "login-ttl",              "300m" },
    { KR_DIALECT_MCP_SANDBOX, "allow-registration",     "true" },
};
/* clang-format on */
const size_t kr_dialect_defaults_count = sizeof kr_dialect_defaults / sizeof *kr_dialect_defaults;

const char *kr_dialect_default(enum kr_dialect dialect, const char *flag)
{
    for (size_t i = 0; i < kr_dialect_defaults_count; i++)
        if (kr_dialect_defaults[i].dialect == dialect && strcmp(kr_dialect_defaults[i].flag, flag) == 0)
            return kr_dialect_defaults[i].value;
    return NULL;
}
