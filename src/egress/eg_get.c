/* Requests that the egress process makes itself.
 *
 * Called by fetches of the server and for the index. HTTP/1.1, one connection for each request, nothing kept, nothing
 * compressed asked for. Every address is judged before it is resolved, those of redirects as well; what comes back is
 * read by the strict parsers of src/http/message. Invariants: a body that is not whole never ends as OK; credentials go
 * to one origin alone; from https no redirect leads to http; on_end comes once and last. */
#include "eg_get.h"
#include "answer.h"
#include "body.h"
#include "clock.h"
#include "coding.h"
#include "eg_tls.h"
#include "egress_internal.h"
#include "fd.h"
#include "file_name.h"
#include "loop.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE 32768u
#define INTERIM_MAX 8u /* answers of 1xx before the one that counts */
#define REQUEST_MAX 8192u
#define TURNS 8 /* reads in a row: then others have their turn */

enum get_state { GET_DIAL, GET_SEND, GET_HEAD, GET_BODY, GET_OVER };

struct kr_eg_get {
    struct kr_eg *eg;
    struct kr_eg_get_calls calls;
    void *data;
    const struct kr_eg_tls_trust *trust;
    enum get_state state;
    bool head, paused, cancelled;
    unsigned entered; /* our callbacks on the stack: then the memory of a cancelled one goes when they return */
    char *accept, *authorization;
    char range[KR_EG_RANGE_ROOM]; /* or "" */
    char sandbox[KR_EG_TEXT_ROOM], timeout_what[64];
    struct kr_web_address url, authorized;
    uint64_t idle_ms, at_ns;
    unsigned redirects, interims;
    struct kr_eg_hop hop;
    bool hop_open;
    struct kr_eg_dial *dial;
    struct kr_eg_stream *stream;
    struct kr_timer *total, *idle;
    struct kr_soon *soon;
    struct kr_buf out; /* of the request: what is not sent yet begins at `sent` */
    size_t sent;
    struct kr_buf in; /* the head of an answer, as far as it has come */
    struct kr_http_scan scan;
    struct kr_http_body body;
    bool until_close;
    enum kr_eg_verdict verdict; /* the end */
    unsigned status;
    char why[KR_EG_WHY_ROOM];
    char piece[PIECE];
};

/* ---- ends ---- */

static void free_get(struct kr_eg_get *g)
{
    kr_eg_dial_cancel(g->dial);
    kr_eg_stream_close(g->stream);
    kr_timer_close(g->total);
    kr_timer_close(g->idle);
    kr_soon_close(g->soon);
    kr_buf_done(&g->out);
    kr_buf_done(&g->in);
    if (g->authorization)
        explicit_bzero(g->authorization, strlen(g->authorization));
    free(g->authorization);
    free(g->accept);
    free(g);
}

static void leave(struct kr_eg_get *g)
{
    if (--g->entered == 0 && g->cancelled)
        free_get(g);
}

static void end_hop(struct kr_eg_get *g, enum kr_eg_verdict verdict, const char *why)
{
    if (!g->hop_open)
        return;
    g->hop_open = false;
    g->hop.ms = (kr_clock_ns() - g->at_ns) / 1000000u;
    g->hop.url = g->url;
    g->hop.verdict = verdict;
    g->hop.why = why;
    if (g->calls.on_hop)
        g->calls.on_hop(g->data, &g->hop);
}

static void drop_connection(struct kr_eg_get *g)
{
    kr_eg_dial_cancel(g->dial);
    g->dial = NULL;
    kr_eg_stream_close(g->stream);
    g->stream = NULL;
    kr_timer_disarm(g->idle);
}

