/* Python literals as JSON. Called by python_sandbox_tools.c for the `result` of document 001 (python-sandbox), whose
 * clients expect a value and not its repr().
 *
 * A recursive descent over text that hostile code may have made: bounded in depth, never reads past the end, takes
 * exactly one literal or nothing. */
#include "pyvalue.h"
#include "buf.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const char *at, *end;
    unsigned depth;
};

static json_t *read_value(struct reader *r);

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool take(struct reader *r, char c)
{
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool take_word(struct reader *r, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* ---- numbers ---- */

static json_t *read_number(struct reader *r)
{
    char text[64];
    size_t n = 0;
    bool real = false;
    char *stop;
    double d;

    while (r->at + n < r->end && n + 1 < sizeof text && strchr("+-0123456789.eE", r->at[n]) && r->at[n]) {
        real |= r->at[n] == '.' || r->at[n] == 'e' || r->at[n] == 'E';
        text[n] = r->at[n];
        n++;
    }
    text[n] = '\0';
    errno = 0;
    if (n == 0 || n + 1 == sizeof text)
        return NULL;
    if (!real) {
        long long value = strtoll(text, &stop, 10);

        r->at += n;
        return *stop || errno ? NULL : json_integer(value);
    }
    d = strtod(text, &stop);
    r->at += n;
    return *stop || !isfinite(d) ? NULL : json_real(d);
}

/* ---- texts ---- */

static int hex_digits(struct reader *r, unsigned count, uint32_t *ret)
{
    uint32_t value = 0;

    if (r->end - r->at < (ptrdiff_t)count)
        return -EINVAL;
    for (unsigned i = 0; i < count; i++) {
        char c = *r->at++;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

        if (digit < 0)
            return -EINVAL;
        value = value << 4 | (uint32_t)digit;
    }
    *ret = value;
    return 0;
}

/* Lone surrogates, which JSON's text cannot carry, are U+FFFD. */
static int add_char(struct kr_buf *out, uint32_t c)
{
    char utf8[4];
    size_t n = 0;

    if (c > 0x10ffff)
        return -EINVAL;
    if (c >= 0xd800 && c <= 0xdfff)
        c = 0xfffd;
    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else if (c < 0x800) {
        utf8[n++] = (char)(0xc0 | c >> 6);
    } else if (c < 0x10000) {
        utf8[n++] = (char)(0xe0 | c >> 12);
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    } else {
        utf8[n++] = (char)(0xf0 | c >> 18);
        utf8[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    if (c >= 0x80)
        utf8[n++] = (char)(0x80 | (c & 0x3f));
    return kr_buf_add(out, utf8, n);
}

static int read_escape(struct reader *r, struct kr_buf *out)
{
    static const char from[] = "ntr\\'\"", to[] = "\n\t\r\\'\"";
    const char *simple;
    uint32_t c = 0;
    char kind;

    if (r->at == r->end)
        return -EINVAL;
    kind = *r->at++;
    simple = kind ? strchr(from, kind) : NULL;
    if (simple)
        return kr_buf_add(out, &to[simple - from], 1);
    if (kind != 'x' && kind != 'u' && kind != 'U')
        return -EINVAL;
    if (hex_digits(r, kind == 'x' ? 2 : kind == 'u' ? 4 : 8, &c) < 0)
        return -EINVAL;
    return add_char(out, c);
}

/* Into the buffer, which is the caller's. */
static int read_text(struct reader *r, struct kr_buf *out)
{
    char quote = *r->at++;

    while (r->at < r->end && *r->at != quote) {
        if (*r->at == '\n')
            return -EINVAL;
        if (*r->at == '\\') {
            r->at++;
            if (read_escape(r, out) < 0)
                return -EINVAL;
        } else if (kr_buf_add(out, r->at++, 1) < 0) {
            return -ENOMEM;
        }
    }
    if (r->at == r->end)
        return -EINVAL;
    r->at++;
    return 0;
}

static json_t *read_string(struct reader *r)
{
    struct kr_buf text;
    json_t *value = NULL;

    kr_buf_init(&text, (size_t)(r->end - r->at) + 8);
    if (read_text(r, &text) == 0)
        value = json_stringn(kr_buf_str(&text), text.len);
    kr_buf_done(&text);
    return value;
}

/* ---- lists and dicts ---- */

/* Behind the opening bracket. A tuple of nothing and one with a comma behind its only item are tuples too; (1) is not
 * what repr() writes. */
static json_t *read_items(struct reader *r, char close)
{
    json_t *list = json_array(), *item;

    while (list && !take(r, close)) {
        item = read_value(r);
        if (!item || json_array_append_new(list, item) < 0)
            goto broken;
        if (!take(r, ',')) {
            if (!take(r, close))
                goto broken;
            break;
        }
    }
    return list;
broken:
    json_decref(list);
    return NULL;
}

/* A key as Python's json module writes it. */
static json_t *key_text(const json_t *key)
{
    char *text;
    json_t *value;

    if (json_is_string(key))
        return json_incref((json_t *)key);
    if (json_is_array(key) || json_is_object(key))
        return NULL;
    text = json_dumps(key, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    value = text ? json_string(text) : NULL;
    free(text);
    return value;
}

static int read_member(struct reader *r, json_t *object)
{
    json_t *key = read_value(r), *text = key ? key_text(key) : NULL, *value = NULL;
    int e = -EINVAL;

    if (text && strlen(json_string_value(text)) == json_string_length(text) && take(r, ':') && (value = read_value(r)))
        e = json_object_set_new(object, json_string_value(text), value) < 0 ? -ENOMEM : 0;
    json_decref(key);
    json_decref(text);
    return e;
}

static json_t *read_dict(struct reader *r)
{
    json_t *object = json_object();

    while (object && !take(r, '}')) {
        if (read_member(r, object) < 0)
            goto broken;
        if (!take(r, ',')) {
            if (!take(r, '}'))
                goto broken;
            break;
        }
    }
    return object;
broken:
    json_decref(object);
    return NULL;
}

static json_t *read_nested(struct reader *r, char open)
{
    json_t *value = NULL;

    r->at++;
    if (r->depth++ < KR_PYVALUE_DEPTH_MAX)
        value = open == '{' ? read_dict(r) : read_items(r, open == '[' ? ']' : ')');
    r->depth--;
    return value;
}

static json_t *read_value(struct reader *r)
{
    skip_blanks(r);
    if (r->at == r->end)
        return NULL;
    switch (*r->at) {
    case '[':
    case '(':
    case '{':
        return read_nested(r, *r->at);
    case '\'':
    case '"':
        return read_string(r);
    case 'T':
        return take_word(r, "True") ? json_true() : NULL;
    case 'F':
        return take_word(r, "False") ? json_false() : NULL;
    case 'N':
        return take_word(r, "None") ? json_null() : NULL;
    default:
        return read_number(r);
    }
}

json_t *kr_pyvalue(const char *text, size_t len)
{
    struct reader r = {.at = text, .end = text + len};
    json_t *value = read_value(&r);

    skip_blanks(&r);
    if (value && r.at == r.end)
        return value;
    json_decref(value);
    return NULL;
}
