/* `/`, `/docs`, the files that pages load, `/openapi.json`.
 *
 * Handlers of the route table; all are open, since a page must be there before a user can enter a key in it, and holds
 * nothing but what every copy of the program holds. Invariants: nothing is looked for on disk; a reply of each kind
 * has that kind's security headers; a large file is handed on as the peer takes it, not copied whole. */
#include "pages.h"
#include "dialect.h"
#include "accept.h"
#include "assets.h"
#include "buf.h"
#include "coding.h"
#include "guard.h"
#include "json.h"
#include "openapi.h"
#include "reply.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

/* clang-format off */
static const struct kr_api_prop root_props[] = {
    {.name = "name", .type = KR_API_STRING, .help = "The program.", .example = KR_API_NAME},
    {.name = "version", .type = KR_API_STRING, .help = "Its version.", .example = "0.1.0"},
    {.name = "status", .type = KR_API_STRING, .help = "Always `running`.", .example = "running"},
    {.name = "mcp_endpoint", .type = KR_API_STRING, .help = "Where the Model Context Protocol is spoken.",
     .example = KR_API_MCP_ENDPOINT},
    {.name = "api_endpoint", .type = KR_API_STRING, .help = "What the API is beneath.", .example = KR_API_ENDPOINT},
    {.name = "openapi", .type = KR_API_STRING, .help = "The description of the API.", .example = "/openapi.json"},
    {.name = "docs", .type = KR_API_STRING, .help = "The page of the API, or `disabled`.", .example = "/docs"},
    {.name = "documents", .type = KR_API_STRINGS, .help = "Other servers whose clients work here unchanged.",
     .example = "[\"000 sandbox-mcp\"]"},
};
static const struct kr_api_schema root_schema = KR_API_SCHEMA("Root", "What this server is.", root_props);

static const struct kr_api_response root_ok[] = {
    {200, "What this server is: to a browser as a page.", NULL, &root_schema, NULL, NULL},
    {200, "The page.", "text/html", NULL, NULL, NULL},
    {200, "The events of MCP's first transport, if nothing else is accepted.", "text/event-stream", NULL, NULL, NULL},
    {0}};
static const struct kr_api_response page_ok[] = {{200, "The page.", "text/html", NULL, NULL, NULL}, {0}};
static const struct kr_api_response file_ok[] = {{200, "The file.", "application/octet-stream", NULL, NULL, NULL}, {0}};
static const struct kr_api_response moved[] = {{307, "It is at /docs.", NULL, NULL, NULL, NULL}, {0}};
static const struct kr_api_response openapi_ok[] = {{200, "OpenAPI 3.1.", "application/json", NULL, NULL, NULL}, {0}};
static const struct kr_api_param path_params[] = {{"path", "Its name.", "docs.js"}, {0}};

#define DOC(id_, summary_) .id = (id_), .tag = "info", .summary = (summary_), .voice = KR_API_DOCUMENT, .open = true
const struct kr_api_doc kr_api_root_doc = {DOC("read_root", "See what is served here"), .responses = root_ok};
const struct kr_api_doc kr_api_docs_doc = {DOC("show_docs", "The page of the API"), .hidden = true,
    .responses = page_ok};
const struct kr_api_doc kr_api_docs_again_doc = {DOC("show_docs_again", "The page of the API, with a slash"),
    .hidden = true, .responses = moved};
const struct kr_api_doc kr_api_redoc_doc = {DOC("show_redoc", "The page of the API, by its other name"), .hidden = true,
    .responses = moved};
const struct kr_api_doc kr_api_asset_doc = {DOC("read_asset", "A file that a page loads"), .hidden = true,
    .params = path_params, .responses = file_ok};
const struct kr_api_doc kr_api_favicon_doc = {DOC("read_icon", "The icon of the pages"), .hidden = true,
    .responses = file_ok};
const struct kr_api_doc kr_api_openapi_doc = {DOC("read_openapi", "Read the description of this API"),
    .responses = openapi_ok};
/* clang-format on */

/* ---- sending what stays in memory ---- */

/* kr_api.pages: the document of a listener, written at the first request for it and again when the administrator has
 * changed what it tells; the same rows and ceiling always give the same bytes. */
struct kr_pages {
    unsigned refs; /* of kr_api.pages and of replies that are being sent */
    struct kr_api_openapi about;
    struct kr_buf buf;
    char *gzip; /* the same compressed; NULL for want of memory */
    char etag[24], gzip_etag[32];
    struct kr_asset asset;
};

static void pages_unref(struct kr_pages *p)
{
    if (!p || --p->refs > 0)
        return;
    kr_buf_done(&p->buf);
    free(p->gzip);
    free(p);
}

#define PIECE 65536u

struct sending {
    const unsigned char *at;
    size_t left;
    struct kr_pages *of; /* what holds the bytes; NULL: the program */
};

static void free_sending(struct sending *s)
{
    pages_unref(s->of);
    free(s);
}

