/* The router: patterns compiled into a tree of segments, paths decoded strictly and matched against it. Called by
 * conn.c for every request and by the server at its start.
 *
 * Invariant: a lookup allocates nothing, and what a handler gets as a parameter is valid UTF-8 without control
 * characters, slashes (but for `{name*}`, where `%2F` is one too), backslashes or dot segments, however it was
 * spelled. */
#include "route.h"
#include "err.h"
#include "utf8.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_MAX 4096u

/* A segment of a pattern: a node of the tree. Nodes name each other by index; 0 is the root and means "none". */
struct node {
    const char *text; /* literal; points into the pattern */
    unsigned len;
    unsigned next;        /* sibling */
    unsigned child;       /* first literal one */
    unsigned param, rest; /* `{name}` and `{name*}` */
    const struct kr_http_route *rows[KR_HTTP_OTHER];
};

struct kr_http_router {
    struct node *nodes;
    unsigned count, room;
};

/* ---- compiling ---- */

static int node_add(struct kr_http_router *r, unsigned *ret_index)
{
    if (r->count == r->room) {
        unsigned room = r->room ? 2 * r->room : 64;
        struct node *nodes = room <= NODES_MAX ? realloc(r->nodes, room * sizeof *nodes) : NULL;

        if (!nodes)
            return -ENOMEM;
        r->nodes = nodes;
        r->room = room;
    }
    r->nodes[r->count] = (struct node){.text = NULL};
    *ret_index = r->count++;
    return 0;
}

enum segment_kind { SEGMENT_LITERAL, SEGMENT_PARAM, SEGMENT_REST, SEGMENT_BAD };

static bool is_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= '0' && text[i] <= '9') || text[i] == '_'))
            return false;
    return len > 0;
}

static enum segment_kind segment_kind(const char *text, size_t len)
{
    if (len == 0 || text[0] != '{')
        return memchr(text, '{', len) || memchr(text, '}', len) || memchr(text, '%', len) ? SEGMENT_BAD
                                                                                          : SEGMENT_LITERAL;
    if (text[len - 1] != '}')
        return SEGMENT_BAD;
    if (len > 3 && text[len - 2] == '*')
        return is_name(text + 1, len - 3) ? SEGMENT_REST : SEGMENT_BAD;
    return is_name(text + 1, len - 2) ? SEGMENT_PARAM : SEGMENT_BAD;
}

static unsigned find_literal(const struct kr_http_router *r, unsigned at, const char *text, size_t len)
{
    unsigned i = r->nodes[at].child;

    while (i != 0 && !(r->nodes[i].len == len && memcmp(r->nodes[i].text, text, len) == 0))
        i = r->nodes[i].next;
    return i;
}

/* The child of `at` for a segment, made if it is not there. */
static int descend(struct kr_http_router *r, unsigned at, const char *text, size_t len, unsigned *ret_index)
{
    enum segment_kind kind = segment_kind(text, len);
    unsigned found = 0;
    int e;

    if (kind == SEGMENT_BAD)
        return -EINVAL;
    if (kind == SEGMENT_LITERAL)
        found = find_literal(r, at, text, len);
    else
        found = kind == SEGMENT_PARAM ? r->nodes[at].param : r->nodes[at].rest;
    if (found == 0) {
        e = node_add(r, &found);
        if (e < 0)
            return e;
        r->nodes[found].text = text;
        r->nodes[found].len = (unsigned)len;
        if (kind == SEGMENT_LITERAL) {
            r->nodes[found].next = r->nodes[at].child;
            r->nodes[at].child = found;
        } else if (kind == SEGMENT_PARAM) {
            r->nodes[at].param = found;
        } else {
            r->nodes[at].rest = found;
        }
    }
    *ret_index = found;
    return kind == SEGMENT_REST;
}

