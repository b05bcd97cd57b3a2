/* src/loop/work.c: functions on the thread pool, their ends on the loop, drops, and the bound of a lane. A test ends
 * with uv_loop_close() == 0: nothing is left under way. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "work.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

static pthread_t loop_thread;
static atomic_int running, most;
static sem_t gate; /* run_gated() waits for it */

struct item {
    struct kr_work work;
    atomic_int ran;
    int done, dropped, order;
    bool wrong_thread;
    struct kr_work *then_drop; /* by on_done */
    int again;                 /* starts of on_done */
    uv_loop_t *loop;
};

static int orders;

static void run_item(void *data)
{
    struct item *i = data;

    i->wrong_thread |= pthread_equal(pthread_self(), loop_thread) != 0;
    i->ran++;
}

static void run_gated(void *data)
{
    int now = ++running;

    if (now > most)
        most = now;
    run_item(data);
    while (sem_wait(&gate) < 0 && errno == EINTR)
        ;
    running--;
}

static void on_done(void *data);
static void on_dropped(void *data);

static const struct kr_work_calls plain = {.run = run_item, .done = on_done, .dropped = on_dropped};
static const struct kr_work_calls gated = {.run = run_gated, .done = on_done, .dropped = on_dropped};

static void on_done(void *data)
{
    struct item *i = data;

    i->wrong_thread |= !pthread_equal(pthread_self(), loop_thread);
    i->done++;
    i->order = ++orders;
    if (i->then_drop)
        kr_work_drop(i->then_drop);
    if (i->again > 0) {
        i->again--;
        kr_work_start(i->loop, &i->work, &plain, i);
    }
}

static void on_dropped(void *data)
{
    struct item *i = data;

    i->wrong_thread |= !pthread_equal(pthread_self(), loop_thread);
    i->dropped++;
}

/* Waits until the function of an item is called. */
static void wait_for_run(struct item *i)
{
    for (int n = 0; n < 2000 && i->ran == 0; n++)
        uv_sleep(1);
}

static void open_gate(int times)
{
    for (int i = 0; i < times; i++)
        sem_post(&gate);
}

static void work_runs_and_ends_on_the_loop(void)
{
    struct item i = {.again = 2};
    uv_loop_t loop;

    uv_loop_init(&loop);
    i.loop = &loop;
    CHECK(!kr_work_busy(&i.work));
    CHECK(!kr_work_drop(&i.work)); /* nothing is under way: no call */
    kr_work_start(&loop, &i.work, &plain, &i);
    CHECK(kr_work_busy(&i.work));
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(!kr_work_busy(&i.work));
    CHECK(i.ran == 3 && i.done == 3 && i.dropped == 0); /* started again from its own end */
    CHECK(!i.wrong_thread);
    CHECK(uv_loop_close(&loop) == 0);
}

