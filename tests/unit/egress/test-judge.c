/* src/egress/eg_judge.c: one spelling of each host, what a request asks for, and whether a rule allows it. Run by
 * tests/run. */
#include "eg_judge.h"
#include "check.h"
#include <errno.h>

static void hosts_have_one_spelling(void)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        uint16_t port;           /* 7: none was given */
    } rows[] = {
        {"example.org", "example.org", 7},
        {"EXAMPLE.org:443", "example.org", 443},
        {"example.org.:80", "example.org", 80},
        {"192.0.2.1:8080", "192.0.2.1", 8080},
        {"[2001:DB8::0:1]:443", "2001:db8::1", 443},
        {"[::1]", "::1", 7},
        {"[::ffff:127.0.0.1]:1", "::ffff:127.0.0.1", 1},
        {"a_b.example:65535", "a_b.example", 65535},
        {"", NULL, 0},
        {".", NULL, 0},
        {"a..b", NULL, 0},
        {"a..", NULL, 0},
        {".a", NULL, 0},
        {"a:", NULL, 0},
        {"a:0", NULL, 0},
        {"a:080", NULL, 0},
        {"a:65536", NULL, 0},
        {"a:1x", NULL, 0},
        {"a:-1", NULL, 0},
        {"a@b", NULL, 0},
        {"a b", NULL, 0},
        {"a~b", NULL, 0},
        {"[::1", NULL, 0},
        {"[::1]x", NULL, 0},
        {"[127.0.0.1]:80", NULL, 0},
        {"[example.org]:80", NULL, 0},
        {"2001:db8::1", NULL, 0},
        {"[fe80::1%1]:80", NULL, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char host[KR_EG_HOST_ROOM];
        uint16_t port = 7;
        int r = kr_eg_authority_read(rows[i].text, strlen(rows[i].text), host, &port);

        if (!rows[i].host)
            CHECK(r == -EINVAL);
        else
            CHECK(r == 0 && strcmp(host, rows[i].host) == 0 && port == rows[i].port);
    }
}

static void long_names_are_refused(void)
{
    char text[300], host[KR_EG_HOST_ROOM];
    uint16_t port = 0;

    memset(text, 'a', sizeof text);
    for (size_t i = 60; i < sizeof text; i += 60)
        text[i] = '.';
    CHECK(kr_eg_authority_read(text, 253, host, &port) == 0 && strlen(host) == 253);
    CHECK(kr_eg_authority_read(text, 254, host, &port) == -EINVAL);
    memset(text, 'a', sizeof text);
    CHECK(kr_eg_authority_read(text, 63, host, &port) == 0);
    CHECK(kr_eg_authority_read(text, 64, host, &port) == -EINVAL);
}

/* ---- requests ---- */

struct bench {
    struct kr_eg_cell cell;
    struct kr_eg_conn conn;
};

static void open_bench(struct bench *b, const char *rule)
{
    *b = (struct bench){.cell = {.id = 1}};
    b->conn.cell = &b->cell;
    kr_buf_init(&b->conn.head, KR_HTTP_PARSE_HEAD_MAX);
    if (kr_net_rule_parse(rule, &b->cell.rule, NULL) < 0)
        abort();
}

static void close_bench(struct bench *b)
{
    kr_buf_done(&b->conn.head);
    free(b->conn.target);
}

/* 0: read and allowed; else the status to refuse with. */
static unsigned judge(struct bench *b, const char *head)
{
    struct kr_eg_conn *c = &b->conn;
    struct kr_eg_refusal refusal = {0};
    struct kr_http_scan scan = {0};
    int n;

    kr_buf_reset(&c->head);
    kr_buf_add_str(&c->head, head);
    n = kr_http_proxy_head_parse(kr_buf_str(&c->head), c->head.len, &scan, &c->req.head);
    if (n <= 0)
        return n < 0 ? (unsigned)-n : 1;
    if (kr_eg_request_read(c, &refusal) < 0 || !kr_eg_request_allowed(c, &refusal))
        return refusal.why[0] ? refusal.status : 2;
    return 0;
}

