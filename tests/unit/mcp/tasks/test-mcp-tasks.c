/* src/mcp/tasks*.c and request_state.c, through messages: both designs of tasks, request states, and what they refuse.
 * Run by tests/run. */
#include "check.h"
#include "call_input.h"
#include "mcp-client.h"
#include "mcp_internal.h"
#include "request_state.h"
#include "tasks.h"

#define ALICE "alice"
#define BOB "bob"
#define ABLE "{\"elicitation\":{},\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"
#define PLAIN "{\"elicitation\":{}}"
#define MUTE "{\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}}"

static json_t *slow(double seconds)
{
    return json_pack("{s:f, s:s}", "seconds", seconds, "label", "x");
}

static json_t *accepted(const char *content)
{
    return json_pack("{s:s, s:o}", "action", "accept", "content", json_loads(content, 0, NULL));
}

/* The id of a new task of 2026-07-28. */
static json_t *begin(struct client *cl, const char *tool, json_t *arguments)
{
    json_t *answer = client_tool(cl, tool, arguments),
           *id = json_incref((json_t *)at(answer, "result", "taskId", NULL));

    json_decref(answer);
    return id;
}

static json_t *ask_task(struct client *cl, const char *method, json_t *id)
{
    return client_call(cl, method, json_pack("{s:O}", "taskId", id));
}

/* Asks until the status is that, at most 40 times 50 ms. */
static json_t *until(struct client *cl, json_t *id, const char *status)
{
    for (int i = 0; i < 40; i++) {
        json_t *answer = ask_task(cl, "tasks/get", id);

        if (strcmp(text_at(answer, "result", "status"), status) == 0)
            return answer;
        json_decref(answer);
        bench_wait(50);
    }
    return NULL;
}

/* ---- 2026-07-28 ---- */

static void modern_task_lives_and_ends(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, true, ABLE);
    answer = client_tool(&cl, "slow_compute", slow(0.2));
    CHECK(strcmp(text_at(answer, "result", "resultType"), "task") == 0);
    CHECK(strcmp(text_at(answer, "result", "status"), "working") == 0);
    CHECK(json_integer_value(at(answer, "result", "ttlMs", NULL)) == KR_MCP_TASK_TTL_MS);
    id = json_incref((json_t *)at(answer, "result", "taskId", NULL));
    json_decref(answer);
    answer = until(&cl, id, "completed");
    CHECK(answer && at(answer, "result", "result", "content", "0", NULL));
    CHECK(strcmp(text_at(answer, "result", "resultType"), "complete") == 0);
    CHECK(!at(answer, "result", "inputRequests", NULL));
    json_decref(answer);
    /* Frozen: cancelling it is acknowledged and changes nothing. */
    answer = ask_task(&cl, "tasks/cancel", id);
    CHECK(code_of(answer) == 0 && !at(answer, "result", "taskId", NULL));
    json_decref(answer);
    answer = until(&cl, id, "completed");
    CHECK(answer);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void without_the_extension_there_is_no_task(void)
{
    struct client cl;
    json_t *answer;

    client_open(&cl, ALICE, true, PLAIN);
    answer = client_tool(&cl, "slow_compute", slow(0.05));
    CHECK(strcmp(text_at(answer, "result", "resultType"), "complete") == 0 && at(answer, "result", "content", NULL));
    json_decref(answer);
    answer = client_tool(&cl, "failing_job", NULL);
    CHECK(code_of(answer) == -32021);
    CHECK(at(answer, "error", "data", "requiredCapabilities", "extensions", "io.modelcontextprotocol/tasks", NULL));
    json_decref(answer);
    answer = client_call(&cl, "tasks/get", json_pack("{s:s}", "taskId", "x"));
    CHECK(code_of(answer) == -32021);
    json_decref(answer);
    client_close(&cl);
}

