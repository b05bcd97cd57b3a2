/* The index for cells: pages and files as answers of HTTP.
 *
 * Called for requests for /index/… on a cell's listener. Invariants: at most OUT_PAUSE bytes and one piece of the
 * source wait for a client, then the source pauses; an answer that began and failed ends without its end, so that no
 * client takes it for whole; the row names the host that was asked. */
#include "eg_index_cell.h"
#include "eg_judge.h"
#include "eg_second.h"
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUT_MAX (16u << 20)
#define OUT_PAUSE (256u << 10)
#define ACCEPT_ROOM 512

struct serving {
    struct kr_eg_conn *c;
    struct kr_eg_index_get *get; /* NULL: it has ended */
    struct kr_buf out;
    size_t sent; /* of out */
    bool head, chunked, keep, replied, paused, ended;
    unsigned status; /* 200, 206 */
    char promised[KR_INDEX_HASH_ROOM];
    EVP_MD_CTX *md; /* where a hash is promised */
};

/* ---- ends ---- */

static void free_serving(struct serving *s)
{
    kr_eg_index_cancel(s->get);
    kr_buf_done(&s->out);
    EVP_MD_CTX_free(s->md);
    free(s);
}

static void on_gone(void *data)
{
    free_serving(data);
}

static void fail_serving(struct serving *s, unsigned status, enum kr_eg_verdict verdict, const char *why)
{
    struct kr_eg_conn *c = s->c;

    if (s->replied) {
        kr_eg_conn_abort(c, verdict, why); /* and on_gone() frees */
        return;
    }
    free_serving(s);
    kr_eg_conn_refuse(c, status, verdict, why);
}

/* Whether what came is what a page promised. Clients of the index check it, too; the row is for who looks later. */
static bool is_promised(struct serving *s)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    char text[KR_INDEX_HASH_ROOM] = "";
    unsigned size = 0;

    if (!s->md || s->head)
        return true;
    EVP_DigestFinal_ex(s->md, digest, &size);
    for (unsigned i = 0; i < size && 2 * i + 2 < sizeof text; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return strcmp(text, s->promised) == 0;
}

static void finish_serving(struct serving *s)
{
    struct kr_eg_conn *c = s->c;
    bool good = is_promised(s), keep = s->keep;
    unsigned status = s->status;

    free_serving(s);
    if (good)
        kr_eg_conn_finish(c, status, KR_EG_OK, "", keep);
    else
        kr_eg_conn_finish(c, 200, KR_EG_FAILED, "the file is not the one whose hash the index's page has", false);
}

/* ---- to the client ---- */

/* Negative: the client is gone, and so is `s`. */
static int flush_serving(struct serving *s)
{
    while (s->sent < s->out.len) {
        ssize_t n = kr_eg_stream_write(s->c->client, s->out.data + s->sent, s->out.len - s->sent);

        if (n == -EAGAIN)
            break;
        if (n < 0) {
            fail_serving(s, 0, KR_EG_FAILED, "the client closed the connection");
            return -EPIPE;
        }
        s->sent += (size_t)n;
    }
    if (s->sent == s->out.len) {
        kr_buf_reset(&s->out);
        s->sent = 0;
    }
    kr_eg_stream_want(s->c->client, false, s->out.len > 0);
    if (s->get && s->paused != (s->out.len - s->sent > OUT_PAUSE)) {
        s->paused = !s->paused;
        kr_eg_index_pause(s->get, s->paused);
    }
    return 0;
}

static void on_client_writable(void *data)
{
    struct serving *s = data;

    if (flush_serving(s) == 0 && s->ended && s->out.len == 0)
        finish_serving(s);
}

/* ---- from the index ---- */

static void on_serving_url(void *data, const struct kr_web_address *url)
{
    const struct serving *s = data;

    snprintf(s->c->req.host, sizeof s->c->req.host, "%s", url->host);
    s->c->req.port = url->port;
}

static void on_serving_hop(void *data, const struct kr_eg_hop *hop)
{
    const struct serving *s = data;

    snprintf(s->c->address, sizeof s->c->address, "%s", hop->address);
}

static int on_serving_moved(void *data, uint64_t sent, uint64_t received, struct kr_err *err)
{
    const struct serving *s = data;

    (void)err;
    return kr_eg_conn_moved(s->c, sent, received) ? 0 : -ECANCELED; /* then on_gone() has cancelled */
}

/* Pages are not kept by clients: their links are good for the life of this process. Files never change. */
static int on_serving_reply(void *data, const struct kr_eg_index_reply *reply, struct kr_err *err)
{
    struct serving *s = data;
    bool http10 = s->c->req.head.http10;
    int r;

    s->replied = true;
    s->status = *reply->range ? 206 : 200;
    s->chunked = reply->length < 0 && !http10;
    s->keep = s->c->req.head.keep_alive && (reply->length >= 0 || s->chunked);
    snprintf(s->promised, sizeof s->promised, "%s", reply->promised);
    s->md = *s->promised ? EVP_MD_CTX_new() : NULL;
    if (s->md)
        EVP_DigestInit_ex(s->md, EVP_sha256(), NULL);
    kr_buf_printf(&s->out, "HTTP/1.1 %s\r\nContent-Type: %s\r\nCache-Control: %s\r\n",
                  *reply->range ? "206 Partial Content" : "200 OK", reply->type,
                  reply->page ? "no-store" : "max-age=31536000, immutable");
    if (*reply->range)
        kr_buf_printf(&s->out, "Content-Range: %s\r\n", reply->range);
    else if (reply->ranges)
        kr_buf_add_str(&s->out, "Accept-Ranges: bytes\r\n");
    if (reply->length >= 0)
        kr_buf_printf(&s->out, "Content-Length: %lld\r\n", (long long)reply->length);
    else if (s->chunked)
        kr_buf_add_str(&s->out, "Transfer-Encoding: chunked\r\n");
    r = kr_buf_printf(&s->out, "Connection: %s\r\n\r\n", s->keep ? "keep-alive" : "close");
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "answer") : flush_serving(s);
}

