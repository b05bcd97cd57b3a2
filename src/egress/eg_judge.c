/* What a request asks for, and whether it may have it.
 *
 * Called by eg_conn.c for every head, and again when a cell's rule changes. Invariant: after kr_eg_request_read() there
 * is one host, in one spelling: what the rule judges, what is resolved and what the server is told. A request that
 * names two is refused. */
#include "eg_judge.h"
#include "address.h"
#include "proto.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_BYTES 253u
#define LABEL_MAX 63u
#define HTTP_PORT 80u
#define TLS_PORT 443u

int kr_eg_refusal_set(struct kr_eg_refusal *r, unsigned status, enum kr_eg_verdict verdict, const char *fmt, ...)
{
    va_list args;

    r->status = status;
    r->verdict = verdict;
    va_start(args, fmt);
    vsnprintf(r->why, sizeof r->why, fmt, args);
    va_end(args);
    return -EINVAL;
}

const struct kr_http_field *kr_eg_head_field(const char *bytes, const struct kr_http_head *h, const char *name)
{
    for (unsigned i = 0; i < h->count; i++)
        if (h->fields[i].name.len == strlen(name) &&
            strncasecmp(bytes + h->fields[i].name.at, name, h->fields[i].name.len) == 0)
            return &h->fields[i];
    return NULL;
}

/* ---- one spelling of hosts ---- */

/* Labels of letters, digits, hyphens and underscores, which some names of services have. */
static bool is_name(const char *name, size_t len)
{
    size_t label = 0;

    for (size_t i = 0; i < len; i++) {
        char c = name[i];

        if (c == '.' ? label == 0 : ++label > LABEL_MAX)
            return false;
        if (c == '.')
            label = 0;
        else if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'))
            return false;
    }
    return label > 0 && len <= NAME_MAX_BYTES;
}

static int read_port(const char *text, size_t len, uint16_t *port)
{
    unsigned value = 0;

    if (len == 0 || len > 5 || text[0] == '0')
        return -EINVAL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    if (value > UINT16_MAX)
        return -EINVAL;
    *port = (uint16_t)value;
    return 0;
}

static int read_host(const char *text, size_t len, bool brackets, char host[KR_EG_HOST_ROOM])
{
    struct sockaddr_storage address;
    enum kr_eg_host_kind kind;

    if (len > 1 && !brackets && text[len - 1] == '.')
        len--;
    if (len == 0 || len >= KR_EG_HOST_ROOM)
        return -EINVAL;
    for (size_t i = 0; i < len; i++)
        host[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] + ('a' - 'A')) : text[i];
    host[len] = '\0';
    kind = kr_eg_host_read(host, &address);
    if (brackets ? kind != KR_EG_HOST_LITERAL || address.ss_family != AF_INET6
                 : kind == KR_EG_HOST_LITERAL && address.ss_family != AF_INET)
        return -EINVAL;
    if (kind == KR_EG_HOST_LITERAL)
        kr_eg_address_text((const struct sockaddr *)&address, host, KR_EG_HOST_ROOM);
    else if (!is_name(host, len)) /* KR_EG_HOST_BAD of a good name is for the dial to explain */
        return -EINVAL;
    return 0;
}

int kr_eg_authority_read(const char *text, size_t len, char host[KR_EG_HOST_ROOM], uint16_t *port)
{
    bool brackets = len > 0 && text[0] == '[';
    const char *from = text + brackets;
    const char *end = memchr(from, brackets ? ']' : ':', len - brackets);
    size_t host_len = end ? (size_t)(end - from) : len - brackets;
    const char *rest = from + host_len;

    if (brackets) {
        if (!end)
            return -EINVAL;
        rest++;
    }
    if (rest < text + len && (*rest != ':' || read_port(rest + 1, (size_t)(text + len - rest - 1), port) < 0))
        return -EINVAL;
    return read_host(from, host_len, brackets, host);
}

/* ---- requests ---- */

static int take_target(struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_slice *path = &c->req.head.path, *query = &c->req.head.query;
    bool has_query = query->at > 0 && bytes[query->at - 1] == '?';

    free(c->target);
    c->target = NULL;
    if (asprintf(&c->target, "%.*s%s%.*s", path->len, bytes + path->at, has_query ? "?" : "", query->len,
                 bytes + query->at) < 0) {
        c->target = NULL;
        return kr_eg_refusal_set(refusal, 503, KR_EG_FAILED, "out of memory");
    }
    c->req.path = c->target;
    return 0;
}

static int disagree(const struct kr_eg_conn *c, const char *field, struct kr_eg_refusal *refusal)
{
    return kr_eg_refusal_set(refusal, 403, KR_EG_DENIED,
                             "the request is for %.80s:%u and its Host field says %.80s: they must be the same",
                             c->req.host, c->req.port, field);
}

/* The field Host: of the same host, and of the same port. CONNECT's may leave it out. */
static int check_host_field(const struct kr_eg_conn *c, uint16_t usual_port, struct kr_eg_refusal *refusal)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_field *f = kr_eg_head_field(bytes, &c->req.head, "host");
    char host[KR_EG_HOST_ROOM], text[96];
    uint16_t port = usual_port;

    if (!f)
        return 0; /* HTTP/1.0: the parser demands one of others */
    snprintf(text, sizeof text, "%.*s", f->value.len, bytes + f->value.at);
    if (kr_eg_authority_read(bytes + f->value.at, f->value.len, host, &port) < 0 || strcmp(host, c->req.host) != 0 ||
        port != c->req.port)
        return disagree(c, text, refusal);
    return 0;
}

