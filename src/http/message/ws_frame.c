/* The parser and writer of WebSocket frames.
 *
 * Invariants: what comes out depends on the bytes alone, not on the pieces they came in (but for how a binary message
 * is divided); memory is that of the struct, whatever a frame claims about its length; after a violation or a close
 * frame all input is dropped. */
#include "ws_frame.h"
#include "utf8.h"
#include <string.h>

enum { S_HEAD, S_BODY };

void kr_ws_parser_init(struct kr_ws_parser *p, bool masked, uint64_t message_max)
{
    p->message_max = message_max;
    p->masked = masked;
    p->over = p->fin = false;
    p->state = S_HEAD;
    p->op = p->message = p->head_len = 0;
    p->head_need = 2;
    p->left = p->frame_at = p->message_len = 0;
    p->held = 0;
    memset(p->mask, 0, sizeof p->mask);
}

void kr_ws_mask(char *data, size_t len, const unsigned char mask[4], uint64_t at)
{
    for (size_t i = 0; i < len; i++)
        data[i] = (char)((unsigned char)data[i] ^ mask[(at + i) & 3]);
}

static enum kr_ws_event bad(struct kr_ws_parser *p, unsigned code, const char *why, struct kr_ws_piece *ret)
{
    p->over = true;
    *ret = (struct kr_ws_piece){.data = why, .len = strlen(why), .code = code};
    return KR_WS_BAD;
}

static bool is_control(unsigned op)
{
    return op >= KR_WS_CLOSE;
}

