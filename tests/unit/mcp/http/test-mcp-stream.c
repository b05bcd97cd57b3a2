/* src/mcp/http_stream and http_session: what is kept of a stream whose client is not there, and who goes when there is
 * no room. No client is connected here: that side is tests/mcp/transport.py. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "api.h"
#include "err.h"
#include "mcp_http_session.h"
#include "mcp.h"
#include <errno.h>
#include <uv.h>

static uv_loop_t loop;
static struct kr_api api;
static struct kr_mcp *mcp;

static struct kr_mcp_session *session_of(const char *user)
{
    struct kr_mcp_peer_config config = {.who = {.user = user, .address = "", .request = ""}};
    struct kr_mcp_session *s = NULL;

    return kr_mcp_session_new(mcp, &config, &s) == 0 ? s : NULL;
}

/* A stream of the session that has begun and lost its client, as mcp_http_stream.c leaves it. */
static struct kr_mcp_stream *stream_of(struct kr_mcp_session *session, unsigned due)
{
    struct kr_mcp_stream *s = calloc(1, sizeof *s);

    s->mcp = mcp;
    s->session = session;
    s->peer = session->peer;
    s->rev = KR_REV_2025_11_25;
    s->number = ++session->next_stream;
    s->state = KR_STREAM_EVENTS;
    s->takes_events = true;
    s->due = due;
    TAILQ_INIT(&s->events);
    kr_buf_init(&s->answers, 1024);
    TAILQ_INSERT_TAIL(&session->streams, s, entry);
    return s;
}

static void say(struct kr_mcp_stream *s, enum kr_mcp_sent what, size_t len)
{
    char *text = malloc(len + 1);

    memset(text, 'x', len);
    kr_mcp_http_wire.send(s->session, s, what, 0, text, len);
    free(text);
}

static void events_are_kept_up_to_a_number(void)
{
    struct kr_mcp_session *session = session_of("ann");
    struct kr_mcp_stream *s = stream_of(session, 1);

    for (unsigned i = 0; i < KR_MCP_REPLAY_EVENTS + 10; i++)
        say(s, KR_MCP_NOTE, 8);
    CHECK(s->event_count == KR_MCP_REPLAY_EVENTS && s->last_event == KR_MCP_REPLAY_EVENTS + 10);
    CHECK(TAILQ_FIRST(&s->events)->number == 11);
    CHECK(kr_mcp_stream_resume(s, NULL, 9) == -ENOENT); /* the tenth is lost */
    CHECK(kr_mcp_stream_resume(s, NULL, s->last_event + 1) == -ENOENT);
    CHECK(mcp->sessions->replay_bytes == 8 * KR_MCP_REPLAY_EVENTS);
    kr_mcp_session_free(session, NULL);
    CHECK(mcp->sessions->replay_bytes == 0);
}

static void events_are_kept_up_to_their_bytes(void)
{
    struct kr_mcp_session *session = session_of("ann");
    struct kr_mcp_stream *s = stream_of(session, 1);

    for (unsigned i = 0; i < 5; i++)
        say(s, KR_MCP_NOTE, KR_MCP_REPLAY_BYTES / 3);
    CHECK(s->event_count == 3 && s->event_bytes <= KR_MCP_REPLAY_BYTES);
    say(s, KR_MCP_NOTE, 4 * KR_MCP_REPLAY_BYTES); /* the newest stays, whatever its size */
    CHECK(s->event_count == 1 && s->event_bytes == 4 * KR_MCP_REPLAY_BYTES);
    kr_mcp_session_free(session, NULL);
}

static void ended_streams_are_few(void)
{
    struct kr_mcp_session *session = session_of("ann");
    struct kr_mcp_stream *s;
    size_t count = 0;

    for (unsigned i = 0; i < KR_MCP_REPLAY_KEPT + 5; i++)
        say(stream_of(session, 1), KR_MCP_ANSWER, 8);
    TAILQ_FOREACH(s, &session->streams, entry)
    count += s->state == KR_STREAM_ENDED;
    CHECK(count == KR_MCP_REPLAY_KEPT && session->kept == KR_MCP_REPLAY_KEPT);
    CHECK(!kr_mcp_session_stream(session, 5) && kr_mcp_session_stream(session, 6));
    kr_mcp_session_free(session, NULL);
    CHECK(TAILQ_EMPTY(&mcp->sessions->ended));
}

