/* The JSON writer.
 *
 * Called by whatever speaks JSON: the command line, the engine's lines, frames to a session. Invariant: a call that
 * does not fit its position (a value without a key in an object, a second top-level value) fails the
 * document; it never makes text that a parser would refuse. */
#include "json.h"
#include "buf.h"
#include "utf8.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EACH 0x0101010101010101u /* byte of a word */

static_assert(KR_JSON_DEPTH_MAX <= 32, "a bit of is_object and has_items for each depth");

void kr_json_init(struct kr_json *j, struct kr_buf *buf)
{
    *j = (struct kr_json){.buf = buf};
}

int kr_json_done(const struct kr_json *j)
{
    if (j->error)
        return j->error;
    return j->complete ? 0 : -EINVAL;
}

static void put_text(struct kr_json *j, const char *text, size_t len)
{
    if (!j->error)
        j->error = kr_buf_add(j->buf, text, len);
}

static uint32_t top_bit(const struct kr_json *j)
{
    return UINT32_C(1) << (j->depth - 1);
}

/* A comma if one is due. Not before the top-level value. */
static void separate(struct kr_json *j)
{
    if (j->depth == 0)
        return;
    if (j->has_items & top_bit(j))
        put_text(j, ",", 1);
    j->has_items |= top_bit(j);
}

/* What precedes every value; false if no value may stand here. */
static bool begin_value(struct kr_json *j)
{
    if (j->error)
        return false;
    if (j->depth == 0 ? j->complete : (j->is_object & top_bit(j)) && !j->have_key) {
        j->error = -EINVAL;
        return false;
    }
    if (!j->have_key)
        separate(j);
    j->have_key = false;
    return !j->error;
}

static void end_value(struct kr_json *j)
{
    if (j->depth == 0)
        j->complete = true;
}

static void put_value(struct kr_json *j, const char *text, size_t len)
{
    if (!begin_value(j))
        return;
    put_text(j, text, len);
    end_value(j);
}

static void open_container(struct kr_json *j, bool is_object)
{
    if (!begin_value(j))
        return;
    if (j->depth == KR_JSON_DEPTH_MAX) {
        j->error = -EINVAL;
        return;
    }
    put_text(j, is_object ? "{" : "[", 1);
    j->depth++;
    j->has_items &= ~top_bit(j);
    j->is_object = is_object ? j->is_object | top_bit(j) : j->is_object & ~top_bit(j);
}

static void close_container(struct kr_json *j, bool is_object)
{
    if (j->error)
        return;
    if (j->depth == 0 || j->have_key || !!(j->is_object & top_bit(j)) != is_object) {
        j->error = -EINVAL;
        return;
    }
    put_text(j, is_object ? "}" : "]", 1);
    j->depth--;
    end_value(j);
}

void kr_json_object(struct kr_json *j)
{
    open_container(j, true);
}

void kr_json_object_end(struct kr_json *j)
{
    close_container(j, true);
}

void kr_json_array(struct kr_json *j)
{
    open_container(j, false);
}

void kr_json_array_end(struct kr_json *j)
{
    close_container(j, false);
}

/* The escape of an ASCII character that may not stand for itself, NULL if it may. */
static const char *escape_of(unsigned char c, char room[8])
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    default:
        if (c >= 0x20 && c != 0x7f)
            return NULL;
        /* DEL is legal, but a terminal that shows the text should not act on it. */
        snprintf(room, 8, "\\u%04x", c);
        return room;
    }
}

/* Is any byte of the word below `n` (at most 0x80), or past 0x7f? */
static uint64_t any_below(uint64_t word, unsigned char n)
{
    return ((word - EACH * n) | word) & (EACH * 0x80);
}