static int add_route(struct kr_http_router *r, const struct kr_http_route *row, struct kr_err *err)
{
    const char *p = row->pattern;
    unsigned at = 0, params = 0, segments = 0;
    int e = 0;

    if (!p || *p != '/' || row->method >= KR_HTTP_OTHER || !row->handler)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "route %s: not a row", p ? p : "(none)");
    while (*p == '/' && e == 0) {
        size_t len = strcspn(++p, "/");

        params += *p == '{';
        e = descend(r, at, p, len, &at);
        p += len;
        segments++;
    }
    if (e < 0 || *p != '\0' || params > KR_HTTP_PARAMS_MAX || segments > KR_HTTP_SEGMENTS_MAX)
        return kr_err_set(err, KR_ERR_INTERNAL, e < 0 ? -e : EINVAL, "route %s: malformed pattern", row->pattern);
    if (r->nodes[at].rows[row->method])
        return kr_err_set(err, KR_ERR_INTERNAL, EEXIST, "route %s: given twice", row->pattern);
    r->nodes[at].rows[row->method] = row;
    return 0;
}

int kr_http_router_new(const struct kr_http_route *routes, size_t count, struct kr_http_router **ret_router,
                       struct kr_err *err)
{
    struct kr_http_router *r = calloc(1, sizeof *r);
    unsigned root;
    int e = 0;

    if (!r || node_add(r, &root) < 0) {
        kr_http_router_free(r);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "routes");
    }
    for (size_t i = 0; e >= 0 && i < count; i++)
        e = add_route(r, &routes[i], err);
    if (e < 0) {
        kr_http_router_free(r);
        return e;
    }
    *ret_router = r;
    return 0;
}

void kr_http_router_free(struct kr_http_router *router)
{
    if (!router)
        return;
    free(router->nodes);
    free(router);
}

/* ---- decoding ---- */

struct segments {
    unsigned count;
    bool more; /* than are listed */
    char *at[KR_HTTP_SEGMENTS_MAX];
    unsigned len[KR_HTTP_SEGMENTS_MAX];
    bool slashed; /* some have a slash that was written as %2F: they fit nothing but `{name*}` */
    char *end;    /* of the decoded path */
};

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character of a segment, decoded to *out: how many bytes of input it took, 0 if it must be refused. */
static size_t decode_one(const char *p, size_t len, char *out)
{
    unsigned char c = (unsigned char)*p;
    int high, low;

    if (c == '%') {
        if (len < 3 || (high = hex(p[1])) < 0 || (low = hex(p[2])) < 0)
            return 0;
        c = (unsigned char)(high << 4 | low);
    }
    if (c < 0x20 || c == 0x7f || c == '\\')
        return 0;
    *out = (char)c;
    return *p == '%' ? 3 : 1;
}

