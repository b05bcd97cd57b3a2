/* One-shot timers.
 *
 * Called by the engine for timeouts, graces and delays. Invariant: a timer fires at most once per arming, and never
 * early. */
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <uv.h>

struct kr_timer {
    uv_timer_t timer;
    kr_timer_fn *on_timer;
    void *data;
};

static void on_uv_timer(uv_timer_t *handle)
{
    struct kr_timer *t = handle->data;

    t->on_timer(t->data);
}

static void on_uv_closed(uv_handle_t *handle)
{
    free(handle->data);
}

int kr_timer_new(struct uv_loop_s *loop, kr_timer_fn *on_timer, void *data, struct kr_timer **ret_timer)
{
    struct kr_timer *t = calloc(1, sizeof *t);

    if (!t)
        return -ENOMEM;
    t->on_timer = on_timer;
    t->data = data;
    uv_timer_init(loop, &t->timer); /* only fills the struct: cannot fail */
    t->timer.data = t;
    *ret_timer = t;
    return 0;
}

void kr_timer_arm(struct kr_timer *t, uint64_t ms)
{
    /* libuv counts from the start of this turn of the loop, in whole milliseconds rounded down: without the update a
     * slow callback, without the added millisecond the rounding, would make it fire early. */
    uv_update_time(t->timer.loop);
    uv_timer_start(&t->timer, on_uv_timer, ms < UINT64_MAX ? ms + 1 : ms, 0);
}

void kr_timer_disarm(struct kr_timer *t)
{
    uv_timer_stop(&t->timer);
}

bool kr_timer_armed(const struct kr_timer *t)
{
    return uv_is_active((const uv_handle_t *)&t->timer);
}

void kr_timer_close(struct kr_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->timer, on_uv_closed);
}
