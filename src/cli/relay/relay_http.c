/* The relay's HTTP: one connection for one request.
 *
 * Called by relay.c. Invariants: an answer is judged strictly (status line, one length, one coding) and bounded (its
 * head; bodies go on in pieces); on_end comes once, and nothing after it; the connection is closed behind the answer.
 * How long an answer takes is the run's affair: a server that is gone is found by TCP's keep-alive. */
#include "relay_http.h"
#include "body.h"
#include "buf.h"
#include "err.h"
#include "fd.h"
#include "loop.h"
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define OUT_MAX (8u << 20)
#define CHUNK (64u << 10)
#define INTERIM_MAX 100u /* answers of 1xx before the answer */
#define GONE_S 60        /* of silence on the wire, until a server counts as gone */

struct kr_hx {
    struct kr_watch *watch;
    struct kr_outq *outq;
    struct kr_timer *timer; /* of the connection; then tells the end */
    struct kr_hx_calls calls;
    void *data;
    struct kr_buf head;
    struct kr_http_body body;
    unsigned interim; /* answers of 1xx that came */
    bool connected, in_body, until_close, ended, dead, busy, held;
    struct kr_err why;
};

/* ---- URLs ---- */

static int bad_url(struct kr_err *err, const char *what)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "--connect: %s; for example http://127.0.0.1:8642", what), -EINVAL;
}

static int parse_authority(const char *authority, size_t len, struct kr_hx_target *ret, struct kr_err *err)
{
    const char *end = authority + len, *port = NULL, *host = authority;
    size_t host_len;
    bool v6 = *authority == '[';

    if (v6) {
        const char *close = memchr(authority, ']', len);

        if (!close || (close + 1 < end && close[1] != ':'))
            return bad_url(err, "its address has no closing bracket");
        host = authority + 1;
        host_len = (size_t)(close - host);
        port = close + 1 < end ? close + 2 : NULL;
    } else {
        const char *colon = memchr(authority, ':', len);

        host_len = colon ? (size_t)(colon - authority) : len;
        port = colon ? colon + 1 : NULL;
    }
    if (host_len == 0 || host_len >= sizeof ret->host - 2)
        return bad_url(err, "it names no host");
    for (size_t i = 0; i < host_len; i++)
        if (!isalnum((unsigned char)host[i]) && !strchr(v6 ? ":." : ".-_", host[i]))
            return bad_url(err, "the host is not a valid name");
    snprintf(ret->host, sizeof ret->host, "%.*s", (int)host_len, host);
    snprintf(ret->port, sizeof ret->port, "80");
    if (port && (end == port || end - port > 5 || strspn(port, "0123456789") < (size_t)(end - port)))
        return bad_url(err, "the port is not a number up to 65535");
    if (port)
        snprintf(ret->port, sizeof ret->port, "%.*s", (int)(end - port), port);
    snprintf(ret->field, sizeof ret->field, "%s%s%s:%s", v6 ? "[" : "", ret->host, v6 ? "]" : "", ret->port);
    return 0;
}

int kr_hx_target_parse(const char *url, struct kr_hx_target *ret, struct kr_err *err)
{
    const char *authority, *path;
    size_t len;
    int r;

    memset(ret, 0, sizeof *ret);
    if (strncasecmp(url, "https://", 8) == 0)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "--connect: https is not spoken here; let something with TLS listen on loopback (stunnel, "
                          "ssh -L, nginx) and connect to that by http://127.0.0.1:PORT"),
               -EINVAL;
    if (strncasecmp(url, "http://", 7) != 0)
        return bad_url(err, "it does not begin with http://");
    authority = url + 7;
    len = strcspn(authority, "/?#");
    path = authority + len;
    if (memchr(authority, '@', len))
        return bad_url(err, "a name and password are not taken; a key is given by KRAIT_API_KEY");
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || *p == '#')
            return bad_url(err, "its path has a character that must be %-encoded, or a fragment");
    if (strlen(path) >= sizeof ret->path - 8)
        return bad_url(err, "its path is too long");
    if ((r = parse_authority(authority, len, ret, err)) < 0)
        return r;
    if (*path == '/' && path[1] && path[1] != '?')
        snprintf(ret->path, sizeof ret->path, "%s", path);
    else
        snprintf(ret->path, sizeof ret->path, "/mcp%s", *path == '/' ? path + 1 : path);
    return 0;
}

