/* Answers. Called by handlers, and by error.c for the engine's own.
 *
 * Every head is written here: status, Date, X-Request-ID, the default headers, those of the exchange, how the body is
 * framed and whether the connection stays. Invariant: what the head says about the framing is what is sent, or the
 * connection is cut so that the peer can tell. */
#include "http_internal.h"
#include "buf.h"
#include "log.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define HEAD_SIZE 8192u /* more than all parts at their largest: see kr_http_server_new() for the default headers */
#define TYPE_MAX 256u

/* ---- headers of the application ---- */

/* What the engine alone writes. */
static const char *const reserved[] = {"content-length", "transfer-encoding", "connection", "date",
                                       "content-type",   "x-request-id",      "keep-alive"};

static bool is_value(const char *value)
{
    for (const unsigned char *p = (const unsigned char *)value; *p; p++)
        if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
            return false;
    return true;
}

static bool is_settable(const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        if (!kr_http_is_token(*p))
            return false;
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
        if (strcasecmp(name, reserved[i]) == 0)
            return false;
    return *name != '\0';
}

int kr_http_set_header(struct kr_http_ex *ex, const char *name, const char *value)
{
    const struct kr_http_config *config = &ex->conn->server->config;
    size_t need = value ? strlen(name) + strlen(value) + 4 : 0;

    if (!is_settable(name) || (value && !is_value(value)))
        return -EINVAL;
    if (need > HEADERS_MAX - ex->headers_len)
        return -ENOBUFS;
    if (need > 0) {
        char *moved = realloc(ex->headers, ex->headers_len + need + 1);

        if (!moved)
            return -ENOMEM;
        ex->headers = moved;
        ex->headers_len += (unsigned)sprintf(moved + ex->headers_len, "%s: %s\r\n", name, value);
    }
    for (size_t i = 0; i < config->header_count; i++)
        if (strcasecmp(name, config->headers[i].name) == 0)
            ex->hidden |= 1u << i;
    return 0;
}

/* ---- the head ---- */

struct head {
    size_t len;
    char text[HEAD_SIZE];
};

__attribute__((format(printf, 2, 3))) static void put(struct head *h, const char *fmt, ...)
{
    va_list ap;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(h->text + h->len, sizeof h->text - h->len, fmt, ap);
    va_end(ap);
    h->len += (size_t)n < sizeof h->text - h->len ? (size_t)n : sizeof h->text - h->len - 1;
}

/* `type` and `ex` may be NULL; `id` is the request's id, given only with an `ex`. length -1: unknown, -2: none is
 * said. */
static void make_head(struct head *h, struct kr_http_conn *c, const struct kr_http_ex *ex, const char *id, int status,
                      const char *type, int64_t length, bool keep)
{
    struct kr_http_server *s = c->server;

    h->len = 0;
    put(h, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, kr_http_status_reason(status), kr_http_server_date(s));
    if (type)
        put(h, "Content-Type: %s\r\n", strlen(type) <= TYPE_MAX && is_value(type) ? type : "application/octet-stream");
    if (length >= 0)
        put(h, "Content-Length: %lld\r\n", (long long)length);
    else if (length == -1 && !(ex && ex->http10))
        put(h, "Transfer-Encoding: chunked\r\n");
    put(h, "X-Request-ID: %s\r\n", id ? id : kr_http_request_id(ex));
    for (size_t i = 0; i < s->config.header_count; i++)
        if (!ex || !(ex->hidden & 1u << i))
            put(h, "%s: %s\r\n", s->config.headers[i].name, s->config.headers[i].value);
    if (ex && ex->headers_len > 0)
        put(h, "%s", ex->headers);
    if (status == 101)
        put(h, "Connection: Upgrade\r\n");
    else if (!keep)
        put(h, "Connection: close\r\n");
    else if (ex && ex->http10)
        put(h, "Connection: keep-alive\r\n");
    put(h, "\r\n");
}

void kr_http_refuse(struct kr_http_conn *c, const struct kr_http_ex *ex, const char *id, int status, const char *body,
                    size_t len)
{
    struct head h;
    struct iovec parts[2] = {{h.text, 0}, {(void *)body, len}};

    make_head(&h, c, ex, id, status, "application/json", (int64_t)len, false);
    parts[0].iov_len = h.len;
    kr_http_out_add(c, parts, ex && ex->method == KR_HTTP_HEAD ? 1 : 2);
}

/* ---- ending ---- */

/* Can the connection serve another request? The unread rest of a body must be short and of a known length. */
static bool may_keep(const struct kr_http_ex *ex)
{
    const struct kr_http_conn *c = ex->conn;

    if (!ex->keep || c->server->draining || c->server->stopping)
        return false;
    return c->state != C_BODY || (ex->length >= 0 && !ex->expect && c->body.left <= DISCARD_MAX);
}

/* The answer is whole. */
static void finish_answer(struct kr_http_ex *ex)
{
    struct kr_http_conn *c = ex->conn;
    bool keep = ex->keep;

    kr_http_ex_done(ex, !c->broken);
    if (keep)
        kr_http_conn_move(c, c->state == C_BODY ? C_DISCARD : C_HEAD);
    else
        kr_http_conn_move(c, C_FLUSH);
    if (!c->busy)
        kr_http_conn_soon(c);
}

void kr_http_abort(struct kr_http_ex *ex)
{
    struct kr_http_conn *c = ex->conn;

    if (ex->over)
        return;
    kr_http_out_flush(c); /* what was gathered was meant for the peer */
    kr_http_ex_done(ex, false);
    kr_http_conn_close(c);
}

/* ---- whole answers ---- */

