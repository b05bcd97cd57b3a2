/* Fuzzes what is done with secrets in fields and answers. What must hold: a field without a placeholder comes out as it
 * went in; every placeholder in it has gone; a value that stands in an answer is covered, in whatever pieces it came,
 * and nothing else changes its length. */
#define FUZZ_NAME "fuzz-secrets"
#include "replay.h"
#include "secret_mask.h"
#include "secret_put.h"
#include "secret_terms.h"

#define ONE KR_SECRET_PREFIX "0123456789abcdefghijklmnopqrstuv"
#define TWO KR_SECRET_PREFIX "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
#define FIELD_MAX 16384u

static const struct kr_secret_pair pairs[] = {{ONE, "abcabcd-\"/+&"}, {TWO, "a value of two"}};

static bool has(const char *bytes, size_t len, const char *text)
{
    return memmem(bytes, len, text, strlen(text)) != NULL;
}

static void check_field(const char *bytes, size_t len)
{
    struct kr_buf out;
    uint32_t used = 0;
    int r;

    kr_buf_init(&out, 1u << 20);
    r = kr_secret_put(pairs, 2, bytes, len, &out, &used);
    must(r == 0, "a field of a head fits");
    must(used < 4, "only what is there is used");
    if (!used)
        must(out.len == len && (len == 0 || memcmp(out.data, bytes, len) == 0), "what has no placeholder is as it was");
    for (size_t i = 0; i < 2; i++)
        must(!out.data || !has(out.data, out.len, pairs[i].placeholder), "no placeholder is left");
    kr_buf_done(&out);
}

/* In pieces of `step` bytes, into `out` of the same length. */
static void pass_pieces(const char *bytes, size_t len, size_t step, char *out)
{
    struct kr_secret_mask *m = NULL;
    size_t held = 0, gone = 0;
    char *own = malloc(len + 1);

    must(own && kr_secret_mask_new(NULL, &m) == 0, "memory");
    for (size_t i = 0; i < 2; i++)
        must(kr_secret_mask_add(m, pairs[i].value) == 0, "memory");
    for (size_t at = 0; at < len || held > 0;) {
        size_t n = step < len - at ? step : len - at;
        ssize_t passed;

        memcpy(own + held, bytes + at, n);
        at += n;
        held += n;
        passed = kr_secret_mask_pass(m, own, held, at == len);
        must(passed >= 0, "values that were not chosen for it are found in every text");
        must((size_t)passed <= held && (at < len || (size_t)passed == held),
             "no more goes than there is, and at the end all");
        if (passed < 0 || (size_t)passed > held || (at == len && (size_t)passed < held))
            break;
        memcpy(out + gone, own, (size_t)passed);
        gone += (size_t)passed;
        held -= (size_t)passed;
        memmove(own, own + passed, held);
    }
    must(gone == len, "the length stays");
    kr_secret_mask_free(m);
    free(own);
}

static void check_answer(const char *bytes, size_t len)
{
    char *whole = calloc(1, len + 1), *pieces = calloc(1, len + 1);

    pass_pieces(bytes, len, len ? len : 1, whole);
    for (size_t i = 0; i < 2; i++)
        must(!has(whole, len, pairs[i].value), "no value is left");
    for (size_t i = 0; i < len; i++)
        must(whole[i] == bytes[i] || whole[i] == '*', "a byte stays or is covered");
    for (size_t step = 1; step < 24; step += 1 + step / 3) {
        pass_pieces(bytes, len, step, pieces);
        must(memcmp(whole, pieces, len) == 0, "pieces change nothing");
    }
    free(whole);
    free(pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;

    check_field(bytes, size < FIELD_MAX ? size : FIELD_MAX);
    check_answer(bytes, size < 4096 ? size : 4096);
    return 0;
}
