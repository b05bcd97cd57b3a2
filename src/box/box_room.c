/* Slots of sessions: which session gets one, which gives its own up, which has waited for too long.
 *
 * Called by box.c once a turn, and by box_sessions.c. Invariants: at most max_sessions slots are taken, a user has
 * at most max_sessions_per_user of them and a profile at most its own max_sessions; an idle session loses its slot
 * to one that waits, a busy session never, and no more sessions are closed than wait; a session that waits is
 * refused after queue_wait_ms, or EVICT_NS later if a slot is about to be free. */
#include "box_internal.h"
#include "clock.h"
#include <errno.h>

#define EVICT_NS UINT64_C(2000000000) /* from the order to close until the slot is free */

static bool is_idle(const struct kr_box_session *session)
{
    return session->state == KR_BOX_SESSION_LIVE && !session->current && !session->terminal &&
           !session->waiting_count && !session->opener_count && !kr_changes_looking(session);
}

/* The least recently used idle session, of one user and one profile if they are given. */
static struct kr_box_session *idle_one(struct kr_box *b, const struct kr_box_user *u, const struct kr_profile *profile)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (is_idle(session) && (!u || session->user == u) && (!profile || session->profile == profile))
        return session;
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

static bool is_share_full(const struct kr_box *b, const struct kr_profile *p)
{
    return p->max_sessions && b->shares[p->dialect].sessions >= p->max_sessions;
}

/* Among those that wait, the session of the user with the fewest sessions comes first. One that waits for its folder
 * holds up no other. */
static void open_some(struct kr_box *b)
{
    struct kr_box_session *session, *best;

    TAILQ_FOREACH(session, &b->waiting_list, waiting_link)
    session->needs_folder = false;
    while (!is_full(b) && b->waiting > 0) {
        best = NULL;
        TAILQ_FOREACH(session, &b->waiting_list, waiting_link)
        if (!session->needs_folder && !is_user_full(b, session->user) && !is_share_full(b, session->profile) &&
            (!best || session->user->sessions < best->user->sessions))
            best = session;
        if (!best)
            return;
        if (kr_shelf_ready(b, best))
            kr_box_session_start(best);
        else
            best->needs_folder = true;
    }
}

/* What is left to claim in a pass over the sessions that wait. */
struct pass {
    size_t coming; /* slots that will be free */
    bool no_idle;  /* no session is idle any more */
};

/* Claims a slot that will be free and is not claimed in this pass, or closes an idle session for its slot. Where the
 * session's user or its profile has as many as it may, the slot must be one of theirs. */
static bool claim_slot(struct kr_box *b, struct kr_box_session *session, struct pass *pass)
{
    struct kr_box_user *user = is_user_full(b, session->user) ? session->user : NULL;
    struct kr_box_share *share = is_share_full(b, session->profile) ? &b->shares[session->profile->dialect] : NULL;
    bool user_needs = user && user->coming == 0, share_needs = share && share->coming == 0;
    struct kr_box_session *idle;

    if (user || share ? !user_needs && !share_needs : pass->coming > 0) {
        if (user)
            user->coming--;
        if (share)
            share->coming--;
        if (pass->coming > 0)
            pass->coming--;
        return true;
    }
    idle = pass->no_idle ? NULL : idle_one(b, user_needs ? user : NULL, share_needs ? session->profile : NULL);
    if (!idle && user_needs && share_needs)
        idle = idle_one(b, user, NULL); /* the profile's comes next, when this one has left */
    if (idle)
        kr_box_session_end(idle, "evicted");
    else if (!user && !share)
        pass->no_idle = true;
    return idle != NULL;
}

/* Finds slots for the sessions that got none, and refuses those that have waited for too long. */
static void look_at_waiting(struct kr_box *b)
{
    struct pass pass = {.coming = b->leaving};
    uint64_t now = kr_clock_ns(), first = UINT64_MAX;
    struct kr_box_session *session, *next;
    struct kr_box_user *u;
    struct kr_err err;

    TAILQ_FOREACH(u, &b->users, link)
    u->coming = u->leaving;
    for (size_t i = 0; i < KR_DIALECT_MAX_; i++)
        b->shares[i].coming = b->shares[i].leaving;
    for (session = TAILQ_FIRST(&b->waiting_list); session; session = next) {
        uint64_t until = session->deadline_ns;

        next = TAILQ_NEXT(session, waiting_link);
        if (!session->needs_folder && claim_slot(b, session, &pass)) /* a folder comes from the disk, not from others */
            until += EVICT_NS;
        if (now < until) {
            first = until < first ? until : first;
            continue;
        }
        kr_err_set(&err, KR_ERR_BUSY, 0, "%s",
                   session->needs_folder ? "the disk of the sandboxes is slow: the folder is not ready; try again later"
                   : b->most && b->full.code == EAGAIN ? b->full.msg
                                                       : "every session is busy; try again in a moment");
        kr_box_session_fail(session, KR_CAUSE_LOST, &err);
    }
    if (first != UINT64_MAX)
        kr_timer_arm(b->slot_timer, (first - now) / 1000000);
}

void kr_box_sessions_admit(struct kr_box *b)
{
    if (b->stopping || b->waiting == 0)
        return;
    open_some(b);
    look_at_waiting(b);
}

bool kr_box_session_wait_again(struct kr_box_session *session, const struct kr_err *why)
{
    struct kr_box *b = session->box;

    if (b->live == 1 || b->stopping || session->end_reason) /* 1: itself */
        return false;
    b->full = *why;
    b->most = b->live - 1; /* until the upkeep forgets it: then it is tried again */
    kr_box_session_set_state(session, KR_BOX_SESSION_WAITING);
    kr_box_kick(b);
    return true;
}

void kr_box_sessions_stop(struct kr_box *b)
{
    struct kr_box_session *session, *next;
    struct kr_box_run *r;
    struct kr_err err;

    kr_box_preloads_close(b);
    kr_err_set(&err, KR_ERR_BUSY, 0, KR_STOPPING);
    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        next = TAILQ_NEXT(session, link);
        while ((r = TAILQ_FIRST(&session->waiting)))
            kr_box_run_drop(r, KR_CAUSE_CANCELLED, &err);
        if (session->state == KR_BOX_SESSION_WAITING)
            kr_box_session_fail(session, KR_CAUSE_CANCELLED, &err);
        else if (!session->current)
            kr_box_session_end(session, "stopping"); /* one that is opening closes when it has */
    }
}
