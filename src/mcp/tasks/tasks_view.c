/* Tasks as clients see them, in either design. Called by tasks.c, tasks_input.c and tasks_methods.c; pure.
 *
 * One task has one state here and two names for some of them: a tool's result with isError is a failed task until
 * 2025-11-25 and a completed one in 2026-07-28, where `failed` means an error of the protocol. */
#include "tasks_internal.h"
#include <stdio.h>
#include <time.h>

static const char *const status_names[KR_TASK_STATUS_MAX_ + 1] = {"working", "input_required", "completed", "failed",
                                                                  "cancelled"};

static bool says_error(const struct kr_task *task)
{
    return json_is_true(json_object_get(task->result, "isError"));
}

static const char *status_name(const struct kr_task *task, bool modern)
{
    if (!modern && task->status == KR_TASK_COMPLETED && says_error(task))
        return status_names[KR_TASK_FAILED];
    return status_names[task->status];
}

/* A sentence for people, or NULL. */
static const char *status_message(const struct kr_task *task, char *buf, size_t size)
{
    const char *text;

    switch (task->status) {
    case KR_TASK_INPUT_REQUIRED:
        return "waiting for input";
    case KR_TASK_FAILED:
        return json_string_value(json_object_get(task->error, "message"));
    case KR_TASK_CANCELLED:
        return "cancelled";
    case KR_TASK_COMPLETED:
        return says_error(task) ? "ended with an error" : NULL;
    case KR_TASK_WORKING:
        text = task->call ? kr_mcp_status(task->call, buf, size) : "";
        return *text ? text : NULL;
    case KR_TASK_STATUS_MAX_:
        break;
    }
    return NULL;
}

static json_t *iso_time(int64_t us)
{
    time_t seconds = (time_t)(us / 1000000);
    char day[32], text[48];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(text, sizeof text, "%s.%03dZ", day, (int)(us / 1000 % 1000));
    return json_string(text);
}

static json_t *flat(const struct kr_task *task, bool modern)
{
    char text[KR_MCP_STATUS_ROOM];
    const char *message = status_message(task, text, sizeof text);
    json_t *view = json_pack("{s:s, s:s, s:o, s:o, s:I, s:i}", "taskId", task->id, "status", status_name(task, modern),
                             "createdAt", iso_time(task->created_us), "lastUpdatedAt", iso_time(task->updated_us),
                             modern ? "ttlMs" : "ttl", (json_int_t)task->ttl_ms,
                             modern ? "pollIntervalMs" : "pollInterval", (int)KR_MCP_TASK_POLL_MS);

    if (view && message)
        json_object_set_new(view, "statusMessage", json_string(message));
    return view;
}

static json_t *open_questions(const struct kr_task *task)
{
    json_t *requests = json_object();
    const struct kr_task_question *q;

    TAILQ_FOREACH(q, &task->questions, entry)
    json_object_set_new(requests, q->key, json_pack("{s:s, s:O}", "method", q->method, "params", q->params));
    return requests;
}

json_t *kr_task_view(const struct kr_task *task, bool modern)
{
    json_t *view = flat(task, modern);

    if (!view || !modern)
        return view;
    if (task->status == KR_TASK_COMPLETED)
        json_object_set(view, "result", task->result);
    else if (task->status == KR_TASK_FAILED)
        json_object_set(view, "error", task->error);
    else if (task->status == KR_TASK_INPUT_REQUIRED)
        json_object_set_new(view, "inputRequests", open_questions(task));
    return view;
}

json_t *kr_task_created(const struct kr_task *task, bool modern)
{
    json_t *view = flat(task, modern);

    if (!modern)
        return json_pack("{s:o}", "task", view);
    if (view)
        json_object_set_new(view, "resultType", json_string("task"));
    return view;
}

/* The result with the name of its task in _meta, beside whatever is there. */
static json_t *related(const struct kr_task *task)
{
    json_t *result = json_copy(task->result), *meta = json_copy(json_object_get(result, "_meta"));

    if (!json_is_object(meta)) {
        json_decref(meta);
        meta = json_object();
    }
    json_object_set_new(meta, KR_MCP_RELATED_TASK, json_pack("{s:s}", "taskId", task->id));
    json_object_set_new(result, "_meta", meta);
    return result;
}

void kr_task_tell_result(const struct kr_task *task, struct kr_mcp_call *c)
{
    json_t *result;

    if (task->status == KR_TASK_FAILED) {
        const char *text = json_string_value(json_object_get(task->error, "message"));

        kr_mcp_fail(c, (int)json_integer_value(json_object_get(task->error, "code")),
                    json_incref(json_object_get(task->error, "data")), "%s", text ? text : "the task failed");
        return;
    }
    if (task->status != KR_TASK_COMPLETED) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "the task was cancelled: it has no result");
        return;
    }
    result = related(task);
    if (result)
        kr_mcp_reply(c, result);
    else
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "no memory for the result");
}
