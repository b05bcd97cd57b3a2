/* JSON-RPC 2.0 as MCP uses it: from text to a message, and from a message to text. Pure. */
#pragma once
#include "peer.h"
#include <jansson.h>

struct kr_buf;

/* What is wrong with a text or a message. */
struct kr_mcp_flaw {
    int code; /* KR_RPC_*; 0: nothing */
    char text[200];
};
/* Fills *f and returns -EINVAL. */
int kr_mcp_flaw_set(struct kr_mcp_flaw *f, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Bounded before anything is allocated: length, nesting, number of values. *ret_root is the caller's. Any JSON value
 * passes, duplicate members do not. 0 or -EINVAL with f; rpc_id.h finds the id then. May be called from any thread. */
#define KR_MCP_VALUES_MAX 100000u
int kr_mcp_parse(const char *text, size_t len, json_t **ret_root, struct kr_mcp_flaw *f);

enum kr_mcp_kind {
    KR_MCP_REQUEST,
    KR_MCP_NOTIFICATION,
    KR_MCP_RESPONSE, /* to a question of ours */
    KR_MCP_BATCH,    /* an array; its elements are not looked at */
};
/* Everything is borrowed from the value it was made of. */
struct kr_mcp_message {
    enum kr_mcp_kind kind;
    json_t *root;
    json_t *id; /* string or number; NULL in a notification */
    const char *method;
    json_t *params; /* an object, or NULL */
    json_t *result; /* of a response; NULL: it is an error */
};
/* What it is. 0 or -EINVAL with f; m->id is set also then if one could be read, for the answer. */
int kr_mcp_classify(json_t *root, struct kr_mcp_message *m, struct kr_mcp_flaw *f);

/* params._meta[key], or NULL. */
json_t *kr_mcp_meta(const struct kr_mcp_message *m, const char *key);
#define KR_MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define KR_MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define KR_MCP_META_CLIENT "io.modelcontextprotocol/clientInfo"
#define KR_MCP_META_LEVEL "io.modelcontextprotocol/logLevel"
#define KR_MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define KR_MCP_META_SUBSCRIPTION "io.modelcontextprotocol/subscriptionId"

/* The envelope of 2026-07-28 in a request that claims a version. */
enum kr_mcp_envelope {
    KR_MCP_NO_CLAIM,     /* no version in params._meta: an older client */
    KR_MCP_BAD_ENVELOPE, /* claims one, but not as it must: f says what */
    KR_MCP_NOT_SERVED,   /* well-formed, a version that we do not have */
    KR_MCP_MODERN,
};
enum kr_mcp_envelope kr_mcp_envelope(const struct kr_mcp_message *m, struct kr_mcp_flaw *f);
/* {"supported":[…],"requested":…} for -32022. New. */
json_t *kr_mcp_versions(const char *requested);

/* ---- out ---- */

/* Appends one line of JSON. 0 or -errno of the buffer. `id` may be NULL: then there is none. */
int kr_mcp_write_result(struct kr_buf *out, const json_t *id, const json_t *result);
/* The result alone in what kr_mcp_write_result() wrote for an id that is a number; *len becomes its length. */
const char *kr_mcp_result_text(const char *json, size_t *len);
int kr_mcp_write_error(struct kr_buf *out, const json_t *id, int code, const char *text, const json_t *data);
int kr_mcp_write_note(struct kr_buf *out, const char *method, const json_t *params);
int kr_mcp_write_ask(struct kr_buf *out, uint64_t id, const char *method, const json_t *params);
