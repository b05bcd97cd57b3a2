/* Numbers of any size past a parser of 64-bit numbers, as text. Called by json_load.c.
 *
 * Invariants: what comes out is JSON if and only if what came in is, up to unpaired surrogates; the text between two
 * kept numbers is untouched; only text in JSON's grammar of a number is ever written for a kept one. */
#define _GNU_SOURCE 1
#include "json_keep.h"
#include "buf.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BEFORE "{\"" KR_JSON_KEPT_KEY "\":\""
#define BEHIND "\"}"

/* ---- numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t skip_digits(const char *text, size_t len, size_t at)
{
    while (at < len && is_digit(text[at]))
        at++;
    return at;
}

bool kr_json_is_number(const char *text, size_t len)
{
    size_t at = len > 0 && text[0] == '-', start = at;

    at = skip_digits(text, len, at);
    if (len > KR_JSON_KEPT_MAX || at == start || (text[start] == '0' && at > start + 1))
        return false;
    if (at < len && text[at] == '.') {
        start = ++at;
        at = skip_digits(text, len, at);
        if (at == start)
            return false;
    }
    if (at < len && (text[at] == 'e' || text[at] == 'E')) {
        at++;
        at += at < len && (text[at] == '+' || text[at] == '-');
        start = at;
        at = skip_digits(text, len, at);
        if (at == start)
            return false;
    }
    return at == len;
}

static bool is_number_char(char c)
{
    return is_digit(c) || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

/* Does a parser of 64-bit numbers refuse this one? */
static bool is_past_64_bits(const char *number, size_t len)
{
    char text[KR_JSON_KEPT_MAX + 1];

    if (!kr_json_is_number(number, len))
        return false; /* not JSON: the parser's question */
    memcpy(text, number, len);
    text[len] = '\0';
    errno = 0;
    if (strpbrk(text, ".eE"))
        return isinf(strtod(text, NULL));
    (void)strtoll(text, NULL, 10);
    return errno == ERANGE;
}

/* ---- strings ---- */

/* The code unit of \uXXXX, or -1. */
static int unit_at(const char *text, size_t left)
{
    int unit = 0;

    if (left < 6 || text[0] != '\\' || text[1] != 'u')
        return -1;
    for (size_t i = 2; i < 6; i++) {
        char c = text[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* How many bytes of an escape at `text` belong together; *ret_lone: it is one half of a pair alone. */
static size_t escape_at(const char *text, size_t left, bool *ret_lone)
{
    int unit = unit_at(text, left), next;

    *ret_lone = false;
    if (unit < 0)
        return left < 2 ? left : 2;
    if (unit < 0xd800 || unit > 0xdfff)
        return 6;
    next = unit_at(text + 6, left - 6);
    if (unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff)
        return 12;
    *ret_lone = true;
    return 6;
}

/* ---- the passes ---- */

struct keeper {
    const char *text;
    size_t len, at;
    size_t done; /* of the text that is in `out` */
    struct kr_buf *out;
    bool changed;
};

/* `len` bytes at `at` become `before` + those bytes + `behind`, or only `before` if behind is NULL. */
static void replace(struct keeper *k, size_t len, const char *before, const char *behind)
{
    kr_buf_add(k->out, k->text + k->done, k->at - k->done);
    kr_buf_add_str(k->out, before);
    if (behind) {
        kr_buf_add(k->out, k->text + k->at, len);
        kr_buf_add_str(k->out, behind);
    }
    k->done = k->at + len;
    k->changed = true;
}

static void keep_string(struct keeper *k)
{
    for (k->at++; k->at < k->len && k->text[k->at] != '"';) {
        bool lone = false;
        size_t n = k->text[k->at] == '\\' ? escape_at(k->text + k->at, k->len - k->at, &lone) : 1;

        if (lone)
            replace(k, n, "\\ufffd", NULL);
        k->at += n;
    }
    k->at += k->at < k->len;
}

static void keep_number(struct keeper *k)
{
    size_t n = 1;

    while (k->at + n < k->len && is_number_char(k->text[k->at + n]))
        n++;
    if (n > 18 || memchr(k->text + k->at, 'e', n) || memchr(k->text + k->at, 'E', n))
        if (is_past_64_bits(k->text + k->at, n))
            replace(k, n, BEFORE, BEHIND);
    k->at += n;
}

int kr_json_keep(const char *text, size_t len, struct kr_buf *out)
{
    struct keeper k = {.text = text, .len = len, .out = out};

    while (k.at < len)
        if (text[k.at] == '"')
            keep_string(&k);
        else if (text[k.at] == '-' || is_digit(text[k.at]))
            keep_number(&k);
        else
            k.at++;
    kr_buf_add(out, text + k.done, len - k.done);
    return out->failed ? out->failed : k.changed;
}

size_t kr_json_restore(char *text, size_t len)
{
    const size_t before = sizeof BEFORE - 1, behind = sizeof BEHIND - 1;
    char *from = text, *to = text, *end = text + len, *found;

    /* Between the quotes of a string a quote is escaped, so what is found stands outside of strings. */
    while ((found = memmem(from, (size_t)(end - from), BEFORE, before))) {
        char *number = found + before, *stop = memchr(number, '"', (size_t)(end - number)); /* each byte is read once */
        size_t n = stop ? (size_t)(stop - number) : 0;
        bool is_kept =
            stop && (size_t)(end - stop) >= behind && memcmp(stop, BEHIND, behind) == 0 && kr_json_is_number(number, n);
        size_t head = is_kept ? (size_t)(found - from) : (size_t)(number - from);

        memmove(to, from, head);
        to += head;
        from = number;
        if (is_kept) {
            memmove(to, number, n);
            to += n;
            from = stop + behind;
        }
    }
    if (to != from)
        memmove(to, from, (size_t)(end - from));
    return (size_t)(to - text) + (size_t)(end - from);
}
