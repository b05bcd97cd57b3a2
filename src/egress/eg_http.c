/* Plain HTTP: one request and its reply at a time, from a cell to a server and back.
 *
 * Called by eg_conn.c for a request that the rule allows. Its head is written anew for the server: origin-form, one
 * Host, without the fields that are between two neighbours. Bodies are read by their framing and passed as they are.
 * Where secrets are bound to the host, their values are put into the request's fields, and covered in the reply, which
 * is taken out of its framing for that and put into one again.
 * Invariants: a reply that cannot be read strictly is not passed on; what one side does not take holds up the other;
 * the connection to the server is used again only by a request for the same host whose repetition does no harm. */
#include "answer.h"
#include "body.h"
#include "eg_conn.h"
#include "eg_judge.h"
#include "eg_tls.h"
#include "fd.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COPY_BYTES 65536u
#define HEAD_OUT_MAX (KR_HTTP_ANSWER_HEAD_MAX + 1024u)
#define OUT_MAX (4 * COPY_BYTES)
#define INTERIM_MAX 16u /* answers of 1xx before the one that counts */

/* How the client gets the reply's body. */
enum framing {
    FRAME_SAME,   /* as the server sends it */
    FRAME_BARE,   /* data alone: a length was said, or the end is the connection's */
    FRAME_CHUNKS, /* chunks of our own */
};

struct exchange {
    /* To the server. */
    struct kr_buf up;
    size_t up_at; /* of it written */
    struct kr_http_body asked;
    bool asked_all; /* the request's body is read to its end */
    bool reused, bodiless;
    uint32_t used; /* secrets whose values are in the request: bits of `bound` */
    /* To the client. */
    struct kr_buf down;
    struct kr_buf head; /* of the reply, until it is whole */
    struct kr_http_scan scan;
    struct kr_http_answer answer;
    struct kr_http_body body;
    enum framing framing;
    struct kr_eg_bound bound; /* the secrets that are bound to the host */
    struct kr_buf held;       /* of the reply's data: what may be the begin of a value */
    unsigned interims;
    bool head_sent, to_end, replied; /* to_end: the body ends with the connection; replied: it has ended */
    bool keep_client, keep_server;
};

/* ---- heads ---- */

/* Fields between neighbours (RFC 9110 7.6.1), and those whose place is taken. */
static bool is_for_neighbour(const char *name, size_t len)
{
    static const char *const names[] = {"connection", "proxy-connection",    "keep-alive",         "te",
                                        "upgrade",    "proxy-authorization", "proxy-authenticate", "host"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
            return true;
    return false;
}

/* What says where a message ends is never taken out, whatever Connection names. */
static bool is_framing(const char *name, size_t len)
{
    return (len == 14 && strncasecmp(name, "content-length", len) == 0) ||
           (len == 17 && strncasecmp(name, "transfer-encoding", len) == 0);
}

static bool list_names(const char *list, size_t len, const char *name, size_t name_len)
{
    const char *end = list + len;

    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list)), *to = comma ? comma : end, *next = to + 1;

        while (list < to && (*list == ' ' || *list == '\t'))
            list++;
        while (to > list && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        if ((size_t)(to - list) == name_len && strncasecmp(list, name, name_len) == 0)
            return true;
        list = next;
    }
    return false;
}

static bool connection_names(const char *bytes, const struct kr_http_field *fields, unsigned count,
                             const struct kr_http_field *f)
{
    for (unsigned i = 0; i < count; i++)
        if (fields[i].name.len == 10 && strncasecmp(bytes + fields[i].name.at, "connection", 10) == 0 &&
            list_names(bytes + fields[i].value.at, fields[i].value.len, bytes + f->name.at, f->name.len))
            return true;
    return false;
}

/* Those of a head that go on. */
static void add_fields(struct kr_buf *out, const char *bytes, const struct kr_http_field *fields, unsigned count,
                       bool framing)
{
    for (unsigned i = 0; i < count; i++) {
        const struct kr_http_field *f = &fields[i];
        bool frames = is_framing(bytes + f->name.at, f->name.len);

        if (frames ? !framing
                   : is_for_neighbour(bytes + f->name.at, f->name.len) || connection_names(bytes, fields, count, f))
            continue;
        kr_buf_printf(out, "%.*s: ", f->name.len, bytes + f->name.at);
        kr_buf_add(out, bytes + f->value.at, f->value.len);
        kr_buf_add(out, "\r\n", 2);
    }
}