static void all_events_together_are_bounded(void)
{
    struct kr_mcp_session *ann = session_of("ann"), *bob = session_of("bob");
    size_t each = 8u << 20, fit = KR_MCP_REPLAY_ALL / each;

    for (size_t i = 0; i < KR_MCP_REPLAY_KEPT; i++)
        say(stream_of(i % 2 ? ann : bob, 1), KR_MCP_ANSWER, each);
    CHECK(fit == KR_MCP_REPLAY_KEPT && mcp->sessions->replay_bytes == KR_MCP_REPLAY_ALL);
    say(stream_of(ann, 1), KR_MCP_ANSWER, each); /* one more: the one that ended first goes, whose ever it is */
    CHECK(mcp->sessions->replay_bytes <= KR_MCP_REPLAY_ALL && !kr_mcp_session_stream(bob, 1));
    CHECK(kr_mcp_session_stream(ann, 1));
    kr_mcp_session_free(ann, NULL);
    kr_mcp_session_free(bob, NULL);
}

static void an_answer_without_a_reader_is_dropped(void)
{
    struct kr_mcp_session *session = session_of("ann");
    struct kr_mcp_stream *s = stream_of(session, 2);

    s->state = KR_STREAM_OPEN; /* it would have been JSON: its client has no event to come back with */
    say(s, KR_MCP_NOTE, 8);
    say(s, KR_MCP_ANSWER, 8);
    CHECK(s->due == 1 && s->event_count == 0);
    say(s, KR_MCP_SILENCE, 0);
    CHECK(TAILQ_EMPTY(&session->streams));
    kr_mcp_session_free(session, NULL);
}

static void the_idle_session_goes_first(void)
{
    struct kr_mcp_session *first = session_of("ann"), *other = session_of("bob"), *s;
    char first_id[KR_STORE_ID_ROOM], second_id[KR_STORE_ID_ROOM] = "", other_id[KR_STORE_ID_ROOM];

    CHECK(first && other);
    memcpy(first_id, first->id, sizeof first_id);
    memcpy(other_id, other->id, sizeof other_id);
    for (unsigned i = 1; i < KR_MCP_SESSIONS_PER_USER; i++) {
        CHECK((s = session_of("ann")));
        if (i == 1)
            memcpy(second_id, s->id, sizeof second_id);
    }
    CHECK(mcp->sessions->count == KR_MCP_SESSIONS_PER_USER + 1);
    CHECK(kr_mcp_session_find(mcp, first_id, "ann")); /* used: it is not the oldest any more */
    CHECK(!kr_mcp_session_find(mcp, first_id, "bob"));
    CHECK(session_of("ann") && mcp->sessions->count == KR_MCP_SESSIONS_PER_USER + 1);
    CHECK(kr_mcp_session_find(mcp, first_id, "ann") && !kr_mcp_session_find(mcp, second_id, "ann"));
    CHECK(kr_mcp_session_find(mcp, other_id, "bob")); /* another's is never the one to go for a user's own bound */
}

static void all_sessions_together_are_bounded(void)
{
    char user[16];

    mcp->config.max_sessions = (uint32_t)mcp->sessions->count + 3;
    for (unsigned i = 0; i < 20; i++) {
        snprintf(user, sizeof user, "u%u", i);
        CHECK(session_of(user));
        CHECK(mcp->sessions->count <= mcp->config.max_sessions);
    }
    mcp->config.max_sessions = 0;
}

static void a_session_in_use_stays(void)
{
    struct kr_mcp_session *s;
    struct kr_mcp_peer_config config = {.who = {.user = "zoe", .address = "", .request = ""}};

    while ((s = TAILQ_FIRST(&mcp->sessions->all)))
        kr_mcp_session_free(s, NULL);
    mcp->config.max_sessions = 1;
    CHECK((s = session_of("ann")));
    stream_of(s, 1)->ex = (struct kr_http_ex *)mcp; /* a client is connected */
    CHECK(kr_mcp_session_new(mcp, &config, &s) == -EBUSY && mcp->sessions->count == 1);
    TAILQ_FIRST(&TAILQ_FIRST(&mcp->sessions->all)->streams)->ex = NULL;
    CHECK(kr_mcp_session_new(mcp, &config, &s) == 0 && mcp->sessions->count == 1);
}

int main(void)
{
    struct kr_mcp_config config = {.version = "1"};
    struct kr_err err;

    uv_loop_init(&loop);
    api.loop = &loop;
    if (kr_mcp_new(&api, &config, &mcp, &err) < 0) {
        printf("FAIL kr_mcp_new: %s\n", err.msg);
        return 1;
    }
    RUN(events_are_kept_up_to_a_number);
    RUN(events_are_kept_up_to_their_bytes);
    RUN(ended_streams_are_few);
    RUN(all_events_together_are_bounded);
    RUN(an_answer_without_a_reader_is_dropped);
    RUN(the_idle_session_goes_first);
    RUN(all_sessions_together_are_bounded);
    RUN(a_session_in_use_stays);
    kr_mcp_free(mcp);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
    CHECK_DONE();
}
