/* The request-head parser. Called by conn.c whenever bytes of a head have come, and by tests/fuzz/fuzz-http-head.c.
 *
 * Two phases. scan_head() looks at every byte once, as it comes, for what is wrong at any position (control characters,
 * a CR or LF alone, too long) and for the empty line. Only when that is there does parse_lines() look at the meaning.
 * So the verdict on a stream of bytes cannot depend on how it was cut: a byte-level error is found at its byte or not
 * at all, and everything else is judged once, on the whole. Invariant: nothing past the empty line is read. */
#include "parse.h"
#include "parse_internal.h"
#include <string.h>
#include <strings.h>

/* ---- characters ---- */

/* clang-format off */
static const unsigned char token_table[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1, ['-'] = 1, ['.'] = 1,
    ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1, ['~'] = 1, ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1,
};
/* clang-format on */

bool kr_http_is_token(unsigned char c)
{
    return token_table[c];
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* What RFC 3986 allows and what browsers leave unescaped beside it. Not '#', which no client may send, nor what is
 * quoted or turned round somewhere on its way: '"', '<', '>', '\'. */
static bool is_target(unsigned char c)
{
    return c > 0x20 && c < 0x7f && c != '#' && c != '"' && c != '<' && c != '>' && c != '\\';
}

bool kr_http_name_is(const char *text, size_t len, const char *name)
{
    return strlen(name) == len && strncasecmp(text, name, len) == 0;
}

/* ---- the first phase ---- */

/* The length of the head once it is whole, 0, or -status. */
static int scan_head(const char *b, size_t len, struct kr_http_scan *scan)
{
    size_t end = len < KR_HTTP_PARSE_HEAD_MAX ? len : KR_HTTP_PARSE_HEAD_MAX;
    size_t line = scan->line, i;

    for (i = scan->at; i < end; i++) {
        unsigned char c = (unsigned char)b[i];

        if (i - line >= KR_HTTP_PARSE_LINE_MAX && line <= 2)
            return -414;
        if (i > line && b[i - 1] == '\r') {
            size_t content = i - 1 - line;

            if (c != '\n')
                return -400;
            if (content == 0 && line > 2)
                return (int)i + 1;
            if (content == 0 && line == 2) /* a head of no lines at all, or two empty lines before it */
                return -400;
            line = i + 1; /* one empty line before the head is let pass (RFC 9112 2.2) */
        } else if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f || (c >= 0x80 && line <= 2)) {
            return -400; /* in the request line nothing but ASCII: binary noise is answered at its first byte */
        }
    }
    scan->at = (uint16_t)i;
    scan->line = (uint16_t)line;
    return len >= KR_HTTP_PARSE_HEAD_MAX ? -431 : 0;
}

/* ---- the request line ---- */

static struct kr_http_slice slice(const char *base, const char *from, const char *to)
{
    return (struct kr_http_slice){(uint16_t)(from - base), (uint16_t)(to - from)};
}

static int parse_version(const char *p, const char *end, struct kr_http_head *h)
{
    if (end - p != 8 || memcmp(p, "HTTP/", 5) != 0 || !is_digit(p[5]) || p[6] != '.' || !is_digit(p[7]))
        return -400;
    if (p[5] != '1' || p[7] > '1')
        return -505;
    h->http10 = p[7] == '0';
    h->keep_alive = !h->http10;
    return 0;
}

/* name[:port] or [v6][:port]. Userinfo, lists, paths and empty names are how two readers come to see two hosts. */
static bool is_host(const char *p, size_t len)
{
    const char *end = p + len, *name = p;

    if (p < end && *p == '[') {
        for (p++; p < end && *p != ']'; p++)
            if (!is_digit(*p) && *p != ':' && *p != '.' && !((*p | 32) >= 'a' && (*p | 32) <= 'f'))
                return false;
        if (p == end || p == name + 1)
            return false;
        p++;
    } else {
        while (p < end && (is_digit(*p) || ((*p | 32) >= 'a' && (*p | 32) <= 'z') || (*p && strchr("-._~", *p))))
            p++;
        if (p == name)
            return false;
    }
    if (p == end)
        return true;
    if (*p++ != ':' || end - p > 5 || p == end)
        return false;
    while (p < end && is_digit(*p))
        p++;
    return p == end;
}

/* http://authority/path?query, which a server must take (RFC 9112 3.2.2). The authority is held against Host once that
 * is known. A path that is left out is "/": the last slash before the authority. */
