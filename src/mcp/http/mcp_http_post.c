/* POST /mcp: one message (or a batch) in, its answer out. Handler of the route table.
 *
 * mcp_http_decide.c finds out whose message it is; a request of 2026-07-28, and an older one without a session, get a
 * peer of their own that ends with the answer or with the connection. Invariant: an exchange is answered here, or a
 * stream has it. */
#include "accept.h"
#include "mcp_http_ask.h"
#include "mcp_http_body.h"
#include "mcp_http_routes.h"
#include "mcp_http_session.h"
#include "mcp_http_decide.h"
#include "tool.h"
#include <errno.h>
#include <string.h>
#include <strings.h>

/* ---- headers ---- */

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    size_t len = sizeof json - 1;

    return type && strncasecmp(type, json, len) == 0 && strchr("; \t", type[len]);
}

/* The one that came twice, or NULL. */
static const char *twice(const struct kr_http_ex *ex, const char *name)
{
    const char *field, *value;
    unsigned count = 0;

    for (unsigned i = 0; kr_http_header_at(ex, i, &field, &value); i++)
        count += strcasecmp(field, name) == 0;
    return count > 1 ? name : NULL;
}

static struct kr_mcp_heads heads_of(const struct kr_http_ex *ex)
{
    struct kr_mcp_heads h = {.version = kr_http_header(ex, "mcp-protocol-version"),
                             .method = kr_http_header(ex, "mcp-method"),
                             .name = kr_http_header(ex, "mcp-name"),
                             .twice = twice(ex, "MCP-Protocol-Version")};

    h.twice = h.twice ? h.twice : twice(ex, "Mcp-Method");
    h.twice = h.twice ? h.twice : twice(ex, "Mcp-Name");
    return h;
}

static const char *header_of(const void *data, const char *name)
{
    return twice(data, name) ? "" : kr_http_header(data, name);
}

/* x-mcp-header of the tool that is called. False: answered. */
static bool check_params(struct kr_http_ex *ex, enum kr_dialect dialect, const struct kr_mcp_message *msg)
{
    const char *name = json_string_value(json_object_get(msg->params, "name"));
    const struct kr_mcp_tool *tool;
    struct kr_mcp_flaw f;
    json_t *schema;
    int r;

    if (strcmp(msg->method, "tools/call") != 0 || !name || !(tool = kr_mcp_tool_find(dialect, name)) ||
        !tool->input_schema || !(schema = json_loads(tool->input_schema, 0, NULL)))
        return true;
    r = kr_mcp_head_params(schema, json_object_get(msg->params, "arguments"), header_of, ex, &f);
    json_decref(schema);
    if (r < 0)
        kr_mcp_http_refuse(ex, 400, msg->id, f.code, f.text, NULL);
    return r == 0;
}

/* ---- requests that stand alone ---- */

static void take_modern(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker,
                        const struct kr_mcp_message *msg)
{
    struct kr_mcp_stream *s;

    if (!check_params(ex, asker->config.dialect, msg))
        return;
    if (!(s = kr_mcp_http_alone(ex, m, asker, KR_REV_2026_07_28, 1)))
        return;
    if (strcmp(msg->method, "subscriptions/listen") == 0)
        s->takes_events = true; /* it has no other answer */
    kr_mcp_peer_take(s->peer, msg, KR_REV_2026_07_28, s);
}

/* ---- sessions ---- */

static void take_initialize(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker,
                            const struct kr_mcp_message *msg)
{
    struct kr_mcp_session *session;
    struct kr_mcp_stream *s;
    int r = kr_mcp_session_new(m, &asker->config, &session);

    if (r < 0) {
        kr_mcp_http_refuse(
            ex, 503, msg->id, KR_RPC_INTERNAL,
            r == -EBUSY ? "too many sessions are in use: end some by DELETE, or try again later" : "no memory", NULL);
        return;
    }
    if (!(s = kr_mcp_stream_new(m, session, session->peer, KR_REV_2025_11_25, ex, 1))) {
        kr_mcp_session_free(session, NULL);
        return;
    }
    s->opening = true;
    kr_mcp_peer_take(session->peer, msg, KR_REV_2025_11_25, s);
    if (kr_mcp_peer_rev(session->peer) < 0)
        kr_mcp_session_free(session, NULL); /* it was refused */
}

/* What a legacy message is for: a session, or nothing that lasts. False: answered. */
static bool find_session(struct kr_http_ex *ex, struct kr_mcp *m, const struct kr_mcp_asker *asker, const json_t *id,
                         struct kr_mcp_session **ret)
{
    const char *name = kr_http_header(ex, "mcp-session-id");

