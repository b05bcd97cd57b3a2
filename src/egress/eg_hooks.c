/* What the second half of the room adds to the proxy: one row, read by the first half wherever a hook may come in. */
#include "eg_index_cell.h"
#include "eg_second.h"
#include "log.h"
#include <errno.h>
#include <stdlib.h>

static void free_second(struct kr_eg_second *s)
{
    kr_eg_fetches_free(s->fetches);
    kr_eg_index_free(s->index);
    kr_eg_ca_free(s->ca);
    kr_eg_tls_trust_free(s->trust);
    free(s);
}

/* Without certificates all that needs none still works, and the rest is refused in words: a process that does not begin
 * would leave cells waiting without one. */
static void read_trust(struct kr_eg *eg, struct kr_eg_second *s)
{
    struct kr_err err;

    if (kr_eg_tls_trust_new(eg->config->ca_file, &s->trust, &err) < 0)
        kr_log_with(KR_LOG_ERROR, "no certificates to check servers with", KR_F_STR("error", err.msg));
}

static int start_second(struct kr_eg *eg, void **ret_data, struct kr_err *err)
{
    struct kr_eg_second *s = calloc(1, sizeof *s);
    int r;

    if (!s)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "start the egress process");
    read_trust(eg, s);
    r = kr_eg_index_new(eg, s->trust, &s->index, err);
    if (r == 0 && (r = kr_eg_fetches_new(eg, s->index, s->trust, &s->fetches)) < 0)
        kr_err_set(err, KR_ERR_SYSTEM, -r, "start the egress process");
    if (r < 0) {
        free_second(s);
        return r;
    }
    *ret_data = s;
    return 0;
}

static void stop_second(struct kr_eg *eg)
{
    if (eg->second)
        free_second(eg->second);
    eg->second = NULL;
}

static const char *reads_of_second(const struct kr_eg *eg)
{
    return kr_eg_index_folder(kr_eg_second(eg)->index);
}

static void set_ca(struct kr_eg_second *s, const char *pem)
{
    kr_eg_ca_free(s->ca);
    s->ca = NULL;
    if (pem && kr_eg_ca_new(pem, &s->ca) < 0)
        kr_log_with(KR_LOG_ERROR, "own certificate authority not understood: TLS of sandboxes is passed as it is");
}

static bool has_ca(const struct kr_eg *eg)
{
    return kr_eg_second(eg)->ca && kr_eg_second(eg)->trust;
}

static int serve_tls(struct kr_eg *eg, struct kr_eg_stream **stream, const char *host, struct kr_buf *early)
{
    const struct kr_eg_second *s = kr_eg_second(eg);
    struct kr_eg_tls_server server;
    int r = has_ca(eg) ? kr_eg_ca_vouch(s->ca, host, &server) : -ENOENT; /* E_SETUP may have come since it was asked */

    if (r < 0)
        return r;
    server.trust = s->trust;
    return kr_eg_tls_server_new(&eg->loop, &server, *stream, host, early, stream);
}

static int ask_tls(struct kr_eg *eg, struct kr_eg_stream **stream, const char *host)
{
    return kr_eg_tls_client_new(&eg->loop, kr_eg_second(eg)->trust, *stream, host, stream);
}

static void on_setup(struct kr_eg *eg, const json_t *setup)
{
    kr_eg_index_set_user(kr_eg_second(eg)->index, json_string_value(json_object_get(setup, "index_user")),
                         json_string_value(json_object_get(setup, "index_password")));
    set_ca(kr_eg_second(eg), json_string_value(json_object_get(setup, "own_ca")));
}

static void on_fetch(struct kr_eg *eg, uint32_t id, const json_t *ask, int file)
{
    kr_eg_fetch_start(kr_eg_second(eg)->fetches, id, ask, file);
}

static void on_cancel(struct kr_eg *eg, uint32_t id)
{
    kr_eg_fetch_cancel(kr_eg_second(eg)->fetches, id);
}

const struct kr_eg_hooks kr_eg_hooks = {
    .start = start_second,
    .stop = stop_second,
    .reads = reads_of_second,
    .on_setup = on_setup,
    .on_index = kr_eg_index_serve,
    .on_fetch = on_fetch,
    .on_cancel = on_cancel,
    .has_ca = has_ca,
    .serve_tls = serve_tls,
    .ask_tls = ask_tls,
};