static int on_serving_body(void *data, const char *bytes, size_t len, struct kr_err *err)
{
    struct serving *s = data;

    if (s->head)
        return 0;
    if (s->md)
        EVP_DigestUpdate(s->md, bytes, len);
    if (s->chunked)
        kr_buf_printf(&s->out, "%zx\r\n", len);
    kr_buf_add(&s->out, bytes, len);
    if (s->chunked)
        kr_buf_add_str(&s->out, "\r\n");
    if (s->out.failed)
        return kr_err_set(err, KR_ERR_SYSTEM, -s->out.failed, "keep what came of the index");
    return flush_serving(s);
}

static void on_serving_end(void *data, enum kr_eg_verdict verdict, unsigned status, const char *why)
{
    struct serving *s = data;

    s->get = NULL;
    if (verdict != KR_EG_OK) {
        fail_serving(s, status, verdict, why);
        return;
    }
    if (s->chunked && !s->head)
        kr_buf_add_str(&s->out, "0\r\n\r\n");
    s->ended = true;
    on_client_writable(s);
}

/* ---- beginning ---- */

static const char *read_field(const struct kr_eg_conn *c, const char *name, char *buf, size_t size)
{
    const char *bytes = kr_buf_str(&c->head);
    const struct kr_http_field *f = kr_eg_head_field(bytes, &c->req.head, name);

    if (!f)
        return NULL;
    snprintf(buf, size, "%.*s", f->value.len, bytes + f->value.at);
    return buf;
}

/* One part, "bytes=0-99", "bytes=100-" or "bytes=-100"; anything else is no request for a part (RFC 9110 14.2). */
static const char *read_range(const struct kr_eg_conn *c, char *buf, size_t size)
{
    static const char unit[] = "bytes=", digits[] = "0123456789";
    const char *range = read_field(c, "range", buf, size), *to;
    size_t from;

    if (!range || strncmp(range, unit, sizeof unit - 1) != 0 || strlen(range) + 1 >= size)
        return NULL;
    range += sizeof unit - 1;
    from = strspn(range, digits);
    to = range + from + 1;
    if (range[from] != '-' || to[strspn(to, digits)] != '\0' || (from == 0 && *to == '\0'))
        return NULL;
    return buf;
}

static void refuse_by_err(struct serving *s, const struct kr_err *err)
{
    if (err->kind == KR_ERR_NOT_FOUND)
        fail_serving(s, 404, KR_EG_FAILED, err->msg);
    else if (err->kind == KR_ERR_DENIED)
        fail_serving(s, 403, KR_EG_DENIED, err->msg);
    else if (err->kind == KR_ERR_TOO_MANY)
        fail_serving(s, 429, KR_EG_LIMIT, err->msg);
    else
        fail_serving(s, 503, KR_EG_FAILED, err->msg);
}

static void begin_serving(struct serving *s)
{
    static const struct kr_eg_index_calls calls = {
        .on_url = on_serving_url,
        .on_reply = on_serving_reply,
        .on_body = on_serving_body,
        .on_hop = on_serving_hop,
        .on_moved = on_serving_moved,
        .on_end = on_serving_end,
    };
    static const struct kr_eg_stream_calls client_calls = {NULL, on_client_writable};
    const struct kr_eg_taker taker = {on_gone, s};
    struct kr_eg_conn *c = s->c;
    char accept[ACCEPT_ROOM], range[KR_EG_RANGE_ROOM];
    const struct kr_eg_index_ask ask = {
        .path = c->req.path,
        .head = s->head,
        .accept = read_field(c, "accept", accept, sizeof accept),
        .range = s->head ? NULL : read_range(c, range, sizeof range),
        .sandbox = c->sandbox->id,
        .timeout_ms = c->eg->limits.total_ms,
        .idle_ms = c->eg->limits.idle_ms - c->eg->limits.idle_ms / 8, /* so that it is this that the client is told */
    };
    struct kr_err err;

    kr_eg_conn_take(c, &taker);
    kr_eg_stream_set_calls(c->client, &client_calls, s);
    if (kr_eg_index_start(kr_eg_second(c->eg)->index, &ask, &calls, s, &s->get, &err) < 0)
        refuse_by_err(s, &err);
}

void kr_eg_index_serve(struct kr_eg_conn *c)
{
    const struct kr_http_head *h = &c->req.head;
    bool head = strcmp(c->req.method, "HEAD") == 0;
    struct serving *s;

    if (!head && strcmp(c->req.method, "GET") != 0) {
        kr_eg_conn_refuse(c, 405, KR_EG_FAILED, "the package index can be read, by GET and HEAD, and nothing else");
        return;
    }
    if (h->chunked || h->content_length > 0) {
        kr_eg_conn_refuse(c, 400, KR_EG_FAILED, "a request to the package index has no body");
        return;
    }
    s = calloc(1, sizeof *s);
    if (!s) {
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
        return;
    }
    s->c = c;
    s->head = head;
    kr_buf_init(&s->out, OUT_MAX);
    begin_serving(s);
}
