/* The answers of an operation: its own rows, then the errors that every route may give. Called by openapi.c.
 *
 * Invariant: whatever status a route answers with has a shape here; what is not listed by number is the default's. */
#include "openapi_internal.h"
#include "buf.h"
#include "err.h"
#include "json.h"
#include "reply.h"
#include "route.h"
#include <stdio.h>
#include <string.h>

/* When a route gives an error. */
enum { ALWAYS = 1, INPUT = 2, BODY = 4, PARAMS = 8, KEY = 16 };

static const struct usual {
    int status; /* 0: the default */
    unsigned when;
    enum kr_err_kind kind;
    bool ours, documents; /* which voices have it */
    const char *help, *example;
} usuals[] = {
    {400, INPUT | PARAMS, KR_ERR_INVALID, true, true, "The request is wrong; the text says where.",
     "timeout must be at most 3600"},
    {401, KEY, KR_ERR_UNAUTHORIZED, true, true, "A key is needed, or the one given is not good.", "API key required"},
    {403, KEY, KR_ERR_FORBIDDEN, true, true, "The key does not have the right, or the request comes from another site.",
     "the key does not have the right run"},
    {404, PARAMS, KR_ERR_NOT_FOUND, true, true, "It does not exist, or it belongs to another user.",
     "no sandbox has that id"},
    {413, BODY, KR_ERR_TOO_LARGE, true, true, "The body is larger than this path takes.",
     "the body is larger than this path takes"},
    {422, INPUT, KR_ERR_INVALID, false, true, "Fields of the request are wrong.", NULL},
    {429, KEY, KR_ERR_TOO_MANY, true, true, "Too many requests, or too many wait: later it will do.",
     "too many runs in this minute"},
    {500, ALWAYS, KR_ERR_INTERNAL, true, true, "A defect or a failure of the server; the log has more.",
     "internal error"},
    {503, ALWAYS, KR_ERR_BUSY, true, true, "No room at the moment: later it will do.", "no room for another session"},
    {507, BODY, KR_ERR_NO_SPACE, true, true, "The server's disk is full.",
     "the server's disk is full: the store cannot add a sandbox"},
    {0, ALWAYS, KR_ERR_INVALID, true, true, "Any other error.", "the request is malformed"},
};
#define USUALS (sizeof usuals / sizeof usuals[0])

static void name_usual(const struct usual *u, enum kr_api_voice voice, char *buf, size_t size)
{
    const char *word = voice == KR_API_KRAIT ? "Error" : "Detail";

    if (u->status)
        snprintf(buf, size, "%s%d", word, u->status);
    else
        snprintf(buf, size, "%sDefault", word);
}

/* ---- components ---- */

static void write_header(struct kr_json *j, const struct kr_api_header *h)
{
    kr_json_key(j, h->name);
    kr_json_object(j);
    kr_json_key_str(j, "description", h->help);
    kr_json_key(j, "schema");
    kr_json_object(j);
    kr_json_key_str(j, "type", "string");
    kr_json_object_end(j);
    kr_json_key_str(j, "example", h->example);
    kr_json_object_end(j);
}

static void write_error_headers(struct kr_json *j, const struct usual *u)
{
    static const struct kr_api_header retry = {"Retry-After", "Seconds after which it is worth asking again.", "1"},
                                      login = {"WWW-Authenticate", "How to give the key.", "Bearer"};

    if (u->status != 401 && u->status != 429 && u->status != 503)
        return;
    kr_json_key(j, "headers");
    kr_json_object(j);
    write_header(j, u->status == 401 ? &login : &retry);
    kr_json_object_end(j);
}

static void write_error_content(struct kr_json *j, const struct usual *u, enum kr_api_voice voice)
{
    cleanup_buf struct kr_buf example;

    kr_buf_init(&example, 4096);
    kr_json_key(j, "content");
    kr_json_object(j);
    kr_json_key(j, "application/json");
    kr_json_object(j);
    kr_json_key(j, "schema");
    kr_api_ref_write(j, u->status == 422        ? kr_api_flaws_schema.name
                        : voice == KR_API_KRAIT ? kr_api_error_schema.name
                                                : kr_api_detail_schema.name);
    kr_json_key(j, "example");
    if (u->status == 422) {
        kr_api_schema_sample(j, &kr_api_flaws_schema);
    } else {
        kr_api_error_body(voice, u->status, kr_err_row(u->kind)->name, u->example, u->status == 400 ? "timeout" : NULL,
                          "3f0c9a52d1b84e7f", &example);
        kr_json_raw(j, kr_buf_str(&example), example.len);
    }
    kr_json_object_end(j);
    kr_json_object_end(j);
}

void kr_api_errors_write(struct kr_json *j)
{
    static const enum kr_api_voice voices[] = {KR_API_DOCUMENT, KR_API_KRAIT};
    char name[32];

    kr_json_key(j, "responses");
    kr_json_object(j);
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < USUALS; i++) {
            const struct usual *u = &usuals[i];

            if (!(voices[v] == KR_API_KRAIT ? u->ours : u->documents))
                continue;
            name_usual(u, voices[v], name, sizeof name);
            kr_json_key(j, name);
            kr_json_object(j);
            kr_json_key_str(j, "description", u->help);
            write_error_headers(j, u);
            write_error_content(j, u, voices[v]);
            kr_json_object_end(j);
        }
    kr_json_object_end(j);
}

