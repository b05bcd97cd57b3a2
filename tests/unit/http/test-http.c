/* src/http: the pure parts. The head parser and the body decoder on whole input and on every split of it, the router,
 * and what a server refuses at its start. tests/http/run.py has the connections. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "body.h"
#include "err.h"
#include "http.h"
#include "parse.h"
#include <errno.h>
#include <uv.h>

/* ---- heads ---- */

static struct kr_http_head head;

/* The verdict on the text; -1000 if any way to cut it in two, or a byte at a time, gives another. */
static int parse(const char *text, size_t len)
{
    struct kr_http_scan scan = {0};
    int whole = kr_http_head_parse(text, len, &scan, &head), r;

    for (size_t cut = 0; cut <= len; cut++) {
        scan = (struct kr_http_scan){0};
        r = kr_http_head_parse(text, cut, &scan, &head);
        if (r == 0)
            r = kr_http_head_parse(text, len, &scan, &head);
        if (r != whole)
            return -1000;
    }
    scan = (struct kr_http_scan){0};
    r = 0;
    for (size_t n = 1; n <= len && r == 0; n++)
        r = kr_http_head_parse(text, n, &scan, &head);
    return r == whole ? r : -1000;
}

#define GET "GET / HTTP/1.1\r\nHost: a\r\n"
#define POST "POST / HTTP/1.1\r\nHost: a\r\n"

