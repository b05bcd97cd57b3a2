/* src/wire: network rules as text and as values. Run by tests/run. */
#include "check.h"
#include "net_rule.h"

static int parses(const char *text, enum kr_net_kind kind, const char *again)
{
    struct kr_net_rule rule, same;
    char buf[KR_NET_RULE_ROOM], buf2[KR_NET_RULE_ROOM];
    struct kr_err err;

    if (kr_net_rule_parse(text, &rule, &err) < 0 || rule.kind != kind)
        return 0;
    if (strcmp(kr_net_rule_text(&rule, buf, sizeof buf), again) != 0)
        return 0;
    return kr_net_rule_parse(buf, &same, &err) == 0 && same.kind == kind &&
           strcmp(kr_net_rule_text(&same, buf2, sizeof buf2), again) == 0;
}

static int refuses(const char *text, const char *why)
{
    struct kr_net_rule rule = {.kind = KR_NET_OPEN};
    struct kr_err err;

    return kr_net_rule_parse(text, &rule, &err) < 0 && err.kind == KR_ERR_INVALID && strstr(err.msg, why) != NULL &&
           rule.kind == KR_NET_OPEN;
}

static void kinds_are_texts(void)
{
    for (int kind = 0; kind < KR_NET_KIND_MAX_; kind++)
        if (kind != KR_NET_ALLOW)
            CHECK(parses(kr_net_kind_names[kind], (enum kr_net_kind)kind, kr_net_kind_names[kind]));
    CHECK(refuses("", "is not one of none, loopback, index, allow:HOST,…, open"));
    CHECK(refuses("None", "\"None\" is not one of"));
    CHECK(refuses("none ", "is not one of"));
    CHECK(refuses("allow", "is not one of")); /* without hosts it would be none */
}

static void hosts_are_parameters(void)
{
    CHECK(parses("allow:pypi.org", KR_NET_ALLOW, "allow:pypi.org"));
    CHECK(parses("allow:PyPI.org,*.Example.com,a-b.c", KR_NET_ALLOW, "allow:pypi.org,*.example.com,a-b.c"));
    CHECK(parses("allow:localhost,10.0.0.1", KR_NET_ALLOW, "allow:localhost,10.0.0.1"));
    CHECK(refuses("allow:", "is not a host name"));
    CHECK(refuses("allow:a,,b", "is not a host name"));
    CHECK(refuses("allow:a,", "is not a host name"));
    CHECK(refuses("allow:a_b", "\"a_b\" is not a host name"));
    CHECK(refuses("allow:a b", "does not begin with methods"));
    CHECK(refuses("allow:*", "is not a host name"));
    CHECK(refuses("allow:*.", "is not a host name"));
    CHECK(refuses("allow:a.*.b", "is not a host name"));
    CHECK(refuses("allow:-a.b", "is not a host name"));
    CHECK(refuses("allow:a-.b", "is not a host name"));
    CHECK(refuses("allow:a..b", "is not a host name"));
    CHECK(refuses("allow:.a", "is not a host name"));
    CHECK(refuses("allow:a.", "is not a host name"));
    CHECK(refuses("allow:b\xc3\xbc"
                  "cher.example",
                  "is not a host name"));
}

static void items_have_ports_methods_and_paths(void)
{
    CHECK(parses("allow:A.example:8443,*.B.example:1", KR_NET_ALLOW, "allow:a.example:8443,*.b.example:1"));
    CHECK(parses("allow:http://A.example", KR_NET_ALLOW, "allow:http://a.example"));
    CHECK(parses("allow:GET|HEAD http://A.example:8080/Pub/*,b", KR_NET_ALLOW,
                 "allow:GET|HEAD http://a.example:8080/Pub/*,b"));
    CHECK(parses("allow:GET http://a/x", KR_NET_ALLOW, "allow:GET http://a/x"));
    CHECK(refuses("allow:a:", "has no port from 1 to 65535"));
    CHECK(refuses("allow:a:0", "has no port from 1 to 65535"));
    CHECK(refuses("allow:a:080", "has no port from 1 to 65535"));
    CHECK(refuses("allow:a:65536", "has no port from 1 to 65535"));
    CHECK(refuses("allow:a:80:80", "has no port from 1 to 65535"));
    CHECK(refuses("allow:a:+1", "has no port from 1 to 65535"));
    CHECK(refuses("allow:GET a", "has methods, which only plain HTTP shows"));
    CHECK(refuses("allow:get http://a", "does not begin with methods"));
    CHECK(refuses("allow:GET| http://a", "does not begin with methods"));
    CHECK(refuses("allow:GET  http://a", "has methods, which only"));
    CHECK(refuses("allow:a/x", "what has a path is written http://HOST/PATH"));
    CHECK(refuses("allow:https://a/x", "what has a path is written http://HOST/PATH"));
    CHECK(refuses("allow:http://u@a/", "is not a host name"));
    CHECK(refuses("allow:http://a/%41", "has a path that is not plain"));
    CHECK(refuses("allow:http://a/x*y", "has a path that is not plain"));
    CHECK(refuses("allow:http://a/x?y", "has a path that is not plain"));
    CHECK(refuses("allow:http://a//x", "has a path that is not plain"));
}