/* ---- an operation's ---- */

/* One line, or one event, as it comes. */
static void write_stream_sample(struct kr_json *j, const struct kr_api_response *r, bool event)
{
    cleanup_buf struct kr_buf one, text;
    struct kr_json inner;

    kr_buf_init(&one, 65536);
    kr_buf_init(&text, 65536);
    kr_json_init(&inner, &one);
    if (r->example)
        kr_json_raw(&inner, r->example, strlen(r->example));
    else
        kr_api_schema_sample(&inner, r->schema);
    kr_buf_add_str(&text, event ? "data: " : "");
    kr_buf_add_str(&text, kr_buf_str(&one));
    kr_buf_add_str(&text, event ? "\n\n" : "\n");
    kr_json_str(j, kr_buf_str(&text));
}

static void write_media(struct kr_json *j, const struct kr_api_response *r)
{
    const char *media = r->media ? r->media : "application/json";
    bool lines = strcmp(media, "application/x-ndjson") == 0, events = strcmp(media, "text/event-stream") == 0;

    kr_json_key(j, media);
    kr_json_object(j);
    if (r->schema && !lines && !events) {
        kr_json_key(j, "schema");
        kr_api_ref_write(j, r->schema->name);
    } else if (strcmp(media, "application/json") != 0) {
        kr_api_raw_schema_write(j, lines || events ? "text/plain" : media);
    }
    if (lines || events) { /* what each of them is, which OpenAPI 3.1 has no word for; the whole is a text */
        kr_json_key_str(j, "x-each", lines ? "line" : "event");
        if (r->schema) {
            kr_json_key(j, "x-each-schema");
            kr_api_ref_write(j, r->schema->name);
        }
    }
    if (r->schema || r->example)
        kr_json_key(j, "example");
    if (r->schema && (lines || events))
        write_stream_sample(j, r, events);
    else if (r->schema && r->example)
        kr_json_raw(j, r->example, strlen(r->example));
    else if (r->schema)
        kr_api_schema_sample(j, r->schema);
    else if (r->example)
        kr_json_str(j, r->example);
    kr_json_object_end(j);
}

/* All rows of the status of the one given, which is its first. */
static void write_own(struct kr_json *j, const struct kr_api_response *first)
{
    char status[16];
    bool any = false;

    snprintf(status, sizeof status, "%d", first->status);
    kr_json_key(j, status);
    kr_json_object(j);
    kr_json_key_str(j, "description", first->help);
    if (first->headers) {
        kr_json_key(j, "headers");
        kr_json_object(j);
        for (const struct kr_api_header *h = first->headers; h->name; h++)
            write_header(j, h);
        kr_json_object_end(j);
    }
    for (const struct kr_api_response *r = first; r->status; r++) {
        if (r->status != first->status || (!r->schema && !r->media))
            continue;
        if (!any) {
            kr_json_key(j, "content");
            kr_json_object(j);
        }
        any = true;
        write_media(j, r);
    }
    if (any)
        kr_json_object_end(j);
    kr_json_object_end(j);
}

static bool came_before(const struct kr_api_response *all, const struct kr_api_response *end, int status)
{
    for (const struct kr_api_response *r = all; r != end && r->status; r++)
        if (r->status == status)
            return true;
    return false;
}

static unsigned occasions(const struct kr_http_route *route)
{
    const struct kr_api_doc *doc = route->doc;
    unsigned when = ALWAYS;

    if (doc->body || doc->bodies || doc->body_schema)
        when |= BODY | INPUT;
    if (doc->query)
        when |= INPUT;
    if (doc->params)
        when |= PARAMS;
    if (!doc->open)
        when |= KEY;
    return when;
}

void kr_api_responses_write(struct kr_json *j, const struct kr_http_route *route)
{
    const struct kr_api_doc *doc = route->doc;
    unsigned when = occasions(route);
    char name[32], ref[64], status[16];

    kr_json_key(j, "responses");
    kr_json_object(j);
    for (const struct kr_api_response *r = doc->responses; r->status; r++)
        if (!came_before(doc->responses, r, r->status))
            write_own(j, r);
    for (size_t i = 0; i < USUALS; i++) {
        const struct usual *u = &usuals[i];

        if (!(u->when & when) || !(doc->voice == KR_API_KRAIT ? u->ours : u->documents) ||
            (u->status && came_before(doc->responses, NULL, u->status)))
            continue;
        snprintf(status, sizeof status, "%d", u->status);
        name_usual(u, doc->voice, name, sizeof name);
        snprintf(ref, sizeof ref, "#/components/responses/%s", name);
        kr_json_key(j, u->status ? status : "default");
        kr_json_object(j);
        kr_json_key_str(j, "$ref", ref);
        kr_json_object_end(j);
    }
    kr_json_object_end(j);
}
