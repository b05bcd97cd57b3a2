/* The table of sessions, and what time does to them and to streams. Called by mcp_http_post.c and mcp_http_get.c.
 *
 * Invariant: `all` is in the order of use, so that the first is the one to go; a session with calls in flight or a
 * connected client is in use and never goes for another. */
#include "mcp_http_session.h"
#include "clock.h"
#include "hash.h"
#include "mcp_http_sse.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SWEEP_MS KR_AUTH_LOOK_MS /* when nothing is due: idle sessions, and keys that are no longer good */

/* ---- the table ---- */

static size_t bucket_of(const char *id)
{
    return kr_hash_text(KR_HASH_START, id) % KR_MCP_BUCKETS;
}

static bool in_use(const struct kr_mcp_session *s)
{
    const struct kr_mcp_stream *stream;

    if (kr_mcp_peer_calls(s->peer) > 0)
        return true;
    TAILQ_FOREACH(stream, &s->streams, entry)
    if (stream->ex)
        return true;
    return false;
}

/* By itself, not by a request. */
static void session_expire(struct kr_mcp_session *s)
{
    char user[KR_STORE_ID_ROOM];

    memcpy(user, s->user, sizeof user);
    kr_mcp_session_free(s, &(struct kr_caller){.user = user, .address = "", .request = ""});
}

/* Makes room for one more of this user's. False: there is none. */
static bool make_session_room(struct kr_mcp_sessions *all, const char *user)
{
    uint32_t max = all->mcp->config.max_sessions ? all->mcp->config.max_sessions : KR_MCP_SESSIONS_MAX;
    struct kr_mcp_session *s, *own_idle = NULL, *idle = NULL;
    size_t own = 0;

    if (all->count < max && all->count < KR_MCP_SESSIONS_PER_USER)
        return true;
    TAILQ_FOREACH(s, &all->all, entry)
    {
        bool is_own = strcmp(s->user, user) == 0, is_idle = !in_use(s);

        own += is_own;
        if (is_idle && is_own && !own_idle)
            own_idle = s;
        if (is_idle && !idle)
            idle = s;
    }
    if (own >= KR_MCP_SESSIONS_PER_USER)
        idle = own_idle;
    else if (all->count < max)
        return true;
    if (!idle)
        return false;
    session_expire(idle);
    return true;
}

const char *kr_mcp_own_name(enum kr_dialect dialect, char name[static KR_MCP_OWN_ROOM])
{
    char id[KR_STORE_ID_ROOM];

    if (dialect != KR_DIALECT_KRAIT)
        return NULL;     /* the documents say themselves what their calls share */
    kr_store_new_id(id); /* not the MCP session's own: that one says who asks */
    snprintf(name, KR_MCP_OWN_ROOM, "mcp-%.8s", id + strlen(id) - 8);
    return name;
}

int kr_mcp_session_new(struct kr_mcp *m, const struct kr_mcp_peer_config *config, struct kr_mcp_session **ret)
{
    struct kr_mcp_sessions *all = m->sessions;
    struct kr_mcp_peer_config own = *config;
    char name[KR_MCP_OWN_ROOM];
    struct kr_mcp_session *s;

    if (m->stopping || !make_session_room(all, config->who.user))
        return -EBUSY;
    if (!(s = calloc(1, sizeof *s)))
        return -ENOMEM;
    own.wire = &kr_mcp_http_wire;
    own.data = s;
    own.fleeting = false;
    own.session = kr_mcp_own_name(config->dialect, name);
    if (kr_mcp_peer_new(m, &own, &s->peer) < 0) {
        free(s);
        return -ENOMEM;
    }
    s->mcp = m;
    s->used_ns = kr_clock_ns();
    kr_store_new_id(s->id);
    strncpy(s->user, config->who.user, sizeof s->user - 1);
    TAILQ_INIT(&s->streams);
    TAILQ_INSERT_TAIL(&all->all, s, entry);
    LIST_INSERT_HEAD(&all->buckets[bucket_of(s->id)], s, bucket);
    all->count++;
    kr_mcp_sessions_tick(all);
    *ret = s;
    return 0;
}

struct kr_mcp_session *kr_mcp_session_find(struct kr_mcp *m, const char *id, const char *user)
{
    struct kr_mcp_sessions *all = m->sessions;
    struct kr_mcp_session *s;

    LIST_FOREACH(s, &all->buckets[bucket_of(id)], bucket)
    if (strcmp(s->id, id) == 0 && strcmp(s->user, user) == 0)
        break;
    if (!s)
        return NULL;
    s->used_ns = kr_clock_ns();
    TAILQ_REMOVE(&all->all, s, entry);
    TAILQ_INSERT_TAIL(&all->all, s, entry);
    return s;
}

struct kr_mcp_stream *kr_mcp_session_stream(struct kr_mcp_session *s, uint64_t number)
{
    struct kr_mcp_stream *stream;

    TAILQ_FOREACH(stream, &s->streams, entry)
    if (stream->number == number)
        return stream;
    return NULL;
}

