/* TLS over a stream, as its client or its server: a stream like any other. The handshake goes on by itself from the
 * first moment; until it has ended, reads and writes are -EAGAIN. TLS 1.2 and later. Deadlines are the users'. */
#pragma once
#include "eg_stream.h"
#include "err.h"

struct kr_eg_tls_trust; /* which certificates a client accepts */

/* Reads the certificates of `ca_file`, or the system's if NULL; nothing is read from disk later. 0 or -errno with
 * err. */
int kr_eg_tls_trust_new(const char *ca_file, struct kr_eg_tls_trust **ret_trust, struct kr_err *err);
void kr_eg_tls_trust_free(struct kr_eg_tls_trust *t);

/* The client's side. `host` is a name or an address: the certificate must be its. Takes `lower`, on success. 0 or
 * -errno. */
int kr_eg_tls_client_new(struct uv_loop_s *loop, const struct kr_eg_tls_trust *trust, struct kr_eg_stream *lower,
                         const char *host, struct kr_eg_stream **ret_stream);

/* After an error of such a stream: one sentence without its dot ("the certificate of HOST is not accepted: …"), or "".
 * A write that was -EAGAIN is tried again with the same bytes in front. */
const char *kr_eg_tls_why(const struct kr_eg_stream *s);
