/* Deadlines: each connection has one at a time. Called by conn.c and conn_output.c.
 *
 * All deadlines of a kind have the same length, so a queue per kind, appended to at its end, is sorted, and starting or
 * ending one costs nothing. One timer of the loop runs for the earliest of the queues' heads. Invariant: a connection
 * is on the queue of its kind and on no other; the timer is never later than the earliest head. */
#include "http_internal.h"

static uint64_t length_of(const struct kr_http_server *s, enum deadline which)
{
    switch (which) {
    case D_HEAD:
        return s->config.head_ms;
    case D_IDLE:
        return s->config.idle_ms;
    case D_BODY:
        return s->config.body_ms;
    case D_WRITE:
        return s->config.write_ms;
    case D_LINGER:
        return s->config.linger_ms;
    case D_BEAT:
        return s->config.beat_ms;
    case D_NONE:
    case D_MAX_:
        break;
    }
    return 0;
}

static void http_deadline_on_timer(uv_timer_t *timer);

static void run_timer(struct kr_http_server *s, uint64_t due)
{
    uint64_t now = uv_now(s->loop);

    if (s->timer_due != 0 && s->timer_due <= due)
        return;
    s->timer_due = due;
    uv_timer_start(&s->timer, http_deadline_on_timer, due > now ? due - now : 0, 0);
}

static void start(struct kr_http_conn *c, enum deadline which)
{
    struct kr_http_server *s = c->server;

    if (c->deadline != D_NONE)
        TAILQ_REMOVE(&s->timed[c->deadline], c, timed);
    c->deadline = (uint8_t)which;
    if (which == D_NONE)
        return;
    c->due = uv_now(s->loop) + length_of(s, which) + 1; /* uv_now() is rounded down */
    if (which == D_BODY || which == D_LINGER)
        c->window = 0;
    TAILQ_INSERT_TAIL(&s->timed[which], c, timed);
    run_timer(s, c->due);
}

void kr_http_deadline_set(struct kr_http_conn *c, enum deadline which)
{
    if (c->deadline != which)
        start(c, which);
}

void kr_http_deadline_again(struct kr_http_conn *c)
{
    start(c, (enum deadline)c->deadline);
}

static void http_deadline_on_timer(uv_timer_t *timer)
{
    struct kr_http_server *s = timer->data;
    uint64_t now = uv_now(s->loop), earliest = 0;

    s->timer_due = 0;
    for (unsigned i = D_NONE + 1; i < D_MAX_; i++) {
        struct kr_http_conn *c;

        while ((c = TAILQ_FIRST(&s->timed[i])) && c->due <= now) {
            start(c, D_NONE);
            kr_http_conn_late(c, (enum deadline)i);
        }
    }
    for (unsigned i = D_NONE + 1; i < D_MAX_; i++) {
        const struct kr_http_conn *c = TAILQ_FIRST(&s->timed[i]);

        if (c && (earliest == 0 || c->due < earliest))
            earliest = c->due;
    }
    if (earliest != 0)
        run_timer(s, earliest);
}
