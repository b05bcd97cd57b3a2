/* Fuzzes src/http's multipart parser: a body in any pieces gives the same parts, bytes and error. An input is a byte
 * for the size of the pieces, a byte for the most parts allowed, then the body; its boundary is `b`. The body is also
 * read as a Content-Type. */
#define _GNU_SOURCE 1
#define FUZZ_NAME "fuzz-multipart"
#include "err.h"
#include "multipart.h"
#include "replay.h"
#include "utf8.h"
#include <errno.h>
#include <stdbool.h>

struct heard {
    uint64_t sum;   /* of everything, the cuts between pieces of content aside */
    uint64_t bytes; /* of content */
    size_t largest; /* piece of content */
    unsigned parts;
    bool in_part;
};

static void mix(struct heard *h, const void *data, size_t len)
{
    const unsigned char *s = data;

    for (size_t i = 0; i < len; i++) /* reads every byte, so that the sanitizers see a wrong bound */
        h->sum = (h->sum ^ s[i]) * 1099511628211u;
}

static void mix_text(struct heard *h, const char *text)
{
    size_t len = text ? strlen(text) : 0;

    mix(h, text ? "t" : "n", 1);
    mix(h, text, len);
    for (size_t at = 0; at < len;) {
        int n = kr_utf8_next((const unsigned char *)text + at, len - at, NULL);

        must(n > 0 && (unsigned char)text[at] >= 0x20 && text[at] != 0x7f, "a name is clean text");
        at += n > 0 ? (size_t)n : len;
    }
}

static int on_part(void *ctx, const struct kr_multipart_part *part, struct kr_err *err)
{
    struct heard *h = ctx;

    (void)err;
    must(!h->in_part && part->index == h->parts && part->name, "parts come one after the other, each with a name");
    h->in_part = true;
    h->parts++;
    mix_text(h, part->name);
    mix_text(h, part->filename);
    mix_text(h, part->content_type);
    return 0;
}

static int on_data(void *ctx, const void *data, size_t len, struct kr_err *err)
{
    struct heard *h = ctx;

    (void)err;
    must(h->in_part && len > 0, "content belongs to a part");
    h->bytes += len;
    h->largest = len > h->largest ? len : h->largest;
    mix(h, data, len);
    return 0;
}

static int on_part_end(void *ctx, struct kr_err *err)
{
    struct heard *h = ctx;

    (void)err;
    must(h->in_part, "a part ends once");
    h->in_part = false;
    mix(h, "", 1);
    return 0;
}

static const struct kr_multipart_ops ops = {on_part, on_data, on_part_end};

static int feed(const uint8_t *data, size_t size, size_t piece, unsigned parts_max, struct heard *h, struct kr_err *err)
{
    struct kr_multipart *m = kr_multipart_new("b", parts_max, &ops, h);
    size_t left = size;
    int r = 0;

    while (m && left > 0 && r == 0) {
        size_t n = piece < left ? piece : left;
        uint8_t *exact = malloc(n); /* a piece is all there is: a look beyond it is seen */

        if (!exact)
            break;
        memcpy(exact, data + (size - left), n);
        r = kr_multipart_feed(m, exact, n, err);
        free(exact);
        left -= n;
    }
    if (m && r == 0)
        r = kr_multipart_finish(m, err);
    kr_multipart_free(m);
    must(r == 0 || r == -EINVAL || r == -E2BIG, "it is read or refused");
    must(r == 0 || (err->kind == KR_ERR_INVALID && err->msg[0]), "a refusal says why");
    must(r < 0 || !h->in_part, "a body that is whole leaves no part open");
    must(h->parts <= parts_max && h->bytes <= size, "no more comes out than goes in");
    return r;
}

static void try_type(const uint8_t *data, size_t size)
{
    char out[KR_MULTIPART_BOUNDARY_MAX + 1], *text = malloc(size + 1);
    struct kr_err err;
    int r;

    if (!text)
        return;
    memcpy(text, data, size);
    text[size] = '\0';
    r = kr_multipart_boundary(text, out, &err);
    must(r == 0 || r == 1 || r == -EINVAL, "a type is multipart, another or refused");
    if (r == 1) {
        struct kr_multipart *m = kr_multipart_new(out, 1, &ops, NULL);

        must(m != NULL, "a boundary that was read can be used");
        kr_multipart_free(m);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole = {0}, pieces = {0};
    struct kr_err whole_err = {0}, pieces_err = {0};
    unsigned parts_max;
    int whole_r, pieces_r;

    if (size < 2)
        return 0;
    parts_max = data[1] % 8;
    whole_r = feed(data + 2, size - 2, size, parts_max, &whole, &whole_err);
    pieces_r = feed(data + 2, size - 2, data[0] + 1u, parts_max, &pieces, &pieces_err);
    must(whole_r == pieces_r && strcmp(whole_err.msg, pieces_err.msg) == 0, "pieces do not change the verdict");
    must(whole.sum == pieces.sum && whole.bytes == pieces.bytes && whole.parts == pieces.parts,
         "pieces do not change what is heard");
    must(pieces.largest <= data[0] + 1u || pieces.largest <= 5, "content is not collected"); /* CR LF - - b */
    try_type(data + 2, size - 2);
    return 0;
}