/* What some reader takes for an address is one in the one spelling, or nothing. */
static void addresses_have_one_spelling(void)
{
    static const char *const others[] = {"127.1",       "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1",
                                         "127.0.0.01",  "1.2.3.256",  "1.2.3.4.5",  "*.0.0.1",    "a.1",
                                         "127.0.0.0x1", "[::1]",      "::1"};

    CHECK(parses("allow:127.0.0.1:80", KR_NET_ALLOW, "allow:127.0.0.1:80"));
    CHECK(parses("allow:0.0.0.0", KR_NET_ALLOW, "allow:0.0.0.0"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[64];

        snprintf(text, sizeof text, "allow:%s", others[i]);
        CHECK(refuses(text, "\""));
    }
}

static struct kr_net_rule rule_of(const char *text)
{
    struct kr_net_rule rule;
    struct kr_err err;

    if (kr_net_rule_parse(text, &rule, &err) < 0) {
        printf("# %s: %s\n", text, err.msg);
        abort();
    }
    return rule;
}

static void tunnels_are_judged(void)
{
    static const struct {
        const char *rule, *host;
        uint16_t port;
        bool allowed, named;
    } rows[] = {
        {"none", "a", 443, false, false},
        {"loopback", "a", 443, false, false},
        {"index", "a", 443, false, false},
        {"open", "a", 1, true, true},
        {"allow:a", "a", 443, true, false},
        {"allow:a", "a", 80, true, false},
        {"allow:a", "a", 8443, false, false},
        {"allow:a:8443", "a", 8443, true, true},
        {"allow:a:8443", "a", 443, false, false},
        {"allow:b,a:22", "a", 22, true, true},
        {"allow:a.example", "b.a.example", 443, false, false},
        {"allow:a.example", "aa.example", 443, false, false},
        {"allow:*.a.example", "b.a.example", 443, true, false},
        {"allow:*.a.example", "c.b.a.example", 443, true, false},
        {"allow:*.a.example", "a.example", 443, false, false},
        {"allow:*.a.example", "ba.example", 443, false, false},
        {"allow:*.a.example", ".a.example", 443, false, false},
        {"allow:http://a", "a", 80, false, false}, /* what goes through a tunnel is not seen */
        {"allow:1.2.3.4", "1.2.3.4", 443, true, false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_net_rule rule = rule_of(rows[i].rule);

        if (kr_net_rule_allows(&rule, rows[i].host, rows[i].port) != rows[i].allowed ||
            kr_net_rule_names_port(&rule, rows[i].host, rows[i].port) != rows[i].named)
            printf("# %s %s %u\n", rows[i].rule, rows[i].host, rows[i].port);
        CHECK(kr_net_rule_allows(&rule, rows[i].host, rows[i].port) == rows[i].allowed);
        CHECK(kr_net_rule_names_port(&rule, rows[i].host, rows[i].port) == rows[i].named);
    }
}

#define ITEM "allow:GET|HEAD http://a:8080/pub/*"
static void requests_are_judged(void)
{
    static const struct {
        const char *rule, *method, *host;
        uint16_t port;
        const char *path;
        bool allowed;
    } rows[] = {
        {"index", "GET", "a", 80, "/", false},
        {"open", "GET", "a", 80, "/x/../y", true},
        {"allow:a", "PATCH", "a", 80, "/x/../y", true},
        {"allow:a", "GET", "a", 8080, "/", false},
        {ITEM, "GET", "a", 8080, "/pub/x", true},
        {ITEM, "HEAD", "a", 8080, "/pub/", true},
        {ITEM, "POST", "a", 8080, "/pub/x", false},
        {ITEM, "GE", "a", 8080, "/pub/x", false},
        {ITEM, "GET|HEAD", "a", 8080, "/pub/x", false},
        {ITEM, "GET", "b", 8080, "/pub/x", false},
        {ITEM, "GET", "a", 80, "/pub/x", false},
        {ITEM, "GET", "a", 8080, "/pub", false},
        {ITEM, "GET", "a", 8080, "/Pub/x", false},
        {ITEM, "GET", "a", 8080, "/", false},
        {ITEM, "GET", "a", 8080, "/pub/x?../../y", true},
        {ITEM, "GET", "a", 8080, "/pub/.x", true},
        {ITEM, "GET", "a", 8080, "/pub/%61%20b", true},
        {ITEM, "GET", "a", 8080, "/pub/../x", false},
        {ITEM, "GET", "a", 8080, "/pub/..", false},
        {ITEM, "GET", "a", 8080, "/pub/.", false},
        {ITEM, "GET", "a", 8080, "/pub/./x", false},
        {ITEM, "GET", "a", 8080, "/pub//x", false},
        {ITEM, "GET", "a", 8080, "/pub/..;/x", false},
        {ITEM, "GET", "a", 8080, "/pub/%2e%2e/x", false},
        {ITEM, "GET", "a", 8080, "/pub/%2E./x", false},
        {ITEM, "GET", "a", 8080, "/pub/%2f../x", false},
        {ITEM, "GET", "a", 8080, "/pub/%5c..", false},
        {ITEM, "GET", "a", 8080, "/pub/%252e", false},
        {ITEM, "GET", "a", 8080, "/pub/%c0%ae", false},
        {ITEM, "GET", "a", 8080, "/pub/%e0%80%ae", false},
        {ITEM, "GET", "a", 8080, "/pub/%F0%80%80%AF", false},
        {ITEM, "GET", "a", 8080, "/pub/%f8%80%80%80%af", false},
        {ITEM, "GET", "a", 8080, "/pub/%e0", false},
        {ITEM, "GET", "a", 8080, "/pub/%e0%a4%85%F0%9f%98%80%c3%a4", true},
        {ITEM, "GET", "a", 8080, "/pub/%00", false},
        {ITEM, "GET", "a", 8080, "/pub/%zz", false},
        {ITEM, "GET", "a", 8080, "/pub/%4", false},
        {"allow:http://a/one", "GET", "a", 80, "/one", true},
        {"allow:http://a/one", "PUT", "a", 80, "/one?x=1", true},
        {"allow:http://a/one", "GET", "a", 80, "/one/", false},
        {"allow:http://a", "GET", "a", 443, "/", false},
        {"allow:http://a", "GET", "a", 80, "/any", true},
        {"allow:http://a/*", "GET", "a", 80, "/x//..", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_net_rule rule = rule_of(rows[i].rule);
        bool allowed = kr_net_rule_allows_request(&rule, rows[i].method, rows[i].host, rows[i].port, rows[i].path);

        if (allowed != rows[i].allowed)
            printf("# %s %s %s:%u%s\n", rows[i].rule, rows[i].method, rows[i].host, rows[i].port, rows[i].path);
        CHECK(allowed == rows[i].allowed);
    }
    for (int kind = 0; kind < KR_NET_KIND_MAX_; kind++)
        CHECK(kr_net_rule_allows_index(&(struct kr_net_rule){.kind = (enum kr_net_kind)kind}) ==
              (kind >= KR_NET_INDEX));
}

static void rules_are_compared(void)
{
    static const struct {
        const char *rule, *ceiling;
        bool within;
    } rows[] = {
        {"none", "none", true},
        {"loopback", "none", false},
        {"index", "allow:a", true},
        {"allow:a", "open", true},
        {"open", "allow:a", false},
        {"allow:a", "index", false},
        {"allow:a", "allow:a", true},
        {"allow:a", "allow:b,a", true},
        {"allow:a,b", "allow:a", false},
        {"allow:a:80", "allow:a", true},
        {"allow:a", "allow:a:80", false},
        {"allow:a", "allow:a:80,a:443", true},
        {"allow:a:8080", "allow:a", false},
        {"allow:x.a", "allow:*.a", true},
        {"allow:a", "allow:*.a", false},
        {"allow:*.a", "allow:*.a", true},
        {"allow:*.x.a", "allow:*.a", true},
        {"allow:*.a", "allow:*.x.a", false},
        {"allow:*.a", "allow:x.a", false},
        {"allow:http://a", "allow:a", true},
        {"allow:a:80", "allow:http://a", false},
        {"allow:GET http://a", "allow:http://a", true},
        {"allow:http://a", "allow:GET http://a", false},
        {"allow:GET http://a", "allow:GET|HEAD http://a", true},
        {"allow:GET|POST http://a", "allow:GET|HEAD http://a", false},
        {"allow:http://a/x/y/*", "allow:http://a/x/*", true},
        {"allow:http://a/x/y", "allow:http://a/x/*", true},
        {"allow:http://a/x/*", "allow:http://a/x/y", false},
        {"allow:http://a/x", "allow:http://a/x", true},
        {"allow:http://a", "allow:http://a/x/*", false},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct kr_net_rule rule = rule_of(rows[i].rule), ceiling = rule_of(rows[i].ceiling);

        if (kr_net_rule_within(&rule, &ceiling) != rows[i].within)
            printf("# %s within %s\n", rows[i].rule, rows[i].ceiling);
        CHECK(kr_net_rule_within(&rule, &ceiling) == rows[i].within);
    }
}

static void hosts_are_bounded(void)
{
    char text[2 * KR_NET_HOSTS_ROOM] = "allow:";
    size_t len = strlen(text);

    for (int i = 0; i < KR_NET_HOSTS_COUNT_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%sh%d", i ? "," : "", i);
    CHECK(parses(text, KR_NET_ALLOW, text));
    snprintf(text + len, sizeof text - len, ",more");
    CHECK(refuses(text, "more than 64 hosts"));

    len = strlen("allow:");
    memset(text + len, 'a', 63);
    text[len + 63] = '\0';
    CHECK(parses(text, KR_NET_ALLOW, text));
    memset(text + len, 'a', 64);
    text[len + 64] = '\0';
    CHECK(refuses(text, "is not a host name"));
    memset(text + len, 'a', KR_NET_HOSTS_ROOM);
    text[len + KR_NET_HOSTS_ROOM] = '\0';
    CHECK(refuses(text, "longer than 1023 bytes"));
}

static void what_cannot_be_built_is_refused(void)
{
    struct kr_err err;

    CHECK(kr_net_kind_check(KR_NET_NONE, false, &err) == 0);
    CHECK(kr_net_kind_check(KR_NET_LOOPBACK, false, &err) == 0);
    for (unsigned kind = KR_NET_INDEX; kind < KR_NET_KIND_MAX_; kind++) {
        CHECK(kr_net_kind_check(kind, false, &err) < 0 && err.kind == KR_ERR_UNSUPPORTED);
        CHECK(kr_net_kind_check(kind, true, &err) == 0);
        CHECK(strstr(err.msg, kr_net_kind_names[kind]) != NULL && strstr(err.msg, "egress proxy") != NULL);
    }
    CHECK(kr_net_kind_check(KR_NET_KIND_MAX_, true, &err) < 0 && err.kind == KR_ERR_INVALID);
    CHECK(kr_net_rule_check(&(struct kr_net_rule){.kind = KR_NET_LOOPBACK}, false, &err) == 0);
    CHECK(kr_net_rule_check(&(struct kr_net_rule){.kind = KR_NET_ALLOW}, false, &err) < 0 &&
          err.kind == KR_ERR_INVALID);
    CHECK(kr_net_rule_check(&(struct kr_net_rule){.kind = KR_NET_ALLOW, .hosts = "a"}, false, &err) < 0);
    CHECK(err.kind == KR_ERR_UNSUPPORTED);
}

int main(void)
{
    RUN(kinds_are_texts);
    RUN(hosts_are_parameters);
    RUN(items_have_ports_methods_and_paths);
    RUN(addresses_have_one_spelling);
    RUN(tunnels_are_judged);
    RUN(requests_are_judged);
    RUN(rules_are_compared);
    RUN(hosts_are_bounded);
    RUN(what_cannot_be_built_is_refused);
    CHECK_DONE();
}
