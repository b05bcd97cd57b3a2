/* TLS over a stream, by OpenSSL.
 *
 * Called for requests that the process makes itself and for tunnels whose TLS ends here. OpenSSL reads and writes the
 * stream below by a BIO of ours, so there is no second socket, poll or copy of the bytes. Invariants: no byte is passed
 * before the peer's certificate was accepted for the host; the end of a stream without TLS's own goodbye is an error,
 * never an end; one error is the last word. */
#include "eg_tls.h"
#include "loop.h"
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHY_ROOM 200

struct kr_eg_tls_trust {
    SSL_CTX *context;
    BIO_METHOD *method;
};

struct tls_stream {
    struct kr_eg_stream base;
    struct kr_eg_stream *lower;
    struct kr_soon *soon; /* reports what no poll does: decrypted bytes that wait, an error */
    SSL *ssl;
    struct kr_buf early;                     /* of the stream below: read before this one was there */
    bool want_read, want_write;              /* of the owner */
    bool read_needs_write, write_needs_read; /* what OpenSSL has to do first, below */
    bool shaken;                             /* the handshake has ended well */
    bool shutting;                           /* our goodbye waits for the stream below */
    bool lower_ended;                        /* it has, without TLS's goodbye */
    bool closed;
    unsigned entered; /* our callbacks on the stack: then memory goes when they return */
    int error;        /* -errno, for good */
    char host[256], why[WHY_ROOM];
};

/* ---- below OpenSSL ---- */

static int read_below(BIO *bio, char *buf, int len)
{
    struct tls_stream *t = BIO_get_data(bio);
    ssize_t n;

    if (t->early.len > 0) {
        n = (size_t)len < t->early.len ? len : (ssize_t)t->early.len;
        memcpy(buf, t->early.data, (size_t)n);
        kr_buf_drop(&t->early, (size_t)n);
        return (int)n;
    }
    n = kr_eg_stream_read(t->lower, buf, (size_t)len);
    BIO_clear_retry_flags(bio);
    if (n == -EAGAIN)
        BIO_set_retry_read(bio);
    else if (n == 0)
        t->lower_ended = true;
    else if (n < 0 && t->error == 0)
        t->error = (int)n;
    return n < 0 ? -1 : (int)n;
}

static int write_below(BIO *bio, const char *buf, int len)
{
    struct tls_stream *t = BIO_get_data(bio);
    ssize_t n = kr_eg_stream_write(t->lower, buf, (size_t)len);

    BIO_clear_retry_flags(bio);
    if (n == -EAGAIN || n == 0)
        BIO_set_retry_write(bio);
    else if (n < 0 && t->error == 0)
        t->error = (int)n;
    return n <= 0 ? -1 : (int)n;
}

static long control_below(BIO *bio, int command, long number, void *pointer)
{
    const struct tls_stream *t = BIO_get_data(bio);

    (void)number;
    (void)pointer;
    if (command == BIO_CTRL_EOF)
        return t->lower_ended;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "krait stream");

    if (!m || BIO_meth_set_read(m, read_below) != 1 || BIO_meth_set_write(m, write_below) != 1 ||
        BIO_meth_set_ctrl(m, control_below) != 1) {
        BIO_meth_free(m);
        return NULL;
    }
    return m;
}

/* ---- what went wrong ---- */

static void set_error(struct tls_stream *t, int error)
{
    unsigned long code = ERR_peek_last_error();
    long verdict = SSL_get_verify_result(t->ssl);

    if (t->why[0])
        return;
    if (!t->shaken && verdict != X509_V_OK)
        snprintf(t->why, sizeof t->why, "the certificate of %.80s is not accepted: %s", t->host,
                 X509_verify_cert_error_string(verdict));
    else if (t->lower_ended)
        snprintf(t->why, sizeof t->why, "the connection ended without the goodbye of TLS");
    else if (t->error != 0)
        snprintf(t->why, sizeof t->why, "%s", strerror(-t->error));
    else
        snprintf(t->why, sizeof t->why, "TLS: %s", ERR_reason_error_string(code) ? ERR_reason_error_string(code) : "?");
    if (t->error == 0)
        t->error = error;
}

