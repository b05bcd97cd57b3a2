/* What a tool answers: blocks of content, an optional structure, and how both fit the client's revision.
 *
 * Called by every tool. Invariants: texts that leave are valid UTF-8; a message is at most KR_MCP_RESULT_MAX bytes, and
 * what was left out for that is said in it; a revision never sees a kind of block that it does not know. */
#include "buf.h"
#include "err.h"
#include "mcp.h"
#include "tool.h"
#include "utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENVELOPE (64u << 10) /* of a message, for what is around the result */
#define SHORT_TEXT (64u << 10)

void kr_mcp_result_init(struct kr_mcp_result *r)
{
    *r = (struct kr_mcp_result){.content = json_array()};
}

/* ---- texts ---- */

json_t *kr_mcp_text_value(const char *text, size_t len)
{
    json_t *value = json_stringn(text, len);
    struct kr_utf8 utf8 = {0};
    char *clean;
    size_t n;

    if (value)
        return value;
    clean = malloc(KR_UTF8_ROOM(len));
    if (!clean)
        return NULL;
    n = kr_utf8_feed(&utf8, text, len, clean);
    n += kr_utf8_finish(&utf8, clean + n);
    value = json_stringn(clean, n);
    free(clean);
    return value;
}

static json_t *text_block(const char *text, size_t len)
{
    return json_pack("{s:s, s:o}", "type", "text", "text", kr_mcp_text_value(text, len));
}

/* One that is too long, cut behind a whole character, with a line that says so. */
static json_t *cut_block(const char *text, size_t len, size_t max)
{
    struct kr_buf buf;
    json_t *block;

    kr_buf_init(&buf, max + 128);
    kr_buf_add(&buf, text, kr_utf8_complete(text, max));
    kr_buf_printf(&buf, "\n[cut: %zu bytes in all]", len);
    block = text_block(kr_buf_str(&buf), buf.len);
    kr_buf_done(&buf);
    return block;
}

static void add_block(struct kr_mcp_result *r, json_t *block)
{
    if (block && r->content)
        json_array_append_new(r->content, block);
    else
        json_decref(block);
}

void kr_mcp_add_text(struct kr_mcp_result *r, const char *text, size_t len)
{
    add_block(r, len > KR_MCP_TEXT_MAX ? cut_block(text, len, KR_MCP_TEXT_MAX) : text_block(text, len));
}

void kr_mcp_add_textf(struct kr_mcp_result *r, const char *fmt, ...)
{
    va_list args;
    char *text;
    int len;

    va_start(args, fmt);
    len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        return;
    kr_mcp_add_text(r, text, (size_t)len);
    free(text);
}

void kr_mcp_add_json(struct kr_mcp_result *r, const json_t *value, int indent)
{
    size_t flags = JSON_ENCODE_ANY | (indent ? JSON_INDENT((size_t)indent) : JSON_COMPACT);
    char *text = json_dumps(value, flags);

    if (text && strlen(text) <= KR_MCP_JSON_MAX)
        add_block(r, text_block(text, strlen(text)));
    else if (text)
        kr_mcp_add_text(r, text, strlen(text));
    free(text);
}

/* ---- other blocks ---- */

static void add_media(struct kr_mcp_result *r, const char *type, const char *base64, size_t len, const char *mime)
{
    if (len / 4 * 3 > KR_MCP_IMAGE_MAX)
        kr_mcp_add_textf(r, "[%s of %.1f MB left out: %u MB at most]", mime, (double)len / 4 * 3 / 1e6,
                         KR_MCP_IMAGE_MAX >> 20);
    else
        add_block(r,
                  json_pack("{s:s, s:o, s:s}", "type", type, "data", kr_mcp_text_value(base64, len), "mimeType", mime));
}

void kr_mcp_add_image(struct kr_mcp_result *r, const char *base64, size_t len, const char *mime)
{
    add_media(r, "image", base64, len, mime);
}

void kr_mcp_add_audio(struct kr_mcp_result *r, const char *base64, size_t len, const char *mime)
{
    add_media(r, "audio", base64, len, mime);
}

static void set_text(json_t *object, const char *key, const char *text)
{
    if (text)
        json_object_set_new(object, key, kr_mcp_text_value(text, strlen(text)));
}

void kr_mcp_add_link(struct kr_mcp_result *r, const char *uri, const char *name, const char *description,
                     const char *mime, int64_t size)
{
    json_t *block = json_pack("{s:s}", "type", "resource_link");

    set_text(block, "uri", uri);
    set_text(block, "name", name);
    set_text(block, "description", description);
    set_text(block, "mimeType", mime);
    if (size >= 0)
        json_object_set_new(block, "size", json_integer(size));
    add_block(r, block);
}

