/* Fixtures that ask the client by a result (2026-07-28): input_required, and its retry. Called through THE table of
 * tools and that of prompts. */
#include "fixture.h"
#include "input.h"
#include "tool.h"
#include <stdio.h>
#include <string.h>

#define NAME_FORM "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"}},\"required\":[\"name\"]}"
#define COLOR_FORM "{\"type\":\"object\",\"properties\":{\"color\":{\"type\":\"string\"}},\"required\":[\"color\"]}"
#define OK_FORM "{\"type\":\"object\",\"properties\":{\"ok\":{\"type\":\"boolean\"}},\"required\":[\"ok\"]}"
#define CONTEXT_FORM                                                                                                   \
    "{\"type\":\"object\",\"properties\":{\"context\":{\"type\":\"string\"}},\"required\":[\"context\"]}"

/* ---- requests ---- */

static json_t *elicit(const char *message, const char *schema)
{
    return json_pack("{s:s, s:o}", "method", "elicitation/create", "params", kr_fixture_form(message, schema));
}

static json_t *sample(void)
{
    return json_pack("{s:s, s:{s:[{s:s, s:{s:s, s:s}}], s:i}}", "method", "sampling/createMessage", "params",
                     "messages", "role", "user", "content", "type", "text", "text", "What is the capital of France?",
                     "maxTokens", 100);
}

static json_t *list_roots(void)
{
    return json_pack("{s:s, s:{}}", "method", "roots/list", "params");
}

/* False: it is answered, since the revision or the client has it not. */
static bool client_has(struct kr_mcp_call *c, const char *capability)
{
    if (!kr_mcp_revs[kr_mcp_call_rev(c)].modern) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "this fixture is for clients of 2026-07-28");
        return false;
    }
    if (kr_mcp_client_can(c, capability))
        return true;
    kr_mcp_fail(c, KR_RPC_NO_CAPABILITY, json_pack("{s:{s:{}}}", "requiredCapabilities", capability),
                "this tool needs the client's capability %s", capability);
    return false;
}

/* ---- one question, without a state ---- */

static void mrtr_elicitation(struct kr_mcp_call *c, const void *args)
{
    const char *name = kr_fixture_field(kr_mcp_input_response(c, "user_name"), "name");

    (void)args;
    if (!client_has(c, "elicitation"))
        return;
    if (name)
        kr_fixture_say(c, "Hello, %.512s!", name);
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "user_name", elicit("What is your name?", NAME_FORM)), NULL, 0);
}

static void mrtr_sampling(struct kr_mcp_call *c, const void *args)
{
    const json_t *answer = kr_mcp_input_response(c, "capital");
    const char *text = json_string_value(json_object_get(json_object_get(answer, "content"), "text"));

    (void)args;
    if (!client_has(c, "sampling"))
        return;
    if (answer)
        kr_fixture_say(c, "LLM response: %.2048s", text ? text : "(no text)");
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "capital", sample()), NULL, 0);
}

static void mrtr_list_roots(struct kr_mcp_call *c, const void *args)
{
    const json_t *answer = kr_mcp_input_response(c, "roots");

    (void)args;
    if (!client_has(c, "roots"))
        return;
    if (answer)
        kr_fixture_say(c, "%zu roots", json_array_size(json_object_get(answer, "roots")));
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "roots", list_roots()), NULL, 0);
}

static void streaming_elicitation(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    if (!client_has(c, "elicitation"))
        return;
    if (kr_mcp_input_response(c, "ok"))
        kr_fixture_say(c, "answered");
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "ok", elicit("Go on?", OK_FORM)), NULL, 0);
}

/* Asks for what the client declared, and for nothing else. */
static void mrtr_capabilities(struct kr_mcp_call *c, const void *args)
{
    json_t *requests;

    (void)args;
    if (json_object_get(kr_mcp_params(c), "inputResponses")) {
        kr_fixture_say(c, "answered");
        return;
    }
    requests = json_object();
    if (kr_mcp_client_can(c, "elicitation"))
        json_object_set_new(requests, "ok", elicit("Go on?", OK_FORM));
    if (kr_mcp_client_can(c, "sampling"))
        json_object_set_new(requests, "capital", sample());
    if (kr_mcp_client_can(c, "roots"))
        json_object_set_new(requests, "roots", list_roots());
    if (json_object_size(requests) > 0) {
        kr_mcp_input_required(c, requests, NULL, 0);
        return;
    }
    json_decref(requests);
    client_has(c, "elicitation");
}

/* ---- with a state ---- */

static void mrtr_request_state(struct kr_mcp_call *c, const void *args)
{
    json_t *payload = NULL;
    int r;

    (void)args;
    if (!client_has(c, "elicitation") || (r = kr_mcp_state_open(c, &payload)) < 0)
        return;
    json_decref(payload);
    if (r > 0 && kr_mcp_input_response(c, "ok"))
        kr_fixture_say(c, "state-ok");
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "ok", elicit("Go on?", OK_FORM)), json_string("asked"), 0);
}

