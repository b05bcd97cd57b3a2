/* Coded bodies: requests that come compressed, answers that leave so. Called by exchange.c when a body is whole and by
 * response.c when an answer is.
 *
 * What is short is done at once, the rest by a thread of the pool, which owns the bytes: the peer may leave before it
 * is done. Invariant: the memory that decoding may need is counted among the collected bodies before it begins, and an
 * answer that waits for a thread among what is unsent. */
#include "http_internal.h"
#include "clock.h"
#include "coding.h"
#include "work.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define INLINE_IN 4096u     /* bytes of a coded body that are decoded at once, … */
#define INLINE_OUT 65536u   /* … unless they become more than this */
#define COMPRESS_MIN 1024u  /* a shorter answer is sent as it is */
#define COMPRESS_NOW 16384u /* a longer one is compressed by a thread */

struct coded {
    struct kr_work work;
    struct kr_http_ex *ex;
    struct kr_http_server *server;
    char *in, *out;
    size_t len, out_len, limit;
    size_t reserved; /* of stats.collected_bytes */
    enum kr_http_coding coding;
    int r, status;
    char type[128];
};

static void free_coded(struct coded *d)
{
    free(d->in);
    free(d->out);
    free(d);
}

static void on_coded_gone(void *data, struct kr_http_ex *ex)
{
    struct coded *d = data;

    (void)ex;
    d->server->stats.collected_bytes -= d->reserved; /* now: the server may be gone before the thread is done */
    kr_work_drop(&d->work);
}

static void on_coded_dropped(void *data)
{
    free_coded(data);
}

static const struct kr_http_calls coded_calls = {.on_gone = on_coded_gone};

/* ---- requests ---- */

enum kr_http_coding kr_http_ex_coding(const struct kr_http_ex *ex)
{
    enum kr_http_coding coding = KR_HTTP_IDENTITY, one;
    const char *name, *value;

    for (unsigned i = 0; kr_http_header_at(ex, i, &name, &value); i++) {
        if (strcasecmp(name, "content-encoding") != 0)
            continue;
        one = kr_http_coding_of(value);
        coding = coding == KR_HTTP_IDENTITY ? one : one == KR_HTTP_IDENTITY ? coding : KR_HTTP_CODING_OTHER;
    }
    return coding;
}

/* Hands the plain body to the exchange, or answers. True: go on. */
static bool take_decoded(struct kr_http_ex *ex, int r, char *plain, size_t len)
{
    struct kr_http_server *s = ex->conn->server;
    char text[96];

    if (r == 0) {
        kr_http_drop_body(ex);
        ex->collected = plain;
        ex->collected_cap = len + 1;
        ex->body_got = len;
        s->stats.collected_bytes += ex->collected_cap;
        return true;
    }
    snprintf(text, sizeof text, "the decoded body is larger than %llu bytes, the limit of this path",
             (unsigned long long)ex->body_limit);
    if (r == -E2BIG)
        kr_http_reply_error(ex, 413, text);
    else if (r == -EBADMSG)
        kr_http_reply_error(ex, 400,
                            "the body is not what Content-Encoding says: malformed, cut off, or with more behind");
    else
        kr_http_reply_error(ex, 503, NULL);
    return false;
}

static void run_decode(void *data)
{
    struct coded *d = data;

    d->r = kr_http_decode(d->coding, d->in, d->len, d->limit, &d->out, &d->out_len);
}

static void on_decoded(void *data)
{
    struct coded *d = data;
    struct kr_http_ex *ex = d->ex;
    struct kr_http_conn *c = ex->conn;

    d->server->stats.collected_bytes -= d->reserved;
    ex->calls = NULL;
    ex->data = NULL;
    if (take_decoded(ex, d->r, d->out, d->out_len)) {
        d->out = NULL;
        kr_http_ex_handle(ex);
    }
    free_coded(d);
    kr_http_conn_soon(c);
}

static void decode_on_thread(struct kr_http_ex *ex, enum kr_http_coding coding)
{
    static const struct kr_work_calls calls = {.run = run_decode, .done = on_decoded, .dropped = on_coded_dropped};
    struct kr_http_server *s = ex->conn->server;
    struct coded *d = calloc(1, sizeof *d);
    uint64_t most = ex->body_got * KR_HTTP_RATIO_MAX;

    most = most < ex->body_limit ? most : ex->body_limit;
    if (!d || s->stats.collected_bytes + most > s->config.collected_bodies_max) {
        free(d);
        kr_http_reply_error(ex, 503, "too many large requests at once");
        return;
    }
    *d = (struct coded){.ex = ex, .server = s, .coding = coding, .limit = ex->body_limit};
    d->in = kr_http_take_body(ex, &d->len);
    d->reserved = d->len + most;
    s->stats.collected_bytes += d->reserved;
    kr_http_defer(ex, &coded_calls, d);
    kr_work_start(s->loop, &d->work, &calls, d);
}