static void add_resource(struct kr_mcp_result *r, const char *uri, const char *mime, const char *key, json_t *value)
{
    json_t *resource = json_object();

    set_text(resource, "uri", uri);
    set_text(resource, "mimeType", mime);
    json_object_set_new(resource, key, value);
    add_block(r, json_pack("{s:s, s:o}", "type", "resource", "resource", resource));
}

void kr_mcp_add_resource_text(struct kr_mcp_result *r, const char *uri, const char *mime, const char *text, size_t len)
{
    add_resource(r, uri, mime, "text", kr_mcp_text_value(text, len));
}

void kr_mcp_add_resource_blob(struct kr_mcp_result *r, const char *uri, const char *mime, const char *base64,
                              size_t len)
{
    add_resource(r, uri, mime, "blob", kr_mcp_text_value(base64, len));
}

/* ---- what the revision allows ---- */

static const char *block_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* A block for a revision that has none of its kind; NULL: it may stay as it is. */
static json_t *downgrade(const struct kr_mcp_rev_row *rev, const json_t *block, size_t number)
{
    const char *type = block_text(block, "type");
    char text[64];

    if (strcmp(type, "audio") == 0 && !rev->audio) {
        snprintf(text, sizeof text, "krait://audio/%zu", number);
        return json_pack("{s:s, s:{s:s, s:s, s:O}}", "type", "resource", "resource", "uri", text, "mimeType",
                         block_text(block, "mimeType"), "blob", json_object_get(block, "data"));
    }
    if (strcmp(type, "resource_link") == 0 && !rev->resource_link) {
        struct kr_buf line;
        json_t *made;

        kr_buf_init(&line, 64u << 10);
        kr_buf_printf(&line, "%s: %s", block_text(block, "name"), block_text(block, "uri"));
        made = text_block(kr_buf_str(&line), line.len);
        kr_buf_done(&line);
        return made;
    }
    return NULL;
}

static void downgrade_all(const struct kr_mcp_rev_row *rev, json_t *content)
{
    json_t *block, *other;
    size_t i;

    json_array_foreach(content, i, block)
    {
        other = downgrade(rev, block, i + 1);
        if (other)
            json_array_set_new(content, i, other);
    }
}

/* ---- what fits into one message ---- */

static size_t text_cost(const char *text, size_t len)
{
    size_t cost = len + 2;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r')
            cost++;
        else if (c < 0x20 || c == 0x7f) /* \u0000; other short forms are no longer than that */
            cost += 5;
    }
    return cost;
}

/* Bytes of the value as compact JSON, never too few. */
static size_t cost_of(const json_t *value)
{
    size_t cost = 2, i;
    const char *key;
    json_t *item;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_object_foreach((json_t *)value, key, item) cost += text_cost(key, strlen(key)) + cost_of(item) + 2;
        return cost;
    case JSON_ARRAY:
        json_array_foreach(value, i, item) cost += cost_of(item) + 1;
        return cost;
    case JSON_STRING:
        return text_cost(json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
    case JSON_REAL:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NULL:
        break;
    }
    return 32;
}

/* Media from the last on become a line each. Returns what the content costs then. */
static size_t leave_media_out(json_t *content, size_t cost, size_t max)
{
    for (size_t i = json_array_size(content); i-- > 0 && cost > max;) {
        const json_t *block = json_array_get(content, i);
        const json_t *inner = json_object_get(block, "resource");
        const char *mime = inner ? block_text(inner, "mimeType") : block_text(block, "mimeType");
        size_t was = cost_of(block);
        char note[160];

        if (!json_object_get(block, "data") && !json_object_get(inner, "blob"))
            continue;
        snprintf(note, sizeof note, "[%.60s left out: the answer would be larger than %u MB]", mime,
                 KR_MCP_RESULT_MAX >> 20);
        json_array_set_new(content, i, text_block(note, strlen(note)));
        cost = cost - was + strlen(note) + 64;
    }
    return cost;
}

