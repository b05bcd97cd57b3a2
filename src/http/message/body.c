/* The body decoder. Called by conn.c with whatever bytes have come, and by tests/fuzz/fuzz-http-chunked.c.
 *
 * A machine of one byte at a time for the framing, of whole pieces for the data. Invariant: the sequence of data bytes
 * and the verdict depend on the bytes alone, never on the pieces they came in. Trailers are checked and dropped:
 * nothing in them can become a header. */
#include "body.h"
#include "parse.h"

#define SIZE_DIGITS_MAX 15u   /* 60 bits: no sum of ours overflows */
#define EXTENSION_MAX 256u    /* bytes after the size on its line */
#define TRAILERS_MAX 4096u    /* bytes of all trailer lines */
#define EXCESS_MAX 16384u     /* see pay() */
#define FRAMING_PER_CHUNK 16u /* what a chunk may spend for free, besides twice its data */

/* clang-format off */
enum state {
    B_PLAIN, B_SIZE_FIRST, B_SIZE, B_EXTENSION, B_SIZE_LF, B_DATA, B_DATA_CR, B_DATA_LF,
    B_TRAILER_FIRST, B_TRAILER_NAME, B_TRAILER_VALUE, B_TRAILER_LF, B_LAST_LF, B_END, B_BAD,
};
/* clang-format on */

void kr_http_body_init(struct kr_http_body *b, bool chunked, int64_t length)
{
    *b = (struct kr_http_body){.left = !chunked && length > 0 ? (uint64_t)length : 0};
    b->state = chunked ? B_SIZE_FIRST : b->left > 0 ? B_PLAIN : B_END;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A line of text as it may stand in an extension or a trailer. */
static bool is_text(unsigned char c)
{
    return c == '\t' || (c >= 0x20 && c < 0x7f);
}

/* Bodies that are mostly framing (one byte a chunk, each with an extension) cost much more work than their limit says:
 * only so many such bytes are let pass. */
static enum state pay(struct kr_http_body *b)
{
    uint64_t free_bytes = FRAMING_PER_CHUNK + 2 * b->left;

    b->excess += b->count;
    b->excess -= b->excess < free_bytes ? b->excess : (uint32_t)free_bytes;
    if (b->excess > EXCESS_MAX)
        return B_BAD;
    b->count = 0;
    return b->left > 0 ? B_DATA : B_TRAILER_FIRST;
}

static enum state step_size(struct kr_http_body *b, unsigned char c)
{
    int digit = hex_digit(c);

    if (digit >= 0) {
        if (++b->count > SIZE_DIGITS_MAX)
            return B_BAD;
        b->left = b->left << 4 | (unsigned)digit;
        return B_SIZE;
    }
    if (b->state == B_SIZE_FIRST)
        return B_BAD;
    if (c == '\r')
        return B_SIZE_LF;
    return c == ';' ? B_EXTENSION : B_BAD;
}

/* What a byte makes of a trailer line. Names are tokens; the colon must come. */
static enum state step_trailer(struct kr_http_body *b, unsigned char c)
{
    if (++b->count > TRAILERS_MAX)
        return B_BAD;
    if (b->state == B_TRAILER_FIRST && c == '\r')
        return B_LAST_LF;
    if (b->state == B_TRAILER_VALUE && c == '\r')
        return B_TRAILER_LF;
    if (b->state == B_TRAILER_NAME && c == ':')
        return B_TRAILER_VALUE;
    if (b->state == B_TRAILER_VALUE)
        return is_text(c) || c >= 0x80 ? B_TRAILER_VALUE : B_BAD;
    return kr_http_is_token(c) ? B_TRAILER_NAME : B_BAD;
}

/* The state after a framing byte. */
static enum state step_framing(struct kr_http_body *b, unsigned char c)
{
    switch ((enum state)b->state) {
    case B_SIZE_FIRST:
    case B_SIZE:
        return step_size(b, c);
    case B_EXTENSION:
        if (c == '\r')
            return B_SIZE_LF;
        return is_text(c) && ++b->count <= SIZE_DIGITS_MAX + EXTENSION_MAX ? B_EXTENSION : B_BAD;
    case B_SIZE_LF:
        return c == '\n' ? pay(b) : B_BAD;
    case B_DATA_CR:
        return c == '\r' ? B_DATA_LF : B_BAD;
    case B_DATA_LF:
        return c == '\n' ? B_SIZE_FIRST : B_BAD;
    case B_TRAILER_FIRST:
    case B_TRAILER_NAME:
    case B_TRAILER_VALUE:
        return step_trailer(b, c);
    case B_TRAILER_LF:
        return c == '\n' ? B_TRAILER_FIRST : B_BAD;
    case B_LAST_LF:
        return c == '\n' ? B_END : B_BAD;
    case B_PLAIN:
    case B_DATA:
    case B_END:
    case B_BAD:
        break;
    }
    return B_BAD;
}

static void take_data(struct kr_http_body *b, const char **in, size_t *len, const char **ret_data, size_t *ret_len)
{
    size_t n = *len < b->left ? *len : (size_t)b->left;

    *ret_data = *in;
    *ret_len = n;
    *in += n;
    *len -= n;
    b->left -= n;
    if (b->left == 0)
        b->state = b->state == B_PLAIN ? B_END : B_DATA_CR;
}

enum kr_http_body_event kr_http_body_next(struct kr_http_body *b, const char **in, size_t *len, const char **ret_data,
                                          size_t *ret_len)
{
    for (;;) {
        if (b->state == B_END)
            return KR_HTTP_BODY_END;
        if (b->state == B_BAD)
            return KR_HTTP_BODY_BAD;
        if (*len == 0)
            return KR_HTTP_BODY_MORE;
        if (b->state == B_PLAIN || b->state == B_DATA) {
            take_data(b, in, len, ret_data, ret_len);
            return KR_HTTP_BODY_DATA;
        }
        b->state = (uint8_t)step_framing(b, (unsigned char)**in);
        (*in)++;
        (*len)--;
    }
}
