/* Base64, both ways.
 *
 * Called for displays and files. Invariant: there is one text for given bytes, and decoding takes no other. */
#include "base64.h"
#include <errno.h>
#include <stdint.h>

static const char letters[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t kr_base64_encode(const void *data, size_t len, char *out)
{
    const unsigned char *s = data;
    char *p = out;

    for (; len >= 3; len -= 3, s += 3) {
        uint32_t v = (uint32_t)s[0] << 16 | (uint32_t)s[1] << 8 | s[2];

        *p++ = letters[v >> 18];
        *p++ = letters[v >> 12 & 63];
        *p++ = letters[v >> 6 & 63];
        *p++ = letters[v & 63];
    }
    if (len > 0) {
        uint32_t v = (uint32_t)s[0] << 16 | (len == 2 ? (uint32_t)s[1] << 8 : 0);

        *p++ = letters[v >> 18];
        *p++ = letters[v >> 12 & 63];
        *p++ = len == 2 ? letters[v >> 6 & 63] : '=';
        *p++ = '=';
    }
    *p = '\0';
    return (size_t)(p - out);
}

/* 0 to 63, or 64 for what is no letter. */
static unsigned digit_value(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26u;
    if (c >= '0' && c <= '9')
        return c - '0' + 52u;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

ssize_t kr_base64_decode(const char *text, size_t len, void *out, size_t size)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned char *p = out;
    size_t pad = 0, want;

    if (len % 4 != 0)
        return -EINVAL;
    if (len > 0 && s[len - 1] == '=')
        pad = s[len - 2] == '=' ? 2 : 1;
    want = len / 4 * 3 - pad;
    if (want > size)
        return -ENOBUFS;
    for (size_t at = 0; at < len; at += 4) {
        size_t absent = at + 4 == len ? pad : 0;
        uint32_t v = 0;

        for (size_t i = 0; i < 4; i++) {
            unsigned d = i >= 4 - absent ? 0 : digit_value(s[at + i]);

            if (d > 63)
                return -EINVAL;
            v = v << 6 | d;
        }
        if (absent && (v & ((UINT32_C(1) << (8 * absent)) - 1)))
            return -EINVAL; /* bits that no byte holds: the same bytes would have a second text */
        for (size_t i = 0; i < 3 - absent; i++)
            *p++ = (unsigned char)(v >> (16 - 8 * i));
    }
    return (ssize_t)want;
}
