/* Streams of /mcp. Called by mcp_http_post.c and mcp_http_get.c, and through the wire by the peers of sessions and
 * requests.
 *
 * Invariants: each message goes to one stream; a stream's events are numbered without gaps, so that what is kept can be
 * distinguished from what is lost; a stream without a session ends with its connection, and its call with it; one of a
 * session goes on without it until its answers are there. */
#include "mcp_http_stream.h"
#include "accept.h"
#include "buf.h"
#include "clock.h"
#include "mcp_http_session.h"
#include "mcp_http_tools.h"
#include "reply.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REFUSAL_MAX 65536u
#define BATCH_MAX (32u << 20) /* bytes of a batch's answers */
#define EVENT_ID_ROOM 48

/* ---- what is kept ---- */

static void drop_oldest(struct kr_mcp_stream *s)
{
    struct kr_mcp_event *e = TAILQ_FIRST(&s->events);

    TAILQ_REMOVE(&s->events, e, entry);
    s->event_count--;
    s->event_bytes -= e->len;
    s->mcp->sessions->replay_bytes -= e->len;
    free(e);
}

static void keep_event(struct kr_mcp_stream *s, const char *json, size_t len)
{
    struct kr_mcp_sessions *all = s->mcp->sessions;
    struct kr_mcp_event *e = malloc(sizeof *e + len);

    if (!e) { /* a gap: what is before it cannot be picked up */
        while (s->event_count)
            drop_oldest(s);
        return;
    }
    e->number = s->last_event;
    e->len = len;
    memcpy(e->data, json, len);
    TAILQ_INSERT_TAIL(&s->events, e, entry);
    s->event_count++;
    s->event_bytes += len;
    all->replay_bytes += len;
    while (s->event_count > KR_MCP_REPLAY_EVENTS || (s->event_bytes > KR_MCP_REPLAY_BYTES && s->event_count > 1))
        drop_oldest(s);
    while (all->replay_bytes > KR_MCP_REPLAY_ALL && !TAILQ_EMPTY(&all->ended))
        kr_mcp_stream_free(TAILQ_FIRST(&all->ended));
    while (all->replay_bytes > KR_MCP_REPLAY_ALL && s->event_count > 1)
        drop_oldest(s);
}

/* ---- out ---- */

static void set_session_header(struct kr_mcp_stream *s, int code)
{
    if (s->session && !(s->opening && code))
        kr_http_set_header(s->ex, "Mcp-Session-Id", s->session->id);
}

/* The lists follow the state. Only a stream of a session is kept after its end. */
static void set_state(struct kr_mcp_stream *s, enum kr_mcp_stream_state state)
{
    struct kr_mcp_sessions *all = s->mcp->sessions;

    if (s->state == KR_STREAM_WAITING)
        TAILQ_REMOVE(&all->waiting, s, waiter);
    if (s->state == KR_STREAM_ENDED) {
        TAILQ_REMOVE(&all->ended, s, waiter);
        if (s->session)
            s->session->kept--;
    }
    s->state = state;
    if (state == KR_STREAM_WAITING)
        TAILQ_INSERT_TAIL(&all->waiting, s, waiter);
    if (state == KR_STREAM_ENDED) {
        TAILQ_INSERT_TAIL(&all->ended, s, waiter);
        if (s->session)
            s->session->kept++;
    }
}

static void stop_waiting(struct kr_mcp_stream *s)
{
    if (s->state == KR_STREAM_WAITING)
        set_state(s, KR_STREAM_OPEN);
}

static void begin_events(struct kr_mcp_stream *s)
{
    set_session_header(s, 0);
    kr_http_set_header(s->ex, "Cache-Control", "no-cache, no-transform");
    kr_http_sse_begin(s->ex);
}

/* An event without data, so that the client has an id to come back with. Older clients choke on it. */
static void prime(struct kr_mcp_stream *s)
{
    char text[128];

    if (s->session && kr_mcp_revs[s->rev].priming)
        kr_http_write(s->ex, text,
                      (size_t)snprintf(text, sizeof text, "id: %" PRIu64 "_%" PRIu64 "\nretry: %u\ndata: \n\n",
                                       s->number, s->last_event, KR_MCP_RETRY_MS));
}

void kr_mcp_stream_begin(struct kr_mcp_stream *s)
{
    stop_waiting(s);
    if (kr_mcp_stream_begun(s) || !s->ex)
        return;
    set_state(s, KR_STREAM_EVENTS);
    begin_events(s);
    prime(s);
    kr_mcp_sessions_tick(s->mcp->sessions);
}

void kr_mcp_stream_collect(struct kr_mcp_stream *s)
{
    stop_waiting(s);
    s->form = KR_STREAM_BATCH;
    s->takes_json = true;
    s->takes_events = false;
}

void kr_mcp_stream_plain(struct kr_mcp_stream *s)
{
    stop_waiting(s);
    s->form = KR_STREAM_PLAIN;
    s->takes_json = true;
    s->takes_events = false;
}