static void on_sending_gone(void *data, struct kr_http_ex *ex)
{
    (void)ex;
    free_sending(data);
}

static void on_sending_drain(void *data, struct kr_http_ex *ex)
{
    struct sending *s = data;

    while (s->left > 0) {
        size_t n = s->left < PIECE ? s->left : PIECE, waits = kr_http_write(ex, s->at, n);

        s->at += n;
        s->left -= n;
        if (waits > KR_HTTP_QUEUE_HIGH)
            return;
    }
    free_sending(s);
    kr_http_end(ex);
}

static void send_body(struct kr_http_ex *ex, const char *type, const struct kr_asset_body *body, struct kr_pages *of)
{
    static const struct kr_http_calls calls = {.on_drain = on_sending_drain, .on_gone = on_sending_gone};
    struct sending *s = body->len > KR_HTTP_QUEUE_HIGH ? malloc(sizeof *s) : NULL;

    if (!s) { /* short, or no memory: then the copy fails as well, and says so */
        kr_http_reply(ex, 200, type, body->data, body->len);
        return;
    }
    *s = (struct sending){body->data, body->len, of};
    if (of)
        of->refs++;
    kr_http_defer(ex, &calls, s);
    kr_http_begin(ex, 200, type, (int64_t)body->len);
    on_sending_drain(s, ex);
}

/* Headers fail only for want of memory; the page then has fewer of them, and the next request has them again. */
static void send_asset(struct kr_http_ex *ex, const struct kr_asset *a, enum kr_guard_kind kind, const char *vary,
                       struct kr_pages *of)
{
    struct kr_guard_header headers[KR_GUARD_HEADERS_MAX];
    size_t count = kr_guard_security_headers(kind, a->content_type, headers);
    struct kr_asset_reply reply;

    kr_asset_answer(a, kr_http_header(ex, "accept-encoding"), kr_http_header(ex, "if-none-match"), &reply);
    for (size_t i = 0; i < count; i++)
        kr_http_set_header(ex, headers[i].name, headers[i].value);
    kr_http_set_header(ex, "Cache-Control", a->cache_control);
    kr_http_set_header(ex, "ETag", reply.body->etag);
    if (vary)
        kr_http_set_header(ex, "Vary", vary);
    if (reply.vary)
        kr_http_set_header(ex, "Vary", "Accept-Encoding");
    if (reply.status == 304) {
        kr_http_reply(ex, 304, NULL, NULL, 0);
        return;
    }
    if (reply.content_encoding)
        kr_http_set_header(ex, "Content-Encoding", reply.content_encoding);
    send_body(ex, a->content_type, reply.body, of);
}

static void no_page(struct kr_http_ex *ex)
{
    kr_api_fail_status(ex, 404, "Not Found");
}

static void send_carried(struct kr_http_ex *ex, const char *path, const char *vary)
{
    const struct kr_asset *a = kr_asset_find(path, strlen(path));

    if (a)
        send_asset(ex, a, a->is_page ? KR_GUARD_PAGE : KR_GUARD_ASSET, vary, NULL);
    else
        no_page(ex);
}

void kr_api_asset(struct kr_http_ex *ex, void *app)
{
    (void)app;
    send_carried(ex, kr_http_path(ex), NULL);
}

/* ---- / ---- */

/* "000 sandbox-mcp", … */
static void write_documents(struct kr_json *j)
{
    char text[64];

    kr_json_key(j, "documents");
    kr_json_array(j);
    for (unsigned i = 0; i < KR_DIALECT_MAX_; i++) {
        if (!kr_dialects[i].document)
            continue;
        snprintf(text, sizeof text, "%s %s", kr_dialects[i].document, kr_dialect_names[i]);
        kr_json_str(j, text);
    }
    kr_json_array_end(j);
}

static void reply_root(struct kr_http_ex *ex, const struct kr_api *api)
{
    cleanup_buf struct kr_buf buf;
    struct kr_json j;

    kr_buf_init(&buf, KR_API_REPLY_MAX);
    kr_json_init(&j, &buf);
    kr_json_object(&j);
    kr_json_key_str(&j, "name", KR_API_NAME);
    kr_json_key_str(&j, "version", api->config.version);
    kr_json_key_str(&j, "status", "running");
    kr_json_key_str(&j, "mcp_endpoint", KR_API_MCP_ENDPOINT);
    kr_json_key_str(&j, "api_endpoint", KR_API_ENDPOINT);
    kr_json_key_str(&j, "openapi", "/openapi.json");
    kr_json_key_str(&j, "docs", kr_api_has_docs(api, kr_http_tag(ex)) ? "/docs" : "disabled");
    write_documents(&j);
    kr_json_object_end(&j);
    kr_http_set_header(ex, "Vary", "Accept");
    kr_api_reply(ex, 200, &buf);
}