/* Fields that would have a reply come in a form in which values cannot be found: compressed, or a part of it. */
static bool hides_reply(const char *name, size_t len)
{
    static const char *const names[] = {"accept-encoding", "range", "request-range", "if-range", "a-im"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == len && strncasecmp(name, names[i], len) == 0)
            return true;
    return false;
}

/* Those of a request to a host that secrets are bound to. 0 or -errno. */
static int add_bound_fields(const struct kr_eg_conn *c, struct exchange *x, struct kr_buf *out)
{
    const struct kr_http_field *fields = c->req.head.fields;
    const char *bytes = kr_buf_str(&c->head);
    unsigned count = c->req.head.count;

    kr_buf_add_str(out, "Accept-Encoding: identity\r\n");
    for (unsigned i = 0; i < count; i++) {
        const char *name = bytes + fields[i].name.at, *value = bytes + fields[i].value.at;
        bool frames = is_framing(name, fields[i].name.len);
        int r;

        if (hides_reply(name, fields[i].name.len) || (!frames && (is_for_neighbour(name, fields[i].name.len) ||
                                                                  connection_names(bytes, fields, count, &fields[i]))))
            continue;
        kr_buf_printf(out, "%.*s: ", fields[i].name.len, name);
        r = frames ? kr_buf_add(out, value, fields[i].value.len)
                   : kr_secret_put(x->bound.pairs, x->bound.count, value, fields[i].value.len, out, &x->used);
        if (r < 0)
            return r;
        kr_buf_add(out, "\r\n", 2);
    }
    return out->failed;
}

/* What the server is asked. 0 or -errno. With a body it is asked for nothing else there: some servers do not read the
 * body of a GET, and would take it for a request, which no rule has judged. */
static int write_request(const struct kr_eg_conn *c, struct exchange *x, struct kr_buf *out)
{
    const char *bytes = kr_buf_str(&c->head);
    bool brackets = strchr(c->req.host, ':') != NULL;
    int r = 0;

    kr_buf_printf(out, "%s %s HTTP/1.1\r\nHost: %s%s%s", c->req.method, c->req.path, brackets ? "[" : "", c->req.host,
                  brackets ? "]" : "");
    if (c->req.port != (c->inside ? 443 : 80))
        kr_buf_printf(out, ":%u", c->req.port);
    kr_buf_add(out, "\r\n", 2);
    if (x->bound.all)
        r = add_bound_fields(c, x, out);
    else
        add_fields(out, bytes, c->req.head.fields, c->req.head.count, true);
    return r < 0 ? r : kr_buf_add_str(out, x->bodiless ? "\r\n" : "Connection: close\r\n\r\n");
}

static bool has_no_reply_body(const struct kr_eg_conn *c, const struct exchange *x)
{
    return x->answer.no_body || strcmp(c->req.method, "HEAD") == 0;
}

/* How the client is told where the reply ends. */
static void choose_framing(struct kr_eg_conn *c, struct exchange *x)
{
    const struct kr_http_answer *a = &x->answer;
    bool bodiless = has_no_reply_body(c, x), old = c->req.head.http10;

    x->to_end = !bodiless && !a->chunked && a->content_length < 0;
    kr_http_body_init(&x->body, a->chunked && !bodiless, bodiless ? 0 : a->content_length);
    x->framing = FRAME_SAME;
    if (a->chunked && old)
        x->framing = FRAME_BARE;
    else if (x->bound.all && !bodiless)
        x->framing = a->content_length >= 0 || old ? FRAME_BARE : FRAME_CHUNKS;
    x->keep_client = c->req.head.keep_alive && !(x->to_end && x->framing != FRAME_CHUNKS) && !(a->chunked && old);
    x->keep_server = a->keep_alive && !x->to_end && x->bodiless;
}

