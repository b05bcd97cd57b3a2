/* JSON Schema of tools, from the same rows that check their arguments. Called by tools.c and `krait dump tools`.
 *
 * Invariant: plain words only (type, description, enum, default, bounds, items, properties): what clients turn into
 * other dialects of schema loses nothing. Lengths are checked and not listed: each would be read with every list. Null
 * is taken for an optional argument, but not listed: several clients refuse a type that is a list. */
#include "tool_schema.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOUND_SAID 1e9 /* a bound that no model comes near costs its reader more than it tells */

static void set_bound(json_t *schema, const char *key, double bound)
{
    if (!key)
        return;
    json_object_set_new(
        schema, key, floor(bound) == bound && fabs(bound) < 9e15 ? json_integer((json_int_t)bound) : json_real(bound));
}

static void set_choices(json_t *schema, const char *const *choices)
{
    json_t *list = json_array();

    for (; choices && *choices; choices++)
        json_array_append_new(list, json_string(*choices));
    json_object_set_new(schema, "enum", list);
}

static json_t *sample(enum kr_api_type type, const char *text)
{
    if (type == KR_API_STRING || type == KR_API_TEXT || type == KR_API_ENUM)
        return json_string(text);
    return json_loads(text, JSON_DECODE_ANY, NULL);
}

/* ---- arguments ---- */

static json_t *field_schema(const struct kr_api_field *f)
{
    bool is_number = f->type == KR_API_INT || f->type == KR_API_NUMBER;
    json_t *schema;

    if (f->type == KR_API_OBJECT && f->of) {
        schema = kr_mcp_input_schema(f->of, false);
    } else {
        schema = json_object();
        if (kr_api_type_words[f->type].type)
            json_object_set_new(schema, "type", json_string(kr_api_type_words[f->type].type));
    }
    if (!f->tacit)
        json_object_set_new(schema, "description", json_string(f->help));
    if (f->choices)
        set_choices(schema, f->choices);
    if (f->has_min && is_number && f->min > 0)
        set_bound(schema, "minimum", f->min);
    if (f->has_max && is_number && f->max < BOUND_SAID)
        set_bound(schema, "maximum", f->max);
    if (f->def)
        json_object_set_new(schema, "default", sample(f->type, f->def));
    if (f->type == KR_API_STRINGS)
        json_object_set_new(schema, "items", json_pack("{s:s}", "type", "string"));
    if (f->type == KR_API_ARRAY)
        json_object_set_new(schema, "items", f->of ? kr_mcp_input_schema(f->of, false) : json_object());
    if (f->type == KR_API_MAP)
        json_object_set_new(schema, "additionalProperties", json_pack("{s:s}", "type", "string"));
    return schema;
}

json_t *kr_mcp_input_schema(const struct kr_api_table *table, bool strict)
{
    json_t *schema = json_pack("{s:s}", "type", "object"), *properties = json_object(), *required = json_array();

    for (size_t i = 0; table && i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        if (f->unlisted)
            continue;
        json_object_set_new(properties, f->name, field_schema(f));
        if (f->required)
            json_array_append_new(required, json_string(f->name));
    }
    json_object_set_new(schema, "properties", properties);
    if (json_array_size(required) > 0)
        json_object_set(schema, "required", required);
    json_decref(required);
    if (strict)
        json_object_set_new(schema, "additionalProperties", json_false());
    return schema;
}

void kr_mcp_bound_timeout(json_t *schema, uint64_t most_ms)
{
    json_t *timeout = json_object_get(json_object_get(schema, "properties"), "timeout");

    if (timeout && most_ms)
        set_bound(timeout, "maximum", (double)most_ms / 1000);
}

/* ---- results ---- */

static json_t *prop_schema(const struct kr_api_prop *p)
{
    json_t *schema = p->type == KR_API_OBJECT && p->of ? kr_mcp_output_schema(p->of) : json_object();
    const char *type = kr_api_type_words[p->type].type;

    if (type && p->nullable)
        json_object_set_new(schema, "type", json_pack("[s,s]", type, "null"));
    else if (type)
        json_object_set_new(schema, "type", json_string(type));
    if (p->choices)
        set_choices(schema, p->choices);
    if (p->choices && p->nullable)
        json_array_append_new(json_object_get(schema, "enum"), json_null());
    if (p->type == KR_API_STRINGS)
        json_object_set_new(schema, "items", json_pack("{s:s}", "type", "string"));
    if (p->type == KR_API_ARRAY)
        json_object_set_new(schema, "items", p->of ? kr_mcp_output_schema(p->of) : json_object());
    if (p->type == KR_API_MAP)
        json_object_set_new(schema, "additionalProperties", json_pack("{s:s}", "type", "string"));
    if (p->each)
        schema = json_pack("{s:s, s:o}", "type", "object", "additionalProperties", schema);
    json_object_set_new(schema, "description", json_string(p->help));
    return schema;
}

json_t *kr_mcp_output_schema(const struct kr_api_schema *s)
{
    json_t *schema = json_pack("{s:s}", "type", "object"), *properties = json_object(), *required = json_array();

    for (size_t i = 0; i < s->count; i++) {
        if (s->props[i].unlisted)
            continue;
        json_object_set_new(properties, s->props[i].name, prop_schema(&s->props[i]));
        if (!s->props[i].optional)
            json_array_append_new(required, json_string(s->props[i].name));
    }
    json_object_set_new(schema, "properties", properties);
    json_object_set_new(schema, "required", required);
    return schema;
}
