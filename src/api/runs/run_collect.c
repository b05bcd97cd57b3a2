/* A run's log collected into one outcome, for answers that are one JSON object.
 *
 * Called by the handlers of runs and execute. Invariants: memory is bounded by KR_API_COLLECT_MAX a part, and what does
 * not fit is said to be cut; a peer that leaves ends the collecting and is counted out of the run's readers. */
#include "clock.h"
#include "run_follow.h"
#include "json.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_BYTES (256u << 10) /* then the others have theirs */

struct collector {
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_runlog_reader *reader;
    struct kr_api_outcome o;
    kr_api_collected *then;
    bool both;
    uint64_t began_ns;
};

static struct kr_buf *const *parts(struct kr_api_outcome *o, struct kr_buf *list[7])
{
    struct kr_buf *all[] = {&o->out, &o->err, &o->both, &o->displays, &o->result, &o->error, &o->end};

    memcpy(list, all, sizeof all);
    return list;
}

static void close_collector(struct collector *c)
{
    struct kr_buf *list[7];

    kr_runlog_reader_close(c->reader);
    kr_box_run_unwatch(c->api->box, c->o.run_id);
    parts(&c->o, list);
    for (size_t i = 0; i < 7; i++)
        kr_buf_done(list[i]);
    free(c);
}

static void keep(struct kr_api_outcome *o, struct kr_buf *b, const char *data, size_t len)
{
    if (b->failed || kr_buf_add(b, data, len) < 0)
        o->cut = true;
}

static void take_event(struct kr_api_outcome *o, bool both, const struct kr_event *e)
{
    json_t *result;
    const char *text;

    switch (e->type) {
    case KR_EVENT_STDOUT:
    case KR_EVENT_STDERR:
        keep(o, both ? &o->both : e->type == KR_EVENT_STDOUT ? &o->out : &o->err, e->data, e->len);
        break;
    case KR_EVENT_DISPLAY:
        if (o->displays.len)
            keep(o, &o->displays, ",", 1);
        keep(o, &o->displays, e->data, e->len);
        break;
    case KR_EVENT_RESULT:
        result = json_loadb(e->data, e->len, 0, NULL);
        text = json_string_value(json_object_get(result, "text"));
        o->has_result = text != NULL;
        keep(o, &o->result, text ? text : "", text ? strlen(text) : 0);
        json_decref(result);
        break;
    case KR_EVENT_ERROR:
        keep(o, &o->error, e->data, e->len);
        break;
    case KR_EVENT_CUT:
        o->cut = true;
        break;
    case KR_EVENT_END:
        o->cause = e->cause;
        keep(o, &o->end, e->data, e->len);
        break;
    case KR_EVENT_QUEUED:
    case KR_EVENT_STARTED:
    case KR_EVENT_INPUT:
    case KR_EVENT_NOTICE:
    case KR_EVENT_MAX_:
        break;
    }
}

/* Whoever waited long may have a key that is no longer good: answered then. */
static bool may_still_have_it(struct collector *c)
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
        take_event(&c->o, c->both, &e);
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
    if (may_still_have_it(c))
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
    struct collector *c = calloc(1, sizeof *c);
    struct kr_buf *list[7];

    if (!c) {
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    c->api = api;
    c->ex = ex;
    c->then = then;
    c->both = both;
    c->began_ns = kr_clock_ns();
    snprintf(c->o.run_id, sizeof c->o.run_id, "%s", run_id);
    parts(&c->o, list);
    for (size_t i = 0; i < 7; i++)
        kr_buf_init(list[i], KR_API_COLLECT_MAX);
    kr_box_run_watch(api->box, run_id);
    if (kr_runlog_read(log, 0, on_more, c, &c->reader) < 0) {
        close_collector(c);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    kr_http_defer(ex, &calls, c);
}
