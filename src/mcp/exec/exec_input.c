/* Questions of input(): to the client in whichever way it can be asked, back to the run.
 *
 * Called by exec.c. Three ways: until 2025-11-25 a request on the call's stream; in 2026-07-28 a result that asks,
 * whose retry goes on with the very same run; in a task, through its outlet. Invariants: a run never waits for a client
 * that was not asked; no form asks for a secret; a client that declines gives the end of input, which input() raises as
 * EOFError. */
#include "exec_internal.h"
#include "clock.h"
#include "utf8.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY "line"
#define MESSAGE_MAX 2000u /* bytes of a prompt that the client is shown */
#define MS UINT64_C(1000000)

/* {"message":…,"requestedSchema":…} */
static json_t *form(const char *prompt)
{
    size_t len = kr_utf8_complete(prompt, strlen(prompt) < MESSAGE_MAX ? strlen(prompt) : MESSAGE_MAX);
    json_t *message = len > 0 ? json_stringn(prompt, len) : json_string("The program asks for a line of input.");

    return json_pack("{s:o, s:{s:s, s:{s:{s:s, s:s, s:s}}}}", "message", message, "requestedSchema", "type", "object",
                     "properties", KEY, "type", "string", "title", "Line", "description", "What input() returns");
}

/* Hands the line to the run, or with NULL the end of input. That it does not ask any more is no error: its log
 * tells. */
static void answer_input(struct kr_mcp_exec *x, const char *line, size_t len)
{
    struct kr_err err;

    x->answered = x->question;
    (void)kr_box_run_reply(x->box, &x->who.caller, x->o.run_id, line, len, &err);
}

/* The line of an answer: 1 with it; 0: declined; -EINVAL: neither. */
static int read_answer(const json_t *response, const char **ret_line, size_t *ret_len)
{
    const char *action = json_string_value(json_object_get(response, "action"));
    const json_t *line = json_object_get(json_object_get(response, "content"), KEY);

    if (!action)
        return -EINVAL;
    if (strcmp(action, "decline") == 0 || strcmp(action, "cancel") == 0)
        return 0;
    if (strcmp(action, "accept") != 0 || (line && !json_is_string(line)))
        return -EINVAL;
    *ret_line = line ? json_string_value(line) : "";
    *ret_len = line ? json_string_length(line) : 0;
    return 1;
}

static void on_answer(void *data, struct kr_mcp_call *c, const json_t *result)
{
    struct kr_mcp_exec *x = data;
    const char *line = NULL;
    size_t len = 0;

    (void)c;
    x->asked = 0;
    if (read_answer(result, &line, &len) <= 0)
        x->o.input_declined = true;
    if (!result) /* it gave none, or is gone: the run's end says so */
        kr_box_run_unanswered(x->box, &x->who.caller, x->o.run_id);
    answer_input(x, line, len);
    kr_mcp_exec_go_on(x);
}

/* The result that asks; x is gone. */
static void ask_by_result(struct kr_mcp_exec *x)
{
    struct kr_mcp_call *c = x->call;
    json_t *payload = json_pack("{s:s, s:I, s:o}", "run", x->o.run_id, "seq", (json_int_t)x->question, "form",
                                form(x->prompt ? x->prompt : ""));
    json_t *requests =
        json_pack("{s:{s:s, s:O}}", KEY, "method", "elicitation/create", "params", json_object_get(payload, "form"));

    kr_mcp_on_cancel(c, NULL, NULL);
    kr_mcp_exec_free(x);
    kr_mcp_input_required(c, requests, payload, 0);
}

static bool can_be_asked(const struct kr_mcp_exec *x)
{
    return x->ask_client && !x->password && kr_mcp_client_can(x->call, "elicitation.form");
}

bool kr_mcp_exec_ask(struct kr_mcp_exec *x)
{
    bool modern = kr_mcp_revs[kr_mcp_call_rev(x->call)].modern, task = kr_mcp_is_task(x->call);

    if (!kr_box_run_asks(x->box, &x->who.caller, x->o.run_id)) { /* another client has answered */
        x->answered = x->question;
        return false;
    }
    if (x->kind != KR_MCP_EXEC_RUNS && kr_mcp_runs_asking(x->mcp, x->o.run_id)) { /* a client has it */
        x->answered = x->question;
        return false;
    }
    if (can_be_asked(x) && modern && !task) {
        if (kr_mcp_runs_leave(x, KR_MCP_LEFT_ASKING, KR_MCP_STATE_TTL_MS) >= 0) {
            ask_by_result(x);
            return true;
        }
    } else if (can_be_asked(x) && (task || kr_mcp_may_ask(x->call)) &&
               kr_mcp_ask(x->call, "elicitation/create", form(x->prompt ? x->prompt : ""), on_answer, x) >= 0) {
        x->asked = x->question;
        return false;
    }
    x->o.input_refused = true;
    x->o.input_secret |= x->password;
    answer_input(x, NULL, 0);
    return false;
}

int kr_mcp_exec_retry(struct kr_mcp_exec *x, const json_t *payload)
{
    const char *run = json_string_value(json_object_get(payload, "run")), *line = NULL;
    const json_t *message = json_object_get(json_object_get(payload, "form"), "message");
    struct kr_mcp_call *c = x->call;
    size_t len = 0;
    int r = read_answer(kr_mcp_input_response(c, KEY), &line, &len);

    if (!run) {
        kr_mcp_on_cancel(c, NULL, NULL);
        kr_mcp_exec_free(x);
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "requestState: not of a run");
        return 1;
    }
    snprintf(x->o.run_id, sizeof x->o.run_id, "%s", run);
    x->question = (uint64_t)json_integer_value(json_object_get(payload, "seq"));
    if (r < 0 && kr_box_run_asks(x->box, &x->who.caller, run) &&
        kr_mcp_runs_leave(x, KR_MCP_LEFT_ASKING, KR_MCP_STATE_TTL_MS) >= 0) {
        x->prompt = strdup(json_string_value(message) ? json_string_value(message) : "");
        ask_by_result(x);
        return 1;
    }
    x->o.input_declined = r == 0;
    answer_input(x, line, len);
    return 0;
}
