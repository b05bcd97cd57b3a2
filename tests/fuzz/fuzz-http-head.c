/* Fuzzes the request-head parser. What must hold: the verdict does not depend on how the bytes are cut into pieces;
 * what was accepted has every part inside the head and is as strict as parse.h says; the router takes any path it lets
 * through.
 *
 * With -fsanitize=fuzzer it is a libFuzzer target; otherwise a program that replays the files and folders given as
 * arguments and prints PASS or FAIL for each. An input is: a byte for the size of the pieces, then what a peer
 * sends. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-http-head"
#include "err.h"
#include "parse.h"
#include "replay.h"
#include "route.h"

static void handler(struct kr_http_ex *ex, void *app)
{
    (void)ex;
    (void)app;
}

static const struct kr_http_route routes[] = {
    {KR_HTTP_GET, "/a/{x}", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/a/b/{y}", 0, 0, handler, NULL},
    {KR_HTTP_POST, "/{x}/{y}/", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/f/{rest*}", 0, 0, handler, NULL},
};

static struct kr_http_router *router;

static int parse_in_pieces(const char *text, size_t size, size_t piece, struct kr_http_head *h)
{
    struct kr_http_scan scan = {0};
    int r = 0;

    for (size_t n = 0; n < size && r == 0;) {
        n = n + piece < size ? n + piece : size;
        r = kr_http_head_parse(text, n, &scan, h);
    }
    return r;
}

static bool inside(struct kr_http_slice s, int len)
{
    return s.at + s.len <= len;
}

/* Everything an accepted head must be. */
static void inspect(const char *text, int len, const struct kr_http_head *h)
{
    must(len <= (int)KR_HTTP_PARSE_HEAD_MAX && memcmp(text + len - 4, "\r\n\r\n", 4) == 0, "it ends in an empty line");
    must(!memchr(text, '\0', (size_t)len), "no NUL");
    must(h->method_text.len > 0 && inside(h->method_text, len), "the method is inside");
    must(h->path.len > 0 && inside(h->path, len) && inside(h->query, len), "the target is inside");
    must(text[h->path.at] == '/' || h->method == KR_HTTP_OPTIONS, "origin-form");
    must(!(h->chunked && h->content_length >= 0), "one framing");
    must(h->count <= KR_HTTP_PARSE_FIELDS_MAX, "not too many fields");
    for (unsigned i = 0; i < h->count; i++) {
        must(h->fields[i].name.len > 0 && inside(h->fields[i].name, len), "a name is inside");
        must(inside(h->fields[i].value, len), "a value is inside");
        must(!memchr(text + h->fields[i].value.at, '\r', h->fields[i].value.len), "a value is one line");
    }
}

static void look_up(const char *text, const struct kr_http_head *h)
{
    char decoded[KR_HTTP_PARSE_HEAD_MAX + 1];
    struct kr_http_match m;
    int status = kr_http_router_find(router, h->method, text + h->path.at, h->path.len, decoded, &m);

    must((status == 200) == (m.route != NULL), "a row is found with 200 only");
    must(status == 200 || status == 400 || status == 404 || (status == 405 && m.allowed), "a status of the router");
    for (unsigned i = 0; i < m.nparams; i++) {
        must(m.values[i] > decoded && m.values[i] + strlen(m.values[i]) <= decoded + h->path.len, "inside");
        must(m.values[i][0] != '\0', "a parameter is not empty");
        must(!strpbrk(m.values[i], "\r\n\\"), "no control characters");
        must(m.route->pattern[1] == 'f' || !strchr(m.values[i], '/'), "a parameter is one segment");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kr_http_head whole, cut;
    const char *text = (const char *)data + 1;
    struct kr_http_scan scan = {0};
    struct kr_err err;
    int r;

    if (!router && kr_http_router_new(routes, sizeof routes / sizeof routes[0], &router, &err) < 0)
        abort();
    if (size < 2)
        return 0;
    r = kr_http_head_parse(text, size - 1, &scan, &whole);
    must(r == parse_in_pieces(text, size - 1, data[0] + 1u, &cut), "the verdict is the same in pieces");
    must(r == 0 || r == -400 || r == -414 || r == -417 || r == -431 || r == -501 || r == -505 || r > 0, "a verdict");
    if (r > 0) {
        must(memcmp(whole.fields, cut.fields, whole.count * sizeof whole.fields[0]) == 0, "the fields too");
        must(whole.content_length == cut.content_length && whole.chunked == cut.chunked, "and the framing");
        inspect(text, r, &whole);
        look_up(text, &whole);
    }
    return 0;
}
