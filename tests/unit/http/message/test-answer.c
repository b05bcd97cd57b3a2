/* src/http/message/answer.c: the heads that servers answer with. Run by tests/run. */
#define _GNU_SOURCE 1
#include "check.h"
#include "answer.h"
#include <errno.h>

static int parse_answer(const char *text, struct kr_http_answer *a)
{
    struct kr_http_scan scan = {0};

    return kr_http_answer_parse(text, strlen(text), &scan, a);
}

static void an_answer_is_read(void)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\ncontent-length: 5\r\nX: \t a b \r\n\r\nhello";
    struct kr_http_answer a;
    char value[16], cut[5];

    CHECK(parse_answer(text, &a) == (int)(strlen(text) - 5));
    CHECK(a.status == 200 && a.content_length == 5 && a.keep_alive && !a.chunked && !a.http10 && !a.no_body);
    CHECK(strcmp(kr_http_answer_text(text, &a, "x", value, sizeof value), "a b") == 0);
    CHECK(strcmp(kr_http_answer_text(text, &a, "content-type", cut, sizeof cut), "text") == 0);
    CHECK(strcmp(kr_http_answer_text(text, &a, "etag", value, sizeof value), "") == 0);
    CHECK(a.reason.len == 2);
}

static void how_the_body_ends_is_told(void)
{
    struct kr_http_answer a;

    CHECK(parse_answer("HTTP/1.1 200\r\nTransfer-Encoding: Chunked\r\n\r\n", &a) > 0 && a.chunked);
    CHECK(parse_answer("HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", &a) > 0 && a.no_body);
    CHECK(parse_answer("HTTP/1.0 200 OK\r\n\r\n", &a) > 0 && a.http10 && !a.keep_alive && a.content_length == -1);
    CHECK(parse_answer("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", &a) > 0 && a.keep_alive);
    CHECK(parse_answer("HTTP/1.1 200 OK\r\nConnection: x, close\r\n\r\n", &a) > 0 && !a.keep_alive);
}

static void what_is_unclear_is_refused(void)
{
    static const char *const bad[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\nC: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1 600 OK\r\n\r\n",
        "HTTP/2 200\r\n\r\n",
        "ICY 200 OK\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
    };
    struct kr_http_answer a;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(parse_answer(bad[i], &a) == -EBADMSG);
    CHECK(parse_answer("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", &a) > 0);
    CHECK(parse_answer("HTTP/1.1 200 OK\r\nA: b\r\n", &a) == 0);
}

static void long_heads_are_refused(void)
{
    static char text[KR_HTTP_ANSWER_HEAD_MAX + 64];
    struct kr_http_answer a;
    int n = sprintf(text, "HTTP/1.1 200 OK\r\nA: ");

    memset(text + n, 'x', sizeof text - 1 - (size_t)n);
    CHECK(parse_answer(text, &a) == -E2BIG);
    memcpy(text + KR_HTTP_ANSWER_HEAD_MAX - 4, "\r\n\r\n", 5);
    CHECK(parse_answer(text, &a) == (int)KR_HTTP_ANSWER_HEAD_MAX);
    n = sprintf(text, "HTTP/1.1 200 OK\r\n");
    for (unsigned i = 0; i <= KR_HTTP_ANSWER_FIELDS_MAX; i++)
        n += sprintf(text + n, "A: b\r\n");
    sprintf(text + n, "\r\n");
    CHECK(parse_answer(text, &a) == -E2BIG);
}

int main(void)
{
    RUN(an_answer_is_read);
    RUN(how_the_body_ends_is_told);
    RUN(what_is_unclear_is_refused);
    RUN(long_heads_are_refused);
    CHECK_DONE();
}