void kr_api_root(struct kr_http_ex *ex, void *app)
{
    const char *accept = kr_http_header(ex, "accept");
    unsigned html = kr_api_accepts(accept, "text/html"), json = kr_api_accepts(accept, "application/json");

    if (html > 0 && html >= json)
        send_carried(ex, "/", "Accept");
    else
        reply_root(ex, app);
}

/* ---- /docs ---- */

bool kr_api_has_docs(const struct kr_api *api, unsigned tag)
{
    const struct kr_api_config *c = &api->config;

    return c->debug || tag >= KR_DIALECT_MAX_ || !kr_dialects[tag].docs_need_debug;
}

void kr_api_docs(struct kr_http_ex *ex, void *app)
{
    if (kr_api_has_docs(app, kr_http_tag(ex)))
        send_carried(ex, "/docs", NULL);
    else
        no_page(ex);
}

/* Relative, so that a proxy may put us beneath a path. */
static void redirect(struct kr_http_ex *ex, const struct kr_api *api, const char *location)
{
    if (!kr_api_has_docs(api, kr_http_tag(ex))) {
        no_page(ex);
        return;
    }
    kr_http_set_header(ex, "Location", location);
    kr_http_reply(ex, 307, NULL, NULL, 0);
}

void kr_api_docs_again(struct kr_http_ex *ex, void *app)
{
    redirect(ex, app, "../docs");
}

void kr_api_redoc(struct kr_http_ex *ex, void *app)
{
    redirect(ex, app, "docs");
}

/* ---- /openapi.json ---- */

/* FNV-1a: it tells versions apart, and guards nothing. */
static uint64_t hash(const char *data, size_t len)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
    return h;
}

/* The rows of the API and those that others serve beside it. */
static int write_openapi(struct kr_api *api, const struct kr_api_openapi *about, struct kr_buf *out, struct kr_err *err)
{
    uint64_t timeout_ms = about->most_ms[KR_API_CEILING_TIMEOUT];
    size_t count = 0;
    const struct kr_http_route *more = api->openapi_more ? api->openapi_more(api, timeout_ms, &count) : NULL;
    struct kr_http_route *all = calloc(kr_api_routes_count + count, sizeof *all);
    int r;

    if (!all || (api->openapi_more && !more)) {
        free(all);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "openapi");
    }
    memcpy(all, kr_api_routes, kr_api_routes_count * sizeof *all);
    if (more)
        memcpy(all + kr_api_routes_count, more, count * sizeof *all);
    r = kr_api_openapi_write(all, kr_api_routes_count + count, about, out, err);
    free(all);
    return r;
}

/* NULL with err. */
static struct kr_pages *write_pages(struct kr_api *api, const struct kr_api_openapi *about, struct kr_err *err)
{
    struct kr_pages *p = calloc(1, sizeof *p);

    if (!p) {
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "openapi");
        return NULL;
    }
    p->refs = 1;
    p->about = *about;
    kr_buf_init(&p->buf, KR_API_OPENAPI_MAX);
    if (write_openapi(api, about, &p->buf, err) < 0) {
        pages_unref(p);
        return NULL;
    }
    snprintf(p->etag, sizeof p->etag, "\"%016llx\"", (unsigned long long)hash(p->buf.data, p->buf.len));
    p->asset =
        (struct kr_asset){.path = "/openapi.json", .content_type = "application/json", .cache_control = "no-cache"};
    p->asset.identity = (struct kr_asset_body){(const unsigned char *)p->buf.data, p->buf.len, p->etag};
    if (kr_http_gzip(p->buf.data, p->buf.len, true, &p->gzip, &p->asset.gzip.len) == 0) {
        snprintf(p->gzip_etag, sizeof p->gzip_etag, "%.*s-gzip\"", (int)strlen(p->etag) - 1, p->etag);
        p->asset.gzip.data = (const unsigned char *)p->gzip;
        p->asset.gzip.etag = p->gzip_etag;
    }
    return p;
}

void kr_api_openapi(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_pages **p = &api->pages[kr_http_tag(ex)];
    struct kr_api_openapi about = {.version = api->config.version,
                                   .server_url = api->config.public_url,
                                   .auth = api->config.auth,
                                   .most_ms = {[KR_API_CEILING_TIMEOUT] = kr_api_profile(api, ex)->ceilings.timeout_ms,
                                               [KR_API_CEILING_LINK] = kr_api_link_most_s(api) * 1000}};
    struct kr_err err;

    if (*p &&
        memcmp((*p)->about.most_ms, about.most_ms, sizeof about.most_ms) != 0) { /* the settings were read again */
        pages_unref(*p);
        *p = NULL;
    }
    if (!*p)
        *p = write_pages(api, &about, &err);
    if (*p)
        send_asset(ex, &(*p)->asset, KR_GUARD_API, NULL, *p);
    else
        kr_api_fail(ex, &err);
}

void kr_api_pages_free(struct kr_api *api)
{
    for (unsigned i = 0; i < KR_DIALECT_MAX_; i++) {
        pages_unref(api->pages[i]);
        api->pages[i] = NULL;
    }
}
