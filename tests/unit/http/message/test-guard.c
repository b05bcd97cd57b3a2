/* src/http/guard: Host, Origin, Sec-Fetch-Site, CORS and the security headers. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "err.h"
#include "guard.h"
#include <errno.h>
#include <stdbool.h>

static const char *const hosts[] = {"krait.example.org", "*.example.net", "box.lan:8080"};
static const char *const origins[] = {"https://app.example.com", "http://localhost:*", "https://*.tools.example.com",
                                      "chrome-extension://abcdef"};

static struct kr_guard *guard_of(const struct kr_guard_config *config)
{
    struct kr_guard *g = NULL;
    struct kr_err err;

    return kr_guard_new(config, &g, &err) == 0 ? g : NULL;
}

static struct kr_guard *plain(void)
{
    return guard_of(&(struct kr_guard_config){0});
}

static struct kr_guard *full(void)
{
    return guard_of(&(struct kr_guard_config){
        .allowed_hosts = {hosts, 3},
        .cors_origins = {origins, 4},
        .public_url = "https://public.example.org/krait/",
    });
}

static struct kr_guard_verdict judge(const struct kr_guard *g, struct kr_guard_request r)
{
    struct kr_guard_verdict v;

    r.method = r.method ? r.method : "GET";
    r.path = r.path ? r.path : "/api/v1/execute";
    kr_guard_judge(g, &r, &v);
    return v;
}

static int host_status(const struct kr_guard *g, const char *host)
{
    return judge(g, (struct kr_guard_request){.host = host}).status;
}

/* ---- Host ---- */

static void local_hosts_pass(void)
{
    static const char *const good[] = {
        "127.0.0.1",     "127.0.0.1:8642", "192.168.7.9:1",      "[::1]",           "[::1]:8642",
        "localhost",     "LocalHost:8642", "localhost.",         "localhost.:80",   "sandbox-mcp",
        "krait_1:16010", "[fe80::1]",      "[::ffff:127.0.0.1]", "localhost:65535", "a",
    };
    struct kr_guard *g = plain();

    CHECK(g);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        CHECK(host_status(g, good[i]) == 0);
    kr_guard_free(g);
}

/* Other machines' requests must say whom they are for: a name of another site that leads here would pass otherwise. */
static void without_a_host_only_this_machine_is_let_in(void)
{
    static const char *const near[] = {"127.0.0.1", "127.8.9.10", "::1", "unix"};
    static const char *const far[] = {"10.0.0.7", "192.168.1.2", "12.7.0.1", "::", "::127", "fe80::1", "", NULL};
    struct kr_guard *g = plain();

    CHECK(g);
    for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
        CHECK(judge(g, (struct kr_guard_request){.address = near[i]}).status == 0);
        CHECK(judge(g, (struct kr_guard_request){.address = near[i], .host = "evil.example.org"}).status == 400);
    }
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        CHECK(judge(g, (struct kr_guard_request){.address = far[i]}).status == 400);
        CHECK(judge(g, (struct kr_guard_request){.address = far[i], .host = "localhost"}).status == 0);
    }
    kr_guard_free(g);
}

