/* Answers to wrong keys, kept back. Called by auth.c from the gate, which may answer later (kr_http_defer()).
 *
 * All wait equally long, so that they leave in the order in which they came: one list, one timer. Invariant: a row is
 * on the list exactly as long as its exchange is open. */
#include "slow.h"
#include "clock.h"
#include "err.h"
#include "http.h"
#include "loop.h"
#include "reply.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/queue.h>

#define MS UINT64_C(1000000)

struct held {
    struct kr_slow *slow;
    struct kr_http_ex *ex;
    struct kr_err err;
    unsigned retry_after_s;
    uint64_t due;
    TAILQ_ENTRY(held) all;
};

struct kr_slow {
    struct kr_timer *timer;
    TAILQ_HEAD(, held) rows;
    unsigned count;
};

static void drop_held(struct held *h)
{
    TAILQ_REMOVE(&h->slow->rows, h, all);
    h->slow->count--;
    free(h);
}

static void on_held_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    drop_held(data);
}

static const struct kr_http_calls held_calls = {.on_gone = on_held_gone};

/* The time of the first row has come. */
static void on_held_timer(void *data)
{
    struct kr_slow *s = data;
    uint64_t now = kr_clock_ns();
    struct held *h;

    while ((h = TAILQ_FIRST(&s->rows)) && h->due <= now) {
        kr_api_fail_later(h->ex, &h->err, h->retry_after_s);
        drop_held(h);
    }
    if (h)
        kr_timer_arm(s->timer, (h->due - now) / MS + 1);
}

int kr_slow_new(struct uv_loop_s *loop, struct kr_slow **ret)
{
    struct kr_slow *s = calloc(1, sizeof *s);
    int r = s ? kr_timer_new(loop, on_held_timer, s, &s->timer) : -ENOMEM;

    if (r < 0) {
        free(s);
        return r;
    }
    TAILQ_INIT(&s->rows);
    *ret = s;
    return 0;
}

void kr_slow_free(struct kr_slow *s)
{
    struct held *h;

    if (!s)
        return;
    while ((h = TAILQ_FIRST(&s->rows)))
        drop_held(h);
    kr_timer_close(s->timer);
    free(s);
}

void kr_slow_refuse(struct kr_slow *s, struct kr_http_ex *ex, const struct kr_err *err, unsigned retry_after_s)
{
    struct held *h = s->count < KR_SLOW_MAX ? malloc(sizeof *h) : NULL;

    if (!h) {
        kr_api_fail_later(ex, err, retry_after_s);
        return;
    }
    *h = (struct held){.slow = s, .ex = ex, .err = *err, .retry_after_s = retry_after_s};
    h->due = kr_clock_ns() + KR_SLOW_MS * MS;
    TAILQ_INSERT_TAIL(&s->rows, h, all);
    s->count++;
    kr_http_defer(ex, &held_calls, h);
    if (!kr_timer_armed(s->timer))
        kr_timer_arm(s->timer, KR_SLOW_MS);
}