static void modern_error_of_a_tool_is_not_one_of_the_protocol(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, true, ABLE);
    id = begin(&cl, "failing_job", NULL);
    answer = until(&cl, id, "completed");
    CHECK(answer && json_is_true(at(answer, "result", "result", "isError", NULL)));
    json_decref(answer);
    json_decref(id);
    id = begin(&cl, "protocol_error_job", NULL);
    answer = until(&cl, id, "failed");
    CHECK(answer && json_integer_value(at(answer, "result", "error", "code", NULL)) == -32603);
    CHECK(!at(answer, "result", "result", NULL));
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void a_task_is_its_owners_alone(void)
{
    static const char *const methods[] = {"tasks/get", "tasks/cancel", "tasks/update"};
    struct client alice, bob;
    json_t *id, *answer;

    client_open(&alice, ALICE, true, ABLE);
    client_open(&bob, BOB, true, ABLE);
    id = begin(&alice, "slow_compute", slow(60));
    for (size_t i = 0; i < 3; i++) {
        answer = client_call(&bob, methods[i], json_pack("{s:O, s:{}}", "taskId", id, "inputResponses"));
        CHECK(code_of(answer) == -32602);
        json_decref(answer);
    }
    answer = ask_task(&alice, "tasks/get", id); /* the control */
    CHECK(strcmp(text_at(answer, "result", "status"), "working") == 0);
    json_decref(answer);
    json_decref(ask_task(&alice, "tasks/cancel", id));
    answer = ask_task(&alice, "tasks/get", id);
    CHECK(strcmp(text_at(answer, "result", "status"), "cancelled") == 0);
    json_decref(answer);
    json_decref(id);
    client_close(&alice);
    client_close(&bob);
}

