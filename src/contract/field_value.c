/* One value by its row. Called by field.c for every field that is there.
 *
 * Invariant: a member of the request's struct is written only with a value that obeys all of its row. */
#include "field_internal.h"
#include "err.h"
#include "json_load.h"
#include "reply.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET(type_) ((type_ *)(void *)((char *)request + f->offset))

/* ---- bounds ---- */

/* What is bounded, and the words for it: FastAPI's type, ctx key and sentence around the number; ours. */
struct bound {
    const char *type, *key, *before, *unit, *after, *ours, *ours_unit;
};
/* clang-format off */
static const struct bound bounds[][2] = {
#define VALUES 0
    {{"greater_than_equal", "ge", "Input should be greater than or equal to ", "", "", "must be at least ", ""},
     {"less_than_equal", "le", "Input should be less than or equal to ", "", "", "must be at most ", ""}},
#define CHARACTERS 1
    {{"string_too_short", "min_length", "String should have at least ", " character", "", "must have at least ",
     " character"},
     {"string_too_long", "max_length", "String should have at most ", " character", "", "must have at most ",
      " character"}},
#define ITEMS 2
    {{"too_short", "min_length", "List should have at least ", " item", " after validation", "must have at least ",
     " item"},
     {"too_long", "max_length", "List should have at most ", " item", " after validation", "must have at most ",
      " item"}},
#define MEMBERS 3
    {{"too_short", "min_length", "Dictionary should have at least ", " item", " after validation",
     "must have at least ", " member"},
     {"too_long", "max_length", "Dictionary should have at most ", " item", " after validation", "must have at most ",
      " member"}},
};
/* clang-format on */

/* One field of one request: what the calls below hand each other. */
struct spot {
    struct kr_api_parse *p;
    const struct kr_api_field *f;
    const struct kr_api_path *path;
    json_t *value;
    bool lenient;
};

/* Wrong as it stands: our words and FastAPI's. */
static void refuse_value(const struct spot *s, const char *type, const char *msg, const char *ours)
{
    kr_api_flaw(s->p, s->path, s->f->secret ? NULL : s->value, NULL, type, msg, "%s", ours);
}

static void beyond(const struct spot *s, const struct bound *b, double limit)
{
    bool whole = floor(limit) == limit;
    const char *plural = limit == 1 ? "" : "s";
    char msg[128];

    snprintf(msg, sizeof msg, "%s%.15g%s%s%s", b->before, limit, b->unit, b->unit[0] ? plural : "", b->after);
    kr_api_flaw(s->p, s->path, s->f->secret ? NULL : s->value,
                json_pack("{s:o}", b->key, whole ? json_integer((json_int_t)limit) : json_real(limit)), b->type, msg,
                "%s%.15g%s%s", b->ours, limit, b->ours_unit, b->ours_unit[0] ? plural : "");
}

static bool is_within(const struct spot *s, unsigned what, double n)
{
    if (s->f->has_min && n < s->f->min)
        beyond(s, &bounds[what][0], s->f->min);
    else if (s->f->has_max && n > s->f->max)
        beyond(s, &bounds[what][1], s->f->max);
    else
        return true;
    return false;
}

/* ---- strings ---- */

static size_t count_characters(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)text[i] & 0xc0) != 0x80;
    return n;
}

static bool has_control(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return true;
    return false;
}

static bool has_nul(json_t *string)
{
    return strlen(json_string_value(string)) != json_string_length(string);
}

static bool is_string(const struct spot *s)
{
    if (!json_is_string(s->value))
        refuse_value(s, "string_type", "Input should be a valid string", "must be a string");
    return json_is_string(s->value);
}

static void fill_string(const struct spot *s, const char **target)
{
    const char *text = json_string_value(s->value);
    char ours[sizeof((struct kr_err *)0)->msg], msg[sizeof ours + 16];
    struct kr_err err;

    if (!is_string(s) || !is_within(s, CHARACTERS, (double)count_characters(text, json_string_length(s->value))))
        return;
    if (has_control(text, json_string_length(s->value))) {
        refuse_value(s, "value_error", "Value error, control characters are not allowed",
                     "must not have control characters");
    } else if (s->f->check && s->f->check(text, &err) < 0) {
        snprintf(msg, sizeof msg, "Value error, %s", kr_api_public_text(&err, ours));
        refuse_value(s, "value_error", msg, ours);
    } else {
        *target = text;
    }
}

static void fill_text(const struct spot *s, struct kr_text *target)
{
    if (!is_string(s))
        return;
    if (!s->f->nul_ok && has_nul(s->value))
        refuse_value(s, "value_error", "Value error, NUL characters are not allowed", "must not have NUL characters");
    else if (is_within(s, CHARACTERS,
                       (double)count_characters(json_string_value(s->value), json_string_length(s->value))))
        *target = (struct kr_text){json_string_value(s->value), json_string_length(s->value)};
}

