/* Bytes into requests. Called by conn.c when there is something to read, or when what was kept may be taken now.
 *
 * One buffer serves all connections: a connection owns memory only for an unfinished head, a paused body, or requests
 * that came before their turn. Invariant: `in` begins at the first byte that was not taken; it never holds more than a
 * head's length while an answer is due (who sends more is cut), nor more than a read and a head in any state. */
#include "http_internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define KEPT_MAX (READ_MAX + KR_HTTP_HEAD_MAX)

/* ---- taking ---- */

static size_t take_head(struct kr_http_conn *c, const char *p, size_t len)
{
    struct kr_http_head *h = &c->server->head;
    int n;

    if (len == 0 || kr_http_out_pending(c) >= KR_HTTP_QUEUE_LOW)
        return 0;
    n = kr_http_head_parse(p, len, &c->scan, h);
    if (n == 0)
        return 0;
    c->scan = (struct kr_http_scan){0};
    if (n < 0) {
        c->server->stats.malformed_total++;
        kr_http_fail_head(c, -n, p, len);
        return len;
    }
    kr_http_ex_start(c, h, p, (size_t)n, len > (size_t)n);
    return (size_t)n;
}

static void fail_too_large(struct kr_http_conn *c)
{
    char text[96];

    snprintf(text, sizeof text, "the body is larger than %llu bytes, the limit of this path",
             (unsigned long long)c->ex->body_limit);
    kr_http_fail(c, 413, text);
}

/* Passes a piece of the body to the handler or the collector; false: the exchange is over or another one. */
static bool give_body(struct kr_http_conn *c, const char *data, size_t len)
{
    struct kr_http_ex *ex = c->ex;

    ex->body_got += len;
    c->window += (uint32_t)len;
    if (ex->body_got > ex->body_limit) {
        fail_too_large(c);
        return false;
    }
    if (ex->collect) {
        if (kr_http_ex_collect(ex, data, len) < 0) {
            kr_http_fail(c, 503, "too many large requests at once");
            return false;
        }
    } else if (ex->calls && ex->calls->on_body) {
        ex->calls->on_body(ex->data, ex, data, len);
    }
    return c->ex == ex && c->state == C_BODY;
}

static size_t take_body(struct kr_http_conn *c, const char *p, size_t len)
{
    const char *in = p, *data;
    size_t left = len, n;

    if (c->ex->accepted && c->ex->length > 0 && (uint64_t)c->ex->length > c->ex->body_limit) {
        fail_too_large(c);
        return len;
    }
    while (c->ex->accepted && !c->ex->paused) {
        switch (kr_http_body_next(&c->body, &in, &left, &data, &n)) {
        case KR_HTTP_BODY_DATA:
            if (!give_body(c, data, n))
                return len - left;
            break;
        case KR_HTTP_BODY_END:
            kr_http_conn_move(c, C_ANSWER);
            kr_http_ex_body_done(c->ex);
            return len - left;
        case KR_HTTP_BODY_BAD:
            c->server->stats.malformed_total++;
            kr_http_fail(c, 400, "malformed chunked body");
            return len;
        case KR_HTTP_BODY_MORE:
            return len;
        }
    }
    return len - left;
}

static size_t take_discard(struct kr_http_conn *c, const char *p, size_t len)
{
    enum kr_http_body_event event;
    const char *in = p, *data;
    size_t left = len, n;

    do
        event = kr_http_body_next(&c->body, &in, &left, &data, &n);
    while (event == KR_HTTP_BODY_DATA);
    c->window += (uint32_t)(len - left);
    if (event == KR_HTTP_BODY_END)
        kr_http_conn_move(c, C_HEAD);
    else if (event == KR_HTTP_BODY_BAD)
        kr_http_conn_move(c, C_FLUSH);
    return len - left;
}