void kr_mcp_session_free(struct kr_mcp_session *s, const struct kr_caller *who)
{
    struct kr_mcp_sessions *all = s->mcp->sessions;
    struct kr_mcp_stream *stream;

    TAILQ_REMOVE(&all->all, s, entry);
    LIST_REMOVE(s, bucket);
    all->count--;
    if (who)
        kr_mcp_peer_end(s->peer, who);
    else
        kr_mcp_peer_free(s->peer);
    while ((stream = TAILQ_FIRST(&s->streams)))
        kr_mcp_stream_free(stream);
    free(s);
}

/* ---- keys ---- */

/* A stream lasts longer than the look at its key: one whose key was revoked, has run out or is another user's now ends,
 * and what was asked for on it alone. What goes on in a session is the user's and stays. */
static void end_stale(struct kr_mcp_sessions *all)
{
    struct kr_auth *auth = all->mcp->api->auth;
    struct kr_mcp_session *session;
    struct kr_mcp_stream *s, *next;

    if (!auth)
        return;
    for (s = TAILQ_FIRST(&all->loose); s; s = next) {
        next = TAILQ_NEXT(s, entry);
        if (s->ex && kr_mcp_stream_begun(s) && !kr_auth_still(auth, s->ex, s->peer->who.user))
            kr_mcp_stream_free(s);
    }
    TAILQ_FOREACH(session, &all->all, entry)
    TAILQ_FOREACH(s, &session->streams, entry)
    if (s->ex && kr_mcp_stream_begun(s) && !kr_auth_still(auth, s->ex, session->user)) {
        kr_http_end(s->ex);
        s->ex = NULL;
    }
    kr_mcp_sse_end_stale(all);
}

/* ---- time ---- */

static void on_tick(void *data)
{
    struct kr_mcp_sessions *all = data;
    uint64_t now = kr_clock_ns(), idle_ms = all->mcp->config.session_idle_ms;
    struct kr_mcp_session *session, *next;
    struct kr_mcp_stream *s;

    while ((s = TAILQ_FIRST(&all->waiting)) && now - s->since_ns >= KR_MCP_JSON_MS * MS)
        kr_mcp_stream_begin(s);
    while ((s = TAILQ_FIRST(&all->ended)) && now - s->since_ns >= KR_MCP_REPLAY_MS * MS)
        kr_mcp_stream_free(s);
    if (now - all->looked_ns >= SWEEP_MS * MS) {
        all->looked_ns = now;
        end_stale(all);
    }
    if (!idle_ms)
        idle_ms = KR_MCP_SESSION_IDLE_MS;
    for (session = TAILQ_FIRST(&all->all); session && now - session->used_ns >= idle_ms * MS; session = next) {
        next = TAILQ_NEXT(session, entry);
        if (!in_use(session))
            session_expire(session);
    }
    kr_mcp_sessions_tick(all);
}

void kr_mcp_sessions_tick(struct kr_mcp_sessions *s)
{
    uint64_t ms = TAILQ_EMPTY(&s->waiting) && TAILQ_EMPTY(&s->ended) ? SWEEP_MS : KR_MCP_JSON_MS;
    uint64_t at = kr_clock_after_ms(ms);

    if (TAILQ_EMPTY(&s->waiting) && TAILQ_EMPTY(&s->ended) && TAILQ_EMPTY(&s->all) && TAILQ_EMPTY(&s->loose) &&
        TAILQ_EMPTY(&s->sse))
        return;
    if (kr_timer_armed(s->tick) && s->tick_ns <= at)
        return;
    s->tick_ns = at;
    kr_timer_arm(s->tick, ms);
}

int kr_mcp_sessions_new(struct kr_mcp *m)
{
    struct kr_mcp_sessions *s = calloc(1, sizeof *s);

    if (!s)
        return -ENOMEM;
    s->mcp = m;
    TAILQ_INIT(&s->all);
    TAILQ_INIT(&s->loose);
    TAILQ_INIT(&s->waiting);
    TAILQ_INIT(&s->ended);
    TAILQ_INIT(&s->sse);
    for (size_t i = 0; i < KR_MCP_BUCKETS; i++)
        LIST_INIT(&s->buckets[i]);
    if (kr_timer_new(m->api->loop, on_tick, s, &s->tick) < 0) {
        free(s);
        return -ENOMEM;
    }
    m->sessions = s;
    return 0;
}

void kr_mcp_sessions_stop(struct kr_mcp_sessions *s)
{
    struct kr_mcp_session *session;
    struct kr_mcp_stream *own;

    TAILQ_FOREACH(session, &s->all, entry)
    if ((own = kr_mcp_session_stream(session, 0)))
        kr_mcp_stream_free(own);
    kr_mcp_sse_stop(s);
}

void kr_mcp_sessions_free(struct kr_mcp_sessions *s)
{
    struct kr_mcp_session *session;
    struct kr_mcp_stream *stream;

    if (!s)
        return;
    TAILQ_FOREACH(session, &s->all, entry)
    TAILQ_FOREACH(stream, &session->streams, entry)
    stream->ex = NULL; /* gone with the server */
    while ((session = TAILQ_FIRST(&s->all)))
        kr_mcp_session_free(session, NULL);
    while ((stream = TAILQ_FIRST(&s->loose))) {
        stream->ex = NULL;
        kr_mcp_stream_free(stream);
    }
    kr_mcp_sse_free(s);
    kr_timer_close(s->tick);
    s->mcp->sessions = NULL;
    free(s);
}
