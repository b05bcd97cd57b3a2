/* What the files of the OpenAPI writer share. */
#pragma once
#include "route_doc.h"
#include "openapi.h"

struct kr_json;

#define KR_API_COMPONENTS_MAX 512u

/* A schema of the document: of a request's table or of a reply. */
struct kr_api_component {
    const char *name;
    const struct kr_api_table *table; /* or */
    const struct kr_api_schema *schema;
    bool closed; /* of a table: every route that takes it refuses fields that it does not name */
};

struct kr_api_components {
    struct kr_api_component rows[KR_API_COMPONENTS_MAX];
    size_t count;
};

/* All that the routes speak of, and the shapes of errors, sorted by name. 0; -EINVAL with err if a name means two
 * things; -E2BIG. */
int kr_api_components_collect(struct kr_api_components *c, const struct kr_http_route *routes, size_t count,
                              struct kr_err *err);
/* "components/schemas/X", whole. */
void kr_api_component_write(struct kr_json *j, const struct kr_api_component *c, const struct kr_api_openapi *config);

/* The schema of what has none of its own: a text, or bytes. */
void kr_api_raw_schema_write(struct kr_json *j, const char *media);
/* {"$ref":"#/components/schemas/X"} */
void kr_api_ref_write(struct kr_json *j, const char *name);
/* {"type":"integer",…} for a row: a property of a body or, with `inner` false, the schema of a parameter, which has its
 * help and example beside it. */
void kr_api_field_write(struct kr_json *j, const struct kr_api_field *f, bool inner,
                        const struct kr_api_openapi *config);
/* A default or an example as JSON. */
void kr_api_sample_write(struct kr_json *j, enum kr_api_type type, const char *text);
/* An example made from the rows: of a table those that are required, or the first; of a schema all that are always
 * there. */
void kr_api_table_sample(struct kr_json *j, const struct kr_api_table *table);
void kr_api_schema_sample(struct kr_json *j, const struct kr_api_schema *schema);

/* "responses": the route's own, then the usual errors. */
void kr_api_responses_write(struct kr_json *j, const struct kr_http_route *route);
/* "components/responses" and "components/headers". */
void kr_api_errors_write(struct kr_json *j);