/* Takes what can be taken now; returns how much. */
static size_t take_input(struct kr_http_conn *c, const char *p, size_t len)
{
    size_t at = 0, before;
    enum conn_state state;

    c->busy = true;
    do {
        before = at;
        state = (enum conn_state)c->state;
        switch (state) {
        case C_HEAD:
            at += take_head(c, p + at, len - at);
            break;
        case C_BODY:
            at += take_body(c, p + at, len - at);
            break;
        case C_DISCARD:
            at += take_discard(c, p + at, len - at);
            break;
        case C_LINGER:
            c->window += (uint32_t)(len - at);
            at = len;
            break;
        case C_FLUSH:
        case C_CLOSED:
            at = len;
            break;
        case C_ANSWER:
            break;
        }
    } while (!c->broken && (at != before || state != (enum conn_state)c->state));
    c->busy = false;
    return at;
}

/* ---- keeping ---- */

static int keep_input(struct kr_http_conn *c, const char *p, size_t len)
{
    size_t need = c->in_len + len, cap = c->in_cap ? c->in_cap : 256;
    char *moved;

    if (need > KEPT_MAX)
        return -ENOBUFS;
    while (cap < need)
        cap *= 2;
    if (cap != c->in_cap) {
        moved = realloc(c->in, cap);
        if (!moved)
            return -ENOMEM;
        c->in = moved;
        c->in_cap = (uint32_t)cap;
    }
    memcpy(c->in + c->in_len, p, len);
    c->in_len = (uint32_t)need;
    return 0;
}

static void drop_kept(struct kr_http_conn *c, size_t n)
{
    c->in_len -= (uint32_t)n;
    if (c->in_len > 0) {
        memmove(c->in, c->in + n, c->in_len);
        return;
    }
    free(c->in);
    c->in = NULL;
    c->in_cap = 0;
}

bool kr_http_input_again(struct kr_http_conn *c)
{
    enum conn_state before = (enum conn_state)c->state;
    size_t n;

    if (before == C_ANSWER || before == C_FLUSH || before == C_LINGER || (c->in_len == 0 && before != C_BODY))
        return false;
    n = take_input(c, c->in ? c->in : "", c->in_len);
    if (c->in && n > 0)
        drop_kept(c, n);
    return n > 0 || before != (enum conn_state)c->state;
}

/* ---- reading ---- */

/* No more than is needed, so that what has to be kept stays small. */
static size_t read_size(const struct kr_http_conn *c)
{
    switch ((enum conn_state)c->state) {
    case C_ANSWER:
        return KR_HTTP_HEAD_MAX + 1 - (c->in_len < KR_HTTP_HEAD_MAX ? c->in_len : KR_HTTP_HEAD_MAX);
    case C_HEAD:
        return KR_HTTP_HEAD_MAX;
    case C_BODY:
    case C_DISCARD:
    case C_LINGER:
    case C_FLUSH:
    case C_CLOSED:
        break;
    }
    return READ_MAX;
}

/* New bytes, behind those that were kept. 0 or -errno. */
static int feed(struct kr_http_conn *c, const char *p, size_t len)
{
    size_t n;
    int r;

    if (c->in_len == 0) {
        n = take_input(c, p, len);
        return n < len && c->state != C_CLOSED ? keep_input(c, p + n, len - n) : 0;
    }
    r = keep_input(c, p, len);
    if (r == 0)
        kr_http_input_again(c);
    return r;
}

ssize_t kr_http_input_recv(struct kr_http_conn *c)
{
    char *buf = c->server->rbuf;
    ssize_t n;
    int r;

    do
        n = recv(c->fd, buf, read_size(c), 0);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : 0;
    c->server->stats.bytes_in_total += (uint64_t)n;
    r = feed(c, buf, (size_t)n);
    if (r < 0)
        return r;
    if (c->state == C_ANSWER && c->in_len > KR_HTTP_HEAD_MAX) /* a flood: what is behind it could not be seen */
        return -ENOBUFS;
    if (c->state == C_LINGER && c->window > LINGER_BYTES)
        return -ENOBUFS;
    return n;
}