static int write_reply(struct kr_eg_conn *c, struct exchange *x)
{
    const char *bytes = kr_buf_str(&x->head);
    const struct kr_http_answer *a = &x->answer;

    kr_buf_printf(&x->down, "HTTP/1.1 %03u %.*s\r\n", a->status, a->reason.len, bytes + a->reason.at);
    add_fields(&x->down, bytes, a->fields, a->count, x->framing == FRAME_SAME && !x->bound.all);
    if (x->bound.all && a->content_length >= 0) /* as it was read: a field may have been covered */
        kr_buf_printf(&x->down, "Content-Length: %lld\r\n", (long long)a->content_length);
    else if (x->framing == FRAME_CHUNKS || (x->bound.all && x->framing == FRAME_SAME && a->chunked))
        kr_buf_add_str(&x->down, "Transfer-Encoding: chunked\r\n");
    if (!x->keep_client)
        kr_buf_add_str(&x->down, "Connection: close\r\n");
    else if (c->req.head.http10)
        kr_buf_add_str(&x->down, "Connection: keep-alive\r\n");
    return kr_buf_add(&x->down, "\r\n", 2);
}

/* ---- ends ---- */

/* The reply, or what there is of it, cannot be passed on. */
static void fail(struct kr_eg_conn *c, const char *why)
{
    if (kr_eg_http_has_answered(c))
        kr_eg_conn_abort(c, KR_EG_FAILED, why);
    else
        kr_eg_conn_refuse(c, 502, KR_EG_FAILED, why);
}

static void complete(struct kr_eg_conn *c)
{
    const struct exchange *x = c->http;
    bool keep_server = x->keep_server && x->asked_all, keep = x->keep_client && x->asked_all;
    unsigned status = x->answer.status;

    if (keep_server) {
        kr_eg_stream_want(c->upstream, false, false); /* between two requests no callback has one to look at */
    } else {
        kr_eg_stream_close(c->upstream);
        c->upstream = NULL;
    }
    kr_eg_conn_finish(c, status, KR_EG_OK, "", keep);
}

/* ---- up ---- */

static void want_next(struct kr_eg_conn *c)
{
    const struct exchange *x = c->http;
    bool up_waits = x->up_at<x->up.len, down_waits = x->down.len> 0;

    kr_eg_stream_want(c->client, x->asked_all ? c->in.len < c->eg->limits.head_bytes : !up_waits, down_waits);
    if (c->upstream)
        kr_eg_stream_want(c->upstream, !down_waits && !x->replied, up_waits);
}

/* The body, as far as it is in c->in: checked, and passed as it is framed. 0 or -errno. */
static int take_asked(struct kr_eg_conn *c, struct exchange *x)
{
    const char *in = kr_buf_str(&c->in), *data;
    size_t left = c->in.len, len, used;
    enum kr_http_body_event event = KR_HTTP_BODY_DATA;
    int r;

    while (!x->asked_all && event == KR_HTTP_BODY_DATA)
        event = kr_http_body_next(&x->asked, &in, &left, &data, &len);
    if (event == KR_HTTP_BODY_BAD)
        return -EBADMSG;
    x->asked_all = x->asked_all || event == KR_HTTP_BODY_END;
    used = c->in.len - left;
    r = kr_buf_add(&x->up, kr_buf_str(&c->in), used);
    if (r < 0)
        return r;
    kr_buf_drop(&c->in, used);
    return 0;
}

/* Writes what waits for the server. False: the connection is gone. */
static bool push_up(struct kr_eg_conn *c)
{
    struct exchange *x = c->http;

    while (x->up_at < x->up.len) {
        ssize_t n = kr_eg_stream_write(c->upstream, x->up.data + x->up_at, x->up.len - x->up_at);

        if (n == -EAGAIN)
            return true;
        if (n < 0) { /* it may have answered before it closed: the reading side says */
            x->up_at = x->up.len;
            x->keep_server = false;
            return true;
        }
        if (x->used) /* its row names no secret before: the server may not be reached, or not prove itself */
            kr_eg_bound_names(&x->bound, x->used, c->secrets, sizeof c->secrets);
        x->up_at += (size_t)n;
        if (!kr_eg_conn_moved(c, (uint64_t)n, 0))
            return false;
    }
    if (!x->bodiless) { /* the head of a bodiless request is kept: it may have to be sent again */
        kr_buf_reset(&x->up);
        x->up_at = 0;
    }
    return true;
}

static void on_http_upstream_writable(void *data)
{
    struct kr_eg_conn *c = data;

    if (push_up(c))
        want_next(c);
}

