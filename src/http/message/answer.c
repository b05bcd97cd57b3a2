/* The parser of answers' heads. Called by src/egress for every head that a server outside sends, and by
 * tests/fuzz/fuzz-http-answer.c.
 *
 * Two phases, as in parse.c: scan_answer() looks at every byte once for what is wrong at any position and for the empty
 * line; parse_answer_lines() then looks at the meaning of the whole. Invariant: nothing past the empty line is read. */
#include "answer.h"
#include "parse_internal.h"
#include <errno.h>
#include <string.h>
#include <strings.h>

/* The length of the head once it is whole, 0, or negative. Bytes of 0x80 and above are let pass: reasons and file names
 * have them. */
static int scan_answer(const char *b, size_t len, struct kr_http_scan *scan)
{
    size_t end = len < KR_HTTP_ANSWER_HEAD_MAX ? len : KR_HTTP_ANSWER_HEAD_MAX;
    size_t line = scan->line, i;

    for (i = scan->at; i < end; i++) {
        unsigned char c = (unsigned char)b[i];

        if (i > line && b[i - 1] == '\r') {
            if (c != '\n')
                return -EBADMSG;
            if (i - 1 == line)
                return line > 0 ? (int)i + 1 : -EBADMSG;
            line = i + 1;
        } else if ((c < 0x20 && c != '\t' && c != '\r') || c == 0x7f) {
            return -EBADMSG;
        }
    }
    scan->at = (uint16_t)i;
    scan->line = (uint16_t)line;
    return len >= KR_HTTP_ANSWER_HEAD_MAX ? -E2BIG : 0;
}

static struct kr_http_slice answer_slice(const char *base, const char *from, const char *to)
{
    return (struct kr_http_slice){(uint16_t)(from - base), (uint16_t)(to - from)};
}

static bool answer_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "HTTP/1.1 200 OK", the last part of which may be left out with its blank. */
static int parse_status_line(const char *base, const char *p, const char *end, struct kr_http_answer *a)
{
    if (end - p < 12 || memcmp(p, "HTTP/1.", 7) != 0 || (p[7] != '0' && p[7] != '1') || p[8] != ' ')
        return -EBADMSG;
    if (p[9] < '1' || p[9] > '5' || !answer_digit(p[10]) || !answer_digit(p[11]))
        return -EBADMSG;
    if (end - p > 12 && p[12] != ' ')
        return -EBADMSG;
    a->http10 = p[7] == '0';
    a->status = (unsigned)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
    a->reason = answer_slice(base, end - p > 13 ? p + 13 : end, end);
    return 0;
}

struct answer_seen {
    bool length, coding, close, keep_alive;
};

static int judge_answer_field(const char *name, size_t name_len, const char *p, size_t len, struct answer_seen *seen,
                              struct kr_http_answer *a)
{
    if (kr_http_name_is(name, name_len, "content-length")) {
        a->content_length = seen->length ? -1 : kr_http_length_of(p, len);
        seen->length = true;
        return a->content_length < 0 ? -EBADMSG : 0;
    }
    if (kr_http_name_is(name, name_len, "transfer-encoding")) {
        if (seen->coding || !kr_http_name_is(p, len, "chunked"))
            return -EBADMSG;
        seen->coding = true;
    }
    if (kr_http_name_is(name, name_len, "connection")) {
        seen->close |= kr_http_list_has(p, len, "close");
        seen->keep_alive |= kr_http_list_has(p, len, "keep-alive");
    }
    return 0;
}

static int parse_answer_field(const char *base, const char *p, const char *end, struct answer_seen *seen,
                              struct kr_http_answer *a)
{
    struct kr_http_field *f = &a->fields[a->count];
    const char *name = p;

    while (p < end && kr_http_is_token((unsigned char)*p))
        p++;
    if (p == name || p == end || *p != ':') /* also: a folded line, a blank before the colon */
        return -EBADMSG;
    f->name = answer_slice(base, name, p);
    p++;
    while (p < end && (*p == ' ' || *p == '\t'))
        p++;
    while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    f->value = answer_slice(base, p, end);
    a->count++;
    return judge_answer_field(name, f->name.len, p, (size_t)(end - p), seen, a);
}

/* The second phase. Every line is known to end in CRLF and the last to be empty. */
static int parse_answer_lines(const char *b, size_t head_len, struct kr_http_answer *a)
{
    const char *p = b, *stop = b + head_len - 2, *end;
    struct answer_seen seen = {false, false, false, false};
    int r;

    end = memchr(p, '\r', (size_t)(stop - p));
    r = parse_status_line(b, p, end, a);
    for (p = end + 2; r >= 0 && p < stop; p = end + 2) {
        end = memchr(p, '\r', (size_t)(stop - p));
        r = a->count < KR_HTTP_ANSWER_FIELDS_MAX ? parse_answer_field(b, p, end, &seen, a) : -E2BIG;
    }
    if (r < 0)
        return r;
    if (seen.coding && (seen.length || a->http10))
        return -EBADMSG;
    a->chunked = seen.coding;
    a->keep_alive = (!a->http10 || seen.keep_alive) && !seen.close;
    a->no_body = a->status < 200 || a->status == 204 || a->status == 304;
    return 0;
}

int kr_http_answer_parse(const char *bytes, size_t len, struct kr_http_scan *scan, struct kr_http_answer *ret)
{
    int n = scan_answer(bytes, len, scan), r;

    if (n <= 0)
        return n;
    ret->count = 0;
    ret->content_length = -1;
    r = parse_answer_lines(bytes, (size_t)n, ret);
    return r < 0 ? r : n;
}

/* The first of this name (lower case), or NULL. */
static const struct kr_http_field *field_of(const char *bytes, const struct kr_http_answer *a, const char *name)
{
    for (unsigned i = 0; i < a->count; i++)
        if (kr_http_name_is(bytes + a->fields[i].name.at, a->fields[i].name.len, name))
            return &a->fields[i];
    return NULL;
}

const char *kr_http_answer_text(const char *bytes, const struct kr_http_answer *a, const char *name, char *buf,
                                size_t size)
{
    const struct kr_http_field *f = field_of(bytes, a, name);
    size_t len = 0;

    if (f) {
        len = f->value.len < size ? f->value.len : size - 1;
        memcpy(buf, bytes + f->value.at, len);
    }
    buf[len] = '\0';
    return buf;
}
