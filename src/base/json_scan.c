/* The look at JSON before it is parsed.
 *
 * Called by claim.c for each payload of a session. Invariant: whatever the bytes are, a JSON parser makes of them at most
 * as many values as are counted here, for both cut the text into the same words: a string ends at the first quote that
 * no backslash precedes, a number or a word at the next delimiter. Whether the words stand in order is the parser's
 * question. One pass and no memory, so that a session cannot make the engine work for more bytes than it has sent. */
#include "json_scan.h"
#include <errno.h>
#include <stdbool.h>

struct scan {
    const unsigned char *at, *end;
    const struct kr_scan_max *max;
    uint32_t values, depth;
    size_t bare;
};

static int too(struct kr_err *err, const char *what, size_t most)
{
    kr_err_set(err, KR_ERR_PROTOCOL, 0, "the session sent JSON %s (at most %zu)", what, most);
    return -EPROTO;
}

static bool is_gap(unsigned char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ':';
}

static bool ends_scalar(unsigned char c)
{
    return is_gap(c) || c == '[' || c == ']' || c == '{' || c == '}' || c == '"';
}

/* Behind the closing quote, or to the end if there is none. */
static void skip_string(struct scan *s)
{
    s->at++;
    while (s->at < s->end && *s->at != '"') {
        if (*s->at == '\\' && s->at + 1 < s->end)
            s->at++;
        s->at++;
    }
    if (s->at < s->end)
        s->at++;
}

static int skip_scalar(struct scan *s, struct kr_err *err)
{
    const unsigned char *start = s->at;

    while (s->at < s->end && !ends_scalar(*s->at))
        if ((size_t)(++s->at - start) > s->max->scalar)
            return too(err, "with too long a number", s->max->scalar);
    s->bare += (size_t)(s->at - start);
    return 0;
}

/* A value begins. */
static int take_value(struct scan *s, struct kr_err *err)
{
    if (++s->values > s->max->values)
        return too(err, "of too many values", s->max->values);
    if (*s->at == '"') {
        skip_string(s);
        return 0;
    }
    if (*s->at != '[' && *s->at != '{')
        return skip_scalar(s, err);
    if (++s->depth > s->max->depth)
        return too(err, "nested too deep", s->max->depth);
    s->at++;
    s->bare++;
    return 0;
}

int kr_scan_json(const void *data, size_t len, const struct kr_scan_max *max, struct kr_err *err)
{
    struct scan s = {.at = data, .end = (const unsigned char *)data + len, .max = max};

    while (s.at < s.end) {
        bool closes = *s.at == ']' || *s.at == '}';
        int r;

        if (closes || is_gap(*s.at)) {
            s.depth -= closes && s.depth > 0; /* one too many: the parser ends there */
            s.at++;
            s.bare++;
        } else {
            r = take_value(&s, err);
            if (r < 0)
                return r;
        }
        if (s.bare > max->bare)
            return too(err, "of too many bytes that are no text", max->bare);
    }
    return 0;
}
