/* A peer: its era, its calls in flight, its answers to our questions. Called by the transports.
 *
 * Each request is judged by itself: one that carries the envelope of 2026-07-28 is served by it, whatever
 * came before; what `initialize` agreed upon holds for the others. Invariant: a peer's memory outlives every call of
 * peer.h that is on the stack, so that a transport may let go of it from inside its own send(). */
#include "mcp_internal.h"
#include "buf.h"
#include "rpc_id.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_MAX 65536u /* bytes of an error's or a note's message */
#define NOTE_MAX (1u << 20)
#define UNAGREED KR_REV_2025_03_26 /* what a client that never opened is spoken to in */

/* ---- making ---- */

void kr_mcp_who_copy(struct kr_mcp_who *who, const struct kr_caller *from)
{
    snprintf(who->user, sizeof who->user, "%s", from->user ? from->user : "");
    snprintf(who->address, sizeof who->address, "%s", from->address ? from->address : "");
    snprintf(who->request, sizeof who->request, "%s", from->request ? from->request : "");
    who->caller = (struct kr_caller){.user = who->user,
                                     .rights = from->rights,
                                     .address = who->address,
                                     .request = who->request,
                                     .profile = from->profile};
}

int kr_mcp_peer_new(struct kr_mcp *m, const struct kr_mcp_peer_config *config, struct kr_mcp_peer **ret_peer)
{
    const char *url = config->base_url ? config->base_url : "";
    struct kr_mcp_peer *p = calloc(1, sizeof *p);
    struct kr_mcp_manner *manner = calloc(1, sizeof *manner + strlen(url) + 1);

    if (!p || !manner) {
        free(p);
        free(manner);
        return -ENOMEM;
    }
    manner->refs = 1;
    manner->mcp = m;
    manner->dialect = config->dialect;
    manner->structured = config->structured || m->config.structured;
    manner->local = config->local;
    manner->core = config->core || m->config.tools == KR_TOOLS_CORE;
    snprintf(manner->session, sizeof manner->session, "%s", config->session ? config->session : "");
    snprintf(manner->terminal, sizeof manner->terminal, "%s%sterminal", manner->session, manner->session[0] ? "-" : "");
    memcpy(manner->base_url, url, strlen(url) + 1);
    p->manner = manner;
    p->wire = config->wire;
    p->data = config->data;
    p->fleeting = config->fleeting;
    p->rev = -1;
    p->level = KR_MCP_WARNING;
    kr_mcp_peer_set_who(p, &config->who);
    TAILQ_INIT(&p->calls);
    TAILQ_INIT(&p->questions);
    TAILQ_INSERT_TAIL(&m->peers, p, entry);
    *ret_peer = p;
    return 0;
}

static void release(struct kr_mcp_peer *p)
{
    if (--p->busy || !p->dead)
        return;
    json_decref(p->can);
    json_decref(p->subscriptions);
    if (--p->manner->refs == 0)
        free(p->manner);
    free(p);
}

void kr_mcp_peer_free(struct kr_mcp_peer *p)
{
    struct kr_mcp_call *c;

    if (!p || p->dead)
        return;
    p->dead = true;
    p->busy++;
    TAILQ_REMOVE(&p->manner->mcp->peers, p, entry);
    while ((c = TAILQ_FIRST(&p->calls)))
        kr_mcp_call_cancel(c, false);
    release(p);
}

void kr_mcp_peer_end(struct kr_mcp_peer *p, const struct kr_caller *who)
{
    struct kr_mcp_manner *manner = p->manner;
    struct kr_mcp *m = manner->mcp;

    manner->refs++;
    kr_mcp_peer_free(p);
    if (manner->session[0] && m->api->box && !m->stopping) {
        kr_box_sessions_retire(m->api->box, who, manner->session);
        kr_box_sessions_retire(m->api->box, who, manner->terminal);
    }
    if (--manner->refs == 0)
        free(manner);
}

size_t kr_mcp_peer_calls(const struct kr_mcp_peer *p)
{
    return p->call_count;
}

int kr_mcp_peer_rev(const struct kr_mcp_peer *p)
{
    return p->rev;
}

