/* Calls: made from a request, handed to the method, and what handlers may know of them. Called by peer.c; what handlers
 * see is call.h. call_speak.c is what a call says meanwhile, call_end.c how it ends.
 *
 * Invariant: a call is in exactly one list (its peer's, or that of the detached) until it is answered or cancelled. */
#include "mcp_internal.h"
#include "rpc_id.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kr_mcp_level_names[KR_MCP_LEVEL_MAX_ + 1] = {"debug", "info",     "notice", "warning",
                                                               "error", "critical", "alert",  "emergency"};

/* ---- making ---- */

void kr_mcp_call_free(struct kr_mcp_call *c)
{
    if (c->tool && c->free_tool)
        c->free_tool(c->tool);
    json_decref(c->id);
    json_decref(c->params);
    json_decref(c->can);
    json_decref(c->token);
    c->manner->mcp->in_flight -= c->cost;
    if (--c->manner->refs == 0)
        free(c->manner);
    free(c);
}

void kr_mcp_call_unlink(struct kr_mcp_call *c)
{
    struct kr_mcp_question *q, *next;

    if (!c->peer) {
        TAILQ_REMOVE(&c->manner->mcp->detached, c, entry);
        return;
    }
    for (q = TAILQ_FIRST(&c->peer->questions); q; q = next) {
        next = TAILQ_NEXT(q, entry);
        if (q->call == c)
            kr_mcp_question_drop(c->peer, q);
    }
    TAILQ_REMOVE(&c->peer->calls, c, entry);
    c->peer->call_count--;
}

static int level_of(const char *name)
{
    for (int i = 0; name && i < KR_MCP_LEVEL_MAX_; i++)
        if (strcmp(kr_mcp_level_names[i], name) == 0)
            return i;
    return -1;
}

#define TOKEN_MAX 1024u /* bytes of a progress token that is a string: each message of progress repeats it */

static struct kr_mcp_call *call_new(struct kr_mcp_peer *p, const struct kr_mcp_message *m, enum kr_mcp_rev rev,
                                    void *stream)
{
    struct kr_mcp_call *c = calloc(1, sizeof *c);
    json_t *token = kr_mcp_meta(m, "progressToken"), *can = p->can;

    if (!c)
        return NULL;
    c->peer = p;
    c->manner = p->manner;
    c->manner->refs++;
    c->stream = stream;
    c->cost = kr_mcp_cost(m->params);
    p->manner->mcp->in_flight += c->cost;
    kr_mcp_who_copy(&c->who, &p->who.caller);
    c->method = kr_mcp_method_find(m->method, rev);
    c->rev = rev;
    c->id = json_incref(m->id);
    c->params = m->params ? json_incref(m->params) : json_object();
    c->token = kr_mcp_is_id(token) ? json_incref(token) : NULL;
    c->level = p->level;
    c->reads_first = p->reads_first;
    if (kr_mcp_revs[rev].modern) {
        const char *level = json_string_value(kr_mcp_meta(m, KR_MCP_META_LEVEL));

        can = kr_mcp_meta(m, KR_MCP_META_CAPABILITIES);
        c->reads_first = kr_mcp_reads_first(kr_mcp_meta(m, KR_MCP_META_CLIENT));
        c->level = level ? level_of(level) : KR_MCP_LEVEL_MAX_;
    }
    c->can = json_incref(can);
    TAILQ_INSERT_TAIL(&p->calls, c, entry);
    p->call_count++;
    return c;
}

static const struct kr_mcp_call *same_id(const struct kr_mcp_peer *p, const json_t *id)
{
    struct kr_mcp_call *c;

    TAILQ_FOREACH(c, &p->calls, entry)
    if (kr_mcp_same_id(c->id, id))
        return c;
    return NULL;
}

/* NULL, or why the request is not taken up. */
static const char *refusal(struct kr_mcp_peer *p, const struct kr_mcp_message *m, enum kr_mcp_rev rev, int *ret_code)
{
    *ret_code = KR_RPC_NO_METHOD;
    if (!kr_mcp_method_find(m->method, rev))
        return "there is no such method in this revision";
    *ret_code = KR_RPC_INTERNAL;
    if (p->manner->mcp->stopping)
        return "the server is stopping";
    if (p->call_count >= KR_MCP_CALLS_MAX)
        return "too many requests in flight: at most 64 at once; wait for answers";
    if (!kr_mcp_has_room(p->manner->mcp, p->who.user, kr_mcp_cost(m->params)))
        return "too many large requests in flight: wait for answers, or send less in one";
    *ret_code = KR_RPC_INVALID_REQUEST;
    if (same_id(p, m->id))
        return "id: a request with this id is in flight";
    *ret_code = KR_RPC_INVALID_PARAMS;
    if (json_string_length(kr_mcp_meta(m, "progressToken")) > TOKEN_MAX)
        return "params._meta.progressToken: a string of at most 1024 bytes, or a number";
    return NULL;
}

