/* The header lines that tell a browser what it may do with a reply: one table.
 *
 * Called by the HTTP engine for every reply it writes. Invariant: every kind of reply says nosniff, who may frame it
 * and what it may load; `*` and credentials never stand together. docs/design/web.md says why each line is there. */
#include "guard.h"
#include "guard_internal.h"
#include <assert.h>
#include <string.h>
#include <strings.h>

/* Our pages: scripts and styles from files of ours, no inline ones, no other host. Data and blob images are figures. */
#define PAGE_CSP                                                                                                       \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "           \
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

/* Nothing in such a reply is meant to load anything. */
#define INERT_CSP "default-src 'none'; frame-ancestors 'none'"

/* A user's HTML may be a report that draws with scripts: they run, in an origin of their own (`sandbox` without
 * allow-same-origin), and reach neither this server nor another. */
#define FILE_LOADS                                                                                                     \
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data:; "      \
    "img-src 'self' data: blob:; media-src 'self' data: blob:; font-src data:; worker-src blob:; base-uri 'none'; "    \
    "form-action 'none'; frame-ancestors 'self'"
#define FILE_CSP "sandbox allow-scripts; " FILE_LOADS
/* Browsers do not start their PDF viewer in a sandboxed document; the viewer's origin is its own anyway. */
#define PDF_CSP "default-src 'none'; object-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'"

struct row {
    const char *name;
    const char *value[KR_GUARD_MAX_]; /* NULL: not on this kind */
};

/* clang-format off */
static const struct row rows[] = {
    /*                                API          PAGE           ASSET          FILE           LINK */
    {"X-Content-Type-Options",       {"nosniff",   "nosniff",     "nosniff",     "nosniff",     "nosniff"}},
    {"Content-Security-Policy",      {INERT_CSP,   PAGE_CSP,      INERT_CSP,     FILE_CSP,      FILE_CSP}},
    {"X-Frame-Options",              {"DENY",      "DENY",        "DENY",        "SAMEORIGIN",  "SAMEORIGIN"}},
    {"Referrer-Policy",              {"no-referrer", "no-referrer", "no-referrer", "no-referrer", "no-referrer"}},
    {"Cross-Origin-Resource-Policy", {"same-origin", "same-origin", "same-origin", "same-origin", "cross-origin"}},
    {"Cross-Origin-Opener-Policy",   {NULL,        "same-origin", NULL,          "same-origin", "same-origin"}},
    {"Permissions-Policy",           {NULL,        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
                                      NULL,        NULL,          NULL}},
};
/* clang-format on */
static_assert(sizeof rows / sizeof rows[0] <= KR_GUARD_HEADERS_MAX, "every row fits the caller's array");

static bool is_pdf(const char *content_type)
{
    static const char pdf[] = "application/pdf";

    return content_type && strncasecmp(content_type, pdf, sizeof pdf - 1) == 0;
}

size_t kr_guard_security_headers(enum kr_guard_kind kind, const char *content_type,
                                 struct kr_guard_header out[KR_GUARD_HEADERS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *value = rows[i].value[kind];

        if (!value)
            continue;
        if ((kind == KR_GUARD_FILE || kind == KR_GUARD_LINK) && is_pdf(content_type) && strcmp(value, FILE_CSP) == 0)
            value = PDF_CSP;
        out[n++] = (struct kr_guard_header){rows[i].name, value};
    }
    return n;
}

#define ALLOWED_METHODS "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
/* Named one by one: `*` does not cover Authorization. */
#define ALLOWED_HEADERS                                                                                                \
    "Accept, Authorization, Content-Type, If-None-Match, Last-Event-ID, MCP-Protocol-Version, Mcp-Method, Mcp-Name, "  \
    "Mcp-Session-Id, X-API-Key, X-Request-ID"
#define EXPOSED_HEADERS                                                                                                \
    "Content-Disposition, Mcp-Session-Id, Retry-After, WWW-Authenticate, X-Request-ID, X-Run-Id, X-Session-Id"

size_t kr_guard_cors_headers(const struct kr_guard *g, const struct kr_guard_verdict *v,
                             struct kr_guard_header out[KR_GUARD_HEADERS_MAX])
{
    size_t n = 0;

    if (v->vary_origin)
        out[n++] = (struct kr_guard_header){"Vary", "Origin"};
    if (!v->cors)
        return n;
    out[n++] = (struct kr_guard_header){"Access-Control-Allow-Origin", v->any_origin ? "*" : v->origin};
    if (kr_guard_has_credentials(g) && !v->any_origin)
        out[n++] = (struct kr_guard_header){"Access-Control-Allow-Credentials", "true"};
    if (!v->is_preflight) {
        out[n++] = (struct kr_guard_header){"Access-Control-Expose-Headers", EXPOSED_HEADERS};
        return n;
    }
    out[n++] = (struct kr_guard_header){"Access-Control-Allow-Methods", ALLOWED_METHODS};
    out[n++] = (struct kr_guard_header){"Access-Control-Allow-Headers", ALLOWED_HEADERS};
    out[n++] = (struct kr_guard_header){"Access-Control-Max-Age", "600"};
    if (v->private_network)
        out[n++] = (struct kr_guard_header){"Access-Control-Allow-Private-Network", "true"};
    return n;
}
