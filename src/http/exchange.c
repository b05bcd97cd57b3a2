/* Exchanges: one request and its answer. Called by input.c when a head or a body is whole, and by handlers for what a
 * request says.
 *
 * An exchange is one piece of memory: its fields, a copy of the head in which every string was given its NUL, and the
 * decoded path. Invariant: a connection has one exchange exactly in C_BODY and C_ANSWER; each is reported once. */
#include "http_internal.h"
#include "clock.h"
#include "log.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- making ---- */

static char *http_ex_text(const struct kr_http_ex *ex)
{
    return (char *)&ex->fields[ex->nfields];
}

void kr_http_make_id(struct kr_http_server *s, char id[20])
{
    snprintf(id, 20, "%08x%08x", s->id_prefix, ++s->id_count);
}

static bool id_is_safe(const char *id)
{
    size_t n = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:+=/@");

    return n > 0 && n <= KR_HTTP_REQUEST_ID_MAX && id[n] == '\0';
}

/* Ends the strings of the copied head. Each is followed by a byte that has done its work: a blank, '?', ':' or CR. */
static void terminate(struct kr_http_ex *ex, const struct kr_http_head *h, char *text)
{
    text[h->method_text.at + h->method_text.len] = '\0';
    text[h->path.at + h->path.len] = '\0';
    text[h->query.at + h->query.len] = '\0';
    for (unsigned i = 0; i < h->count; i++) {
        ex->fields[i] = h->fields[i];
        text[h->fields[i].name.at + h->fields[i].name.len] = '\0';
        text[h->fields[i].value.at + h->fields[i].value.len] = '\0';
    }
}

static struct kr_http_ex *make(struct kr_http_conn *c, const struct kr_http_head *h, const char *bytes, size_t len)
{
    struct kr_http_ex *ex = malloc(sizeof *ex + h->count * sizeof ex->fields[0] + len + h->path.len + 1u);
    const char *id;
    char *text;

    if (!ex)
        return NULL;
    *ex = (struct kr_http_ex){
        .conn = c,
        .started_ns = kr_clock_ns(),
        .declared = -1,
        .length = h->chunked              ? -1
                  : h->content_length > 0 ? h->content_length
                                          : 0,
        .path_at = h->path.at,
        .query_at = h->query.at,
        .method_at = h->method_text.at,
        .decoded_at = (uint16_t)len,
        .nfields = (uint16_t)h->count,
        .method = (uint8_t)h->method,
        .http10 = h->http10,
        .keep = h->keep_alive,
        .expect = h->expect_continue,
    };
    text = http_ex_text(ex);
    memcpy(text, bytes, len);
    terminate(ex, h, text);
    id = kr_http_header(ex, "x-request-id");
    if (id && id_is_safe(id))
        ex->id_at = (uint16_t)(id - text);
    else
        kr_http_make_id(c->server, ex->made_id);
    c->ex = ex;
    c->server->stats.exchanges++;
    c->server->stats.requests_total++;
    kr_http_body_init(&c->body, h->chunked, h->content_length);
    return ex;
}

/* Finds the row; 200, 400, 404, 405 or 501. */
static int route(struct kr_http_ex *ex, size_t path_len)
{
    struct kr_http_match m;
    char *decoded = http_ex_text(ex) + ex->decoded_at;
    int status;

    decoded[0] = '\0';
    if (ex->method == KR_HTTP_OTHER && !kr_http_method_is_registered(http_ex_text(ex) + ex->method_at))
        return 501;
    if (kr_http_path(ex)[0] == '*') {
        ex->allowed = (1u << KR_HTTP_OTHER) - 1;
        return 405;
    }
    status = kr_http_router_find(ex->conn->server->router, (enum kr_http_method)ex->method, kr_http_path(ex), path_len,
                                 decoded, &m);
    ex->route = m.route;
    ex->allowed = (uint16_t)m.allowed;
    ex->nparams = (uint16_t)m.nparams;
    for (unsigned i = 0; i < m.nparams; i++)
        ex->params_at[i] = (uint16_t)(m.values[i] - decoded);
    return status;
}

/* ---- starting ---- */

/* Calls the handler; one that neither answered nor said that it will is a bug of krait, and must not leave the peer
 * waiting. */
void kr_http_ex_handle(struct kr_http_ex *ex)
{
    struct kr_http_conn *c = ex->conn;

    kr_log_set_request(kr_http_request_id(ex)); /* every line logged on its behalf carries the id */
    ex->route->handler(ex, c->server->config.app);
    kr_log_set_request(NULL);
    if (c->ex != ex || ex->calls)
        return;
    kr_log(KR_LOG_ERROR, "a handler gave no answer", "route=%s", ex->route->pattern);
    if (ex->begun)
        kr_http_abort(ex);
    else
        kr_http_reply_error(ex, 500, NULL);
}

static void answer_unrouted(struct kr_http_ex *ex, int status)
{
    char allow[KR_HTTP_ALLOW_MAX];

    if (status == 405)
        kr_http_set_header(ex, "Allow", kr_http_allow_text(ex->allowed, allow));
    if (status == 405 && ex->method == KR_HTTP_OPTIONS)
        kr_http_reply(ex, 204, NULL, NULL, 0);
    else
        kr_http_reply_error(ex, status, status == 400 ? "malformed path" : NULL);
}

