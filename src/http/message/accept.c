/* Reading Accept (RFC 9110, 12.5.1). Called by handlers that can answer in more than one type.
 *
 * Invariant: a header that cannot be read is as good as none; nothing is refused here. */
#include "accept.h"
#include <stddef.h>
#include <string.h>
#include <strings.h>

#define BLANKS " \t"

/* "0.5" -> 500; what is no weight counts as 1. */
static unsigned weight_of(const char *text, size_t len)
{
    unsigned value = 0, unit = 1000;

    if (len == 0 || (text[0] != '0' && text[0] != '1'))
        return 1000;
    value = (unsigned)(text[0] - '0') * 1000;
    for (size_t i = 2; i < len && i < 5 && text[1] == '.' && text[i] >= '0' && text[i] <= '9'; i++) {
        unit /= 10;
        value += (unsigned)(text[i] - '0') * unit;
    }
    return value > 1000 ? 1000 : value;
}

/* The q of an element's parameters, which begin at its first `;`. */
static unsigned weight_in(const char *p, const char *end)
{
    while (p < end) {
        size_t len;

        p += strspn(p, ";" BLANKS);
        len = strcspn(p, ";,");
        if (len >= 2 && (p[0] == 'q' || p[0] == 'Q') && p[1] == '=')
            return weight_of(p + 2, len - 2);
        p += len;
    }
    return 1000;
}

unsigned kr_api_accepts(const char *accept, const char *type)
{
    size_t want = strlen(type);

    for (const char *p = accept ? accept : ""; *p;) {
        const char *end;
        size_t name;

        p += strspn(p, "," BLANKS);
        end = p + strcspn(p, ",");
        name = strcspn(p, ";," BLANKS);
        if (name == want && strncasecmp(p, type, want) == 0)
            return weight_in(p + name, end);
        p = end;
    }
    return 0;
}
