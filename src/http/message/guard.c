/* The judge of Host, Origin and Fetch Metadata. The headers of replies are in guard_headers.c.
 *
 * Called by the HTTP engine for every request, before routing and before keys are looked at. Invariant: a request that
 * a page of another site made a browser send is let through only if that site's origin is configured, or if all it does
 * is open a tab or show a signed link; whatever cannot be read is refused. */
#include "guard.h"
#include "err.h"
#include "guard_internal.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 253u
#define LABEL_MAX_BYTES 63u

/* `host[:port]` taken apart; the host without brackets. */
struct authority {
    const char *host;
    size_t len;
    bool is_v6;
    int port; /* 0: not given; ANY_PORT: `*`, in our own lists only */
};

#define ANY_PORT (-1)

static bool same_name(const char *a, size_t a_len, const char *b, size_t b_len)
{
    /* A dot at the end says that the name is complete: the same name. */
    if (a_len > 1 && a[a_len - 1] == '.')
        a_len--;
    if (b_len > 1 && b[b_len - 1] == '.')
        b_len--;
    return a_len == b_len && strncasecmp(a, b, a_len) == 0;
}

/* The port after a `:`; 0 to refuse. */
static int read_port(const char *text, size_t len, bool star_allowed)
{
    int port = 0;

    if (star_allowed && len == 1 && text[0] == '*')
        return ANY_PORT;
    if (len == 0 || len > 5)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return 0;
        port = port * 10 + (text[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

static bool is_address(int family, const char *text, size_t len)
{
    char copy[INET6_ADDRSTRLEN];
    unsigned char address[sizeof(struct in6_addr)];

    if (len == 0 || len >= sizeof copy)
        return false;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return strlen(copy) == len && inet_pton(family, copy, address) == 1;
}

/* Letters, digits, `-` and `_` in labels of at most 63; a dot at the end is allowed. */
static bool is_name(const char *text, size_t len)
{
    size_t label = 0;

    if (len == 0 || len > NAME_MAX_BYTES + 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (c == '.' && label == 0)
            return false;
        if (c != '.' &&
            !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
        label = c == '.' ? 0 : label + 1;
        if (label > LABEL_MAX_BYTES)
            return false;
    }
    return true;
}

static int read_authority(const char *text, size_t len, bool star_allowed, struct authority *ret)
{
    const char *end = text + len, *after;

    *ret = (struct authority){.host = text};
    if (len > 0 && text[0] == '[') {
        after = memchr(text, ']', len);
        if (!after || !is_address(AF_INET6, text + 1, (size_t)(after - text - 1)))
            return -EINVAL;
        ret->is_v6 = true;
        ret->host = text + 1;
        ret->len = (size_t)(after - text - 1);
        after++;
    } else {
        after = memchr(text, ':', len);
        after = after ? after : end;
        ret->len = (size_t)(after - text);
        if (!is_name(ret->host, ret->len))
            return -EINVAL;
    }
    if (after == end)
        return 0;
    if (*after != ':')
        return -EINVAL;
    ret->port = read_port(after + 1, (size_t)(end - after - 1), star_allowed);
    return ret->port == 0 ? -EINVAL : 0;
}

static int default_port(const char *scheme, size_t len)
{
    if (len == 4 && strncasecmp(scheme, "http", 4) == 0)
        return 80;
    return len == 5 && strncasecmp(scheme, "https", 5) == 0 ? 443 : 0;
}

/* ---- rules ---- */

struct rule {
    char *text;      /* owned; the others point into it */
    bool any;        /* `*` */
    bool beneath;    /* `*.`: every name beneath host */
    size_t scheme;   /* length of the scheme at text; 0 for a host */
    int scheme_port; /* the scheme's own */
    struct authority at;
};

struct kr_guard {
    struct rule *hosts, *origins;
    size_t hosts_count, origins_count;
    struct rule public_origin; /* text NULL if there is none */
    bool any_host, any_origin, credentials;
};

static int read_rule_authority(struct rule *r, const char *text, size_t len, bool star_allowed)
{
    if (len > 2 && text[0] == '*' && text[1] == '.') {
        r->beneath = true;
        text += 2;
        len -= 2;
    }
    if (read_authority(text, len, star_allowed, &r->at) < 0)
        return -EINVAL;
    /* `*.` in front of an address means nothing. */
    return r->beneath && (r->at.is_v6 || is_address(AF_INET, r->at.host, r->at.len)) ? -EINVAL : 0;
}

/* `scheme://authority`, of which the path was cut off; -EINVAL for `null` and everything else that is no origin. */
static int read_origin(struct rule *r, size_t len, bool is_rule)
{
    const char *colon = memchr(r->text, ':', len), *rest;

    if (!colon || colon == r->text || (size_t)(r->text + len - colon) < 4 || memcmp(colon, "://", 3) != 0)
        return -EINVAL;
    r->scheme = (size_t)(colon - r->text);
    for (size_t i = 0; i < r->scheme; i++) {
        char c = r->text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (i > 0 && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'))))
            return -EINVAL;
    }
    r->scheme_port = default_port(r->text, r->scheme);
    rest = colon + 3;
    len -= (size_t)(rest - r->text);
    return is_rule ? read_rule_authority(r, rest, len, true) : read_authority(rest, len, false, &r->at);
}

/* Does the name of `host` fall under the rule? */
static bool name_matches(const struct rule *r, const struct authority *host)
{
    size_t len = host->len;

    if (r->at.is_v6 != host->is_v6)
        return false;
    if (!r->beneath)
        return same_name(r->at.host, r->at.len, host->host, host->len);
    if (len > 1 && host->host[len - 1] == '.')
        len--;
    return len > r->at.len + 1 && host->host[len - r->at.len - 1] == '.' &&
           same_name(r->at.host, r->at.len, host->host + len - r->at.len, r->at.len);
}

static bool origin_matches(const struct rule *r, const struct rule *origin)
{
    int want = r->at.port ? r->at.port : r->scheme_port, have = origin->at.port ? origin->at.port : origin->scheme_port;

    return r->scheme == origin->scheme && strncasecmp(r->text, origin->text, r->scheme) == 0 &&
           (want == ANY_PORT || want == have) && name_matches(r, &origin->at);
}

/* ---- making ---- */

static int add_rules(struct rule **ret, size_t *ret_count, const struct kr_words *list, bool origins,
                     struct kr_err *err)
{
    const char *what = origins ? "CORS origin" : "allowed host";
    struct rule *rules;

    if (list->count == 0)
        return 0;
    if (list->count > KR_GUARD_LIST_MAX) {
        kr_err_set(err, KR_ERR_INVALID, 0, "more than %u entries of the kind %s", KR_GUARD_LIST_MAX, what);
        return -EINVAL;
    }
    *ret = rules = calloc(list->count, sizeof *rules);
    if (!rules)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "%s", what);
    for (size_t i = 0; i < list->count; i++) {
        struct rule *r = &rules[i];
        size_t len = strlen(list->items[i]);
        int bad;

        r->text = strdup(list->items[i]);
        if (!r->text)
            return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "%s", what);
        *ret_count = i + 1;
        r->any = strcmp(list->items[i], "*") == 0;
        bad = r->any ? 0 : origins ? read_origin(r, len, true) : read_rule_authority(r, r->text, len, false);
        if (bad) {
            kr_err_set(err, KR_ERR_INVALID, 0, "%s \"%.80s\" is none: want %s", what, list->items[i],
                       origins ? "https://name[:port], https://*.name, http://name:* or *"
                               : "name[:port], *.name, an address, or *");
            return -EINVAL;
        }
    }
    return 0;
}

static int set_public_url(struct kr_guard *g, const char *url, struct kr_err *err)
{
    struct rule *r = &g->public_origin;
    const char *slashes = strstr(url, "://"), *path = slashes ? strpbrk(slashes + 3, "/?#") : NULL;

    r->text = path ? strndup(url, (size_t)(path - url)) : strdup(url);
    if (!r->text)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "public URL");
    if (read_origin(r, strlen(r->text), false) < 0 || r->scheme_port == 0) {
        kr_err_set(err, KR_ERR_INVALID, 0, "public URL \"%.80s\" is none: want http://name[:port][/path] or https",
                   url);
        return -EINVAL;
    }
    return 0;
}

int kr_guard_new(const struct kr_guard_config *config, struct kr_guard **ret, struct kr_err *err)
{
    struct kr_guard *g = calloc(1, sizeof *g);
    int r;

    if (!g)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "guard");
    r = add_rules(&g->hosts, &g->hosts_count, &config->allowed_hosts, false, err);
    if (r == 0)
        r = add_rules(&g->origins, &g->origins_count, &config->cors_origins, true, err);
    if (r == 0 && config->public_url)
        r = set_public_url(g, config->public_url, err);
    for (size_t i = 0; i < g->hosts_count; i++)
        g->any_host |= g->hosts[i].any;
    for (size_t i = 0; i < g->origins_count; i++)
        g->any_origin |= g->origins[i].any;
    g->credentials = config->cors_credentials;
    if (r == 0 && g->any_origin && g->credentials) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the CORS origin * and CORS credentials exclude each other");
        r = -EINVAL;
    }
    if (r < 0) {
        kr_guard_free(g);
        return r;
    }
    *ret = g;
    return 0;
}