static void foreign_and_broken_hosts_are_refused(void)
{
    static const char *const bad[] = {
        "evil.example.org",
        "evil.example.org:8642",
        "127.0.0.1.evil.example.org", /* rebinding services */
        "localhost.evil.example.org",
        "x.localhost.evil.example.org",
        "ai.", /* a top-level domain may have an address */
        "example.org.",
        "",
        ":80",
        "localhost:",
        "localhost:0",
        "localhost:65536",
        "localhost:80x",
        "localhost:*",
        "localhost:80:80",
        "::1",
        "[::1",
        "[::1]x",
        "[localhost]",
        "[::1%25lo]",
        "127.0.0.1@evil",
        "user@localhost",
        "localhost/",
        "localhost, evil",
        "local host",
        "*",
        ".localhost",
        "localhost..",
        "k\xc3\xa4se",
        "127.0.0.1.",
        "127.0.0.256.1",
    };
    struct kr_guard *g = plain();
    struct kr_guard_verdict v;
    char longest[300];

    CHECK(g);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (host_status(g, bad[i]) != 400)
            printf("# host %s\n", bad[i]);
        CHECK(host_status(g, bad[i]) == 400);
    }
    CHECK(host_status(g, NULL) == 400);
    memset(longest, 'a', sizeof longest);
    longest[64] = '\0';
    CHECK(host_status(g, longest) == 400); /* a label of 64 */
    longest[63] = '\0';
    CHECK(host_status(g, longest) == 0);
    v = judge(g, (struct kr_guard_request){.host = "evil.example.org"});
    CHECK(strcmp(v.text, "Invalid host header") == 0 && strstr(v.hint, "allowed_hosts"));
    kr_guard_free(g);
}

static void hosts_are_configured(void)
{
    static const struct {
        const char *host;
        int status;
    } cases[] = {
        {"krait.example.org", 0},
        {"KRAIT.Example.ORG:1", 0},
        {"krait.example.org.", 0},
        {"x.krait.example.org", 400},
        {"a.example.net", 0},
        {"a.b.example.net:80", 0},
        {"a.example.net.", 0},
        {"example.net", 400},
        {"badexample.net", 400},
        {".example.net", 400},
        {"example.net.evil.org", 400},
        {"box.lan:8080", 0},
        {"box.lan", 400},
        {"box.lan:8081", 400},
        {"public.example.org", 0},
        {"public.example.org:8642", 0},
        {"xpublic.example.org", 400},
    };
    struct kr_guard *g = full();

    CHECK(g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK(host_status(g, cases[i].host) == cases[i].status);
    kr_guard_free(g);
}

static void a_star_takes_every_host_that_is_one(void)
{
    static const char *const star[] = {"*"};
    struct kr_guard *g = guard_of(&(struct kr_guard_config){.allowed_hosts = {star, 1}});

    CHECK(g && host_status(g, "anything.example.org:99") == 0);
    CHECK(host_status(g, "not a host") == 400 && host_status(g, NULL) == 400);
    kr_guard_free(g);
}

static void mcp_paths_speak_mcp(void)
{
    static const char *const paths[] = {"/mcp", "/mcp/", "/mcp/sse", "/sse", "/messages/", "/ai/sandbox/v1/mcp"};
    struct kr_guard *g = plain();
    struct kr_guard_verdict v;

    CHECK(g);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        v = judge(g, (struct kr_guard_request){.path = paths[i], .host = "evil.org"});
        CHECK(v.status == 421 && strcmp(v.text, "Invalid Host header") == 0);
        v = judge(g, (struct kr_guard_request){.path = paths[i], .host = "localhost", .origin = "http://evil.org"});
        CHECK(v.status == 403 && strcmp(v.text, "Invalid Origin header") == 0);
    }
    CHECK(judge(g, (struct kr_guard_request){.path = "/mcpx", .host = "evil.org"}).status == 400);
    kr_guard_free(g);
}

/* ---- Origin ---- */

