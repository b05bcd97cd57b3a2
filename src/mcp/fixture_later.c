/* Fixtures that take their time: log messages, progress, a broken connection, tasks. Called through THE table of tools.
 *
 * Invariant: the timer goes with its call, answered or cancelled. */
#include "fixture.h"
#include "input.h"
#include "loop.h"
#include "mcp_internal.h"
#include <stdio.h>
#include <stdlib.h>

#define STEP_MS 50u
#define PROGRESS_MS (KR_MCP_PROGRESS_MS + 20u) /* faster ones are dropped */
#define RETRY_MS 500u
#define SECONDS_MAX 3600.0

static void later_free(struct kr_fixture_later *l)
{
    kr_timer_close(l->timer);
    free(l);
}

static void on_cancel(void *data, struct kr_mcp_call *c)
{
    (void)c;
    later_free(data);
}

static void on_timer(void *data)
{
    struct kr_fixture_later *l = data;

    l->on_time(l);
}

struct kr_fixture_later *kr_fixture_later_new(struct kr_mcp_call *c, void (*on_time)(struct kr_fixture_later *l),
                                              uint64_t ms)
{
    struct kr_fixture_later *l = calloc(1, sizeof *l);

    if (!l || kr_timer_new(kr_mcp_api(c)->loop, on_timer, l, &l->timer) < 0) {
        free(l);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "no memory");
        return NULL;
    }
    l->call = c;
    l->on_time = on_time;
    kr_mcp_on_cancel(c, on_cancel, l);
    kr_timer_arm(l->timer, ms);
    return l;
}

void kr_fixture_later_again(struct kr_fixture_later *l, uint64_t ms)
{
    l->step++;
    kr_timer_arm(l->timer, ms);
}

struct kr_mcp_call *kr_fixture_later_end(struct kr_fixture_later *l)
{
    struct kr_mcp_call *c = l->call;

    later_free(l);
    return c;
}

/* ---- logs, progress ---- */

static void on_log(struct kr_fixture_later *l)
{
    static const char *const texts[] = {"Tool execution started", "Tool processing data", "Tool execution completed"};

    kr_mcp_log(l->call, KR_MCP_INFO, "fixture", json_string(texts[l->step]));
    if (l->step < 2)
        kr_fixture_later_again(l, STEP_MS);
    else
        kr_fixture_say(kr_fixture_later_end(l), "Tool with logging executed successfully");
}

static void with_logging(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_later_new(c, on_log, 1);
}

static void on_progress(struct kr_fixture_later *l)
{
    kr_mcp_progress(l->call, l->step * 50, 100, "working");
    if (l->step < 2)
        kr_fixture_later_again(l, PROGRESS_MS);
    else
        kr_fixture_say(kr_fixture_later_end(l), "Tool with progress executed successfully");
}

static void with_progress(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_fixture_later_new(c, on_progress, 1);
}

/* ---- a connection that breaks ---- */

static void on_reconnection(struct kr_fixture_later *l)
{
    kr_fixture_say(kr_fixture_later_end(l), "Reconnection test completed successfully");
}

static void reconnection(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    if (kr_fixture_later_new(c, on_reconnection, 2 * STEP_MS))
        kr_mcp_hang_up(c, RETRY_MS);
}

/* ---- tasks ---- */

static void on_computed(struct kr_fixture_later *l)
{
    char text[sizeof l->text];

    snprintf(text, sizeof text, "%s", l->text);
    kr_fixture_say(kr_fixture_later_end(l), "computed %s", text);
}

/* A task for those who take one, else synchronous. */
static void slow_compute(struct kr_mcp_call *c, const void *args)
{
    double seconds = json_number_value(json_object_get(json_object_get(kr_mcp_params(c), "arguments"), "seconds"));
    struct kr_fixture_later *l;

    (void)args;
    if (!(seconds > 0) || seconds > SECONDS_MAX)
        seconds = seconds > 0 ? SECONDS_MAX : 0;
    if (seconds > 0)
        kr_mcp_task_begin(c);
    l = kr_fixture_later_new(c, on_computed, (uint64_t)(seconds * 1000));
    if (l)
        snprintf(l->text, sizeof l->text, "%s", kr_fixture_arg(c, "label"));
}

static void on_job_failed(struct kr_fixture_later *l)
{
    kr_mcp_tool_refuse(kr_fixture_later_end(l), "the job failed, as it always does");
}

static void failing_job(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_task_begin(c);
    kr_fixture_later_new(c, on_job_failed, 1000);
}

static void on_protocol_error(struct kr_fixture_later *l)
{
    kr_mcp_fail(kr_fixture_later_end(l), KR_RPC_INTERNAL, NULL, "the job broke, as it always does");
}

static void protocol_error_job(struct kr_mcp_call *c, const void *args)
{
    (void)args;
    kr_mcp_task_begin(c);
    kr_fixture_later_new(c, on_protocol_error, 4 * STEP_MS);
}

/* ---- rows ---- */

/* clang-format off */
const struct kr_mcp_tool kr_fixture_with_logging = {
    KR_MCP_FIXTURE_ROW("test_tool_with_logging", "three log messages.", with_logging), .flags = KR_TOOL_FIXTURE};
const struct kr_mcp_tool kr_fixture_logging_tool = {
    KR_MCP_FIXTURE_ROW("test_logging_tool", "log messages, for those who asked for them.", with_logging),
    .flags = KR_TOOL_FIXTURE};
const struct kr_mcp_tool kr_fixture_with_progress = {
    KR_MCP_FIXTURE_ROW("test_tool_with_progress", "three notes of progress.", with_progress), .flags = KR_TOOL_FIXTURE};
const struct kr_mcp_tool kr_fixture_reconnection = {
    KR_MCP_FIXTURE_ROW("test_reconnection", "hangs up, and answers when the client is back.", reconnection),
    .flags = KR_TOOL_FIXTURE};
const struct kr_mcp_tool kr_fixture_slow_compute = {
    .name = "slow_compute", .title = "slow_compute", .description = "Conformance fixture: sleeps, as a task if it may.",
    .dialects = KR_IN_KRAIT, .flags = KR_TOOL_FIXTURE | KR_TOOL_TASK,
    .input_schema = "{\"type\":\"object\",\"properties\":{\"seconds\":{\"type\":\"number\"},\"label\":{\"type\":\"string\"}}}",
    .run = slow_compute};
const struct kr_mcp_tool kr_fixture_failing_job = {
    KR_MCP_FIXTURE_ROW("failing_job", "a task whose result is an error.", failing_job),
    .flags = KR_TOOL_FIXTURE | KR_TOOL_TASK | KR_TOOL_NEEDS_TASK};
const struct kr_mcp_tool kr_fixture_protocol_error_job = {
    KR_MCP_FIXTURE_ROW("protocol_error_job", "a task that breaks.", protocol_error_job),
    .flags = KR_TOOL_FIXTURE | KR_TOOL_TASK};
/* clang-format on */
