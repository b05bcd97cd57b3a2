/* The table of tasks: how one begins, changes, ends and is forgotten. Called by tools that take long (exec.c)
 * through call_input.h, and by mcp.c.
 *
 * Invariant: a task is in the table before its creation is reported and until its time is over, unless room is needed
 * and it is finished; one that is finished (completed, failed, cancelled) never changes again and has no call. */
#include "clock.h"
#include "call_input.h"
#include "mcp_internal.h"
#include "tasks_internal.h"
#include "tool.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_over(const struct kr_task *task)
{
    return task->status >= KR_TASK_COMPLETED;
}

struct kr_task *kr_task_find(struct kr_mcp_tasks *t, const char *user, const char *id)
{
    struct kr_task *task;

    TAILQ_FOREACH(task, &t->tasks, entry)
    if (strcmp(task->id, id) == 0)
        return strcmp(task->user, user) == 0 ? task : NULL;
    return NULL;
}

/* ---- changes ---- */

void kr_task_set(struct kr_task *task, enum kr_task_status status)
{
    json_t *modern, *legacy;

    if (is_over(task) || task->status == status)
        return;
    task->status = status;
    task->updated_us = kr_store_now();
    modern = kr_task_view(task, true);
    legacy = kr_task_view(task, false);
    if (modern && legacy)
        kr_mcp_task_changed(task->all->mcp, task->user, task->id, modern, legacy);
    json_decref(modern);
    json_decref(legacy);
}

void kr_task_stop(struct kr_task *task)
{
    struct kr_mcp_call *call = task->call;
    struct kr_task_question *q;

    while ((q = TAILQ_FIRST(&task->questions)))
        kr_question_free(task, q);
    task->call = NULL;
    if (call)
        kr_mcp_call_end(call);
}

static void task_free(struct kr_task *task)
{
    struct kr_mcp_tasks *t = task->all;

    kr_task_set(task, KR_TASK_CANCELLED);
    kr_task_stop(task);
    kr_task_release_waiters(task);
    TAILQ_REMOVE(&t->tasks, task, entry);
    t->count--;
    t->bytes -= task->bytes;
    json_decref(task->result);
    json_decref(task->error);
    free(task);
}

/* ---- room ---- */

/* The finished task of this user's (NULL: of any user's) whose end is longest ago. */
static struct kr_task *oldest_over(struct kr_mcp_tasks *t, const char *user, const struct kr_task *but)
{
    struct kr_task *task, *oldest = NULL;

    TAILQ_FOREACH(task, &t->tasks, entry)
    if (is_over(task) && task != but && (!user || strcmp(task->user, user) == 0) &&
        (!oldest || task->updated_us < oldest->updated_us))
        oldest = task;
    return oldest;
}

static int make_task_room(struct kr_mcp_tasks *t, const char *user)
{
    const struct kr_task *task;
    struct kr_task *goes = NULL;
    unsigned mine = 0;

    TAILQ_FOREACH(task, &t->tasks, entry)
    mine += strcmp(task->user, user) == 0;
    if (mine < KR_MCP_TASKS_PER_USER && t->count < KR_MCP_TASKS_MAX)
        return 0;
    goes = oldest_over(t, mine >= KR_MCP_TASKS_PER_USER ? user : NULL, NULL);
    if (!goes)
        return -EBUSY;
    task_free(goes);
    return 0;
}

