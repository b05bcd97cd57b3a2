/* The requests of `krait shell`. Called by shell.c before the person's terminal is touched, and when it is restored.
 *
 * Invariants: every wait has a deadline; what the server says is read by the strict parser of answers. */
#include "shell_http.h"
#include "answer.h"
#include "base64.h"
#include "buf.h"
#include "clock.h"
#include "err.h"
#include "fd.h"
#include "json_load.h"
#include "ws_frame.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define HEAD_MAX 4096u
#define CONNECT_MS 10000u

int kr_shell_find(struct kr_shell_server *s, struct kr_err *err)
{
    int r = kr_hx_target_parse(s->url, &s->target, err);
    size_t len;

    if (r < 0)
        return r;
    len = strcspn(s->target.path, "?");
    while (len > 0 && s->target.path[len - 1] == '/')
        len--;
    snprintf(s->prefix, sizeof s->prefix, "%.*s", (int)len, s->target.path);
    if (strcmp(s->prefix, "/mcp") == 0) /* what no path stands for there */
        s->prefix[0] = '\0';
    return kr_hx_resolve(&s->target, err);
}

static int no_server(const struct kr_shell_server *s, int code, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_UNAVAILABLE, code,
               "no server answers at %.100s (%s): start one with `krait serve`, or name one with --connect URL", s->url,
               strerror(code));
    return -code;
}

static int open_connection(const struct kr_shell_server *s, struct kr_err *err)
{
    const struct kr_hx_target *t = &s->target;
    cleanup_fd int fd = socket(t->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = 0;
    socklen_t len = sizeof failed;

    if (fd < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "a socket");
    if (connect(fd, (const struct sockaddr *)&t->address, t->address_len) < 0 && errno != EINPROGRESS)
        return no_server(s, errno, err);
    if (kr_fd_wait(fd, POLLOUT, kr_clock_after_ms(CONNECT_MS)) <= 0)
        return no_server(s, ETIMEDOUT, err);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) < 0 || failed)
        return no_server(s, failed ? failed : EIO, err);
    return steal_fd(&fd);
}

static int send_bytes(int fd, const char *data, size_t len, uint64_t deadline)
{
    while (len > 0) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return -errno;
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (kr_fd_wait(fd, POLLOUT, deadline) <= 0) {
            return -ETIMEDOUT;
        }
    }
    return 0;
}

/* More behind *len. 1, 0 at the end, or -errno. */
static int read_more(int fd, char *buf, size_t *len, size_t size, uint64_t deadline)
{
    ssize_t n;

    if (*len == size)
        return -E2BIG;
    for (;;) {
        n = recv(fd, buf + *len, size - *len, 0);
        if (n >= 0)
            break;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (kr_fd_wait(fd, POLLIN, deadline) <= 0)
            return -ETIMEDOUT;
    }
    *len += (size_t)n;
    return n > 0;
}

/* The head of the answer; what is behind it moves to the front. 0 or -errno. */
static int read_head(int fd, struct kr_shell_answer *ret, struct kr_http_answer *head, char *head_text,
                     uint64_t deadline)
{
    struct kr_http_scan scan = {0};
    int n = 0, r;

    ret->len = 0;
    while (n == 0) {
        r = read_more(fd, ret->body, &ret->len, KR_SHELL_ANSWER_MAX, deadline);
        if (r <= 0)
            return r < 0 ? r : -EPROTO;
        n = kr_http_answer_parse(ret->body, ret->len, &scan, head);
    }
    if (n < 0 || (size_t)n > KR_HTTP_ANSWER_HEAD_MAX)
        return -EPROTO;
    memcpy(head_text, ret->body, (size_t)n);
    ret->len -= (size_t)n;
    memmove(ret->body, ret->body + n, ret->len);
    ret->status = head->status;
    return 0;
}

static void add_head(const struct kr_shell_server *s, struct kr_buf *out, const char *method, const char *path)
{
    kr_buf_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", method, s->prefix, path,
                  s->target.field);
    if (s->key)
        kr_buf_printf(out, "Authorization: Bearer %s\r\n", s->key);
}

static int broken(const struct kr_shell_server *s, int r, struct kr_err *err)
{
    kr_err_set(err, KR_ERR_UNAVAILABLE, -r, "what listens at %.100s gave no answer of krait's (%s)", s->url,
               strerror(-r));
    return r;
}