static void origins_are_judged(void)
{
    static const struct {
        const char *host, *origin;
        int status;
        bool cors;
    } cases[] = {
        {"localhost:8642", "http://localhost:8642", 0, true}, /* listed by http://localhost:* */
        {"127.0.0.1:8642", "http://127.0.0.1:8642", 0, false},
        {"127.0.0.1:8642", "https://127.0.0.1:8642", 0, false},
        {"127.0.0.1:8642", "http://127.0.0.1", 403, false},
        {"127.0.0.1:8642", "http://127.0.0.1:9999", 403, false},
        {"127.0.0.1", "http://127.0.0.1", 0, false},
        {"127.0.0.1", "http://127.0.0.1:80", 0, false},
        {"127.0.0.1", "https://127.0.0.1", 0, false},
        {"127.0.0.1", "https://127.0.0.1:444", 403, false},
        {"127.0.0.1:80", "https://127.0.0.1", 403, false},
        {"[::1]:8642", "http://[::1]:8642", 0, false},
        {"krait.example.org", "https://KRAIT.example.org", 0, false},
        {"127.0.0.1", "ftp://127.0.0.1", 403, false},
        {"127.0.0.1:1", "https://public.example.org", 0, false}, /* a proxy that rewrites Host */
        {"127.0.0.1:1", "http://public.example.org", 403, false},
        {"127.0.0.1:1", "https://public.example.org:8443", 403, false},
        {"127.0.0.1:1", "https://app.example.com", 0, true},
        {"127.0.0.1:1", "HTTPS://app.example.com:443", 0, true},
        {"127.0.0.1:1", "http://app.example.com", 403, false},
        {"127.0.0.1:1", "https://app.example.com:8443", 403, false},
        {"127.0.0.1:1", "https://app.example.com.evil.org", 403, false},
        {"127.0.0.1:1", "https://x.app.example.com", 403, false},
        {"127.0.0.1:1", "http://localhost:5173", 0, true},
        {"127.0.0.1:1", "http://localhost", 0, true},
        {"127.0.0.1:1", "https://localhost:5173", 403, false},
        {"127.0.0.1:1", "http://localhost.evil.org:5173", 403, false},
        {"127.0.0.1:1", "https://a.tools.example.com", 0, true},
        {"127.0.0.1:1", "https://tools.example.com", 403, false},
        {"127.0.0.1:1", "chrome-extension://abcdef", 0, true},
        {"127.0.0.1:1", "chrome-extension://abcdeg", 403, false},
        {"127.0.0.1:1", "null", 403, false},
        {"127.0.0.1:1", "", 403, false},
        {"127.0.0.1:1", "*", 403, false},
        {"127.0.0.1:1", "https://*.tools.example.com", 403, false},
        {"127.0.0.1:1", "https://app.example.com/", 403, false},
        {"127.0.0.1:1", "https://app.example.com https://x", 403, false},
        {"127.0.0.1:1", "://127.0.0.1:1", 403, false},
        {"127.0.0.1:1", "127.0.0.1:1", 403, false},
        {"127.0.0.1:1", "http://", 403, false},
        {"127.0.0.1:1", "file://", 403, false},
    };
    struct kr_guard *g = full();

    CHECK(g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kr_guard_verdict v =
            judge(g, (struct kr_guard_request){.method = "POST", .host = cases[i].host, .origin = cases[i].origin});

        if (v.status != cases[i].status || v.cors != cases[i].cors)
            printf("# %s from %s: %d\n", cases[i].host, cases[i].origin, v.status);
        CHECK(v.status == cases[i].status && v.cors == cases[i].cors);
        CHECK((v.status == 0) == !v.text);
        CHECK(v.status == 0 || v.hint);
    }
    kr_guard_free(g);
}

static void one_origin_of_two_schemes_is_refused(void)
{
    struct kr_guard *g = plain();
    struct kr_guard_request r = {.method = "POST", .host = "127.0.0.1", .origin = "http://127.0.0.1"};

    CHECK(g && judge(g, r).status == 0);
    r.sec_fetch_site = "same-origin";
    CHECK(judge(g, r).status == 0);
    r.sec_fetch_site = "cross-site";
    CHECK(judge(g, r).status == 403);
    kr_guard_free(g);
}

/* ---- Sec-Fetch-Site ---- */