static const struct {
    int verdict; /* 0: accepted whole */
    const char *text;
} heads[] = {
    {0, GET "\r\n"},
    {0, "\r\n" GET "\r\n"},
    {0, "GET / HTTP/1.0\r\n\r\n"},
    {0, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"},
    {0, "BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n"},
    {0, "GET /a?b=%20|{}[]^` HTTP/1.1\r\nHost: [::1]:80\r\n\r\n"},
    {0, GET "Empty:\r\nBlank: \t \r\nX: a\tb \xc3\xa9\r\n\r\n"},
    {0, POST "Content-Length: 007\r\n\r\n"},
    {0, POST "Transfer-Encoding:ChunkeD\t\r\n\r\n"},
    {0, POST "Expect: 100-Continue\r\n\r\n"},
    {400, "\r\n\r\n" GET "\r\n"},
    {400, "\r\n\r\n"},
    {400, " " GET "\r\n"},
    {400, "GET / HTTP/1.1\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost:\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a:\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"},
    {400, "GET / HTTP/1.1\r\nHost: []\r\n\r\n"},
    {400, GET "hOST: a\r\n\r\n"},
    {0, "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {0, "GET HTTPS://A:1/x?y HTTP/1.0\r\nHost: a:1\r\n\r\n"},
    {400, "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET http://a/ HTTP/1.1\r\nHost: a:80\r\n\r\n"},
    {400, "GET http://a/ HTTP/1.1\r\n\r\n"},
    {400, "GET http://a/ HTTP/1.0\r\n\r\n"},
    {400, "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET http:/// HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET http:a HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET a HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "OPTIONS *x HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET /#f HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET /\"<> HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET /\\ HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n"},
    {400, "GET /\r\nHost: a\r\n\r\n"},
    {400, "GET / HTTP/1.1 \r\nHost: a\r\n\r\n"},
    {400, "GET / HTTP/1\r\nHost: a\r\n\r\n"},
    {400, "GET / HTTP/11\r\nHost: a\r\n\r\n"},
    {505, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
    {505, "GET / HTTP/0.9\r\nHost: a\r\n\r\n"},
    {505, "PRI * HTTP/2.0\r\n\r\n"},
    {400, GET "X : a\r\n\r\n"},
    {400, GET "X\r\n\r\n"},
    {400, GET "X: a\r\n b\r\n\r\n"},
    {400, GET "X: a\x01\r\n\r\n"},
    {400, GET "X: a\x7f\r\n\r\n"},
    {400, GET "X: a\rb\r\n\r\n"},
    {400, GET "X: a\n\r\n"},
    {400, GET "\n"},
    {400, POST "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"},
    {400, POST "Content-Length: 1234567890123456789\r\n\r\n"},
    {400, POST "Content-Length: 3 3\r\n\r\n"},
    {400, POST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {400, POST "Transfer-Encoding:\r\n\r\n"},
    {400, POST "Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n"},
    {400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {501, POST "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {501, POST "Transfer-Encoding: chunked;x\r\n\r\n"},
    {417, POST "Expect: tea\r\n\r\n"},
    {400, POST "Expect: 100-continue\r\nExpect: 100-continue\r\n\r\n"},
    {400, POST "Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n"},
    {400, GET "Authorization: a\r\nAuthorization: b\r\n\r\n"},
    {400, GET "Origin: a\r\nOrigin: b\r\n\r\n"},
};

static void heads_get_their_verdict(void)
{
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        int len = (int)strlen(heads[i].text), expected = heads[i].verdict ? -heads[i].verdict : len;
        int got = parse(heads[i].text, (size_t)len);

        if (got != expected)
            printf("row %zu: got %d, expected %d\n", i, got, expected);
        CHECK(got == expected);
    }
}

static void unfinished_heads_wait(void)
{
    CHECK(parse("", 0) == 0);
    CHECK(parse("G", 1) == 0);
    CHECK(parse("\r", 1) == 0);
    CHECK(parse(GET "\r", strlen(GET) + 1) == 0);
    CHECK(parse("\x16\x03", 2) == -400); /* a TLS client is told at its first byte */
    CHECK(parse("GET /\0", 6) == -400);
}

static void nothing_past_the_head_is_read(void)
{
    static const char text[] = GET "\r\n\n\0\xff";

    CHECK(parse(text, sizeof text - 1) == (int)strlen(GET) + 2);
}

static bool slice_is(const char *text, struct kr_http_slice s, const char *expected)
{
    return s.len == strlen(expected) && memcmp(text + s.at, expected, s.len) == 0;
}

static void a_head_is_taken_apart(void)
{
    static const char text[] = "\r\nPUT /a%20b?c=d&e HTTP/1.1\r\nHost: h\r\nX-Y:  v w \r\nContent-Length: 12\r\n\r\n";

    CHECK(parse(text, sizeof text - 1) > 0);
    CHECK(head.method == KR_HTTP_PUT && slice_is(text, head.method_text, "PUT"));
    CHECK(slice_is(text, head.path, "/a%20b") && slice_is(text, head.query, "c=d&e"));
    CHECK(head.content_length == 12 && !head.chunked && head.keep_alive && !head.http10);
    CHECK(head.count == 3 && slice_is(text, head.fields[1].name, "X-Y") && slice_is(text, head.fields[1].value, "v w"));
}

static void an_absolute_target_is_taken_apart(void)
{
    static const struct {
        const char *text, *authority, *path, *query;
    } rows[] = {
        {"GET http://a:8/b/c?d HTTP/1.1\r\nHost: A:8\r\n\r\n", "a:8", "/b/c", "d"},
        {"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n", "a", "/", ""},
        {"GET https://[::1]?d=/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", "[::1]", "/", "d=/"},
        {"GET /http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "", "/http://a/", ""},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(parse(rows[i].text, strlen(rows[i].text)) > 0);
        CHECK(slice_is(rows[i].text, head.authority, rows[i].authority));
        CHECK(slice_is(rows[i].text, head.path, rows[i].path) && slice_is(rows[i].text, head.query, rows[i].query));
    }
}

static void keep_alive_follows_version_and_connection(void)
{
    static const struct {
        const char *text;
        bool keep;
    } rows[] = {
        {GET "\r\n", true},
        {GET "Connection: close\r\n\r\n", false},
        {GET "Connection: keep-alive\r\nConnection: x , CLOSE\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK(parse(rows[i].text, strlen(rows[i].text)) > 0);
        CHECK(head.keep_alive == rows[i].keep);
    }
}

/* `prefix`, n times `c`, `suffix`. */
static int parse_long(const char *prefix, size_t n, char c, const char *suffix)
{
    static char text[40000];
    struct kr_http_scan scan = {0};
    size_t len = strlen(prefix), end = strlen(suffix);

    memcpy(text, prefix, len);
    memset(text + len, c, n);
    memcpy(text + len + n, suffix, end);
    return kr_http_head_parse(text, len + n + end, &scan, &head);
}

static void limits_are_where_they_are_said(void)
{
    static const char tail[] = " HTTP/1.1\r\nHost: a\r\n\r\n";
    size_t line = KR_HTTP_PARSE_LINE_MAX - strlen("GET / HTTP/1.1\r\n");
    size_t value = KR_HTTP_PARSE_HEAD_MAX - strlen(GET "X: \r\n\r\n");

    CHECK(parse_long("GET /", line, 'a', tail) > 0);
    CHECK(parse_long("GET /", line + 1, 'a', tail) == -414);
    CHECK(parse_long(GET "X: ", value, 'a', "\r\n\r\n") == (int)KR_HTTP_PARSE_HEAD_MAX);
    CHECK(parse_long(GET "X: ", value + 1, 'a', "\r\n\r\n") == -431);
    CHECK(parse_long(GET "X: ", value + 1, '\1', "\r\n\r\n") == -400);
}

static void fields_are_counted(void)
{
    char text[2048] = GET;

    for (unsigned i = 1; i < KR_HTTP_PARSE_FIELDS_MAX; i++)
        strcat(text, "X: a\r\n");
    strcat(text, "\r\n");
    CHECK(parse(text, strlen(text)) == (int)strlen(text) && head.count == KR_HTTP_PARSE_FIELDS_MAX);
    strcpy(text + strlen(text) - 2, "X: a\r\n\r\n");
    CHECK(parse(text, strlen(text)) == -431);
}

/* ---- bodies ---- */

/* Decodes in pieces of `piece` bytes into out; the last event, and what was left of the input. */
static enum kr_http_body_event decode(const char *text, size_t len, size_t piece, char *out, size_t *ret_left)
{
    enum kr_http_body_event e = KR_HTTP_BODY_MORE;
    struct kr_http_body b;
    size_t n = 0, out_len = 0;

    kr_http_body_init(&b, true, -1);
    for (size_t at = 0; at < len && (e == KR_HTTP_BODY_MORE); at += n) {
        size_t left = n = piece < len - at ? piece : len - at, got;
        const char *in = text + at, *data;

        while ((e = kr_http_body_next(&b, &in, &left, &data, &got)) == KR_HTTP_BODY_DATA) {
            memcpy(out + out_len, data, got);
            out_len += got;
        }
        *ret_left = len - at - n + left;
    }
    out[out_len] = '\0';
    return e;
}

static void chunked_bodies_get_their_verdict(void)
{
    static const struct {
        enum kr_http_body_event event;
        size_t left;
        const char *text, *data;
    } rows[] = {
        {KR_HTTP_BODY_END, 0, "0\r\n\r\n", ""},
        {KR_HTTP_BODY_END, 4, "3\r\nabc\r\n0\r\n\r\nNEXT", "abc"},
        {KR_HTTP_BODY_END, 0, "00A;x=\"y z\";q\r\n0123456789\r\n1\r\n!\r\n000\r\n\r\n", "0123456789!"},
        {KR_HTTP_BODY_END, 0, "1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n", "a"},
        {KR_HTTP_BODY_MORE, 0, "3\r\nab", "ab"},
        {KR_HTTP_BODY_MORE, 0, "0\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "g\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "0x3\r\nabc\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "3 \r\nabc\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "3\nabc\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "3\r\nabcX", "abc"},
        {KR_HTTP_BODY_BAD, 0, "3\r\nabc\rX", "abc"},
        {KR_HTTP_BODY_BAD, 0, "3;a\nb\r\nabc\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "1000000000000000\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "0\r\n X: y\r\n\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "0\r\nno colon\r\n\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "0\r\nX: a\nb\r\n\r\n", ""},
        {KR_HTTP_BODY_BAD, 0, "0\r\n\rX", ""},
    };
    char out[64];
    size_t left;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (size_t piece = 1; piece <= strlen(rows[i].text); piece++) {
            CHECK(decode(rows[i].text, strlen(rows[i].text), piece, out, &left) == rows[i].event);
            CHECK(strcmp(out, rows[i].data) == 0);
            CHECK(rows[i].event != KR_HTTP_BODY_END || left == rows[i].left);
        }
}

static void framing_must_be_paid_for(void)
{
    static char text[200000], out[100000];
    size_t len = 0, left;

    while (len + 300 < sizeof text) /* a byte of data for 200 of extension */
        len += (size_t)sprintf(text + len, "1;%0200d\r\nx\r\n", 1);
    CHECK(decode(text, len, 4096, out, &left) == KR_HTTP_BODY_BAD);
    CHECK(strlen(out) < 200);
    len = 0;
    while (len + 300 < sizeof text) /* but small chunks without are honest work */
        len += (size_t)sprintf(text + len, "1\r\nx\r\n");
    CHECK(decode(text, len, 4096, out, &left) == KR_HTTP_BODY_MORE);
}

static void plain_bodies_end_at_their_length(void)
{
    struct kr_http_body b;
    const char *in = "abcdef", *data;
    size_t left = 6, len;

    kr_http_body_init(&b, false, 4);
    CHECK(kr_http_body_next(&b, &in, &left, &data, &len) == KR_HTTP_BODY_DATA && len == 4);
    CHECK(kr_http_body_next(&b, &in, &left, &data, &len) == KR_HTTP_BODY_END && left == 2);
    kr_http_body_init(&b, false, -1);
    CHECK(kr_http_body_next(&b, &in, &left, &data, &len) == KR_HTTP_BODY_END);
}

/* ---- routes ---- */

static void handler(struct kr_http_ex *ex, void *app)
{
    (void)ex;
    (void)app;
}

static const struct kr_http_route routes[] = {
    {KR_HTTP_GET, "/", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/runs", 0, 0, handler, NULL},
    {KR_HTTP_POST, "/runs", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/runs/{id}", 0, 0, handler, NULL},
    {KR_HTTP_DELETE, "/runs/{run_id}", 0, 0, handler, NULL},
    {KR_HTTP_POST, "/runs/search", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/runs/{id}/log/{part}", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/box/{id}/files/{path*}", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/messages/", 0, 0, handler, NULL},
    {KR_HTTP_HEAD, "/own", 0, 0, handler, NULL},
    {KR_HTTP_GET, "/own", 0, 0, handler, NULL},
    {KR_HTTP_OPTIONS, "/options", 0, 0, handler, NULL},
};

static struct kr_http_router *router;
static struct kr_http_match match;

static int find(enum kr_http_method method, const char *path)
{
    static char decoded[512];

    return kr_http_router_find(router, method, path, strlen(path), decoded, &match);
}

static void routes_are_found(void)
{
    CHECK(find(KR_HTTP_GET, "/") == 200 && match.route == &routes[0]);
    CHECK(find(KR_HTTP_POST, "/runs") == 200 && match.route == &routes[2]);
    CHECK(find(KR_HTTP_GET, "/runs/r%2d1") == 200 && match.route == &routes[3]);
    CHECK(match.nparams == 1 && strcmp(match.values[0], "r-1") == 0);
    CHECK(find(KR_HTTP_DELETE, "/runs/x") == 200 && match.route == &routes[4]);
    CHECK(kr_http_pattern_param(match.route->pattern, "run_id") == 0);
    CHECK(kr_http_pattern_param(match.route->pattern, "run") == -1);
    CHECK(find(KR_HTTP_POST, "/runs/search") == 200 && match.route == &routes[5]);
    CHECK(find(KR_HTTP_GET, "/runs/search") == 200 && match.route == &routes[3]);
    CHECK(find(KR_HTTP_GET, "/r%75ns/a/log/b%20c") == 200 && match.route == &routes[6]);
    CHECK(match.nparams == 2 && strcmp(match.values[0], "a") == 0 && strcmp(match.values[1], "b c") == 0);
    CHECK(find(KR_HTTP_GET, "/box/7/files/a/b%20c/d") == 200 && match.route == &routes[7]);
    CHECK(match.nparams == 2 && strcmp(match.values[0], "7") == 0 && strcmp(match.values[1], "a/b c/d") == 0);
    CHECK(kr_http_pattern_param(match.route->pattern, "path") == 1);
    CHECK(find(KR_HTTP_GET, "/messages/") == 200);
    CHECK(find(KR_HTTP_HEAD, "/runs") == 200 && match.route == &routes[1]);
    CHECK(find(KR_HTTP_HEAD, "/own") == 200 && match.route == &routes[9]);
    CHECK(find(KR_HTTP_OPTIONS, "/options") == 200);
}

static void routes_that_are_not_there(void)
{
    static const char *const missing[] = {"/run",      "/runs/",        "/runs//log/x", "//",
                                          "/messages", "/box/7/files/", "/runs/a/b"};
    char allow[KR_HTTP_ALLOW_MAX];

    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        CHECK(find(KR_HTTP_GET, missing[i]) == 404);
    CHECK(find(KR_HTTP_PUT, "/runs/search") == 405);
    CHECK(strcmp(kr_http_allow_text(match.allowed, allow), "GET, HEAD, POST, DELETE, OPTIONS") == 0);
    CHECK(find(KR_HTTP_OPTIONS, "/runs") == 405);
    CHECK(strcmp(kr_http_allow_text(match.allowed, allow), "GET, HEAD, POST, OPTIONS") == 0);
    CHECK(strlen(kr_http_allow_text(~0u, allow)) < KR_HTTP_ALLOW_MAX);
}

static void paths_are_decoded_strictly(void)
{
    static const char *const bad[] = {"/runs/%",   "/runs/%4",     "/runs/%zz",      "/runs/a%2fb",
                                      "/runs/%00", "/runs/%0a",    "/runs/%7f",      "/runs/%5c",
                                      "/runs/.",   "/runs/..",     "/runs/%2e%2E",   "/box/7/files/a/../b",
                                      "/runs/%ff", "/runs/%c0%af", "/runs/%ed%a0%80"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(find(KR_HTTP_GET, bad[i]) == 400);
    CHECK(find(KR_HTTP_GET, "/runs/...") == 200 && strcmp(match.values[0], "...") == 0);
    CHECK(find(KR_HTTP_GET, "/runs/%E2%82%AC%2B+") == 200 && strcmp(match.values[0], "\xe2\x82\xac++") == 0);
}

static void long_paths_match_only_the_rest(void)
{
    char path[400] = "/box/7/files";

    for (unsigned i = 0; i < 3 * KR_HTTP_SEGMENTS_MAX; i++)
        strcat(path, "/a");
    CHECK(find(KR_HTTP_GET, path) == 200 && strlen(match.values[1]) == 6 * KR_HTTP_SEGMENTS_MAX - 1);
    CHECK(find(KR_HTTP_GET, path + strlen("/box/7/files")) == 404);
}

static void bad_patterns_are_refused(void)
{
    static const char *const bad[] = {"",      "runs",  "/{",     "/a{b}",
                                      "/{b}c", "/{}",   "/{*}",   "/{a*}/b",
                                      "/{A}",  "/a%20", "/{a-b}", "/{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}/{a}"};
    struct kr_http_route row = {KR_HTTP_GET, NULL, 0, 0, handler, NULL};
    struct kr_http_route twice[2] = {{KR_HTTP_GET, "/a/{x}", 0, 0, handler, NULL},
                                     {KR_HTTP_GET, "/a/{y}", 0, 0, handler, NULL}};
    struct kr_http_router *r = NULL;
    struct kr_err err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        row.pattern = bad[i];
        CHECK(kr_http_router_new(&row, 1, &r, &err) == -EINVAL && !r);
    }
    CHECK(kr_http_router_new(twice, 2, &r, &err) == -EEXIST && strstr(err.msg, "/a/{y}"));
    row.pattern = "/";
    row.method = KR_HTTP_OTHER;
    CHECK(kr_http_router_new(&row, 1, &r, &err) == -EINVAL);
}

/* ---- the server ---- */

static void a_server_comes_and_goes(void)
{
    struct kr_http_config config = {.routes = routes, .route_count = sizeof routes / sizeof routes[0]};
    struct kr_http_server *s = NULL;
    struct kr_err err;
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    CHECK(kr_http_server_new(&loop, &config, &s, &err) == 0);
    CHECK(kr_http_server_listen(s, -1, 0, &err) == -EBADF);
    CHECK(kr_http_server_stats(s)->connections == 0);
    kr_http_server_free(s);
    kr_http_server_free(NULL);
    CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0);
    CHECK(uv_loop_close(&loop) == 0);
}

static void a_server_refuses_bad_tables(void)
{
    static const struct kr_http_route bad = {KR_HTTP_GET, "nope", 0, 0, handler, NULL};
    static char value[3000];
    struct kr_http_default_header header = {"X", value};
    struct kr_http_config config = {.routes = &bad, .route_count = 1};
    struct kr_http_server *s = NULL;
    struct kr_err err;
    uv_loop_t loop;

    CHECK(uv_loop_init(&loop) == 0);
    CHECK(kr_http_server_new(&loop, &config, &s, &err) == -EINVAL);
    memset(value, 'v', sizeof value - 1);
    config = (struct kr_http_config){.headers = &header, .header_count = 1};
    CHECK(kr_http_server_new(&loop, &config, &s, &err) == -E2BIG && !s);
    CHECK(uv_loop_close(&loop) == 0);
}

int main(void)
{
    struct kr_err err;

    RUN(heads_get_their_verdict);
    RUN(unfinished_heads_wait);
    RUN(nothing_past_the_head_is_read);
    RUN(a_head_is_taken_apart);
    RUN(an_absolute_target_is_taken_apart);
    RUN(keep_alive_follows_version_and_connection);
    RUN(limits_are_where_they_are_said);
    RUN(fields_are_counted);
    RUN(chunked_bodies_get_their_verdict);
    RUN(framing_must_be_paid_for);
    RUN(plain_bodies_end_at_their_length);
    if (kr_http_router_new(routes, sizeof routes / sizeof routes[0], &router, &err) < 0) {
        printf("FAIL router: %s\n", err.msg);
        return 1;
    }
    RUN(routes_are_found);
    RUN(routes_that_are_not_there);
    RUN(paths_are_decoded_strictly);
    RUN(long_paths_match_only_the_rest);
    RUN(bad_patterns_are_refused);
    kr_http_router_free(router);
    RUN(a_server_comes_and_goes);
    RUN(a_server_refuses_bad_tables);
    CHECK_DONE();
}
