/* The request-body decoder: plain length or strict chunked coding. Pure: no I/O, no memory. Called by conn.c and the
 * fuzzer. What is wrong with a chunk is wrong at once: 400, no resynchronising. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kr_http_body_event {
    KR_HTTP_BODY_BAD = -1, /* and ever after */
    KR_HTTP_BODY_MORE = 0, /* all input is used up */
    KR_HTTP_BODY_DATA,     /* a piece of the body */
    KR_HTTP_BODY_END,      /* the body is whole; what is left of the input is the next request's */
};

struct kr_http_body {
    uint64_t left;   /* of the chunk, or of the body */
    uint32_t excess; /* framing bytes beyond what the data pays for */
    uint16_t count;  /* bytes of the line we are in */
    uint8_t state;
};

/* length is used unless chunked; < 0 counts as 0. */
void kr_http_body_init(struct kr_http_body *b, bool chunked, int64_t length);
/* Takes from *in / *len, advancing both. On DATA, *ret_data and *ret_len are a piece inside the input, never empty. */
enum kr_http_body_event kr_http_body_next(struct kr_http_body *b, const char **in, size_t *len, const char **ret_data,
                                          size_t *ret_len);
