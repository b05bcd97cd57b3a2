/* Are the docs of a route table right and complete, and which schemas do they speak of? Called by openapi.c and the unit
 * tests.
 *
 * Invariant: after the check every pointer that the writer follows is there, and every name means one thing. */
#include "openapi_internal.h"
#include "err.h"
#include "route.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bad(const struct kr_http_route *route, const char *what, const char *name, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_INTERNAL, 0, "route %s %s: %s%s%s", kr_http_method_name(route->method), route->pattern, what,
               name ? ": " : "", name ? name : "");
    return -EINVAL;
}

static bool is_empty(const char *text)
{
    return !text || !text[0];
}

static bool is_sentence(const char *text)
{
    return !is_empty(text) && text[strlen(text) - 1] == '.';
}

static bool is_json(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    bool good = value != NULL;

    json_decref(value);
    return good;
}

/* ---- one route ---- */

static int check_words(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_doc *doc = route->doc;
    const struct kr_api_tag *tag = kr_api_tags;

    if (is_empty(doc->id) || strspn(doc->id, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(doc->id))
        return bad(route, "its id is not a word of [a-z0-9_]", doc->id, err);
    while (tag->name && (is_empty(doc->tag) || strcmp(tag->name, doc->tag) != 0))
        tag++;
    if (!tag->name)
        return bad(route, "no such tag", doc->tag, err);
    if (is_empty(doc->summary) || is_sentence(doc->summary))
        return bad(route, "its summary is missing, or ends with a full stop", NULL, err);
    if (doc->description && !is_sentence(doc->description))
        return bad(route, "its description does not end with a full stop", NULL, err);
    return 0;
}

static int check_params(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_doc *doc = route->doc;
    const char *at = route->pattern;
    char name[KR_API_NAME_MAX];
    unsigned wanted = 0, found = 0;
    bool rest;

    while (kr_api_next_param(&at, name, &rest)) {
        const struct kr_api_param *p = doc->params;

        while (p && p->name && strcmp(p->name, name) != 0)
            p++;
        if (!p || !p->name)
            return bad(route, "no row for the parameter", name, err);
        wanted++;
    }
    for (const struct kr_api_param *p = doc->params; p && p->name; p++, found++)
        if (!is_sentence(p->help) || is_empty(p->example))
            return bad(route, "no help or no example for the parameter", p->name, err);
    return wanted == found ? 0 : bad(route, "rows for parameters that the pattern does not have", NULL, err);
}

static int check_requests(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_doc *doc = route->doc;
    int r;

    if ((doc->body || doc->bodies || doc->body_schema) && route->body_limit == 0)
        return bad(route, "describes a body but takes none", NULL, err);
    if (route->body_limit && !doc->body && !doc->bodies && !doc->body_schema)
        return bad(route, "takes a body but does not describe it", NULL, err);
    if (doc->body && (is_empty(doc->body->name) || !is_sentence(doc->body->help)))
        return bad(route, "the table of its body has no name or no help", NULL, err);
    if (doc->body_example && !is_json(doc->body_example))
        return bad(route, "the example of its body is not JSON", NULL, err);
    if (doc->body_schema && (doc->body || !is_json(doc->body_schema)))
        return bad(route, "the schema of its body is not JSON, or there twice", NULL, err);
    r = doc->body ? kr_api_table_check(doc->body, err) : 0;
    if (r == 0 && doc->query)
        r = kr_api_table_check(doc->query, err);
    for (size_t i = 0; r == 0 && doc->query && i < doc->query->count; i++) {
        enum kr_api_type type = doc->query->fields[i].type;

        if (type == KR_API_OBJECT || type == KR_API_MAP || type == KR_API_ARRAY || type == KR_API_ANY)
            return bad(route, "a query cannot say that", doc->query->fields[i].name, err);
    }
    for (const struct kr_api_media *m = doc->bodies; r == 0 && m && m->type; m++) {
        if (!is_sentence(m->help) || (m->table && is_empty(m->table->name)))
            return bad(route, "no help for the body, or its table has no name", m->type, err);
        r = m->table ? kr_api_table_check(m->table, err) : 0;
    }
    return r;
}

static int check_responses(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_response *all = ((const struct kr_api_doc *)route->doc)->responses;
    int r = 0;

    if (!all || !all->status || (all->status >= 400 && all->status != 501)) /* 501: it is there, but not built yet */
        return bad(route, "does not say what it answers when all is well", NULL, err);
    for (const struct kr_api_response *a = all; a->status && r == 0; a++) {
        if (a->status < 100 || a->status > 599)
            return bad(route, "an answer has no status", NULL, err);
        if (!is_sentence(a->help))
            return bad(route, "an answer has no help", NULL, err);
        if (a->example && a->schema && !is_json(a->example))
            return bad(route, "the example of an answer is not JSON", NULL, err);
        for (const struct kr_api_header *h = a->headers; h && h->name; h++)
            if (!is_sentence(h->help) || is_empty(h->example))
                return bad(route, "no help or no example for the header", h->name, err);
        r = a->schema ? kr_api_schema_check(a->schema, err) : 0;
    }
    return r;
}

/* ---- all together ---- */

static int check_against(const struct kr_http_route *a, const struct kr_http_route *b, struct kr_err *err)
{
    const struct kr_api_doc *x = a->doc, *y = b->doc;
    char path_a[KR_API_PATH_MAX], path_b[KR_API_PATH_MAX];

    if (x->hidden || y->hidden)
        return 0;
    if (x != y && strcmp(x->id, y->id) == 0)
        return bad(a, "its id is another route's too", x->id, err);
    if (a->method == b->method && strcmp(kr_api_path_of(a->pattern, path_a), kr_api_path_of(b->pattern, path_b)) == 0)
        return bad(a, "is there twice as OpenAPI writes paths", NULL, err);
    return 0;
}

int kr_api_docs_check(const struct kr_http_route *routes, size_t count, struct kr_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct kr_api_doc *doc = routes[i].doc;
        int r;

        if (!doc)
            return bad(&routes[i], "has no doc", NULL, err);
        r = check_words(&routes[i], err);
        if (r == 0 && !doc->hidden)
            r = check_params(&routes[i], err);
        if (r == 0 && !doc->hidden)
            r = check_requests(&routes[i], err);
        if (r == 0 && !doc->hidden)
            r = check_responses(&routes[i], err);
        for (size_t k = 0; k < i && r == 0; k++)
            r = check_against(&routes[i], &routes[k], err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- components ---- */

/* 1: new, 0: known, -errno. */
static int add(struct kr_api_components *c, const struct kr_api_component *new, struct kr_err *err)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->rows[i].name, new->name) != 0)
            continue;
        if (c->rows[i].table == new->table && c->rows[i].schema == new->schema)
            return 0;
        kr_err_set(err, KR_ERR_INTERNAL, 0, "two schemas are called %s", new->name);
        return -EINVAL;
    }
    if (c->count == KR_API_COMPONENTS_MAX) {
        kr_err_set(err, KR_ERR_INTERNAL, 0, "more than %u schemas", KR_API_COMPONENTS_MAX);
        return -E2BIG;
    }
    c->rows[c->count++] = *new;
    return 1;
}

