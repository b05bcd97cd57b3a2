/* Request tables: from a body, a form or a query string into a plain struct. Called by handlers (through body_read.c)
 * and, for large bodies, by threads of the pool.
 *
 * Invariant: pure. A struct is filled only from values that its rows allow; whatever came, the answer is a filled
 * struct or a flaw that names the field. */
#include "field_internal.h"
#include "err.h"
#include "nearest.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

void kr_api_input_init(struct kr_api_input *in, enum kr_api_voice voice)
{
    memset(in, 0, sizeof *in);
    in->voice = voice;
}

void kr_api_input_done(struct kr_api_input *in)
{
    json_decref(in->root);
    json_decref(in->flaws);
    in->root = in->flaws = NULL;
}

/* ---- names ---- */

static bool has_name(const struct kr_api_field *f, const char *name)
{
    if (strcmp(f->name, name) == 0)
        return true;
    for (const char *const *a = f->aliases; a && *a; a++)
        if (strcmp(*a, name) == 0)
            return true;
    return false;
}

/* The name nearest to `word` among the table's (two slips at most), or NULL. */
static const char *nearest_field(const struct kr_api_table *table, const char *word)
{
    const char *best = NULL;
    unsigned least = 3;

    for (size_t i = 0; table && i < table->count; i++) {
        const char *name = table->fields[i].name;
        unsigned d = kr_edit_distance(word, name);

        if (d < least && d < strlen(name)) {
            least = d;
            best = name;
        }
    }
    return best;
}

/* ---- an object by its table ---- */

static bool is_known(const struct kr_api_parse *p, const struct kr_api_table *table, const char *key)
{
    if (p->in->source == KR_API_QUERY && strcmp(key, "api_key") == 0)
        return true; /* a credential, not a field; its value is not looked at here */
    for (size_t i = 0; table && i < table->count; i++)
        if (has_name(&table->fields[i], key))
            return true;
    return false;
}

static void refuse_unknown(struct kr_api_parse *p, const struct kr_api_table *table, json_t *object,
                           const struct kr_api_path *up)
{
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        const char *near;
        struct kr_api_path path = {.up = up, .name = key};

        if (is_known(p, table, key))
            continue;
        near = nearest_field(table, key);
        kr_api_flaw(p, &path, NULL, NULL, "extra_forbidden", "Extra inputs are not permitted",
                    near ? "is not a field here; did you mean %s?" : "is not a field here%s", near ? near : "");
        return;
    }
}

/* The value of a field by whichever of its names came; *ret_name is that. One that came by two is refused in our voice;
 * in the documents' the first counts. */
static json_t *find_value(struct kr_api_parse *p, const struct kr_api_field *f, json_t *object,
                          const struct kr_api_path *up, const char **ret_name)
{
    json_t *found = json_object_get(object, f->name);

    *ret_name = f->name;
    for (const char *const *a = f->aliases; a && *a; a++) {
        json_t *other = json_object_get(object, *a);

        if (other && found && p->in->voice == KR_API_KRAIT) {
            struct kr_api_path path = {.up = up, .name = *a};

            kr_api_flaw(p, &path, NULL, NULL, "value_error", "Value error", "is another name of %s: give one",
                        *ret_name);
            return NULL;
        }
        if (other && !found) {
            found = other;
            *ret_name = *a;
        }
    }
    return found;
}

static void set_given(const struct kr_api_field *f, void *request, enum kr_api_given given)
{
    if (f->given)
        *((uint8_t *)request + f->given - 1) = (uint8_t)given;
}

/* What FastAPI tells with a missing field: the whole object; but never a secret. */
static json_t *without_secrets(const struct kr_api_table *table, json_t *object)
{
    json_t *copy = json_copy(object);

    for (size_t i = 0; copy && i < table->count; i++) {
        const struct kr_api_field *f = &table->fields[i];

        if (!f->secret)
            continue;
        json_object_del(copy, f->name);
        for (const char *const *a = f->aliases; a && *a; a++)
            json_object_del(copy, *a);
    }
    return copy;
}

