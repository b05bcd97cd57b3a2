/* Work: one function run on libuv's thread pool, its result taken on the loop.
 *
 * A `struct kr_work` is embedded in the memory that the function works on. From start until `done` or `dropped` that
 * memory belongs to the work; the loop thread leaves alone what the function reads and writes. Exactly one of `done`
 * and `dropped` is called for a start, on the loop thread, and nothing here touches the memory afterwards: both may
 * free it or start it again. Everything but `run` belongs to the one loop thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

/* Threads of a server's pool (serve_app.c). More than its lanes take together, so that a lane never waits for the
 * threads of another: 3 for file operations, 2 for looks at folders, 1 for sweeps, 1 for users' disks, 2 for passwords;
 * the rest writes logs and reads bodies. */
#define KR_WORK_THREADS "12"

struct kr_lane;

typedef void kr_work_fn(void *data);

struct kr_work_calls {
    kr_work_fn *run;     /* on a thread of the pool: touches only the memory of the work */
    kr_work_fn *done;    /* on the loop: the result is there */
    kr_work_fn *dropped; /* on the loop: instead of done, after kr_work_drop(). NULL: this work is never dropped */
};

enum kr_work_state { KR_WORK_IDLE, KR_WORK_WAITING, KR_WORK_RUNNING, KR_WORK_DROPPED, KR_WORK_MAX_ };

/* Zeroed before its first start. The members are private. */
struct kr_work {
    uv_work_t req;
    const struct kr_work_calls *calls;
    void *data;
    struct kr_lane *lane;
    TAILQ_ENTRY(kr_work) link;
    uint64_t owner, turn; /* in its lane */
    enum kr_work_state state;
};

/* Hands the work to the thread pool. It must not be under way. Cannot fail. */
void kr_work_start(struct uv_loop_s *loop, struct kr_work *w, const struct kr_work_calls *calls, void *data);
/* Between start and its last call? */
bool kr_work_busy(const struct kr_work *w);
/* The result is not wanted any more: `dropped` comes instead of `done`. The function is not called if its turn has
 * not come. False, and no call, if the work is not under way. `dropped` may come before this returns if the work
 * waits in a lane. */
bool kr_work_drop(struct kr_work *w);

/* ---- a bound on work of one kind ---- */

/* At most max_running at a time on the thread pool, at most max_waiting in line for it. Owners take turns; the work of
 * one owner is first come first served. */
int kr_lane_new(struct uv_loop_s *loop, unsigned max_running, unsigned max_waiting, struct kr_lane **ret_lane);
/* At most max_each at a time of one owner (0: no such bound). */
void kr_lane_bound_each(struct kr_lane *lane, unsigned max_each);
/* Drops everything in it. The memory goes when the last function has returned. Takes NULL. */
void kr_lane_close(struct kr_lane *lane);
/* May another one be started? */
bool kr_lane_full(const struct kr_lane *lane);
/* As kr_work_start(), within the bound, for an owner (a hash of the sandbox's id). 0; -EBUSY: the lane is full, and
 * nothing was started. */
int kr_lane_start_for(struct kr_lane *lane, uint64_t owner, struct kr_work *w, const struct kr_work_calls *calls,
                      void *data);
/* The same where all work has one owner. */
int kr_lane_start(struct kr_lane *lane, struct kr_work *w, const struct kr_work_calls *calls, void *data);
