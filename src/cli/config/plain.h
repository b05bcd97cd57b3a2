/* What every text file of ours must be before a parser looks at it, and where a parser is in it. */
#pragma once
#include "err.h"
#include <stddef.h>

/* Is the text at most max bytes of UTF-8 without control characters but tabs and line ends (LF or CRLF), and without
 * a byte order mark? 0, or -EINVAL with "name:line: what is wrong". */
int kr_plain_check(const char *name, const char *text, size_t len, size_t max, struct kr_err *err);

/* A position in a text that was checked. */
struct kr_plain {
    const char *name, *at, *end;
    unsigned line;
    struct kr_err *err;
};

/* The byte here, or 0 at the end: no NUL is inside. */
static inline char kr_plain_here(const struct kr_plain *p)
{
    return p->at < p->end ? *p->at : '\0';
}

void kr_plain_skip_blanks(struct kr_plain *p);
/* -EINVAL with "name:line: text" in p->err. */
int kr_plain_fail(const struct kr_plain *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