void kr_http_ex_decode(struct kr_http_ex *ex, enum kr_http_coding coding)
{
    size_t limit = ex->body_limit < INLINE_OUT ? (size_t)ex->body_limit : INLINE_OUT, len, plain_len = 0;
    const char *body = kr_http_body(ex, &len);
    char *plain = NULL;
    int r = len <= INLINE_IN ? kr_http_decode(coding, body, len, limit, &plain, &plain_len) : -E2BIG;

    if (r == -E2BIG && (len > INLINE_IN || limit < ex->body_limit))
        decode_on_thread(ex, coding);
    else if (take_decoded(ex, r, plain, plain_len))
        kr_http_ex_handle(ex);
}

/* ---- answers ---- */

/* Has the handler set this header? `name` in lower case with its colon. */
static bool is_set(const struct kr_http_ex *ex, const char *name)
{
    for (const char *line = ex->headers_len > 0 ? ex->headers : ""; *line; line = strstr(line, "\r\n") + 2)
        if (strncasecmp(line, name, strlen(name)) == 0)
            return true;
    return false;
}

/* May this answer have another coding? One with a tag or a coding of its own has its bytes fixed. */
static bool is_free(const struct kr_http_ex *ex, int status, const char *type, size_t len)
{
    return len >= COMPRESS_MIN && status != 206 && status != 204 && status != 304 && kr_http_is_compressible(type) &&
           !is_set(ex, "etag:") && !is_set(ex, "content-encoding:");
}

static void run_compress(void *data)
{
    struct coded *d = data;

    d->r = kr_http_gzip(d->in, d->len, false, &d->out, &d->out_len);
}

static void on_compressed(void *data)
{
    struct coded *d = data;
    struct kr_http_ex *ex = d->ex;
    bool smaller = d->r == 0 && kr_http_set_header(ex, "Content-Encoding", "gzip") == 0;

    ex->calls = NULL;
    ex->coded = true;
    kr_http_reply(ex, d->status, d->type, smaller ? d->out : d->in, smaller ? d->out_len : d->len);
    free_coded(d);
}

/* False: it is sent as it is. */
static bool compress_on_thread(struct kr_http_ex *ex, int status, const char *type, const void *body, size_t len)
{
    static const struct kr_work_calls calls = {.run = run_compress, .done = on_compressed, .dropped = on_coded_dropped};
    struct coded *d = strlen(type) < sizeof d->type ? calloc(1, sizeof *d) : NULL;

    if (d)
        d->in = malloc(len);
    if (!d || !d->in) {
        free(d);
        return false;
    }
    d->ex = ex;
    d->server = ex->conn->server;
    d->len = len;
    d->status = status;
    memcpy(d->in, body, len);
    snprintf(d->type, sizeof d->type, "%s", type);
    kr_http_drop_body(ex);
    kr_http_defer(ex, &coded_calls, d);
    ex->answered = true;
    kr_work_start(d->server->loop, &d->work, &calls, d);
    (void)kr_http_hold(ex, 2 * len); /* too many bytes: the connection is cut, and on_coded_gone() comes */
    return true;
}

bool kr_http_reply_coded(struct kr_http_ex *ex, int status, const char *type, const void *body, size_t len)
{
    char *out;
    size_t out_len;

    if (ex->coded || !is_free(ex, status, type, len))
        return false;
    ex->coded = true; /* it is looked at once */
    kr_http_set_header(ex, "Vary", "Accept-Encoding");
    if (!kr_http_takes_gzip(kr_http_header(ex, "accept-encoding")))
        return false;
    if (len > COMPRESS_NOW)
        return compress_on_thread(ex, status, type, body, len);
    if (kr_http_gzip(body, len, false, &out, &out_len) < 0)
        return false;
    if (kr_http_set_header(ex, "Content-Encoding", "gzip") < 0) {
        free(out);
        return false;
    }
    kr_http_reply(ex, status, type, out, out_len);
    free(out);
    return true;
}