static void write_event(const struct kr_mcp_stream *s, uint64_t number, const char *json, size_t len)
{
    char id[EVENT_ID_ROOM];

    snprintf(id, sizeof id, "%" PRIu64 "_%" PRIu64, s->number, number);
    kr_http_sse_event(s->ex, "message", s->session ? id : NULL, json, len);
}

static void put_event(struct kr_mcp_stream *s, const char *json, size_t len)
{
    s->last_event++;
    if (s->session)
        keep_event(s, json, len);
    if (s->ex)
        write_event(s, s->last_event, json, len);
}

static int status_of(enum kr_mcp_rev rev, int code)
{
    if (!kr_mcp_revs[rev].modern)
        return 200;
    if (code == KR_RPC_NO_METHOD)
        return 404;
    return code == KR_RPC_HEADER_MISMATCH || code == KR_RPC_NO_CAPABILITY || code == KR_RPC_NO_VERSION ? 400 : 200;
}

static void reply_json(struct kr_mcp_stream *s, int status, int code, const char *json, size_t len)
{
    struct kr_http_ex *ex = s->ex;

    set_session_header(s, code);
    s->ex = NULL;
    if (s->form == KR_STREAM_PLAIN)
        kr_mcp_plain_answer(ex, code, json, len);
    else
        kr_http_reply(ex, status, len ? "application/json" : NULL, json, len);
}

/* ---- the end ---- */

void kr_mcp_stream_free(struct kr_mcp_stream *s)
{
    struct kr_mcp_peer *own = s->session ? NULL : s->peer;
    bool begun = kr_mcp_stream_begun(s);

    set_state(s, KR_STREAM_OPEN);
    if (s->session)
        TAILQ_REMOVE(&s->session->streams, s, entry);
    else
        TAILQ_REMOVE(&s->mcp->sessions->loose, s, entry);
    if (s->ex && begun)
        kr_http_end(s->ex);
    else if (s->ex)
        kr_http_reply_error(s->ex, 503, "the session has ended");
    while (s->event_count)
        drop_oldest(s);
    kr_buf_done(&s->answers);
    free(s);
    kr_mcp_peer_free(own);
}

/* A client that lost the connection may come back for the rest. The one whose end is longest ago makes room, which need
 * not be the one that was opened first: that may be `s` itself. */
static void keep_ended(struct kr_mcp_stream *s)
{
    struct kr_mcp_session *session = s->session;
    struct kr_mcp_stream *other, *oldest = NULL;

    TAILQ_FOREACH(other, &session->streams, entry)
    if (other->state == KR_STREAM_ENDED && (!oldest || other->since_ns < oldest->since_ns))
        oldest = other;
    set_state(s, KR_STREAM_ENDED);
    s->since_ns = kr_clock_ns();
    if (session->kept > KR_MCP_REPLAY_KEPT)
        kr_mcp_stream_free(oldest);
    kr_mcp_sessions_tick(s->mcp->sessions);
}

static void reply_batch(struct kr_mcp_stream *s)
{
    if (s->answers.failed) {
        struct kr_http_ex *ex = s->ex;

        s->ex = NULL;
        kr_mcp_http_refuse(ex, 500, NULL, KR_RPC_INTERNAL, "the batch's answers are larger than 32 MiB", NULL);
        return;
    }
    kr_buf_add_str(&s->answers, "]");
    reply_json(s, 200, 0, s->answers.data, s->answers.len);
}

static void end_stream(struct kr_mcp_stream *s)
{
    bool undecided = s->ex && !kr_mcp_stream_begun(s);

    if (undecided && s->form == KR_STREAM_BATCH && s->answers.len > 0)
        reply_batch(s);
    else if (undecided && s->takes_events)
        kr_mcp_stream_begin(s); /* everything was cancelled: a stream of nothing */
    else if (undecided)
        reply_json(s, 202, 0, NULL, 0);
    stop_waiting(s);
    if (s->ex)
        kr_http_end(s->ex);
    s->ex = NULL;
    if (s->session && kr_mcp_stream_begun(s) && s->event_count)
        keep_ended(s);
    else
        kr_mcp_stream_free(s);
}

void kr_mcp_stream_release(struct kr_mcp_stream *s)
{
    if (--s->due == 0)
        end_stream(s);
}

/* ---- the wire ---- */

static void collect_answer(struct kr_mcp_stream *s, const char *json, size_t len)
{
    kr_buf_add_str(&s->answers, s->answers.len ? "," : "[");
    kr_buf_add(&s->answers, json, len);
}

static void send_stream_answer(struct kr_mcp_stream *s, int code, const char *json, size_t len)
{
    if (!kr_mcp_stream_begun(s) && s->ex && !s->takes_json && s->takes_events)
        kr_mcp_stream_begin(s);
    if (kr_mcp_stream_begun(s))
        put_event(s, json, len);
    else if (s->form == KR_STREAM_BATCH)
        collect_answer(s, json, len);
    else if (s->ex)
        reply_json(s, status_of(s->rev, code), code, json, len);
    kr_mcp_stream_release(s);
}

