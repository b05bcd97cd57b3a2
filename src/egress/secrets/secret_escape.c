/* Escaped characters. See secret_escape.h. */
#include "secret_escape.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define NUMBER_DIGITS 7 /* of a reference of HTML: more than a character needs, since zeros may stand in front */

static int digit_of(char c, int base)
{
    int n = c >= '0' && c <= '9'   ? c - '0'
            : c >= 'a' && c <= 'f' ? c - 'a' + 10
            : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                   : 16;

    return n < base ? n : -1;
}

static bool is_printable(int code)
{
    return code >= 0x20 && code <= 0x7e;
}

/* So many hexadecimal digits behind the first `at` bytes. */
static int read_hex(const char *bytes, size_t left, size_t at, size_t digits, char *ret_char)
{
    int code = 0;

    for (size_t end = at + digits; at < end; at++) {
        int digit;

        if (at == left)
            return -EAGAIN;
        digit = digit_of(bytes[at], 16);
        if (digit < 0)
            return 0;
        code = code * 16 + digit;
    }
    if (!is_printable(code))
        return 0;
    *ret_char = (char)code;
    return (int)at;
}

static int read_backslash(const char *bytes, size_t left, char *ret_char)
{
    char c;

    if (left < 2)
        return -EAGAIN;
    c = bytes[1];
    if (c == 'u')
        return read_hex(bytes, left, 2, 4, ret_char);
    if (c == 'x')
        return read_hex(bytes, left, 2, 2, ret_char);
    if (!is_printable(c) || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
        return 0;
    *ret_char = c;
    return 2;
}

/* A number of HTML, behind "&#". */
static int read_number(const char *bytes, size_t left, char *ret_char)
{
    int base = left > 2 && (bytes[2] == 'x' || bytes[2] == 'X') ? 16 : 10, code = 0, digits = 0;
    size_t at = base == 16 ? 3 : 2;

    for (; at < left && digits < NUMBER_DIGITS && digit_of(bytes[at], base) >= 0; at++, digits++)
        code = code * base + digit_of(bytes[at], base);
    if (at == left)
        return -EAGAIN;
    if (digits == 0 || bytes[at] != ';' || !is_printable(code))
        return 0;
    *ret_char = (char)code;
    return (int)at + 1;
}

static int read_name(const char *bytes, size_t left, char *ret_char)
{
    static const struct {
        const char *name;
        char c;
    } names[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t len = strlen(names[i].name);

        if (memcmp(bytes, names[i].name, left < len ? left : len) != 0)
            continue;
        *ret_char = names[i].c;
        return left < len ? -EAGAIN : (int)len;
    }
    return 0;
}

int kr_secret_escape_read(const char *bytes, size_t left, char *ret_char)
{
    if (left == 0)
        return -EAGAIN;
    if (bytes[0] == '%')
        return read_hex(bytes, left, 1, 2, ret_char);
    if (bytes[0] == '\\')
        return read_backslash(bytes, left, ret_char);
    if (bytes[0] != '&')
        return 0;
    if (left > 1 && bytes[1] == '#')
        return read_number(bytes, left, ret_char);
    return read_name(bytes, left, ret_char);
}
