/* Fuzzes src/http's readers of short texts from outside: query strings and forms, file names on their way into a
 * header, Host and Origin. An input is the text, for all of them in turn. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-query"
#include "buf.h"
#include "err.h"
#include "guard.h"
#include "query.h"
#include "replay.h"
#include "utf8.h"
#include <errno.h>
#include <stdbool.h>

static bool is_text(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0 || text[at] == '\0')
            return false;
        at += (size_t)n;
    }
    return text[len] == '\0';
}

/* No byte that could end a header line, a quoted string or a URL's part. */
static bool is_visible(const char *text, size_t len, const char *without)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e || strchr(without, text[i]))
            return false;
    return true;
}

static void same_again(const struct kr_query *q)
{
    struct kr_query again = {0};
    struct kr_buf url;
    struct kr_err err;

    kr_buf_init(&url, 8 * KR_QUERY_TEXT_MAX);
    for (unsigned i = 0; i < q->count; i++)
        must(kr_query_add(&url, q->pairs[i].key, q->pairs[i].value) == 0, "what was read can be written");
    must(is_visible(kr_buf_str(&url), url.len, " \"<>#"), "a URL is made of plain characters");
    /* Encoding makes text longer: what was near the maximum may pass it now. */
    if (url.len > 0 && kr_query_parse(&again, url.data + 1, url.len - 1, &err) == 0) {
        must(again.count == q->count && !again.repeated == !q->repeated, "as many pairs are read again");
        for (unsigned i = 0; i < q->count && i < again.count; i++)
            must(strcmp(q->pairs[i].key, again.pairs[i].key) == 0 &&
                     strcmp(q->pairs[i].value, again.pairs[i].value) == 0,
                 "a pair is read again as it was");
    } else {
        must(url.len == 0 || url.len > KR_QUERY_TEXT_MAX, "what was written can be read");
    }
    kr_query_done(&again);
    kr_buf_done(&url);
}

static void try_query(const char *text, size_t size)
{
    struct kr_query q;
    struct kr_err err = {0};
    int r = kr_query_parse(&q, text, size, &err);

    must(r == 0 || r == -EINVAL || r == -E2BIG, "it is read or refused");
    must(r == 0 || (q.count == 0 && err.kind == KR_ERR_INVALID && err.msg[0]), "a refusal says why");
    must(q.count <= KR_QUERY_PAIRS_MAX, "there are not too many pairs");
    for (unsigned i = 0; i < q.count; i++) {
        must(is_text(q.pairs[i].key, q.pairs[i].key_len) && q.pairs[i].key_len > 0, "a key is text");
        must(is_text(q.pairs[i].value, q.pairs[i].value_len), "a value is text");
    }
    if (r == 0)
        same_again(&q);
    kr_query_done(&q);
}

static void try_name(const char *text)
{
    struct kr_buf out;

    kr_buf_init(&out, 16384);
    must(kr_disposition_add(&out, "inline", text) == 0, "every name can be told");
    must(strncmp(kr_buf_str(&out), "inline", 6) == 0 && is_visible(out.data, out.len, "\\"), "a header is one line");
    if (out.len > 6) {
        const char *quote = strchr(out.data + 18, '"'); /* after `inline; filename="` */

        must(quote && (quote[1] == '\0' || strncmp(quote, "\"; filename*=UTF-8''", 20) == 0), "the quotes hold");
    }
    kr_buf_done(&out);
}

static void try_guard(const char *text)
{
    static const char *const hosts[] = {"*.example.org"}, *const origins[] = {"https://*.example.com"};
    struct kr_guard_config config = {{hosts, 1}, {origins, 1}, "https://a.example", false};
    struct kr_guard_request r = {.method = "POST", .path = "/", .host = text};
    struct kr_guard_header headers[KR_GUARD_HEADERS_MAX];
    struct kr_guard_verdict v;
    struct kr_guard *g = NULL;
    struct kr_err err;

    if (kr_guard_new(&config, &g, &err) < 0)
        return;
    kr_guard_judge(g, &r, &v);
    must(v.status == 0 || v.status == 400, "a Host passes or is refused");
    must(v.status != 0 || is_visible(text, strlen(text), " \"<>#/\\@,;?'"), "a Host that passes is plain");
    r.host = "localhost";
    r.origin = text;
    kr_guard_judge(g, &r, &v);
    must(v.status == 0 || v.status == 403, "an Origin passes or is refused");
    must(v.status != 0 || is_visible(text, strlen(text), " \"<>#\\@,;?'"), "an Origin that passes is plain");
    must(!v.cors || strstr(text, ".example.com") || strcasestr(text, ".example.com"), "only the listed ones have CORS");
    must(kr_guard_cors_headers(g, &v, headers) <= KR_GUARD_HEADERS_MAX, "the headers fit");
    kr_guard_free(g);
    config.public_url = text;
    config.allowed_hosts.items = config.cors_origins.items = &config.public_url;
    if (kr_guard_new(&config, &g, &err) == 0)
        kr_guard_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    try_query((const char *)data, size); /* no NUL after it: a read too far is seen */
    try_name(text);
    try_guard(text);
    free(text);
    return 0;
}
