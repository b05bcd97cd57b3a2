/* OpenAPI 3.1, from the route table. Called at the first request for /openapi.json (pages.c keeps the bytes) and by the
 * unit tests.
 *
 * Invariant: the same rows and ceiling give the same bytes: paths (krait's own, then those of each document), methods
 * and schemas are sorted, nothing of the time or the machine is in it. */
#include "openapi_internal.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "route.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char about[] =
    "Runs untrusted Python in native Linux sandboxes. krait's own API is beneath `/api/v1`; models reach the same over "
    "the Model Context Protocol at `/mcp`. Routes that clients of other servers know come last, by document. A request "
    "that fails answers `{\"error\":{…}}` on every route; on those of other servers' documents `detail` is beside it, "
    "as their clients expect. Streams are one JSON object a line (`application/x-ndjson`), or one an event (`Accept: "
    "text/event-stream`).";

/* ---- parameters and bodies ---- */

static void write_param(struct kr_json *j, const struct kr_api_param *row, bool rest)
{
    kr_json_object(j);
    kr_json_key_str(j, "name", row->name);
    kr_json_key_str(j, "in", "path");
    kr_json_key_bool(j, "required", true);
    kr_json_key_str(j, "description", row->help);
    kr_json_key(j, "schema");
    kr_json_object(j);
    kr_json_key_str(j, "type", "string");
    kr_json_object_end(j);
    kr_json_key_str(j, "example", row->example);
    if (rest)
        kr_json_key_bool(j, "x-rest-of-path", true); /* slashes are part of it, which OpenAPI has no word for */
    kr_json_object_end(j);
}

static void write_query_param(struct kr_json *j, const struct kr_api_field *f, const struct kr_api_openapi *config)
{
    kr_json_object(j);
    kr_json_key_str(j, "name", f->name);
    kr_json_key_str(j, "in", "query");
    kr_json_key_bool(j, "required", f->required);
    kr_json_key_str(j, "description", f->help);
    kr_json_key(j, "schema");
    kr_api_field_write(j, f, false, config);
    kr_json_key(j, "example");
    kr_api_sample_write(j, f->type, f->example);
    kr_json_object_end(j);
}

static void write_parameters(struct kr_json *j, const struct kr_http_route *route, const struct kr_api_openapi *config)
{
    const struct kr_api_doc *doc = route->doc;
    const char *at = route->pattern;
    char name[KR_API_NAME_MAX];
    bool rest;

    if (!doc->params && !doc->query)
        return;
    kr_json_key(j, "parameters");
    kr_json_array(j);
    while (kr_api_next_param(&at, name, &rest))
        for (const struct kr_api_param *p = doc->params; p && p->name; p++)
            if (strcmp(p->name, name) == 0)
                write_param(j, p, rest);
    for (size_t i = 0; doc->query && i < doc->query->count; i++)
        write_query_param(j, &doc->query->fields[i], config);
    kr_json_array_end(j);
}

static void write_body_media(struct kr_json *j, const char *type, const struct kr_api_table *table, const char *example)
{
    kr_json_key(j, type);
    kr_json_object(j);
    if (table) {
        kr_json_key(j, "schema");
        kr_api_ref_write(j, table->name);
        kr_json_key(j, "example");
        if (example)
            kr_json_raw(j, example, strlen(example));
        else
            kr_api_table_sample(j, table);
    } else {
        kr_api_raw_schema_write(j, type);
        if (example)
            kr_json_key_str(j, "example", example);
    }
    kr_json_object_end(j);
}

static void write_body_schema(struct kr_json *j, const char *schema)
{
    kr_json_key(j, "application/json");
    kr_json_object(j);
    kr_json_key(j, "schema");
    kr_json_raw(j, schema, strlen(schema));
    kr_json_object_end(j);
}

static bool has_required(const struct kr_api_table *t)
{
    for (size_t i = 0; t && i < t->count; i++)
        if (t->fields[i].required)
            return true;
    return false;
}

static void write_body(struct kr_json *j, const struct kr_api_doc *doc)
{
    if (!doc->body && !doc->bodies && !doc->body_schema)
        return;
    kr_json_key(j, "requestBody");
    kr_json_object(j);
    if (doc->bodies && doc->bodies[0].help)
        kr_json_key_str(j, "description", doc->bodies[0].help);
    kr_json_key_bool(j, "required", doc->body ? has_required(doc->body) : doc->bodies || doc->body_required);
    kr_json_key(j, "content");
    kr_json_object(j);
    if (doc->body)
        write_body_media(j, "application/json", doc->body, doc->body_example);
    else if (doc->body_schema)
        write_body_schema(j, doc->body_schema);
    for (const struct kr_api_media *m = doc->bodies; m && m->type; m++)
        write_body_media(j, m->type, m->table, m->example);
    kr_json_object_end(j);
    kr_json_object_end(j);
}

/* ---- operations ---- */