int kr_mcp_peer_set_who(struct kr_mcp_peer *p, const struct kr_caller *who)
{
    const struct kr_mcp_manner *manner = p->manner;

    kr_mcp_who_copy(&p->who, who);
    if (manner->mcp->api && manner->mcp->api->config.profiles) /* of its dialect, whatever listener it comes by */
        p->who.caller.profile = kr_api_dialect_profile(manner->mcp->api, manner->dialect);
    return 0;
}

/* ---- out ---- */

void kr_mcp_peer_fail(struct kr_mcp_peer *p, void *stream, const json_t *id, int code, const char *text, json_t *data)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, ERROR_MAX);
    if (!p->dead && kr_mcp_write_error(&out, id, code, text, data) == 0)
        p->wire->send(p->data, stream, KR_MCP_ANSWER, code, out.data, out.len);
    json_decref(data);
}

void kr_mcp_peer_refuse(struct kr_mcp_peer *p, void *stream, json_t *id, int code, const char *text)
{
    p->busy++;
    kr_mcp_peer_fail(p, stream, id, code, text, NULL);
    json_decref(id);
    release(p);
}

void kr_mcp_peer_note(struct kr_mcp_peer *p, const char *method, const json_t *params)
{
    cleanup_buf struct kr_buf out;

    kr_buf_init(&out, NOTE_MAX);
    p->busy++;
    if (!p->dead && !p->fleeting && kr_mcp_write_note(&out, method, params) == 0)
        p->wire->send(p->data, NULL, KR_MCP_NOTE, 0, out.data, out.len);
    release(p);
}

/* ---- answers to our questions ---- */

/* Each message has the rights of its own key: one that may do less than the call's neither answers for it nor ends
 * it. */
static bool may_speak_for(const struct kr_mcp_peer *p, const struct kr_mcp_call *c)
{
    return (c->who.caller.rights & ~p->who.caller.rights) == 0;
}

bool kr_mcp_peer_may_end(const struct kr_mcp_peer *p, unsigned rights)
{
    const struct kr_mcp_call *c;

    TAILQ_FOREACH(c, &p->calls, entry)
    if (c->who.caller.rights & ~rights)
        return false;
    return true;
}

void kr_mcp_question_drop(struct kr_mcp_peer *p, struct kr_mcp_question *q)
{
    TAILQ_REMOVE(&p->questions, q, entry);
    kr_timer_close(q->look);
    free(q);
}

/* The client's answer to a question of ours: calls on_answer, or nothing if there is no such question. */
static void take_response(struct kr_mcp_peer *p, const struct kr_mcp_message *m)
{
    struct kr_mcp_question *q, asked;

    if (!json_is_integer(m->id))
        return; /* ours are integers */
    TAILQ_FOREACH(q, &p->questions, entry)
    if ((json_int_t)q->id == json_integer_value(m->id))
        break;
    if (!q || !may_speak_for(p, q->call))
        return; /* too late, or never asked */
    asked = *q;
    kr_mcp_question_drop(p, q);
    asked.on_answer(asked.data, asked.call, json_is_object(m->result) ? m->result : NULL);
}

/* ---- in ---- */

static void take_notification(struct kr_mcp_peer *p, const struct kr_mcp_message *m)
{
    json_t *id = json_object_get(m->params, "requestId");
    struct kr_mcp_call *c;

    if (strcmp(m->method, "notifications/cancelled") != 0 || !id)
        return; /* the others tell us nothing that we keep */
    TAILQ_FOREACH(c, &p->calls, entry)
    if (kr_mcp_same_id(c->id, id))
        break;
    if (c && may_speak_for(p, c))
        kr_mcp_call_cancel(c, true);
}

static void take_message(struct kr_mcp_peer *p, const struct kr_mcp_message *m, int rev, void *stream)
{
    if (m->kind == KR_MCP_RESPONSE)
        take_response(p, m);
    else if (m->kind == KR_MCP_NOTIFICATION)
        take_notification(p, m);
    else
        kr_mcp_call_begin(p, m, (enum kr_mcp_rev)(rev >= 0 ? rev : p->rev >= 0 ? p->rev : (int)UNAGREED), stream);
}

void kr_mcp_peer_take(struct kr_mcp_peer *p, const struct kr_mcp_message *m, int rev, void *stream)
{
    p->busy++;
    take_message(p, m, rev, stream);
    release(p);
}

