/* Readers of a run, and its cancellation.
 *
 * Called by the voices. Invariants: a run without readers does not go on for ever; a reader that comes back in time
 * finds it as it was. */
#include "box_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void cancel_run(struct kr_box_run *r, bool insist)
{
    struct kr_box_session *session = r->session;
    struct kr_err err;

    r->cancelled = true;
    if (r->state == KR_BOX_RUN_WAITING) {
        kr_err_set(&err, KR_ERR_CONFLICT, 0, "the run was cancelled before it began");
        kr_box_run_drop(r, KR_CAUSE_CANCELLED, &err);
        kr_box_session_release(session);
    } else if (r->run && (insist || r->session->thrown_away)) {
        kr_run_cancel(r->run);
    } else if (r->run) {
        kr_run_interrupt(r->run, true); /* its variables are kept if it obeys */
    }
}

static void on_linger(void *data)
{
    cancel_run(data, false);
}

static void end_or_linger(struct kr_box_run *r)
{
    if (r->state >= KR_BOX_RUN_ENDING)
        return;
    if (r->spec.leave_cancels)
        cancel_run(r, false);
    else if (r->linger || kr_timer_new(r->box->loop, on_linger, r, &r->linger) >= 0)
        kr_timer_arm(r->linger, r->box->config.linger_ms);
}

void kr_box_run_forget(struct kr_box_run *r)
{
    kr_box_run_tell_never(r);
    kr_box_kick(r->box); /* it may be the last that a stop waits for */
    if (r->state == KR_BOX_RUN_OVER)
        kr_box_run_free(r);
    else if (r->watchers == 0)
        end_or_linger(r);
}

void kr_box_run_watch(struct kr_box *b, const char *id)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);

    if (!r)
        return;
    r->watchers++;
    if (r->linger)
        kr_timer_disarm(r->linger);
}

void kr_box_run_unwatch(struct kr_box *b, const char *id)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);

    /* A run goes on until its starter has heard of it, whatever other readers came and left. */
    if (r && r->watchers > 0 && --r->watchers == 0 && r->news == KR_BOX_NEWS_TOLD)
        end_or_linger(r);
}

/* Only the process that runs it can speak for it. */
static int elsewhere(struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_CONFLICT, 0, "the run belongs to another krait on this data directory: ask that one");
}

/* From memory, from its file, or from the run's row. */
static int open_log(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_runlog **ret_log,
                    struct kr_err *err)
{
    int e = kr_runlog_open(b->logs, id, ret_log);
    void *bytes = NULL;
    size_t len;

    if (e != -ENOENT || (e = kr_store_run_log(b->config.store, who->user, id, &bytes, &len, err)) < 0)
        return e;
    e = kr_runlog_open_packed(b->logs, id, bytes, len, ret_log);
    free(bytes);
    return e;
}

int kr_box_run_open_log(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_runlog **ret_log,
                        struct kr_err *err)
{
    struct kr_box_run *r = kr_box_run_by_id(b, id);
    struct kr_store_run row = {0};
    int e;

    if (r && strcmp(r->user->id, who->user) == 0) {
        *ret_log = kr_runlog_ref(r->log);
        return 0;
    }
    e = r ? -ENOENT : kr_store_run_get(b->config.store, who->user, id, &row, err);
    if (e >= 0) {
        kr_store_run_done(&row);
        e = kr_store_run_elsewhere(b->config.store, id, err);
        if (e != 0) /* nor if the store cannot say: to open a log that another process writes would end it */
            return e < 0 ? e : elsewhere(err);
        e = open_log(b, who, id, ret_log, err);
    }
    return e < 0   ? kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no run of that id, or its log is no longer kept"),
           -ENOENT : 0;
}

int kr_box_run_cancel(struct kr_box *b, const struct kr_caller *who, const char *id, bool insist, struct kr_err *err)
{
    struct kr_box_run *r = kr_box_run_find(b, who, id);
    struct kr_store_run row = {0};

    if (r && r->state == KR_BOX_RUN_OVER)
        return kr_err_set(err, KR_ERR_CONFLICT, EALREADY, "the run is over");
    if (!r) {
        if (kr_store_run_get(b->config.store, who->user, id, &row, err) < 0)
            return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no run of that id"), -ENOENT;
        kr_store_run_done(&row);
        if (kr_store_run_elsewhere(b->config.store, id, err) == 1)
            return elsewhere(err);
        return kr_err_set(err, KR_ERR_CONFLICT, EALREADY, "the run is over");
    }
    kr_box_audit(b, who, "run.cancel", id, "ok", NULL);
    cancel_run(r, insist);
    return 0;
}

