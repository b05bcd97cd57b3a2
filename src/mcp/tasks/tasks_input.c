/* Questions inside a task, and who waits for its end. Called by tasks.c and tasks_methods.c.
 *
 * A question is open until it is answered, its time is over, or the task ends. In 2026-07-28 tasks/get shows it and
 * tasks/update answers it; until 2025-11-25 it is a request of ours on the stream of a tasks/result, and waits for
 * one where there is none. Invariant: a task with open questions has the status input_required, one without has not. */
#include "clock.h"
#include "tasks_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- questions ---- */

void kr_question_free(struct kr_task *task, struct kr_task_question *q)
{
    TAILQ_REMOVE(&task->questions, q, entry);
    task->question_count--;
    json_decref(q->params);
    free(q->method);
    free(q);
}

void kr_question_answer(struct kr_task *task, struct kr_task_question *q, const json_t *answer)
{
    kr_mcp_answer_fn *on_answer = q->on_answer;
    void *data = q->data;

    kr_question_free(task, q);
    if (TAILQ_EMPTY(&task->questions))
        kr_task_set(task, KR_TASK_WORKING);
    on_answer(data, task->call, answer);
}

struct kr_task_question *kr_question_find(struct kr_task *task, const char *key)
{
    struct kr_task_question *q;

    TAILQ_FOREACH(q, &task->questions, entry)
    if (strcmp(q->key, key) == 0)
        return q;
    return NULL;
}

/* Can the client that started the task answer this at all? */
static bool can_answer(const struct kr_mcp_call *c, const char *method)
{
    if (strcmp(method, "elicitation/create") == 0)
        return kr_mcp_client_can(c, "elicitation.form");
    if (strcmp(method, "sampling/createMessage") == 0)
        return kr_mcp_client_can(c, "sampling");
    return strcmp(method, "roots/list") == 0 && kr_mcp_client_can(c, "roots");
}

static void ask_waiters(struct kr_task *task);

int kr_task_ask(void *data, struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer,
                void *answer_data)
{
    struct kr_task *task = data;
    struct kr_task_question *q = NULL;

    if (can_answer(c, method) && task->question_count < KR_MCP_TASK_QUESTIONS_MAX)
        q = calloc(1, sizeof *q);
    if (q)
        q->method = strdup(method);
    if (!q || !q->method) {
        free(q);
        json_decref(params);
        return -ENOTSUP;
    }
    snprintf(q->key, sizeof q->key, "input-%u", ++task->last_key);
    q->params = params ? params : json_object();
    q->on_answer = on_answer;
    q->data = answer_data;
    q->deadline_ns = kr_clock_after_ms(KR_MCP_ASK_MS);
    TAILQ_INSERT_TAIL(&task->questions, q, entry);
    task->question_count++;
    kr_task_set(task, KR_TASK_INPUT_REQUIRED);
    ask_waiters(task);
    kr_tasks_arm(task->all);
    return 0;
}

void kr_task_unask(void *data, const void *answer_data)
{
    struct kr_task *task = data;
    struct kr_task_question *q, *next;

    for (q = TAILQ_FIRST(&task->questions); q; q = next) {
        next = TAILQ_NEXT(q, entry);
        if (q->data == answer_data)
            kr_question_free(task, q);
    }
    if (TAILQ_EMPTY(&task->questions))
        kr_task_set(task, KR_TASK_WORKING);
}

/* ---- until 2025-11-25: on the stream of a tasks/result ---- */

/* What was asked of whom; kept as long as the waiter is, since its answer comes only so long. */
struct asked {
    SLIST_ENTRY(asked) entry;
    struct kr_task_waiter *waiter;
    char key[sizeof((struct kr_task_question *)NULL)->key];
};

/* The question may be answered already by another way, or its time over. */
static void on_waiter_answer(void *data, struct kr_mcp_call *c, const json_t *result)
{
    const struct asked *asked = data;
    struct kr_task *task = asked->waiter->task;
    struct kr_task_question *q = kr_question_find(task, asked->key);

    (void)c;
    if (q)
        kr_question_answer(task, q, result);
}

/* The question as a request that says which task it is of. */
static json_t *related_params(const struct kr_task *task, const struct kr_task_question *q)
{
    json_t *params = json_copy(q->params);

    json_object_set_new(params, "_meta", json_pack("{s:{s:s}}", KR_MCP_RELATED_TASK, "taskId", task->id));
    return params;
}

static bool ask_waiter(struct kr_task *task, struct kr_task_question *q, struct kr_task_waiter *w)
{
    struct asked *asked;

    if (!can_answer(w->call, q->method))
        return false;
    asked = calloc(1, sizeof *asked);
    if (!asked)
        return false;
    SLIST_INSERT_HEAD(&w->asked, asked, entry);
    asked->waiter = w;
    memcpy(asked->key, q->key, sizeof asked->key);
    if (kr_mcp_ask(w->call, q->method, related_params(task, q), on_waiter_answer, asked) < 0) {
        SLIST_REMOVE_HEAD(&w->asked, entry); /* it is tried again when a waiter comes or goes */
        free(asked);
        return false;
    }
    q->asked = w;
    return true;
}

/* Puts what was not asked yet to a tasks/result that can be asked. */
static void ask_waiters(struct kr_task *task)
{
    struct kr_task_question *q;
    struct kr_task_waiter *w;

    TAILQ_FOREACH(q, &task->questions, entry)
    {
        if (q->asked)
            continue;
        TAILQ_FOREACH(w, &task->waiters, entry)
        if (ask_waiter(task, q, w))
            break;
    }
}

/* ---- who waits ---- */

static void waiter_free(struct kr_task_waiter *w)
{
    struct asked *asked;

    TAILQ_REMOVE(&w->task->waiters, w, entry);
    w->task->waiter_count--;
    while ((asked = SLIST_FIRST(&w->asked))) {
        SLIST_REMOVE_HEAD(&w->asked, entry);
        free(asked);
    }
    free(w);
}

/* The client left: what it was asked is asked of another. */
static void on_waiter_cancel(void *data, struct kr_mcp_call *c)
{
    struct kr_task_waiter *w = data;
    struct kr_task *task = w->task;
    struct kr_task_question *q;

    (void)c;
    TAILQ_FOREACH(q, &task->questions, entry)
    if (q->asked == w)
        q->asked = NULL;
    waiter_free(w);
    ask_waiters(task);
}

void kr_task_wait(struct kr_task *task, struct kr_mcp_call *c)
{
    struct kr_task_waiter *w = task->waiter_count < KR_MCP_TASK_WAITERS_MAX ? calloc(1, sizeof *w) : NULL;

    if (!w) {
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "%u requests wait for this task already: ask tasks/get instead",
                    task->waiter_count);
        return;
    }
    w->task = task;
    w->call = c;
    TAILQ_INSERT_TAIL(&task->waiters, w, entry);
    task->waiter_count++;
    kr_mcp_on_cancel(c, on_waiter_cancel, w);
    ask_waiters(task);
}

void kr_task_release_waiters(struct kr_task *task)
{
    struct kr_task_waiter *w;

    while ((w = TAILQ_FIRST(&task->waiters))) {
        struct kr_mcp_call *c = w->call;

        waiter_free(w);
        kr_task_tell_result(task, c);
    }
}