void kr_guard_free(struct kr_guard *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->hosts_count; i++)
        free(g->hosts[i].text);
    for (size_t i = 0; i < g->origins_count; i++)
        free(g->origins[i].text);
    free(g->public_origin.text);
    free(g->hosts);
    free(g->origins);
    free(g);
}

bool kr_guard_has_credentials(const struct kr_guard *g)
{
    return g->credentials;
}

/* ---- judging ---- */

/* Names that no foreign DNS server can point at us: addresses, localhost, names without a dot. */
static bool is_local_host(const struct authority *host)
{
    if (host->is_v6 || is_address(AF_INET, host->host, host->len))
        return true;
    if (same_name(host->host, host->len, "localhost", 9))
        return true;
    return !memchr(host->host, '.', host->len); /* `ai.` is a top-level domain and has a dot */
}

static bool host_passes(const struct kr_guard *g, const struct authority *host)
{
    if (g->any_host || is_local_host(host))
        return true;
    if (g->public_origin.text && name_matches(&g->public_origin, host))
        return true;
    for (size_t i = 0; i < g->hosts_count; i++)
        if (name_matches(&g->hosts[i], host) && (g->hosts[i].at.port == 0 || g->hosts[i].at.port == host->port))
            return true;
    return false;
}

/* The origin of the page that this server itself would serve under this Host. Its scheme is not known here (TLS ends at
 * a proxy), so a Host without a port stands for both default ports. */