/* Is there still an answer to give? A second one is our bug. */
static bool may_begin(const struct kr_http_ex *ex)
{
    if (ex->begun || (ex->answered && ex->calls))
        kr_log(KR_LOG_ERROR, "an answer was begun twice", "route=%s", ex->route ? ex->route->pattern : "none");
    return !ex->over && !ex->begun && !(ex->answered && ex->calls);
}

static void begin_answer(struct kr_http_ex *ex, int status, bool streams)
{
    ex->begun = true;
    ex->status = status;
    ex->no_body = ex->method == KR_HTTP_HEAD || status == 204 || status == 304;
    ex->keep = may_keep(ex) && !(streams && ex->http10);
    ex->chunked = streams && !ex->http10 && !ex->no_body;
}

void kr_http_reply(struct kr_http_ex *ex, int status, const char *type, const void *body, size_t len)
{
    struct head h;
    struct iovec parts[2] = {{h.text, 0}, {(void *)body, len}};

    if (!may_begin(ex) || kr_http_reply_coded(ex, status, type, body, len))
        return;
    begin_answer(ex, status, false);
    make_head(&h, ex->conn, ex, NULL, status, type, status == 204 || status == 304 ? -2 : (int64_t)len, ex->keep);
    parts[0].iov_len = h.len;
    if (!ex->no_body)
        ex->sent = len;
    kr_http_out_add(ex->conn, parts, ex->no_body || len == 0 ? 1 : 2);
    finish_answer(ex);
}

void kr_http_reply_json(struct kr_http_ex *ex, int status, const struct kr_buf *json)
{
    if (json->failed)
        kr_http_reply_error(ex, 500, NULL);
    else
        kr_http_reply(ex, status, "application/json", kr_buf_str(json), json->len);
}

/* ---- answers in pieces ---- */

void kr_http_begin(struct kr_http_ex *ex, int status, const char *type, int64_t length)
{
    struct head h;
    struct iovec part = {h.text, 0};

    if (!may_begin(ex))
        return;
    begin_answer(ex, status, length < 0);
    ex->declared = length;
    make_head(&h, ex->conn, ex, NULL, status, type,
              status == 204 || status == 304 ? -2
              : length < 0                   ? -1
                                             : length,
              ex->keep);
    part.iov_len = h.len;
    kr_http_out_add(ex->conn, &part, 1);
}

void kr_http_switch(struct kr_http_ex *ex, const char *protocol, const struct kr_http_calls *calls, void *data)
{
    struct kr_http_conn *c = ex->conn;
    struct head h;
    struct iovec part = {h.text, 0};

    if (!may_begin(ex))
        return;
    kr_http_set_header(ex, "Upgrade", protocol); /* without memory: without it, and the client gives up */
    begin_answer(ex, 101, false);
    ex->keep = false;
    ex->raw = ex->accepted = true;
    ex->collect = false;
    ex->body_got = 0;
    ex->body_limit = UINT64_MAX;
    ex->length = -1;
    make_head(&h, c, ex, NULL, 101, NULL, -2, false);
    part.iov_len = h.len;
    kr_http_out_add(c, &part, 1);
    kr_http_body_init(&c->body, false, INT64_MAX);
    kr_http_conn_move(c, C_BODY);
    kr_http_defer(ex, calls, data);
    kr_http_conn_soon(c);
}

size_t kr_http_piece_write(struct kr_http_ex *ex, const struct iovec *parts, unsigned count)
{
    struct iovec all[6];
    struct kr_http_conn *c = ex->conn;
    char size[20];
    size_t total = 0, n = 0;

    for (unsigned i = 0; i < count; i++)
        total += parts[i].iov_len;
    if (ex->over || !ex->begun || ex->no_body || total == 0)
        return kr_http_out_pending(c);
    if (ex->declared >= 0 && total > (uint64_t)ex->declared - ex->sent) { /* the rest would pass for the next answer */
        kr_log(KR_LOG_ERROR, "an answer is longer than it said", "route=%s said=%lld",
               ex->route ? ex->route->pattern : "none", (long long)ex->declared);
        c->broken = true;
        kr_http_conn_soon(c);
        return 0;
    }
    ex->sent += total;
    if (ex->chunked)
        all[n++] = (struct iovec){size, (size_t)snprintf(size, sizeof size, "%zx\r\n", total)};
    for (unsigned i = 0; i < count; i++)
        all[n++] = parts[i];
    if (ex->chunked)
        all[n++] = (struct iovec){(void *)"\r\n", 2};
    kr_http_out_add(c, all, (unsigned)n);
    if (c->deadline == D_BEAT)
        kr_http_deadline_again(c);
    if (kr_http_out_pending(c) >= KR_HTTP_QUEUE_LOW)
        kr_http_out_flush(c);
    ex->drain_due = kr_http_out_pending(c) >= KR_HTTP_QUEUE_LOW;
    return kr_http_out_pending(c);
}

size_t kr_http_write(struct kr_http_ex *ex, const void *data, size_t len)
{
    struct iovec part = {(void *)data, len};

    return kr_http_piece_write(ex, &part, 1);
}

size_t kr_http_queued(const struct kr_http_ex *ex)
{
    return kr_http_out_pending(ex->conn);
}

void kr_http_end(struct kr_http_ex *ex)
{
    struct iovec last = {(void *)"0\r\n\r\n", 5};

    if (ex->over)
        return;
    if (!ex->begun || (ex->declared >= 0 && !ex->no_body && ex->sent != (uint64_t)ex->declared)) {
        kr_log(KR_LOG_ERROR, "an answer does not have the length it said", "route=%s said=%lld sent=%llu",
               ex->route ? ex->route->pattern : "none", (long long)ex->declared, (unsigned long long)ex->sent);
        kr_http_abort(ex);
        return;
    }
    if (ex->chunked)
        kr_http_out_add(ex->conn, &last, 1);
    finish_answer(ex);
}
