/* Tools: one row each, from which come tools/list, the check of arguments, `krait dump tools` and the docs.
 *
 * A name may have several rows, in different dialects: execute_python of sandbox-service is not krait's. A call finds
 * the row of its own dialect, else krait's, else any: every document's tool is always callable, and listed in its
 * dialect. */
#pragma once
#include "call.h"
#include "field.h"
#include "reply_schema.h"

#define KR_DIALECT_BIT(d) (1u << (d))
#define KR_IN_KRAIT KR_DIALECT_BIT(KR_DIALECT_KRAIT)
#define KR_IN_SANDBOX_MCP KR_DIALECT_BIT(KR_DIALECT_SANDBOX_MCP)         /* document 000 */
#define KR_IN_PYTHON_SANDBOX KR_DIALECT_BIT(KR_DIALECT_PYTHON_SANDBOX)   /* 001 */
#define KR_IN_SANDBOX_SERVICE KR_DIALECT_BIT(KR_DIALECT_SANDBOX_SERVICE) /* 002 */
#define KR_IN_PYTHON_EXECUTOR KR_DIALECT_BIT(KR_DIALECT_PYTHON_EXECUTOR) /* 003 */
#define KR_IN_MCP_SANDBOX KR_DIALECT_BIT(KR_DIALECT_MCP_SANDBOX)         /* 004 */

/* Of a tool of krait's own that is called by name and in no list. */
#define KR_UNLISTED 0u

enum kr_tool_flag {
    KR_TOOL_READ_ONLY = 1 << 0, /* annotations */
    KR_TOOL_DESTRUCTIVE = 1 << 1,
    KR_TOOL_IDEMPOTENT = 1 << 2,
    KR_TOOL_OPEN_WORLD = 1 << 3,
    KR_TOOL_CORE = 1 << 4, /* one of those that `--tools core` lists */
    KR_TOOL_TASK = 1 << 5, /* may go on as a task */
};

struct kr_mcp_tool {
    const char *name, *title;
    const char *description;            /* for a model: what it does, when to use it, its limits */
    unsigned dialects;                  /* KR_IN_*: where it is listed, and whose arguments and results it has */
    unsigned flags;                     /* enum kr_tool_flag */
    unsigned needs;                     /* KR_RIGHT_* of the caller (store_user.h) */
    const struct kr_api_table *input;   /* NULL: no arguments. Rows' aliases are taken too, but not listed */
    const char *input_schema;           /* JSON, instead of the one made from `input`; `run` checks the arguments */
    const struct kr_api_schema *output; /* outputSchema; NULL: none. krait's: listed only with `structured` */
    /* args: input's struct, filled and checked, valid until the call is answered; NULL without input. */
    void (*run)(struct kr_mcp_call *c, const void *args);
};

/* krait's, in the order in which they are listed (tools_table.c); those of additions.h follow. */
extern const struct kr_mcp_tool *const kr_mcp_tools[];
extern const size_t kr_mcp_tools_count;
/* The row a call of this name means in this dialect, or NULL. */
const struct kr_mcp_tool *kr_mcp_tool_find(enum kr_dialect dialect, const char *name);
/* Is it in the list of this dialect? */
bool kr_mcp_tool_listed(const struct kr_mcp *m, enum kr_dialect dialect, const struct kr_mcp_tool *tool);
/* The row that a call of tools/call is for; NULL for other methods. */
const struct kr_mcp_tool *kr_mcp_call_tool(const struct kr_mcp_call *c);

/* ---- results ---- */

/* What a tool answers. Texts are made valid UTF-8 and cut where they pass a cap. */
struct kr_mcp_result {
    json_t *content;    /* an array of blocks; owned */
    json_t *structured; /* an object, or NULL; owned */
    bool is_error;
};
void kr_mcp_result_init(struct kr_mcp_result *r);
#define KR_MCP_TEXT_MAX (1u << 20)   /* bytes of one text block, of any tool */
#define KR_MCP_JSON_MAX (5u << 19)   /* of one that is JSON: with its structure, escaped, it fits KR_MCP_RESULT_MAX */
#define KR_MCP_IMAGE_MAX (5u << 20)  /* bytes of one image, before base64; larger ones are left out and said */
#define KR_MCP_RESULT_MAX (8u << 20) /* of one whole message: clients drop a line past 10 MiB */
/* Any bytes as a JSON string; what is no UTF-8 becomes U+FFFD. A reference for the caller, or NULL without memory. */
json_t *kr_mcp_text_value(const char *text, size_t len);
void kr_mcp_add_text(struct kr_mcp_result *r, const char *text, size_t len);
void kr_mcp_add_textf(struct kr_mcp_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* data is base64 already. */
void kr_mcp_add_image(struct kr_mcp_result *r, const char *base64, size_t len, const char *mime);
void kr_mcp_add_audio(struct kr_mcp_result *r, const char *base64, size_t len, const char *mime);
/* A resource_link; size < 0: not known. Other texts but uri and name may be NULL. */
void kr_mcp_add_link(struct kr_mcp_result *r, const char *uri, const char *name, const char *description,
                     const char *mime, int64_t size);
/* An embedded resource: {uri, mimeType, text|blob}. */
void kr_mcp_add_resource_text(struct kr_mcp_result *r, const char *uri, const char *mime, const char *text, size_t len);
void kr_mcp_add_resource_blob(struct kr_mcp_result *r, const char *uri, const char *mime, const char *base64,
                              size_t len);
/* A value as text: compact, or with two blanks of indentation. */
void kr_mcp_add_json(struct kr_mcp_result *r, const json_t *value, int indent);
/* Answers the call with it, as its revision allows (links become text where there are none, structure is left out …).
 * Frees what the result holds. */
void kr_mcp_tool_done(struct kr_mcp_call *c, struct kr_mcp_result *r);
/* A result that is one text and an error: arguments to mend, a sandbox that is not there. */
void kr_mcp_tool_refuse(struct kr_mcp_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for an error of the domain: its text if it is public. */
struct kr_err;
void kr_mcp_tool_fail(struct kr_mcp_call *c, const struct kr_err *err);