/* How many bytes at the start certainly stand for themselves: whole words of printable ASCII. */
static size_t plain_words(const unsigned char *s, size_t len)
{
    size_t at = 0;
    uint64_t word;

    for (; at + sizeof word <= len; at += sizeof word) {
        memcpy(&word, s + at, sizeof word);
        if (any_below(word, 0x20) | any_below(word ^ (EACH * '"'), 1) | any_below(word ^ (EACH * '\\'), 1) |
            any_below(word ^ (EACH * 0x7f), 1))
            break;
    }
    return at;
}

/* Text in quotes. What stands for itself is copied in runs as long as possible. */
static void put_string(struct kr_json *j, const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t at = 0, run = 0;
    char room[8];

    put_text(j, "\"", 1);
    while (at < len && !j->error) {
        const char *instead;
        int n = 1;

        at += plain_words(s + at, len - at);
        if (at == len)
            break;
        if (s[at] < 0x80) {
            instead = escape_of(s[at], room);
        } else {
            n = kr_utf8_next(s + at, len - at, NULL);
            instead = n > 0 ? NULL : "\xef\xbf\xbd"; /* U+FFFD */
            n = n > 0 ? n : n < 0 ? -n : (int)(len - at);
        }
        if (instead) {
            put_text(j, text + run, at - run);
            put_text(j, instead, strlen(instead));
            run = at + (size_t)n;
        }
        at += (size_t)n;
    }
    put_text(j, text + run, at - run);
    put_text(j, "\"", 1);
}

void kr_json_key(struct kr_json *j, const char *key)
{
    if (j->error)
        return;
    if (j->depth == 0 || !(j->is_object & top_bit(j)) || j->have_key) {
        j->error = -EINVAL;
        return;
    }
    separate(j);
    put_string(j, key, strlen(key));
    put_text(j, ":", 1);
    j->have_key = true;
}

void kr_json_str_n(struct kr_json *j, const char *text, size_t len)
{
    if (!begin_value(j))
        return;
    put_string(j, text ? text : "", len);
    end_value(j);
}

void kr_json_str(struct kr_json *j, const char *text)
{
    if (text)
        kr_json_str_n(j, text, strlen(text));
    else
        kr_json_null(j);
}

void kr_json_int(struct kr_json *j, int64_t value)
{
    char text[32];

    put_value(j, text, (size_t)snprintf(text, sizeof text, "%" PRId64, value));
}

void kr_json_uint(struct kr_json *j, uint64_t value)
{
    char text[32];

    put_value(j, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, value));
}

void kr_json_double(struct kr_json *j, double value)
{
    char text[40];
    int len = 0;

    if (!isfinite(value)) {
        kr_json_null(j);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) { /* 17 always read back as they were */
        len = snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    /* The decimal point is the locale's, and an embedding interpreter may have set one. */
    for (char *p = text; *p; p++)
        if (*p == ',')
            *p = '.';
    put_value(j, text, (size_t)len);
}

void kr_json_null(struct kr_json *j)
{
    put_value(j, "null", 4);
}

void kr_json_raw(struct kr_json *j, const char *json, size_t len)
{
    put_value(j, json, len);
}

void kr_json_key_str(struct kr_json *j, const char *key, const char *text)
{
    kr_json_key(j, key);
    kr_json_str(j, text);
}

void kr_json_key_int(struct kr_json *j, const char *key, int64_t value)
{
    kr_json_key(j, key);
    kr_json_int(j, value);
}

void kr_json_key_uint(struct kr_json *j, const char *key, uint64_t value)
{
    kr_json_key(j, key);
    kr_json_uint(j, value);
}

void kr_json_key_double(struct kr_json *j, const char *key, double value)
{
    kr_json_key(j, key);
    kr_json_double(j, value);
}

void kr_json_key_bool(struct kr_json *j, const char *key, bool value)
{
    kr_json_key(j, key);
    put_value(j, value ? "true" : "false", value ? 4 : 5);
}

void kr_json_key_null(struct kr_json *j, const char *key)
{
    kr_json_key(j, key);
    kr_json_null(j);
}
