/* JSON-RPC 2.0 messages: read, judged, written. Called by peer.c, call.c, mcp_http_decide.c and the transports.
 *
 * Invariant: what a text costs is bounded before anything is allocated for it, and a message that passes has an id that
 * can be echoed as it came, a method of printable characters and params that are an object. */
#include "jsonrpc.h"
#include "json_scan.h"
#include "field.h"
#include "buf.h"
#include "json.h"
#include "json_keep.h"
#include "json_load.h"
#include "rpc_id.h"
#include "utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define METHOD_MAX 128u /* bytes of a method's name */

int kr_mcp_flaw_set(struct kr_mcp_flaw *f, int code, const char *fmt, ...)
{
    va_list ap;

    f->code = code;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* ---- in ---- */

static int check_size(const char *text, size_t len, struct kr_mcp_flaw *f)
{
    static const struct kr_scan_max max = {.slots = KR_MCP_VALUES_MAX, .depth = KR_MCP_DEPTH_MAX};
    enum kr_scan excess;

    if (len > KR_MCP_MESSAGE_MAX)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "a message has at most %u bytes", KR_MCP_MESSAGE_MAX);
    excess = kr_scan_json(text, len, &max);
    if (excess == KR_SCAN_TOO_DEEP)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "a message is nested at most %u levels deep",
                               KR_MCP_DEPTH_MAX);
    if (excess != KR_SCAN_FITS)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "a message has at most %u values", KR_MCP_VALUES_MAX);
    return 0;
}

int kr_mcp_parse(const char *text, size_t len, json_t **ret_root, struct kr_mcp_flaw *f)
{
    json_error_t where;
    json_t *root;

    *f = (struct kr_mcp_flaw){0};
    if (check_size(text, len, f) < 0)
        return -EINVAL;
    root = kr_json_load(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (!root && json_error_code(&where) == json_error_out_of_memory)
        return kr_mcp_flaw_set(f, KR_RPC_INTERNAL, "no memory for the message");
    if (!root)
        return kr_mcp_flaw_set(f, KR_RPC_PARSE, "not JSON: line %d column %d: %.100s", where.line, where.column,
                               where.text);
    kr_mcp_exact_id(root, text, len);
    *ret_root = root;
    return 0;
}

static bool is_plain(const json_t *text, size_t max)
{
    return json_is_string(text) && json_string_length(text) <= max &&
           strlen(json_string_value(text)) == json_string_length(text);
}

static int classify_response(struct kr_mcp_message *m, struct kr_mcp_flaw *f)
{
    json_t *result = json_object_get(m->root, "result"), *error = json_object_get(m->root, "error");

    if (!result == !error)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "a message has a method, a result or an error: one of them");
    m->kind = KR_MCP_RESPONSE;
    m->result = result;
    if (!m->id && result)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "id: a result names the request it answers");
    return 0;
}

int kr_mcp_classify(json_t *root, struct kr_mcp_message *m, struct kr_mcp_flaw *f)
{
    json_t *id = json_object_get(root, "id"), *method = json_object_get(root, "method"), *version;

    *f = (struct kr_mcp_flaw){0};
    *m = (struct kr_mcp_message){.root = root, .kind = KR_MCP_BATCH};
    if (json_is_array(root))
        return 0;
    if (!kr_json_is_object(root))
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "a message is a JSON object");
    if (kr_mcp_is_id(id))
        m->id = id;
    version = json_object_get(root, "jsonrpc");
    if (!json_is_string(version) || strcmp(json_string_value(version), "2.0") != 0)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "jsonrpc: must be \"2.0\"");
    if (id && !m->id && (method || !json_object_get(root, "error")))
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "id: a string of at most %u bytes or a number",
                               KR_MCP_ID_MAX);
    if (!method)
        return classify_response(m, f);
    if (!is_plain(method, METHOD_MAX) || json_string_length(method) == 0)
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "method: a name of at most %u bytes", METHOD_MAX);
    m->kind = m->id ? KR_MCP_REQUEST : KR_MCP_NOTIFICATION;
    m->method = json_string_value(method);
    m->params = json_object_get(root, "params");
    if (m->params && !kr_json_is_object(m->params))
        return kr_mcp_flaw_set(f, KR_RPC_INVALID_REQUEST, "params: must be an object");
    return 0;
}

/* ---- the envelope ---- */

json_t *kr_mcp_meta(const struct kr_mcp_message *m, const char *key)
{
    return json_object_get(json_object_get(m->params, "_meta"), key);
}