static void cross_site_is_refused(void)
{
    static const struct {
        const char *method, *site, *mode, *dest;
        bool is_link;
        int status;
    } cases[] = {
        {"GET", NULL, NULL, NULL, false, 0},
        {"POST", NULL, NULL, NULL, false, 0}, /* no browser */
        {"GET", "none", "navigate", "document", false, 0},
        {"GET", "same-origin", "cors", "empty", false, 0},
        {"POST", "same-origin", "cors", "empty", false, 0},
        {"GET", "same-site", "no-cors", "image", false, 0},
        {"GET", "cross-site", "navigate", "document", false, 0},
        {"HEAD", "cross-site", "navigate", "document", false, 0},
        {"GET", "cross-site", "navigate", "iframe", false, 403},
        {"GET", "cross-site", "navigate", NULL, false, 403},
        {"GET", "cross-site", NULL, "document", false, 403},
        {"POST", "cross-site", "navigate", "document", false, 403},
        {"DELETE", "cross-site", "navigate", "document", false, 403},
        {"GET", "cross-site", "no-cors", "image", false, 403},
        {"GET", "cross-site", "no-cors", "script", false, 403},
        {"GET", "cross-site", NULL, NULL, false, 403},
        {"GET", "cross-site", "no-cors", "image", true, 0},
        {"HEAD", "cross-site", NULL, NULL, true, 0},
        {"POST", "cross-site", "no-cors", "image", true, 403},
        {"GET", "something-new", NULL, NULL, false, 0}, /* unknown words are as if absent (Fetch Metadata 3) */
    };
    struct kr_guard *g = full();

    CHECK(g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kr_guard_request r = {
            .method = cases[i].method,
            .host = "localhost:1",
            .sec_fetch_site = cases[i].site,
            .sec_fetch_mode = cases[i].mode,
            .sec_fetch_dest = cases[i].dest,
            .is_link = cases[i].is_link,
        };
        CHECK(judge(g, r).status == cases[i].status);
    }
    /* A link does not make a foreign Origin ours, nor a foreign Host. */
    CHECK(judge(g, (struct kr_guard_request){.host = "h", .origin = "null", .is_link = true}).status == 403);
    CHECK(judge(g, (struct kr_guard_request){.host = "evil.org", .is_link = true}).status == 400);
    /* A configured origin is another site, and may ask. */
    CHECK(judge(g,
                (struct kr_guard_request){
                    .method = "POST", .host = "h", .origin = "https://app.example.com", .sec_fetch_site = "cross-site"})
              .status == 0);
    kr_guard_free(g);
}

/* ---- CORS ---- */

static const char *value_of(const struct kr_guard_header *h, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(h[i].name, name) == 0)
            return h[i].value;
    return NULL;
}

static void cors_replies(void)
{
    struct kr_guard *g = full();
    struct kr_guard_request r = {.method = "POST", .host = "h", .origin = "https://app.example.com"};
    struct kr_guard_header h[KR_GUARD_HEADERS_MAX];
    struct kr_guard_verdict v;
    size_t n;

    CHECK(g);
    v = judge(g, r);
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(n == 3 && strcmp(value_of(h, n, "Vary"), "Origin") == 0);
    CHECK(strcmp(value_of(h, n, "Access-Control-Allow-Origin"), "https://app.example.com") == 0);
    CHECK(strstr(value_of(h, n, "Access-Control-Expose-Headers"), "X-Run-Id, X-Session-Id"));
    CHECK(strstr(value_of(h, n, "Access-Control-Expose-Headers"), "X-Request-ID"));
    CHECK(!value_of(h, n, "Access-Control-Allow-Credentials"));
    /* A request without Origin, and a refused one: Vary is set, no origin is allowed. */
    v = judge(g, (struct kr_guard_request){.host = "h"});
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(n == 1 && value_of(h, n, "Vary"));
    v = judge(g, (struct kr_guard_request){.host = "h", .origin = "https://evil.org"});
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(v.status == 403 && n == 1 && value_of(h, n, "Vary"));
    kr_guard_free(g);
}

