/* What the files tasks*.c share: the task itself. */
#pragma once
#include "call.h"
#include "loop.h"
#include "store.h"
#include "tasks.h"
#include <sys/queue.h>

enum kr_task_status {
    KR_TASK_WORKING,
    KR_TASK_INPUT_REQUIRED,
    /* From here on frozen. */
    KR_TASK_COMPLETED, /* it has a result, which may be one that says isError: 2025-11-25 calls that failed */
    KR_TASK_FAILED,    /* it has an error */
    KR_TASK_CANCELLED,
    KR_TASK_STATUS_MAX_,
};

/* Something asked inside a task. */
struct kr_task_question {
    TAILQ_ENTRY(kr_task_question) entry;
    char key[24]; /* never used twice in one task */
    char *method;
    json_t *params;
    kr_mcp_answer_fn *on_answer;
    void *data;
    uint64_t deadline_ns;
    struct kr_task_waiter
        *asked; /* the tasks/result on whose stream it was asked (2025-11-25); NULL: no client was asked yet */
};

/* A tasks/result that waits for the end of its task. */
struct kr_task_waiter {
    TAILQ_ENTRY(kr_task_waiter) entry;
    struct kr_task *task;
    struct kr_mcp_call *call;
    SLIST_HEAD(, asked) asked; /* tasks_input.c */
};

struct kr_task {
    TAILQ_ENTRY(kr_task) entry; /* in the order of their creation */
    struct kr_mcp_tasks *all;
    char id[KR_STORE_ID_ROOM];
    char user[KR_STORE_ID_ROOM];
    uint64_t serial;
    enum kr_task_status status;
    int64_t created_us, updated_us;
    uint64_t ttl_ms, expires_ns;
    struct kr_mcp_call *call; /* the work; NULL when it is over */
    json_t *result;           /* of a completed one */
    json_t *error;            /* {code, message, data?} of a failed one */
    size_t bytes;             /* of either, as text */
    TAILQ_HEAD(, kr_task_question) questions;
    unsigned question_count, last_key;
    TAILQ_HEAD(, kr_task_waiter) waiters;
    unsigned waiter_count;
};

struct kr_mcp_tasks {
    struct kr_mcp *mcp;
    TAILQ_HEAD(, kr_task) tasks;
    unsigned count;
    size_t bytes;
    uint64_t last_serial;
    struct kr_timer *timer; /* for the next end of a ttl or a question's time */
};

/* ---- tasks.c ---- */

/* The caller's task of that id, or NULL. */
struct kr_task *kr_task_find(struct kr_mcp_tasks *t, const char *user, const char *id);
/* A new status: the time is noted, subscribers are notified. Frozen ones do not change. */
void kr_task_set(struct kr_task *task, enum kr_task_status status);
/* Ends the work and forgets its questions; the status is the caller's to set before. */
void kr_task_stop(struct kr_task *task);
void kr_tasks_arm(struct kr_mcp_tasks *t);

/* ---- tasks_input.c ---- */

/* struct kr_mcp_outlet.on_ask of a task. */
int kr_task_ask(void *data, struct kr_mcp_call *c, const char *method, json_t *params, kr_mcp_answer_fn *on_answer,
                void *answer_data);
/* struct kr_mcp_outlet.on_unask of a task. */
void kr_task_unask(void *data, const void *answer_data);
/* Takes the question out of its task and gives the answer (NULL: there will be none) to who asked, who may end the task
 * by it. */
void kr_question_answer(struct kr_task *task, struct kr_task_question *q, const json_t *answer);
struct kr_task_question *kr_question_find(struct kr_task *task, const char *key); /* an open one, or NULL */
void kr_question_free(struct kr_task *task, struct kr_task_question *q);
/* Answers with -32603 when there are too many. */
void kr_task_wait(struct kr_task *task, struct kr_mcp_call *c);
/* Answers all who wait with what the task ended with. */
void kr_task_release_waiters(struct kr_task *task);

/* ---- tasks_view.c ---- */

/* A task as clients see it: members of a flat Task, for 2026-07-28 with what its status brings along; new. */
json_t *kr_task_view(const struct kr_task *task, bool modern);
/* The answer to the call that made it: {"task":…} or a flat one with resultType. */
json_t *kr_task_created(const struct kr_task *task, bool modern);
/* Answers a tasks/result of a task that is over. */
void kr_task_tell_result(const struct kr_task *task, struct kr_mcp_call *c);
