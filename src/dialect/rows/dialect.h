/* Dialects: whose names, defaults and result shapes a client meets. A listener has one; an MCP client may ask for
 * another.
 *
 * A dialect is a row of kr_dialects[] (dialect.c), and a document's row is written in a header of its own beside this
 * file: sandbox_mcp.h, python_sandbox.h, sandbox_service.h, python_executor.h, mcp_sandbox.h. There are its defaults,
 * its REST routes and its MCP tools; THE table of routes (src/api/routes) and THE table of tools (src/mcp/tools) take
 * them from KR_DIALECT_ROUTES and KR_DIALECT_TOOLS (registry.h). What the routes and tools do is in src/dialect, in
 * files that begin with the document's name. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum kr_dialect {
    KR_DIALECT_KRAIT,
    KR_DIALECT_SANDBOX_MCP,
    KR_DIALECT_PYTHON_SANDBOX,
    KR_DIALECT_SANDBOX_SERVICE,
    KR_DIALECT_PYTHON_EXECUTOR,
    KR_DIALECT_MCP_SANDBOX,
    KR_DIALECT_MAX_,
};

/* A setting for which a dialect's document has another default than krait. */
struct kr_dialect_default {
    const char *flag;  /* of the setting */
    const char *value; /* as in a file of settings */
};

struct kr_dialect_row {
    const char *document;                      /* "000"; NULL: krait's own dialect */
    const struct kr_dialect_default *defaults; /* ends with a row of NULLs */
    bool docs_need_debug;                      /* the page /docs is there only with --debug */
    bool mcp_get_is_sse;                       /* GET /mcp without a session opens the older SSE transport */
    bool max_timeout_is_timeout; /* max-timeout, where it is given, is also the time of a run that asks for none */
    bool reads_config_toml;      /* a config.toml in the current folder is the document's file of settings */
    bool mcp_reads_dotenv;       /* `krait mcp` reads names that are krait's or the document's in .env of its folder */
    bool timeout_is_error;       /* a run that timed out is logged as an error, else at info */
    bool logs_code;              /* the log has the first 100 characters of a run's code at info, not only at debug */
};
extern const struct kr_dialect_row kr_dialects[KR_DIALECT_MAX_];

/* "krait", "sandbox-mcp" …; NULL terminated. */
extern const char *const kr_dialect_names[KR_DIALECT_MAX_ + 1];

/* The dialect of that name, or -1. */
int kr_dialect_find(const char *name);
/* What the dialect's document says of this setting, or NULL: then krait's own default holds. */
const char *kr_dialect_default(enum kr_dialect dialect, const char *flag);