static void cors_preflight(void)
{
    struct kr_guard *g = full();
    struct kr_guard_request r = {
        .method = "OPTIONS", .host = "h", .origin = "https://app.example.com", .ac_request_method = "POST"};
    struct kr_guard_header h[KR_GUARD_HEADERS_MAX];
    struct kr_guard_verdict v;
    size_t n;

    CHECK(g);
    v = judge(g, r);
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(v.status == 204 && v.is_preflight);
    CHECK(strstr(value_of(h, n, "Access-Control-Allow-Methods"), "DELETE"));
    CHECK(strstr(value_of(h, n, "Access-Control-Allow-Headers"), "Authorization"));
    CHECK(strstr(value_of(h, n, "Access-Control-Allow-Headers"), "X-API-Key"));
    CHECK(value_of(h, n, "Access-Control-Max-Age") && !value_of(h, n, "Access-Control-Allow-Private-Network"));
    r.ac_request_private_network = "true";
    v = judge(g, r);
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(value_of(h, n, "Access-Control-Allow-Private-Network") && n <= KR_GUARD_HEADERS_MAX);
    r.ac_request_method = NULL; /* a plain OPTIONS is the route's */
    CHECK(judge(g, r).status == 0);
    r.ac_request_method = "POST";
    r.origin = "https://evil.org";
    CHECK(judge(g, r).status == 403);
    r.origin = "null";
    CHECK(judge(g, r).status == 403);
    kr_guard_free(g);
}

static void cors_star_has_no_credentials(void)
{
    static const char *const star[] = {"*", "https://app.example.com"};
    struct kr_guard_config config = {.cors_origins = {star, 2}, .cors_credentials = true};
    struct kr_guard_header h[KR_GUARD_HEADERS_MAX];
    struct kr_guard *g = NULL;
    struct kr_guard_verdict v;
    struct kr_err err;
    size_t n;

    CHECK(kr_guard_new(&config, &g, &err) == -EINVAL && strstr(err.msg, "exclude each other"));
    config.cors_credentials = false;
    CHECK(kr_guard_new(&config, &g, &err) == 0);
    v = judge(g, (struct kr_guard_request){.host = "h", .origin = "https://any.org"});
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(v.status == 0 && strcmp(value_of(h, n, "Access-Control-Allow-Origin"), "*") == 0);
    CHECK(judge(g, (struct kr_guard_request){.host = "h", .origin = "null"}).status == 403);
    CHECK(judge(g, (struct kr_guard_request){.host = "h", .sec_fetch_site = "cross-site"}).status == 403);
    kr_guard_free(g);

    config = (struct kr_guard_config){.cors_origins = {star + 1, 1}, .cors_credentials = true};
    CHECK(kr_guard_new(&config, &g, &err) == 0);
    v = judge(g, (struct kr_guard_request){.host = "h", .origin = "https://app.example.com"});
    n = kr_guard_cors_headers(g, &v, h);
    CHECK(strcmp(value_of(h, n, "Access-Control-Allow-Credentials"), "true") == 0);
    CHECK(strcmp(value_of(h, n, "Access-Control-Allow-Origin"), "https://app.example.com") == 0);
    kr_guard_free(g);
}

