/* The look at JSON before it is parsed.
 *
 * Called for each payload of a session (claim.c), each body (field_load.c) and each message (jsonrpc.c). Invariant:
 * whatever the bytes are, a JSON parser makes of them at most as many values as are counted here, for both cut the text
 * into the same words: a string ends at the first quote that no backslash precedes, a number or a word at the next
 * delimiter. Whether the words stand in order is the parser's question. One pass and no memory, so that a peer cannot
 * make the server work for more bytes than it has sent. */
#include "json_scan.h"
#include <stdbool.h>

struct scan {
    const unsigned char *at, *end;
    const struct kr_scan_max *max;
    uint32_t values, slots, depth;
    size_t bare;
};

static bool is_past(size_t count, size_t most)
{
    return most > 0 && count > most;
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

static enum kr_scan skip_scalar(struct scan *s)
{
    const unsigned char *start = s->at;

    while (s->at < s->end && !ends_scalar(*s->at))
        if (is_past((size_t)(++s->at - start), s->max->scalar))
            return KR_SCAN_LONG_SCALAR;
    s->bare += (size_t)(s->at - start);
    return KR_SCAN_FITS;
}

/* A value begins. */
static enum kr_scan take_value(struct scan *s)
{
    if (is_past(++s->values, s->max->values))
        return KR_SCAN_TOO_MANY;
    if (*s->at == '"') {
        skip_string(s);
        return KR_SCAN_FITS;
    }
    if (*s->at != '[' && *s->at != '{')
        return skip_scalar(s);
    if (is_past(++s->depth, s->max->depth))
        return KR_SCAN_TOO_DEEP;
    s->at++;
    s->bare++;
    s->slots++;
    return KR_SCAN_FITS;
}

/* What closes an array or object, or stands between values. */
static void take_gap(struct scan *s)
{
    bool closes = *s->at == ']' || *s->at == '}';

    s->depth -= closes && s->depth > 0; /* one too many: the parser ends there */
    s->slots += *s->at == ',';
    s->at++;
    s->bare++;
}

enum kr_scan kr_scan_json(const void *data, size_t len, const struct kr_scan_max *max)
{
    struct scan s = {.at = data, .end = (const unsigned char *)data + len, .max = max, .slots = 1};

    while (s.at < s.end) {
        if (*s.at == ']' || *s.at == '}' || is_gap(*s.at)) {
            take_gap(&s);
        } else {
            enum kr_scan excess = take_value(&s);

            if (excess != KR_SCAN_FITS)
                return excess;
        }
        if (is_past(s.slots, max->slots))
            return KR_SCAN_TOO_MANY;
        if (is_past(s.bare, max->bare))
            return KR_SCAN_TOO_BARE;
    }
    return KR_SCAN_FITS;
}
