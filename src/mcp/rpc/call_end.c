/* How a call ends: answered, cancelled, or living on without its request. Called by handlers (call.h) and by peer.c.
 *
 * Invariant: a call is out of its list before the wire or the outlet hears of its end, and freed after, so that
 * whatever they do finds it gone. */
#include "mcp_internal.h"
#include "buf.h"
#include "tool.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SLACK 4096u /* of a message around its result */

void kr_mcp_on_cancel(struct kr_mcp_call *c, void (*on_cancel)(void *data, struct kr_mcp_call *c), void *data)
{
    c->on_cancel = on_cancel;
    c->cancel_data = data;
    c->on_status = NULL;
}

void kr_mcp_on_status(struct kr_mcp_call *c, kr_mcp_status_fn *on_status)
{
    c->on_status = on_status;
}

const char *kr_mcp_status(const struct kr_mcp_call *c, char *buf, size_t size)
{
    return c->on_status ? c->on_status(c->cancel_data, buf, size) : "";
}

void kr_mcp_call_cancel(struct kr_mcp_call *c, bool tell)
{
    struct kr_mcp_peer *p = c->peer;

    kr_mcp_call_unlink(c);
    if (c->on_cancel)
        c->on_cancel(c->cancel_data, c);
    if (tell && p && !p->dead)
        p->wire->send(p->data, c->stream, KR_MCP_SILENCE, 0, NULL, 0);
    kr_mcp_call_free(c);
}

void kr_mcp_call_end(struct kr_mcp_call *c)
{
    kr_mcp_call_cancel(c, false);
}

/* What 2026-07-28 wants on top. */
static void add_modern(const struct kr_mcp_call *c, json_t *result)
{
    json_t *type = json_object_get(result, "resultType"), *meta = json_object_get(result, "_meta");
    bool complete = !type || strcmp(json_string_value(type) ? json_string_value(type) : "", "complete") == 0;

    if (!type)
        json_object_set_new(result, "resultType", json_string("complete"));
    if (!json_is_object(meta)) {
        meta = json_object();
        json_object_set_new(result, "_meta", meta);
    }
    json_object_set_new(meta, KR_MCP_META_SERVER, kr_mcp_server_info(c->manner->mcp, c->rev));
    if (!complete || !c->method->cache)
        return;
    if (!json_object_get(result, "ttlMs"))
        json_object_set_new(result, "ttlMs", json_integer((json_int_t)c->method->ttl_ms));
    if (!json_object_get(result, "cacheScope"))
        json_object_set_new(result, "cacheScope", json_string(c->method->cache));
}

/* The message of a result, or of the error that it does not fit. Returns the error's code, or 0. */
static int write_answer(const struct kr_mcp_call *c, const json_t *result, struct kr_buf *out)
{
    if (kr_mcp_write_result(out, c->id, result) == 0 && out->len <= KR_MCP_RESULT_MAX)
        return 0;
    kr_buf_reset(out);
    kr_mcp_write_error(out, c->id, KR_RPC_INTERNAL, "the result is larger than a message may be (8 MiB)", NULL);
    return KR_RPC_INTERNAL;
}

static void send_call_answer(struct kr_mcp_peer *p, void *stream, int code, const struct kr_buf *out)
{
    if (!p->dead)
        p->wire->send(p->data, stream, KR_MCP_ANSWER, code, out->data, out->len);
}

void kr_mcp_refused(struct kr_mcp_call *c, int kind)
{
    c->refused = c->refused ? c->refused : kind;
}

void kr_mcp_reply(struct kr_mcp_call *c, json_t *result)
{
    cleanup_buf struct kr_buf out;
    int code;

    if (!result)
        result = json_object();
    kr_buf_init(&out, KR_MCP_RESULT_MAX + SLACK);
    kr_mcp_call_unlink(c);
    if (c->outlet) {
        c->outlet->on_reply(c->outlet_data, c, result);
    } else {
        if (kr_mcp_revs[c->rev].modern)
            add_modern(c, result);
        code = write_answer(c, result, &out);
        code = code ? code : c->refused;
        send_call_answer(c->peer, c->stream, code, &out);
    }
    json_decref(result);
    kr_mcp_call_free(c);
}

void kr_mcp_fail(struct kr_mcp_call *c, int code, json_t *data, const char *fmt, ...)
{
    cleanup_buf struct kr_buf out;
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    kr_buf_init(&out, KR_MCP_RESULT_MAX + SLACK);
    kr_mcp_call_unlink(c);
    if (c->outlet) {
        c->outlet->on_fail(c->outlet_data, c, code, data, text);
    } else {
        if (kr_mcp_write_error(&out, c->id, code, text, data) < 0) {
            kr_buf_reset(&out);
            kr_mcp_write_error(&out, c->id, code, text, NULL);
        }
        send_call_answer(c->peer, c->stream, code, &out);
    }
    json_decref(data);
    kr_mcp_call_free(c);
}

void kr_mcp_call_detach(struct kr_mcp_call *c, json_t *created, const struct kr_mcp_outlet *outlet, void *data)
{
    cleanup_buf struct kr_buf out;
    struct kr_mcp_peer *p = c->peer;
    void *stream = c->stream;
    int code;

    kr_buf_init(&out, KR_MCP_RESULT_MAX + SLACK);
    kr_mcp_call_unlink(c);
    if (kr_mcp_revs[c->rev].modern)
        add_modern(c, created);
    code = write_answer(c, created, &out);
    json_decref(created);
    c->peer = NULL;
    c->stream = NULL;
    c->outlet = outlet;
    c->outlet_data = data;
    TAILQ_INSERT_TAIL(&c->manner->mcp->detached, c, entry);
    send_call_answer(p, stream, code, &out);
}