static void bad_settings_are_named(void)
{
    static const char *const bad_hosts[] = {"",   "http://a.org", "a b", "a..b", "*.1.2.3.4",
                                            "*.", "a.*.org",      "a:x", "a:*"};
    static const char *const bad_origins[] = {"",      "null",        "app.example.com", "https://",  "https://a/",
                                              "*://a", "https://a:0", "https://a b",     "https://*", "1http://a"};
    static const char *const bad_urls[] = {"", "example.org", "ftp://example.org", "https://", "https://*.a", "null"};
    struct kr_guard *g = NULL;
    struct kr_err err;

    for (size_t i = 0; i < sizeof bad_hosts / sizeof bad_hosts[0]; i++) {
        struct kr_guard_config config = {.allowed_hosts = {bad_hosts + i, 1}};
        CHECK(kr_guard_new(&config, &g, &err) == -EINVAL && strstr(err.msg, "allowed host \""));
    }
    for (size_t i = 0; i < sizeof bad_origins / sizeof bad_origins[0]; i++) {
        struct kr_guard_config config = {.cors_origins = {bad_origins + i, 1}};
        CHECK(kr_guard_new(&config, &g, &err) == -EINVAL && strstr(err.msg, "CORS origin \""));
    }
    for (size_t i = 0; i < sizeof bad_urls / sizeof bad_urls[0]; i++) {
        struct kr_guard_config config = {.public_url = bad_urls[i]};
        CHECK(kr_guard_new(&config, &g, &err) == -EINVAL && strstr(err.msg, "public URL \""));
    }
    CHECK(!g);
    kr_guard_free(NULL);
}

/* ---- security headers ---- */

static void every_reply_is_guarded(void)
{
    struct kr_guard_header h[KR_GUARD_HEADERS_MAX];

    for (int kind = 0; kind < KR_GUARD_MAX_; kind++) {
        size_t n = kr_guard_security_headers((enum kr_guard_kind)kind, NULL, h);
        const char *csp = value_of(h, n, "Content-Security-Policy");

        CHECK(n >= 5 && n <= KR_GUARD_HEADERS_MAX);
        CHECK(strcmp(value_of(h, n, "X-Content-Type-Options"), "nosniff") == 0);
        CHECK(strcmp(value_of(h, n, "Referrer-Policy"), "no-referrer") == 0);
        CHECK(csp && strstr(csp, "default-src 'none'") && strstr(csp, "frame-ancestors"));
        CHECK(value_of(h, n, "Cross-Origin-Resource-Policy"));
        CHECK(kind == KR_GUARD_FILE || kind == KR_GUARD_LINK || !strstr(csp, "unsafe"));
    }
}

static void files_are_in_an_origin_of_their_own(void)
{
    static const enum kr_guard_kind kinds[] = {KR_GUARD_FILE, KR_GUARD_LINK};
    struct kr_guard_header h[KR_GUARD_HEADERS_MAX];

    for (size_t i = 0; i < 2; i++) {
        size_t n = kr_guard_security_headers(kinds[i], "text/html", h);
        const char *csp = value_of(h, n, "Content-Security-Policy");

        CHECK(strncmp(csp, "sandbox ", 8) == 0 && !strstr(csp, "allow-same-origin") && !strstr(csp, "connect-src"));
        n = kr_guard_security_headers(kinds[i], "application/pdf", h);
        csp = value_of(h, n, "Content-Security-Policy");
        CHECK(!strstr(csp, "sandbox") && !strstr(csp, "script"));
    }
    CHECK(strcmp(value_of(h, kr_guard_security_headers(KR_GUARD_FILE, NULL, h), "Cross-Origin-Resource-Policy"),
                 "same-origin") == 0);
    CHECK(strcmp(value_of(h, kr_guard_security_headers(KR_GUARD_LINK, NULL, h), "Cross-Origin-Resource-Policy"),
                 "cross-origin") == 0);
}

int main(void)
{
    RUN(local_hosts_pass);
    RUN(without_a_host_only_this_machine_is_let_in);
    RUN(foreign_and_broken_hosts_are_refused);
    RUN(hosts_are_configured);
    RUN(a_star_takes_every_host_that_is_one);
    RUN(mcp_paths_speak_mcp);
    RUN(origins_are_judged);
    RUN(one_origin_of_two_schemes_is_refused);
    RUN(cross_site_is_refused);
    RUN(cors_replies);
    RUN(cors_preflight);
    RUN(cors_star_has_no_credentials);
    RUN(bad_settings_are_named);
    RUN(every_reply_is_guarded);
    RUN(files_are_in_an_origin_of_their_own);
    CHECK_DONE();
}
