/* Fuzzes the parser of WebSocket frames. An input's first byte says whether frames are masked and how the rest is cut
 * into pieces; the rest are the frames. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-ws-frame"
#include "replay.h"
#include "utf8.h"
#include "ws_frame.h"

#define MESSAGE_MAX 20000u

/* What must be the same however the input is cut. */
struct told {
    uint64_t bytes, sum;
    unsigned events, last;
};

static bool is_text(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static void look_at(struct told *t, enum kr_ws_event e, const struct kr_ws_piece *p, uint64_t *message)
{
    bool binary = e == KR_WS_GOT_BINARY;

    must(!t->last, "nothing comes after a close or a violation");
    must(e == KR_WS_BAD || p->len <= (binary                ? KR_WS_PIECE_MAX
                                      : e == KR_WS_GOT_TEXT ? KR_WS_TEXT_MAX
                                                            : KR_WS_CONTROL_MAX),
         "a piece is bounded");
    must(e != KR_WS_GOT_TEXT || is_text(p->data, p->len), "a text is UTF-8");
    must((e != KR_WS_GOT_CLOSE && e != KR_WS_BAD) || (p->code >= 1000 && p->code <= 4999), "a code can be sent");
    must(e != KR_WS_GOT_CLOSE || is_text(p->data, p->len), "a reason is UTF-8");
    for (size_t i = 0; i < p->len; i++)
        t->sum = t->sum * 31 + (unsigned char)p->data[i];
    t->bytes += p->len;
    *message = binary ? *message + p->len : *message;
    must(*message <= MESSAGE_MAX, "a message is bounded");
    *message = binary && p->whole ? 0 : *message;
    t->events += !binary || p->whole;
    t->last = e == KR_WS_GOT_CLOSE || e == KR_WS_BAD ? p->code : 0;
}

static struct told take(const char *text, size_t size, bool masked, size_t piece)
{
    static struct kr_ws_parser p;
    struct told t = {0};
    uint64_t message = 0;

    kr_ws_parser_init(&p, masked, MESSAGE_MAX);
    while (size > 0) {
        const char *in = text;
        size_t n = size < piece ? size : piece, len = n;
        struct kr_ws_piece got;
        enum kr_ws_event e;

        while ((e = kr_ws_next(&p, &in, &len, &got)) != KR_WS_MORE)
            look_at(&t, e, &got, &message);
        must(len == 0 && in == text + n, "all input is used up");
        text += n;
        size -= n;
    }
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct told whole, cut;

    if (size < 1)
        return 0;
    whole = take((const char *)data + 1, size - 1, data[0] & 1, size);
    cut = take((const char *)data + 1, size - 1, data[0] & 1, 1u + (data[0] >> 1));
    must(whole.bytes == cut.bytes && whole.sum == cut.sum && whole.events == cut.events && whole.last == cut.last,
         "pieces change nothing");
    return 0;
}