static void a_task_outlives_its_client(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, true, ABLE);
    id = begin(&cl, "slow_compute", slow(0.2));
    client_close(&cl);
    bench_wait(300);
    client_open(&cl, ALICE, true, ABLE);
    answer = until(&cl, id, "completed");
    CHECK(answer);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void modern_questions_are_answered_by_update(void)
{
    struct client cl;
    json_t *id, *answer;
    const char *key, *second;
    json_t *bad;
    json_t *half;

    client_open(&cl, ALICE, true, ABLE);
    id = begin(&cl, "multi_input", NULL);
    answer = until(&cl, id, "input_required");
    CHECK(answer && json_object_size(at(answer, "result", "inputRequests", NULL)) == 2);
    key = json_object_iter_key(json_object_iter((json_t *)at(answer, "result", "inputRequests", NULL)));
    second = strcmp(key, "input-1") == 0 ? "input-2" : "input-1";
    /* One that is no object is refused, unknown keys are left alone, and neither answers anything. */
    json_decref(
        client_call(&cl, "tasks/update", json_pack("{s:O, s:{s:{}}}", "taskId", id, "inputResponses", "input-9")));
    bad = client_call(&cl, "tasks/update", json_pack("{s:O, s:{s:i}}", "taskId", id, "inputResponses", key, 7));
    CHECK(code_of(bad) == -32602);
    json_decref(bad);
    json_decref(
        client_call(&cl, "tasks/update",
                    json_pack("{s:O, s:{s:o}}", "taskId", id, "inputResponses", key, accepted("{\"confirm\":true}"))));
    half = ask_task(&cl, "tasks/get", id);
    CHECK(json_object_size(at(half, "result", "inputRequests", NULL)) == 1);
    CHECK(at(half, "result", "inputRequests", second, NULL));
    json_decref(half);
    json_decref(client_call(&cl, "tasks/update",
                            json_pack("{s:O, s:{s:o}}", "taskId", id, "inputResponses", second, accepted("{}"))));
    json_decref(answer);
    answer = until(&cl, id, "completed");
    CHECK(answer && strcmp(json_string_value(at(answer, "result", "result", "content", "0", "text", NULL)),
                           "1 of 2 confirmed") == 0);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void who_cannot_be_asked_is_not(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, true, MUTE);
    id = begin(&cl, "confirm_delete", NULL);
    answer = until(&cl, id, "completed");
    CHECK(answer && json_is_true(at(answer, "result", "result", "isError", NULL)));
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void listeners_hear_of_their_tasks(void)
{
    struct client cl, bob;
    json_t *id, *note;

    client_open(&cl, ALICE, true, ABLE);
    client_open(&bob, BOB, true, ABLE);
    id = begin(&cl, "slow_compute", slow(0.2));
    client_send(&cl, "subscriptions/listen", json_pack("{s:{s:[O]}}", "notifications", "taskIds", id));
    client_send(&bob, "subscriptions/listen", json_pack("{s:{s:[O]}}", "notifications", "taskIds", id));
    note = client_take(&cl, "notifications/tasks");
    CHECK(note && json_equal(at(note, "params", "taskId", NULL), id));
    CHECK(strcmp(text_at(note, "params", "status"), "completed") == 0);
    for (size_t i = 0; i < json_array_size(bob.got); i++)
        CHECK(strcmp(text_at(json_array_get(bob.got, i), "method", NULL), "notifications/tasks") != 0);
    json_decref(note);
    json_decref(id);
    client_close(&cl);
    client_close(&bob);
}

/* ---- 2025-11-25 ---- */

static json_t *begin_legacy(struct client *cl, const char *tool, json_t *arguments, double ttl)
{
    json_t *answer = client_call(cl, "tools/call",
                                 json_pack("{s:s, s:o, s:{s:f}}", "name", tool, "arguments",
                                           arguments ? arguments : json_object(), "task", "ttl", ttl));
    json_t *id = json_incref((json_t *)at(answer, "result", "task", "taskId", NULL));

    json_decref(answer);
    return id;
}

static void legacy_result_waits(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, false, PLAIN);
    id = begin_legacy(&cl, "slow_compute", slow(0.2), 60000);
    CHECK(id);
    answer = ask_task(&cl, "tasks/get", id);
    CHECK(json_integer_value(at(answer, "result", "ttl", NULL)) == 60000);
    json_decref(answer);
    answer = ask_task(&cl, "tasks/result", id);
    CHECK(at(answer, "result", "content", "0", NULL));
    CHECK(json_equal(at(answer, "result", "_meta", KR_MCP_RELATED_TASK, "taskId", NULL), id));
    json_decref(answer);
    answer = client_take(&cl, "notifications/tasks/status");
    CHECK(answer && strcmp(text_at(answer, "params", "status"), "completed") == 0);
    json_decref(answer);
    answer = ask_task(&cl, "tasks/cancel", id); /* it is over */
    CHECK(code_of(answer) == -32602);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void legacy_asks_on_the_result_stream(void)
{
    struct client cl;
    json_t *id, *answer, *question;
    int waits;

    client_open(&cl, ALICE, false, PLAIN);
    id = begin_legacy(&cl, "confirm_delete", json_pack("{s:s}", "filename", "a.txt"), 60000);
    answer = until(&cl, id, "input_required");
    CHECK(answer);
    json_decref(answer);
    waits = client_send(&cl, "tasks/result", json_pack("{s:O}", "taskId", id));
    question = client_take(&cl, "elicitation/create");
    CHECK(question && json_equal(at(question, "params", "_meta", KR_MCP_RELATED_TASK, "taskId", NULL), id));
    client_answer(&cl, question, accepted("{\"confirm\":true}"));
    answer = client_take_answer(&cl, waits);
    CHECK(answer &&
          strcmp(json_string_value(at(answer, "result", "content", "0", "text", NULL)), "deleted a.txt") == 0);
    json_decref(answer);
    json_decref(question);
    json_decref(id);
    client_close(&cl);
}

static void legacy_asks_another_when_one_leaves(void)
{
    struct client first, second;
    json_t *id, *answer, *question;
    int waits;

    client_open(&first, ALICE, false, PLAIN);
    client_open(&second, ALICE, false, PLAIN);
    id = begin_legacy(&first, "confirm_delete", json_pack("{s:s}", "filename", "a.txt"), 60000);
    client_send(&first, "tasks/result", json_pack("{s:O}", "taskId", id));
    question = client_take(&first, "elicitation/create");
    CHECK(question);
    json_decref(question);
    waits = client_send(&second, "tasks/result", json_pack("{s:O}", "taskId", id));
    client_close(&first);
    question = client_take(&second, "elicitation/create");
    CHECK(question);
    client_answer(&second, question, json_pack("{s:s}", "action", "decline"));
    answer = client_take_answer(&second, waits);
    CHECK(answer && strcmp(json_string_value(at(answer, "result", "content", "0", "text", NULL)), "kept a.txt") == 0);
    json_decref(answer);
    json_decref(question);
    json_decref(id);
    client_close(&second);
}

static void legacy_failed_means_the_tool_too(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, false, PLAIN);
    id = begin_legacy(&cl, "failing_job", NULL, 60000);
    answer = until(&cl, id, "failed");
    CHECK(answer);
    json_decref(answer);
    answer = ask_task(&cl, "tasks/result", id);
    CHECK(json_is_true(at(answer, "result", "isError", NULL)));
    json_decref(answer);
    json_decref(id);
    id = begin_legacy(&cl, "protocol_error_job", NULL, 60000);
    answer = ask_task(&cl, "tasks/result", id);
    CHECK(code_of(answer) == -32603);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void legacy_cancel_ends_those_who_wait(void)
{
    struct client cl;
    json_t *id, *answer;
    int waits;

    client_open(&cl, ALICE, false, PLAIN);
    id = begin_legacy(&cl, "slow_compute", slow(60), 60000);
    waits = client_send(&cl, "tasks/result", json_pack("{s:O}", "taskId", id));
    answer = ask_task(&cl, "tasks/cancel", id);
    CHECK(strcmp(text_at(answer, "result", "status"), "cancelled") == 0);
    json_decref(answer);
    answer = client_take_answer(&cl, waits);
    CHECK(code_of(answer) == -32602);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void a_tool_that_is_none_refuses_task(void)
{
    struct client cl;
    json_t *answer;

    client_open(&cl, ALICE, false, PLAIN);
    answer = client_call(&cl, "tools/call",
                         json_pack("{s:s, s:{s:s}, s:{}}", "name", "greet", "arguments", "name", "x", "task"));
    CHECK(code_of(answer) == -32601);
    json_decref(answer);
    client_close(&cl);
}

/* ---- limits ---- */

static void time_takes_a_task_away(void)
{
    struct client cl;
    json_t *id, *answer;

    client_open(&cl, ALICE, false, PLAIN);
    id = begin_legacy(&cl, "slow_compute", slow(60), 1);
    answer = ask_task(&cl, "tasks/get", id);
    CHECK(json_integer_value(at(answer, "result", "ttl", NULL)) == KR_MCP_TASK_TTL_MIN_MS);
    json_decref(answer);
    bench_wait(KR_MCP_TASK_TTL_MIN_MS + 100);
    answer = ask_task(&cl, "tasks/get", id);
    CHECK(code_of(answer) == -32602);
    json_decref(answer);
    json_decref(id);
    client_close(&cl);
}

static void finished_tasks_make_room_and_working_ones_do_not(void)
{
    json_t *ids[KR_MCP_TASKS_PER_USER], *first, *answer, *page;
    struct client cl;

    client_open(&cl, "carol", false, PLAIN);
    first = begin_legacy(&cl, "slow_compute", slow(60), 60000);
    json_decref(ask_task(&cl, "tasks/cancel", first));
    for (size_t i = 0; i < KR_MCP_TASKS_PER_USER; i++) {
        ids[i] = begin_legacy(&cl, "slow_compute", slow(60), 60000);
        CHECK(ids[i]);
    }
    answer = ask_task(&cl, "tasks/get", first); /* it went for the last one */
    CHECK(code_of(answer) == -32602);
    json_decref(answer);
    answer = client_call(&cl, "tools/call",
                         json_pack("{s:s, s:o, s:{}}", "name", "slow_compute", "arguments", slow(60), "task"));
    CHECK(code_of(answer) == -32603);
    json_decref(answer);
    /* tasks/list has them all, in pages, and none of another user. */
    page = client_call(&cl, "tasks/list", NULL);
    CHECK(json_array_size(at(page, "result", "tasks", NULL)) == 50);
    answer = client_call(&cl, "tasks/list", json_pack("{s:O}", "cursor", at(page, "result", "nextCursor", NULL)));
    CHECK(json_array_size(at(answer, "result", "tasks", NULL)) == KR_MCP_TASKS_PER_USER - 50);
    CHECK(!at(answer, "result", "nextCursor", NULL));
    json_decref(answer);
    json_decref(page);
    answer = client_call(&cl, "tasks/list", json_pack("{s:s}", "cursor", "x"));
    CHECK(code_of(answer) == -32602);
    json_decref(answer);
    for (size_t i = 0; i < KR_MCP_TASKS_PER_USER; i++) {
        json_decref(ask_task(&cl, "tasks/cancel", ids[i]));
        json_decref(ids[i]);
    }
    json_decref(first);
    client_close(&cl);
}

/* ---- request states ---- */

#define STATEFUL "test_input_required_result_request_state"

static json_t *retry(struct client *cl, const char *name, const char *state, const char *arguments)
{
    return client_call(cl, "tools/call",
                       json_pack("{s:s, s:o, s:s, s:{s:o}}", "name", name, "arguments", json_loads(arguments, 0, NULL),
                                 "requestState", state, "inputResponses", "ok", accepted("{\"ok\":true}")));
}

/* The state of a first round, copied. */
static void first_round(struct client *cl, const char *arguments, char *state, size_t size)
{
    json_t *answer = client_tool(cl, STATEFUL, json_loads(arguments, 0, NULL));

    snprintf(state, size, "%s", text_at(answer, "result", "requestState"));
    json_decref(answer);
}

static bool is_refused(json_t *answer)
{
    int code = code_of(answer);

    json_decref(answer);
    return code == -32602;
}

static void a_state_opens_once_and_for_its_call_alone(void)
{
    struct client alice, bob;
    char state[4096], changed[4096];
    json_t *answer;

    client_open(&alice, ALICE, true, PLAIN);
    client_open(&bob, BOB, true, PLAIN);
    first_round(&alice, "{\"a\":1,\"b\":[2]}", state, sizeof state);
    CHECK(state[0]);
    CHECK(is_refused(retry(&bob, STATEFUL, state, "{\"a\":1,\"b\":[2]}")));
    CHECK(is_refused(retry(&alice, STATEFUL, state, "{\"a\":1,\"b\":[3]}")));
    CHECK(is_refused(retry(&alice, "test_input_required_result_tampered_state", state, "{\"a\":1,\"b\":[2]}")));
    CHECK(is_refused(retry(&alice, STATEFUL, "", "{\"a\":1,\"b\":[2]}")));
    CHECK(is_refused(retry(&alice, STATEFUL, "x", "{\"a\":1,\"b\":[2]}")));
    for (size_t i = 0; i < strlen(state); i += 7) {
        memcpy(changed, state, sizeof changed);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        if (strcmp(changed, state) != 0)
            CHECK(is_refused(retry(&alice, STATEFUL, changed, "{\"a\":1,\"b\":[2]}")));
    }
    answer = retry(&alice, STATEFUL, state, "{\"b\":[2],\"a\":1}"); /* the order of members is no difference */
    CHECK(strcmp(json_string_value(at(answer, "result", "content", "0", "text", NULL)), "state-ok") == 0);
    json_decref(answer);
    CHECK(is_refused(retry(&alice, STATEFUL, state, "{\"a\":1,\"b\":[2]}")));
    client_close(&alice);
    client_close(&bob);
}

/* A call as a handler has it, which no tool of the fixtures would give away. */
static struct kr_mcp_call *handled(struct client *cl, const char *state)
{
    struct kr_mcp_call *c = calloc(1, sizeof *c);

    if (!c)
        abort();
    c->peer = cl->peer;
    c->manner = cl->peer->manner;
    c->manner->refs++;
    kr_mcp_who_copy(&c->who, &cl->peer->who.caller);
    c->rev = KR_REV_2026_07_28;
    c->method = kr_mcp_method_find("tools/call", c->rev);
    c->id = json_integer(++cl->last_id);
    c->params = json_pack("{s:s}", "name", "x");
    c->can = json_object();
    if (state)
        json_object_set_new(c->params, "requestState", json_string(state));
    TAILQ_INSERT_TAIL(&cl->peer->calls, c, entry);
    cl->peer->call_count++;
    return c;
}

/* Opens a state that was given for so long, after so long. */
static int open_after(struct client *cl, uint64_t ttl_ms, uint64_t wait_ms)
{
    json_t *answer, *payload = NULL;
    struct kr_mcp_call *c;
    int r;

    kr_mcp_input_required(handled(cl, NULL), NULL, json_string("kept"), ttl_ms);
    answer = client_take_answer(cl, cl->last_id);
    bench_wait(wait_ms);
    c = handled(cl, text_at(answer, "result", "requestState"));
    json_decref(answer);
    r = kr_mcp_state_open(c, &payload);
    if (r > 0)
        kr_mcp_reply(c, json_pack("{s:o}", "was", payload));
    answer = client_take_answer(cl, cl->last_id);
    if (r > 0 ? strcmp(text_at(answer, "result", "was"), "kept") != 0 : code_of(answer) != -32602)
        r = 0;
    json_decref(answer);
    return r;
}

static void a_state_expires(void)
{
    struct client cl;

    client_open(&cl, ALICE, true, PLAIN);
    CHECK(open_after(&cl, 30, 60) < 0);
    CHECK(open_after(&cl, 60000, 60) == 1);
    CHECK(open_after(&cl, 0, 0) == 1);
    client_close(&cl);
}

static void old_states_are_forgotten_for_new_ones(void)
{
    char first[4096], later[4096] = "", other[4096];
    struct client cl, bob;
    json_t *answer;

    client_open(&cl, ALICE, true, PLAIN);
    client_open(&bob, BOB, true, PLAIN);
    first_round(&bob, "{}", other, sizeof other);
    first_round(&cl, "{}", first, sizeof first);
    for (unsigned i = 0; i < KR_MCP_STATES_PER_USER; i++)
        first_round(&cl, "{}", later, sizeof later);
    CHECK(is_refused(retry(&cl, STATEFUL, first, "{}")));
    answer = retry(&cl, STATEFUL, later, "{}");
    CHECK(code_of(answer) == 0);
    json_decref(answer);
    answer = retry(&bob, STATEFUL, other, "{}"); /* another's flood takes nothing from him */
    CHECK(code_of(answer) == 0);
    json_decref(answer);
    client_close(&cl);
    client_close(&bob);
}

int main(void)
{
    bench_start();
    RUN(modern_task_lives_and_ends);
    RUN(without_the_extension_there_is_no_task);
    RUN(modern_error_of_a_tool_is_not_one_of_the_protocol);
    RUN(a_task_is_its_owners_alone);
    RUN(a_task_outlives_its_client);
    RUN(modern_questions_are_answered_by_update);
    RUN(who_cannot_be_asked_is_not);
    RUN(listeners_hear_of_their_tasks);
    RUN(legacy_result_waits);
    RUN(legacy_asks_on_the_result_stream);
    RUN(legacy_asks_another_when_one_leaves);
    RUN(legacy_failed_means_the_tool_too);
    RUN(legacy_cancel_ends_those_who_wait);
    RUN(a_tool_that_is_none_refuses_task);
    RUN(time_takes_a_task_away);
    RUN(finished_tasks_make_room_and_working_ones_do_not);
    RUN(a_state_opens_once_and_for_its_call_alone);
    RUN(a_state_expires);
    RUN(old_states_are_forgotten_for_new_ones);
    bench_stop();
    CHECK_DONE();
}
