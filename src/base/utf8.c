/* UTF-8: one decoder, and a splitter that never breaks a character at a chunk's boundary.
 *
 * Called by the JSON writer, the log, and the code that passes on what a session wrote. Invariant: what comes out is
 * valid UTF-8, and cutting the same bytes into other chunks gives the same text. */
#include "utf8.h"
#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */

/* The bounds of the second byte depend on the first (Unicode table 3-7): that is where overlong forms, surrogates and
 * what lies past U+10FFFF are refused. Returns the length of the sequence, 0 if no sequence starts so. */
static int lead(unsigned char c, unsigned char *ret_low, unsigned char *ret_high)
{
    *ret_low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    *ret_high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (c < 0x80)
        return 1;
    if (c >= 0xc2 && c <= 0xdf)
        return 2;
    if (c >= 0xe0 && c <= 0xef)
        return 3;
    if (c >= 0xf0 && c <= 0xf4)
        return 4;
    return 0;
}

int kr_utf8_next(const unsigned char *s, size_t len, uint32_t *ret_char)
{
    static const unsigned char payload_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned char low, high;
    int need = lead(s[0], &low, &high);
    uint32_t c;

    if (need == 0)
        return -1;
    c = s[0] & payload_bits[need];
    for (int i = 1; i < need; i++) {
        if ((size_t)i >= len)
            return 0;
        if (s[i] < low || s[i] > high)
            return -i;
        c = c << 6 | (s[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    if (ret_char)
        *ret_char = c;
    return need;
}

size_t kr_utf8_complete(const void *data, size_t len)
{
    const unsigned char *s = data;

    /* An unfinished sequence is at most 3 bytes, so it starts in the last 3; the first start found from the end
     * decides, for what follows a start and is no continuation would have been found before it. */
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const unsigned char *p = s + len - back;

        if ((*p & 0xc0) == 0x80)
            continue;
        return kr_utf8_next(p, back, NULL) == 0 ? len - back : len;
    }
    return len;
}

/* How many bytes at the start are ASCII. */
static size_t plain(const unsigned char *s, size_t len)
{
    size_t at = 0;
    uint64_t word;

    for (; at + sizeof word <= len; at += sizeof word) {
        memcpy(&word, s + at, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    while (at < len && s[at] < 0x80)
        at++;
    return at;
}

/* Copies valid characters, replaces invalid ones, stops at an unfinished one. Returns how many bytes of s were used. */
static size_t convert(const unsigned char *s, size_t len, char **out)
{
    size_t at = 0;

    while (at < len) {
        size_t same = plain(s + at, len - at);
        int n;

        memcpy(*out, s + at, same);
        *out += same;
        at += same;
        n = at < len ? kr_utf8_next(s + at, len - at, NULL) : 0;
        if (n == 0)
            break;
        if (n > 0) {
            memcpy(*out, s + at, (size_t)n);
            *out += n;
            at += (size_t)n;
        } else {
            memcpy(*out, replacement, sizeof replacement);
            *out += sizeof replacement;
            at += (size_t)-n;
        }
    }
    return at;
}

size_t kr_utf8_feed(struct kr_utf8 *u, const void *data, size_t len, char *out)
{
    const unsigned char *s = data;
    char *end = out;
    size_t used;

    /* Byte by byte until the held sequence is decided; the byte that shows it to be invalid may start another. */
    while (u->held_len > 0 && len > 0) {
        u->held[u->held_len++] = *s++;
        len--;
        used = convert(u->held, u->held_len, &end);
        u->held_len -= (unsigned)used;
        memmove(u->held, u->held + used, u->held_len);
    }
    if (len == 0)
        return (size_t)(end - out);
    used = convert(s, len, &end);
    u->held_len = (unsigned)(len - used);
    memcpy(u->held, s + used, u->held_len);
    return (size_t)(end - out);
}

size_t kr_utf8_finish(struct kr_utf8 *u, char *out)
{
    if (u->held_len == 0)
        return 0;
    u->held_len = 0;
    memcpy(out, replacement, sizeof replacement);
    return sizeof replacement;
}

size_t kr_utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}