static int read_connect(struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_slice *a = &c->req.head.authority;

    c->req.connect = true;
    if (kr_eg_authority_read(bytes + a->at, a->len, c->req.host, &c->req.port) < 0 || c->req.port == 0) {
        c->req.host[0] = '\0';
        return kr_eg_refusal_set(refusal, 400, KR_EG_DENIED, "CONNECT needs HOST:PORT, in their usual spelling");
    }
    return check_host_field(c, c->req.port, refusal);
}

/* 127.0.0.1:3128, as the cell knows this listener. */
static bool is_listener(const char *host, uint16_t port)
{
    return port == KR_EGRESS_PORT && (strcmp(host, "127.0.0.1") == 0 || strcmp(host, "localhost") == 0);
}

static int read_absolute(struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_slice *a = &c->req.head.authority;

    c->req.port = HTTP_PORT;
    if (kr_eg_authority_read(bytes + a->at, a->len, c->req.host, &c->req.port) < 0) {
        c->req.host[0] = '\0';
        return kr_eg_refusal_set(refusal, 400, KR_EG_DENIED, "the host of the address is not in its usual spelling");
    }
    if ((bytes[a->at - 4] | 32) == 's')
        return kr_eg_refusal_set(refusal, 400, KR_EG_FAILED,
                                 "https addresses are reached through CONNECT, and this request was sent in the clear");
    c->req.origin = is_listener(c->req.host, c->req.port); /* a client that asks the proxy for the proxy's own */
    return check_host_field(c, HTTP_PORT, refusal);
}

/* Of this listener. */
static int read_origin(struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_field *f = kr_eg_head_field(bytes, &c->req.head, "host");
    char host[KR_EG_HOST_ROOM];
    uint16_t port = HTTP_PORT;

    c->req.origin = true;
    strcpy(c->req.host, "127.0.0.1");
    c->req.port = KR_EGRESS_PORT;
    if (f && kr_eg_authority_read(bytes + f->value.at, f->value.len, host, &port) == 0 && is_listener(host, port))
        return 0;
    return kr_eg_refusal_set(refusal, 400, KR_EG_FAILED, "this is krait's proxy: ask it for an address as a whole");
}

/* Inside a tunnel whose TLS ends here: for the tunnel's host, whatever form it has. */
static int read_inside(struct kr_eg_conn *c, struct kr_eg_refusal *refusal)
{
    memcpy(c->req.host, c->inside_host, sizeof c->req.host);
    c->req.port = c->inside_port;
    if (strcmp(c->req.method, "CONNECT") == 0 || c->req.head.authority.len > 0 || c->target[0] != '/')
        return kr_eg_refusal_set(refusal, 400, KR_EG_FAILED, "inside a tunnel a request names a path");
    return check_host_field(c, TLS_PORT, refusal);
}

int kr_eg_request_read(struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal)
{
    const struct kr_http_head *h = &c->req.head;
    const char *bytes = kr_buf_str(&c->head);
    int r;

    c->req.connect = c->req.origin = false;
    c->req.host[0] = c->req.method[0] = '\0';
    c->req.port = 0;
    if (h->method_text.len >= sizeof c->req.method)
        return kr_eg_refusal_set(ret_refusal, 400, KR_EG_FAILED, "the method is longer than %zu bytes",
                                 sizeof c->req.method - 1);
    snprintf(c->req.method, sizeof c->req.method, "%.*s", h->method_text.len, bytes + h->method_text.at);
    r = take_target(c, ret_refusal);
    if (r < 0 || !c->target)
        return r;
    if (c->inside)
        return read_inside(c, ret_refusal);
    if (strcmp(c->req.method, "CONNECT") == 0)
        return read_connect(c, ret_refusal);
    if (h->authority.len > 0)
        return read_absolute(c, ret_refusal);
    if (c->target[0] != '/')
        return kr_eg_refusal_set(ret_refusal, 400, KR_EG_FAILED, "this is no address to ask for here");
    return read_origin(c, ret_refusal);
}

/* ---- the rule ---- */

static bool refuse_by_rule(const struct kr_eg_conn *c, const char *what, struct kr_eg_refusal *refusal)
{
    char rule[KR_NET_RULE_ROOM];

    kr_net_rule_text(&c->cell->rule, rule, sizeof rule);
    kr_eg_refusal_set(
        refusal, 403, KR_EG_DENIED,
        "%s the network rule %.60s%s; the sandbox's setting \"network\" allows it (krait run: --network), "
        "within the server's max_network",
        what, rule, strlen(rule) > 60 ? "..." : "");
    return false;
}

bool kr_eg_request_allowed(const struct kr_eg_conn *c, struct kr_eg_refusal *ret_refusal)
{
    const struct kr_net_rule *rule = &c->cell->rule;
    const struct kr_eg_request *q = &c->req;

    if (q->origin)
        return kr_net_rule_allows_index(rule) || refuse_by_rule(c, "the package index is not in", ret_refusal);
    if (q->connect || c->inside)
        return kr_net_rule_allows(rule, q->host, q->port) || refuse_by_rule(c, "it is not in", ret_refusal);
    if (kr_net_rule_allows_request(rule, q->method, q->host, q->port, q->path))
        return true;
    return refuse_by_rule(c,
                          kr_net_rule_allows_request(rule, q->method, q->host, q->port, "/") ||
                                  kr_net_rule_allows_request(rule, "GET", q->host, q->port, q->path)
                              ? "this method and path are not in"
                              : "it is not in",
                          ret_refusal);
}