static int parse_absolute(const char *base, const char *p, const char *end, struct kr_http_head *h)
{
    const char *name = strchr(p, '/') + 2, *stop = name, *path, *question;

    while (stop < end && *stop != '/' && *stop != '?')
        stop++;
    if (!is_host(name, (size_t)(stop - name)))
        return -400;
    h->authority = slice(base, name, stop);
    question = memchr(stop, '?', (size_t)(end - stop));
    path = stop < end && *stop == '/' ? stop : name - 1;
    h->path = slice(base, path, path == stop ? (question ? question : end) : name);
    h->query = slice(base, question ? question + 1 : end, end);
    return 0;
}

static int parse_target(const char *base, const char *p, const char *end, bool proxy, struct kr_http_head *h)
{
    const char *question;

    if (proxy && h->method_text.len == 7 && memcmp(base + h->method_text.at, "CONNECT", 7) == 0) {
        if (!is_host(p, (size_t)(end - p)))
            return -400;
        h->authority = slice(base, p, end);
        h->path = h->query = slice(base, end, end);
        return 0;
    }

    if (end - p == 1 && *p == '*') {
        h->path = slice(base, p, end);
        h->query = slice(base, end, end);
        return h->method == KR_HTTP_OPTIONS ? 0 : -400;
    }
    if (strncasecmp(p, "http://", 7) == 0 || strncasecmp(p, "https://", 8) == 0)
        return parse_absolute(base, p, end, h);
    if (*p != '/') /* authority-form is for CONNECT, and that for proxies */
        return -400;
    question = memchr(p, '?', (size_t)(end - p));
    h->path = slice(base, p, question ? question : end);
    h->query = slice(base, question ? question + 1 : end, end);
    return 0;
}

/* The line is [p, end), without its CRLF. */
static int parse_request_line(const char *base, const char *p, const char *end, bool proxy, struct kr_http_head *h)
{
    const char *method = p, *target;
    int r;

    while (p < end && kr_http_is_token((unsigned char)*p))
        p++;
    if (p == method || p == end || *p != ' ')
        return -400;
    h->method_text = slice(base, method, p);
    h->method = kr_http_method_of(method, (size_t)(p - method));
    target = ++p;
    while (p < end && is_target((unsigned char)*p))
        p++;
    if (p == target || p == end || *p != ' ')
        return -400;
    r = parse_version(p + 1, end, h);
    return r < 0 ? r : parse_target(base, target, p, proxy, h);
}

/* ---- fields with a meaning ---- */

/* What must come at most once, or decides how the connection goes on. */
enum special { F_HOST, F_LENGTH, F_CODING, F_TYPE, F_AUTH, F_ORIGIN, F_EXPECT, F_CONNECTION, F_MAX_ };

/* clang-format off */
static const struct {
    const char *name;
    size_t len;
    bool once;
} specials[] = {
    [F_HOST]       = {"host", 4, true},
    [F_LENGTH]     = {"content-length", 14, true},
    [F_CODING]     = {"transfer-encoding", 17, true},
    [F_TYPE]       = {"content-type", 12, true},
    [F_AUTH]       = {"authorization", 13, true},
    [F_ORIGIN]     = {"origin", 6, true},
    [F_EXPECT]     = {"expect", 6, true},
    [F_CONNECTION] = {"connection", 10, false},
};
/* clang-format on */
_Static_assert(sizeof specials / sizeof specials[0] == F_MAX_, "a row for each");

struct seen {
    unsigned set; /* bit per special */
    const char *host;
    size_t host_len;
    bool known_coding, close, keep_alive;
};

bool kr_http_list_has(const char *p, size_t len, const char *word)
{
    const char *end = p + len;

    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *to = comma ? comma : end, *next = to + 1;

        while (p < to && is_blank(*p))
            p++;
        while (to > p && is_blank(to[-1]))
            to--;
        if (kr_http_name_is(p, (size_t)(to - p), word))
            return true;
        p = next;
    }
    return false;
}

int64_t kr_http_length_of(const char *p, size_t len)
{
    int64_t n = 0;

    if (len == 0 || len > 18)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (!is_digit(p[i]))
            return -1;
        n = n * 10 + (p[i] - '0');
    }
    return n;
}