static void on_http_client_readable(void *data)
{
    struct kr_eg_conn *c = data;
    struct exchange *x = c->http;
    ssize_t n = kr_eg_conn_read_client(c, c->eg->limits.head_bytes);

    if (n == -EAGAIN) {
        want_next(c);
        return;
    }
    if (n <= 0) {
        kr_eg_conn_abort(c, KR_EG_FAILED, "the client closed it");
        return;
    }
    if (x->asked_all) { /* the next request, which waits */
        want_next(c);
        return;
    }
    n = take_asked(c, x);
    if (n < 0)
        fail(c, n == -EBADMSG ? "the body of the request is not framed as it says" : "out of memory");
    else if (push_up(c))
        want_next(c);
}

/* ---- down ---- */

static void on_http_client_writable(void *data);

/* Writes what waits for the client. False: the connection is gone, or the exchange is over. */
static bool push_down(struct kr_eg_conn *c)
{
    struct exchange *x = c->http;

    while (x->down.len > 0) {
        ssize_t n = kr_eg_stream_write(c->client, x->down.data, x->down.len);

        if (n == -EAGAIN)
            return true;
        if (n < 0) {
            kr_eg_conn_abort(c, KR_EG_FAILED, "the client closed it");
            return false;
        }
        kr_buf_drop(&x->down, (size_t)n);
    }
    if (!x->replied)
        return true;
    complete(c);
    return false;
}

static void on_http_client_writable(void *data)
{
    struct kr_eg_conn *c = data;

    if (push_down(c))
        want_next(c);
}

static int emit(struct exchange *x, const char *data, size_t len)
{
    if (len == 0)
        return 0;
    if (x->framing == FRAME_CHUNKS)
        kr_buf_printf(&x->down, "%zx\r\n", len);
    kr_buf_add(&x->down, data, len);
    return x->framing == FRAME_CHUNKS ? kr_buf_add(&x->down, "\r\n", 2) : x->down.failed;
}

/* Data of a reply, out of its framing. */
static int emit_data(struct exchange *x, const char *data, size_t len, bool end)
{
    ssize_t n;
    int r;

    if (!x->bound.all)
        return emit(x, data, len);
    r = kr_buf_add(&x->held, data, len);
    if (r < 0 || x->held.len == 0)
        return r;
    n = kr_secret_mask_pass(x->bound.mask, x->held.data, x->held.len, end);
    if (n <= 0)
        return (int)n;
    r = emit(x, x->held.data, (size_t)n);
    kr_buf_drop(&x->held, (size_t)n);
    return r;
}

static int end_body(struct exchange *x)
{
    int r = x->framing == FRAME_SAME ? 0 : emit_data(x, "", 0, true);

    x->replied = true;
    return r >= 0 && x->framing == FRAME_CHUNKS ? kr_buf_add(&x->down, "0\r\n\r\n", 5) : r;
}

/* Bytes of the reply's body as they came. */
static int take_body(struct exchange *x, const char *bytes, size_t len)
{
    const char *in = bytes, *data;
    size_t left = len, n;
    int r = 0;

    if (x->to_end)
        return emit_data(x, bytes, len, false);
    for (;;) {
        enum kr_http_body_event event = kr_http_body_next(&x->body, &in, &left, &data, &n);

        if (event == KR_HTTP_BODY_BAD)
            return -EBADMSG;
        if (event == KR_HTTP_BODY_DATA && x->framing != FRAME_SAME && (r = emit_data(x, data, n, false)) < 0)
            return r;
        if (event == KR_HTTP_BODY_DATA)
            continue;
        if (x->framing == FRAME_SAME && (r = kr_buf_add(&x->down, bytes, len - left)) < 0)
            return r;
        if (event == KR_HTTP_BODY_MORE)
            return 0;
        if (left > 0) /* nothing was asked that this could answer */
            x->keep_server = false;
        return end_body(x);
    }
}

/* Whether the reply is compressed, although it was asked for as it is. */
static bool is_coded(const struct exchange *x)
{
    static const char name[] = "content-encoding", none[] = "identity";
    const struct kr_http_answer *a = &x->answer;

    for (unsigned i = 0; i < a->count; i++) {
        const struct kr_http_field *f = &a->fields[i];

        if (f->name.len == sizeof name - 1 && strncasecmp(x->head.data + f->name.at, name, sizeof name - 1) == 0 &&
            (f->value.len != sizeof none - 1 || strncasecmp(x->head.data + f->value.at, none, sizeof none - 1) != 0))
            return true;
    }
    return false;
}

