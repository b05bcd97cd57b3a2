/* Query strings, form bodies and the pieces of URLs.
 *
 * Called by the routes for `?a=b` and for form posts, by the router for its captures, and by the builders of links.
 * Invariant: text that comes out of here is valid UTF-8 without NUL, whatever went in; what goes into a URL or a header
 * line is made of characters that cannot end it. */
#include "query.h"
#include "buf.h"
#include "err.h"
#include "utf8.h"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_KEY_MAX 40u
#define FILENAME_MAX_BYTES 1024u /* of a Content-Disposition; file systems allow 255 */

static bool is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static bool is_utf8(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The text without that of an errno, which means nothing to a client. */
static int refuse_text(struct kr_err *err, const char *what, const char *why)
{
    kr_err_set(err, KR_ERR_INVALID, 0, "%s %s", what, why);
    return -EINVAL;
}

long kr_percent_decode(const char *text, size_t len, bool plus_is_blank, char *out, const char *what,
                       struct kr_err *err)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c < 0x20 || c == 0x7f)
            return refuse_text(err, what, "has a raw control character");
        if (c == '+' && plus_is_blank)
            c = ' ';
        if (c == '%') {
            int high = len - i > 2 ? hex_digit(text[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text[i + 2]) : -1;

            if (low < 0)
                return refuse_text(err, what, "has a % without two hexadecimal digits after it");
            c = (unsigned char)(high << 4 | low);
            if (c == 0)
                return refuse_text(err, what, "has a NUL character");
            i += 2;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    if (!is_utf8(out, n))
        return refuse_text(err, what, "is not valid UTF-8");
    return (long)n;
}

/* ---- pairs ---- */

/* How an error names a pair: by its position, and by its key if that is plain. */
static void name_pair(char *out, size_t size, unsigned number, const char *part, const char *raw_key, size_t len)
{
    size_t plain = 0;

    while (plain < len && is_unreserved(raw_key[plain]))
        plain++;
    if (len > 0 && plain == len && len <= SHOWN_KEY_MAX)
        snprintf(out, size, "the %s of parameter %u (%.*s)", part, number, (int)len, raw_key);
    else
        snprintf(out, size, "the %s of parameter %u", part, number);
}

/* One pair, not empty; *out moves past what it takes (at most len + 2 bytes). */
static int take_pair(struct kr_query *q, const char *raw, size_t len, char **out, struct kr_err *err)
{
    const char *equals = memchr(raw, '=', len);
    size_t key_len = equals ? (size_t)(equals - raw) : len;
    struct kr_query_pair *pair = &q->pairs[q->count];
    char what[128];
    long n;

    name_pair(what, sizeof what, q->count + 1, "name", raw, key_len);
    if (key_len == 0)
        return refuse_text(err, what, "is empty");
    n = kr_percent_decode(raw, key_len, true, *out, what, err);
    if (n < 0)
        return (int)n;
    pair->key = *out;
    pair->key_len = (size_t)n;
    *out += n + 1;

    name_pair(what, sizeof what, q->count + 1, "value", raw, key_len);
    n = kr_percent_decode(equals ? equals + 1 : raw, equals ? len - key_len - 1 : 0, true, *out, what, err);
    if (n < 0)
        return (int)n;
    pair->value = *out;
    pair->value_len = (size_t)n;
    *out += n + 1;

    for (unsigned i = 0; i < q->count && !q->repeated; i++)
        if (q->pairs[i].key_len == pair->key_len && memcmp(q->pairs[i].key, pair->key, pair->key_len) == 0)
            q->repeated = pair->key;
    q->count++;
    return 0;
}

static int take_pairs(struct kr_query *q, const char *text, size_t len, struct kr_err *err)
{
    char *out = q->text;

    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '&', len - at);
        size_t n = end ? (size_t)(end - (text + at)) : len - at;
        int r;

        if (n > 0 && q->count == KR_QUERY_PAIRS_MAX) {
            kr_err_set(err, KR_ERR_INVALID, 0, "more than %u parameters", KR_QUERY_PAIRS_MAX);
            return -E2BIG;
        }
        r = n > 0 ? take_pair(q, text + at, n, &out, err) : 0;
        if (r < 0)
            return r;
        at += n + 1;
    }
    return 0;
}