static int judge_special(enum special which, const char *p, size_t len, struct seen *seen, struct kr_http_head *h)
{
    if (specials[which].once && (seen->set & 1u << which))
        return -400;
    seen->set |= 1u << which;
    switch (which) {
    case F_HOST:
        seen->host = p;
        seen->host_len = len;
        return is_host(p, len) ? 0 : -400;
    case F_LENGTH:
        h->content_length = kr_http_length_of(p, len);
        return h->content_length < 0 ? -400 : 0;
    case F_CODING:
        seen->known_coding = kr_http_name_is(p, len, "chunked");
        return len > 0 ? 0 : -400;
    case F_EXPECT:
        h->expect_continue = kr_http_name_is(p, len, "100-continue");
        return h->expect_continue ? 0 : -417;
    case F_CONNECTION:
        seen->close |= kr_http_list_has(p, len, "close");
        seen->keep_alive |= kr_http_list_has(p, len, "keep-alive");
        return 0;
    case F_TYPE:
    case F_AUTH:
    case F_ORIGIN:
    case F_MAX_:
        break;
    }
    return 0;
}

/* A target with an authority names the same host as the field Host. RFC 9112 3.2.2 has the target win; a client that
 * names two is refused instead, so that all who read the request see one. */
static bool one_host(const char *base, const struct seen *seen, const struct kr_http_head *h)
{
    return !h->authority.len || (seen->host && seen->host_len == h->authority.len &&
                                 strncasecmp(seen->host, base + h->authority.at, seen->host_len) == 0);
}

/* What the fields mean together. */
static int judge_together(const char *base, const struct seen *seen, bool proxy, struct kr_http_head *h)
{
    bool coding = seen->set & 1u << F_CODING, length = seen->set & 1u << F_LENGTH;

    if ((!(seen->set & 1u << F_HOST) && !h->http10) || (!proxy && !one_host(base, seen, h)))
        return -400;
    if (coding && (length || h->http10))
        return -400;
    if (coding && !seen->known_coding)
        return -501;
    h->chunked = coding;
    h->keep_alive = (h->keep_alive || seen->keep_alive) && !seen->close;
    h->expect_continue = h->expect_continue && !h->http10;
    return 0;
}

/* ---- field lines ---- */

static int parse_field(const char *base, const char *p, const char *end, struct seen *seen, struct kr_http_head *h)
{
    struct kr_http_field *f = &h->fields[h->count];
    const char *name = p;

    while (p < end && kr_http_is_token((unsigned char)*p))
        p++;
    if (p == name || p == end || *p != ':') /* also: a folded line, a blank before the colon */
        return -400;
    f->name = slice(base, name, p);
    p++;
    while (p < end && is_blank(*p))
        p++;
    while (end > p && is_blank(end[-1]))
        end--;
    f->value = slice(base, p, end);
    h->count++;
    for (unsigned i = 0; i < F_MAX_; i++)
        if (f->name.len == specials[i].len && strncasecmp(name, specials[i].name, f->name.len) == 0)
            return judge_special((enum special)i, p, (size_t)(end - p), seen, h);
    return 0;
}

/* The second phase. Every line is known to end in CRLF and the last to be empty. */
static int parse_lines(const char *b, size_t head_len, bool proxy, struct kr_http_head *h)
{
    const char *p = b[0] == '\r' ? b + 2 : b, *stop = b + head_len - 2, *end;
    struct seen seen = {.set = 0};
    int r;

    end = memchr(p, '\r', (size_t)(stop - p));
    r = parse_request_line(b, p, end, proxy, h);
    for (p = end + 2; r >= 0 && p < stop; p = end + 2) {
        end = memchr(p, '\r', (size_t)(stop - p));
        r = h->count < KR_HTTP_PARSE_FIELDS_MAX ? parse_field(b, p, end, &seen, h) : -431;
    }
    return r < 0 ? r : judge_together(b, &seen, proxy, h);
}

static int parse_head(const char *bytes, size_t len, bool proxy, struct kr_http_scan *scan, struct kr_http_head *ret)
{
    int n = scan_head(bytes, len, scan), r;

    if (n <= 0)
        return n;
    ret->count = 0;
    ret->content_length = -1;
    ret->authority = (struct kr_http_slice){0, 0};
    ret->chunked = ret->expect_continue = false;
    r = parse_lines(bytes, (size_t)n, proxy, ret);
    return r < 0 ? r : n;
}

int kr_http_head_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_head *ret)
{
    return parse_head(bytes, len, false, scan, ret);
}

int kr_http_proxy_head_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_head *ret)
{
    return parse_head(bytes, len, true, scan, ret);
}