/* Of a call of OpenSSL that returned `n`: -EAGAIN with what it waits for, or the error. */
static int judge(struct tls_stream *t, int n, bool *ret_wants_write)
{
    int e = SSL_get_error(t->ssl, n);

    *ret_wants_write = e == SSL_ERROR_WANT_WRITE;
    if (e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE)
        return -EAGAIN;
    set_error(t, t->lower_ended ? -ECONNRESET : -EPROTO);
    return t->error;
}

/* ---- what is wanted below ---- */

static void want_below(struct tls_stream *t)
{
    bool read, write;

    if (t->closed)
        return;
    if (t->error != 0) {
        kr_eg_stream_want(t->lower, false, false);
        if (t->want_read || t->want_write)
            kr_soon_ask(t->soon);
        return;
    }
    if (!t->shaken) {
        kr_eg_stream_want(t->lower, !t->read_needs_write, t->read_needs_write);
        return;
    }
    read = (t->want_read && !t->read_needs_write) || (t->want_write && t->write_needs_read);
    write = (t->want_write && !t->write_needs_read) || (t->want_read && t->read_needs_write) || t->shutting;
    kr_eg_stream_want(t->lower, read, write);
    if (t->want_read && SSL_pending(t->ssl) > 0)
        kr_soon_ask(t->soon);
}

static void shake(struct tls_stream *t)
{
    int n;

    ERR_clear_error();
    n = SSL_do_handshake(t->ssl);
    if (n == 1) {
        t->shaken = true;
        t->read_needs_write = false;
    } else if (judge(t, n, &t->read_needs_write) != -EAGAIN) {
        t->read_needs_write = false;
    }
}

/* ---- from below ---- */

static void free_tls(struct tls_stream *t)
{
    SSL_free(t->ssl);
    kr_buf_done(&t->early);
    free(t);
}

static void enter(struct tls_stream *t)
{
    t->entered++;
}

static void leave(struct tls_stream *t)
{
    t->entered--;
    if (!t->closed)
        want_below(t);
    else if (t->entered == 0)
        free_tls(t);
}

static void say_readable(struct tls_stream *t)
{
    if (!t->closed && t->want_read && t->base.calls.on_readable)
        t->base.calls.on_readable(t->base.data);
}

static void say_writable(struct tls_stream *t)
{
    if (!t->closed && t->want_write && t->base.calls.on_writable)
        t->base.calls.on_writable(t->base.data);
}

static void send_goodbye(struct tls_stream *t)
{
    int n;

    ERR_clear_error();
    n = SSL_shutdown(t->ssl);
    t->shutting = n < 0 && SSL_get_error(t->ssl, n) == SSL_ERROR_WANT_WRITE;
    if (!t->shutting)
        kr_eg_stream_shut(t->lower);
}

static void on_below_readable(void *data)
{
    struct tls_stream *t = data;

    enter(t);
    if (!t->shaken) {
        shake(t);
        if (t->shaken) { /* what came with its last bytes is there already */
            say_writable(t);
            say_readable(t);
        }
    } else if (t->want_write && t->write_needs_read) {
        say_writable(t);
        say_readable(t);
    } else {
        say_readable(t);
    }
    leave(t);
}

static void on_below_writable(void *data)
{
    struct tls_stream *t = data;

    enter(t);
    if (!t->shaken) {
        shake(t);
        if (t->shaken)
            say_writable(t);
    } else {
        if (t->shutting)
            send_goodbye(t);
        if (t->want_read && t->read_needs_write)
            say_readable(t);
        say_writable(t);
    }
    leave(t);
}

static void on_tls_soon(void *data)
{
    struct tls_stream *t = data;

    enter(t);
    if (t->error != 0) {
        say_writable(t);
        say_readable(t);
    } else if (SSL_pending(t->ssl) > 0) {
        say_readable(t);
    }
    leave(t);
}

/* ---- the stream ---- */