/* Counts what a task keeps; the oldest results go while there is too much. */
static void count_bytes(struct kr_task *task, const json_t *kept)
{
    struct kr_mcp_tasks *t = task->all;
    struct kr_task *goes;

    task->bytes = json_dumpb(kept, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
    t->bytes += task->bytes;
    while (t->bytes > KR_MCP_TASKS_BYTES_MAX && (goes = oldest_over(t, NULL, task)))
        task_free(goes);
}

/* ---- the end of the work ---- */

static void task_end(struct kr_task *task, enum kr_task_status status)
{
    struct kr_task_question *q;

    task->call = NULL; /* dead when the outlet's function returns */
    while ((q = TAILQ_FIRST(&task->questions)))
        kr_question_free(task, q);
    count_bytes(task, status == KR_TASK_COMPLETED ? task->result : task->error);
    kr_task_set(task, status);
    kr_task_release_waiters(task);
}

static void on_reply(void *data, struct kr_mcp_call *c, json_t *result)
{
    struct kr_task *task = data;

    (void)c;
    task->result = json_incref(result);
    task_end(task, KR_TASK_COMPLETED);
}

static void on_fail(void *data, struct kr_mcp_call *c, int code, json_t *error_data, const char *text)
{
    struct kr_task *task = data;

    (void)c;
    task->error = json_pack("{s:i, s:s}", "code", code, "message", text);
    if (error_data)
        json_object_set(task->error, "data", error_data);
    task_end(task, KR_TASK_FAILED);
}

static const struct kr_mcp_outlet outlet = {
    .on_reply = on_reply, .on_fail = on_fail, .on_ask = kr_task_ask, .on_unask = kr_task_unask};

/* ---- time ---- */

void kr_tasks_arm(struct kr_mcp_tasks *t)
{
    uint64_t next = UINT64_MAX, now = kr_clock_ns();
    const struct kr_task_question *q;
    const struct kr_task *task;

    TAILQ_FOREACH(task, &t->tasks, entry)
    {
        next = task->expires_ns < next ? task->expires_ns : next;
        TAILQ_FOREACH(q, &task->questions, entry)
        next = q->deadline_ns < next ? q->deadline_ns : next;
    }
    if (next == UINT64_MAX)
        kr_timer_disarm(t->timer);
    else
        kr_timer_arm(t->timer, next > now ? (next - now) / 1000000 + 1 : 1);
}

/* One thing whose time is over: its callback may change the table. */
static bool one_over(struct kr_mcp_tasks *t, uint64_t now)
{
    struct kr_task_question *q;
    struct kr_task *task;

    TAILQ_FOREACH(task, &t->tasks, entry)
    {
        if (task->expires_ns <= now) {
            task_free(task);
            return true;
        }
        TAILQ_FOREACH(q, &task->questions, entry)
        {
            if (q->deadline_ns <= now) {
                kr_question_answer(task, q, NULL);
                return true;
            }
        }
    }
    return false;
}

static void on_tasks_timer(void *data)
{
    struct kr_mcp_tasks *t = data;
    uint64_t now = kr_clock_ns();

    while (one_over(t, now))
        ;
    kr_tasks_arm(t);
}

/* ---- the beginning ---- */

bool kr_mcp_task_wanted(const struct kr_mcp_call *c)
{
    return kr_mcp_revs[kr_mcp_call_rev(c)].tasks && json_is_object(json_object_get(kr_mcp_params(c), "task"));
}

bool kr_mcp_task_possible(const struct kr_mcp_call *c)
{
    const struct kr_mcp_tool *tool = kr_mcp_call_tool(c);

    if (!tool || !(tool->flags & KR_TOOL_TASK) || kr_mcp_is_task(c))
        return false;
    if (kr_mcp_revs[kr_mcp_call_rev(c)].modern)
        return kr_mcp_client_extends(c, KR_MCP_TASKS_EXTENSION);
    return kr_mcp_task_wanted(c);
}

bool kr_mcp_is_task(const struct kr_mcp_call *c)
{
    return c->outlet == &outlet;
}

/* What a client of 2025-11-25 asks for, within bounds. */
static uint64_t requested_ttl(const struct kr_mcp_call *c)
{
    const json_t *ttl = json_object_get(json_object_get(kr_mcp_params(c), "task"), "ttl");
    double ms = json_number_value(ttl);

    if (!kr_mcp_task_wanted(c) || !json_is_number(ttl))
        return KR_MCP_TASK_TTL_MS;
    if (ms < KR_MCP_TASK_TTL_MIN_MS)
        return KR_MCP_TASK_TTL_MIN_MS;
    return ms > KR_MCP_TASK_TTL_MAX_MS ? KR_MCP_TASK_TTL_MAX_MS : (uint64_t)ms;
}

int kr_mcp_task_begin(struct kr_mcp_call *c)
{
    struct kr_mcp_tasks *t = kr_mcp_tasks_of(kr_mcp_of(c));
    bool modern = kr_mcp_revs[kr_mcp_call_rev(c)].modern;
    const char *user = kr_mcp_caller(c)->user;
    struct kr_task *task;
    json_t *created;
    int r;

    if (!kr_mcp_task_possible(c))
        return -ENOTSUP;
    r = make_task_room(t, user);
    if (r < 0)
        return r;
    task = calloc(1, sizeof *task);
    if (!task)
        return -ENOMEM;
    task->all = t;
    kr_store_new_id(task->id);
    strncpy(task->user, user, sizeof task->user - 1);
    task->serial = ++t->last_serial;
    task->created_us = task->updated_us = kr_store_now();
    task->ttl_ms = requested_ttl(c);
    task->expires_ns = kr_clock_after_ms(task->ttl_ms);
    TAILQ_INIT(&task->questions);
    TAILQ_INIT(&task->waiters);
    created = kr_task_created(task, modern);
    if (!created) {
        free(task);
        return -ENOMEM;
    }
    TAILQ_INSERT_TAIL(&t->tasks, task, entry);
    t->count++;
    task->call = c;
    kr_mcp_call_detach(c, created, &outlet, task);
    kr_tasks_arm(t);
    return 0;
}

/* ---- the table ---- */

bool kr_mcp_task_known(const struct kr_mcp *m, const char *user, const char *id)
{
    return kr_task_find(kr_mcp_tasks_of(m), user, id) != NULL;
}

int kr_mcp_tasks_new(struct kr_mcp *m, struct uv_loop_s *loop, struct kr_mcp_tasks **ret_tasks)
{
    struct kr_mcp_tasks *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        return -ENOMEM;
    r = kr_timer_new(loop, on_tasks_timer, t, &t->timer);
    if (r < 0) {
        free(t);
        return r;
    }
    t->mcp = m;
    TAILQ_INIT(&t->tasks);
    *ret_tasks = t;
    return 0;
}

void kr_mcp_tasks_free(struct kr_mcp_tasks *t)
{
    struct kr_task *task;

    if (!t)
        return;
    while ((task = TAILQ_FIRST(&t->tasks)))
        task_free(task);
    kr_timer_close(t->timer);
    free(t);
}
