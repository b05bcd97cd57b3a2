/* From bytes to json_t, within limits. Called by field.c.
 *
 * Invariant: what a body costs is bounded before anything is allocated for it: jansson recurses for each level and takes
 * some 64 bytes for each value, so both are counted first. */
#include "field_internal.h"
#include "err.h"
#include "query.h"
#include <stdio.h>
#include <string.h>

/* Behind the closing quote of the string that begins at s, or end. */
static const char *skip_string(const char *s, const char *end)
{
    for (s++; s < end; s++) {
        if (*s == '\\')
            s++;
        else if (*s == '"')
            return s + 1;
    }
    return end;
}

enum kr_api_excess kr_api_excess(const char *text, size_t len, unsigned depth_max, unsigned values_max)
{
    const char *end = text + len;
    unsigned depth = 0, values = 1;

    while (text < end && values <= values_max) {
        char c = *text;

        if (c == '"') {
            text = skip_string(text, end);
            continue;
        }
        text++;
        if (c == '[' || c == '{') {
            if (++depth > depth_max)
                return KR_API_TOO_DEEP;
            values++;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == ',') {
            values++;
        }
    }
    return values > values_max ? KR_API_TOO_MANY : KR_API_FITS;
}

json_t *kr_api_load(struct kr_api_parse *p, const char *text, size_t len)
{
    static const char *const words[] = {
        [KR_API_FITS] = NULL,
        [KR_API_TOO_DEEP] = "is nested deeper than 32 levels",
        [KR_API_TOO_MANY] = "has more than 100000 values",
    };
    const char *too_much = words[kr_api_excess(text, len, KR_API_DEPTH_MAX, KR_API_VALUES_MAX)];
    json_error_t where;
    json_t *root;

    if (too_much) {
        kr_api_flaw_body(p, 0, "json_invalid", "JSON decode error", too_much, "the body %s", too_much);
        return NULL;
    }
    root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (!root && json_error_code(&where) == json_error_out_of_memory)
        kr_api_flaw_memory(p);
    else if (!root)
        kr_api_flaw_body(p, where.position, "json_invalid", "JSON decode error", where.text,
                         "the body is not JSON: line %d column %d: %.120s", where.line, where.column, where.text);
    return root;
}

/* A key that came before becomes an array of its values. */
static int add_pair(json_t *object, const struct kr_query_pair *pair)
{
    json_t *value = json_stringn(pair->value, pair->value_len), *old = json_object_get(object, pair->key), *list;
    int r;

    if (!old)
        return json_object_set_new(object, pair->key, value);
    if (json_is_array(old))
        return json_array_append_new(old, value);
    list = json_array();
    r = json_array_append(list, old);
    r |= json_array_append_new(list, value);
    r |= json_object_set_new(object, pair->key, list);
    return r;
}

json_t *kr_api_load_pairs(struct kr_api_parse *p, const char *text, size_t len)
{
    cleanup_query struct kr_query query = {0};
    struct kr_err err;
    json_t *object;

    if (kr_query_parse(&query, text, len, &err) < 0) {
        if (err.kind != KR_ERR_INVALID)
            kr_api_flaw_memory(p);
        else
            kr_api_flaw_body(p, -1, "value_error", "Value error", err.msg, "%s", err.msg);
        return NULL;
    }
    object = json_object();
    for (unsigned i = 0; object && i < query.count; i++)
        if (add_pair(object, &query.pairs[i]) < 0) {
            json_decref(object);
            object = NULL;
        }
    if (!object)
        kr_api_flaw_memory(p);
    return object;
}