/* Whether the reply is a part or a difference, although it was asked for whole: a value could come in parts. */
static bool is_partial(const struct exchange *x)
{
    return x->answer.status == 206 || x->answer.status == 226;
}

/* The head of the reply is whole. 0: it was passed on, or another follows it; -errno. */
static int take_reply(struct kr_eg_conn *c, struct exchange *x)
{
    int r;

    if (x->bound.all && !has_no_reply_body(c, x) && (is_coded(x) || is_partial(x)))
        return is_coded(x) ? -ENOTSUP : -ERANGE;
    if (x->bound.all && (r = kr_secret_mask_whole(x->bound.mask, x->head.data, x->head.len)) < 0)
        return r;
    if (x->answer.status == 101 || (x->answer.status < 200 && ++x->interims > INTERIM_MAX))
        return -EBADMSG;
    if (x->answer.status < 200) {
        x->framing = FRAME_SAME;
        x->keep_client = true;
        r = c->req.head.http10 ? 0 : write_reply(c, x);
        x->scan = (struct kr_http_scan){0};
        return r;
    }
    choose_framing(c, x);
    x->head_sent = true;
    return write_reply(c, x);
}

/* Bytes while the head is not whole. How many of them belong to heads, or -errno. */
static ssize_t take_heads(struct kr_eg_conn *c, struct exchange *x, const char *bytes, size_t len)
{
    size_t before = x->head.len;
    int n, r;

    if (kr_buf_add(&x->head, bytes, len) < 0) { /* more than a head: what fits decides */
        kr_buf_reset(&x->head);
        return -E2BIG;
    }
    n = kr_http_answer_parse(x->head.data, x->head.len, &x->scan, &x->answer);
    if (n <= 0)
        return n < 0 ? n : (ssize_t)len;
    x->head.len = (size_t)n; /* what follows it is still in `bytes` */
    r = take_reply(c, x);
    kr_buf_reset(&x->head);
    return r < 0 ? r : (ssize_t)((size_t)n - before);
}

static int take_bytes(struct kr_eg_conn *c, struct exchange *x, const char *bytes, size_t len)
{
    while (len > 0 && !x->head_sent) {
        size_t step = len < KR_HTTP_ANSWER_HEAD_MAX - x->head.len ? len : KR_HTTP_ANSWER_HEAD_MAX - x->head.len;
        ssize_t n = take_heads(c, x, bytes, step);

        if (n < 0)
            return (int)n;
        bytes += n;
        len -= (size_t)n;
    }
    return x->head_sent ? take_body(x, bytes, len) : 0;
}

/* The server has said all it will. */
static void on_server_end(struct kr_eg_conn *c, struct exchange *x)
{
    char why[KR_EG_WHY_ROOM];

    if (x->to_end && x->head_sent) {
        if (end_body(x) < 0)
            fail(c, "out of memory");
        else if (push_down(c))
            want_next(c);
        return;
    }
    if (x->reused && !x->head_sent && x->head.len == 0 && x->interims == 0) {
        x->reused = false; /* it closed what lay open between two requests */
        x->up_at = 0;
        kr_eg_conn_dial(c);
        return;
    }
    if (kr_eg_tls_why(c->upstream)[0]) {
        snprintf(why, sizeof why, "%s", kr_eg_tls_why(c->upstream));
        fail(c, why);
        return;
    }
    fail(c, x->head_sent || x->head.len > 0 ? "the server closed the connection in the middle of its reply"
                                            : "the server closed the connection and did not reply");
}

static const char *why_not(int error)
{
    if (error == -EBADMSG)
        return "the server's reply is not one that can be passed on";
    if (error == -ENOTSUP)
        return "the server's reply is compressed, so the values of secrets in it could not be covered";
    if (error == -ERANGE)
        return "the server's reply is a part of what was asked for, so the values of secrets in it could not be "
               "covered";
    if (error == -EOVERFLOW)
        return "the server's reply has too much that is like the values of secrets, so they could not be covered";
    return error == -E2BIG ? "the head of the server's reply is too long" : "out of memory";
}