/* An alias gets a number: the how many-th row with this doc it is. */
static void write_id(struct kr_json *j, const struct kr_http_route *routes, const struct kr_http_route *route)
{
    const struct kr_api_doc *doc = route->doc;
    unsigned number = 1;
    char id[128];

    for (const struct kr_http_route *r = routes; r != route; r++)
        number += r->doc == doc;
    if (number == 1)
        snprintf(id, sizeof id, "%s", doc->id);
    else
        snprintf(id, sizeof id, "%s_%u", doc->id, number);
    kr_json_key_str(j, "operationId", id);
}

/* What may be asked of whom: OpenAPI's security for the key, our own word for its rights. */
static void write_rights(struct kr_json *j, const struct kr_api_doc *doc)
{
    if (doc->open) {
        kr_json_key(j, "security");
        kr_json_array(j);
        kr_json_array_end(j);
        return;
    }
    kr_json_key(j, "x-rights");
    kr_json_array(j);
    for (size_t i = 0; i < kr_right_rows_count; i++)
        if (doc->needs & kr_right_rows[i].bit)
            kr_json_str(j, kr_right_rows[i].name);
    kr_json_array_end(j);
}

/* Its own, or what it does and what its first answer is. */
static void write_description(struct kr_json *j, const struct kr_api_doc *doc)
{
    char text[512];

    snprintf(text, sizeof text, "%s. Answer: %s", doc->summary, doc->responses[0].help);
    kr_json_key_str(j, "description", doc->description ? doc->description : text);
}

#define FOREIGN_PREFIX "/ai/sandbox/v1/api/" /* document 000 has krait's own routes there by another name */

static const char *tag_of(const struct kr_http_route *route)
{
    const struct kr_api_doc *doc = route->doc;

    return strncmp(route->pattern, FOREIGN_PREFIX, strlen(FOREIGN_PREFIX)) == 0 ? KR_API_TAG_000 : doc->tag;
}

/* Where its tag is in the list: krait's own first, other servers' last. */
static int rank_of(const struct kr_http_route *route)
{
    const char *tag = tag_of(route);
    int rank = 0;

    if (strncmp(tag, KR_API_TAG_DOCUMENT, strlen(KR_API_TAG_DOCUMENT)) != 0)
        return -1;
    while (kr_api_tags[rank].name && strcmp(kr_api_tags[rank].name, tag) != 0)
        rank++;
    return rank;
}

static void write_operation(struct kr_json *j, const struct kr_http_route *routes, const struct kr_http_route *route,
                            const struct kr_api_openapi *config)
{
    const struct kr_api_doc *doc = route->doc;
    char method[16];
    const char *name = kr_http_method_name(route->method);
    size_t i = 0;

    for (; i < sizeof method - 1 && name[i]; i++)
        method[i] = (char)(name[i] | 0x20);
    method[i] = '\0';
    kr_json_key(j, method);
    kr_json_object(j);
    write_id(j, routes, route);
    kr_json_key(j, "tags");
    kr_json_array(j);
    kr_json_str(j, tag_of(route));
    kr_json_array_end(j);
    kr_json_key_str(j, "summary", doc->summary);
    write_description(j, doc);
    write_rights(j, doc);
    write_parameters(j, route, config);
    write_body(j, doc);
    kr_api_responses_write(j, route);
    kr_json_object_end(j);
}

static int by_path(const void *a, const void *b)
{
    const struct kr_http_route *x = *(const struct kr_http_route *const *)a,
                               *y = *(const struct kr_http_route *const *)b;
    char path_x[KR_API_PATH_MAX], path_y[KR_API_PATH_MAX];
    int r = rank_of(x) - rank_of(y);

    if (r == 0)
        r = strcmp(kr_api_path_of(x->pattern, path_x), kr_api_path_of(y->pattern, path_y));
    return r ? r : (int)x->method - (int)y->method;
}

static int write_paths(struct kr_json *j, const struct kr_http_route *routes, size_t count,
                       const struct kr_api_openapi *config)
{
    const struct kr_http_route **sorted = calloc(count + 1, sizeof(struct kr_http_route *));
    char path[KR_API_PATH_MAX], last[KR_API_PATH_MAX] = "";
    size_t n = 0;

    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (!((const struct kr_api_doc *)routes[i].doc)->hidden)
            sorted[n++] = &routes[i];
    qsort(sorted, n, sizeof(struct kr_http_route *), by_path);
    kr_json_key(j, "paths");
    kr_json_object(j);
    for (size_t i = 0; i < n; i++) {
        kr_api_path_of(sorted[i]->pattern, path);
        if (strcmp(path, last) != 0) {
            if (last[0])
                kr_json_object_end(j);
            kr_json_key(j, path);
            kr_json_object(j);
            snprintf(last, sizeof last, "%s", path);
        }
        write_operation(j, routes, sorted[i], config);
    }
    if (last[0])
        kr_json_object_end(j);
    kr_json_object_end(j);
    free(sorted);
    return 0;
}

/* ---- the rest ---- */

