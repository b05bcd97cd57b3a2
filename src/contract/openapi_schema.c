/* Rows as JSON Schema (2020-12, as OpenAPI 3.1 wants it). Called by openapi.c.
 *
 * Invariant: only words that tests/lib/openapi.py understands are written, so that what is published is also tested. */
#include "openapi_internal.h"
#include "json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a row of either table says of its type. */
struct shape {
    enum kr_api_type type;
    bool nullable, has_min, has_max;
    double min, max;
    const char *const *choices;
    const char *format;
    const char *of; /* a component's name */
};

void kr_api_ref_write(struct kr_json *j, const char *name)
{
    char ref[160];

    snprintf(ref, sizeof ref, "#/components/schemas/%s", name);
    kr_json_object(j);
    kr_json_key_str(j, "$ref", ref);
    kr_json_object_end(j);
}

void kr_api_raw_schema_write(struct kr_json *j, const char *media)
{
    kr_json_key(j, "schema");
    kr_json_object(j);
    kr_json_key_str(j, "type", "string");
    if (strncmp(media, "text/", 5) != 0)
        kr_json_key_str(j, "format", "binary");
    kr_json_object_end(j);
}

void kr_api_sample_write(struct kr_json *j, enum kr_api_type type, const char *text)
{
    if (type == KR_API_STRING || type == KR_API_TEXT || type == KR_API_ENUM)
        kr_json_str(j, text);
    else
        kr_json_raw(j, text, strlen(text));
}

/* ---- a row's type ---- */

static void write_type(struct kr_json *j, const char *type, bool nullable)
{
    kr_json_key(j, "type");
    if (nullable)
        kr_json_array(j);
    kr_json_str(j, type);
    if (nullable) {
        kr_json_str(j, "null");
        kr_json_array_end(j);
    }
}

static void write_choices(struct kr_json *j, const struct shape *s)
{
    kr_json_key(j, "enum");
    kr_json_array(j);
    for (const char *const *c = s->choices; *c; c++)
        kr_json_str(j, *c);
    if (s->nullable)
        kr_json_null(j);
    kr_json_array_end(j);
}

static void write_number(struct kr_json *j, double number)
{
    if (floor(number) == number && fabs(number) < 9e15)
        kr_json_int(j, (int64_t)number);
    else
        kr_json_double(j, number);
}

static void write_bound(struct kr_json *j, const char *key, double bound)
{
    if (!key)
        return;
    kr_json_key(j, key);
    write_number(j, bound);
}

/* Any string, or one of the words. */
static void write_string_type(struct kr_json *j, const char *const *words)
{
    kr_json_object(j);
    kr_json_key_str(j, "type", "string");
    if (words)
        write_choices(j, &(struct shape){.choices = words});
    kr_json_object_end(j);
}

/* What each item of an array is; `{}` for anything: generators want the word in any case. */
static void write_items(struct kr_json *j, const struct shape *s)
{
    kr_json_key(j, "items");
    if (s->type == KR_API_STRINGS) {
        write_string_type(j, s->choices);
    } else if (s->of) {
        kr_api_ref_write(j, s->of);
    } else {
        kr_json_object(j);
        kr_json_object_end(j);
    }
}

/* The keys of a type, into an object that is open. */
static void write_shape(struct kr_json *j, const struct shape *s)
{
    if (s->type == KR_API_OBJECT && s->of) {
        kr_json_key(j, s->nullable ? "anyOf" : "allOf");
        kr_json_array(j);
        kr_api_ref_write(j, s->of);
        if (s->nullable) {
            kr_json_object(j);
            kr_json_key_str(j, "type", "null");
            kr_json_object_end(j);
        }
        kr_json_array_end(j);
        return;
    }
    if (kr_api_type_words[s->type].type)
        write_type(j, kr_api_type_words[s->type].type, s->nullable);
    if (s->choices && s->type != KR_API_STRINGS)
        write_choices(j, s);
    if (s->has_min)
        write_bound(j, kr_api_type_words[s->type].min, s->min);
    if (s->has_max)
        write_bound(j, kr_api_type_words[s->type].max, s->max);
    if (s->format)
        kr_json_key_str(j, "format", s->format);
    if (s->type == KR_API_STRINGS || s->type == KR_API_ARRAY)
        write_items(j, s);
    if (s->type == KR_API_MAP) {
        kr_json_key(j, "additionalProperties");
        write_string_type(j, NULL);
    }
    if (s->type == KR_API_OBJECT)
        kr_json_key_bool(j, "additionalProperties", true);
}

static void write_example(struct kr_json *j, enum kr_api_type type, const char *text)
{
    kr_json_key(j, "examples");
    kr_json_array(j);
    kr_api_sample_write(j, type, text);
    kr_json_array_end(j);
}

/* ---- request tables ---- */

