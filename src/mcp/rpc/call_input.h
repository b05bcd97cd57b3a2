/* Asking the client in the middle of a call, in whichever way it can be asked: a request on the call's stream (until
 * 2025-11-25), a result of `input_required` whose retry brings the answer (2026-07-28), an input request of a task. */
#pragma once
#include "call.h"

/* ---- 2026-07-28: results that ask ---- */

#define KR_MCP_STATE_TTL_MS (10u * 60 * 1000)
/* Answers the call with resultType "input_required". `requests` ({"key": {"method","params"}}) is taken and may be
 * NULL; `payload` (taken, any JSON, small) comes back through kr_mcp_state_open() when the client retries: it is
 * encrypted or at least signed, bound to the caller, the method, the tool's or prompt's name and the digest of its
 * arguments, expires after ttl_ms (0: KR_MCP_STATE_TTL_MS) and is good once. */
void kr_mcp_input_required(struct kr_mcp_call *c, json_t *requests, json_t *payload, uint64_t ttl_ms);
/* Is this call such a retry? 1 with its payload (a reference for the caller); 0: it is no retry (no requestState);
 * negative: forged, expired, used or another's: it has been answered with an error. */
int kr_mcp_state_open(struct kr_mcp_call *c, json_t **ret_payload);
/* The client's answer to one of the requests (params.inputResponses), borrowed; NULL: it gave none, or one that is not
 * an object. */
const json_t *kr_mcp_input_response(const struct kr_mcp_call *c, const char *key);

/* ---- tasks ---- */

/* Goes on as a task: the client gets its handle now, and the call's answer is kept for it. 0; -ENOTSUP: this client
 * takes none (it neither sent params.task in 2025-11-25 nor declared the extension in 2026-07-28), or the call is one
 * already. Bounded per user: -EBUSY. */
int kr_mcp_task_begin(struct kr_mcp_call *c);
/* The client asked for a task with this very call (params.task, 2025-11-25). */
bool kr_mcp_task_wanted(const struct kr_mcp_call *c);
bool kr_mcp_task_possible(const struct kr_mcp_call *c);
bool kr_mcp_is_task(const struct kr_mcp_call *c);
