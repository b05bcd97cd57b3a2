/* The server's own certificate authority: it vouches for hosts towards cells whose sandbox lets their TLS end in the
 * egress process. Its key is made by the server, kept there, and never in a cell. */
#pragma once
#include "eg_tls.h"

/* Makes an authority: PEM of its certificate, then of its key; to be wiped and freed. The certificate alone is for
 * cells. For the server. 0 or -ENOMEM. */
int kr_eg_ca_make(char **ret_pem);

struct kr_eg_ca;

/* `pem` is what kr_eg_ca_make() made. 0, -EINVAL or -ENOMEM. */
int kr_eg_ca_new(const char *pem, struct kr_eg_ca **ret_ca);
/* Takes NULL. */
void kr_eg_ca_free(struct kr_eg_ca *ca);
/* What speaks for `host`, a name or an address; borrowed until the next call. 0 or -errno. */
int kr_eg_ca_vouch(struct kr_eg_ca *ca, const char *host, struct kr_eg_tls_server *ret_server);
