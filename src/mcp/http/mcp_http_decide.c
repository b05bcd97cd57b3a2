/* One decision for each POST. Called by mcp_http_post.c, by its unit test and by the fuzzer.
 *
 * Invariant: the order of the checks is the contract (a version that is not served is refused only after header and
 * body agree on it), and every refusal has a code and a text that names what was wrong. */
#include "mcp_http_decide.h"
#include "base64.h"
#include "mcp_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "=?base64?"
#define SUFFIX "?="
#define HEADER_NAME_MAX 64u /* of an x-mcp-header */

bool kr_mcp_is_legacy(const char *version)
{
    int rev = kr_mcp_rev_find(version);

    return rev >= 0 && !kr_mcp_revs[rev].modern;
}

static bool names_modern(const struct kr_mcp_heads *h)
{
    return h->version && !kr_mcp_is_legacy(h->version);
}

static void decide_refusal(struct kr_mcp_decision *s, int code, const char *text)
{
    s->way = KR_WAY_REFUSE;
    s->status = 400;
    if (text != s->flaw.text)
        kr_mcp_flaw_set(&s->flaw, code, "%s", text);
    s->flaw.code = code;
}

/* ---- values of headers ---- */

/* Does the value of a header say this text? It may be =?base64?…?=. -EINVAL: no, or what is within is not base64. */
static int compare_head(const char *value, const char *text, size_t len)
{
    size_t n = strlen(value), prefix = strlen(PREFIX), suffix = strlen(SUFFIX);
    char *decoded;
    ssize_t got;
    int r;

    if (n < prefix + suffix || memcmp(value, PREFIX, prefix) != 0 || memcmp(value + n - suffix, SUFFIX, suffix) != 0)
        return n == len && memcmp(value, text, len) == 0 ? 0 : -EINVAL;
    if (!(decoded = malloc(n)))
        return -ENOMEM;
    got = kr_base64_decode(value + prefix, n - prefix - suffix, decoded, n);
    r = got >= 0 && (size_t)got == len && memcmp(decoded, text, len) == 0 ? 0 : -EINVAL;
    free(decoded);
    return r;
}

static bool value_equal(const char *value, const json_t *argument)
{
    char *end;
    long long number;

    if (json_is_string(argument))
        return compare_head(value, json_string_value(argument), json_string_length(argument)) == 0;
    if (json_is_boolean(argument))
        return strcmp(value, json_is_true(argument) ? "true" : "false") == 0;
    if (!json_is_integer(argument))
        return false;
    errno = 0;
    number = strtoll(value, &end, 10);
    return errno == 0 && end != value && *end == '\0' && number == json_integer_value(argument);
}

int kr_mcp_head_params(const json_t *schema, const json_t *arguments,
                       const char *(*header)(const void *data, const char *name), const void *data,
                       struct kr_mcp_flaw *f)
{
    json_t *properties = json_object_get(schema, "properties"), *property;
    const char *key;

    json_object_foreach(properties, key, property)
    {
        const char *word = json_string_value(json_object_get(property, "x-mcp-header")), *value;
        const json_t *argument = json_object_get(arguments, key);
        char name[sizeof "Mcp-Param-" + HEADER_NAME_MAX];

        if (!word || strlen(word) > HEADER_NAME_MAX || !argument || json_is_null(argument))
            continue;
        snprintf(name, sizeof name, "Mcp-Param-%s", word);
        value = header(data, name);
        if (!value)
            return kr_mcp_flaw_set(f, KR_RPC_HEADER_MISMATCH, "header %s is missing: it repeats the argument %.64s",
                                   name, key);
        if (!value_equal(value, argument))
            return kr_mcp_flaw_set(f, KR_RPC_HEADER_MISMATCH, "header %s differs from the argument %.64s", name, key);
    }
    return 0;
}

/* ---- the checks, in their order ---- */

static void decide_batch(json_t *root, const struct kr_mcp_heads *h, struct kr_mcp_decision *s)
{
    size_t i, count = json_array_size(root);
    struct kr_mcp_message m;
    json_t *item;

    if (names_modern(h)) {
        decide_refusal(s, KR_RPC_INVALID_REQUEST, "a body is one message: batches are of 2025-03-26 only");
        return;
    }
    if (count == 0 || count > KR_MCP_BATCH_MAX) {
        decide_refusal(s, KR_RPC_INVALID_REQUEST, "a batch has 1 to 100 messages");
        return;
    }
    json_array_foreach(root, i, item)
    {
        if (kr_mcp_classify(item, &m, &s->flaw) < 0) {
            decide_refusal(s, s->flaw.code, s->flaw.text);
            return;
        }
        if (m.kind == KR_MCP_BATCH || kr_mcp_meta(&m, KR_MCP_META_VERSION) ||
            (m.method && strcmp(m.method, "initialize") == 0)) {
            decide_refusal(s, KR_RPC_INVALID_REQUEST,
                           "a batch holds neither batches nor initialize nor requests of 2026-07-28");
            return;
        }
        s->requests += m.kind == KR_MCP_REQUEST;
    }
    s->way = KR_WAY_BATCH;
}

