/* Checks of the docs of a route table: are they right and complete?
 *
 * Called by the tests of rooms that have routes. Invariant: after the check every pointer that the writer of OpenAPI
 * follows is there, and every id means one route. */
#include "err.h"
#include "openapi_internal.h"
#include "route.h"
#include "table-check.h"
#include <errno.h>
#include <string.h>

static int bad_route(const struct kr_http_route *route, const char *what, const char *name, struct kr_err *err)
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
        return bad_route(route, "its id is not a word of [a-z0-9_]", doc->id, err);
    while (tag->name && (is_empty(doc->tag) || strcmp(tag->name, doc->tag) != 0))
        tag++;
    if (!tag->name)
        return bad_route(route, "no such tag", doc->tag, err);
    if (is_empty(doc->summary) || is_sentence(doc->summary))
        return bad_route(route, "its summary is missing, or ends with a full stop", NULL, err);
    if (doc->description && !is_sentence(doc->description))
        return bad_route(route, "its description does not end with a full stop", NULL, err);
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
            return bad_route(route, "no row for the parameter", name, err);
        wanted++;
    }
    for (const struct kr_api_param *p = doc->params; p && p->name; p++, found++)
        if (!is_sentence(p->help) || is_empty(p->example))
            return bad_route(route, "no help or no example for the parameter", p->name, err);
    return wanted == found ? 0 : bad_route(route, "rows for parameters that the pattern does not have", NULL, err);
}

static int check_body(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_doc *doc = route->doc;
    bool is_described = doc->body || doc->bodies || doc->body_schema;

    if (is_described && route->body_limit == 0)
        return bad_route(route, "describes a body but takes none", NULL, err);
    if (route->body_limit && !is_described)
        return bad_route(route, "takes a body but does not describe it", NULL, err);
    if (doc->body && (is_empty(doc->body->name) || !is_sentence(doc->body->help)))
        return bad_route(route, "the table of its body has no name or no help", NULL, err);
    if (doc->body_example && !is_json(doc->body_example))
        return bad_route(route, "the example of its body is not JSON", NULL, err);
    if (doc->body_schema && (doc->body || !is_json(doc->body_schema)))
        return bad_route(route, "the schema of its body is not JSON, or there twice", NULL, err);
    return doc->body ? table_check(doc->body, err) : 0;
}

static int check_query(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_table *query = ((const struct kr_api_doc *)route->doc)->query;

    for (size_t i = 0; query && i < query->count; i++) {
        enum kr_api_type type = query->fields[i].type;

        if (type == KR_API_OBJECT || type == KR_API_MAP || type == KR_API_ARRAY || type == KR_API_ANY)
            return bad_route(route, "a query cannot say that", query->fields[i].name, err);
    }
    return query ? table_check(query, err) : 0;
}

static int check_other_bodies(const struct kr_http_route *route, struct kr_err *err)
{
    int r = 0;

    for (const struct kr_api_media *m = ((const struct kr_api_doc *)route->doc)->bodies; r == 0 && m && m->type; m++) {
        if (!is_sentence(m->help) || (m->table && is_empty(m->table->name)))
            return bad_route(route, "no help for the body, or its table has no name", m->type, err);
        r = m->table ? table_check(m->table, err) : 0;
    }
    return r;
}

static int check_requests(const struct kr_http_route *route, struct kr_err *err)
{
    int r = check_body(route, err);

    if (r == 0)
        r = check_query(route, err);
    return r == 0 ? check_other_bodies(route, err) : r;
}

static int check_responses(const struct kr_http_route *route, struct kr_err *err)
{
    const struct kr_api_response *all = ((const struct kr_api_doc *)route->doc)->responses;
    int r = 0;

    if (!all || !all->status || (all->status >= 400 && all->status != 501)) /* 501: it is there, but not built yet */
        return bad_route(route, "does not say what it answers when all is well", NULL, err);
    for (const struct kr_api_response *a = all; a->status && r == 0; a++) {
        if (a->status < 100 || a->status > 599)
            return bad_route(route, "an answer has no status", NULL, err);
        if (!is_sentence(a->help))
            return bad_route(route, "an answer has no help", NULL, err);
        if (a->example && a->schema && !is_json(a->example))
            return bad_route(route, "the example of an answer is not JSON", NULL, err);
        for (const struct kr_api_header *h = a->headers; h && h->name; h++)
            if (!is_sentence(h->help) || is_empty(h->example))
                return bad_route(route, "no help or no example for the header", h->name, err);
        r = a->schema ? schema_check(a->schema, err) : 0;
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
        return bad_route(a, "its id is another route's too", x->id, err);
    if (a->method == b->method && strcmp(kr_api_path_of(a->pattern, path_a), kr_api_path_of(b->pattern, path_b)) == 0)
        return bad_route(a, "is there twice as OpenAPI writes paths", NULL, err);
    return 0;
}

int docs_check(const struct kr_http_route *routes, size_t count, struct kr_err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct kr_api_doc *doc = routes[i].doc;
        int r;

        if (!doc)
            return bad_route(&routes[i], "has no doc", NULL, err);
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