static void mrtr_multiple_inputs(struct kr_mcp_call *c, const void *args)
{
    json_t *payload = NULL;
    int r;

    (void)args;
    if (!client_has(c, "elicitation") || (r = kr_mcp_state_open(c, &payload)) < 0)
        return;
    json_decref(payload);
    if (r > 0 && kr_mcp_input_response(c, "user_name") && kr_mcp_input_response(c, "capital") &&
        kr_mcp_input_response(c, "roots"))
        kr_fixture_say(c, "all three were answered");
    else
        kr_mcp_input_required(c,
                              json_pack("{s:o, s:o, s:o}", "user_name", elicit("What is your name?", NAME_FORM),
                                        "capital", sample(), "roots", list_roots()),
                              json_string("asked"), 0);
}

static void ask_color(struct kr_mcp_call *c, const char *name)
{
    kr_mcp_input_required(c, json_pack("{s:o}", "color", elicit("What is your favorite color?", COLOR_FORM)),
                          json_pack("{s:s}", "name", name), 0);
}

/* The state tells which round it is: a string, then an object with what the first brought. */
static void mrtr_multi_round(struct kr_mcp_call *c, const void *args)
{
    const char *name = kr_fixture_field(kr_mcp_input_response(c, "user_name"), "name");
    const char *color = kr_fixture_field(kr_mcp_input_response(c, "color"), "color");
    json_t *payload = NULL;
    char kept[256] = "";
    int r;

    (void)args;
    if (!client_has(c, "elicitation") || (r = kr_mcp_state_open(c, &payload)) < 0)
        return;
    if (json_is_object(payload))
        snprintf(kept, sizeof kept, "%s", json_string_value(json_object_get(payload, "name")));
    json_decref(payload);
    if (kept[0] && color)
        kr_fixture_say(c, "%s likes %.512s", kept, color);
    else if (kept[0])
        ask_color(c, kept);
    else if (r > 0 && name)
        ask_color(c, name);
    else
        kr_mcp_input_required(c, json_pack("{s:o}", "user_name", elicit("What is your name?", NAME_FORM)),
                              json_string("asked"), 0);
}

/* ---- and then a task ---- */

static void on_task_time(struct kr_fixture_later *l)
{
    char name[sizeof l->text];

    snprintf(name, sizeof name, "%s", l->text);
    kr_fixture_say(kr_fixture_later_end(l), "Hello, %s!", name);
}

static void tool_with_task(struct kr_mcp_call *c, const void *args)
{
    const char *name = kr_fixture_field(kr_mcp_input_response(c, "user_name"), "name");
    struct kr_fixture_later *l;
    json_t *payload = NULL;
    int r;

    (void)args;
    if (!client_has(c, "elicitation") || (r = kr_mcp_state_open(c, &payload)) < 0)
        return;
    json_decref(payload);
    if (r == 0 || !name) {
        kr_mcp_input_required(c, json_pack("{s:o}", "user_name", elicit("What is your name?", NAME_FORM)),
                              json_string("asked"), 0);
        return;
    }
    kr_mcp_task_begin(c);
    l = kr_fixture_later_new(c, on_task_time, 200);
    if (l)
        snprintf(l->text, sizeof l->text, "%s", name);
}

/* ---- a prompt ---- */

void kr_fixture_asking_prompt(struct kr_mcp_call *c, const char *const *values)
{
    const char *context = kr_fixture_field(kr_mcp_input_response(c, "user_context"), "context");
    char text[1024];

    (void)values;
    if (!client_has(c, "elicitation"))
        return;
    if (!context) {
        kr_mcp_input_required(c, json_pack("{s:o}", "user_context", elicit("What is it about?", CONTEXT_FORM)), NULL,
                              0);
        return;
    }
    snprintf(text, sizeof text, "Use this context: %.512s", context);
    kr_mcp_prompt_text(c, "A prompt that asked first", text);
}

/* ---- rows ---- */

/* clang-format off */
#define ROW(symbol, name_, what, run_) \
    const struct kr_mcp_tool kr_fixture_##symbol = {KR_MCP_FIXTURE_ROW(name_, what, run_), .flags = KR_TOOL_FIXTURE}
ROW(streaming_elicitation, "test_streaming_elicitation", "asks, and sends no request on the stream.", streaming_elicitation);
ROW(mrtr_elicitation, "test_input_required_result_elicitation", "asks for a name.", mrtr_elicitation);
ROW(mrtr_sampling, "test_input_required_result_sampling", "asks the client's model.", mrtr_sampling);
ROW(mrtr_list_roots, "test_input_required_result_list_roots", "asks for roots.", mrtr_list_roots);
ROW(mrtr_request_state, "test_input_required_result_request_state", "asks with a state.", mrtr_request_state);
ROW(mrtr_multiple_inputs, "test_input_required_result_multiple_inputs", "asks three things.", mrtr_multiple_inputs);
ROW(mrtr_multi_round, "test_input_required_result_multi_round", "asks twice.", mrtr_multi_round);
ROW(mrtr_tampered_state, "test_input_required_result_tampered_state", "refuses a changed state.", mrtr_request_state);
ROW(mrtr_capabilities, "test_input_required_result_capabilities", "asks what the client can.", mrtr_capabilities);
const struct kr_mcp_tool kr_fixture_tool_with_task = {
    KR_MCP_FIXTURE_ROW("test_tool_with_task", "asks, then goes on as a task.", tool_with_task),
    .flags = KR_TOOL_FIXTURE | KR_TOOL_NEEDS_TASK};
/* clang-format on */
