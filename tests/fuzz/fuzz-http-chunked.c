/* Fuzzes the chunked-body decoder. What must hold: data, verdict and where the body ends do not depend on how the bytes
 * are cut into pieces, and what comes out is never more than what went in.
 *
 * With -fsanitize=fuzzer it is a libFuzzer target; otherwise a program that replays the files and folders given as
 * arguments and prints PASS or FAIL for each. An input is: a byte for the size of the pieces, then what a peer
 * sends. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-http-chunked"
#include "body.h"
#include "replay.h"

struct outcome {
    enum kr_http_body_event event;
    uint64_t sum, bytes; /* of the data */
    size_t taken;        /* of the input, at the end or at what was wrong */
};

static struct outcome decode(const char *text, size_t size, size_t piece)
{
    struct outcome o = {.event = KR_HTTP_BODY_MORE, .sum = 14695981039346656037u};
    struct kr_http_body b;

    kr_http_body_init(&b, true, -1);
    while (o.taken < size && o.event == KR_HTTP_BODY_MORE) {
        size_t n = piece < size - o.taken ? piece : size - o.taken, left = n, len;
        const char *in = text + o.taken, *from = in, *data;

        while ((o.event = kr_http_body_next(&b, &in, &left, &data, &len)) == KR_HTTP_BODY_DATA) {
            must(len > 0 && data >= from && data + len <= in, "a piece is inside the input, and not empty");
            for (size_t i = 0; i < len; i++)
                o.sum = (o.sum ^ (uint8_t)data[i]) * 1099511628211u;
            o.bytes += len;
        }
        must(in == from + (n - left), "the input is advanced by what is taken");
        must(o.event != KR_HTTP_BODY_MORE || left == 0, "more is asked for only when all is taken");
        o.taken += n - left;
    }
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, cut;

    if (size < 2)
        return 0;
    whole = decode((const char *)data + 1, size - 1, size);
    cut = decode((const char *)data + 1, size - 1, data[0] + 1u);
    must(whole.event == cut.event, "the verdict is the same in pieces");
    must(whole.sum == cut.sum && whole.bytes == cut.bytes, "so is the data");
    must(whole.taken == cut.taken, "so is the end");
    must(whole.bytes <= whole.taken, "no data from nowhere");
    must(whole.event != KR_HTTP_BODY_END || whole.taken >= 5, "a body ends in 0 CRLF CRLF");
    return 0;
}
