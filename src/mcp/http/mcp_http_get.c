/* GET and DELETE of /mcp: a session's own stream, one that is picked up again, the end of a session; and GET /, which
 * is whatever its Accept header asks for. Handlers of the route table. */
#include "accept.h"
#include "mcp_http_ask.h"
#include "mcp_http_routes.h"
#include "mcp_http_session.h"
#include "mcp_http_sse.h"
#include "mcp_http_decide.h"
#include "pages.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRED "Mcp-Session-Id is missing: begin with `initialize`"

/* ---- event ids ---- */

/* "stream_event" as mcp_http_stream.c writes it. */
static int parse_event_id(const char *text, uint64_t *ret_stream, uint64_t *ret_event)
{
    char *end;

    errno = 0;
    if (text[0] < '0' || text[0] > '9')
        return -EINVAL;
    *ret_stream = strtoull(text, &end, 10);
    if (errno || *end != '_' || end[1] < '0' || end[1] > '9')
        return -EINVAL;
    *ret_event = strtoull(end + 1, &end, 10);
    return errno || *end ? -EINVAL : 0;
}

static void resume_stream(struct kr_http_ex *ex, struct kr_mcp_session *session, const char *last)
{
    uint64_t number, event;
    struct kr_mcp_stream *s = NULL;

    if (parse_event_id(last, &number, &event) == 0)
        s = kr_mcp_session_stream(session, number);
    if (!s || kr_mcp_stream_resume(s, ex, event) < 0)
        kr_mcp_http_refuse(ex, 400, NULL, KR_RPC_INVALID_REQUEST,
                           "Last-Event-ID: not an event of this session, or no longer kept", NULL);
}

static void open_own(struct kr_http_ex *ex, struct kr_mcp_session *session)
{
    struct kr_mcp_stream *s = kr_mcp_session_stream(session, 0);
    int rev = kr_mcp_peer_rev(session->peer);

    if (s && s->ex) {
        kr_mcp_http_refuse(ex, 409, NULL, -32000, "this session has a stream open already", NULL);
        return;
    }
    if (s) {
        kr_mcp_stream_resume(s, ex, s->last_event);
        return;
    }
    s = kr_mcp_stream_new(session->mcp, session, session->peer, (enum kr_mcp_rev)rev, ex, 0);
    if (s)
        kr_mcp_stream_begin(s);
}

/* ---- the session of a GET or DELETE ---- */

/* NULL: answered. */
static struct kr_mcp_session *session_of(struct kr_http_ex *ex, struct kr_mcp *m, const char *id, const char *user)
{
    struct kr_mcp_session *session = kr_mcp_session_find(m, id, user);
    const char *version = kr_http_header(ex, "mcp-protocol-version");

    if (!session)
        kr_mcp_http_refuse(ex, 404, NULL, -32001, "Session not found: begin again with `initialize`", NULL);
    else if (version && !kr_mcp_is_legacy(version))
        kr_mcp_http_refuse(ex, 400, NULL, -32000, "MCP-Protocol-Version: not a revision with sessions", NULL);
    else
        return session;
    return NULL;
}

static void not_allowed(struct kr_http_ex *ex)
{
    kr_http_set_header(ex, "Allow", "POST, DELETE, OPTIONS"); /* without a session there is no GET */
    kr_mcp_http_refuse(ex, 405, NULL, -32000, "GET needs a session: " REQUIRED, NULL);
}

static bool takes_events(const struct kr_http_ex *ex)
{
    const char *accept = kr_http_header(ex, "accept");

    return !accept || kr_api_accepts(accept, "text/event-stream") > 0 || strstr(accept, "*/*") ||
           strstr(accept, "text/*");
}

void kr_mcp_http_get(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    const char *id = kr_http_header(ex, "mcp-session-id"), *last = kr_http_header(ex, "last-event-id");
    struct kr_mcp_asker asker;
    struct kr_mcp_session *session;

    if (!kr_mcp_http_asker(ex, api, &asker))
        return;
    if (!id && kr_dialects[asker.config.dialect].mcp_get_is_sse) {
        kr_mcp_sse_open(ex, api, &asker, "/mcp/messages/");
        return;
    }
    if (!id) {
        not_allowed(ex);
        return;
    }
    if (!takes_events(ex)) {
        kr_mcp_http_refuse(ex, 406, NULL, -32000, "Accept: text/event-stream is needed", NULL);
        return;
    }
    if (!(session = session_of(ex, api->mcp, id, asker.who.user)))
        return;
    if (kr_http_method(ex) == KR_HTTP_HEAD)
        kr_http_reply(ex, 200, "text/event-stream", NULL, 0); /* HEAD: a stream without a body has no reader */
    else if (last && last[0])
        resume_stream(ex, session, last);
    else
        open_own(ex, session);
}

void kr_mcp_http_delete(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    const char *id = kr_http_header(ex, "mcp-session-id");
    struct kr_mcp_asker asker;
    struct kr_mcp_session *session;

    if (!kr_mcp_http_asker(ex, api, &asker))
        return;
    if (!id) {
        kr_mcp_http_refuse(ex, 400, NULL, -32000, REQUIRED, NULL);
        return;
    }
    if (!(session = session_of(ex, api->mcp, id, asker.who.user)))
        return;
    if (!kr_mcp_peer_may_end(session->peer, asker.who.caller.rights)) {
        kr_mcp_http_refuse(ex, 403, NULL, -32000, "calls of a key with more rights are in flight in this session",
                           NULL);
        return;
    }
    kr_mcp_session_free(session, asker.who.caller.rights & KR_RIGHT_RUN ? &asker.who.caller : NULL);
    kr_http_reply(ex, 200, NULL, NULL, 0);
}

/* ---- GET / ---- */

/* Gateways are given a bare address and ask it for events. */
void kr_mcp_http_root(struct kr_http_ex *ex, void *app)
{
    const char *accept = kr_http_header(ex, "accept");
    bool events = kr_api_accepts(accept, "text/event-stream") > 0 && kr_api_accepts(accept, "text/html") == 0 &&
                  kr_api_accepts(accept, "application/json") == 0;
    struct kr_mcp_asker asker;

    if (!events)
        kr_api_root(ex, app);
    else if (kr_http_header(ex, "mcp-session-id"))
        kr_mcp_http_get(ex, app);
    else if (kr_mcp_http_asker(ex, app, &asker))
        kr_mcp_sse_open(ex, app, &asker, "/messages/");
}
