/* A growable buffer with a maximum.
 *
 * When full: an addition that would pass the maximum adds nothing, returns -ENOBUFS, and the buffer stays failed
 * (every later addition returns the same) until it is reset, so that half a document is never taken for a whole one.
 * Out of memory (-ENOMEM) is the same. */
#pragma once
#include <stddef.h>

struct kr_buf {
    char *data;      /* NUL after the last byte once anything was added; NULL before */
    size_t len, cap; /* cap counts the NUL */
    size_t max;      /* of len */
    int failed;      /* 0 or -errno of the addition that did not fit */
};

void kr_buf_init(struct kr_buf *b, size_t max);
/* Frees; the buffer may be used again with the same maximum. */
void kr_buf_done(struct kr_buf *b);
void kr_buf_cleanup_(struct kr_buf *b);
#define cleanup_buf __attribute__((cleanup(kr_buf_cleanup_)))
/* Empties it and forgets a failure; keeps the memory. */
void kr_buf_reset(struct kr_buf *b);
/* 0 or -errno. */
int kr_buf_add(struct kr_buf *b, const void *data, size_t len);
int kr_buf_add_str(struct kr_buf *b, const char *text);
int kr_buf_printf(struct kr_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Drops n bytes from the front (n <= len). Moves the rest: for taking few, large pieces. */
void kr_buf_drop(struct kr_buf *b, size_t n);
/* The text; "" when nothing was added. Valid until the next change. */
const char *kr_buf_str(const struct kr_buf *b);
/* Hands over the memory (to be freed) and empties the buffer; NULL when nothing was ever added. */
char *kr_buf_steal(struct kr_buf *b, size_t *ret_len);