    *ret = name ? kr_mcp_session_find(m, name, asker->who.user) : NULL;
    if (name && !*ret) {
        kr_mcp_http_refuse(ex, 404, id, -32001, "Session not found: begin again with `initialize`", NULL);
        return false;
    }
    if (*ret)
        kr_mcp_peer_set_who((*ret)->peer, &asker->who.caller);
    return true;
}

static enum kr_mcp_rev rev_of(const struct kr_mcp_session *session, const char *version)
{
    int rev = session ? kr_mcp_peer_rev(session->peer) : kr_mcp_rev_find(version);

    return rev >= 0 ? (enum kr_mcp_rev)rev : KR_REV_2025_03_26; /* what a client without the header speaks */
}

static void take_legacy(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker, const char *version,
                        const struct kr_mcp_message *msg)
{
    struct kr_mcp_session *session;
    struct kr_mcp_stream *s;
    enum kr_mcp_rev rev;

    if (!find_session(ex, m, asker, msg->id, &session))
        return;
    rev = rev_of(session, version);
    if (msg->kind != KR_MCP_REQUEST) {
        if (session)
            kr_mcp_peer_take(session->peer, msg, (int)rev, NULL);
        kr_http_reply(ex, 202, NULL, NULL, 0);
        return;
    }
    s = session ? kr_mcp_stream_new(m, session, session->peer, rev, ex, 1) : kr_mcp_http_alone(ex, m, asker, rev, 1);
    if (s)
        kr_mcp_peer_take(s->peer, msg, (int)rev, s);
}

static void take_batch(struct kr_http_ex *ex, struct kr_mcp *m, struct kr_mcp_asker *asker, const char *version,
                       const struct kr_mcp_decision *step)
{
    struct kr_mcp_session *session;
    struct kr_mcp_stream *s = NULL;
    struct kr_mcp_message msg;
    struct kr_mcp_flaw f;
    enum kr_mcp_rev rev;
    json_t *item;
    size_t i;

    if (!find_session(ex, m, asker, NULL, &session))
        return;
    rev = rev_of(session, version);
    if (!kr_mcp_revs[rev].batches) {
        kr_mcp_http_refuse(ex, 400, NULL, KR_RPC_INVALID_REQUEST, "batches are of 2025-03-26 only", NULL);
        return;
    }
    if (step->requests) {
        s = session ? kr_mcp_stream_new(m, session, session->peer, rev, ex, step->requests + 1)
                    : kr_mcp_http_alone(ex, m, asker, rev, step->requests + 1);
        if (!s)
            return;
        kr_mcp_stream_collect(s);
    }
    json_array_foreach(step->msg.root, i, item)
    {
        if (kr_mcp_classify(item, &msg, &f) == 0 && (session || s))
            kr_mcp_peer_take(session ? session->peer : s->peer, &msg, (int)rev, s);
    }
    if (s)
        kr_mcp_stream_release(s); /* the hold on it */
    else
        kr_http_reply(ex, 202, NULL, NULL, 0);
}

/* ---- the handler ---- */

static void on_post_parsed(struct kr_http_ex *ex, struct kr_api *api, json_t *root, const struct kr_mcp_flaw *flaw,
                           json_t *id)
{
    struct kr_mcp_heads heads = heads_of(ex);
    struct kr_mcp_asker asker;
    struct kr_mcp_decision step = {0};

    if (!root) {
        kr_mcp_http_refuse(ex, flaw->code == KR_RPC_INTERNAL ? 503 : 400, id, flaw->code, flaw->text, NULL);
        return;
    }
    if (kr_mcp_http_asker(ex, api, &asker)) {
        kr_mcp_http_decide(&heads, root, &step);
        switch (step.way) {
        case KR_WAY_REFUSE:
            kr_mcp_http_refuse(ex, step.status, step.msg.id, step.flaw.code, step.flaw.text, step.data);
            break;
        case KR_WAY_MODERN:
            take_modern(ex, api->mcp, &asker, &step.msg);
            break;
        case KR_WAY_MODERN_NOTE:
            kr_http_reply(ex, 202, NULL, NULL, 0);
            break;
        case KR_WAY_INITIALIZE:
            take_initialize(ex, api->mcp, &asker, &step.msg);
            break;
        case KR_WAY_LEGACY:
            take_legacy(ex, api->mcp, &asker, heads.version, &step.msg);
            break;
        case KR_WAY_BATCH:
            take_batch(ex, api->mcp, &asker, heads.version, &step);
            break;
        }
    }
    json_decref(root);
}

void kr_mcp_http_post(struct kr_http_ex *ex, void *app)
{
    if (is_json(kr_http_header(ex, "content-type")))
        kr_mcp_http_read(ex, app, on_post_parsed);
    else
        kr_mcp_http_refuse(ex, 415, NULL, KR_RPC_INVALID_REQUEST, "Content-Type: application/json is needed", NULL);
}