enum kr_mcp_envelope kr_mcp_envelope(const struct kr_mcp_message *m, struct kr_mcp_flaw *f)
{
    json_t *version = kr_mcp_meta(m, KR_MCP_META_VERSION), *can = kr_mcp_meta(m, KR_MCP_META_CAPABILITIES);
    int rev;

    *f = (struct kr_mcp_flaw){0};
    if (!version)
        return KR_MCP_NO_CLAIM;
    if (!is_plain(version, 64)) {
        kr_mcp_flaw_set(f, KR_RPC_INVALID_PARAMS, "params._meta[\"%s\"]: must be a string", KR_MCP_META_VERSION);
        return KR_MCP_BAD_ENVELOPE;
    }
    if (!json_is_object(can)) {
        kr_mcp_flaw_set(f, KR_RPC_INVALID_PARAMS, "params._meta[\"%s\"]: %s", KR_MCP_META_CAPABILITIES,
                        can ? "must be an object" : "is missing");
        return KR_MCP_BAD_ENVELOPE;
    }
    rev = kr_mcp_rev_find(json_string_value(version));
    if (rev >= 0 && kr_mcp_revs[rev].modern)
        return KR_MCP_MODERN;
    kr_mcp_flaw_set(f, KR_RPC_NO_VERSION, "protocol version %.40s is not served", json_string_value(version));
    return KR_MCP_NOT_SERVED;
}

json_t *kr_mcp_versions(const char *requested)
{
    json_t *supported = json_array();

    for (int i = 0; i < KR_REV_MAX_; i++)
        if (kr_mcp_revs[i].modern)
            json_array_append_new(supported, json_string(kr_mcp_revs[i].name));
    return json_pack("{s:o,s:s}", "supported", supported, "requested", requested ? requested : "");
}

/* ---- out ---- */

static int add_bytes(const char *bytes, size_t len, void *data)
{
    return kr_buf_add(data, bytes, len);
}

static int add_value(struct kr_buf *out, const json_t *value)
{
    size_t start = out->len;

    if (!value)
        return kr_buf_add_str(out, "{}");
    if (json_dump_callback(value, add_bytes, out, JSON_COMPACT | JSON_ENCODE_ANY) < 0)
        return out->failed ? out->failed : -EINVAL;
    out->len = start + kr_json_restore(out->data + start, out->len - start);
    return 0;
}

static int add_id(struct kr_buf *out, const json_t *id)
{
    if (!id)
        return kr_buf_add_str(out, "{\"jsonrpc\":\"2.0\"");
    kr_buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    return add_value(out, id);
}

int kr_mcp_write_result(struct kr_buf *out, const json_t *id, const json_t *result)
{
    int r;

    add_id(out, id);
    kr_buf_add_str(out, ",\"result\":");
    r = add_value(out, result);
    return r < 0 ? r : kr_buf_add_str(out, "}");
}

const char *kr_mcp_result_text(const char *json, size_t *len)
{
    static const char key[] = ",\"result\":";
    const char *at = memmem(json, *len, key, sizeof key - 1); /* the first: before it is but the id */

    at = at ? at + sizeof key - 1 : json;
    *len -= (size_t)(at - json) + 1;
    return at;
}

static int add_text(struct kr_buf *out, const char *text)
{
    struct kr_json j;

    kr_json_init(&j, out);
    kr_json_str(&j, text);
    return kr_json_done(&j);
}

int kr_mcp_write_error(struct kr_buf *out, const json_t *id, int code, const char *text, const json_t *data)
{
    int r = add_id(out, id);

    kr_buf_printf(out, ",\"error\":{\"code\":%d,\"message\":", code);
    if (r == 0)
        r = add_text(out, text);
    if (r == 0 && data) {
        kr_buf_add_str(out, ",\"data\":");
        r = add_value(out, data);
    }
    return r < 0 ? r : kr_buf_add_str(out, "}}");
}

int kr_mcp_write_note(struct kr_buf *out, const char *method, const json_t *params)
{
    int r;

    kr_buf_add_str(out, "{\"jsonrpc\":\"2.0\",\"method\":");
    r = add_text(out, method);
    if (r == 0 && params) {
        kr_buf_add_str(out, ",\"params\":");
        r = add_value(out, params);
    }
    return r < 0 ? r : kr_buf_add_str(out, "}");
}

int kr_mcp_write_ask(struct kr_buf *out, uint64_t id, const char *method, const json_t *params)
{
    int r;

    kr_buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%llu,\"method\":", (unsigned long long)id);
    r = add_text(out, method);
    if (r == 0 && params) {
        kr_buf_add_str(out, ",\"params\":");
        r = add_value(out, params);
    }
    return r < 0 ? r : kr_buf_add_str(out, "}");
}
