/* The table of routes as a whole: it compiles, every row is complete, OpenAPI can be written from it, and the rows that
 * repeat another table agree with it. And the small reader of Accept. */
#include "accept.h"
#include "api.h"
#include "buf.h"
#include "check.h"
#include "table-check.h"
#include "route_doc.h"
#include "err.h"
#include "limit.h"
#include "limit_fields.h"
#include "openapi.h"

static void every_row_has_a_handler_and_a_doc(void)
{
    CHECK(kr_api_routes_count > 40);
    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_http_route *r = &kr_api_routes[i];

        if (!r->handler || !r->doc || r->pattern[0] != '/')
            printf("FAIL %s: %s\n", __func__, r->pattern);
        CHECK(r->handler && r->doc && r->pattern[0] == '/');
    }
}

static void the_router_takes_the_table(void)
{
    struct kr_http_router *router = NULL;
    struct kr_err err = {0};

    if (kr_http_router_new(kr_api_routes, kr_api_routes_count, &router, &err) < 0)
        printf("FAIL %s: %s\n", __func__, err.msg);
    CHECK(router);
    kr_http_router_free(router);
}

static void docs_are_complete(void)
{
    struct kr_err err = {0};
    int r = docs_check(kr_api_routes, kr_api_routes_count, &err);

    if (r < 0)
        printf("FAIL %s: %s\n", __func__, err.msg);
    CHECK(r == 0);
}

static void openapi_is_written(void)
{
    struct kr_api_openapi config = {.version = "1", .auth = true};
    cleanup_buf struct kr_buf out;
    struct kr_err err = {0};

    kr_buf_init(&out, KR_API_OPENAPI_MAX);
    if (kr_api_openapi_write(kr_api_routes, kr_api_routes_count, &config, &out, &err) < 0)
        printf("FAIL %s: %s\n", __func__, err.msg);
    CHECK(out.len > 10000 && !out.failed);
    CHECK(strstr(kr_buf_str(&out), "\"/api/v1/sandboxes/{sandbox_id}\""));
    CHECK(!strstr(kr_buf_str(&out), "\"/assets/"));
}

/* Every route that needs no key is listed here: a new one must be added on purpose. */
static void open_routes_are_few(void)
{
    static const char *const open[] = {
        "/",
        "/ai/sandbox/v1/api/health",
        "/api/register",
        "/api/token",
        "/api/v1/health",
        "/api/v1/login",
        "/assets/{path*}",
        "/docs",
        "/docs/",
        "/favicon.svg",
        "/files/{token}/{path*}",
        "/health",
        "/openapi.json",
        "/ready",
        "/redoc",
        "/sandbox/file",
    };

    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_api_doc *doc = kr_api_routes[i].doc;
        size_t k = 0;

        while (k < sizeof open / sizeof *open && strcmp(open[k], kr_api_routes[i].pattern) != 0)
            k++;
        if (doc->open && k == sizeof open / sizeof *open)
            printf("FAIL %s: %s is open\n", __func__, kr_api_routes[i].pattern);
        CHECK(!doc->open || k < sizeof open / sizeof *open);
    }
}

/* A key that may only read changes nothing but what it is itself: keys, passwords, links. */
static void changes_need_more_than_reading(void)
{
    static const char *const own[] = {"/api/users/me/api-key/regenerate",
                                      "/api/v1/keys",
                                      "/api/v1/keys/{key_id}",
                                      "/api/v1/logout",
                                      "/api/v1/sandboxes/{sandbox_id}/links",
                                      "/api/v1/users/me/password",
                                      NULL};

    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_http_route *r = &kr_api_routes[i];
        const struct kr_api_doc *doc = r->doc;
        bool is_own = false;

        for (size_t k = 0; own[k]; k++)
            is_own |= strcmp(own[k], r->pattern) == 0;
        if (r->method == KR_HTTP_GET || doc->open || is_own)
            continue;
        if (!(doc->needs & (KR_RIGHT_RUN | KR_RIGHT_ADMIN)))
            printf("FAIL %s: %s needs nothing\n", __func__, r->pattern);
        CHECK(doc->needs & (KR_RIGHT_RUN | KR_RIGHT_ADMIN));
    }
}

static bool is_bare(const char *name)
{
    static const char *const bare[] = {"id", "key", "request", "run", "sandbox", "session", "user", NULL};
    size_t i = 0;

    while (bare[i] && strcmp(bare[i], name) != 0)
        i++;
    return bare[i] != NULL;
}

/* In a path, a query or a body an id is called `run_id`, `sandbox_id` and so on, wherever it is given. */
static void ids_are_named_the_same(void)
{
    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_api_doc *doc = kr_api_routes[i].doc;
        const struct kr_api_table *tables[] = {doc->query, doc->body};
        const char *at = kr_api_routes[i].pattern;
        char name[KR_API_NAME_MAX];
        bool rest;

        while (kr_api_next_param(&at, name, &rest)) {
            if (is_bare(name))
                printf("# %s: {%s}\n", kr_api_routes[i].pattern, name);
            CHECK(!is_bare(name));
        }
        for (size_t t = 0; t < 2; t++)
            for (size_t k = 0; tables[t] && k < tables[t]->count; k++)
                CHECK(!is_bare(tables[t]->fields[k].name));
    }
}

static void limits_are_those_of_the_wire(void)
{
    CHECK(kr_api_limits_table.count == kr_limit_rows_count && kr_api_limits_schema.count == kr_limit_rows_count);
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        CHECK(strcmp(kr_api_limits_table.fields[i].name, kr_limit_rows[i].name) == 0);
        CHECK(strcmp(kr_api_limits_schema.props[i].name, kr_limit_rows[i].name) == 0);
        CHECK(kr_api_limits_schema.props[i].nullable == (kr_limit_rows[i].zero_is_none != 0));
    }
}