static void fill_field(struct kr_api_parse *p, const struct kr_api_table *table, const struct kr_api_field *f,
                       json_t *object, const struct kr_api_path *up, void *request)
{
    struct kr_api_path path = {.up = up};
    json_t *value = find_value(p, f, object, up, &path.name);
    bool is_null = json_is_null(value); /* false when it is absent */

    if (is_null && p->in->null_is_absent && !f->required && !f->nullable) {
        value = NULL;
        is_null = false;
    }

    kr_api_fill_default(f, request);
    if (f->type == KR_API_OBJECT && f->of && (!value || is_null)) {
        json_t *nothing = f->required ? NULL : json_object();

        if (nothing) /* the defaults inside */
            kr_api_fill(p, f->of, nothing, &path, (char *)request + f->offset);
        json_decref(nothing);
    }
    if (!value && f->required && !kr_api_parse_is_over(p)) {
        json_t *input = without_secrets(table, object);

        kr_api_flaw(p, &path, input, NULL, "missing", "Field required", "is missing");
        json_decref(input);
    } else if (is_null && f->nullable) {
        set_given(f, request, KR_API_NULL);
    } else if (value) {
        set_given(f, request, KR_API_VALUE);
        kr_api_fill_value(p, f, value, &path, request);
    }
}

void kr_api_fill(struct kr_api_parse *p, const struct kr_api_table *table, json_t *object,
                 const struct kr_api_path *path, void *request)
{
    if (table)
        memset(request, 0, table->size);
    if (p->in->voice == KR_API_KRAIT)
        refuse_unknown(p, table, object, path);
    for (size_t i = 0; table && i < table->count && !kr_api_parse_is_over(p); i++)
        fill_field(p, table, &table->fields[i], object, path, request);
}

/* ---- the calls ---- */

static bool wants_something(const struct kr_api_table *table)
{
    for (size_t i = 0; table && i < table->count; i++)
        if (table->fields[i].required)
            return true;
    return false;
}

static bool is_blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", text[i]) || !text[i])
            return false;
    return true;
}

static int fill_root(struct kr_api_parse *p, const struct kr_api_table *table, void *request)
{
    if (p->in->root && !json_is_object(p->in->root))
        kr_api_flaw_body(p, -1, "model_attributes_type",
                         "Input should be a valid dictionary or object to extract fields from", NULL,
                         "the body must be a JSON object");
    else if (p->in->root)
        kr_api_fill(p, table, p->in->root, NULL, request);
    return p->error;
}

/* A password, a value: a request of which it is the point. */
static bool has_secret(const struct kr_api_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->fields[i].secret && table->fields[i].type == KR_API_STRING)
            return true;
    return false;
}

int kr_api_parse_body(const struct kr_api_table *table, const char *text, size_t len, void *request,
                      struct kr_api_input *in, struct kr_err *err)
{
    struct kr_api_parse p = {.in = in, .err = err};

    assert(!in->root);
    in->source = KR_API_BODY;
    if (!is_blank(text, len))
        in->root = kr_api_load(&p, text, len, has_secret(table));
    else if (in->voice == KR_API_DOCUMENT && wants_something(table))
        kr_api_flaw_body(&p, -1, "missing", "Field required", NULL, "a body is needed");
    else if (!(in->root = json_object()))
        kr_api_flaw_memory(&p);
    return fill_root(&p, table, request);
}

int kr_api_parse_form(const struct kr_api_table *table, const char *text, size_t len, void *request,
                      struct kr_api_input *in, struct kr_err *err)
{
    struct kr_api_parse p = {.in = in, .err = err, .from_text = true};

    if (len && text[0] == '{')
        return kr_api_parse_body(table, text, len, request, in, err);
    assert(!in->root);
    in->source = KR_API_BODY;
    in->root = kr_api_load_pairs(&p, text, len);
    return fill_root(&p, table, request);
}

int kr_api_parse_query(const struct kr_api_table *table, const char *text, void *request, struct kr_api_input *in,
                       struct kr_err *err)
{
    struct kr_api_parse p = {.in = in, .err = err, .from_text = true};

    assert(!in->root);
    in->source = KR_API_QUERY;
    in->root = kr_api_load_pairs(&p, text, strlen(text));
    return fill_root(&p, table, request);
}

int kr_api_parse_object(const struct kr_api_table *table, json_t *object, void *request, struct kr_api_input *in,
                        struct kr_err *err)
{
    struct kr_api_parse p = {.in = in, .err = err};

    assert(!in->root);
    in->root = json_incref(object);
    return fill_root(&p, table, request);
}