int kr_query_parse(struct kr_query *q, const char *text, size_t len, struct kr_err *err)
{
    int r;

    memset(q, 0, sizeof *q);
    if (len == 0)
        return 0;
    if (len > KR_QUERY_TEXT_MAX) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the parameters are %zu bytes, at most %u", len, KR_QUERY_TEXT_MAX);
        return -E2BIG;
    }
    /* Decoded text is never longer than its raw form; each pair adds two NULs, of which `=` or `&` pays for most. */
    q->text = malloc(len + 2 * KR_QUERY_PAIRS_MAX);
    if (!q->text)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "parameters");
    r = take_pairs(q, text, len, err);
    if (r < 0)
        kr_query_done(q);
    return r;
}

void kr_query_done(struct kr_query *q)
{
    free(q->text);
    memset(q, 0, sizeof *q);
}

int kr_query_get(const struct kr_query *q, const char *key, const char **ret_value, struct kr_err *err)
{
    const char *found = NULL;

    for (unsigned i = 0; i < q->count; i++) {
        if (strcmp(q->pairs[i].key, key) != 0)
            continue;
        if (found) {
            kr_err_set(err, KR_ERR_INVALID, 0, "the parameter %s is there more than once", key);
            return -EINVAL;
        }
        found = q->pairs[i].value;
    }
    if (!found)
        return 0;
    *ret_value = found;
    return 1;
}

/* ---- writing ---- */

int kr_percent_encode(struct kr_buf *out, const char *text, size_t len, const char *keep)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t plain = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        char code[3] = {'%', digits[c >> 4], digits[c & 15]};

        if (is_unreserved((char)c) || (c != 0 && strchr(keep, c)))
            continue;
        kr_buf_add(out, text + plain, i - plain);
        kr_buf_add(out, code, sizeof code);
        plain = i + 1;
    }
    kr_buf_add(out, text + plain, len - plain);
    return out->failed;
}

int kr_query_add(struct kr_buf *url, const char *key, const char *value)
{
    kr_buf_add_str(url, strchr(kr_buf_str(url), '?') ? "&" : "?");
    kr_percent_encode(url, key, strlen(key), "");
    kr_buf_add_str(url, "=");
    return kr_percent_encode(url, value, strlen(value), "/");
}

/* Characters that no name of a file needs and that change what a reader sees around them. */
static bool is_treacherous(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069) || c == '\\' || c == '/';
}

/* The name as it is sent: whole characters, misleading ones as `_`, what is not UTF-8 as U+FFFD. */
static void clean_filename(struct kr_buf *out, const char *name, size_t len)
{
    for (size_t at = 0; at < len && out->len < FILENAME_MAX_BYTES;) {
        uint32_t c = 0;
        int n = kr_utf8_next((const unsigned char *)name + at, len - at, &c);

        if (n <= 0)
            kr_buf_add_str(out, "\xef\xbf\xbd");
        else if (is_treacherous(c))
            kr_buf_add_str(out, "_");
        else
            kr_buf_add(out, name + at, (size_t)n);
        at += n > 0 ? (size_t)n : n < 0 ? (size_t)-n : len - at;
    }
}

/* `filename=` for clients that know no other: one `_` for each character a quoted string cannot carry safely (`%` is
 * one: some clients decode it). Returns whether anything had to be replaced. */
static bool add_fallback(struct kr_buf *out, const char *name, size_t len)
{
    bool replaced = false;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)name[i];

        if ((c & 0xc0) == 0x80)
            continue; /* its first byte was replaced */
        if (c < 0x80 && c != '"' && c != '%') {
            kr_buf_add(out, &name[i], 1);
            continue;
        }
        kr_buf_add_str(out, "_");
        replaced = true;
    }
    return replaced;
}

int kr_disposition_add(struct kr_buf *out, const char *word, const char *filename)
{
    const char *slash = filename ? strrchr(filename, '/') : NULL;
    const char *last = slash ? slash + 1 : filename;
    cleanup_buf struct kr_buf name;

    kr_buf_init(&name, FILENAME_MAX_BYTES + 4);
    if (last)
        clean_filename(&name, last, strlen(last));
    if (name.failed && !out->failed)
        return name.failed;
    kr_buf_add_str(out, word);
    if (name.len == 0)
        return out->failed;
    kr_buf_add_str(out, "; filename=\"");
    if (add_fallback(out, name.data, name.len)) {
        kr_buf_add_str(out, "\"; filename*=UTF-8''");
        return kr_percent_encode(out, name.data, name.len, "");
    }
    return kr_buf_add_str(out, "\"");
}