/* A function that has begun is waited for; its result goes to `dropped`. */
static void dropped_while_it_runs(void)
{
    struct item i = {.done = 0};
    uv_loop_t loop;

    uv_loop_init(&loop);
    kr_work_start(&loop, &i.work, &gated, &i);
    wait_for_run(&i);
    CHECK(kr_work_drop(&i.work));
    CHECK(kr_work_drop(&i.work)); /* twice is once */
    CHECK(i.dropped == 0 && kr_work_busy(&i.work));
    open_gate(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(i.ran == 1 && i.done == 0 && i.dropped == 1);
    CHECK(!i.wrong_thread && !kr_work_busy(&i.work));
    CHECK(uv_loop_close(&loop) == 0);
}

/* With every thread of the pool held, what is dropped never runs. Control: what is not dropped does. */
static void dropped_before_it_runs(void)
{
    enum { THREADS = 4 };
    struct item held[THREADS] = {0}, dropped = {.done = 0}, kept = {.done = 0};
    uv_loop_t loop;

    uv_loop_init(&loop);
    for (int i = 0; i < THREADS; i++)
        kr_work_start(&loop, &held[i].work, &gated, &held[i]);
    for (int i = 0; i < THREADS; i++)
        wait_for_run(&held[i]);
    kr_work_start(&loop, &dropped.work, &plain, &dropped);
    kr_work_start(&loop, &kept.work, &plain, &kept);
    CHECK(kr_work_drop(&dropped.work));
    open_gate(THREADS);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(dropped.ran == 0 && dropped.done == 0 && dropped.dropped == 1);
    CHECK(kept.ran == 1 && kept.done == 1 && kept.dropped == 0);
    CHECK(uv_loop_close(&loop) == 0);
}

static void lane_bounds_and_keeps_order(void)
{
    enum { COUNT = 6 };
    struct item items[COUNT] = {0}, more = {.done = 0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    orders = 0;
    most = 0;
    CHECK(kr_lane_new(&loop, 2, COUNT - 2, &lane) == 0);
    for (int i = 0; i < COUNT; i++) {
        CHECK(!kr_lane_full(lane));
        CHECK(kr_lane_start(lane, &items[i].work, &gated, &items[i]) == 0);
    }
    CHECK(kr_lane_full(lane));
    CHECK(kr_lane_start(lane, &more.work, &gated, &more) == -EBUSY);
    CHECK(!kr_work_busy(&more.work));
    wait_for_run(&items[0]);
    wait_for_run(&items[1]);
    CHECK(items[2].ran == 0);
    CHECK(kr_work_drop(&items[3].work)); /* waits in line: ends at once */
    CHECK(items[3].dropped == 1 && !kr_work_busy(&items[3].work));
    CHECK(!kr_lane_full(lane));
    open_gate(COUNT - 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < COUNT; i++)
        CHECK(items[i].ran == (i != 3) && items[i].done == (i != 3) && !items[i].wrong_thread);
    CHECK(most == 2);           /* never three at a time, and two at once */
    CHECK(items[5].order >= 4); /* it is the last in line: three of the others ended before it began */
    kr_lane_close(lane);
    CHECK(uv_loop_close(&loop) == 0);
}

/* A dropped function that still runs holds its share of the bound. */
static void lane_counts_threads(void)
{
    struct item first = {.done = 0}, second = {.done = 0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    CHECK(kr_lane_new(&loop, 1, 1, &lane) == 0);
    CHECK(kr_lane_start(lane, &first.work, &gated, &first) == 0);
    wait_for_run(&first);
    kr_work_drop(&first.work);
    CHECK(kr_lane_start(lane, &second.work, &plain, &second) == 0);
    uv_sleep(20);
    CHECK(second.ran == 0 && kr_lane_full(lane));
    open_gate(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(first.dropped == 1 && second.done == 1);
    kr_lane_close(lane);
    CHECK(uv_loop_close(&loop) == 0);
}

/* Closing drops what runs and what waits; the lane's memory goes with the last (asan looks at it). */
static void lane_close_drops_all(void)
{
    struct item items[4] = {0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    CHECK(kr_lane_new(&loop, 2, 2, &lane) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(kr_lane_start(lane, &items[i].work, &gated, &items[i]) == 0);
    wait_for_run(&items[0]);
    wait_for_run(&items[1]);
    kr_lane_close(lane);
    CHECK(items[2].dropped == 1 && items[3].dropped == 1);
    CHECK(items[0].dropped == 0 && items[1].dropped == 0);
    open_gate(2);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (int i = 0; i < 4; i++)
        CHECK(items[i].dropped == 1 && items[i].done == 0);
    CHECK(items[2].ran == 0 && items[3].ran == 0);
    kr_lane_close(NULL);
    CHECK(uv_loop_close(&loop) == 0);
}

/* An end that drops another one that waits for the same loop. */
static void dropped_from_the_end_of_another(void)
{
    struct item a = {.done = 0}, b = {.done = 0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    CHECK(kr_lane_new(&loop, 1, 4, &lane) == 0);
    a.then_drop = &b.work;
    CHECK(kr_lane_start(lane, &a.work, &plain, &a) == 0);
    CHECK(kr_lane_start(lane, &b.work, &plain, &b) == 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(a.done == 1 && b.done == 0 && b.dropped == 1);
    kr_lane_close(lane);
    CHECK(uv_loop_close(&loop) == 0);
}

/* One owner's line does not hold up another, and one owner does not take all threads. */
static void owners_take_turns(void)
{
    enum { HEAVY = 6 };
    struct item heavy[HEAVY] = {0}, light = {.done = 0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    orders = 0;
    most = 0;
    CHECK(kr_lane_new(&loop, 2, HEAVY, &lane) == 0);
    kr_lane_bound_each(lane, 1);
    for (int i = 0; i < HEAVY; i++)
        CHECK(kr_lane_start_for(lane, 1, &heavy[i].work, &gated, &heavy[i]) == 0);
    wait_for_run(&heavy[0]);
    uv_sleep(20);
    CHECK(heavy[1].ran == 0); /* a thread is free, but not for this owner */
    CHECK(kr_lane_start_for(lane, 2, &light.work, &plain, &light) == 0);
    wait_for_run(&light);
    CHECK(light.ran == 1); /* at once */
    open_gate(HEAVY);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(most == 1 && light.order <= 2);
    for (int i = 1; i < HEAVY; i++)
        CHECK(heavy[i].done == 1 && heavy[i].order > heavy[i - 1].order);
    kr_lane_close(lane);
    CHECK(uv_loop_close(&loop) == 0);
}

/* With one thread: the second owner is next, not last. */
static void second_owner_is_next(void)
{
    enum { HEAVY = 5 };
    struct item heavy[HEAVY] = {0}, light[2] = {0};
    struct kr_lane *lane = NULL;
    uv_loop_t loop;

    uv_loop_init(&loop);
    orders = 0;
    CHECK(kr_lane_new(&loop, 1, HEAVY + 2, &lane) == 0);
    for (int i = 0; i < HEAVY; i++)
        CHECK(kr_lane_start_for(lane, 1, &heavy[i].work, &gated, &heavy[i]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(kr_lane_start_for(lane, 2, &light[i].work, &gated, &light[i]) == 0);
    open_gate(HEAVY + 2);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(heavy[0].order == 1 && light[0].order <= 3 && light[1].order <= 5 && heavy[HEAVY - 1].order == HEAVY + 2);
    kr_lane_close(lane);
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    loop_thread = pthread_self();
    sem_init(&gate, 0, 0);
    setenv("UV_THREADPOOL_SIZE", "4", 1); /* before the first work: dropped_before_it_runs() holds them all */
    RUN(work_runs_and_ends_on_the_loop);
    RUN(dropped_while_it_runs);
    RUN(dropped_before_it_runs);
    RUN(lane_bounds_and_keeps_order);
    RUN(lane_counts_threads);
    RUN(lane_close_drops_all);
    RUN(dropped_from_the_end_of_another);
    RUN(owners_take_turns);
    RUN(second_owner_is_next);
    CHECK_DONE();
}