/* ---- numbers ---- */

/* A number past 64 bits or a double: past the row's bound if it has one. */
static void refuse_size(const struct spot *s)
{
    bool negative = kr_json_kept(s->value)[0] == '-';

    if (negative ? s->f->has_min : s->f->has_max)
        (void)is_within(s, VALUES, negative ? -HUGE_VAL : HUGE_VAL);
    else
        refuse_value(s, "value_error", "Value error, the number is too large", "is too large a number");
}

static void fill_int(const struct spot *s, int64_t *target)
{
    json_t *v = s->value;
    int64_t n = 0;

    if (json_is_integer(v))
        n = json_integer_value(v);
    else if (kr_json_kept(v) && !strpbrk(kr_json_kept(v), ".eE"))
        return refuse_size(s);
    else if (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v) && fabs(json_real_value(v)) < 1e15)
        n = (int64_t)json_real_value(v); /* 10.0 is an integer to JSON Schema as well */
    else if (json_is_real(v))
        return refuse_value(s, "int_from_float", "Input should be a valid integer, got a number with a fractional part",
                            "must be an integer");
    else if (!json_is_string(v) || !(s->lenient || s->p->from_text))
        return refuse_value(s, "int_type", "Input should be a valid integer", "must be an integer");
    else if (!kr_api_int_of(json_string_value(v), s->lenient, &n) || has_nul(v))
        return refuse_value(s, "int_parsing", "Input should be a valid integer, unable to parse string as an integer",
                            "must be an integer");
    if (is_within(s, VALUES, (double)n))
        *target = n;
}

static void fill_number(const struct spot *s, double *target)
{
    const char *kept = kr_json_kept(s->value);
    json_t *v = s->value;
    double n = 0;

    if (json_is_number(v))
        n = json_number_value(v);
    else if (kept)
        n = strtod(kept, NULL);
    else if (!json_is_string(v) || !(s->lenient || s->p->from_text))
        return refuse_value(s, "float_type", "Input should be a valid number", "must be a number");
    else if (!kr_api_number_of(json_string_value(v), s->lenient, &n) || has_nul(v))
        return refuse_value(s, "float_parsing", "Input should be a valid number, unable to parse string as a number",
                            "must be a number");
    if (kept && !isfinite(n))
        return refuse_size(s);
    if (is_within(s, VALUES, n))
        *target = n;
}

static void fill_bool(const struct spot *s, bool *target)
{
    json_t *v = s->value;
    int truth = -1;

    if (json_is_boolean(v))
        truth = json_is_true(v);
    else if (json_is_string(v) && (s->lenient || s->p->from_text))
        truth = has_nul(v) ? -1 : kr_api_bool_of(json_string_value(v), s->lenient);
    else if (json_is_integer(v) && s->lenient && (json_integer_value(v) | 1) == 1)
        truth = (int)json_integer_value(v);
    else if (!json_is_integer(v) || !s->lenient)
        return refuse_value(s, "bool_type", "Input should be a valid boolean", "must be true or false");
    if (truth < 0)
        return refuse_value(s, "bool_parsing", "Input should be a valid boolean, unable to interpret input",
                            "must be true or false");
    *target = truth;
}

static void fill_enum(const struct spot *s, int *target)
{
    char list[160] = "", msg[192];
    size_t len = 0;
    int n = json_is_string(s->value) && !has_nul(s->value)
                ? kr_api_choice_of(s->f->choices, json_string_value(s->value))
                : -1;

    if (n >= 0) {
        *target = n;
        return;
    }
    for (unsigned i = 0; s->f->choices[i] && len < sizeof list; i++) {
        const char *between = !i ? "" : s->f->choices[i + 1] ? ", " : " or ";

        len += (size_t)snprintf(list + len, sizeof list - len, "%s'%s'", between, s->f->choices[i]);
    }
    snprintf(msg, sizeof msg, "Input should be %s", list);
    kr_api_flaw(s->p, s->path, s->f->secret ? NULL : s->value, json_pack("{s:s}", "expected", list), "literal_error",
                msg, "must be %s", list);
}

/* ---- what has parts ---- */

static void fill_object(const struct spot *s, void *request)
{
    const struct kr_api_field *f = s->f;

    if (!kr_json_is_object(s->value))
        refuse_value(s, "dict_type", "Input should be a valid dictionary", "must be an object");
    else if (!is_within(s, MEMBERS, (double)json_object_size(s->value)))
        return;
    else if (f->of)
        kr_api_fill(s->p, f->of, s->value, s->path, (char *)request + f->offset);
    else
        *TARGET(json_t *) = s->value;
}

