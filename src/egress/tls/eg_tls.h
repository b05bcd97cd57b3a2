/* TLS over a stream, as its client or its server: a stream like any other. The handshake goes on by itself from the
 * first moment; until it has ended, reads and writes are -EAGAIN. TLS 1.2 and later. Deadlines are the users'. */
#pragma once
#include "buf.h"
#include "eg_stream.h"
#include "err.h"

/* The file of certificates that servers are checked with where none is configured. */
const char *kr_eg_tls_system_file(void);

struct kr_eg_tls_trust; /* which certificates a client accepts */

/* Reads the certificates of `ca_file`, or the system's if NULL; nothing is read from disk later. 0 or -errno with
 * err. */
int kr_eg_tls_trust_new(const char *ca_file, struct kr_eg_tls_trust **ret_trust, struct kr_err *err);
void kr_eg_tls_trust_free(struct kr_eg_tls_trust *t);

/* The client's side. `host` is a name or an address: the certificate must be its. Takes `lower`, on success. 0 or
 * -errno. */
int kr_eg_tls_client_new(struct uv_loop_s *loop, const struct kr_eg_tls_trust *trust, struct kr_eg_stream *lower,
                         const char *host, struct kr_eg_stream **ret_stream);

struct ssl_ctx_st;
struct x509_st;
struct evp_pkey_st;
/* The server's side, with this certificate for `host`. What is in `early` was read from `lower` already, and is taken
 * out. Takes `lower`, on success. 0 or -errno. */
struct kr_eg_tls_server {
    struct ssl_ctx_st *context;
    const struct kr_eg_tls_trust *trust;
    struct x509_st *certificate;
    struct evp_pkey_st *key;
};
int kr_eg_tls_server_new(struct uv_loop_s *loop, const struct kr_eg_tls_server *server, struct kr_eg_stream *lower,
                         const char *host, struct kr_buf *early, struct kr_eg_stream **ret_stream);
/* A context for it. NULL if out of memory. To be freed with SSL_CTX_free(). */
struct ssl_ctx_st *kr_eg_tls_server_context(void);

/* After an error of such a stream: one sentence without its dot ("the certificate of HOST is not accepted: …"), or "".
 * A write that was -EAGAIN is tried again with the same bytes in front. */
const char *kr_eg_tls_why(const struct kr_eg_stream *s);
