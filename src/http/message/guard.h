/* Who may talk to us from a browser: Host against DNS rebinding, Origin and Fetch Metadata against requests of other
 * sites, CORS for configured origins, and the security headers of every reply. Pure: the HTTP engine asks before it
 * routes or authenticates, and emits the headers.
 *
 * Nothing here stands in for a key: a client that is no browser can say any Host and Origin. It keeps a page the user
 * has open elsewhere from using the user's own access (to a loopback listener without a key above all). */
#pragma once
#include "words.h"
#include <stdbool.h>
#include <stddef.h>

struct kr_err;
struct kr_guard; /* opaque, immutable once made */

/* Lists as they were configured; copied. */
struct kr_guard_config {
    struct kr_words allowed_hosts; /* "example.org", "*.example.org" (any name beneath, not itself), "name:8080", "*"
                                      (every Host: switches the check off) */
    struct kr_words cors_origins;  /* "https://app.example.org", "http://localhost:*" (any port), "*"; the name may
                                      be of the form *.example.org as well */
    const char *public_url;        /* NULL or "https://krait.example.org/path": its host and its origin are ours */
    bool cors_credentials;         /* Access-Control-Allow-Credentials; refused together with the origin "*" */
};

#define KR_GUARD_LIST_MAX 256u /* entries of either list */

/* *ret to be freed. -EINVAL names the entry that cannot be read (an origin `null` among them); -ENOMEM. */
int kr_guard_new(const struct kr_guard_config *config, struct kr_guard **ret, struct kr_err *err);
void kr_guard_free(struct kr_guard *g);

/* What a reply is; decides its security headers, and LINK also who may ask. */
enum kr_guard_kind {
    KR_GUARD_API,   /* JSON, NDJSON, SSE, plain text */
    KR_GUARD_PAGE,  /* our own HTML */
    KR_GUARD_ASSET, /* scripts, styles, icons of our pages */
    KR_GUARD_FILE,  /* a user's file: never trusted as a page of ours */
    KR_GUARD_LINK,  /* the same by a signed link: may be shown as an image in another site's page */
    KR_GUARD_MAX_,
};

/* A request, as its header lines say; NULL: the header is absent. */
struct kr_guard_request {
    const char *method, *path;
    const char *host, *origin;
    const char *address; /* of the peer, as kr_http_peer() writes it; NULL: unknown */
    const char *sec_fetch_site, *sec_fetch_mode, *sec_fetch_dest;
    const char *ac_request_method;          /* Access-Control-Request-Method */
    const char *ac_request_private_network; /* Access-Control-Request-Private-Network */
    bool is_link;                           /* the route is a signed link (KR_GUARD_LINK) */
};

struct kr_guard_verdict {
    int status; /* 0: go on. 204: a preflight, answer it with the CORS headers and no body. 400, 403, 421: refuse */
    const char *text; /* of a refusal, for the client: what our documents' clients know ("Invalid host header") */
    const char *hint; /* of a refusal, for the log: which setting would allow it; else NULL */
    bool cors;        /* CORS headers belong on the reply, whatever it will be (errors too) */
    bool vary_origin; /* CORS is configured: caches must tell origins apart */
    bool any_origin;  /* answered by `*` */
    bool is_preflight;
    bool private_network;
    const char *origin; /* the request's own string */
};

/* Judges Host, then Origin, then Sec-Fetch-Site. Host: IP literals, localhost, single-label names, the host of
 * public_url and allowed_hosts pass; everything else is 400 `Invalid host header`, on MCP's paths 421 `Invalid Host
 * header`. Origin: our own (the one the Host header names, or public_url's) and cors_origins pass; `null` and every
 * other is 403. Without Origin: `Sec-Fetch-Site: cross-site` is 403 but for a GET or HEAD that opens a tab
 * (Sec-Fetch-Mode navigate, Sec-Fetch-Dest document) or asks for a signed link. */
void kr_guard_judge(const struct kr_guard *g, const struct kr_guard_request *r, struct kr_guard_verdict *v);

struct kr_guard_header {
    const char *name, *value;
};
#define KR_GUARD_HEADERS_MAX 10u

/* The CORS header lines of a verdict; returns how many. Values live as long as the guard and the request. */
size_t kr_guard_cors_headers(const struct kr_guard *g, const struct kr_guard_verdict *v,
                             struct kr_guard_header out[KR_GUARD_HEADERS_MAX]);
/* The security header lines of a reply of this kind; content_type matters for files only (may be NULL). Returns how
 * many. Values are static. Cache-Control is not among them: the route's. */
size_t kr_guard_security_headers(enum kr_guard_kind kind, const char *content_type,
                                 struct kr_guard_header out[KR_GUARD_HEADERS_MAX]);
/* The Content-Security-Policy of our pages. */
