/* HTTP+SSE of 2024-11-05. Handlers of the route table; kr_mcp_sse_open() also serves GET / and, for clients of
 * sandbox-service, GET /mcp.
 *
 * The words of refusals are those of the documents' libraries. Invariant: a stream is gone with its
 * connection, and everything it asked for with it. */
#include "mcp_http_sse.h"
#include "buf.h"
#include "mcp_http_body.h"
#include "mcp_http_routes.h"
#include "mcp_http_session.h"
#include "query.h"
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES 16
#define ID_CHARS (2 * ID_BYTES)

struct kr_mcp_sse {
    TAILQ_ENTRY(kr_mcp_sse) entry;
    struct kr_mcp_sessions *all;
    struct kr_mcp_peer *peer;
    struct kr_http_ex *ex;
    char id[ID_CHARS + 1];
    char user[KR_STORE_ID_ROOM];
};

static void sse_free(struct kr_mcp_sse *s)
{
    TAILQ_REMOVE(&s->all->sse, s, entry);
    s->all->sse_count--;
    kr_mcp_peer_end(s->peer, &(struct kr_caller){.user = s->user, .address = "", .request = ""});
    free(s);
}

/* ---- out ---- */

static void on_sse_send(void *data, void *stream, enum kr_mcp_sent what, int code, const char *json, size_t len)
{
    const struct kr_mcp_sse *s = data;

    (void)stream, (void)code;
    if (what == KR_MCP_SILENCE || (what == KR_MCP_NOTE && kr_http_queued(s->ex) > KR_HTTP_QUEUE_HIGH))
        return;
    kr_http_sse_event(s->ex, "message", NULL, json, len);
}

static void on_sse_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    sse_free(data);
}

static bool has_no_room(const struct kr_mcp_sessions *all, const char *user)
{
    const struct kr_mcp_sse *s;
    size_t own = 0;

    TAILQ_FOREACH(s, &all->sse, entry)
    own += strcmp(s->user, user) == 0;
    return all->sse_count >= KR_MCP_SSE_MAX || own >= KR_MCP_SSE_PER_USER_MAX;
}

/* A client that shows its key in the address of the stream has no other way to show it: the address of its
 * messages carries it too (clients of document 004 (mcp-sandbox), supergateway). Only the sender of the key sees it. */
static void say_endpoint(struct kr_mcp_sse *s, const char *messages)
{
    bool by_header = kr_http_header(s->ex, "authorization") || kr_http_header(s->ex, "x-api-key");
    char key[KR_AUTH_TEXT_MAX + 1];
    struct kr_buf text;

    kr_buf_init(&text, 2048);
    kr_buf_printf(&text, "%s?session_id=%s", messages, s->id);
    if (!by_header && kr_auth_shown(s->ex, key) == 0) {
        kr_query_add(&text, "api_key", key);
        explicit_bzero(key, sizeof key);
    }
    kr_http_set_header(s->ex, "Cache-Control", "no-cache, no-transform");
    kr_http_sse_begin(s->ex);
    kr_http_sse_event(s->ex, "endpoint", NULL, kr_buf_str(&text), text.len);
    kr_buf_done(&text);
}

void kr_mcp_sse_open(struct kr_http_ex *ex, struct kr_api *api, const struct kr_mcp_asker *asker, const char *messages)
{
    static const struct kr_http_calls calls = {.on_gone = on_sse_gone};
    static const struct kr_mcp_wire wire = {.send = on_sse_send};
    struct kr_mcp *m = api->mcp;
    struct kr_mcp_peer_config config = asker->config;
    char name[KR_MCP_OWN_ROOM];
    unsigned char random[ID_BYTES];
    struct kr_mcp_sse *s;

    if (kr_http_method(ex) == KR_HTTP_HEAD) {
        kr_http_reply(ex, 200, "text/event-stream", NULL, 0);
        return;
    }
    if (m->stopping || has_no_room(m->sessions, asker->who.user)) {
        kr_http_reply_error(ex, 503, "too many event streams are open: try again later");
        return;
    }
    s = calloc(1, sizeof *s);
    config.wire = &wire;
    config.data = s;
    config.fleeting = false;
    config.session = kr_mcp_own_name(config.dialect, name);
    if (!s || kr_mcp_peer_new(m, &config, &s->peer) < 0) {
        free(s);
        kr_http_reply_error(ex, 503, "no memory");
        return;
    }
    s->all = m->sessions;
    s->ex = ex;
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(s->id, sizeof s->id, random, sizeof random);
    snprintf(s->user, sizeof s->user, "%s", asker->who.user);
    TAILQ_INSERT_TAIL(&s->all->sse, s, entry);
    s->all->sse_count++;
    kr_http_defer(ex, &calls, s);
    say_endpoint(s, messages);
    kr_mcp_sessions_tick(m->sessions);
}