static ssize_t read_tls(struct kr_eg_stream *s, void *buf, size_t len)
{
    struct tls_stream *t = (struct tls_stream *)s;
    int n;

    if (t->error != 0 || !t->shaken)
        return t->error != 0 ? t->error : -EAGAIN;
    ERR_clear_error();
    n = SSL_read(t->ssl, buf, len < INT32_MAX ? (int)len : INT32_MAX);
    if (n > 0) {
        t->read_needs_write = false;
        return n;
    }
    if (SSL_get_error(t->ssl, n) == SSL_ERROR_ZERO_RETURN)
        return 0;
    return judge(t, n, &t->read_needs_write);
}

static ssize_t write_tls(struct kr_eg_stream *s, const void *buf, size_t len)
{
    struct tls_stream *t = (struct tls_stream *)s;
    bool wants_write;
    int n, r;

    if (t->error != 0 || !t->shaken || len == 0)
        return t->error != 0 ? t->error : len == 0 ? 0 : -EAGAIN;
    ERR_clear_error();
    n = SSL_write(t->ssl, buf, len < INT32_MAX ? (int)len : INT32_MAX);
    if (n > 0) {
        t->write_needs_read = false;
        return n;
    }
    r = judge(t, n, &wants_write);
    t->write_needs_read = r == -EAGAIN && !wants_write;
    return r;
}

static void want_tls(struct kr_eg_stream *s, bool read, bool write)
{
    struct tls_stream *t = (struct tls_stream *)s;

    t->want_read = read;
    t->want_write = write;
    if (t->entered == 0)
        want_below(t); /* else leave() does */
}

static void shut_tls(struct kr_eg_stream *s)
{
    struct tls_stream *t = (struct tls_stream *)s;

    if (t->error != 0 || !t->shaken) {
        kr_eg_stream_shut(t->lower);
        return;
    }
    send_goodbye(t);
    if (t->entered == 0)
        want_below(t);
}

static void close_tls(struct kr_eg_stream *s)
{
    struct tls_stream *t = (struct tls_stream *)s;

    if (t->shaken && t->error == 0 && !t->shutting) {
        ERR_clear_error();
        (void)SSL_shutdown(t->ssl); /* what the stream below does not take now is not said */
    }
    t->closed = true;
    kr_soon_close(t->soon);
    kr_eg_stream_close(t->lower);
    t->lower = NULL;
    if (t->entered == 0)
        free_tls(t);
}

static const struct kr_eg_stream_ops tls_ops = {
    .read = read_tls,
    .write = write_tls,
    .want = want_tls,
    .shut = shut_tls,
    .close = close_tls,
};

const char *kr_eg_tls_why(const struct kr_eg_stream *s)
{
    return s && s->ops == &tls_ops ? ((const struct tls_stream *)s)->why : "";
}

/* ---- making one ---- */

static int name_peer(struct tls_stream *t)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
    struct in6_addr address;

    if (inet_pton(AF_INET, t->host, &address) == 1 || inet_pton(AF_INET6, t->host, &address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, t->host) == 1 ? 0 : -EINVAL;
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(t->ssl, t->host) != 1 || SSL_set_tlsext_host_name(t->ssl, t->host) != 1)
        return -EINVAL;
    return 0;
}

static int prepare(struct tls_stream *t, struct uv_loop_s *loop, SSL_CTX *context, BIO_METHOD *method)
{
    BIO *bio;
    int r = kr_soon_new(loop, on_tls_soon, t, &t->soon);

    if (r < 0)
        return r;
    t->ssl = SSL_new(context);
    bio = t->ssl ? BIO_new(method) : NULL;
    if (!bio)
        return -ENOMEM;
    BIO_set_data(bio, t);
    BIO_set_init(bio, 1);
    SSL_set_bio(t->ssl, bio, bio);
    return 0;
}

static void give_up_tls(struct tls_stream *t)
{
    kr_soon_close(t->soon);
    free_tls(t);
}

static void begin_tls(struct tls_stream *t, struct kr_eg_stream **ret_stream)
{
    static const struct kr_eg_stream_calls calls = {on_below_readable, on_below_writable};

    kr_eg_stream_set_calls(t->lower, &calls, t);
    shake(t);
    want_below(t);
    *ret_stream = &t->base;
}

