/* Runs without a call that waits for them. Called by the files of execution.
 *
 * A run goes on while it has a reader; these have none between two calls of their client. Invariants: each is watched
 * once, without a reader, and for a bounded time; when that is over its question (if it has one) gets the end of
 * input, and then it is let go, which ends it; there are at most KR_MCP_LEFT_MAX, and those that are over make room. */
#include "exec_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_WORDS_MS 10000u /* from the end of input to being let go */

struct left {
    TAILQ_ENTRY(left) entry;
    struct kr_mcp_runs *runs;
    struct kr_timer *timer;
    enum kr_mcp_left how;
    char run_id[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM];
};

struct kr_mcp_runs {
    struct kr_api *api;
    TAILQ_HEAD(, left) list;
    size_t count;
};

static void left_free(struct left *l)
{
    TAILQ_REMOVE(&l->runs->list, l, entry);
    l->runs->count--;
    kr_timer_close(l->timer);
    free(l);
}

static struct kr_caller caller_of(const struct left *l)
{
    return (struct kr_caller){.user = l->user, .rights = KR_RIGHT_RUN, .address = "", .request = ""};
}

static void on_left_timer(void *data)
{
    struct left *l = data;
    struct kr_box *box = l->runs->api->box;
    struct kr_caller who = caller_of(l);
    struct kr_err err;

    if (l->how == KR_MCP_LEFT_ASKING && kr_box_run_reply(box, &who, l->run_id, NULL, 0, &err) >= 0) {
        l->how = KR_MCP_LEFT_RUNNING;
        kr_timer_arm(l->timer, LAST_WORDS_MS);
        return;
    }
    kr_box_run_unwatch(box, l->run_id);
    left_free(l);
}

static struct left *find_left(struct kr_mcp_runs *runs, const char *run_id)
{
    struct left *l;

    TAILQ_FOREACH(l, &runs->list, entry)
    if (strcmp(l->run_id, run_id) == 0)
        return l;
    return NULL;
}

static void drop_those_that_are_over(struct kr_mcp_runs *runs)
{
    struct left *l = TAILQ_FIRST(&runs->list), *next;

    for (; l; l = next) {
        struct kr_caller who = caller_of(l);

        next = TAILQ_NEXT(l, entry);
        if (!kr_box_run_find(runs->api->box, &who, l->run_id))
            left_free(l);
    }
}

static struct kr_mcp_runs *runs_of(struct kr_mcp *m)
{
    if (!m->runs) {
        m->runs = calloc(1, sizeof *m->runs);
        if (!m->runs)
            return NULL;
        m->runs->api = m->api;
        TAILQ_INIT(&m->runs->list);
    }
    return m->runs;
}

int kr_mcp_runs_leave(struct kr_mcp_exec *x, enum kr_mcp_left how, uint64_t ms)
{
    struct kr_mcp_runs *runs = runs_of(x->mcp);
    struct left *l = runs ? find_left(runs, x->o.run_id) : NULL;

    if (!runs)
        return -ENOMEM;
    if (!l) {
        if (runs->count >= KR_MCP_LEFT_MAX)
            drop_those_that_are_over(runs);
        if (runs->count >= KR_MCP_LEFT_MAX)
            return -EBUSY;
        l = calloc(1, sizeof *l);
        if (!l || kr_timer_new(runs->api->loop, on_left_timer, l, &l->timer) < 0) {
            free(l);
            return -ENOMEM;
        }
        l->runs = runs;
        snprintf(l->run_id, sizeof l->run_id, "%s", x->o.run_id);
        snprintf(l->user, sizeof l->user, "%s", x->who.user);
        kr_box_run_watch(runs->api->box, l->run_id);
        TAILQ_INSERT_TAIL(&runs->list, l, entry);
        runs->count++;
        l->how = how;
    }
    if (l->how != KR_MCP_LEFT_ASKING || how == KR_MCP_LEFT_ASKING) { /* a question keeps its own time */
        l->how = how;
        kr_timer_arm(l->timer, ms);
    }
    return 0;
}

bool kr_mcp_runs_asking(const struct kr_mcp *m, const char *run_id)
{
    const struct left *l = m->runs ? find_left(m->runs, run_id) : NULL;

    return l && l->how == KR_MCP_LEFT_ASKING;
}

void kr_mcp_runs_take(struct kr_mcp *m, const char *run_id)
{
    struct left *l = m->runs ? find_left(m->runs, run_id) : NULL;

    if (!l)
        return;
    kr_box_run_unwatch(m->runs->api->box, l->run_id);
    left_free(l);
}

void kr_mcp_runs_free(struct kr_mcp_runs *runs)
{
    struct left *l;

    if (!runs)
        return;
    while ((l = TAILQ_FIRST(&runs->list))) {
        kr_box_run_unwatch(runs->api->box, l->run_id);
        left_free(l);
    }
    free(runs);
}