static int add_table(struct kr_api_components *c, const struct kr_api_table *t, struct kr_err *err)
{
    int r = t ? add(c, &(struct kr_api_component){t->name, t, NULL}, err) : 0;

    for (size_t i = 0; r > 0 && i < t->count; i++)
        if (t->fields[i].of && add_table(c, t->fields[i].of, err) < 0)
            return -EINVAL;
    return r < 0 ? r : 0;
}

static int add_schema(struct kr_api_components *c, const struct kr_api_schema *s, struct kr_err *err)
{
    int r = s ? add(c, &(struct kr_api_component){s->name, NULL, s}, err) : 0;

    for (size_t i = 0; r > 0 && i < s->count; i++)
        if (s->props[i].of && add_schema(c, s->props[i].of, err) < 0)
            return -EINVAL;
    for (size_t i = 0; r > 0 && s->one_of && s->one_of[i]; i++)
        if (add_schema(c, s->one_of[i], err) < 0)
            return -EINVAL;
    return r < 0 ? r : 0;
}

static int add_doc(struct kr_api_components *c, const struct kr_api_doc *doc, struct kr_err *err)
{
    int r = add_table(c, doc->body, err);

    for (const struct kr_api_media *m = doc->bodies; r == 0 && m && m->type; m++)
        r = add_table(c, m->table, err);
    for (const struct kr_api_response *a = doc->responses; r == 0 && a->status; a++)
        r = add_schema(c, a->schema, err);
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct kr_api_component *)a)->name, ((const struct kr_api_component *)b)->name);
}

int kr_api_components_collect(struct kr_api_components *c, const struct kr_http_route *routes, size_t count,
                              struct kr_err *err)
{
    static const struct kr_api_schema *const errors[] = {&kr_api_error_schema, &kr_api_detail_schema,
                                                         &kr_api_flaws_schema};
    int r = 0;

    c->count = 0;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0] && r == 0; i++)
        r = add_schema(c, errors[i], err);
    for (size_t i = 0; i < count && r == 0; i++)
        if (!((const struct kr_api_doc *)routes[i].doc)->hidden)
            r = add_doc(c, routes[i].doc, err);
    if (r == 0)
        qsort(c->rows, c->count, sizeof c->rows[0], by_name);
    return r;
}
