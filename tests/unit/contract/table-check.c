/* Checks of request tables and reply schemas themselves.
 *
 * Called by the tests of every room that has some. Invariant: what passes can be parsed by and documented from without
 * another look. */
#include "table-check.h"
#include "err.h"
#include "field_internal.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- requests ---- */

struct check {
    const struct kr_api_table *table;
    struct kr_err *err;
};

static int bad_row(const struct check *c, const struct kr_api_field *f, const char *what)
{
    kr_err_set(c->err, KR_ERR_INTERNAL, 0, "table %s: %s: %s", c->table->name ? c->table->name : "(query)",
               f && f->name ? f->name : "?", what);
    return -EINVAL;
}

/* Does the text of a default or an example stand for a value of the row? */
static bool stands_for(const struct kr_api_field *f, const char *text)
{
    int64_t n;
    double x;

    switch (f->type) {
    case KR_API_STRING:
    case KR_API_TEXT:
        return true;
    case KR_API_ENUM:
        return kr_api_choice_of(f->choices, text) >= 0;
    case KR_API_INT:
        return kr_api_int_of(text, false, &n) && (!f->has_min || (double)n >= f->min) &&
               (!f->has_max || (double)n <= f->max);
    case KR_API_NUMBER:
        return kr_api_number_of(text, false, &x) && (!f->has_min || x >= f->min) && (!f->has_max || x <= f->max);
    case KR_API_BOOL:
        return strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
    case KR_API_OBJECT:
    case KR_API_MAP:
    case KR_API_STRINGS:
    case KR_API_ARRAY:
    case KR_API_ANY: {
        json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
        bool good =
            value &&
            (f->type == KR_API_ANY || json_is_object(value) == (f->type == KR_API_OBJECT || f->type == KR_API_MAP)) &&
            (f->type == KR_API_ANY || json_is_object(value) || json_is_array(value));

        json_decref(value);
        return good;
    }
    case KR_API_TYPE_MAX_:
        break;
    }
    return false;
}

static bool has_parts(enum kr_api_type type)
{
    return type == KR_API_OBJECT || type == KR_API_MAP || type == KR_API_STRINGS || type == KR_API_ARRAY ||
           type == KR_API_ANY;
}

static int check_row(const struct check *c, const struct kr_api_field *f)
{
    if (!f->name || !f->name[0] || strlen(f->name) >= KR_API_NAME_MAX)
        return bad_row(c, f, "has no name, or a long one");
    if ((unsigned)f->type >= KR_API_TYPE_MAX_)
        return bad_row(c, f, "is of no type");
    if (!f->help || !f->help[0] || f->help[strlen(f->help) - 1] != '.')
        return bad_row(c, f, "has no help, or its help is not a sentence");
    if (f->type != KR_API_STRINGS && (f->type == KR_API_ENUM) != (f->choices != NULL))
        return bad_row(c, f, "an enum has choices, and beside it a list of strings alone may have");
    if (f->of && f->type != KR_API_OBJECT && f->type != KR_API_ARRAY)
        return bad_row(c, f, "only an object or an array is of a table");
    if (f->has_min && f->has_max && f->min > f->max)
        return bad_row(c, f, "its least is more than its most");
    if (f->check && f->type != KR_API_STRING)
        return bad_row(c, f, "only a string has a check");
    if (f->def && (f->required || has_parts(f->type) || !stands_for(f, f->def)))
        return bad_row(c, f, "its default does not fit");
    if (!f->example || !stands_for(f, f->example))
        return bad_row(c, f, "has no example, or one that does not fit");
    if (f->offset >= c->table->size || f->given > c->table->size)
        return bad_row(c, f, "its offset is outside of the struct");
    return 0;
}

/* No name is said twice, aliases included. */
static int check_names(const struct check *c)
{
    const char *names[KR_API_FIELDS_MAX * 4];
    size_t n = 0;

    for (size_t i = 0; i < c->table->count; i++) {
        const struct kr_api_field *f = &c->table->fields[i];
        const char *const *a = f->aliases;

        for (const char *name = f->name; name; name = a && *a ? *a++ : NULL) {
            for (size_t k = 0; k < n; k++)
                if (strcmp(names[k], name) == 0)
                    return bad_row(c, f, "its name or alias is there twice");
            if (n == sizeof names / sizeof names[0])
                return bad_row(c, f, "too many names");
            names[n++] = name;
        }
    }
    return 0;
}

int table_check(const struct kr_api_table *table, struct kr_err *err)
{
    struct check c = {table, err};
    int r;

    if (table->count > KR_API_FIELDS_MAX)
        return bad_row(&c, NULL, "too many rows");
    for (size_t i = 0; i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        r = check_row(&c, f);
        if (r == 0 && f->of)
            r = table_check(f->of, err);
        if (r < 0)
            return r;
    }
    return check_names(&c);
}

/* ---- replies ---- */

#define DEPTH_MAX 16 /* of schemas in each other */

static int bad_prop(const struct kr_api_schema *s, const char *prop, const char *what, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_INTERNAL, 0, "schema %s: %s: %s", s->name ? s->name : "?", prop ? prop : "?", what);
    return -EINVAL;
}

static int check_prop(const struct kr_api_schema *s, const struct kr_api_prop *p, struct kr_err *err)
{
    json_t *example;

    if (!p->name || !p->name[0])
        return bad_prop(s, p->name, "has no name", err);
    if ((unsigned)p->type >= KR_API_TYPE_MAX_)
        return bad_prop(s, p->name, "is of no type", err);
    if (!p->help || !p->help[0] || p->help[strlen(p->help) - 1] != '.')
        return bad_prop(s, p->name, "has no help, or its help is not a sentence", err);
    if (p->type != KR_API_STRINGS && (p->type == KR_API_ENUM) != (p->choices != NULL))
        return bad_prop(s, p->name, "an enum has choices, and beside it a list of strings alone may have", err);
    if (p->of && p->type != KR_API_OBJECT && p->type != KR_API_ARRAY)
        return bad_prop(s, p->name, "only an object or an array is of a schema", err);
    if (!p->example && !p->of)
        return bad_prop(s, p->name, "has no example", err);
    if (!p->example || (!p->each && (p->type == KR_API_STRING || p->type == KR_API_TEXT || p->type == KR_API_ENUM)))
        return 0;
    example = json_loads(p->example, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!example)
        return bad_prop(s, p->name, "its example is not JSON", err);
    json_decref(example);
    return 0;
}

static int check_schema_at(const struct kr_api_schema *s, unsigned depth, struct kr_err *err)
{
    int r = 0;

    if (!s->name || !s->name[0] || !s->help || !s->help[0])
        return bad_prop(s, NULL, "has no name or no help", err);
    if (depth > DEPTH_MAX)
        return bad_prop(s, NULL, "holds itself", err);
    for (size_t i = 0; s->one_of && s->one_of[i] && r == 0; i++)
        r = check_schema_at(s->one_of[i], depth + 1, err);
    for (size_t i = 0; i < s->count && r == 0; i++) {
        const struct kr_api_prop *p = &s->props[i];

        r = check_prop(s, p, err);
        for (size_t k = 0; k < i && r == 0; k++)
            if (strcmp(s->props[k].name, p->name) == 0)
                r = bad_prop(s, p->name, "is there twice", err);
        if (r == 0 && p->of)
            r = check_schema_at(p->of, depth + 1, err);
    }
    return r;
}

int schema_check(const struct kr_api_schema *schema, struct kr_err *err)
{
    return check_schema_at(schema, 0, err);
}
