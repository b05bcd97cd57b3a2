/* A run's log collected into one outcome, for answers that are one JSON object.
 *
 * Called by the handlers of runs and execute. Invariants: memory is bounded by KR_API_COLLECT_MAX a part, and what does
 * not fit is said to be cut; a peer that leaves ends the collecting and is counted out of the run's readers. */
#include "clock.h"
#include "run_follow.h"
#include <stdio.h>
#include <stdlib.h>

#define TURN_BYTES (256u << 10) /* then the others have theirs */

struct collector {
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_runlog_reader *reader;
    struct kr_outcome o;
    kr_api_collected *then;
    char run_id[KR_STORE_ID_ROOM];
    uint64_t began_ns;
};

static void close_collector(struct collector *c)
{
    kr_runlog_reader_close(c->reader);
    kr_box_run_unwatch(c->api->box, c->run_id);
    kr_outcome_done(&c->o);
    free(c);
}

/* The key of a client that waited long may have ended meanwhile: such a client gets the refusal. */
static bool still_may_read(struct collector *c)
{
    struct kr_auth *auth = c->api->auth;
    struct kr_api_who who;

    return kr_clock_ns() - c->began_ns < KR_AUTH_LOOK_MS * UINT64_C(1000000) || kr_auth_still(auth, c->ex, NULL) ||
           kr_auth_caller(auth, c->ex, &who);
}

static void on_more(void *data, struct kr_runlog_reader *reader)
{
    struct collector *c = data;
    struct kr_event e;
    size_t taken = 0;
    int r;

    while ((r = kr_runlog_peek(reader, &e)) > 0) {
        if (taken >= TURN_BYTES) {
            kr_runlog_come_back(reader);
            return;
        }
        kr_outcome_take(&c->o, &e);
        taken += e.len + sizeof e;
        kr_runlog_take(reader);
    }
    if (r < 0) {
        struct kr_http_ex *ex = c->ex;

        close_collector(c);
        kr_http_reply_error(ex, 500, "the run's log cannot be read");
        return;
    }
    if (!kr_runlog_done(reader))
        return;
    kr_outcome_close(&c->o);
    if (still_may_read(c))
        c->then(c->api, c->ex, &c->o);
    close_collector(c);
}

static void on_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    close_collector(data);
}

void kr_api_collect(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id, bool both,
                    kr_api_collected *then)
{
    static const struct kr_http_calls calls = {.on_gone = on_gone};
    const struct kr_outcome_bounds bounds = {
        .text = KR_API_COLLECT_MAX, .displays = KR_API_COLLECT_MAX, .apart = !both, .together = both};
    struct collector *c = calloc(1, sizeof *c);

    if (!c) {
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    c->api = api;
    c->ex = ex;
    c->then = then;
    c->began_ns = kr_clock_ns();
    snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
    kr_outcome_init(&c->o, &bounds);
    kr_box_run_watch(api->box, run_id);
    if (kr_runlog_read(log, 0, on_more, c, &c->reader) < 0) {
        close_collector(c);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    kr_http_defer(ex, &calls, c);
}