static size_t shorten_texts(json_t *content, size_t cost, size_t max)
{
    for (size_t i = json_array_size(content); i-- > 0 && cost > max;) {
        const json_t *block = json_array_get(content, i);
        const json_t *inner = json_object_get(block, "resource");
        const json_t *text = json_object_get(inner ? inner : block, "text");
        size_t was = cost_of(block);
        json_t *made;

        if (json_string_length(text) <= SHORT_TEXT)
            continue;
        made = cut_block(json_string_value(text), json_string_length(text), SHORT_TEXT);
        if (!made)
            continue;
        cost = cost - was + cost_of(made);
        json_array_set_new(content, i, made);
    }
    return cost;
}

/* Blocks past the end are dropped: thousands of short ones. */
static void drop_blocks(json_t *content, size_t cost, size_t max)
{
    static const char note[] = "[more is left out: the answer would be too large]";
    size_t n = json_array_size(content);

    if (cost <= max)
        return;
    while (n > 0 && cost > max) {
        cost -= cost_of(json_array_get(content, --n));
        json_array_remove(content, n);
    }
    json_array_append_new(content, text_block(note, sizeof note - 1));
}

static void fit_result(struct kr_mcp_result *r)
{
    static const char note[] = "[the structure of this answer is left out: it would be too large]";
    const size_t max = KR_MCP_RESULT_MAX - ENVELOPE;
    size_t content = cost_of(r->content), structure = r->structured ? cost_of(r->structured) : 0;

    if (content + structure <= max)
        return;
    if (structure > max / 2) { /* clients insist on it unless it is an error */
        json_decref(r->structured);
        r->structured = NULL;
        r->is_error = true;
        structure = 0;
        json_array_append_new(r->content, text_block(note, sizeof note - 1));
    }
    content = leave_media_out(r->content, content, max - structure);
    content = shorten_texts(r->content, content, max - structure);
    drop_blocks(r->content, content, max - structure);
}

/* ---- answering ---- */

static bool tells_structure(const struct kr_mcp_call *c, const struct kr_mcp_rev_row *rev)
{
    const struct kr_mcp_tool *tool = kr_mcp_call_tool(c);

    return rev->structured && (kr_mcp_structured(c) || !tool || !(tool->dialects & KR_IN_KRAIT));
}

void kr_mcp_tool_done(struct kr_mcp_call *c, struct kr_mcp_result *r)
{
    const struct kr_mcp_rev_row *rev = &kr_mcp_revs[kr_mcp_call_rev(c)];
    json_t *result = json_object();

    if (!tells_structure(c, rev)) {
        json_decref(r->structured);
        r->structured = NULL;
    }
    if (r->content) {
        downgrade_all(rev, r->content);
        fit_result(r);
    }
    if (!result || !r->content) {
        json_decref(result);
        json_decref(r->content);
        json_decref(r->structured);
        kr_mcp_fail(c, KR_RPC_INTERNAL, NULL, "out of memory");
        return;
    }
    json_object_set_new(result, "content", r->content);
    if (r->structured)
        json_object_set_new(result, "structuredContent", r->structured);
    if (r->is_error)
        json_object_set_new(result, "isError", json_true());
    r->content = r->structured = NULL;
    kr_mcp_reply(c, result);
}

void kr_mcp_tool_refuse(struct kr_mcp_call *c, const char *fmt, ...)
{
    struct kr_mcp_result r;
    va_list args;
    char *text;
    int len;

    va_start(args, fmt);
    len = vasprintf(&text, fmt, args);
    va_end(args);
    kr_mcp_result_init(&r);
    kr_mcp_refused(c, KR_ERR_INVALID);
    r.is_error = true;
    if (len >= 0) {
        kr_mcp_add_text(&r, text, (size_t)len);
        free(text);
    }
    kr_mcp_tool_done(c, &r);
}

/* The way on, where the domain can only say what is missing. */
static const char *way_on(const struct kr_err *err)
{
    static const struct {
        const char *text, *then;
    } rows[] = {
        {"there is no sandbox of that id or name", ": list_sandboxes names yours; without sandbox_id it is `default`"},
        {"there is no session of that name", ": list_active_sessions names yours"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(err->msg, rows[i].text) == 0)
            return rows[i].then;
    return "";
}

void kr_mcp_tool_fail(struct kr_mcp_call *c, const struct kr_err *err)
{
    const struct kr_mcp_tool *tool = kr_mcp_call_tool(c);
    bool is_ours = tool && (tool->dialects & KR_IN_KRAIT);

    kr_mcp_refused(c, (int)err->kind);
    if (!kr_err_row(err->kind)->text_is_public)
        kr_mcp_tool_refuse(c, "krait failed: the reason is in the server's log");
    else
        kr_mcp_tool_refuse(c, "%s%s", err->msg, is_ours ? way_on(err) : "");
}
