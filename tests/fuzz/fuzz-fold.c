/* Fuzzes src/mcp/exec/fold: output of any kind, folded. Its invariants: valid UTF-8 stays valid, no carriage return and
 * no backspace is left, lines are as many as before, nothing grows, and folding twice is folding once. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-fold"
#include "buf.h"
#include "fold.h"
#include "replay.h"
#include "utf8.h"

static bool is_utf8(const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

static size_t count_lines(const char *text, size_t len)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct kr_buf once, twice;
    size_t at;

    if (size == 0)
        return 0;
    kr_buf_init(&once, size + 1);
    kr_buf_init(&twice, size + 1);
    must(kr_fold_text(&once, text, size) == 0, "it fits where it came from");
    must(once.len <= size, "nothing grows");
    must(!kr_fold_needed(kr_buf_str(&once), once.len), "nothing is left to fold");
    must(count_lines(text, size) == count_lines(kr_buf_str(&once), once.len), "every line is there");
    must(!is_utf8(text, size) || is_utf8(kr_buf_str(&once), once.len), "text stays text");
    must(once.len == 0 || kr_fold_text(&twice, once.data, once.len) == 0, "what was folded can be folded");
    must(once.len == twice.len && memcmp(kr_buf_str(&once), kr_buf_str(&twice), once.len) == 0, "it stays as it is");
    at = kr_fold_source(text, size, once.len / 2);
    must(at <= size && (at == 0 || text[at - 1] == '\n' || at == size), "a place is the beginning of a line");
    kr_buf_done(&once);
    kr_buf_done(&twice);
    return 0;
}
