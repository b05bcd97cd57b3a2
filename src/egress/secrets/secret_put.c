/* Placeholders in the fields of a request's head. See secret_put.h. */
#include "secret_put.h"
#include "base64.h"
#include "secret_terms.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BASIC "basic "
#define BASIC_LEN (sizeof BASIC - 1)
#define BASIC_MAX 12288u /* bytes of base64: of a head of 16 KiB */

/* The number of the placeholder that begins here, or -1. */
static int placeholder_at(const struct kr_secret_pair *pairs, size_t count, const char *text, size_t len)
{
    if (len < KR_SECRET_PLACEHOLDER_LEN || memcmp(text, KR_SECRET_PREFIX, sizeof KR_SECRET_PREFIX - 1) != 0)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (memcmp(text, pairs[i].placeholder, KR_SECRET_PLACEHOLDER_LEN) == 0)
            return (int)i;
    return -1;
}

static int put_text(const struct kr_secret_pair *pairs, size_t count, const char *text, size_t len, struct kr_buf *out,
                    uint32_t *used)
{
    size_t from = 0;

    for (size_t at = 0; at < len;) {
        int i = placeholder_at(pairs, count, text + at, len - at);

        if (i < 0) {
            at++;
            continue;
        }
        kr_buf_add(out, text + from, at - from);
        kr_buf_add_str(out, pairs[i].value);
        *used |= UINT32_C(1) << i;
        at += KR_SECRET_PLACEHOLDER_LEN;
        from = at;
    }
    return kr_buf_add(out, text + from, len - from); /* a buffer that is full stays failed */
}

static int add_base64(const struct kr_buf *plain, struct kr_buf *out)
{
    size_t room = KR_BASE64_ROOM(plain->len);
    char *text = malloc(room);
    int r;

    if (!text)
        return -ENOMEM;
    r = kr_buf_add(out, text, kr_base64_encode(plain->data, plain->len, text));
    explicit_bzero(text, room);
    free(text);
    return r;
}

/* 1: it was one, and is added; 0: it is none that has a placeholder; or -errno. */
static int put_basic(const struct kr_secret_pair *pairs, size_t count, const char *field, size_t len,
                     struct kr_buf *out, uint32_t *used)
{
    char plain[BASIC_MAX];
    struct kr_buf changed;
    uint32_t found = 0;
    size_t at = BASIC_LEN;
    ssize_t n;
    int r;

    if (len <= BASIC_LEN || len > BASIC_MAX || strncasecmp(field, BASIC, BASIC_LEN) != 0)
        return 0;
    while (at < len && field[at] == ' ')
        at++;
    n = kr_base64_decode(field + at, len - at, plain, sizeof plain);
    if (n <= 0)
        return 0;
    kr_buf_init(&changed, out->max);
    r = put_text(pairs, count, plain, (size_t)n, &changed, &found);
    if (r >= 0 && found && (r = kr_buf_add(out, field, at)) >= 0 && (r = add_base64(&changed, out)) >= 0)
        r = 1;
    *used |= found;
    if (changed.data)
        explicit_bzero(changed.data, changed.cap);
    kr_buf_done(&changed);
    return r < 0 ? r : found ? 1 : 0;
}

int kr_secret_put(const struct kr_secret_pair *pairs, size_t count, const char *field, size_t len, struct kr_buf *out,
                  uint32_t *used)
{
    int r = put_basic(pairs, count, field, len, out, used);

    if (r != 0)
        return r < 0 ? r : 0;
    return put_text(pairs, count, field, len, out, used);
}