/* The help, with the other names. */
static void write_help(struct kr_json *j, const struct kr_api_field *f)
{
    char text[1024];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", f->help);

    for (const char *const *a = f->aliases; a && *a && len < sizeof text; a++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s`%s`", a == f->aliases ? " Also taken as " : ", ", *a);
    if (f->aliases && f->aliases[0] && len < sizeof text - 1)
        snprintf(text + len, sizeof text - len, ".");
    kr_json_key_str(j, "description", text);
}

/* A row's maximum: lower than it says where the administrator allows less. */
static void lower_to_ceiling(const struct kr_api_field *f, const struct kr_api_openapi *config, struct shape *s)
{
    double most = (double)config->most_ms[f->ceiling] / 1000;

    if (most == 0)
        return;
    if (f->type == KR_API_INT)
        most = floor(most);
    if (!s->has_max || s->max > most)
        s->max = most;
    s->has_max = true;
}

/* A default or an example; of a row with a ceiling at most what that allows. */
static void write_allowed(struct kr_json *j, const struct kr_api_field *f, const struct shape *s, const char *text)
{
    if (f->ceiling && s->has_max && strtod(text, NULL) > s->max)
        write_number(j, s->max);
    else
        kr_api_sample_write(j, f->type, text);
}

void kr_api_field_write(struct kr_json *j, const struct kr_api_field *f, bool inner,
                        const struct kr_api_openapi *config)
{
    struct shape s = {f->type, f->nullable, f->has_min, f->has_max, f->min, f->max, f->choices, f->format, NULL};

    s.of = f->of ? f->of->name : NULL;
    lower_to_ceiling(f, config, &s);
    if (f->secret && !s.format)
        s.format = "password";
    kr_json_object(j);
    write_shape(j, &s);
    if (f->def) {
        kr_json_key(j, "default");
        write_allowed(j, f, &s, f->def);
    }
    if (inner) {
        write_help(j, f);
        kr_json_key(j, "examples");
        kr_json_array(j);
        write_allowed(j, f, &s, f->example);
        kr_json_array_end(j);
    }
    kr_json_object_end(j);
}

static void write_table(struct kr_json *j, const struct kr_api_table *t, const struct kr_api_openapi *config)
{
    bool any = false;

    kr_json_key(j, "properties");
    kr_json_object(j);
    for (size_t i = 0; i < t->count; i++) {
        kr_json_key(j, t->fields[i].name);
        kr_api_field_write(j, &t->fields[i], true, config);
        any |= t->fields[i].required;
    }
    kr_json_object_end(j);
    if (!any)
        return;
    kr_json_key(j, "required");
    kr_json_array(j);
    for (size_t i = 0; i < t->count; i++)
        if (t->fields[i].required)
            kr_json_str(j, t->fields[i].name);
    kr_json_array_end(j);
}

void kr_api_table_sample(struct kr_json *j, const struct kr_api_table *table)
{
    bool any = false;

    for (size_t i = 0; i < table->count; i++)
        any |= table->fields[i].required;
    kr_json_object(j);
    for (size_t i = 0; i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        if (!f->required && (any || i > 0))
            continue;
        kr_json_key(j, f->name);
        kr_api_sample_write(j, f->type, f->example);
    }
    kr_json_object_end(j);
}

/* ---- reply schemas ---- */

static void write_prop(struct kr_json *j, const struct kr_api_prop *p)
{
    struct shape s = {.type = p->type, .nullable = p->nullable, .choices = p->choices, .format = p->format};

    s.of = p->of ? p->of->name : NULL;
    kr_json_object(j);
    if (p->each) {
        write_type(j, "object", p->nullable);
        s.nullable = false;
        kr_json_key(j, "additionalProperties");
        kr_json_object(j);
        write_shape(j, &s);
        kr_json_object_end(j);
    } else {
        write_shape(j, &s);
    }
    kr_json_key_str(j, "description", p->help);
    if (p->example)
        write_example(j, p->each ? KR_API_ANY : p->type, p->example);
    kr_json_object_end(j);
}

static void write_props(struct kr_json *j, const struct kr_api_schema *s)
{
    kr_json_key(j, "properties");
    kr_json_object(j);
    for (size_t i = 0; i < s->count; i++) {
        kr_json_key(j, s->props[i].name);
        write_prop(j, &s->props[i]);
    }
    kr_json_object_end(j);
    kr_json_key(j, "required");
    kr_json_array(j);
    for (size_t i = 0; i < s->count; i++)
        if (!s->props[i].optional)
            kr_json_str(j, s->props[i].name);
    kr_json_array_end(j);
    if (s->open)
        kr_json_key_bool(j, "additionalProperties", true);
}

static void sample_prop(struct kr_json *j, const struct kr_api_prop *p)
{
    if (p->example) {
        kr_api_sample_write(j, p->each ? KR_API_ANY : p->type, p->example);
        return;
    }
    if (p->each) {
        kr_json_object(j);
        kr_json_key(j, "name");
    }
    if (p->type == KR_API_ARRAY)
        kr_json_array(j);
    kr_api_schema_sample(j, p->of);
    if (p->type == KR_API_ARRAY)
        kr_json_array_end(j);
    if (p->each)
        kr_json_object_end(j);
}

void kr_api_schema_sample(struct kr_json *j, const struct kr_api_schema *schema)
{
    while (schema->one_of)
        schema = schema->one_of[0];
    kr_json_object(j);
    for (size_t i = 0; i < schema->count; i++) {
        if (schema->props[i].optional)
            continue;
        kr_json_key(j, schema->props[i].name);
        sample_prop(j, &schema->props[i]);
    }
    kr_json_object_end(j);
}

static void write_one_of(struct kr_json *j, const struct kr_api_schema *s)
{
    kr_json_key(j, "oneOf");
    kr_json_array(j);
    for (size_t i = 0; s->one_of[i]; i++)
        kr_api_ref_write(j, s->one_of[i]->name);
    kr_json_array_end(j);
}

void kr_api_component_write(struct kr_json *j, const struct kr_api_component *c, const struct kr_api_openapi *config)
{
    const char *help = c->table ? c->table->help : c->schema->help;

    kr_json_object(j);
    if (c->table || !c->schema->one_of)
        kr_json_key_str(j, "type", "object");
    if (help)
        kr_json_key_str(j, "description", help);
    if (c->table)
        write_table(j, c->table, config);
    else if (c->schema->one_of)
        write_one_of(j, c->schema);
    else
        write_props(j, c->schema);
    if (c->closed)
        kr_json_key_bool(j, "additionalProperties", false);
    kr_json_object_end(j);
}