void kr_mcp_call_begin(struct kr_mcp_peer *p, const struct kr_mcp_message *m, enum kr_mcp_rev rev, void *stream)
{
    int code;
    const char *why = refusal(p, m, rev, &code);
    struct kr_mcp_call *c = why ? NULL : call_new(p, m, rev, stream);

    if (!c) {
        kr_mcp_peer_fail(p, stream, m->id, code, why ? why : "no memory", NULL);
        return;
    }
    if (c->level < 0)
        kr_mcp_fail(c, KR_RPC_INVALID_PARAMS, NULL, "params._meta[\"%s\"]: no such level", KR_MCP_META_LEVEL);
    else if (c->method->extension && kr_mcp_revs[rev].modern && !kr_mcp_client_extends(c, KR_MCP_TASKS_EXTENSION))
        kr_mcp_fail(c, KR_RPC_NO_CAPABILITY,
                    json_pack("{s:{s:{s:{}}}}", "requiredCapabilities", "extensions", KR_MCP_TASKS_EXTENSION),
                    "%s is for clients that declare %s", m->method, KR_MCP_TASKS_EXTENSION);
    else
        c->method->handle(c);
}

/* ---- who asks what ---- */

struct kr_mcp *kr_mcp_of(const struct kr_mcp_call *c)
{
    return c->manner->mcp;
}

struct kr_api *kr_mcp_api(const struct kr_mcp_call *c)
{
    return c->manner->mcp->api;
}

const struct kr_caller *kr_mcp_caller(const struct kr_mcp_call *c)
{
    return &c->who.caller;
}

enum kr_mcp_rev kr_mcp_call_rev(const struct kr_mcp_call *c)
{
    return c->rev;
}

enum kr_dialect kr_mcp_call_dialect(const struct kr_mcp_call *c)
{
    return c->manner->dialect;
}

bool kr_mcp_structured(const struct kr_mcp_call *c)
{
    return c->manner->structured;
}

const char *kr_mcp_own_session(const struct kr_mcp_call *c)
{
    return c->manner->session[0] ? c->manner->session : NULL;
}

const char *kr_mcp_own_terminal(const struct kr_mcp_call *c)
{
    return c->manner->terminal;
}

bool kr_mcp_is_core(const struct kr_mcp_call *c)
{
    return c->manner->core;
}

bool kr_mcp_is_local(const struct kr_mcp_call *c)
{
    return c->manner->local;
}

const char *kr_mcp_call_method(const struct kr_mcp_call *c)
{
    return c->method->name;
}

json_t *kr_mcp_params(const struct kr_mcp_call *c)
{
    return c->params;
}

bool kr_mcp_client_can(const struct kr_mcp_call *c, const char *capability)
{
    const json_t *at = c->can;
    const char *rest = capability;

    if (strcmp(capability, "elicitation.form") == 0) { /* {} means forms */
        at = json_object_get(at, "elicitation");
        return json_is_object(at) && (json_object_get(at, "form") || !json_object_get(at, "url"));
    }
    while (at && *rest) {
        size_t len = strcspn(rest, ".");
        char name[64];

        if (len >= sizeof name)
            return false;
        snprintf(name, sizeof name, "%.*s", (int)len, rest);
        at = json_object_get(at, name);
        rest += len + (rest[len] == '.');
    }
    return at && !json_is_null(at) && !json_is_false(at);
}

bool kr_mcp_client_reads_first(const struct kr_mcp_call *c)
{
    return c->reads_first;
}

bool kr_mcp_client_extends(const struct kr_mcp_call *c, const char *extension)
{
    return json_is_object(json_object_get(json_object_get(c->can, "extensions"), extension));
}

bool kr_mcp_has_token(const struct kr_mcp_call *c)
{
    return c->token && c->peer;
}

const char *kr_mcp_base_url(const struct kr_mcp_call *c)
{
    return c->manner->base_url;
}