static bool is_plain_string(const struct spot *s, json_t *item, const struct kr_api_path *at)
{
    struct spot inner = *s;

    inner.path = at;
    inner.value = item;
    if (!is_string(&inner))
        return false;
    if (has_nul(item)) {
        refuse_value(&inner, "value_error", "Value error, NUL characters are not allowed",
                     "must not have NUL characters");
        return false;
    }
    return true;
}

static void fill_map(const struct spot *s, json_t **target)
{
    const char *key;
    json_t *item;
    bool good = true;

    if (!json_is_object(s->value))
        return refuse_value(s, "dict_type", "Input should be a valid dictionary", "must be an object");
    if (!is_within(s, MEMBERS, (double)json_object_size(s->value)))
        return;
    json_object_foreach(s->value, key, item)
    {
        struct kr_api_path at = {.up = s->path, .name = key};

        good &= is_plain_string(s, item, &at);
    }
    if (good)
        *target = s->value;
}

/* Each item of an array against the table; what it fills is thrown away, and the handler fills again. */
static bool check_items(const struct spot *s)
{
    void *room = calloc(1, s->f->of->size);
    unsigned before = s->p->flaws;
    struct spot inner = *s;
    json_t *item;
    size_t i;

    if (!room)
        kr_api_flaw_memory(s->p);
    json_array_foreach(s->value, i, item)
    {
        struct kr_api_path at = {.up = s->path, .index = i};

        if (kr_api_parse_is_over(s->p))
            break;
        inner.path = &at;
        inner.value = item;
        if (!json_is_object(item))
            refuse_value(&inner, "dict_type", "Input should be a valid dictionary", "must be an object");
        else
            kr_api_fill(s->p, s->f->of, item, &at, room);
    }
    free(room);
    return s->p->flaws == before && s->p->error != -ENOMEM;
}

static void fill_array(const struct spot *s, json_t **target)
{
    bool good = true;
    json_t *item;
    size_t i;

    if (!json_is_array(s->value))
        return refuse_value(s, "list_type", "Input should be a valid list", "must be an array");
    if (!is_within(s, ITEMS, (double)json_array_size(s->value)))
        return;
    if (s->f->type == KR_API_STRINGS)
        json_array_foreach(s->value, i, item)
        {
            struct kr_api_path at = {.up = s->path, .index = i};

            good &= is_plain_string(s, item, &at);
        }
    if (s->f->of)
        good = check_items(s);
    if (good)
        *target = s->value;
}

/* ---- queries and forms ---- */

/* Their values are strings, or arrays of them where a key came again. Makes of it what the row wants: an array for
 * STRINGS, else one string. NULL with a flaw. */
static json_t *one_or_many(struct kr_api_parse *p, const struct kr_api_field *f, json_t *value,
                           const struct kr_api_path *path)
{
    if (f->type == KR_API_STRINGS && json_is_string(value)) {
        json_t *list = json_array();

        int r = json_array_append(list, value);

        if (json_object_set_new(p->in->root, path->name, list) < 0 || r < 0) {
            kr_api_flaw_memory(p);
            return NULL;
        }
        return list;
    }
    if (f->type != KR_API_STRINGS && json_is_array(value)) {
        if (p->in->voice == KR_API_DOCUMENT) /* FastAPI's last one counts */
            return json_array_get(value, json_array_size(value) - 1);
        kr_api_flaw(p, path, NULL, NULL, "value_error", "Value error", "is given more than once");
        return NULL;
    }
    return value;
}

void kr_api_fill_value(struct kr_api_parse *p, const struct kr_api_field *f, json_t *value,
                       const struct kr_api_path *path, void *request)
{
    struct spot s = {p, f, path, value, p->in->voice == KR_API_DOCUMENT};

    if (p->from_text && !(s.value = one_or_many(p, f, value, path)))
        return;
    switch (f->type) {
    case KR_API_STRING:
        return fill_string(&s, TARGET(const char *));
    case KR_API_TEXT:
        return fill_text(&s, TARGET(struct kr_text));
    case KR_API_INT:
        return fill_int(&s, TARGET(int64_t));
    case KR_API_NUMBER:
        return fill_number(&s, TARGET(double));
    case KR_API_BOOL:
        return fill_bool(&s, TARGET(bool));
    case KR_API_ENUM:
        return fill_enum(&s, TARGET(int));
    case KR_API_OBJECT:
        return fill_object(&s, request);
    case KR_API_MAP:
        return fill_map(&s, TARGET(json_t *));
    case KR_API_STRINGS:
    case KR_API_ARRAY:
        return fill_array(&s, TARGET(json_t *));
    case KR_API_ANY:
        *TARGET(json_t *) = s.value;
        return;
    case KR_API_TYPE_MAX_:
        return;
    }
}
