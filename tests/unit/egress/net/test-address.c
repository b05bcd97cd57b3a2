/* src/egress/net/address.c: every row of the table at both of its ends and beside them, and every spelling of an
 * address that a resolver somewhere would read. Run by tests/run. */
#include "address.h"
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static enum kr_eg_address_use use_of(const char *text, const char **ret_what)
{
    struct sockaddr_storage a = {0};

    if (strchr(text, ':')) {
        a.ss_family = AF_INET6;
        if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&a)->sin6_addr) != 1)
            printf("FAIL %s is no address\n", text);
    } else {
        a.ss_family = AF_INET;
        if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&a)->sin_addr) != 1)
            printf("FAIL %s is no address\n", text);
    }
    return kr_eg_address_use((struct sockaddr *)&a, ret_what);
}

static const struct {
    const char *text, *what;
    bool never;
} refused[] = {
    {"0.0.0.0", "unspecified", true},
    {"0.255.255.255", "unspecified", true},
    {"10.0.0.0", "private", false},
    {"10.255.255.255", "private", false},
    {"100.64.0.0", "NAT", false},
    {"100.127.255.255", "NAT", false},
    {"100.100.100.200", "metadata", false},
    {"127.0.0.0", "loopback", false},
    {"127.0.0.1", "loopback", false},
    {"127.255.255.255", "loopback", false},
    {"168.63.129.16", "metadata", false},
    {"169.254.0.0", "link-local", false},
    {"169.254.169.254", "metadata", false},
    {"169.254.170.2", "link-local", false},
    {"169.254.255.255", "link-local", false},
    {"172.16.0.0", "private", false},
    {"172.31.255.255", "private", false},
    {"192.0.0.0", "protocols", false},
    {"192.0.0.192", "protocols", false},
    {"192.0.0.255", "protocols", false},
    {"192.0.2.0", "documentation", false},
    {"192.0.2.255", "documentation", false},
    {"192.88.99.0", "6to4", false},
    {"192.88.99.255", "6to4", false},
    {"192.168.0.0", "private", false},
    {"192.168.255.255", "private", false},
    {"198.18.0.0", "benchmarks", false},
    {"198.19.255.255", "benchmarks", false},
    {"198.51.100.0", "documentation", false},
    {"198.51.100.255", "documentation", false},
    {"203.0.113.0", "documentation", false},
    {"203.0.113.255", "documentation", false},
    {"224.0.0.0", "multicast", true},
    {"239.255.255.255", "multicast", true},
    {"240.0.0.0", "reserved", true},
    {"255.255.255.254", "reserved", true},
    {"255.255.255.255", "broadcast", true},
    {"::", "unspecified", true},
    {"::1", "loopback", false},
    {"::2", "IPv4-compatible", true},
    {"::8.8.8.8", "IPv4-compatible", true},
    {"::127.0.0.1", "IPv4-compatible", true},
    {"::ffff:8.8.8.8", "IPv4-mapped", true},
    {"::ffff:127.0.0.1", "IPv4-mapped", true},
    {"::ffff:a9fe:a9fe", "IPv4-mapped", true},
    {"::ffff:0:127.0.0.1", "IPv4-translated", true},
    {"64:ff9b::", "NAT64", true},
    {"64:ff9b::8.8.8.8", "NAT64", true},
    {"64:ff9b::7f00:1", "NAT64", true},
    {"64:ff9b:1::", "NAT64", true},
    {"64:ff9b:1:ffff:ffff:ffff:7f00:1", "NAT64", true},
    {"100::", "discard", true},
    {"100::ffff:ffff:ffff:ffff", "discard", true},
    {"2001::", "Teredo", true},
    {"2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo", true},
    {"2001:2::1", "benchmarks", false},
    {"2001:10::", "ORCHID", true},
    {"2001:1f:ffff::", "ORCHID", true},
    {"2001:20::", "ORCHID", true},
    {"2001:2f:ffff::", "ORCHID", true},
    {"2001:1::1", "protocols", false},
    {"2001:1ff:ffff::", "protocols", false},
    {"2001:db8::", "documentation", false},
    {"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "documentation", false},
    {"2002::", "6to4", true},
    {"2002:7f00:1::1", "6to4", true},
    {"2002:ffff::", "6to4", true},
    {"3fff::", "documentation", false},
    {"3fff:fff::1", "documentation", false},
    {"2600:1f18::5efe:7f00:1", "ISATAP", true},
    {"2600:1f18::200:5efe:7f00:1", "ISATAP", true},
    {"fd00:ec2::254", "metadata", false},
    {"fd20:ce::254", "metadata", false},
    {"fc00::", "private", false},
    {"fdff:ffff::1", "private", false},
    {"fe80::", "link-local", false},
    {"fe80::a9fe:a9fe", "link-local", false},
    {"febf:ffff::1", "link-local", false},
    {"fec0::", "site-local", false},
    {"feff:ffff::1", "site-local", false},
    {"ff00::", "multicast", true},
    {"ff02::1", "multicast", true},
    {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast", true},
    {"1::", "not assigned", true},
    {"64:ff9a::1", "not assigned", true},
    {"101::1", "not assigned", true},
    {"1fff:ffff::1", "not assigned", true},
    {"4000::", "not assigned", true},
    {"5f00::1", "not assigned", true},
    {"fbff::1", "not assigned", true},
};

static void test_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *what = "";
        enum kr_eg_address_use use = use_of(refused[i].text, &what);

        if (use != (refused[i].never ? KR_EG_ADDRESS_NEVER : KR_EG_ADDRESS_RESERVED) || !what ||
            !strstr(what, refused[i].what))
            printf("# %s: %d, %s\n", refused[i].text, (int)use, what ? what : "public");
        CHECK(use == (refused[i].never ? KR_EG_ADDRESS_NEVER : KR_EG_ADDRESS_RESERVED));
        CHECK(what && strstr(what, refused[i].what));
    }
}

