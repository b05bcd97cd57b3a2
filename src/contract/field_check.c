/* Is a request table itself right? Called by the unit tests and by the writer of OpenAPI.
 *
 * Invariant: a table that passes can be parsed by and documented from without another look. */
#include "field_internal.h"
#include "err.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct check {
    const struct kr_api_table *table;
    struct kr_err *err;
};

static int bad(const struct check *c, const struct kr_api_field *f, const char *what)
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
        return bad(c, f, "has no name, or a long one");
    if ((unsigned)f->type >= KR_API_TYPE_MAX_)
        return bad(c, f, "is of no type");
    if (!f->help || !f->help[0] || f->help[strlen(f->help) - 1] != '.')
        return bad(c, f, "has no help, or its help is not a sentence");
    if ((f->type == KR_API_ENUM) != (f->choices != NULL))
        return bad(c, f, "an enum has choices, and nothing else has");
    if (f->of && f->type != KR_API_OBJECT && f->type != KR_API_ARRAY)
        return bad(c, f, "only an object or an array is of a table");
    if (f->has_min && f->has_max && f->min > f->max)
        return bad(c, f, "its least is more than its most");
    if (f->check && f->type != KR_API_STRING)
        return bad(c, f, "only a string has a check");
    if (f->def && (f->required || has_parts(f->type) || !stands_for(f, f->def)))
        return bad(c, f, "its default does not fit");
    if (!f->example || !stands_for(f, f->example))
        return bad(c, f, "has no example, or one that does not fit");
    if (f->offset >= c->table->size || f->given > c->table->size)
        return bad(c, f, "its place is outside of the struct");
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
                    return bad(c, f, "its name or alias is there twice");
            if (n == sizeof names / sizeof names[0])
                return bad(c, f, "too many names");
            names[n++] = name;
        }
    }
    return 0;
}

int kr_api_table_check(const struct kr_api_table *table, struct kr_err *err)
{
    struct check c = {table, err};
    int r;

    if (table->count > KR_API_FIELDS_MAX)
        return bad(&c, NULL, "too many rows");
    for (size_t i = 0; i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        r = check_row(&c, f);
        if (r == 0 && f->of)
            r = kr_api_table_check(f->of, err);
        if (r < 0)
            return r;
    }
    return check_names(&c);
}
