/* Fuzzes the decoder of coded bodies. What must hold: at most the limit comes out, a smaller limit refuses the same
 * bytes or gives the same text, and what was decoded is decoded again after it is compressed.
 *
 * With -fsanitize=fuzzer it is a libFuzzer target; otherwise a program that replays the files and folders given as
 * arguments and prints PASS or FAIL for each. An input is: a byte for the coding, then a body. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-http-coding"
#include "coding.h"
#include "replay.h"

#define LIMIT 65536u

static void decode_again(const char *text, size_t len)
{
    char *zip = NULL, *again = NULL;
    size_t zip_len, again_len;

    if (kr_http_gzip(text, len, false, &zip, &zip_len) == 0) {
        must(zip_len <= len, "what is compressed is not larger");
        must(kr_http_decode(KR_HTTP_GZIP, zip, zip_len, len, &again, &again_len) == 0, "it can be decoded");
        must(again_len == len && memcmp(again, text, len) == 0, "to the same text");
    }
    free(zip);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum kr_http_coding coding;
    char *text = NULL, *less = NULL;
    size_t len = 0, less_len = 0;
    int r, again;

    if (size < 1)
        return 0;
    coding = data[0] & 1 ? KR_HTTP_DEFLATE : KR_HTTP_GZIP;
    r = kr_http_decode(coding, (const char *)data + 1, size - 1, LIMIT, &text, &len);
    must(r == 0 || r == -E2BIG || r == -EBADMSG, "one of the verdicts");
    must(r != 0 || (len <= LIMIT && text[len] == '\0'), "within the limit, with its NUL");
    again = kr_http_decode(coding, (const char *)data + 1, size - 1, LIMIT / 16, &less, &less_len);
    must(again == -EBADMSG || again == -E2BIG || (again == 0 && r == 0 && less_len == len),
         "a smaller limit adds nothing");
    must(r != 0 || again != -EBADMSG || len > LIMIT / 16, "what is whole stays whole");
    if (r == 0 && len > 0)
        decode_again(text, len);
    free(text);
    free(less);
    return 0;
}