void kr_mcp_sse_stop(struct kr_mcp_sessions *all)
{
    struct kr_mcp_sse *s;

    while ((s = TAILQ_FIRST(&all->sse))) {
        struct kr_http_ex *ex = s->ex;

        sse_free(s);
        kr_http_end(ex);
    }
}

void kr_mcp_sse_end_stale(struct kr_mcp_sessions *all)
{
    struct kr_mcp_sse *s, *next;

    for (s = TAILQ_FIRST(&all->sse); s; s = next) {
        struct kr_http_ex *ex = s->ex;

        next = TAILQ_NEXT(s, entry);
        if (kr_auth_still(all->mcp->api->auth, ex, s->user))
            continue;
        sse_free(s);
        kr_http_end(ex);
    }
}

void kr_mcp_sse_free(struct kr_mcp_sessions *all)
{
    while (!TAILQ_EMPTY(&all->sse))
        sse_free(TAILQ_FIRST(&all->sse));
}

/* ---- in ---- */

/* Beneath /mcp/ the library is another (fastapi-mcp), and its answers are JSON. */
static bool is_json_kind(const struct kr_http_ex *ex)
{
    return strncmp(kr_http_path(ex), "/mcp/", 5) == 0;
}

static void reply_member(struct kr_http_ex *ex, int status, const char *member, const char *text)
{
    char json[160];

    if (!is_json_kind(ex)) {
        kr_http_reply(ex, status, "text/plain; charset=utf-8", text, strlen(text));
        return;
    }
    snprintf(json, sizeof json, "{\"%s\":\"%s\"}", member, text); /* texts of ours: nothing to escape */
    kr_http_reply(ex, status, "application/json", json, strlen(json));
}

/* The id in the query, or NULL: answered. */
static const char *id_of(struct kr_http_ex *ex, struct kr_query *q)
{
    const char *text = kr_http_query(ex), *id = NULL;
    struct kr_err err;

    if (kr_query_parse(q, text, strlen(text), &err) < 0 ||
        (kr_query_get(q, "session_id", &id, &err) <= 0 && kr_query_get(q, "sessionId", &id, &err) <= 0)) {
        reply_member(ex, 400, "detail", "session_id is required");
        return NULL;
    }
    if (strlen(id) != ID_CHARS || strspn(id, "0123456789abcdefABCDEF") != ID_CHARS) {
        reply_member(ex, 400, "detail", "Invalid session ID");
        return NULL;
    }
    return id;
}

static struct kr_mcp_sse *find_sse(struct kr_http_ex *ex, struct kr_api *api)
{
    struct kr_mcp_sessions *all = api->mcp->sessions;
    cleanup_query struct kr_query q = {0};
    const char *id = id_of(ex, &q);
    struct kr_api_who who;
    struct kr_mcp_sse *s;

    if (!id || !kr_api_caller(api, ex, &who))
        return NULL;
    TAILQ_FOREACH(s, &all->sse, entry)
    if (strcasecmp(s->id, id) == 0 && strcmp(s->user, who.user) == 0) {
        kr_mcp_peer_set_who(s->peer, &who.caller);
        return s;
    }
    reply_member(ex, 404, "detail", "Could not find session");
    return NULL;
}

/* What cannot be parsed but says whose answer it waits for is answered on the stream: no client of this transport looks
 * for a message in the reply to its POST. */
static void on_message_parsed(struct kr_http_ex *ex, struct kr_api *api, json_t *root, const struct kr_mcp_flaw *flaw,
                              json_t *id)
{
    struct kr_mcp_sse *s = root || id ? find_sse(ex, api) : NULL;

    if (!root && !id) {
        reply_member(ex, 400, "error", "Could not parse message");
    } else if (s && !root) {
        reply_member(ex, 202, "message", "Accepted");
        kr_mcp_peer_refuse(s->peer, NULL, json_incref(id), flaw->code, flaw->text);
    } else if (s) {
        reply_member(ex, 202, "message", "Accepted");
        kr_mcp_peer_receive_json(s->peer, root, NULL);
    }
    json_decref(root);
}

void kr_mcp_http_messages(struct kr_http_ex *ex, void *app)
{
    if (find_sse(ex, app))
        kr_mcp_http_read(ex, app, on_message_parsed);
}

void kr_mcp_http_sse(struct kr_http_ex *ex, void *app)
{
    struct kr_mcp_asker asker;

    if (kr_mcp_http_asker(ex, app, &asker))
        kr_mcp_sse_open(ex, app, &asker, is_json_kind(ex) ? "/mcp/messages/" : "/messages/");
}