static const struct {
    const char *name, *type, *a, *a_value, *b, *b_value, *help;
} schemes[] = {
    {"bearer", "http", "scheme", "bearer", NULL, NULL, "`Authorization: Bearer KEY`; also a login token."},
    {"header", "apiKey", "in", "header", "name", "X-API-Key", "`X-API-Key: KEY`."},
    {"query", "apiKey", "in", "query", "name", "api_key", "`?api_key=KEY`, for clients that can set no header."},
};
#define SCHEMES (sizeof schemes / sizeof schemes[0])

static void write_schemes(struct kr_json *j)
{
    kr_json_key(j, "securitySchemes");
    kr_json_object(j);
    for (size_t i = 0; i < SCHEMES; i++) {
        kr_json_key(j, schemes[i].name);
        kr_json_object(j);
        kr_json_key_str(j, "type", schemes[i].type);
        kr_json_key_str(j, schemes[i].a, schemes[i].a_value);
        if (schemes[i].b)
            kr_json_key_str(j, schemes[i].b, schemes[i].b_value);
        kr_json_key_str(j, "description", schemes[i].help);
        kr_json_object_end(j);
    }
    kr_json_object_end(j);
}

/* Any one of them will do; without authentication none is needed. */
static void write_security(struct kr_json *j, bool auth)
{
    kr_json_key(j, "security");
    kr_json_array(j);
    for (size_t i = 0; i < SCHEMES; i++) {
        kr_json_object(j);
        kr_json_key(j, schemes[i].name);
        kr_json_array(j);
        kr_json_array_end(j);
        kr_json_object_end(j);
    }
    if (!auth) {
        kr_json_object(j);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

static void write_about(struct kr_json *j, const struct kr_api_openapi *config)
{
    kr_json_key_str(j, "openapi", "3.1.0");
    kr_json_key(j, "info");
    kr_json_object(j);
    kr_json_key_str(j, "title", "krait");
    kr_json_key_str(j, "version", config->version);
    kr_json_key_str(j, "description", about);
    kr_json_key(j, "contact");
    kr_json_object(j);
    kr_json_key_str(j, "name", "The operator of this server");
    kr_json_object_end(j);
    kr_json_key(j, "license");
    kr_json_object(j);
    kr_json_key_str(j, "name", "Apache-2.0");
    kr_json_key_str(j, "identifier", "Apache-2.0");
    kr_json_object_end(j);
    kr_json_object_end(j);
    kr_json_key(j, "servers");
    kr_json_array(j);
    kr_json_object(j);
    kr_json_key_str(j, "url", config->server_url ? config->server_url : "/");
    kr_json_object_end(j);
    kr_json_array_end(j);
    write_security(j, config->auth);
}

static void write_tags(struct kr_json *j, const struct kr_http_route *routes, size_t count)
{
    kr_json_key(j, "tags");
    kr_json_array(j);
    for (const struct kr_api_tag *t = kr_api_tags; t->name; t++) {
        bool used = false;

        for (size_t i = 0; i < count && !used; i++) {
            const struct kr_api_doc *doc = routes[i].doc;

            used = !doc->hidden && strcmp(tag_of(&routes[i]), t->name) == 0;
        }
        if (!used)
            continue;
        kr_json_object(j);
        kr_json_key_str(j, "name", t->name);
        kr_json_key_str(j, "description", t->help);
        kr_json_object_end(j);
    }
    kr_json_array_end(j);
}

static void write_components(struct kr_json *j, const struct kr_api_components *c, const struct kr_api_openapi *config)
{
    kr_json_key(j, "components");
    kr_json_object(j);
    kr_json_key(j, "schemas");
    kr_json_object(j);
    for (size_t i = 0; i < c->count; i++) {
        kr_json_key(j, c->rows[i].name);
        kr_api_component_write(j, &c->rows[i], config);
    }
    kr_json_object_end(j);
    kr_api_errors_write(j);
    write_schemes(j);
    kr_json_object_end(j);
}

int kr_api_openapi_write(const struct kr_http_route *routes, size_t count, const struct kr_api_openapi *config,
                         struct kr_buf *out, struct kr_err *err)
{
    struct kr_api_components *c = calloc(1, sizeof *c);
    struct kr_json j;
    int r = c ? kr_api_components_collect(c, routes, count, err) : -ENOMEM;

    if (r == 0) {
        kr_json_init(&j, out);
        kr_json_object(&j);
        write_about(&j, config);
        write_tags(&j, routes, count);
        r = write_paths(&j, routes, count, config);
        write_components(&j, c, config);
        kr_json_object_end(&j);
        if (r == 0)
            r = kr_json_done(&j);
        if (r < 0)
            kr_err_set(err, KR_ERR_INTERNAL, -r, "write OpenAPI");
    } else if (r == -ENOMEM) {
        kr_err_set(err, KR_ERR_INTERNAL, ENOMEM, "write OpenAPI");
    }
    free(c);
    return r;
}
