/* Work that is put off to the end of this turn of the loop.
 *
 * Called by code that must not call back from inside a call. Invariant: asked for any number of times in a turn, it is
 * done once, right after the events of the turn, and without the loop going to sleep before. */
#include "loop.h"
#include <errno.h>
#include <stdlib.h>
#include <uv.h>

struct kr_soon {
    uv_check_t check;
    uv_idle_t awake; /* while it is active the loop does not sleep */
    kr_timer_fn *on_soon;
    void *data;
    int open; /* handles that are not closed yet */
};

static void on_idle(uv_idle_t *handle)
{
    (void)handle;
}

static void on_check(uv_check_t *handle)
{
    struct kr_soon *s = handle->data;

    uv_check_stop(&s->check);
    uv_idle_stop(&s->awake);
    s->on_soon(s->data);
}

static void on_closed(uv_handle_t *handle)
{
    struct kr_soon *s = handle->data;

    if (--s->open == 0)
        free(s);
}

int kr_soon_new(struct uv_loop_s *loop, kr_timer_fn *on_soon, void *data, struct kr_soon **ret_soon)
{
    struct kr_soon *s = calloc(1, sizeof *s);

    if (!s)
        return -ENOMEM;
    s->on_soon = on_soon;
    s->data = data;
    s->open = 2;
    uv_check_init(loop, &s->check); /* neither can fail */
    uv_idle_init(loop, &s->awake);
    s->check.data = s->awake.data = s;
    *ret_soon = s;
    return 0;
}

void kr_soon_ask(struct kr_soon *s)
{
    uv_check_start(&s->check, on_check);
    uv_idle_start(&s->awake, on_idle);
}

void kr_soon_close(struct kr_soon *s)
{
    if (!s)
        return;
    uv_close((uv_handle_t *)&s->check, on_closed);
    uv_close((uv_handle_t *)&s->awake, on_closed);
}