static void on_http_upstream_readable(void *data)
{
    struct kr_eg_conn *c = data;
    struct exchange *x = c->http;
    char bytes[COPY_BYTES];
    ssize_t n = kr_eg_stream_read(c->upstream, bytes, sizeof bytes);
    int r;

    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        if (n < 0 && x->to_end && x->head_sent)
            fail(c, "the server broke the connection in the middle of its reply");
        else
            on_server_end(c, x);
        return;
    }
    if (!kr_eg_conn_moved(c, 0, (uint64_t)n))
        return;
    r = take_bytes(c, x, bytes, (size_t)n);
    if (r < 0)
        fail(c, why_not(r));
    else if (push_down(c))
        want_next(c);
}

/* ---- from eg_conn.c ---- */

static struct exchange *new_exchange(const struct kr_eg_conn *c)
{
    struct exchange *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    kr_buf_init(&x->up, OUT_MAX);
    kr_buf_init(&x->down, OUT_MAX);
    kr_buf_init(&x->head, HEAD_OUT_MAX);
    kr_buf_init(&x->held, OUT_MAX);
    kr_http_body_init(&x->asked, c->req.head.chunked, c->req.head.content_length);
    x->bodiless = !c->req.head.chunked && c->req.head.content_length <= 0;
    return x;
}

/* Whether the server that is connected can be asked: it has said nothing meanwhile. */
static bool can_ask_again(const struct kr_eg_conn *c, const struct exchange *x)
{
    char byte;

    if (c->upstream && c->up_fresh)
        return kr_eg_stream_read(c->upstream, &byte, 1) == -EAGAIN;
    return c->upstream && x->bodiless && (strcmp(c->req.method, "GET") == 0 || strcmp(c->req.method, "HEAD") == 0) &&
           c->up_port == c->req.port && strcmp(c->up_host, c->req.host) == 0 &&
           kr_eg_stream_read(c->upstream, &byte, 1) == -EAGAIN;
}

void kr_eg_http_begin(struct kr_eg_conn *c)
{
    struct exchange *x = new_exchange(c);
    int r;

    if (!x) {
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
        return;
    }
    c->http = x;
    if (kr_eg_bound_open(c->cell->secrets, c->req.host, c->req.port, c->inside, &x->bound) < 0)
        kr_eg_conn_refuse(c, 503, KR_EG_FAILED, "out of memory");
    else if ((r = write_request(c, x, &x->up)) == 0 && (r = take_asked(c, x)) == -EBADMSG)
        kr_eg_conn_refuse(c, 400, KR_EG_FAILED, "the body of the request is not framed as it says");
    else if (r < 0) /* also with what has come of the body already */
        kr_eg_conn_refuse(c, 431, KR_EG_FAILED, "the head of the request is too long");
    else if (can_ask_again(c, x)) {
        x->reused = !c->up_fresh;
        kr_eg_http_connected(c);
    } else {
        kr_eg_conn_dial(c);
    }
}

void kr_eg_http_connected(struct kr_eg_conn *c)
{
    static const struct kr_eg_stream_calls client = {on_http_client_readable, on_http_client_writable};
    static const struct kr_eg_stream_calls upstream = {on_http_upstream_readable, on_http_upstream_writable};

    c->up_fresh = false;
    kr_eg_conn_enter(c, KR_EG_CONN_HTTP);
    kr_eg_stream_set_calls(c->client, &client, c);
    kr_eg_stream_set_calls(c->upstream, &upstream, c);
    if (push_up(c))
        want_next(c);
}

bool kr_eg_http_has_answered(const struct kr_eg_conn *c)
{
    const struct exchange *x = c->http;

    return x && (x->head_sent || x->interims > 0);
}

static void wipe(struct kr_buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
}

void kr_eg_http_drop(struct kr_eg_conn *c)
{
    struct exchange *x = c->http;

    if (!x)
        return;
    if (x->bound.all) {
        wipe(&x->up);
        wipe(&x->held);
        wipe(&x->head);
    }
    kr_buf_done(&x->up);
    kr_buf_done(&x->down);
    kr_buf_done(&x->head);
    kr_buf_done(&x->held);
    kr_eg_bound_close(&x->bound);
    free(x);
    c->http = NULL;
}
