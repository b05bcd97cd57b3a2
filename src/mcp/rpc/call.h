/* One request of an MCP client on its way to its answer: what handlers of methods and tools see of the protocol.
 *
 * A call is answered exactly once, by kr_mcp_reply() or kr_mcp_fail() (tools: kr_mcp_tool_done(), tool.h), now or
 * later; the pointer is dead when that returns. If the client cancels or leaves first, on_cancel is called once and the
 * pointer is dead when that returns. Between the handler's return and that, everything here may be called at any time
 * from the loop thread. No function of this header calls back into its caller. json_t * marked "taken" are stolen, also
 * on failure. docs/design/mcp.md tells how messages reach it. */
#pragma once
#include "caller.h"
#include "dialect.h"
#include "rev.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_api;
struct kr_mcp;
struct kr_mcp_call;

/* JSON-RPC's codes and MCP's own. */
enum kr_mcp_code {
    KR_RPC_PARSE = -32700,
    KR_RPC_INVALID_REQUEST = -32600,
    KR_RPC_NO_METHOD = -32601,
    KR_RPC_INVALID_PARAMS = -32602,
    KR_RPC_INTERNAL = -32603,
    KR_RPC_NO_RESOURCE = -32002, /* until 2025-11-25 */
    KR_RPC_HEADER_MISMATCH = -32020,
    KR_RPC_NO_CAPABILITY = -32021,
    KR_RPC_NO_VERSION = -32022,
};

/* ---- who asks what ---- */

struct kr_mcp *kr_mcp_of(const struct kr_mcp_call *c);
struct kr_api *kr_mcp_api(const struct kr_mcp_call *c);             /* domain, store, links, configuration */
const struct kr_caller *kr_mcp_caller(const struct kr_mcp_call *c); /* its texts live as long as the call */
enum kr_mcp_rev kr_mcp_call_rev(const struct kr_mcp_call *c);
enum kr_dialect kr_mcp_call_dialect(const struct kr_mcp_call *c);
bool kr_mcp_structured(
    const struct kr_mcp_call *c); /* KRAIT_STRUCTURED, ?structured=1: ours answer with a structure too */
/* The session of its MCP session, in which its calls run that name none; NULL: `main`. */
const char *kr_mcp_own_session(const struct kr_mcp_call *c);
/* The same for its shell commands; else `terminal`. */
const char *kr_mcp_own_terminal(const struct kr_mcp_call *c);
#define KR_MCP_OWN_ROOM 16u                        /* of the first name; the second has an ending more */
bool kr_mcp_is_core(const struct kr_mcp_call *c);  /* it was asked for krait's core tools alone */
bool kr_mcp_is_local(const struct kr_mcp_call *c); /* a stdio client: the machine's files are its own */
const char *kr_mcp_call_method(const struct kr_mcp_call *c);
json_t *kr_mcp_params(const struct kr_mcp_call *c); /* borrowed; always an object */
/* Did the client declare it, with this request (2026-07-28) or when it opened (before)? A dotted path into its
 * capabilities: "elicitation", "elicitation.url", "sampling", "roots". Empty elicitation means forms. */
bool kr_mcp_client_can(const struct kr_mcp_call *c, const char *capability);
bool kr_mcp_client_extends(const struct kr_mcp_call *c, const char *extension); /* capabilities.extensions has it */
bool kr_mcp_has_token(const struct kr_mcp_call *c);                             /* wants progress */
/* Is it known for showing a model the first block of a result alone? */
bool kr_mcp_client_reads_first(const struct kr_mcp_call *c);
/* For links in results: "http://host:port" as the client sees us, or "" (stdio). */
const char *kr_mcp_base_url(const struct kr_mcp_call *c);

/* ---- meanwhile ---- */

/* Without a token nothing is sent. `progress` must rise; one that does not is dropped. total < 0: unknown. More than
 * one in KR_MCP_PROGRESS_MS is dropped unless it is the first or reaches the total. message may be NULL. */
#define KR_MCP_PROGRESS_MS 100u
void kr_mcp_progress(struct kr_mcp_call *c, double progress, double total, const char *message);