int kr_hx_resolve(struct kr_hx_target *t, struct kr_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    int r = getaddrinfo(t->host, t->port, &hints, &found);

    if (r != 0)
        return kr_err_set(err, KR_ERR_UNAVAILABLE, 0, "--connect: %s: %s", t->host, gai_strerror(r)), -EHOSTUNREACH;
    memcpy(&t->address, found->ai_addr, found->ai_addrlen);
    t->address_len = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

/* ---- the end ---- */

static void on_exchange_timer(void *data)
{
    struct kr_hx *x = data;

    if (!x->ended) {
        kr_err_set(&x->why, KR_ERR_TIMEOUT, 0, "no connection within %u s", KR_HX_CONNECT_MS / 1000);
        x->ended = true;
    }
    x->calls.on_end(x->data, x->why.kind != KR_ERR_NONE ? &x->why : NULL);
}

/* Called from the loop. `why` is set where it is not a good end. */
static void end(struct kr_hx *x)
{
    if (x->ended)
        return;
    x->ended = true;
    if (x->watch) {
        kr_watch_want_read(x->watch, false);
        kr_watch_want_write(x->watch, false);
    }
    kr_timer_arm(x->timer, 0);
}

static void fail_exchange(struct kr_hx *x, int code, const char *text)
{
    if (!x->ended)
        kr_err_set(&x->why, KR_ERR_UNAVAILABLE, code, "%s", text);
    end(x);
}

static void on_out_failed(void *data, int error)
{
    fail_exchange(data, -error, "send");
}

/* ---- the head ---- */

static void copy_value(char *to, const char *from, size_t len)
{
    while (len > 0 && (*from == ' ' || *from == '\t'))
        from++, len--;
    while (len > 0 && (from[len - 1] == ' ' || from[len - 1] == '\t'))
        len--;
    snprintf(to, KR_HX_VALUE_MAX, "%.*s", (int)(len < KR_HX_VALUE_MAX ? len : KR_HX_VALUE_MAX - 1), from);
}

struct framing {
    int64_t length; /* -1: none given */
    bool chunked, bad;
};

static void take_field(const char *line, size_t len, struct kr_hx_head *head, struct framing *f)
{
    const char *colon = memchr(line, ':', len);
    size_t name = colon ? (size_t)(colon - line) : 0;
    char value[KR_HX_VALUE_MAX];

    if (name == 0) {
        f->bad = true;
        return;
    }
    copy_value(value, colon + 1, len - name - 1);
    if (name == 12 && strncasecmp(line, "content-type", name) == 0) {
        for (size_t i = 0; i <= strlen(value); i++)
            head->type[i] = (char)tolower((unsigned char)value[i]);
    } else if (name == 14 && strncasecmp(line, "mcp-session-id", name) == 0) {
        memcpy(head->session, value, sizeof value);
    } else if (name == 14 && strncasecmp(line, "content-length", name) == 0) {
        f->bad |= f->length >= 0 || !*value || strlen(value) > 15 || strspn(value, "0123456789") != strlen(value);
        f->length = f->bad ? 0 : strtoll(value, NULL, 10);
    } else if (name == 17 && strncasecmp(line, "transfer-encoding", name) == 0) {
        f->bad |= f->chunked || strcasecmp(value, "chunked") != 0;
        f->chunked = true;
    }
}

/* The head without the empty line behind it. 0 or -EPROTO. */
static int parse_head(struct kr_hx *x, char *text, struct kr_hx_head *head)
{
    struct framing f = {.length = -1};
    char *line = strstr(text, "\r\n");

    if (strncmp(text, "HTTP/1.", 7) != 0 || !isdigit((unsigned char)text[7]) || text[8] != ' ' ||
        strspn(text + 9, "0123456789") != 3)
        return -EPROTO;
    head->status = atoi(text + 9);
    while (line && line[2]) {
        char *next = strstr(line += 2, "\r\n");

        take_field(line, next ? (size_t)(next - line) : strlen(line), head, &f);
        line = next;
    }
    if (f.bad || (f.chunked && f.length >= 0))
        return -EPROTO;
    x->until_close = !f.chunked && f.length < 0 && head->status != 204 && head->status != 304;
    kr_http_body_init(&x->body, f.chunked, f.length);
    return 0;
}

/* ---- the answer ---- */

static void take_body(struct kr_hx *x, const char *bytes, size_t len)
{
    const char *piece;
    size_t piece_len;

    if (x->until_close) {
        if (len > 0)
            x->calls.on_body(x->data, bytes, len);
        return;
    }
    while (!x->dead && !x->ended) {
        switch (kr_http_body_next(&x->body, &bytes, &len, &piece, &piece_len)) {
        case KR_HTTP_BODY_DATA:
            x->calls.on_body(x->data, piece, piece_len);
            break;
        case KR_HTTP_BODY_END:
            end(x);
            return;
        case KR_HTTP_BODY_MORE:
            return;
        case KR_HTTP_BODY_BAD:
            fail_exchange(x, EPROTO, "the answer's body is damaged");
            return;
        }
    }
}

/* One head of those that came; `ret_used`: how many of these bytes it had. 0; 1: it is not whole yet; -1: failed. */
static int take_one_head(struct kr_hx *x, const char *bytes, size_t len, struct kr_hx_head *head, size_t *ret_used)
{
    char *found;

    if (kr_buf_add(&x->head, bytes, len) < 0) {
        fail_exchange(x, EMSGSIZE, "the answer's head is too long");
        return -1;
    }
    found = strstr(x->head.data, "\r\n\r\n");
    if (!found && x->head.len > KR_HX_HEAD_MAX) {
        fail_exchange(x, EMSGSIZE, "the answer's head is too long");
        return -1;
    }
    if (!found)
        return 1;
    *ret_used = (size_t)(found - x->head.data) + 4 - (x->head.len - len);
    *found = '\0';
    if (parse_head(x, x->head.data, head) < 0) {
        fail_exchange(x, EPROTO, "the answer is not HTTP");
        return -1;
    }
    return 0;
}

static void take_answer_head(struct kr_hx *x, const char *bytes, size_t len)
{
    struct kr_hx_head head = {0};
    size_t used = 0;

    while (len > 0 && take_one_head(x, bytes, len, &head, &used) == 0) {
        bytes += used;
        len -= used;
        if (head.status >= 200) {
            x->in_body = true;
            x->calls.on_head(x->data, &head);
            if (!x->dead && !x->ended)
                take_body(x, bytes, len);
            return;
        }
        if (++x->interim > INTERIM_MAX) {
            fail_exchange(x, EPROTO, "the server announces its answer without end");
            return;
        }
        kr_buf_reset(&x->head);
        head = (struct kr_hx_head){0};
    }
}

static void on_answer_readable(void *data)
{
    struct kr_hx *x = data;
    char chunk[CHUNK];
    ssize_t n = read(kr_watch_fd(x->watch), chunk, sizeof chunk);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    x->busy = true;
    if (n < 0)
        fail_exchange(x, errno, "read");
    else if (n == 0 && x->in_body && x->until_close)
        end(x);
    else if (n == 0)
        fail_exchange(x, 0, "the server closed the connection before its answer was whole");
    else if (x->in_body)
        take_body(x, chunk, (size_t)n);
    else
        take_answer_head(x, chunk, (size_t)n);
    x->busy = false;
    if (x->dead)
        kr_hx_close(x);
}

/* ---- life ---- */

static int open_socket(const struct kr_hx_target *to)
{
    int on = 1, idle = GONE_S / 2, step = GONE_S / 6, tries = 3;
    cleanup_fd int fd = socket(to->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
    if (connect(fd, (const struct sockaddr *)&to->address, to->address_len) < 0 && errno != EINPROGRESS)
        return -errno;
    return steal_fd(&fd);
}

/* The first time that it can be written it is connected, or not. */
static void on_writable(void *data)
{
    static const struct kr_outq_calls calls = {.on_failed = on_out_failed};
    struct kr_hx *x = data;
    int code = 0, r;
    socklen_t len = sizeof code;

    (void)getsockopt(kr_watch_fd(x->watch), SOL_SOCKET, SO_ERROR, &code, &len);
    if (code) {
        fail_exchange(x, code, "connect");
        return;
    }
    kr_timer_disarm(x->timer);
    kr_watch_want_write(x->watch, false);
    x->connected = true;
    r = kr_outq_new(x->watch, OUT_MAX, &calls, x, &x->outq);
    if (r >= 0)
        r = kr_outq_add(x->outq, x->head.data, x->head.len);
    kr_buf_done(&x->head);
    kr_buf_init(&x->head, KR_HX_HEAD_MAX + CHUNK);
    if (r < 0)
        fail_exchange(x, -r, "send");
    else if (!x->held)
        kr_watch_want_read(x->watch, true);
}

int kr_hx_new(struct uv_loop_s *loop, const struct kr_hx_target *to, const struct kr_buf *head, const char *body,
              size_t len, const struct kr_hx_calls *calls, void *data, struct kr_hx **ret_hx)
{
    static const struct kr_watch_calls watch_calls = {on_answer_readable, on_writable};
    struct kr_hx *x = calloc(1, sizeof *x);
    int fd, r;

    if (!x)
        return -ENOMEM;
    x->calls = *calls;
    x->data = data;
    kr_buf_init(&x->head, OUT_MAX);
    r = kr_timer_new(loop, on_exchange_timer, x, &x->timer);
    if (r >= 0)
        r = kr_buf_add(&x->head, head->data, head->len);
    if (r >= 0 && len > 0)
        r = kr_buf_add(&x->head, body, len);
    if (r < 0) {
        kr_hx_close(x);
        return r;
    }
    *ret_hx = x;
    fd = open_socket(to);
    r = fd < 0 ? fd : kr_watch_new(loop, fd, &watch_calls, x, &x->watch);
    if (r < 0) {
        if (fd >= 0)
            kr_fd_close(fd);
        fail_exchange(x, -r, "connect");
        return 0;
    }
    kr_timer_arm(x->timer, KR_HX_CONNECT_MS);
    kr_watch_want_write(x->watch, true);
    return 0;
}

void kr_hx_close(struct kr_hx *x)
{
    if (!x)
        return;
    x->dead = true;
    if (x->busy)
        return; /* freed when it comes back */
    kr_watch_close(x->watch);
    kr_timer_close(x->timer);
    kr_buf_done(&x->head);
    free(x);
}

void kr_hx_hold(struct kr_hx *x, bool hold)
{
    x->held = hold;
    if (x->watch && x->connected && !x->ended)
        kr_watch_want_read(x->watch, !hold);
}