int kr_box_run_interrupt(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err)
{
    struct kr_box_run *r = kr_box_run_find(b, who, id);

    if (!r)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no such run, or it is over"), -ENOENT;
    if (!r->run)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "the run does not run now: cancel ends one that waits");
    kr_run_interrupt(r->run, false);
    kr_box_audit(b, who, "run.interrupt", id, "ok", NULL);
    return 0;
}

bool kr_box_run_asks(struct kr_box *b, const struct kr_caller *who, const char *id)
{
    struct kr_box_run *r = kr_box_run_find(b, who, id);

    return r && r->run && kr_run_asks(r->run);
}

static bool find_behind(const struct kr_box_run *r, struct kr_box_behind *ret)
{
    const struct kr_box_run *first = r && r->state == KR_BOX_RUN_WAITING && r->session ? r->session->current : NULL;

    if (!first)
        return false;
    *ret = (struct kr_box_behind){.asks = first->run && kr_run_asks(first->run)};
    ret->asks_ms = ret->asks ? kr_run_asks_ms(first->run) : 0;
    snprintf(ret->run, sizeof ret->run, "%s", first->id);
    return true;
}

bool kr_box_run_behind(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_box_behind *ret)
{
    return find_behind(kr_box_run_find(b, who, id), ret);
}

static bool awaits_modules(const struct kr_box *b, const struct kr_box_run *r)
{
    const struct kr_box_session *session = r && r->state == KR_BOX_RUN_WAITING ? r->session : NULL;
    uint32_t zygote;

    if (!session || session->state != KR_BOX_SESSION_OPENING || TAILQ_FIRST(&session->waiting) != r)
        return false;
    zygote = kr_engine_zygote_for(b->engine, session->spec.zygote, r->spec.code.text, r->spec.code.len);
    return kr_engine_zygote(b->engine, zygote).state == KR_ZYG_STARTING;
}

bool kr_box_run_awaits_modules(struct kr_box *b, const struct kr_caller *who, const char *id)
{
    return awaits_modules(b, kr_box_run_find(b, who, id));
}

const char *kr_box_run_behind_text(struct kr_box *b, const struct kr_caller *who, const char *id,
                                   char buf[KR_BOX_BEHIND_ROOM])
{
    const struct kr_box_run *r = kr_box_run_find(b, who, id);
    struct kr_box_behind behind;

    *buf = '\0';
    if (awaits_modules(b, r))
        snprintf(buf, KR_BOX_BEHIND_ROOM, "waits until the modules that come with the interpreter are imported");
    else if (!find_behind(r, &behind))
        return buf;
    else if (behind.asks)
        snprintf(buf, KR_BOX_BEHIND_ROOM, "queued behind run %s, which waits for input since %" PRIu64 " s", behind.run,
                 behind.asks_ms / 1000);
    else
        snprintf(buf, KR_BOX_BEHIND_ROOM, "queued behind run %s, which is running", behind.run);
    return buf;
}

void kr_box_run_unanswered(struct kr_box *b, const struct kr_caller *who, const char *id)
{
    struct kr_box_run *r = kr_box_run_find(b, who, id);

    if (r && r->run)
        kr_run_unanswered(r->run);
}

int kr_box_run_reply(struct kr_box *b, const struct kr_caller *who, const char *id, const char *text, size_t len,
                     struct kr_err *err)
{
    struct kr_box_run *r = kr_box_run_find(b, who, id);

    if (!r)
        return kr_err_set(err, KR_ERR_NOT_FOUND, 0, "there is no such run, or it is over"), -ENOENT;
    if (!r->run || kr_run_reply(r->run, text, len) < 0)
        return kr_err_set(err, KR_ERR_CONFLICT, 0, "the run does not ask for input");
    return 0;
}