/* The gate's verdict; false: the exchange is over, or the gate answers later. */
static bool pass_gate(struct kr_http_ex *ex)
{
    struct kr_http_conn *c = ex->conn;
    const struct kr_http_config *config = &c->server->config;
    bool passed = !config->gate || config->gate(config->app, ex);

    if (c->ex != ex)
        return false;
    if (passed || ex->calls)
        return passed;
    kr_log(KR_LOG_ERROR, "the gate gave no answer", NULL);
    kr_http_reply_error(ex, 500, NULL);
    return false;
}

static uint64_t body_limit(const struct kr_http_ex *ex)
{
    return ex->body_limit ? ex->body_limit : ex->route->body_limit;
}

/* The body may come. One that says that it is too long is refused by input.c, without 100 Continue. */
static void accept_body(struct kr_http_ex *ex, uint64_t limit, bool has_bytes)
{
    struct iovec go_on = {(void *)"HTTP/1.1 100 Continue\r\n\r\n", 25};
    bool too_long = ex->length > 0 && (uint64_t)ex->length > limit;

    ex->accepted = true;
    ex->body_limit = limit;
    if (too_long || !ex->expect)
        return;
    ex->expect = false;
    if (!has_bytes && ex->length != 0)
        kr_http_out_add(ex->conn, &go_on, 1);
}

/* The route is found and the gate passed. */
static void start_body(struct kr_http_ex *ex, bool more)
{
    bool streams = ex->route->flags & KR_HTTP_STREAM_BODY;
    enum kr_http_coding coding = ex->length != 0 ? kr_http_ex_coding(ex) : KR_HTTP_IDENTITY;

    if (coding == KR_HTTP_CODING_OTHER || (coding != KR_HTTP_IDENTITY && streams)) {
        kr_http_set_header(ex, "Accept-Encoding", streams ? "identity" : KR_HTTP_CODINGS);
        kr_http_reply_error(ex, 415,
                            streams ? "this path takes bodies as they are, without a Content-Encoding"
                                    : "Content-Encoding: one of gzip and deflate, once");
    } else if (streams) {
        kr_http_conn_move(ex->conn, C_BODY); /* also for an empty one: on_body_end is called */
        kr_http_ex_handle(ex);
    } else if (ex->length == 0) {
        kr_http_ex_handle(ex);
    } else {
        ex->collect = body_limit(ex) != 0;
        accept_body(ex, ex->collect ? body_limit(ex) : KR_HTTP_IGNORED_BODY_MAX, more);
    }
}

void kr_http_ex_start(struct kr_http_conn *c, const struct kr_http_head *h, const char *bytes, size_t len, bool more)
{
    struct kr_http_ex *ex = make(c, h, bytes, len);
    int status;

    if (!ex) {
        kr_http_fail(c, 503, NULL);
        return;
    }
    kr_http_conn_move(c, ex->length != 0 ? C_BODY : C_ANSWER);
    status = route(ex, h->path.len);
    if (status == 501)
        kr_http_reply_error(ex, 501, "unknown method");
    else if (pass_gate(ex) && status != 200)
        answer_unrouted(ex, status);
    if (c->ex == ex && !ex->calls)
        start_body(ex, more);
}

void kr_http_ex_body_done(struct kr_http_ex *ex)
{
    enum kr_http_coding coding = ex->collected ? kr_http_ex_coding(ex) : KR_HTTP_IDENTITY;

    if (coding != KR_HTTP_IDENTITY)
        kr_http_ex_decode(ex, coding);
    else if (!(ex->route->flags & KR_HTTP_STREAM_BODY))
        kr_http_ex_handle(ex);
    else if (ex->calls && ex->calls->on_body_end)
        ex->calls->on_body_end(ex->data, ex);
}

/* ---- ending ---- */

void kr_http_ex_tell_gone(struct kr_http_ex *ex)
{
    ex->over = true;
    if (ex->calls && ex->calls->on_gone)
        ex->calls->on_gone(ex->data, ex);
}

void kr_http_ex_done(struct kr_http_ex *ex, bool complete)
{
    struct kr_http_conn *c = ex->conn;
    struct kr_http_server *s = c->server;
    struct kr_http_report report = {
        .route = ex->route,
        .method = http_ex_text(ex) + ex->method_at,
        .path = kr_http_path(ex),
        .request_id = kr_http_request_id(ex),
        .tag = c->tag,
        .status = ex->status,
        .complete = complete,
        .bytes_in = ex->body_got,
        .bytes_out = ex->sent,
        .wall_ns = kr_clock_ns() - ex->started_ns,
        .ex = ex,
    };

    if (s->config.on_report)
        s->config.on_report(s->config.app, &report);
    s->stats.exchanges--;
    s->stats.collected_bytes -= ex->collected_cap;
    kr_http_hold_drop(c);
    c->ex = NULL;
    free(ex->collected);
    free(ex->headers);
    free(ex);
}

/* ---- bodies ---- */