static void targets_and_hosts_agree(void)
{
    static const struct {
        const char *head;
        unsigned want;
    } rows[] = {
        {"GET http://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", 0},
        {"GET http://a.example:80/x HTTP/1.1\r\nHost: A.example\r\n\r\n", 0},
        {"GET http://a.example./x HTTP/1.1\r\nHost: a.example:80\r\n\r\n", 0},
        {"GET http://a.example/x HTTP/1.0\r\n\r\n", 0},
        {"GET http://a.example/x HTTP/1.1\r\n\r\n", 400},
        {"GET http://a.example/x HTTP/1.1\r\nHost: b.example\r\n\r\n", 403},
        {"GET http://a.example:8080/x HTTP/1.1\r\nHost: a.example\r\n\r\n", 403},
        {"GET https://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
        {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 0},
        {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", 0},
        {"CONNECT a.example:443 HTTP/1.0\r\n\r\n", 0},
        {"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:80\r\n\r\n", 403},
        {"CONNECT a.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n", 403},
        {"CONNECT a.example HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
        {"CONNECT http://a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
        {"GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
        {"GET /index/simple/ HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n", 0},
        {"GET http://localhost:3128/index/simple/ HTTP/1.1\r\nHost: localhost:3128\r\n\r\n", 0},
        {"OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n", 400},
    };
    struct bench b;

    open_bench(&b, "open");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (judge(&b, rows[i].head) != rows[i].want) {
            printf("# %s", rows[i].head);
            CHECK(!"as the row says");
        }
    close_bench(&b);
}

static void rules_decide(void)
{
    static const struct {
        const char *rule, *head;
        unsigned want;
    } rows[] = {
        {"index", "GET /index/simple/ HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n", 0},
        {"index", "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n", 403},
        {"loopback", "GET /index/simple/ HTTP/1.1\r\nHost: 127.0.0.1:3128\r\n\r\n", 403},
        {"none", "CONNECT a.example:443 HTTP/1.0\r\n\r\n", 403},
        {"allow:a.example", "CONNECT a.example:443 HTTP/1.0\r\n\r\n", 0},
        {"allow:a.example", "CONNECT a.example:22 HTTP/1.0\r\n\r\n", 403},
        {"allow:a.example", "CONNECT x.a.example:443 HTTP/1.0\r\n\r\n", 403},
        {"allow:*.a.example", "CONNECT x.a.example:443 HTTP/1.0\r\n\r\n", 0},
        {"allow:GET http://a.example/p/*", "GET http://a.example/p/1?q HTTP/1.0\r\n\r\n", 0},
        {"allow:GET http://a.example/p/*", "POST http://a.example/p/1 HTTP/1.0\r\n\r\n", 403},
        {"allow:GET http://a.example/p/*", "GET http://a.example/q HTTP/1.0\r\n\r\n", 403},
        {"allow:GET http://a.example/p/*", "CONNECT a.example:80 HTTP/1.0\r\n\r\n", 403},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct bench b;

        open_bench(&b, rows[i].rule);
        CHECK(judge(&b, rows[i].head) == rows[i].want);
        close_bench(&b);
    }
}

static void queries_stay_with_the_path(void)
{
    struct bench b;

    open_bench(&b, "open");
    CHECK(judge(&b, "GET http://a.example/p?x=1&y HTTP/1.0\r\n\r\n") == 0 && strcmp(b.conn.req.path, "/p?x=1&y") == 0);
    CHECK(judge(&b, "GET http://a.example/p? HTTP/1.0\r\n\r\n") == 0 && strcmp(b.conn.req.path, "/p?") == 0);
    CHECK(judge(&b, "GET http://a.example HTTP/1.0\r\n\r\n") == 0 && strcmp(b.conn.req.path, "/") == 0);
    CHECK(judge(&b, "GET http://a.example?q HTTP/1.0\r\n\r\n") == 0 && strcmp(b.conn.req.path, "/?q") == 0);
    close_bench(&b);
}

int main(void)
{
    RUN(hosts_have_one_spelling);
    RUN(long_names_are_refused);
    RUN(targets_and_hosts_agree);
    RUN(rules_decide);
    RUN(queries_stay_with_the_path);
    CHECK_DONE();
}