static void on_stream_send(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    struct kr_mcp_session *session = data;
    struct kr_mcp_stream *s = stream ? stream : session ? kr_mcp_session_stream(session, 0) : NULL;

    if (!s)
        return; /* the session's own stream is not open */
    switch (what) {
    case KR_MCP_ANSWER:
        send_stream_answer(s, code, json, len);
        break;
    case KR_MCP_SILENCE:
        kr_mcp_stream_release(s);
        break;
    case KR_MCP_NOTE:
    case KR_MCP_ASK:
        if (!kr_mcp_stream_begun(s) && s->ex && s->takes_events)
            kr_mcp_stream_begin(s);
        if (kr_mcp_stream_begun(s) && !(what == KR_MCP_NOTE && s->ex && kr_http_queued(s->ex) > KR_HTTP_QUEUE_HIGH))
            put_event(s, json, len);
        break;
    }
}

static bool may_ask(void *data, void *stream)
{
    const struct kr_mcp_stream *s = stream;

    return data && s && (kr_mcp_stream_begun(s) || (s->ex && s->takes_events));
}

/* By any of its streams: a client that lost one may have the question, and answers by a request of its own. */
static bool is_there(void *data)
{
    const struct kr_mcp_session *session = data;
    const struct kr_mcp_stream *s;

    if (session)
        TAILQ_FOREACH(s, &session->streams, entry)
    if (s->ex)
        return true;
    return false;
}

const struct kr_mcp_wire kr_mcp_http_wire = {.send = on_stream_send, .may_ask = may_ask, .is_there = is_there};

/* ---- in ---- */

static void on_stream_gone(void *data, struct kr_http_ex *ex)
{
    struct kr_mcp_stream *s = data;

    (void)ex;
    s->ex = NULL;
    stop_waiting(s);
    if (!s->session)
        kr_mcp_stream_free(s);
}

static const struct kr_http_calls calls = {.on_gone = on_stream_gone};

struct kr_mcp_stream *kr_mcp_stream_new(struct kr_mcp *m, struct kr_mcp_session *session, struct kr_mcp_peer *peer,
                                        enum kr_mcp_rev rev, struct kr_http_ex *ex, unsigned due)
{
    const char *accept = kr_http_header(ex, "accept");
    struct kr_mcp_stream *s = calloc(1, sizeof *s);

    if (!s) {
        kr_mcp_http_refuse(ex, 503, NULL, KR_RPC_INTERNAL, "no memory", NULL);
        return NULL;
    }
    s->mcp = m;
    s->session = session;
    s->peer = peer;
    s->ex = ex;
    s->rev = rev;
    s->due = due;
    s->takes_events = kr_api_accepts(accept, "text/event-stream") > 0;
    s->takes_json =
        !s->takes_events || kr_api_accepts(accept, "application/json") > 0 || (accept && strstr(accept, "*/*"));
    s->since_ns = kr_clock_ns();
    TAILQ_INIT(&s->events);
    kr_buf_init(&s->answers, BATCH_MAX);
    if (session) {
        s->number = due ? ++session->next_stream : 0;
        TAILQ_INSERT_TAIL(&session->streams, s, entry);
    } else {
        TAILQ_INSERT_TAIL(&m->sessions->loose, s, entry);
    }
    if (s->takes_events && due) {
        set_state(s, KR_STREAM_WAITING);
        kr_mcp_sessions_tick(m->sessions);
    }
    kr_http_defer(ex, &calls, s);
    return s;
}

int kr_mcp_stream_resume(struct kr_mcp_stream *s, struct kr_http_ex *ex, uint64_t last)
{
    struct kr_mcp_event *e;

    if (!kr_mcp_stream_begun(s) || last > s->last_event || last < s->last_event - s->event_count)
        return -ENOENT;
    if (s->ex)
        kr_http_end(s->ex); /* the client has given that one up */
    s->ex = ex;
    kr_http_defer(ex, &calls, s);
    begin_events(s);
    if (last == s->last_event && s->state != KR_STREAM_ENDED)
        prime(s);
    TAILQ_FOREACH(e, &s->events, entry)
    if (e->number > last)
        write_event(s, e->number, e->data, e->len);
    if (s->state == KR_STREAM_ENDED) {
        kr_http_end(ex);
        s->ex = NULL;
    }
    return 0;
}

void kr_mcp_http_refuse(struct kr_http_ex *ex, int status, const json_t *id, int code, const char *text, json_t *data)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, REFUSAL_MAX);
    if (kr_mcp_is_plain(ex)) {
        kr_api_fail_status(ex, status, "%s", text);
    } else {
        kr_mcp_write_error(&out, id, code, text, data);
        kr_http_reply_json(ex, status, &out);
    }
    json_decref(data);
}
