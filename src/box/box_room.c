/* Room for sessions: who gets a place, who makes room, who has waited for long enough.
 *
 * Called by box.c once a turn, and by box_sessions.c. Invariants: at most max_sessions places are taken and no user has
 * more than his own; an idle session loses its place to somebody who waits, a busy one never, and no more of them do than
 * there are who wait; whoever waits hears within queue_wait_ms, or a moment later if a place is just coming free. */
#include "box_internal.h"
#include "clock.h"
#include <errno.h>

#define EVICT_NS UINT64_C(2000000000) /* from the order to close until the place is free */

static bool is_idle(const struct kr_box_session *seat)
{
    return seat->state == KR_SEAT_LIVE && !seat->current && !seat->waiting_count && !seat->opener_count &&
           !seat->looking;
}

/* The least recently used idle session, of one user or of anybody. */
static struct kr_box_session *idle_one(struct kr_box *b, const struct kr_box_user *u)
{
    struct kr_box_session *seat;

    TAILQ_FOREACH(seat, &b->sessions, link)
    if (is_idle(seat) && (!u || seat->user == u))
        return seat;
    return NULL;
}

static bool is_full(const struct kr_box *b)
{
    return (b->config.max_sessions && b->live >= b->config.max_sessions) || (b->most && b->live >= b->most);
}

static bool is_user_full(const struct kr_box *b, const struct kr_box_user *u)
{
    return b->config.max_sessions_per_user && u->sessions >= b->config.max_sessions_per_user;
}

/* Among those who wait, whoever has the fewest sessions comes first. */
static void open_some(struct kr_box *b)
{
    struct kr_box_session *seat, *best;

    while (!is_full(b) && b->waiting > 0) {
        best = NULL;
        TAILQ_FOREACH(seat, &b->waiting_list, waiting_link)
        if (!is_user_full(b, seat->user) && (!best || seat->user->sessions < best->user->sessions))
            best = seat;
        if (!best)
            return;
        kr_seat_open(best);
    }
}

/* What is left to claim in a pass over those who wait. */
struct pass {
    size_t coming; /* places that will be free */
    bool no_idle;  /* nobody is idle any more */
};

/* A place is coming that nobody before has claimed, or an idle session is told to give its own. */
static bool claim_place(struct kr_box *b, struct kr_box_session *seat, struct pass *pass)
{
    struct kr_box_user *own = is_user_full(b, seat->user) ? seat->user : NULL;
    struct kr_box_session *idle;

    if (own ? own->coming > 0 : pass->coming > 0) {
        if (own)
            own->coming--;
        if (pass->coming > 0)
            pass->coming--;
        return true;
    }
    idle = pass->no_idle ? NULL : idle_one(b, own);
    if (idle)
        kr_seat_close(idle, "evicted");
    else if (!own)
        pass->no_idle = true;
    return idle != NULL;
}

/* Those for whom there was no room. */
static void look_at_waiting(struct kr_box *b)
{
    struct pass pass = {.coming = b->leaving};
    uint64_t now = kr_clock_ns(), first = UINT64_MAX;
    struct kr_box_session *seat, *next;
    struct kr_box_user *u;
    struct kr_err err;

    TAILQ_FOREACH(u, &b->users, link)
    u->coming = u->leaving;
    for (seat = TAILQ_FIRST(&b->waiting_list); seat; seat = next) {
        uint64_t until = seat->deadline_ns;

        next = TAILQ_NEXT(seat, waiting_link);
        if (claim_place(b, seat, &pass))
            until += EVICT_NS;
        if (now < until) {
            first = until < first ? until : first;
            continue;
        }
        kr_err_set(&err, KR_ERR_BUSY, 0, "every session is busy; try again in a moment");
        kr_seat_failed(seat, KR_CAUSE_LOST, &err);
    }
    if (first != UINT64_MAX)
        kr_timer_arm(b->room, (first - now) / 1000000);
}

void kr_seats_admit(struct kr_box *b)
{
    if (b->stopping || b->waiting == 0)
        return;
    open_some(b);
    look_at_waiting(b);
}

bool kr_seat_waits_again(struct kr_box_session *seat)
{
    struct kr_box *b = seat->box;

    if (b->live == 0 || b->stopping || seat->closed)
        return false;
    b->most = b->live; /* until the upkeep forgets it: then it is tried again */
    kr_seat_set_state(seat, KR_SEAT_WAITING);
    kr_box_kick(b);
    return true;
}

void kr_seats_stop(struct kr_box *b)
{
    struct kr_box_session *seat, *next;
    struct kr_box_run *r;
    struct kr_err err;

    kr_err_set(&err, KR_ERR_UNAVAILABLE, 0, KR_STOPPING);
    for (seat = TAILQ_FIRST(&b->sessions); seat; seat = next) {
        next = TAILQ_NEXT(seat, link);
        while ((r = TAILQ_FIRST(&seat->waiting)))
            kr_box_run_drop(r, KR_CAUSE_CANCELLED, &err);
        if (seat->state == KR_SEAT_WAITING)
            kr_seat_failed(seat, KR_CAUSE_CANCELLED, &err);
        else if (!seat->current)
            kr_seat_close(seat, "stopping"); /* one that is opening closes when it has */
    }
}
