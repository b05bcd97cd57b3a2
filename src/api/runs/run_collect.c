/* A run's log collected into one outcome, for answers that are one JSON object.
 *
 * Called by the handlers of runs and execute. Invariants: memory is bounded by KR_API_COLLECT_MAX a part, and what does
 * not fit is said to be cut; a peer that leaves ends the collecting and is counted out of the run's readers; no turn of
 * the loop writes or sends more than a piece, however large the object is. */
#include "clock.h"
#include "coding.h"
#include "loop.h"
#include "reply.h"
#include "run_follow.h"
#include "work.h"
#include <stdio.h>
#include <stdlib.h>

#define TURN_BYTES (256u << 10) /* then the others have theirs */
#define HERE_BYTES (64u << 10)  /* of an outcome that is written on the loop */

struct collector {
    struct kr_work work; /* its object is written on the thread pool */
    struct kr_api *api;
    struct kr_http_ex *ex;           /* NULL: the peer has left */
    struct kr_runlog_reader *reader; /* NULL: the log is collected */
    struct kr_outcome o;
    kr_api_write_fn *write;
    struct kr_buf buf; /* the object */
    size_t sent;
    bool gzip;            /* it leaves compressed, if the client takes that and it is written on a thread */
    struct kr_soon *next; /* piece of it */
    char run_id[KR_STORE_ID_ROOM];
    uint64_t began_ns;
};

/* The log is read to its end, or not any more. */
static void leave_log(struct collector *c)
{
    if (!c->reader)
        return;
    kr_runlog_reader_close(c->reader);
    c->reader = NULL;
    kr_box_run_unwatch(c->api->box, c->run_id);
}

static void close_collector(struct collector *c)
{
    leave_log(c);
    kr_outcome_done(&c->o);
    kr_buf_done(&c->buf);
    kr_soon_close(c->next);
    free(c);
}

/* ---- the answer ---- */

/* On the thread pool, if it is large. */
static void write_object(void *data)
{
    struct collector *c = data;

    c->write(&c->buf, &c->o, true);
    if (c->buf.failed) {
        kr_buf_reset(&c->buf);
        c->write(&c->buf, &c->o, false);
    }
    kr_outcome_done(&c->o); /* giving so much memory back takes time, too */
}

static void write_large(void *data)
{
    struct collector *c = data;
    size_t len;
    char *zip;

    write_object(c);
    c->gzip = c->gzip && !c->buf.failed && kr_http_gzip(c->buf.data, c->buf.len, false, &zip, &len) == 0;
    if (!c->gzip)
        return;
    kr_buf_reset(&c->buf);
    kr_buf_add(&c->buf, zip, len);
    free(zip);
}

static void on_piece(void *data)
{
    struct collector *c = data;
    size_t left = c->buf.len - c->sent, n = left < TURN_BYTES ? left : TURN_BYTES;
    struct kr_http_ex *ex = c->ex;
    bool is_full;

    is_full = kr_http_write(ex, c->buf.data + c->sent, n) > KR_HTTP_QUEUE_HIGH;
    c->sent += n;
    if (c->sent == c->buf.len) {
        close_collector(c);
        kr_http_end(ex);
    } else if (!is_full) { /* else on_drain() goes on */
        kr_soon_ask(c->next);
    }
}

static void on_drain(void *data, struct kr_http_ex *ex)
{
    struct collector *c = data;

    (void)ex;
    if (c->next && c->sent > 0)
        kr_soon_ask(c->next);
}

static void on_written(void *data)
{
    struct collector *c = data;

    if (!c->ex || c->buf.failed || kr_soon_new(c->api->loop, on_piece, c, &c->next) < 0) {
        struct kr_http_ex *ex = c->ex;

        close_collector(c);
        if (ex)
            kr_http_reply_error(ex, 500, NULL);
        return;
    }
    if (!kr_http_hold(c->ex, c->buf.len)) /* the connection is cut, and on_gone() comes */
        return;
    kr_http_set_header(c->ex, "Vary", "Accept-Encoding");
    if (c->gzip)
        kr_http_set_header(c->ex, "Content-Encoding", "gzip");
    kr_http_begin(c->ex, 200, "application/json", (int64_t)c->buf.len);
    kr_soon_ask(c->next);
}

static void answer(struct collector *c)
{
    static const struct kr_work_calls calls = {.run = write_large, .done = on_written};
    struct kr_http_ex *ex = c->ex;

    leave_log(c);
    kr_buf_init(&c->buf, KR_API_ANSWER_MAX);
    if (c->o.out.len + c->o.err.len + c->o.both.len + c->o.displays.len > HERE_BYTES) {
        c->gzip = kr_http_takes_gzip(kr_http_header(ex, "accept-encoding"));
        kr_work_start(c->api->loop, &c->work, &calls, c);
        return;
    }
    write_object(c);
    kr_api_reply(ex, 200, &c->buf);
    close_collector(c);
}

/* ---- collecting ---- */

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
        answer(c);
    else
        close_collector(c);
}

static void on_gone(void *data, struct kr_http_ex *ex)
{
    struct collector *c = data;

    (void)ex;
    if (kr_work_busy(&c->work))
        c->ex = NULL; /* on_written() closes it */
    else
        close_collector(c);
}

void kr_api_collect(struct kr_api *api, struct kr_http_ex *ex, struct kr_runlog *log, const char *run_id, bool both,
                    kr_api_write_fn *write)
{
    static const struct kr_http_calls calls = {.on_drain = on_drain, .on_gone = on_gone};
    const struct kr_outcome_bounds bounds = {
        .text = KR_API_COLLECT_MAX, .displays = KR_API_COLLECT_MAX, .apart = !both, .together = both};
    struct collector *c = calloc(1, sizeof *c);

    if (!c) {
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    c->api = api;
    c->ex = ex;
    c->write = write;
    c->began_ns = kr_clock_ns();
    snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
    kr_outcome_init(&c->o, &bounds);
    kr_box_run_watch(api->box, run_id);
    if (kr_runlog_read(log, 0, on_more, c, &c->reader) < 0) {
        kr_box_run_unwatch(api->box, run_id);
        close_collector(c);
        kr_http_reply_error(ex, 503, "out of memory");
        return;
    }
    kr_http_defer(ex, &calls, c);
}
