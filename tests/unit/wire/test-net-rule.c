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
    CHECK(refuses("allow:a b", "\"a b\" is not a host name"));
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
    RUN(hosts_are_bounded);
    RUN(what_cannot_be_built_is_refused);
    CHECK_DONE();
}
