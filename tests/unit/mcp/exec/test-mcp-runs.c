/* Runs that no client waits for (src/mcp/exec/exec_runs.c), over a box that only counts. */
#include "check.h"
#include "exec_internal.h"
#include "patience.h"
#include <errno.h>
#include <uv.h>

static int watched, unwatched, replies;
static bool asks = true, alive = true;

void kr_box_run_watch(struct kr_box *b, const char *id)
{
    (void)b, (void)id;
    watched++;
}

void kr_box_run_unwatch(struct kr_box *b, const char *id)
{
    (void)b, (void)id;
    unwatched++;
}

struct kr_box_run *kr_box_run_find(struct kr_box *b, const struct kr_caller *who, const char *id)
{
    (void)b, (void)who, (void)id;
    return alive ? (struct kr_box_run *)&alive : NULL;
}

int kr_box_run_reply(struct kr_box *b, const struct kr_caller *who, const char *id, const char *text, size_t len,
                     struct kr_err *err)
{
    (void)b, (void)id, (void)len, (void)err;
    replies += strcmp(who->user, "u") == 0 && !text;
    return asks ? 0 : -EINVAL;
}

static uv_loop_t loop;
static struct kr_api api = {.loop = &loop};
static struct kr_mcp mcp = {.api = &api};

static void begin(struct kr_mcp_exec *x, const char *run)
{
    memset(x, 0, sizeof *x);
    x->mcp = &mcp;
    snprintf(x->o.run_id, sizeof x->o.run_id, "%s", run);
    snprintf(x->who.user, sizeof x->who.user, "u");
    watched = unwatched = replies = 0;
    asks = alive = true;
}

static void wait_for(const int *count, int value)
{
    for (long end = patience_end(); *count < value && is_before(end);) {
        uv_run(&loop, UV_RUN_NOWAIT);
        uv_sleep(1);
    }
}

static void left_running_is_let_go(void)
{
    struct kr_mcp_exec x;

    begin(&x, "r1");
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 10) == 0);
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 10) == 0); /* the same anew, not twice */
    CHECK(watched == 1 && unwatched == 0);
    wait_for(&unwatched, 1);
    CHECK(unwatched == 1 && replies == 0);
}

static void asking_gets_the_end_of_input(void)
{
    struct kr_mcp_exec x;

    begin(&x, "r2");
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_ASKING, 10) == 0);
    CHECK(kr_mcp_runs_asking(&mcp, "r2") && !kr_mcp_runs_asking(&mcp, "r1"));
    wait_for(&replies, 1);
    CHECK(replies == 1 && unwatched == 0); /* it may still say something */
    CHECK(!kr_mcp_runs_asking(&mcp, "r2"));
    kr_mcp_runs_take(&mcp, "r2");
    CHECK(unwatched == 1);
    begin(&x, "r3");
    asks = false; /* it is over, or a client has answered */
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_ASKING, 10) == 0);
    wait_for(&unwatched, 1);
    CHECK(unwatched == 1);
}

static void a_reader_leaves_the_question_its_time(void)
{
    struct kr_mcp_exec x;

    begin(&x, "r4");
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_ASKING, 10) == 0);
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 100000) == 0);
    CHECK(kr_mcp_runs_asking(&mcp, "r4"));
    wait_for(&replies, 1);
    CHECK(replies == 1);
    kr_mcp_runs_take(&mcp, "r4");
}

static void those_that_are_over_make_room(void)
{
    struct kr_mcp_exec x;

    begin(&x, "");
    for (unsigned i = 0; i < KR_MCP_LEFT_MAX; i++) {
        snprintf(x.o.run_id, sizeof x.o.run_id, "m%u", i);
        CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 1000000) == 0);
    }
    snprintf(x.o.run_id, sizeof x.o.run_id, "one more");
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 1000000) == -EBUSY);
    alive = false;
    CHECK(kr_mcp_runs_leave(&x, KR_MCP_LEFT_RUNNING, 1000000) == 0);
    kr_mcp_runs_free(mcp.runs);
    mcp.runs = NULL;
}

int main(void)
{
    uv_loop_init(&loop);
    RUN(left_running_is_let_go);
    RUN(asking_gets_the_end_of_input);
    RUN(a_reader_leaves_the_question_its_time);
    RUN(those_that_are_over_make_room);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    CHECK_DONE();
}