int kr_shell_ask(const struct kr_shell_server *s, const char *method, const char *path, const char *body,
                 struct kr_shell_answer *ret, struct kr_err *err)
{
    static char head_text[KR_HTTP_ANSWER_HEAD_MAX];
    uint64_t deadline = kr_clock_after_ms(KR_SHELL_WAIT_MS);
    cleanup_fd int fd = open_connection(s, err);
    cleanup_buf struct kr_buf out;
    struct kr_http_answer head;
    int r;

    kr_buf_init(&out, KR_SHELL_ANSWER_MAX + HEAD_MAX);
    if (fd < 0)
        return fd;
    add_head(s, &out, method, path);
    kr_buf_printf(&out, "Connection: close\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                  strlen(body), body);
    if (out.failed)
        return kr_err_set(err, KR_ERR_INVALID, E2BIG, "the command is too long");
    r = send_bytes(fd, out.data, out.len, deadline);
    if (r >= 0)
        r = read_head(fd, ret, &head, head_text, deadline);
    if (r >= 0 && head.chunked)
        r = -EPROTO;
    while (r >= 0 && !head.no_body && (head.content_length < 0 || ret->len < (uint64_t)head.content_length)) {
        r = read_more(fd, ret->body, &ret->len, KR_SHELL_ANSWER_MAX, deadline);
        if (r == 0)
            break;
    }
    if (r < 0)
        return broken(s, r, err);
    ret->body[ret->len] = '\0';
    return 0;
}

int kr_shell_refused(const struct kr_shell_answer *a, struct kr_err *err)
{
    json_t *body = kr_json_load(a->body, a->len, 0, NULL);
    const char *text = json_string_value(json_object_get(json_object_get(body, "error"), "message"));
    enum kr_err_kind kind = a->status == 401   ? KR_ERR_UNAUTHORIZED
                            : a->status == 403 ? KR_ERR_FORBIDDEN
                            : a->status == 404 ? KR_ERR_NOT_FOUND
                            : a->status == 400 ? KR_ERR_INVALID
                                               : KR_ERR_UNAVAILABLE;

    if (a->status == 401)
        kr_err_set(err, kind, 0, "the server refuses: %.200s; give a key as KRAIT_API_KEY or by --api-key-file",
                   text ? text : "no good key");
    else
        kr_err_set(err, kind, 0, "the server refuses (%u): %.300s", a->status, text ? text : "it does not say why");
    json_decref(body);
    return -EACCES;
}

int kr_shell_connect(const struct kr_shell_server *s, const char *path, struct kr_shell_answer *rest,
                     struct kr_err *err)
{
    static char head_text[KR_HTTP_ANSWER_HEAD_MAX];
    uint64_t deadline = kr_clock_after_ms(CONNECT_MS);
    cleanup_fd int fd = open_connection(s, err);
    char key[KR_BASE64_ROOM(16)], accept[KR_WS_ACCEPT_ROOM], said[64];
    unsigned char nonce[16];
    cleanup_buf struct kr_buf out;
    struct kr_http_answer head;
    int r;

    kr_buf_init(&out, HEAD_MAX);
    if (fd < 0)
        return fd;
    if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
        return kr_err_set(err, KR_ERR_SYSTEM, errno, "random bytes");
    kr_base64_encode(nonce, sizeof nonce, key);
    add_head(s, &out, "GET", path);
    kr_buf_printf(&out,
                  "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                  "Sec-WebSocket-Protocol: krait.terminal\r\nSec-WebSocket-Key: %s\r\n\r\n",
                  key);
    r = out.failed ? out.failed : send_bytes(fd, out.data, out.len, deadline);
    if (r >= 0)
        r = read_head(fd, rest, &head, head_text, deadline);
    if (r < 0)
        return broken(s, r, err);
    rest->body[rest->len] = '\0';
    if (head.status != 101)
        return kr_shell_refused(rest, err);
    kr_ws_accept(key, accept);
    if (strcmp(kr_http_answer_text(head_text, &head, "sec-websocket-accept", said, sizeof said), accept) != 0)
        return broken(s, -EPROTO, err);
    return steal_fd(&fd);
}
