/* Whose message is it? The decision for a POST, from its body and three headers. Pure: unit-tested row by
 * row, and fuzzed. */
#pragma once
#include "jsonrpc.h"

struct kr_mcp_tool;

/* Header fields, blanks around them trimmed; NULL: absent. */
struct kr_mcp_heads {
    const char *version; /* MCP-Protocol-Version */
    const char *method;  /* Mcp-Method */
    const char *name;    /* Mcp-Name */
    const char *twice;   /* the name of one of them that came more than once; else NULL */
};

enum kr_mcp_way {
    KR_WAY_REFUSE,
    KR_WAY_MODERN,      /* a request of 2026-07-28 */
    KR_WAY_MODERN_NOTE, /* a notification of it: 202, nothing else */
    KR_WAY_INITIALIZE,
    KR_WAY_LEGACY, /* a request, notification or answer by the rules of sessions */
    KR_WAY_BATCH,  /* the same, several: every element is a message, none of them `initialize` */
};

struct kr_mcp_decision {
    enum kr_mcp_way way;
    int status; /* of a refusal */
    struct kr_mcp_flaw flaw;
    json_t *data;              /* of a refusal's error; new, or NULL */
    struct kr_mcp_message msg; /* borrowed from root; of a batch only the root */
    unsigned requests;         /* in a batch */
};
void kr_mcp_http_decide(const struct kr_mcp_heads *heads, json_t *root, struct kr_mcp_decision *ret);

/* Is this a revision that is opened by `initialize`? An unknown version is taken for a newer one. */
bool kr_mcp_is_legacy(const char *version);

/* Arguments whose schema says x-mcp-header, against their headers. `header` looks one up by name (NULL: absent). 0, or
 * -EINVAL with f. */
int kr_mcp_head_params(const json_t *schema, const json_t *arguments,
                       const char *(*header)(const void *data, const char *name), const void *data,
                       struct kr_mcp_flaw *f);
