/* The check in front of the parsers of toml.c and dotenv.c.
 *
 * Invariant: behind it a text holds no NUL, no bare carriage return and nothing that is not UTF-8, so that a value made
 * of it is a C string and can be shown. */
#include "plain.h"
#include "utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static int refuse_text(const char *name, unsigned line, const char *what, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_INVALID, 0, "%.100s:%u: %s", name, line, what);
    return -EINVAL;
}

int kr_plain_check(const char *name, const char *text, size_t len, size_t max, struct kr_err *err)
{
    const unsigned char *s = (const unsigned char *)text;
    unsigned line = 1;

    if (len > max) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%.100s: %zu bytes; it may have %zu", name, len, max);
        return -EINVAL;
    }
    for (size_t i = 0; i < len;) {
        uint32_t character;
        int n = kr_utf8_next(s + i, len - i, &character);

        if (n <= 0)
            return refuse_text(name, line, "is not UTF-8", err);
        if (i == 0 && character == 0xfeff)
            return refuse_text(name, line, "begins with a byte order mark; save it without", err);
        if (character == '\r' && (i + 1 == len || s[i + 1] != '\n'))
            return refuse_text(name, line, "has a carriage return within the line", err);
        if ((character < 0x20 && character != '\t' && character != '\n' && character != '\r') || character == 0x7f)
            return refuse_text(name, line, "has a control character", err);
        line += character == '\n';
        i += (size_t)n;
    }
    return 0;
}

void kr_plain_skip_blanks(struct kr_plain *p)
{
    while (kr_plain_here(p) == ' ' || kr_plain_here(p) == '\t')
        p->at++;
}

int kr_plain_fail(const struct kr_plain *p, const char *fmt, ...)
{
    char text[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return refuse_text(p->name, p->line, text, p->err);
}
