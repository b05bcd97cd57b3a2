/* The one way to libuv's thread pool.
 *
 * Called by every room that works on disk, parses large bodies or hashes passwords. Invariants: a work's memory is
 * touched by the pool's thread only between start and on_ran(); work that is dropped while its function runs still
 * counts in its lane, so that the bound is one on threads; the line of a lane is sorted by turn, and an owner has one
 * work per turn, so that an owner with much work waits for itself and not others for it. */
#include "work.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

TAILQ_HEAD(works, kr_work);

struct kr_lane {
    struct uv_loop_s *loop;
    unsigned max_running, max_waiting, max_each, running, waiting;
    uint64_t turn; /* of the work that was started last */
    struct works in_pool, in_line;
    bool closed;
};

static void on_run(uv_work_t *req)
{
    const struct kr_work *w = req->data;

    w->calls->run(w->data);
}

static void on_ran(uv_work_t *req, int status);

static void queue_work(struct uv_loop_s *loop, struct kr_work *w)
{
    w->state = KR_WORK_RUNNING;
    if (uv_queue_work(loop, &w->req, on_run, on_ran) != 0)
        abort(); /* fails without a function to call, only */
}

static void begin_work(struct kr_work *w, const struct kr_work_calls *calls, void *data, struct kr_lane *lane)
{
    assert(w->state == KR_WORK_IDLE);
    w->calls = calls;
    w->data = data;
    w->lane = lane;
    w->req.data = w;
}

static void end_work(struct kr_work *w)
{
    bool dropped = w->state == KR_WORK_DROPPED;

    w->state = KR_WORK_IDLE;
    w->lane = NULL;
    if (dropped)
        w->calls->dropped(w->data);
    else
        w->calls->done(w->data);
}

/* ---- lanes ---- */

/* May another work of that owner run? */
static bool owner_has_room(const struct kr_lane *lane, uint64_t owner)
{
    const struct kr_work *w;
    unsigned count = 0;

    if (lane->max_each == 0)
        return true;
    TAILQ_FOREACH(w, &lane->in_pool, link)
    count += w->owner == owner;
    return count < lane->max_each;
}

static struct kr_work *next_in_line(const struct kr_lane *lane)
{
    struct kr_work *w;

    TAILQ_FOREACH(w, &lane->in_line, link)
    if (owner_has_room(lane, w->owner))
        return w;
    return NULL;
}

static void start_waiting_work(struct kr_lane *lane)
{
    struct kr_work *w;

    while (lane->running < lane->max_running && (w = next_in_line(lane))) {
        TAILQ_REMOVE(&lane->in_line, w, link);
        TAILQ_INSERT_TAIL(&lane->in_pool, w, link);
        lane->waiting--;
        lane->running++;
        if (w->turn > lane->turn)
            lane->turn = w->turn;
        queue_work(lane->loop, w);
    }
}

/* The turn after the last one of its owner, and not before the one that the lane has come to. */
static void join_line(struct kr_lane *lane, struct kr_work *w)
{
    const struct kr_work *other;
    struct kr_work *at;
    uint64_t last = lane->turn;

    TAILQ_FOREACH(other, &lane->in_pool, link)
    if (other->owner == w->owner && other->turn > last)
        last = other->turn;
    TAILQ_FOREACH(other, &lane->in_line, link)
    if (other->owner == w->owner && other->turn > last)
        last = other->turn;
    w->turn = last + 1;
    TAILQ_FOREACH_REVERSE(at, &lane->in_line, works, link)
    if (at->turn <= w->turn)
        break;
    if (at)
        TAILQ_INSERT_AFTER(&lane->in_line, at, w, link);
    else
        TAILQ_INSERT_HEAD(&lane->in_line, w, link);
    lane->waiting++;
}

static void leave_lane(struct kr_lane *lane, struct kr_work *w)
{
    TAILQ_REMOVE(&lane->in_pool, w, link);
    lane->running--;
    if (!lane->closed)
        start_waiting_work(lane);
    else if (lane->running == 0)
        free(lane);
}

int kr_lane_new(struct uv_loop_s *loop, unsigned max_running, unsigned max_waiting, struct kr_lane **ret_lane)
{
    struct kr_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return -ENOMEM;
    lane->loop = loop;
    lane->max_running = max_running;
    lane->max_waiting = max_waiting;
    TAILQ_INIT(&lane->in_pool);
    TAILQ_INIT(&lane->in_line);
    *ret_lane = lane;
    return 0;
}

void kr_lane_bound_each(struct kr_lane *lane, unsigned max_each)
{
    lane->max_each = max_each;
}

void kr_lane_close(struct kr_lane *lane)
{
    struct kr_work *w;

    if (!lane)
        return;
    lane->closed = true;
    while ((w = TAILQ_FIRST(&lane->in_line)))
        kr_work_drop(w);
    TAILQ_FOREACH(w, &lane->in_pool, link)
    kr_work_drop(w);
    if (lane->running == 0)
        free(lane);
}

bool kr_lane_full(const struct kr_lane *lane)
{
    return lane->running + lane->waiting >= lane->max_running + lane->max_waiting;
}

int kr_lane_start_for(struct kr_lane *lane, uint64_t owner, struct kr_work *w, const struct kr_work_calls *calls,
                      void *data)
{
    if (kr_lane_full(lane))
        return -EBUSY;
    begin_work(w, calls, data, lane);
    w->state = KR_WORK_WAITING;
    w->owner = owner;
    join_line(lane, w);
    start_waiting_work(lane);
    return 0;
}

int kr_lane_start(struct kr_lane *lane, struct kr_work *w, const struct kr_work_calls *calls, void *data)
{
    return kr_lane_start_for(lane, 0, w, calls, data);
}

/* ---- work ---- */

static void on_ran(uv_work_t *req, int status)
{
    struct kr_work *w = req->data;

    (void)status; /* UV_ECANCELED comes for dropped work, only */
    if (w->lane)
        leave_lane(w->lane, w);
    end_work(w);
}

void kr_work_start(struct uv_loop_s *loop, struct kr_work *w, const struct kr_work_calls *calls, void *data)
{
    begin_work(w, calls, data, NULL);
    queue_work(loop, w);
}

bool kr_work_busy(const struct kr_work *w)
{
    return w->state != KR_WORK_IDLE;
}

bool kr_work_drop(struct kr_work *w)
{
    bool waits = w->state == KR_WORK_WAITING;

    if (w->state == KR_WORK_IDLE)
        return false;
    if (w->state == KR_WORK_DROPPED)
        return true;
    assert(w->calls->dropped);
    w->state = KR_WORK_DROPPED;
    if (waits) {
        TAILQ_REMOVE(&w->lane->in_line, w, link);
        w->lane->waiting--;
        end_work(w);
    } else {
        (void)uv_cancel((uv_req_t *)&w->req); /* fails if a thread has begun: then its end is waited for */
    }
    return true;
}