/* A required field's example, or one of the row's choices. */
static json_t *sample_of(const struct kr_api_field *f)
{
    bool is_text = f->type == KR_API_STRING || f->type == KR_API_TEXT || f->type == KR_API_ENUM;
    json_t *value = is_text ? NULL : json_loads(f->example, JSON_DECODE_ANY, NULL);

    return value ? value : json_string(f->choices ? f->choices[0] : f->example);
}

/* A change of a user has no defaults: there null takes away what can be taken away, and is refused for the rest. */
static bool stays_without(const struct kr_api_table *t, const struct kr_api_field *f)
{
    return strcmp(t->name, "UserChange") == 0 && (strcmp(f->name, "rights") == 0 || strcmp(f->name, "disabled") == 0);
}

/* A body with its required fields, and null for those that are not. */
static json_t *body_of_nulls(const struct kr_api_table *t)
{
    json_t *body = json_object();

    for (size_t i = 0; i < t->count; i++)
        if (!stays_without(t, &t->fields[i]))
            json_object_set_new(body, t->fields[i].name,
                                t->fields[i].required ? sample_of(&t->fields[i]) : json_null());
    return body;
}

static int parse_body(const struct kr_api_doc *doc, json_t *body, void *request, struct kr_api_input *in)
{
    struct kr_err err = {0};

    kr_api_input_init(in, doc->voice);
    return kr_api_parse_object(doc->body, body, request, in, &err);
}

static void check_nulls(const struct kr_http_route *route)
{
    const struct kr_api_doc *doc = route->doc;
    const struct kr_api_table *t = doc->body;
    struct kr_api_input in, in_without;
    char *with_null = calloc(1, t->size), *without = calloc(1, t->size);
    json_t *body = body_of_nulls(t), *short_body = json_object();
    int r = parse_body(doc, body, with_null, &in);

    if (r < 0)
        printf("FAIL null_is_the_default_in_every_body: %s: %s\n", route->pattern, in.field);
    CHECK(r == 0);
    for (size_t i = 0; i < t->count; i++)
        if (t->fields[i].required)
            json_object_set(short_body, t->fields[i].name, json_object_get(body, t->fields[i].name));
    CHECK(parse_body(doc, short_body, without, &in_without) == 0);
    for (size_t i = 0; i < t->count; i++) {
        enum kr_api_type type = t->fields[i].type;
        size_t size = type == KR_API_BOOL ? sizeof(bool) : type == KR_API_ENUM ? sizeof(int) : sizeof(int64_t);

        if (type == KR_API_INT || type == KR_API_NUMBER || type == KR_API_BOOL || type == KR_API_ENUM)
            CHECK(t->fields[i].required ||
                  memcmp(with_null + t->fields[i].offset, without + t->fields[i].offset, size) == 0);
    }
    kr_api_input_done(&in);
    kr_api_input_done(&in_without);
    json_decref(body);
    json_decref(short_body);
    free(with_null);
    free(without);
}

/* Clients fill in what they leave out. The same of a required one is refused: the control. */
static void null_is_the_default_in_every_body(void)
{
    size_t bodies = 0, refused = 0;

    for (size_t i = 0; i < kr_api_routes_count; i++) {
        const struct kr_api_doc *doc = kr_api_routes[i].doc;
        const struct kr_api_table *t = doc->body;

        if (!t)
            continue;
        check_nulls(&kr_api_routes[i]);
        bodies++;
        for (size_t k = 0; k < t->count; k++) {
            json_t *body = body_of_nulls(t);
            char *request = calloc(1, t->size);
            struct kr_api_input in;

            json_object_set_new(body, t->fields[k].name, json_null());
            refused += t->fields[k].required && parse_body(doc, body, request, &in) < 0;
            CHECK(!t->fields[k].required || strcmp(in.field, t->fields[k].name) == 0);
            if (t->fields[k].required)
                kr_api_input_done(&in);
            json_decref(body);
            free(request);
        }
    }
    CHECK(bodies > 10 && refused > 5);
}

static void accept_is_read(void)
{
    CHECK(kr_api_accepts("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/html") == 1000);
    CHECK(kr_api_accepts("application/json;q=0.5 , text/html ; charset=x;q=0.25", "text/html") == 250);
    CHECK(kr_api_accepts("application/json;q=0.5 , TEXT/HTML", "text/html") == 1000);
    CHECK(kr_api_accepts("application/json;q=0.5", "application/json") == 500);
    CHECK(kr_api_accepts("*/*", "text/html") == 0 && kr_api_accepts(NULL, "text/html") == 0);
    CHECK(kr_api_accepts("text/html;q=0", "text/html") == 0);
    CHECK(kr_api_accepts("text/html;q=0.000", "text/html") == 0);
    CHECK(kr_api_accepts("text/htmlx, text/html-y", "text/html") == 0);
    CHECK(kr_api_accepts(",,;;q=,=", "text/html") == 0);
    CHECK(kr_api_accepts("text/html;q=junk", "text/html") == 1000);
}

int main(void)
{
    RUN(every_row_has_a_handler_and_a_doc);
    RUN(the_router_takes_the_table);
    RUN(docs_are_complete);
    RUN(openapi_is_written);
    RUN(open_routes_are_few);
    RUN(changes_need_more_than_reading);
    RUN(ids_are_named_the_same);
    RUN(limits_are_those_of_the_wire);
    RUN(null_is_the_default_in_every_body);
    RUN(accept_is_read);
    CHECK_DONE();
}