static bool segment_is_good(const char *text, size_t len)
{
    if ((len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.'))
        return false;
    for (size_t i = 0; i < len;) {
        int n = kr_utf8_next((const unsigned char *)text + i, len - i, NULL);

        if (n <= 0)
            return false;
        i += (size_t)n;
    }
    return true;
}

/* As segment_is_good(), for each part of one that has encoded slashes: a parameter that takes them is a path, and none
 * of its parts may climb. */
static bool parts_are_good(const char *text, size_t len)
{
    for (const char *end = text + len; text <= end;) {
        const char *slash = memchr(text, '/', (size_t)(end - text)), *to = slash ? slash : end;

        if (!segment_is_good(text, (size_t)(to - text)))
            return false;
        text = to + 1;
    }
    return true;
}

/* Decodes into `out`, segments parted by '/', and lists them. 0 or -EINVAL. */
static int decode_path(const char *p, size_t len, char *out, struct segments *s)
{
    const char *end = p + len;

    s->count = 0;
    s->more = s->slashed = false;
    while (p < end && *p == '/') {
        char *from = ++out;

        for (p++; p < end && *p != '/'; out++) {
            size_t n = decode_one(p, (size_t)(end - p), out);

            if (n == 0)
                return -EINVAL;
            p += n;
        }
        if (!parts_are_good(from, (size_t)(out - from)))
            return -EINVAL;
        s->slashed |= memchr(from, '/', (size_t)(out - from)) != NULL;
        s->more = s->count == KR_HTTP_SEGMENTS_MAX;
        if (!s->more) {
            s->at[s->count] = from;
            s->len[s->count++] = (unsigned)(out - from);
        }
        *out = '/';
    }
    *out = '\0';
    s->end = out;
    return p == end && s->count > 0 ? 0 : -EINVAL;
}

/* ---- matching ---- */

struct search {
    const struct kr_http_router *router;
    struct segments segments;
    enum kr_http_method method;
    unsigned allowed;
    const struct kr_http_route *found;
    bool alone; /* the last pattern that matched lets no other follow */
};

static bool consider(struct search *s, const struct node *n)
{
    bool any = false;

    for (unsigned i = 0; i < KR_HTTP_OTHER; i++) {
        if (!n->rows[i])
            continue;
        s->allowed |= 1u << i;
        s->alone |= (n->rows[i]->flags & KR_HTTP_ALONE) != 0;
        any = true;
    }
    if (n->rows[KR_HTTP_GET])
        s->allowed |= 1u << KR_HTTP_HEAD;
    if (any)
        s->allowed |= 1u << KR_HTTP_OPTIONS;
    s->found = s->method < KR_HTTP_OTHER ? n->rows[s->method] : NULL;
    if (!s->found && s->method == KR_HTTP_HEAD)
        s->found = n->rows[KR_HTTP_GET];
    return s->found || s->alone;
}

/* Literal, then `{name}`, then `{name*}`; stops at the first pattern that has the method or is alone. As deep as
 * patterns are. */
static bool walk(struct search *s, unsigned at, unsigned i)
{
    const struct kr_http_router *r = s->router;
    const struct node *n = &r->nodes[at];
    unsigned literal;

    if (i == s->segments.count && !s->segments.more)
        return consider(s, n);
    if (i < s->segments.count) {
        literal = find_literal(r, at, s->segments.at[i], s->segments.len[i]);
        if (literal && walk(s, literal, i + 1))
            return true;
        if (n->param && s->segments.len[i] > 0 && !memchr(s->segments.at[i], '/', s->segments.len[i]) &&
            walk(s, n->param, i + 1))
            return true;
        if (n->rest && s->segments.at[i] < s->segments.end)
            return consider(s, &r->nodes[n->rest]);
    }
    return false;
}

/* Cuts the parameters out of the decoded path, as the row's pattern names them. */
static void take_params(const struct segments *s, const struct kr_http_route *row, struct kr_http_match *m)
{
    const char *p = row->pattern;

    for (unsigned i = 0; *p == '/'; i++) {
        size_t len = strcspn(++p, "/");

        if (*p == '{') {
            m->values[m->nparams++] = s->at[i];
            if (p[len - 2] != '*')
                s->at[i][s->len[i]] = '\0';
        }
        p += len;
    }
}

int kr_http_router_find(const struct kr_http_router *router, enum kr_http_method method, const char *path, size_t len,
                        char *decoded, struct kr_http_match *ret_match)
{
    struct search s = {.router = router, .method = method};

    ret_match->route = NULL;
    ret_match->allowed = 0;
    ret_match->nparams = 0;
    if (decode_path(path, len, decoded, &s.segments) < 0)
        return 400;
    walk(&s, 0, 0);
    ret_match->allowed = s.allowed;
    if (!s.found && s.segments.slashed && !s.allowed)
        return 400; /* an encoded slash where none can be */
    if (!s.found)
        return s.allowed ? 405 : 404;
    ret_match->route = s.found;
    take_params(&s.segments, s.found, ret_match);
    return 200;
}

int kr_http_pattern_param(const char *pattern, const char *name)
{
    size_t len = strlen(name);
    int number = 0;

    for (const char *p = strchr(pattern, '{'); p; p = strchr(p, '{'), number++) {
        p++;
        if (strncmp(p, name, len) == 0 && (p[len] == '}' || p[len] == '*'))
            return number;
    }
    return -1;
}

const char *kr_http_allow_text(unsigned allowed, char *buf)
{
    size_t at = 0;

    buf[0] = '\0';
    for (unsigned i = 0; i < KR_HTTP_OTHER; i++)
        if (allowed & 1u << i)
            at += (size_t)snprintf(buf + at, KR_HTTP_ALLOW_MAX - at, "%s%s", at ? ", " : "",
                                   kr_http_method_name((enum kr_http_method)i));
    return buf;
}