enum kr_mcp_level {
    KR_MCP_DEBUG,
    KR_MCP_INFO,
    KR_MCP_NOTICE,
    KR_MCP_WARNING,
    KR_MCP_ERROR,
    KR_MCP_CRITICAL,
    KR_MCP_ALERT,
    KR_MCP_EMERGENCY,
    KR_MCP_LEVEL_MAX_,
};
extern const char *const kr_mcp_level_names[KR_MCP_LEVEL_MAX_ + 1];
/* notifications/message, if the client asked for this level (logging/setLevel, or logLevel of this request). `data` is
 * taken. */
void kr_mcp_log(struct kr_mcp_call *c, enum kr_mcp_level level, const char *logger, json_t *data);

/* A request of ours to the client (elicitation/create, sampling/createMessage, roots/list), before 2026-07-28 only, on
 * the stream of the call. params is taken. on_answer comes once: with the result, or with NULL (error, or the client
 * left the question open past KR_MCP_ASK_MS, or has been without a connection for KR_MCP_GONE_MS); not after on_cancel.
 * 0; -ENOTSUP: this client or this transport cannot be asked. */
#define KR_MCP_ASK_MS (10u * 60 * 1000)
#define KR_MCP_GONE_MS (10u * 1000)
typedef void kr_mcp_answer_fn(void *data, struct kr_mcp_call *c, const json_t *result);
int kr_mcp_ask(struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer, void *data);
bool kr_mcp_may_ask(const struct kr_mcp_call *c);
/* What was asked with that data is of no interest any more: the client is notified, on_answer does not come. */
void kr_mcp_unask(struct kr_mcp_call *c, const void *data);

/* What to call when the client cancels or leaves. Again: replaces. */
void kr_mcp_on_cancel(struct kr_mcp_call *c, void (*on_cancel)(void *data, struct kr_mcp_call *c), void *data);
/* What it is doing, for people who look at its task: called with the data of on_cancel until that is replaced. "": no
 * more than its status says. */
#define KR_MCP_STATUS_ROOM 128
typedef const char *kr_mcp_status_fn(void *data, char *buf, size_t size);
void kr_mcp_on_status(struct kr_mcp_call *c, kr_mcp_status_fn *on_status);
const char *kr_mcp_status(const struct kr_mcp_call *c, char *buf, size_t size);

/* ---- the answer ---- */

/* The result object, taken. What the revision wants on top is added here: resultType "complete" unless there is one,
 * _meta with the server's name, ttlMs and cacheScope by the method's row. */
void kr_mcp_reply(struct kr_mcp_call *c, json_t *result);
/* The result to come says why the call was refused: a wire that has statuses shows the kind (enum kr_err_kind). The
 * first kind counts. */
void kr_mcp_refused(struct kr_mcp_call *c, int kind);
/* An error; data (may be NULL) is taken. The HTTP status follows from the code and the revision. */
void kr_mcp_fail(struct kr_mcp_call *c, int code, json_t *data, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- living on without the request: tasks ---- */

/* Where a call that goes on as a task speaks to from now on. `result` and `data` are borrowed. */
struct kr_mcp_outlet {
    void (*on_reply)(void *data, struct kr_mcp_call *c,
                     json_t *result); /* as given to kr_mcp_reply(), without additions */
    void (*on_fail)(void *data, struct kr_mcp_call *c, int code, json_t *error_data, const char *text);
    /* As kr_mcp_ask(); 0 or -ENOTSUP. on_answer is to be called with `answer_data`. */
    int (*on_ask)(void *data, struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer,
                  void *answer_data);
    /* As kr_mcp_unask(). */
    void (*on_unask)(void *data, const void *answer_data);
};
/* The request is answered with `created` (taken; additions as by kr_mcp_reply()) and the call lives on: it is no longer
 * cancelled by the peer's leaving, progress and log messages go nowhere, and its answer goes to the outlet, after which
 * the pointer is dead. caller, params, dialect, revision and client capabilities stay what they were. */
void kr_mcp_call_detach(struct kr_mcp_call *c, json_t *created, const struct kr_mcp_outlet *outlet, void *data);
/* Ends a detached call from outside (tasks/cancel, expiry): on_cancel is called, then it is dead. */
void kr_mcp_call_end(struct kr_mcp_call *c);