static void set_modes(SSL_CTX *c)
{
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(c, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
}

int kr_eg_tls_client_new(struct uv_loop_s *loop, const struct kr_eg_tls_trust *trust, struct kr_eg_stream *lower,
                         const char *host, struct kr_eg_stream **ret_stream)
{
    struct tls_stream *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        return -ENOMEM;
    t->base.ops = &tls_ops;
    t->lower = lower;
    r = snprintf(t->host, sizeof t->host, "%s", host) < (int)sizeof t->host
            ? prepare(t, loop, trust->context, trust->method)
            : -EINVAL;
    if (r == 0)
        r = name_peer(t);
    if (r < 0) {
        give_up_tls(t);
        return r;
    }
    SSL_set_connect_state(t->ssl);
    begin_tls(t, ret_stream);
    return 0;
}

/* ---- the server's side ---- */

/* One protocol, if the client names any. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen;

    (void)ssl, (void)arg;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

SSL_CTX *kr_eg_tls_server_context(void)
{
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());

    if (!c)
        return NULL;
    set_modes(c);
    SSL_CTX_set_options(c, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(c, 0);
    SSL_CTX_set_alpn_select_cb(c, choose_protocol, NULL);
    if (SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) == 1)
        return c;
    SSL_CTX_free(c);
    return NULL;
}

int kr_eg_tls_server_new(struct uv_loop_s *loop, const struct kr_eg_tls_server *server, struct kr_eg_stream *lower,
                         const char *host, struct kr_buf *early, struct kr_eg_stream **ret_stream)
{
    struct tls_stream *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        return -ENOMEM;
    t->base.ops = &tls_ops;
    t->lower = lower;
    kr_buf_init(&t->early, early->max);
    snprintf(t->host, sizeof t->host, "%s", host);
    r = prepare(t, loop, server->context, server->trust->method);
    if (r == 0)
        r = kr_buf_add(&t->early, kr_buf_str(early), early->len);
    if (r == 0 &&
        (SSL_use_certificate(t->ssl, server->certificate) != 1 || SSL_use_PrivateKey(t->ssl, server->key) != 1))
        r = -EINVAL;
    if (r < 0) {
        give_up_tls(t);
        return r;
    }
    kr_buf_reset(early);
    SSL_set_accept_state(t->ssl);
    begin_tls(t, ret_stream);
    return 0;
}

/* ---- trust ---- */

/* The system's certificates in one file: what OpenSSL was built with, else where Debian keeps them. */
const char *kr_eg_tls_system_file(void)
{
    const char *built = X509_get_default_cert_file();

    return access(built, R_OK) == 0 ? built : "/etc/ssl/certs/ca-certificates.crt";
}

static int set_up_context(SSL_CTX *c, const char *ca_file, struct kr_err *err)
{
    static const unsigned char protocols[] = "\x08http/1.1";
    const char *file = ca_file ? ca_file : kr_eg_tls_system_file();

    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    set_modes(c);
    if (SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_alpn_protos(c, protocols, sizeof protocols - 1) != 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "set up TLS");
    ERR_clear_error();
    if (SSL_CTX_load_verify_file(c, file) != 1)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "read the certificates in %.120s: %s", file,
                          ERR_reason_error_string(ERR_peek_error()));
    return 0;
}

int kr_eg_tls_trust_new(const char *ca_file, struct kr_eg_tls_trust **ret_trust, struct kr_err *err)
{
    struct kr_eg_tls_trust *t = calloc(1, sizeof *t);
    int r;

    if (!t)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "set up TLS");
    t->method = make_method();
    t->context = SSL_CTX_new(TLS_client_method());
    if (!t->method || !t->context)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "set up TLS");
    else
        r = set_up_context(t->context, ca_file, err);
    if (r < 0) {
        kr_eg_tls_trust_free(t);
        return r;
    }
    *ret_trust = t;
    return 0;
}

void kr_eg_tls_trust_free(struct kr_eg_tls_trust *t)
{
    if (!t)
        return;
    SSL_CTX_free(t->context);
    BIO_meth_free(t->method);
    free(t);
}
