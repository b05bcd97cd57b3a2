/* The methods tasks/…: what clients may ask about their tasks. Called by the table of methods (rpc_method.c), which has
 * checked the revision and, for 2026-07-28, that the client declared the extension. */
#include "mcp_internal.h"
#include "tasks_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 50u

static bool is_modern(const struct kr_mcp_call *c)
{
    return kr_mcp_revs[kr_mcp_call_rev(c)].modern;
}

/* The task that is named, or NULL: it is answered. */
static struct kr_task *named_task(struct kr_mcp_call *c)
{
    const char *id = json_string_value(json_object_get(kr_mcp_params(c), "taskId"));
    struct kr_task *task;

    if (!id) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "taskId must be a string");
        return NULL;
    }
    task = kr_task_find(kr_mcp_tasks_of(kr_mcp_of(c)), kr_mcp_caller(c)->user, id);
    if (!task)
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "there is no such task: it is unknown, or its time is over");
    return task;
}

/* To end a run, or to answer for it, is to run it. False: answered. */
static bool may_run(struct kr_mcp_call *c)
{
    if (kr_mcp_caller(c)->rights & KR_RIGHT_RUN)
        return true;
    kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "%s needs a key with the right `run`", kr_mcp_call_method(c));
    return false;
}

static void reply_task(struct kr_mcp_call *c, json_t *result)
{
    if (result)
        kr_mcp_reply(c, result);
    else
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "no memory for the answer");
}

void kr_mcp_tasks_get(struct kr_mcp_call *c)
{
    struct kr_task *task = named_task(c);

    if (task)
        reply_task(c, kr_task_view(task, is_modern(c)));
}

void kr_mcp_tasks_result(struct kr_mcp_call *c)
{
    struct kr_task *task = named_task(c);

    if (!task)
        return;
    if (task->status >= KR_TASK_COMPLETED)
        kr_task_tell_result(task, c);
    else
        kr_task_wait(task, c);
}

/* ---- tasks/list ---- */

/* Where a page begins: behind the task of this number. -EINVAL: the cursor is none of ours. */
static int read_cursor(const struct kr_mcp_call *c, uint64_t *ret_after)
{
    const json_t *cursor = json_object_get(kr_mcp_params(c), "cursor");
    const char *text = json_string_value(cursor);
    char *end;

    *ret_after = 0;
    if (!cursor)
        return 0;
    if (!text || text[0] != 't' || text[1] < '1' || text[1] > '9' || strlen(text) > 20)
        return -EINVAL;
    *ret_after = strtoull(text + 1, &end, 10);
    return *end ? -EINVAL : 0;
}

void kr_mcp_tasks_list(struct kr_mcp_call *c)
{
    const char *user = kr_mcp_caller(c)->user;
    json_t *tasks, *result;
    const struct kr_task *task;
    char cursor[32] = "";
    uint64_t after, last = 0;

    if (read_cursor(c, &after) < 0) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "cursor must be one that tasks/list gave");
        return;
    }
    tasks = json_array();
    TAILQ_FOREACH(task, &kr_mcp_tasks_of(kr_mcp_of(c))->tasks, entry)
    {
        if (task->serial <= after || strcmp(task->user, user) != 0)
            continue;
        if (json_array_size(tasks) == PAGE) {
            snprintf(cursor, sizeof cursor, "t%" PRIu64, last);
            break;
        }
        json_array_append_new(tasks, kr_task_view(task, false));
        last = task->serial;
    }
    result = json_pack("{s:o}", "tasks", tasks);
    if (result && cursor[0])
        json_object_set_new(result, "nextCursor", json_string(cursor));
    reply_task(c, result);
}

/* ---- tasks/cancel, tasks/update ---- */

void kr_mcp_tasks_cancel(struct kr_mcp_call *c)
{
    struct kr_task *task = named_task(c);

    if (!task || !may_run(c))
        return;
    if (task->status >= KR_TASK_COMPLETED && !is_modern(c)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "the task is over already: it cannot be cancelled");
        return;
    }
    kr_task_set(task, KR_TASK_CANCELLED);
    kr_task_stop(task);
    reply_task(c, is_modern(c) ? json_object() : kr_task_view(task, false));
    kr_task_release_waiters(task);
}

/* Every answer to an open question is an object: else the name of the first that is none. */
static const char *malformed(struct kr_task *task, json_t *answers)
{
    const char *key;
    json_t *answer;

    json_object_foreach(answers, key, answer) if (!json_is_object(answer) && kr_question_find(task, key)) return key;
    return NULL;
}

void kr_mcp_tasks_update(struct kr_mcp_call *c)
{
    json_t *answers = json_object_get(kr_mcp_params(c), "inputResponses"), *answer;
    struct kr_mcp_tasks *t = kr_mcp_tasks_of(kr_mcp_of(c));
    struct kr_task *task = named_task(c);
    char id[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM];
    const char *key;

    if (!task || !may_run(c))
        return;
    if (!json_is_object(answers)) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "inputResponses must be an object");
        return;
    }
    key = malformed(task, answers);
    if (key) {
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "inputResponses: the answer to %.64s must be an object", key);
        return;
    }
    memcpy(id, task->id, sizeof id);
    memcpy(user, task->user, sizeof user);
    json_incref(answers);
    reply_task(c, json_object());
    /* An answer may end the task, and its end may make others go: it is looked up for each. */
    json_object_foreach(answers, key, answer)
    {
        struct kr_task_question *q = (task = kr_task_find(t, user, id)) ? kr_question_find(task, key) : NULL;

        if (q)
            kr_question_answer(task, q, answer);
    }
    json_decref(answers);
}