/* The end is told from the loop. The first reason is the one that counts. */
static void end_get(struct kr_eg_get *g, enum kr_eg_verdict verdict, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void end_get(struct kr_eg_get *g, enum kr_eg_verdict verdict, unsigned status, const char *fmt, ...)
{
    va_list args;

    if (g->state == GET_OVER)
        return;
    g->state = GET_OVER;
    g->verdict = verdict;
    g->status = status;
    va_start(args, fmt);
    vsnprintf(g->why, sizeof g->why, fmt, args);
    va_end(args);
    drop_connection(g);
    kr_timer_disarm(g->total);
    kr_soon_ask(g->soon);
}

/* By what a callback said, unless it was that all is cancelled. */
static void end_by_err(struct kr_eg_get *g, const struct kr_err *err)
{
    if (g->cancelled)
        return;
    if (err->kind == KR_ERR_DENIED)
        end_get(g, KR_EG_DENIED, 403, "%s", err->msg);
    else if (err->kind == KR_ERR_LIMIT)
        end_get(g, KR_EG_LIMIT, 502, "%s", err->msg);
    else if (err->kind == KR_ERR_TOO_MANY)
        end_get(g, KR_EG_LIMIT, 429, "%s", err->msg);
    else
        end_get(g, KR_EG_FAILED, err->kind == KR_ERR_NOT_FOUND ? 404 : 502, "%s", err->msg);
}

static void on_get_soon(void *data)
{
    struct kr_eg_get *g = data;
    void (*on_end)(void *, enum kr_eg_verdict, unsigned, const char *) = g->calls.on_end;
    enum kr_eg_verdict verdict = g->verdict;
    unsigned status = g->status;
    char why[KR_EG_WHY_ROOM];

    memcpy(why, g->why, sizeof why);
    end_hop(g, verdict, why);
    data = g->data;
    free_get(g);
    on_end(data, verdict, status, why);
}

static void on_total(void *data)
{
    struct kr_eg_get *g = data;

    end_get(g, KR_EG_TIMEOUT, 504, "%s did not finish in time", g->timeout_what);
}

static void on_idle(void *data)
{
    struct kr_eg_get *g = data;

    end_get(g, KR_EG_TIMEOUT, 504, "%s sent nothing for %llu s", g->timeout_what,
            (unsigned long long)(g->idle_ms + 999) / 1000);
}

static bool count_moved(struct kr_eg_get *g, uint64_t sent, uint64_t received)
{
    struct kr_err err;

    g->hop.sent += sent;
    g->hop.received += received;
    kr_timer_arm(g->idle, g->idle_ms);
    if (!g->calls.on_moved || g->calls.on_moved(g->data, sent, received, &err) >= 0)
        return true;
    end_by_err(g, &err);
    return false;
}

/* ---- the request ---- */

static void begin_hop(struct kr_eg_get *g);

static int write_request(struct kr_eg_get *g)
{
    char host[KR_WEB_HOST_ROOM + 16];

    kr_buf_reset(&g->out);
    g->sent = 0;
    kr_buf_printf(&g->out,
                  "%s %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: krait\r\nAccept-Encoding: identity\r\n"
                  "Connection: close\r\n",
                  g->head ? "HEAD" : "GET", g->url.target, kr_web_address_host(&g->url, host, sizeof host));
    if (g->accept)
        kr_buf_printf(&g->out, "Accept: %s\r\n", g->accept);
    if (g->range[0])
        kr_buf_printf(&g->out, "Range: %s\r\n", g->range);
    if (g->authorization && kr_web_address_same_origin(&g->url, &g->authorized))
        kr_buf_printf(&g->out, "Authorization: %s\r\n", g->authorization);
    kr_buf_add_str(&g->out, "\r\n");
    return g->out.failed;
}

static void stream_failed(struct kr_eg_get *g, int r)
{
    const char *why = kr_eg_tls_why(g->stream);

    if (*why)
        end_get(g, KR_EG_FAILED, 502, "%s", why);
    else
        end_get(g, KR_EG_FAILED, 502, "%.160s: %s", g->url.host, strerror(-r));
}

static void send_request(struct kr_eg_get *g)
{
    while (g->state == GET_SEND && g->sent < g->out.len) {
        ssize_t n = kr_eg_stream_write(g->stream, g->out.data + g->sent, g->out.len - g->sent);

        if (n == -EAGAIN)
            return;
        if (n < 0) {
            stream_failed(g, (int)n);
            return;
        }
        g->sent += (size_t)n;
        if (!count_moved(g, (uint64_t)n, 0))
            return;
    }
    if (g->state != GET_SEND)
        return;
    if (g->authorization && g->out.data)
        explicit_bzero(g->out.data, g->out.len);
    g->state = GET_HEAD;
    kr_eg_stream_want(g->stream, !g->paused, false);
}

static void on_get_writable(void *data)
{
    struct kr_eg_get *g = data;

    g->entered++;
    send_request(g);
    leave(g);
}

/* ---- the answer ---- */

static bool is_redirect(unsigned status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static void follow(struct kr_eg_get *g, const char *location)
{
    struct kr_web_address next;
    struct kr_err err;

    if (g->redirects++ >= KR_EG_REDIRECTS_MAX) {
        end_get(g, KR_EG_FAILED, 502, "more than %u redirects", KR_EG_REDIRECTS_MAX);
        return;
    }
    if (kr_web_address_join(&g->url, location, strlen(location), &next, &err) < 0) {
        end_get(g, KR_EG_FAILED, 502, "a redirect leads to no address: %.150s", err.msg);
        return;
    }
    if (g->url.tls && !next.tls) {
        end_get(g, KR_EG_FAILED, 502, "%.150s redirects from https to http, which is not followed", g->url.host);
        return;
    }
    end_hop(g, KR_EG_OK, "");
    drop_connection(g);
    g->url = next;
    begin_hop(g);
}

static void take_body(struct kr_eg_get *g, const char *bytes, size_t len, bool end);

static void take_answer(struct kr_eg_get *g, const struct kr_http_answer *a)
{
    char text[KR_WEB_TARGET_ROOM + KR_WEB_HOST_ROOM];
    struct kr_eg_reply reply = {
        .url = &g->url, .status = a->status, .length = a->no_body || a->chunked ? -1 : a->content_length};
    const char *head = g->in.data;
    struct kr_err err;

    g->hop.status = a->status;
    kr_http_answer_text(head, a, "location", text, sizeof text);
    if (is_redirect(a->status) && *text) {
        follow(g, text);
        return;
    }
    kr_http_answer_text(head, a, "content-type", reply.type, sizeof reply.type);
    kr_http_answer_text(head, a, "content-disposition", text, sizeof text);
    kr_disposition_name(text, reply.name, sizeof reply.name);
    kr_http_answer_text(head, a, "content-encoding", text, sizeof text);
    reply.encoded = kr_http_coding_of(text) != KR_HTTP_IDENTITY;
    reply.ranges = strcmp(kr_http_answer_text(head, a, "accept-ranges", text, sizeof text), "bytes") == 0;
    if (a->status == 206)
        kr_http_answer_text(head, a, "content-range", reply.range, sizeof reply.range);
    g->until_close = !a->chunked && a->content_length < 0;
    kr_http_body_init(&g->body, a->chunked, a->content_length);
    g->state = GET_BODY;
    if (g->calls.on_reply(g->data, &reply, &err) < 0) {
        end_by_err(g, &err);
        return;
    }
    if (g->state == GET_BODY && (a->no_body || g->head || (!a->chunked && a->content_length == 0)))
        end_get(g, KR_EG_OK, a->status, "%s", "");
}

/* Bytes of the head, and of what follows it. */
static void take_head(struct kr_eg_get *g, const char *bytes, size_t len)
{
    if (kr_buf_add(&g->in, bytes, len) < 0) {
        end_get(g, KR_EG_FAILED, 502, "the answer's head is too long");
        return;
    }
    while (g->state == GET_HEAD && g->in.len > 0) {
        struct kr_http_answer a;
        int n = kr_http_answer_parse(g->in.data, g->in.len, &g->scan, &a);

        if (n == 0)
            return;
        if (n < 0) {
            end_get(g, KR_EG_FAILED, 502, "the answer is %s", n == -E2BIG ? "too long in its head" : "not HTTP");
            return;
        }
        if (a.status < 200) {
            if (a.status == 101 || g->interims++ >= INTERIM_MAX)
                end_get(g, KR_EG_FAILED, 502, "the answer is not one to a GET");
        } else {
            unsigned before = g->redirects;

            take_answer(g, &a);
            if (g->redirects != before)
                return; /* begin_hop() has emptied what was read */
        }
        g->scan = (struct kr_http_scan){0};
        kr_buf_drop(&g->in, (size_t)n);
    }
    if (g->state == GET_BODY && g->in.len > 0) {
        take_body(g, g->in.data, g->in.len, false);
        kr_buf_reset(&g->in);
    }
}

static bool give_body(struct kr_eg_get *g, const char *bytes, size_t len)
{
    struct kr_err err;

    if (g->calls.on_body(g->data, bytes, len, &err) >= 0)
        return g->state == GET_BODY;
    end_by_err(g, &err);
    return false;
}

static void take_body(struct kr_eg_get *g, const char *bytes, size_t len, bool end)
{
    enum kr_http_body_event event = KR_HTTP_BODY_MORE;
    const char *data;
    size_t n;

    if (g->until_close) {
        if ((len == 0 || give_body(g, bytes, len)) && end)
            end_get(g, KR_EG_OK, g->hop.status, "%s", "");
        return;
    }
    while (g->state == GET_BODY && (event = kr_http_body_next(&g->body, &bytes, &len, &data, &n)) == KR_HTTP_BODY_DATA)
        if (!give_body(g, data, n))
            return;
    if (g->state != GET_BODY)
        return;
    if (event == KR_HTTP_BODY_END)
        end_get(g, KR_EG_OK, g->hop.status, "%s", "");
    else if (event == KR_HTTP_BODY_BAD)
        end_get(g, KR_EG_FAILED, 502, "the answer's chunks are not HTTP");
    else if (end)
        end_get(g, KR_EG_FAILED, 502, "%.150s cut the answer short", g->url.host);
}

static void take_end(struct kr_eg_get *g)
{
    if (g->state == GET_BODY)
        take_body(g, NULL, 0, true);
    else
        end_get(g, KR_EG_FAILED, 502, "%.150s closed the connection without an answer", g->url.host);
}

static void read_answer(struct kr_eg_get *g)
{
    for (int i = 0; i < TURNS && !g->paused && (g->state == GET_HEAD || g->state == GET_BODY); i++) {
        const struct kr_eg_stream *from = g->stream;
        ssize_t n = kr_eg_stream_read(g->stream, g->piece, sizeof g->piece);

        if (n == -EAGAIN)
            return;
        if (n < 0) {
            stream_failed(g, (int)n);
            return;
        }
        if (n == 0) {
            take_end(g);
            return;
        }
        if (!count_moved(g, 0, (uint64_t)n))
            return;
        if (g->state == GET_HEAD)
            take_head(g, g->piece, (size_t)n);
        else
            take_body(g, g->piece, (size_t)n, false);
        if (g->stream != from)
            return;
    }
}

static void on_get_readable(void *data)
{
    struct kr_eg_get *g = data;

    g->entered++;
    read_answer(g);
    leave(g);
}

/* ---- connecting ---- */

static void on_dialled(void *data, const struct kr_eg_dial_end *end)
{
    static const struct kr_eg_stream_calls calls = {on_get_readable, on_get_writable};
    struct kr_eg_get *g = data;
    struct kr_eg_stream *plain = NULL;
    int r;

    g->dial = NULL;
    snprintf(g->hop.address, sizeof g->hop.address, "%s", end->address);
    if (end->verdict != KR_EG_OK) {
        end_get(g, end->verdict, end->status, "%s", end->why);
        return;
    }
    if (g->url.tls && !g->trust) {
        kr_fd_close(end->fd);
        end_get(g, KR_EG_FAILED, 502,
                "krait has no certificates to check servers with (its log says why; see the setting egress-ca-file)");
        return;
    }
    r = kr_eg_stream_new(&g->eg->loop, end->fd, &plain);
    if (r < 0) {
        kr_fd_close(end->fd);
    } else if (!g->url.tls) {
        g->stream = plain;
    } else {
        r = kr_eg_tls_client_new(&g->eg->loop, g->trust, plain, g->url.host, &g->stream);
        if (r < 0)
            kr_eg_stream_close(plain);
    }
    if (r >= 0)
        r = write_request(g);
    if (r < 0) {
        end_get(g, KR_EG_FAILED, 502, "%.150s: %s", g->url.host, strerror(-r));
        return;
    }
    kr_eg_stream_set_calls(g->stream, &calls, g);
    g->state = GET_SEND;
    kr_timer_arm(g->idle, g->idle_ms);
    kr_eg_stream_want(g->stream, false, true);
}

static void begin_hop(struct kr_eg_get *g)
{
    struct kr_eg_dial_ask ask = {.host = g->url.host, .port = g->url.port, .sandbox = g->sandbox};
    struct kr_err err;

    g->state = GET_DIAL;
    g->hop = (struct kr_eg_hop){.at_us = kr_eg_now_us()};
    g->at_ns = kr_clock_ns();
    g->hop_open = true;
    g->scan = (struct kr_http_scan){0};
    g->interims = 0;
    kr_buf_reset(&g->in);
    if (g->calls.judge(g->data, &g->url, &ask.trusted, &err) < 0)
        end_by_err(g, &err);
    else if (kr_eg_dial_start(g->eg, &ask, on_dialled, g, &g->dial) < 0)
        end_get(g, KR_EG_FAILED, 502, "out of memory");
}

/* ---- from outside ---- */

static int set_up(struct kr_eg_get *g, const struct kr_eg_get_ask *ask)
{
    int r;

    g->accept = ask->accept ? strdup(ask->accept) : NULL;
    snprintf(g->range, sizeof g->range, "%s", ask->range ? ask->range : "");
    g->authorization = ask->authorization ? strdup(ask->authorization) : NULL;
    if ((ask->accept && !g->accept) || (ask->authorization && !g->authorization))
        return -ENOMEM;
    if (ask->authorization)
        g->authorized = *ask->authorized;
    snprintf(g->sandbox, sizeof g->sandbox, "%s", ask->sandbox);
    snprintf(g->timeout_what, sizeof g->timeout_what, "%s", ask->timeout_what);
    r = kr_timer_new(&g->eg->loop, on_total, g, &g->total);
    if (r >= 0)
        r = kr_timer_new(&g->eg->loop, on_idle, g, &g->idle);
    if (r >= 0)
        r = kr_soon_new(&g->eg->loop, on_get_soon, g, &g->soon);
    return r;
}

int kr_eg_get_start(struct kr_eg *eg, const struct kr_eg_get_ask *ask, const struct kr_eg_get_calls *calls, void *data,
                    struct kr_eg_get **ret_get)
{
    struct kr_eg_get *g = calloc(1, sizeof *g);
    int r;

    if (!g)
        return -ENOMEM;
    g->eg = eg;
    g->calls = *calls;
    g->data = data;
    g->trust = ask->trust;
    g->head = ask->head;
    g->url = *ask->url;
    g->idle_ms = ask->idle_ms;
    kr_buf_init(&g->out, REQUEST_MAX);
    kr_buf_init(&g->in, KR_HTTP_ANSWER_HEAD_MAX + PIECE);
    r = set_up(g, ask);
    if (r < 0) {
        free_get(g);
        return r;
    }
    kr_timer_arm(g->total, ask->timeout_ms);
    begin_hop(g);
    *ret_get = g;
    return 0;
}

void kr_eg_get_pause(struct kr_eg_get *g, bool pause)
{
    g->paused = pause;
    if (g->state != GET_HEAD && g->state != GET_BODY)
        return;
    if (pause)
        kr_timer_disarm(g->idle);
    else
        kr_timer_arm(g->idle, g->idle_ms);
    kr_eg_stream_want(g->stream, !pause, false);
}

void kr_eg_get_cancel(struct kr_eg_get *g)
{
    if (!g)
        return;
    end_hop(g, g->state == GET_OVER ? g->verdict : KR_EG_FAILED, g->state == GET_OVER ? g->why : "cancelled");
    drop_connection(g);
    g->state = GET_OVER;
    g->cancelled = true;
    if (g->entered == 0)
        free_get(g);
}
