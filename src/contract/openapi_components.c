/* The schemas that the docs of a route table name. Called by openapi.c.
 *
 * Invariant: a name means one thing. That the docs are complete is for the unit tests to check. */
#include "openapi_internal.h"
#include "err.h"
#include "route.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* 1: new, 0: known, -errno. */
static int add_component(struct kr_api_components *c, const struct kr_api_component *new, struct kr_err *err)
{
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->rows[i].name, new->name) != 0)
            continue;
        if (c->rows[i].table == new->table && c->rows[i].schema == new->schema) {
            c->rows[i].closed &= new->closed;
            return 0;
        }
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

static int add_table(struct kr_api_components *c, const struct kr_api_table *t, bool closed, struct kr_err *err)
{
    int r = t ? add_component(c, &(struct kr_api_component){t->name, t, NULL, closed}, err) : 0;

    for (size_t i = 0; r > 0 && i < t->count; i++)
        if (t->fields[i].of && add_table(c, t->fields[i].of, closed, err) < 0)
            return -EINVAL;
    return r < 0 ? r : 0;
}

static int add_schema(struct kr_api_components *c, const struct kr_api_schema *s, struct kr_err *err)
{
    int r = s ? add_component(c, &(struct kr_api_component){s->name, NULL, s, false}, err) : 0;

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
    int r = add_table(c, doc->body, doc->voice == KR_API_KRAIT, err);

    for (const struct kr_api_media *m = doc->bodies; r == 0 && m && m->type; m++)
        r = add_table(c, m->table, false, err);
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
