/* What the server's secrets need: no core dumps, certificates to trust, an authority of the server's own.
 *
 * Called by serve_app.c. Invariants: the authority's key goes to the egress process alone, its certificate to sandboxes
 * alone; without certificates or an authority there are no sandboxes with secrets_tls, and the rest works. */
#include "eg_ca.h"
#include "egress_client.h"
#include "egress_start.h"
#include "fd.h"
#include "log.h"
#include "serve.h"
#include "store_secret.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define BUNDLE_MAX (4u << 20)
#define CERTIFICATE_END "-----END CERTIFICATE-----\n"

void kr_serve_no_core(void)
{
    /* A core_pattern that is a pipe runs its program even at 0; at exactly 1 the kernel refuses (core(5)). */
    static const struct rlimit one = {1, 1};

    if (setrlimit(RLIMIT_CORE, &one) < 0)
        kr_log(KR_LOG_WARN, "core dumps not forbidden, ignoring", "errno=%d", errno);
}

void kr_serve_read_certificates(struct kr_serve *s)
{
    const char *file = s->config->egress.ca_file ? s->config->egress.ca_file : kr_eg_tls_system_file();
    char *bytes;
    ssize_t n;

    if (!s->warden.egress)
        return;
    bytes = calloc(1, BUNDLE_MAX);
    n = bytes ? kr_fd_read_file_at(AT_FDCWD, file, bytes, BUNDLE_MAX) : -ENOMEM;
    if (n > 0)
        s->ca_bundle = strdup(bytes);
    else
        kr_log_with(KR_LOG_WARN, "no certificates for sandboxes with secrets_tls", KR_F_STR("file", file));
    free(bytes);
}

/* The bundle becomes that of sandboxes: ours behind the system's. 0 or -ENOMEM. */
static int add_certificate(struct kr_serve *s, const char *pem)
{
    const char *end = strstr(pem, CERTIFICATE_END);
    char *both = NULL;

    if (!end || asprintf(&both, "%s\n%.*s", s->ca_bundle, (int)(end + sizeof CERTIFICATE_END - 1 - pem), pem) < 0)
        both = NULL;
    free(s->ca_bundle);
    s->ca_bundle = both;
    return both ? 0 : -ENOMEM;
}

int kr_serve_setup_egress(struct kr_serve *s, struct kr_err *err)
{
    char *pem = NULL;
    int r = s->ca_bundle ? kr_store_authority(s->store, kr_eg_ca_make, &pem, err) : 0;

    if (r < 0)
        return r;
    if (pem && add_certificate(s, pem) < 0)
        r = kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the certificates of sandboxes");
    if (r == 0)
        r = kr_cli_egress_setup(s->egress, s->config->index_credentials, pem, err);
    if (pem)
        explicit_bzero(pem, strlen(pem));
    free(pem);
    return r;
}