/* A request without the headers of HTTP: its envelope decides, or what came before. */
static void judge_request(struct kr_mcp_peer *p, const struct kr_mcp_message *m, void *stream)
{
    struct kr_mcp_flaw f;
    enum kr_mcp_envelope envelope = kr_mcp_envelope(m, &f);

    if (envelope != KR_MCP_MODERN && strcmp(m->method, "initialize") == 0) {
        if (p->era == KR_ERA_MODERN) {
            kr_mcp_peer_fail(p, stream, m->id, KR_RPC_NO_VERSION, "this conversation has no handshake",
                             kr_mcp_versions(json_string_value(json_object_get(m->params, "protocolVersion"))));
            return;
        }
        p->era = KR_ERA_LEGACY;
        take_message(p, m, KR_REV_2025_11_25, stream);
    } else if (envelope == KR_MCP_NO_CLAIM && p->era == KR_ERA_MODERN) {
        kr_mcp_peer_fail(p, stream, m->id, KR_RPC_INVALID_PARAMS,
                         "params._meta[\"" KR_MCP_META_VERSION "\"] is missing", NULL);
    } else if (envelope == KR_MCP_NO_CLAIM) {
        p->era = KR_ERA_LEGACY;
        take_message(p, m, -1, stream);
    } else if (envelope == KR_MCP_MODERN) {
        if (p->era == KR_ERA_OPENING && strcmp(m->method, "server/discover") != 0)
            p->era = KR_ERA_MODERN;
        take_message(p, m, KR_REV_2026_07_28, stream);
    } else {
        kr_mcp_peer_fail(p, stream, m->id, f.code, f.text,
                         envelope == KR_MCP_NOT_SERVED
                             ? kr_mcp_versions(json_string_value(kr_mcp_meta(m, KR_MCP_META_VERSION)))
                             : NULL);
    }
}

static void judge_message(struct kr_mcp_peer *p, json_t *root, void *stream, bool in_batch)
{
    struct kr_mcp_message m;
    struct kr_mcp_flaw f;

    if (kr_mcp_classify(root, &m, &f) < 0)
        kr_mcp_peer_fail(p, stream, m.id, f.code, f.text, NULL);
    else if (m.kind == KR_MCP_BATCH)
        kr_mcp_peer_fail(p, stream, NULL, KR_RPC_INVALID_REQUEST, "a message is a JSON object", NULL);
    else if (in_batch && m.kind == KR_MCP_REQUEST &&
             (strcmp(m.method, "initialize") == 0 || kr_mcp_meta(&m, KR_MCP_META_VERSION)))
        kr_mcp_peer_fail(p, stream, m.id, KR_RPC_INVALID_REQUEST, "this request may not be in a batch", NULL);
    else if (m.kind == KR_MCP_REQUEST)
        judge_request(p, &m, stream);
    else
        take_message(p, &m, -1, stream);
}

static void judge_batch(struct kr_mcp_peer *p, json_t *list, void *stream)
{
    size_t count = json_array_size(list);

    if (p->rev < 0 || !kr_mcp_revs[p->rev].batches) {
        kr_mcp_peer_fail(p, stream, NULL, KR_RPC_INVALID_REQUEST, "batches are of 2025-03-26 only", NULL);
        return;
    }
    if (count == 0 || count > KR_MCP_BATCH_MAX) {
        kr_mcp_peer_fail(p, stream, NULL, KR_RPC_INVALID_REQUEST, "a batch has 1 to 100 messages", NULL);
        return;
    }
    for (size_t i = 0; i < count && !p->dead; i++)
        judge_message(p, json_array_get(list, i), stream, true);
}

void kr_mcp_peer_receive_json(struct kr_mcp_peer *p, json_t *root, void *stream)
{
    p->busy++;
    if (json_is_array(root))
        judge_batch(p, root, stream);
    else
        judge_message(p, root, stream, false);
    release(p);
}

void kr_mcp_peer_receive(struct kr_mcp_peer *p, const char *text, size_t len, void *stream)
{
    struct kr_mcp_flaw f;
    json_t *root;

    if (kr_mcp_parse(text, len, &root, &f) < 0) {
        kr_mcp_peer_refuse(p, stream, kr_mcp_find_id(text, len), f.code, f.text);
        return;
    }
    kr_mcp_peer_receive_json(p, root, stream);
    json_decref(root);
}
