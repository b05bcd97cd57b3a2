/* Fuzzes the parser of answers' heads. What must hold: the verdict does not depend on how the bytes are cut into
 * pieces; what was accepted has every part inside the head, and one framing.
 *
 * An input is: a byte for the size of the pieces, then what a server sends. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-http-answer"
#include "answer.h"
#include "replay.h"
#include <errno.h>

static int parse_in_pieces(const char *text, size_t size, size_t piece, struct kr_http_answer *a)
{
    struct kr_http_scan scan = {0};
    int r = 0;

    for (size_t n = 0; n < size && r == 0;) {
        n = n + piece < size ? n + piece : size;
        r = kr_http_answer_parse(text, n, &scan, a);
    }
    return r;
}

static void inspect(const char *text, int len, const struct kr_http_answer *a)
{
    char value[64];

    must(len <= (int)KR_HTTP_ANSWER_HEAD_MAX && memcmp(text + len - 4, "\r\n\r\n", 4) == 0, "it ends in an empty line");
    must(!memchr(text, '\0', (size_t)len), "no NUL");
    must(a->status >= 100 && a->status < 600, "a status");
    must(a->reason.at + a->reason.len <= len, "the reason is inside");
    must(!(a->chunked && a->content_length >= 0), "one framing");
    must(!(a->chunked && a->http10), "no chunks in HTTP/1.0");
    must(a->count <= KR_HTTP_ANSWER_FIELDS_MAX, "not too many fields");
    for (unsigned i = 0; i < a->count; i++) {
        must(a->fields[i].name.len > 0 && a->fields[i].name.at + a->fields[i].name.len <= len, "a name is inside");
        must(a->fields[i].value.at + a->fields[i].value.len <= len, "a value is inside");
        must(!memchr(text + a->fields[i].value.at, '\r', a->fields[i].value.len), "a value is one line");
    }
    must(strlen(kr_http_answer_text(text, a, "content-type", value, sizeof value)) < sizeof value, "cut to the room");
    kr_http_answer_text(text, a, "content-length", value, sizeof value);
    must(!value[0] == (a->content_length < 0), "the length is that of a field");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kr_http_answer whole, cut;
    const char *text = (const char *)data + 1;
    struct kr_http_scan scan = {0};
    int r;

    if (size < 2)
        return 0;
    r = kr_http_answer_parse(text, size - 1, &scan, &whole);
    must(r == parse_in_pieces(text, size - 1, data[0] + 1u, &cut), "the verdict is the same in pieces");
    must(r >= 0 || r == -EBADMSG || r == -E2BIG, "a verdict");
    if (r > 0) {
        must(memcmp(whole.fields, cut.fields, whole.count * sizeof whole.fields[0]) == 0, "the fields too");
        must(whole.content_length == cut.content_length && whole.chunked == cut.chunked, "and the framing");
        inspect(text, r, &whole);
    }
    return 0;
}
