/* From bytes to json_t, within limits. Called by field.c.
 *
 * Invariant: what a body costs is bounded before anything is allocated for it: jansson recurses for each level and
 * takes some 64 bytes for each value, so both are counted first. */
#include "field_internal.h"
#include "err.h"
#include "json_load.h"
#include "json_scan.h"
#include "query.h"
#include <stdio.h>
#include <string.h>

/* jansson says what it had read last: "invalid escape near '…'". */
static void cut_near(json_error_t *where)
{
    char *near = strstr(where->text, " near ");

    if (near)
        *near = '\0';
}

json_t *kr_api_load(struct kr_api_parse *p, const char *text, size_t len, bool hides)
{
    static const struct kr_scan_max max = {.slots = KR_API_VALUES_MAX, .depth = KR_API_DEPTH_MAX};
    static const char *const words[KR_SCAN_MAX_] = {
        [KR_SCAN_TOO_DEEP] = "is nested deeper than 32 levels",
        [KR_SCAN_TOO_MANY] = "has more than 100000 values",
    };
    const char *too_much = words[kr_scan_json(text, len, &max)];
    json_error_t where;
    json_t *root;

    if (too_much) {
        kr_api_flaw_body(p, 0, "json_invalid", "JSON decode error", too_much, "the body %s", too_much);
        return NULL;
    }
    root = kr_json_load(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (!root && hides)
        cut_near(&where);
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