int kr_http_ex_collect(struct kr_http_ex *ex, const char *data, size_t len)
{
    struct kr_http_server *s = ex->conn->server;
    size_t had = (size_t)ex->body_got - len, cap = ex->collected_cap;
    char *moved;

    if (had + len + 1 > cap) { /* grows with what has come, whatever Content-Length promises */
        cap = cap ? 2 * cap : 1024;
        while (cap < had + len + 1)
            cap *= 2;
        if (ex->length >= 0 && cap > (size_t)ex->length + 1)
            cap = (size_t)ex->length + 1;
        if (s->stats.collected_bytes - ex->collected_cap + cap > s->config.collected_bodies_max)
            return -ENOBUFS;
        moved = realloc(ex->collected, cap);
        if (!moved)
            return -ENOMEM;
        s->stats.collected_bytes += cap - ex->collected_cap;
        ex->collected = moved;
        ex->collected_cap = cap;
    }
    memcpy(ex->collected + had, data, len);
    ex->collected[had + len] = '\0';
    return 0;
}

void kr_http_defer(struct kr_http_ex *ex, const struct kr_http_calls *calls, void *data)
{
    ex->calls = calls;
    ex->data = data;
}

void kr_http_accept_body(struct kr_http_ex *ex, uint64_t limit, const struct kr_http_calls *calls, void *data)
{
    kr_http_defer(ex, calls, data);
    if (ex->over || ex->accepted)
        return;
    accept_body(ex, limit ? limit : body_limit(ex), ex->conn->in_len > 0);
    kr_http_conn_soon(ex->conn); /* what has come meanwhile, or that there is nothing */
}

void kr_http_pause_body(struct kr_http_ex *ex, bool pause)
{
    if (ex->over || ex->paused == pause)
        return;
    ex->paused = pause;
    kr_http_conn_soon(ex->conn);
}

char *kr_http_take_body(struct kr_http_ex *ex, size_t *ret_len)
{
    char *body = ex->collected;

    *ret_len = body ? (size_t)ex->body_got : 0;
    ex->conn->server->stats.collected_bytes -= ex->collected_cap;
    ex->collected = NULL;
    ex->collected_cap = 0;
    return body;
}

void kr_http_drop_body(struct kr_http_ex *ex)
{
    size_t len;

    free(kr_http_take_body(ex, &len));
}

/* ---- what a request says ---- */

enum kr_http_method kr_http_method(const struct kr_http_ex *ex)
{
    return (enum kr_http_method)ex->method;
}

const char *kr_http_path(const struct kr_http_ex *ex)
{
    return http_ex_text(ex) + ex->path_at;
}

const char *kr_http_query(const struct kr_http_ex *ex)
{
    return http_ex_text(ex) + ex->query_at;
}

const char *kr_http_header(const struct kr_http_ex *ex, const char *name)
{
    const char *text = http_ex_text(ex);

    for (unsigned i = 0; i < ex->nfields; i++)
        if (strcasecmp(text + ex->fields[i].name.at, name) == 0)
            return text + ex->fields[i].value.at;
    return NULL;
}

bool kr_http_header_at(const struct kr_http_ex *ex, unsigned i, const char **ret_name, const char **ret_value)
{
    if (i >= ex->nfields)
        return false;
    *ret_name = http_ex_text(ex) + ex->fields[i].name.at;
    *ret_value = http_ex_text(ex) + ex->fields[i].value.at;
    return true;
}

const char *kr_http_param(const struct kr_http_ex *ex, const char *name)
{
    int i = ex->route ? kr_http_pattern_param(ex->route->pattern, name) : -1;

    return i < 0 ? NULL : http_ex_text(ex) + ex->decoded_at + ex->params_at[i];
}

const struct kr_http_route *kr_http_route(const struct kr_http_ex *ex)
{
    return ex->route;
}

const char *kr_http_request_id(const struct kr_http_ex *ex)
{
    return ex->id_at ? http_ex_text(ex) + ex->id_at : ex->made_id;
}

unsigned kr_http_tag(const struct kr_http_ex *ex)
{
    return ex->conn->tag;
}

const char *kr_http_peer(const struct kr_http_ex *ex, char buf[KR_HTTP_PEER_MAX])
{
    const struct in6_addr *a = &ex->conn->address;

    if (ex->conn->is_unix)
        snprintf(buf, KR_HTTP_PEER_MAX, "unix");
    else if (IN6_IS_ADDR_V4MAPPED(a))
        inet_ntop(AF_INET, a->s6_addr + 12, buf, KR_HTTP_PEER_MAX);
    else
        inet_ntop(AF_INET6, a, buf, KR_HTTP_PEER_MAX);
    return buf;
}

const char *kr_http_body(const struct kr_http_ex *ex, size_t *ret_len)
{
    *ret_len = ex->collected ? (size_t)ex->body_got : 0;
    return ex->collected ? ex->collected : "";
}

int64_t kr_http_content_length(const struct kr_http_ex *ex)
{
    return ex->length;
}

void kr_http_set_body_limit(struct kr_http_ex *ex, uint64_t limit)
{
    if (!ex->accepted)
        ex->body_limit = limit;
}