static bool ws_is_text(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* ---- heads ---- */

/* The first two bytes tell how long the head is. NULL, or what is wrong. */
static const char *begin_head(struct kr_ws_parser *p)
{
    unsigned op = p->head[0] & 0x0fu, len = p->head[1] & 0x7fu;

    p->fin = p->head[0] & 0x80u;
    p->op = (uint8_t)op;
    if (p->head[0] & 0x70u)
        return "reserved bits are set";
    if (op > KR_WS_PONG || (op > KR_WS_BINARY && op < KR_WS_CLOSE))
        return "unknown opcode";
    if (!(p->head[1] & 0x80u) == p->masked)
        return p->masked ? "a frame of a client without a mask" : "a frame of a server with a mask";
    if (is_control(op) && (!p->fin || len > KR_WS_CONTROL_MAX))
        return "a control frame that is fragmented or too long";
    if (op == KR_WS_CONT && !p->message)
        return "a continuation of nothing";
    if ((op == KR_WS_TEXT || op == KR_WS_BINARY) && p->message)
        return "a message inside another";
    p->head_need = (uint8_t)(2 + (len == 126 ? 2 : len == 127 ? 8 : 0) + (p->masked ? 4 : 0));
    return NULL;
}

/* NULL, or what is wrong with the length. */
static const char *read_length(struct kr_ws_parser *p)
{
    unsigned len = p->head[1] & 0x7fu, bytes = len == 126 ? 2 : len == 127 ? 8 : 0;

    p->left = bytes ? 0 : len;
    for (unsigned i = 0; i < bytes; i++)
        p->left = p->left << 8 | p->head[2 + i];
    if (p->left >> 63)
        return "a length past 63 bits";
    if ((bytes == 2 && p->left <= 125) || (bytes == 8 && p->left <= 0xffff))
        return "a length that is not in its shortest form";
    if (p->masked)
        memcpy(p->mask, p->head + 2 + bytes, sizeof p->mask);
    return NULL;
}

/* The head is whole. MORE: the frame may come. */
static enum kr_ws_event end_head(struct kr_ws_parser *p, struct kr_ws_piece *ret)
{
    const char *why = read_length(p);
    uint64_t most = p->message_max;

    p->head_len = 0;
    p->head_need = 2;
    p->state = S_BODY;
    p->frame_at = 0;
    if (why)
        return bad(p, KR_WS_PROTOCOL, why, ret);
    if (is_control(p->op))
        return KR_WS_MORE;
    if (p->op != KR_WS_CONT) {
        p->message = p->op;
        p->message_len = 0;
        p->held = 0;
    }
    if (p->message == KR_WS_TEXT && most > KR_WS_TEXT_MAX)
        most = KR_WS_TEXT_MAX;
    if (p->left > most || p->message_len > most - p->left)
        return bad(p, KR_WS_TOO_BIG, "a message that is too long", ret);
    p->message_len += p->left;
    return KR_WS_MORE;
}

static enum kr_ws_event take_ws_head(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    while (p->head_len<p->head_need && * len> 0) {
        const char *why;

        p->head[p->head_len++] = (unsigned char)*(*in)++;
        --*len;
        if (p->head_len == 2 && (why = begin_head(p)))
            return bad(p, KR_WS_PROTOCOL, why, ret);
    }
    return p->head_len == p->head_need ? end_head(p, ret) : KR_WS_MORE;
}

/* ---- what is in frames ---- */

/* As many bytes as fit, unmasked. */
static size_t take_bytes(struct kr_ws_parser *p, const char **in, size_t *len, char *out, size_t room)
{
    size_t n = *len < room ? *len : room;

    if (n > p->left)
        n = (size_t)p->left;
    memcpy(out, *in, n);
    if (p->masked)
        kr_ws_mask(out, n, p->mask, p->frame_at);
    *in += n;
    *len -= n;
    p->left -= n;
    p->frame_at += n;
    return n;
}

static enum kr_ws_event take_binary(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    size_t n = take_bytes(p, in, len, p->piece, sizeof p->piece);

    if (n == 0 && p->left > 0)
        return KR_WS_MORE;
    *ret = (struct kr_ws_piece){.data = p->piece, .len = n, .whole = p->left == 0 && p->fin};
    if (p->left == 0)
        p->state = S_HEAD;
    if (ret->whole)
        p->message = 0;
    return KR_WS_GOT_BINARY;
}

static enum kr_ws_event take_text(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    p->held += (uint32_t)take_bytes(p, in, len, p->text + p->held, sizeof p->text - p->held);
    if (p->left > 0)
        return KR_WS_MORE;
    p->state = S_HEAD;
    if (!p->fin)
        return KR_WS_MORE;
    p->message = 0;
    if (!ws_is_text(p->text, p->held))
        return bad(p, KR_WS_BAD_TEXT, "a text that is not UTF-8", ret);
    *ret = (struct kr_ws_piece){.data = p->text, .len = p->held, .whole = true};
    return KR_WS_GOT_TEXT;
}

static bool may_be_sent(unsigned code)
{
    return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

static enum kr_ws_event end_close(struct kr_ws_parser *p, size_t len, struct kr_ws_piece *ret)
{
    unsigned code = len >= 2 ? (unsigned)(unsigned char)p->control[0] << 8 | (unsigned char)p->control[1] : 0;

    if (len == 1 || (len >= 2 && !may_be_sent(code)))
        return bad(p, KR_WS_PROTOCOL, "a close frame with a bad code", ret);
    if (len > 2 && !ws_is_text(p->control + 2, len - 2))
        return bad(p, KR_WS_BAD_TEXT, "a close frame whose reason is not UTF-8", ret);
    p->over = true;
    *ret = (struct kr_ws_piece){.data = p->control + (len >= 2 ? 2 : 0), .len = len >= 2 ? len - 2 : 0, .whole = true};
    ret->code = len >= 2 ? code : KR_WS_NO_CODE;
    return KR_WS_GOT_CLOSE;
}

static enum kr_ws_event take_control(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    size_t at = (size_t)p->frame_at;

    (void)take_bytes(p, in, len, p->control + at, sizeof p->control - at);
    if (p->left > 0)
        return KR_WS_MORE;
    p->state = S_HEAD;
    if (p->op == KR_WS_CLOSE)
        return end_close(p, (size_t)p->frame_at, ret);
    *ret = (struct kr_ws_piece){.data = p->control, .len = (size_t)p->frame_at, .whole = true};
    return p->op == KR_WS_PING ? KR_WS_GOT_PING : KR_WS_GOT_PONG;
}

static enum kr_ws_event take_frame(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    if (is_control(p->op))
        return take_control(p, in, len, ret);
    return p->message == KR_WS_TEXT ? take_text(p, in, len, ret) : take_binary(p, in, len, ret);
}

enum kr_ws_event kr_ws_next(struct kr_ws_parser *p, const char **in, size_t *len, struct kr_ws_piece *ret)
{
    enum kr_ws_event event = KR_WS_MORE;
    size_t before;

    do {
        uint8_t state = p->state;

        if (p->over) {
            *in += *len;
            *len = 0;
            return KR_WS_MORE;
        }
        before = *len;
        event = state == S_HEAD ? take_ws_head(p, in, len, ret) : take_frame(p, in, len, ret);
        if (event == KR_WS_MORE && state != p->state)
            before++; /* an empty frame is taken without a byte */
    } while (event == KR_WS_MORE && before != *len);
    return event;
}

/* ---- writing ---- */

size_t kr_ws_head(unsigned char out[KR_WS_HEAD_MAX], enum kr_ws_op op, uint64_t len, const unsigned char mask[4])
{
    unsigned bytes = len > 0xffff ? 8 : len > 125 ? 2 : 0;
    size_t at = 2;

    out[0] = (unsigned char)(0x80u | (unsigned)op);
    out[1] = (unsigned char)((mask ? 0x80u : 0u) | (bytes == 8 ? 127u : bytes == 2 ? 126u : (unsigned)len));
    for (unsigned i = 0; i < bytes; i++)
        out[at++] = (unsigned char)(len >> 8 * (bytes - 1 - i));
    for (unsigned i = 0; mask && i < 4; i++)
        out[at++] = mask[i];
    return at;
}