static bool is_own_origin(const struct kr_guard *g, const struct rule *origin, const struct authority *host)
{
    int port = origin->at.port ? origin->at.port : origin->scheme_port;

    if (g->public_origin.text && origin_matches(&g->public_origin, origin))
        return true;
    if (origin->scheme_port == 0 || origin->at.is_v6 != host->is_v6)
        return false;
    return same_name(origin->at.host, origin->at.len, host->host, host->len) &&
           port == (host->port ? host->port : origin->scheme_port);
}

static bool is_cors_origin(const struct kr_guard *g, const struct rule *origin)
{
    for (size_t i = 0; i < g->origins_count; i++)
        if (!g->origins[i].any && origin_matches(&g->origins[i], origin))
            return true;
    return false;
}

static bool is_word(const char *value, const char *word)
{
    return value && strcmp(value, word) == 0;
}

static bool begins_path(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(path, prefix, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* Where MCP's clients talk; they know the words of its own library. */
static bool is_mcp_path(const char *path)
{
    static const char *const paths[] = {"/mcp", "/sse", "/messages", "/message", "/ai/sandbox/v1/mcp"};

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        if (begins_path(path, paths[i]))
            return true;
    return false;
}

static void refuse_host(const struct kr_guard_request *r, struct kr_guard_verdict *v)
{
    bool mcp = is_mcp_path(r->path);

    v->status = mcp ? 421 : 400;
    v->text = mcp ? "Invalid Host header" : "Invalid host header";
    v->hint = "allowed_hosts or public_url would allow this Host";
}

static void refuse_origin(const struct kr_guard_request *r, struct kr_guard_verdict *v, const char *hint)
{
    v->status = 403;
    v->text = is_mcp_path(r->path) ? "Invalid Origin header" : "Cross-site requests are refused";
    v->hint = hint;
}

static void judge_origin(const struct kr_guard *g, const struct kr_guard_request *r, const struct authority *host,
                         struct kr_guard_verdict *v)
{
    struct rule origin = {.text = (char *)r->origin};
    bool readable = read_origin(&origin, strlen(r->origin), false) == 0;
    bool listed = readable && is_cors_origin(g, &origin);

    if (readable && !listed && is_own_origin(g, &origin, host)) {
        /* Seen by the browser as another site all the same: http and https of one name. */
        if (is_word(r->sec_fetch_site, "cross-site"))
            refuse_origin(r, v, "public_url and the address of the page differ in http and https");
        return;
    }
    if (!readable || (!listed && !g->any_origin)) {
        refuse_origin(r, v,
                      readable ? "cors_origins would allow this Origin; behind a proxy, public_url names our own"
                               : "the Origin is null or cannot be read: no setting allows it");
        return;
    }
    v->cors = true;
    v->any_origin = !listed;
    v->origin = r->origin;
    v->is_preflight = strcmp(r->method, "OPTIONS") == 0 && r->ac_request_method;
    v->private_network = v->is_preflight && is_word(r->ac_request_private_network, "true");
    v->status = v->is_preflight ? 204 : 0;
}

static void judge_site(const struct kr_guard_request *r, struct kr_guard_verdict *v)
{
    bool reads = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;
    bool opens_tab = is_word(r->sec_fetch_mode, "navigate") && is_word(r->sec_fetch_dest, "document");

    if (is_word(r->sec_fetch_site, "cross-site") && !(reads && (opens_tab || r->is_link)))
        refuse_origin(r, v, "a page of another site asked for this; no setting allows it without an Origin");
}

static bool is_this_machine(const char *address)
{
    return address && (strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 || strcmp(address, "unix") == 0);
}

/* HTTP/1.0 has no Host; from this machine that is taken for localhost: a browser, which a page of another site could
 * use, always sends one. */
void kr_guard_judge(const struct kr_guard *g, const struct kr_guard_request *r, struct kr_guard_verdict *v)
{
    const char *name = !r->host && is_this_machine(r->address) ? "localhost" : r->host;
    struct authority host;

    *v = (struct kr_guard_verdict){.vary_origin = g->origins_count > 0 && !g->any_origin};
    if (!name || read_authority(name, strlen(name), false, &host) < 0 || !host_passes(g, &host))
        refuse_host(r, v);
    else if (r->origin)
        judge_origin(g, r, &host, v);
    else
        judge_site(r, v);
}
