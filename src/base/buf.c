/* Growable buffers with a maximum.
 *
 * Called by the JSON writer and by code that collects bytes from a peer. Invariant: len <= max, the byte after the last
 * is NUL, and a failed buffer takes nothing until it is reset. */
#include "buf.h"
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST 256u

void kr_buf_init(struct kr_buf *b, size_t max)
{
    *b = (struct kr_buf){.max = max};
}

void kr_buf_done(struct kr_buf *b)
{
    free(b->data);
    kr_buf_init(b, b->max);
}

void kr_buf_cleanup_(struct kr_buf *b)
{
    kr_buf_done(b);
}

void kr_buf_reset(struct kr_buf *b)
{
    b->len = 0;
    b->failed = 0;
    if (b->data)
        b->data[0] = '\0';
}

/* Makes room for len more bytes and the NUL. */
static int reserve_bytes(struct kr_buf *b, size_t len)
{
    size_t cap = b->cap ? b->cap : FIRST;
    char *bigger;

    if (b->failed)
        return b->failed;
    if (len > b->max - b->len)
        return b->failed = -ENOBUFS;
    if (b->len + len < b->cap)
        return 0;
    while (cap <= b->len + len)
        cap = cap > b->max / 2 ? b->max + 1 : cap * 2;
    bigger = realloc(b->data, cap);
    if (!bigger)
        return b->failed = -ENOMEM;
    b->data = bigger;
    b->cap = cap;
    return 0;
}

int kr_buf_add(struct kr_buf *b, const void *data, size_t len)
{
    int r = reserve_bytes(b, len);

    if (r < 0)
        return r;
    if (len > 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
    return 0;
}

int kr_buf_add_str(struct kr_buf *b, const char *text)
{
    return kr_buf_add(b, text, strlen(text));
}

int kr_buf_printf(struct kr_buf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n, r;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    r = n < 0 ? -EINVAL : reserve_bytes(b, (size_t)n);
    if (r == 0) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return r;
}

void kr_buf_drop(struct kr_buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    b->len -= n;
    memmove(b->data, b->data + n, b->len + 1);
}

const char *kr_buf_str(const struct kr_buf *b)
{
    return b->data ? b->data : "";
}

char *kr_buf_steal(struct kr_buf *b, size_t *ret_len)
{
    char *data = b->data;

    if (ret_len)
        *ret_len = b->len;
    kr_buf_init(b, b->max);
    return data;
}
