/* Content codings by zlib. Called by the engine for bodies and answers.
 *
 * Invariants: decoding makes at most limit + 1 bytes, however well the body was compressed; what is accepted was
 * compressed exactly once, is whole, and has nothing behind its end. */
#include "coding.h"
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define FIRST_ROOM 4096u
#define GZIP_BITS (15 + 16) /* zlib's way to say gzip */
#define QUICK 3
#define BEST 9

/* ---- names ---- */

/* The next element of a comma-separated list, without the blanks around it; false at the end. */
static bool next_coding(const char **at, const char **ret, size_t *ret_len)
{
    const char *p = *at + strspn(*at, ", \t");
    size_t len = strcspn(p, ",");

    *at = p + len;
    while (len > 0 && (p[len - 1] == ' ' || p[len - 1] == '\t'))
        len--;
    *ret = p;
    *ret_len = len;
    return len > 0;
}

static bool is_word(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(text, word, len) == 0;
}

enum kr_http_coding kr_http_coding_of(const char *content_encoding)
{
    const char *at = content_encoding, *element, *second;
    size_t len, second_len;

    if (!at || !next_coding(&at, &element, &len))
        return KR_HTTP_IDENTITY;
    if (next_coding(&at, &second, &second_len))
        return KR_HTTP_CODING_OTHER;
    if (is_word(element, len, "gzip") || is_word(element, len, "x-gzip"))
        return KR_HTTP_GZIP;
    if (is_word(element, len, "deflate"))
        return KR_HTTP_DEFLATE;
    return is_word(element, len, "identity") ? KR_HTTP_IDENTITY : KR_HTTP_CODING_OTHER;
}

/* Whether the parameters of an element (what follows the coding's name) say q=0, q=0.0 … */
static bool is_refused(const char *params, size_t len)
{
    const char *end = params + len, *q = params;

    while (q < end && *q != '=')
        q++;
    if (q == end || q == params || (q[-1] != 'q' && q[-1] != 'Q'))
        return false;
    for (q++; q < end; q++)
        if (*q >= '1' && *q <= '9')
            return false;
    return true;
}

bool kr_http_takes_gzip(const char *accept_encoding)
{
    const char *at = accept_encoding, *element;
    bool any = false;
    size_t len;

    while (at && next_coding(&at, &element, &len)) {
        size_t name = strcspn(element, "; \t,");

        name = name < len ? name : len;
        if (is_word(element, name, "gzip") || is_word(element, name, "x-gzip"))
            return !is_refused(element + name, len - name);
        if (name == 1 && element[0] == '*')
            any = !is_refused(element + name, len - name);
    }
    return any;
}

bool kr_http_is_compressible(const char *type)
{
    size_t len = type ? strcspn(type, "; \t") : 0;

    return (len > 5 && strncasecmp(type, "text/", 5) == 0) || is_word(type ? type : "", len, "application/json") ||
           is_word(type ? type : "", len, "image/svg+xml") || (len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0);
}

/* ---- decoding ---- */

struct output {
    char *data;
    size_t len, room, limit;
};

/* Room for at least one byte more, and never for more than one past the limit. */
static int grow_output(struct output *o)
{
    size_t room = o->room ? 2 * o->room : FIRST_ROOM;
    char *moved;

    if (o->len < o->room)
        return 0;
    if (o->len > o->limit)
        return -E2BIG;
    if (room > o->limit + 1)
        room = o->limit + 1;
    moved = realloc(o->data, room + 1); /* and the NUL */
    if (!moved)
        return -ENOMEM;
    o->data = moved;
    o->room = room;
    return 0;
}

static unsigned to_uint(size_t n)
{
    return n < UINT32_MAX ? (unsigned)n : UINT32_MAX;
}

/* Inflates all of it. `z` is initialised. */
static int inflate_all(z_stream *z, bool members, const char *in, size_t len, struct output *o)
{
    size_t used = 0;
    int rc = Z_OK, r;

    for (;;) {
        unsigned given = to_uint(len - used), room;

        r = grow_output(o);
        if (r < 0)
            return r;
        room = to_uint(o->room - o->len);
        z->next_in = (unsigned char *)(uintptr_t)(in + used);
        z->avail_in = given;
        z->next_out = (unsigned char *)o->data + o->len;
        z->avail_out = room;
        rc = inflate(z, Z_NO_FLUSH);
        used += given - z->avail_in;
        o->len += room - z->avail_out;
        if (rc == Z_MEM_ERROR)
            return -ENOMEM;
        if (rc == Z_STREAM_END && used == len)
            return o->len > o->limit ? -E2BIG : 0;
        if (rc == Z_STREAM_END && (!members || inflateReset(z) != Z_OK))
            return -EBADMSG; /* something is behind its end */
        if (rc != Z_OK && rc != Z_STREAM_END && !(rc == Z_BUF_ERROR && z->avail_out == 0))
            return -EBADMSG; /* malformed, or the input is used up before the end */
    }
}

int kr_http_decode(enum kr_http_coding coding, const char *in, size_t len, size_t limit, char **ret, size_t *ret_len)
{
    struct output o = {.limit = limit};
    z_stream z = {0};
    int r;

    if (coding != KR_HTTP_GZIP && coding != KR_HTTP_DEFLATE)
        return -EBADMSG;
    if (inflateInit2(&z, coding == KR_HTTP_GZIP ? GZIP_BITS : 15) != Z_OK)
        return -ENOMEM;
    r = len > 0 ? inflate_all(&z, coding == KR_HTTP_GZIP, in, len, &o) : -EBADMSG;
    inflateEnd(&z);
    if (r < 0) {
        free(o.data);
        return r;
    }
    o.data[o.len] = '\0';
    *ret = o.data;
    *ret_len = o.len;
    return 0;
}

/* ---- compressing ---- */

int kr_http_gzip(const void *in, size_t len, bool best, char **ret, size_t *ret_len)
{
    z_stream z = {0};
    char *out = len > 0 && len < UINT32_MAX ? malloc(len) : NULL;
    int rc;

    if (!out)
        return len > 0 && len < UINT32_MAX ? -ENOMEM : -ENODATA;
    if (deflateInit2(&z, best ? BEST : QUICK, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(out);
        return -ENOMEM;
    }
    z.next_in = (unsigned char *)(uintptr_t)in;
    z.avail_in = (unsigned)len;
    z.next_out = (unsigned char *)out;
    z.avail_out = (unsigned)len;
    rc = deflate(&z, Z_FINISH);
    *ret_len = len - z.avail_out;
    deflateEnd(&z);
    if (rc != Z_STREAM_END) { /* it does not fit in as many bytes as it had */
        free(out);
        return -ENODATA;
    }
    *ret = out;
    return 0;
}
