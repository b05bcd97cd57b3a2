/* What the documents' tools share. Called by the *_tools.c of this folder.
 *
 * Invariant: the text of an answer is valid JSON whatever the run wrote: a value that is too large is made again with
 * shorter texts, never cut. */
#include "dialect_results.h"
#include "api.h"
#include "err.h"
#include <stdlib.h>
#include <string.h>

#define CAP_LEAST 256u

const char *kr_compat_reason(const struct kr_err *err)
{
    return err && kr_err_row((enum kr_err_kind)err->kind)->text_is_public ? err->msg : "internal error";
}

static size_t flags_of(enum kr_compat_form form)
{
    return JSON_ENCODE_ANY | (form == KR_COMPAT_COMPACT ? JSON_COMPACT : JSON_INDENT(2));
}

void kr_compat_answer(struct kr_mcp_call *c, json_t *value, enum kr_compat_form form)
{
    struct kr_mcp_result r;

    if (!value) {
        kr_mcp_tool_refuse(c, "out of memory");
        return;
    }
    kr_mcp_result_init(&r);
    kr_mcp_add_json(&r, value, form == KR_COMPAT_COMPACT ? 0 : 2);
    if (form == KR_COMPAT_WRAPPED)
        r.structured = json_pack("{s:O}", "result", value);
    else if (form == KR_COMPAT_COMPACT)
        r.structured = json_incref(value);
    json_decref(value);
    kr_mcp_tool_done(c, &r);
}

json_t *kr_compat_fit(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, kr_compat_make *make, void *data,
                      enum kr_compat_form form)
{
    size_t most = form == KR_COMPAT_COMPACT ? KR_MCP_JSON_MAX : KR_MCP_TEXT_MAX;

    for (size_t cap = most;; cap /= 2) {
        json_t *value = make(c, o, cap, data);

        if (!value || cap <= CAP_LEAST || json_dumpb(value, NULL, 0, flags_of(form)) <= most)
            return value;
        json_decref(value);
    }
}

/* ---- an outcome ---- */

const json_t *kr_compat_end(const struct kr_mcp_outcome *o, const char *name)
{
    const json_t *value = json_object_get(o->end, name);

    return json_is_null(value) ? NULL : value;
}

static const char *compat_message(const struct kr_mcp_outcome *o)
{
    const char *text = json_string_value(kr_compat_end(o, "message"));

    return text ? text : "";
}

bool kr_compat_good(const struct kr_mcp_outcome *o, int *ret_code)
{
    int code = (int)json_integer_value(kr_compat_end(o, "exit_code"));
    bool good = o->cause == KR_CAUSE_OK || (o->cause == KR_CAUSE_EXIT && code == 0);

    *ret_code = good ? 0 : code != 0 ? code : 1;
    return good;
}

static const char *traceback_of(const struct kr_mcp_outcome *o)
{
    const char *text = json_string_value(json_object_get(o->error, "traceback"));

    return text ? text : "";
}

/* On a line of its own. */
static void add_line(struct kr_buf *out, const char *text)
{
    if (!*text)
        return;
    if (out->len && out->data[out->len - 1] != '\n')
        kr_buf_add_str(out, "\n");
    kr_buf_add_str(out, text);
    if (text[strlen(text) - 1] != '\n')
        kr_buf_add_str(out, "\n");
}

void kr_compat_stderr(struct kr_buf *out, const struct kr_mcp_outcome *o)
{
    int code;

    kr_buf_add(out, kr_buf_str(&o->err), o->err.len);
    add_line(out, traceback_of(o));
    if (!kr_compat_good(o, &code) && o->cause != KR_CAUSE_EXCEPTION && o->cause != KR_CAUSE_EXIT)
        add_line(out, compat_message(o));
}

json_t *kr_compat_text(const struct kr_buf *text, size_t chars, size_t bytes, bool cut, const char *mark)
{
    size_t at = 0, limit = text->len < bytes ? text->len : bytes;
    struct kr_buf out;
    json_t *value;

    for (size_t n = 0; at < limit && n < chars; n++)
        do
            at++;
        while (at < text->len && ((unsigned char)text->data[at] & 0xc0) == 0x80);
    if (at == text->len && !cut)
        return kr_mcp_text_value(kr_buf_str(text), text->len);
    kr_buf_init(&out, at + strlen(mark) + 1);
    kr_buf_add(&out, kr_buf_str(text), at);
    kr_buf_add_str(&out, mark);
    value = kr_mcp_text_value(kr_buf_str(&out), out.len);
    kr_buf_done(&out);
    return value;
}

json_t *kr_compat_traceback(const struct kr_mcp_outcome *o)
{
    json_t *lines = json_array();

    for (const char *at = traceback_of(o); *at;) {
        size_t n = strcspn(at, "\n");

        json_array_append_new(lines, kr_mcp_text_value(at, n));
        at += n + (at[n] == '\n');
    }
    return lines;
}

json_t *kr_compat_error(const struct kr_mcp_outcome *o)
{
    const char *type = json_string_value(json_object_get(o->error, "type"));
    const char *message = json_string_value(json_object_get(o->error, "message"));

    if (type && o->cause != KR_CAUSE_TIMEOUT)
        return message && *message ? json_sprintf("%s: %s", type, message) : json_string(type);
    if (*compat_message(o))
        return json_string(compat_message(o));
    return json_sprintf("the run ended with the cause %s", kr_cause_rows[o->cause].name);
}

uint64_t kr_compat_timeout(const struct kr_mcp_call *c, enum kr_dialect dialect)
{
    const struct kr_api *api = kr_mcp_api(c);
    uint64_t own = kr_api_dialect_profile(api, dialect)->limits.timeout_ms;
    uint64_t most = kr_box_profile(api->box, kr_mcp_caller(c))->ceilings.timeout_ms;

    return most && (own == 0 || own > most) ? most : own;
}

void kr_compat_answer_text(struct kr_mcp_call *c, const char *text, size_t len, const char *note)
{
    struct kr_mcp_result r;

    kr_mcp_result_init(&r);
    kr_mcp_add_text(&r, text, len);
    r.structured = json_pack("{s:O}", "result", json_object_get(json_array_get(r.content, 0), "text"));
    if (note)
        kr_mcp_add_text(&r, note, strlen(note));
    kr_mcp_tool_done(c, &r);
}