/* The positive control: the addresses right beside the rows. */
static void test_public(void)
{
    static const char *const texts[] = {
        "1.0.0.0",         "1.1.1.1",         "8.8.8.8",         "9.255.255.255",   "11.0.0.0",
        "100.63.255.255",  "100.128.0.0",     "126.255.255.255", "128.0.0.0",       "168.63.129.15",
        "169.253.255.255", "169.255.0.0",     "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
        "192.0.3.0",       "192.88.98.255",   "192.88.100.0",    "192.167.255.255", "192.169.0.0",
        "198.17.255.255",  "198.20.0.0",      "198.51.99.255",   "198.51.101.0",    "203.0.112.255",
        "203.0.114.0",     "223.255.255.255", "2000::",          "2001:200::",      "2001:4860:4860::8888",
        "2001:db7::1",     "2001:db9::1",     "2003::",          "2606:4700::1111", "2a04:4e42::223",
        "3ffe::1",         "3fff:1000::",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *what = "";
        enum kr_eg_address_use use = use_of(texts[i], &what);

        if (use != KR_EG_ADDRESS_PUBLIC)
            printf("# %s: %s\n", texts[i], what);
        CHECK(use == KR_EG_ADDRESS_PUBLIC && !what);
    }
}

static void test_other_families(void)
{
    struct sockaddr_storage a = {.ss_family = AF_UNIX};
    const char *what;

    CHECK(kr_eg_address_use((struct sockaddr *)&a, &what) == KR_EG_ADDRESS_NEVER);
}

static void test_spellings(void)
{
    static const char *const bad[] = {
        "127.1",
        "127.0.1",
        "2130706433",
        "0",
        "0x7f000001",
        "0x7F.0.0.1",
        "127.0.0.0x1",
        "0x",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.01",
        "127.000.000.001",
        "127.0.0.1.",
        "1.2.3.4.5",
        "256.1.1.1",
        "1.2.3.400",
        "1..2.3",
        "name.1",
        "a.0x1",
        "example.com.127",
        "127.0.0.1:80",
        "::1%lo",
        "fe80::1%2",
        "[::1]",
        "::1::",
        ":",
        "::g",
        "0:0:0:0:0:0:0:0:1",
        "::FFFF:1.2.3",
        "::ffff:127.1",
        "::ffff:0127.0.0.1",
        "",
        "example.com.",
        ".example.com",
        "a..b",
        "a b",
        "a%2eb",
        "a@b",
        "a/b",
        "b\xc3\xbc.example",
        "a\tb",
    };
    static const char *const names[] = {"localhost",          "example.com",  "1.2.3.4.example",
                                        "127.0.0.1.nip.io",   "0x7f.example", "a_b.example",
                                        "xn--80ak6aa92e.com", "1e100.net",    "c0x"};
    static const char *const literals[][2] = {
        {"127.0.0.1", "127.0.0.1"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"::1", "::1"},
        {"0:0:0:0:0:0:0:1", "::1"},
        {"0000:0000:0000:0000:0000:0000:0000:0001", "::1"},
        {"::FFFF:127.0.0.1", "::ffff:127.0.0.1"},
        {"::ffff:7f00:1", "::ffff:127.0.0.1"},
        {"2001:DB8::0:1", "2001:db8::1"},
        {"64:ff9b::127.0.0.1", "64:ff9b::7f00:1"},
    };
    struct sockaddr_storage a;
    char text[INET6_ADDRSTRLEN];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (kr_eg_host_read(bad[i], &a) != KR_EG_HOST_BAD)
            printf("# \"%s\"\n", bad[i]);
        CHECK(kr_eg_host_read(bad[i], &a) == KR_EG_HOST_BAD);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CHECK(kr_eg_host_read(names[i], &a) == KR_EG_HOST_NAME);
    for (size_t i = 0; i < sizeof literals / sizeof *literals; i++) {
        CHECK(kr_eg_host_read(literals[i][0], &a) == KR_EG_HOST_LITERAL);
        CHECK(strcmp(kr_eg_address_text((struct sockaddr *)&a, text, sizeof text), literals[i][1]) == 0);
    }
}

static void test_own(void)
{
    struct sockaddr_storage a;

    CHECK(kr_eg_host_read("127.0.0.1", &a) == KR_EG_HOST_LITERAL && kr_eg_address_is_own((struct sockaddr *)&a));
    CHECK(kr_eg_host_read("127.9.8.7", &a) == KR_EG_HOST_LITERAL && kr_eg_address_is_own((struct sockaddr *)&a));
    CHECK(kr_eg_host_read("::ffff:127.0.0.1", &a) == KR_EG_HOST_LITERAL && kr_eg_address_is_own((struct sockaddr *)&a));
    CHECK(kr_eg_host_read("192.0.2.1", &a) == KR_EG_HOST_LITERAL && !kr_eg_address_is_own((struct sockaddr *)&a));
}

int main(void)
{
    RUN(test_refused);
    RUN(test_public);
    RUN(test_other_families);
    RUN(test_spellings);
    RUN(test_own);
    CHECK_DONE();
}