/* Mcp-Name repeats the member of params that the method's row names. */
static void check_name(const struct kr_mcp_heads *h, struct kr_mcp_decision *s)
{
    const struct kr_mcp_method *row = kr_mcp_method_find(s->msg.method, KR_REV_2026_07_28);
    const json_t *name = row && row->named_by ? json_object_get(s->msg.params, row->named_by) : NULL;

    if (!row || !row->named_by || (!json_is_string(name) && !h->name))
        return; /* without a name in the body the method itself refuses it */
    if (!h->name)
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header Mcp-Name is missing");
    else if (!json_is_string(name) || compare_head(h->name, json_string_value(name), json_string_length(name)) < 0)
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header Mcp-Name differs from the body");
}

static void decide_claim(const struct kr_mcp_heads *h, enum kr_mcp_envelope envelope, struct kr_mcp_decision *s)
{
    const char *claim = json_string_value(kr_mcp_meta(&s->msg, KR_MCP_META_VERSION));

    s->way = KR_WAY_MODERN;
    if (envelope == KR_MCP_BAD_ENVELOPE) {
        decide_refusal(s, s->flaw.code, s->flaw.text);
    } else if (h->twice) {
        char text[96];

        snprintf(text, sizeof text, "header %.40s came more than once", h->twice);
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, text);
    } else if (h->version && strcmp(h->version, claim) != 0) {
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header MCP-Protocol-Version differs from the body");
    } else if (h->method && strcmp(h->method, s->msg.method) != 0) {
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header Mcp-Method differs from the body");
    } else if (envelope == KR_MCP_NOT_SERVED) {
        s->data = kr_mcp_versions(claim);
        decide_refusal(s, s->flaw.code, s->flaw.text);
    } else if (!h->version) {
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header MCP-Protocol-Version is missing");
    } else if (!h->method) {
        decide_refusal(s, KR_RPC_HEADER_MISMATCH, "header Mcp-Method is missing");
    } else {
        check_name(h, s);
    }
}

static void decide_request(const struct kr_mcp_heads *h, struct kr_mcp_decision *s)
{
    enum kr_mcp_envelope envelope = kr_mcp_envelope(&s->msg, &s->flaw);

    if (envelope != KR_MCP_MODERN && strcmp(s->msg.method, "initialize") == 0) {
        if (names_modern(h))
            decide_refusal(s, KR_RPC_HEADER_MISMATCH,
                           "header MCP-Protocol-Version names a revision without initialize");
        else
            s->way = KR_WAY_INITIALIZE;
    } else if (envelope != KR_MCP_NO_CLAIM) {
        decide_claim(h, envelope, s);
    } else if (names_modern(h)) {
        decide_refusal(s, KR_RPC_INVALID_PARAMS,
                       "params._meta needs \"" KR_MCP_META_VERSION "\" and \"" KR_MCP_META_CAPABILITIES "\"");
    } else {
        s->way = KR_WAY_LEGACY;
    }
}

void kr_mcp_http_decide(const struct kr_mcp_heads *heads, json_t *root, struct kr_mcp_decision *ret)
{
    *ret = (struct kr_mcp_decision){.way = KR_WAY_LEGACY};
    if (kr_mcp_classify(root, &ret->msg, &ret->flaw) < 0)
        decide_refusal(ret, ret->flaw.code, ret->flaw.text);
    else if (ret->msg.kind == KR_MCP_BATCH)
        decide_batch(root, heads, ret);
    else if (ret->msg.kind == KR_MCP_RESPONSE && names_modern(heads))
        decide_refusal(ret, KR_RPC_INVALID_REQUEST, "a body is a request or a notification");
    else if (ret->msg.kind == KR_MCP_NOTIFICATION)
        ret->way =
            kr_mcp_meta(&ret->msg, KR_MCP_META_VERSION) || names_modern(heads) ? KR_WAY_MODERN_NOTE : KR_WAY_LEGACY;
    else if (ret->msg.kind == KR_MCP_REQUEST)
        decide_request(heads, ret);
}
