/* Sessions' ways out: what the egress process is told of their cells, and what it tells of connections.
 *
 * Called by box_sessions.c (a session is live, is gone) and box_run_events.c (a run begins, ends). Invariants: the
 * process knows a cell from the moment its session is live until its end, under the rule of the run that is in it; a
 * connection that was refused is told to the run's author, once. */
#include "box_internal.h"
#include "egress_client.h"
#include "egress_env.h"
#include "egress_row.h"
#include "log.h"
#include "store_secret.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The narrower of the two, as far as it can be told. */
static const struct kr_net_rule *rule_of(const struct kr_box_session *session, const struct kr_box_run *r)
{
    static const struct kr_net_rule nothing = {.kind = KR_NET_NONE};
    const struct kr_net_rule *own = &session->spec.network, *asked = r ? r->network : NULL;

    if (!asked || kr_net_rule_within(own, asked))
        return own;
    return kr_net_rule_within(asked, own) ? asked : &nothing;
}

/* ---- secrets ---- */

/* Of a secret's hosts those that the sandbox reaches with it: over TLS only as it says. */
static json_t *hosts_of(const struct kr_store_secret *secret, bool tls)
{
    json_t *all = json_loads(secret->hosts, JSON_REJECT_DUPLICATES, NULL), *hosts = json_array(), *host;
    struct kr_secret_host read;
    size_t i;

    json_array_foreach(all, i, host)
    {
        if (json_is_string(host) && kr_secret_host_read(json_string_value(host), &read, NULL) == 0 &&
            (tls || !read.tls))
            json_array_append(hosts, host);
    }
    json_decref(all);
    return hosts;
}

/* What the egress process is told of one; NULL: it is not there, or does not open. */
static json_t *tell_secret(const struct kr_box_session *session, const char *name)
{
    char value[KR_SECRET_VALUE_MAX + 1] = "", placeholder[KR_SECRET_PLACEHOLDER_LEN + 1];
    struct kr_store *store = session->box->config.store;
    struct kr_store_secret secret;
    struct kr_err err;
    json_t *told = NULL;
    int r = kr_store_secret_open(store, session->user->id, name, &secret, value, &err);

    if (r >= 0) {
        kr_store_secret_placeholder(store, session->user->id, session->sandbox, name, placeholder);
        told = json_pack("{ss ss ss so}", "name", name, "placeholder", placeholder, "value", value, "hosts",
                         hosts_of(&secret, session->secrets_tls));
    } else if (r != -ENOENT) {
        kr_log_with(KR_LOG_ERROR, "secret not usable", KR_F_STR("name", name), KR_F_STR("error", err.msg));
    }
    explicit_bzero(value, sizeof value);
    return told;
}

/* Those of the session, each once; NULL: none. To be given to wipe_secrets(). */
static json_t *secrets_of(const struct kr_box_session *session)
{
    json_t *list = json_object_size(session->secrets) > 0 ? json_array() : NULL, *name,
           *seen = list ? json_object() : NULL;
    const char *key;

    json_object_foreach(session->secrets, key, name)
    {
        const char *text = json_string_value(name);
        json_t *told = text && !json_object_get(seen, text) ? tell_secret(session, text) : NULL;

        if (!told)
            continue;
        json_object_set_new(seen, text, json_true());
        json_array_append_new(list, told);
    }
    json_decref(seen);
    return list;
}

static void wipe_secrets(json_t *list)
{
    json_t *secret;
    size_t i;

    json_array_foreach(list, i, secret)
    {
        json_t *value = json_object_get(secret, "value");
        char *bytes = (char *)(uintptr_t)json_string_value(value);

        if (bytes)
            explicit_bzero(bytes, json_string_length(value));
    }
    json_decref(list);
}

int kr_box_secrets_check(const struct kr_box *b, const char *user, const json_t *settings, struct kr_err *err)
{
    const char *key;
    json_t *name;

    json_object_foreach(json_object_get(settings, "secrets"), key, name)
    {
        struct kr_store_secret secret;
        struct kr_err why;
        int r = kr_store_secret_get(b->config.store, user, json_string_value(name), &secret, &why);

        if (r == -ENOENT)
            return kr_err_set(err, KR_ERR_INVALID, 0,
                              "secrets.%.40s: there is no secret called %.64s: store it first (PUT "
                              "/api/v1/secrets/{secret_name})",
                              key, json_string_value(name)),
                   -EINVAL;
        if (r < 0) {
            *err = why;
            return r;
        }
    }
    return 0;
}

/* ---- what the process is told ---- */

static struct kr_egress_cell cell_of(const struct kr_box_session *session, const struct kr_box_run *r)
{
    return (struct kr_egress_cell){
        .cell = session->cell,
        .sandbox = session->sandbox,
        .user = session->user->id,
        .run = r ? r->id : NULL,
        .rule = *rule_of(session, r),
        .secrets = secrets_of(session),
    };
}

void kr_box_egress_begin(struct kr_box_session *session)
{
    int listener = kr_session_listener(session->engine_session);
    struct kr_egress_cell cell;
    int r;

    if (listener < 0 || !session->box->config.egress)
        return;
    session->cell = kr_session_cell(session->engine_session);
    cell = cell_of(session, NULL);
    r = kr_egress_add(session->box->config.egress, &cell, listener);
    wipe_secrets((json_t *)(uintptr_t)cell.secrets);
    if (r >= 0)
        return;
    session->cell = 0;
    kr_log(KR_LOG_ERROR, "session without its way out", "session=%s sandbox=%s errno=%d", session->name,
           session->sandbox, -r);
}

void kr_box_secrets_changed(struct kr_box *b, const char *user)
{
    struct kr_box_session *session, *next;

    for (session = TAILQ_FIRST(&b->sessions); session; session = next) {
        next = TAILQ_NEXT(session, link);
        if (session->secrets && strcmp(session->user->id, user) == 0)
            kr_box_egress_tell(session, session->current);
    }
}

void kr_box_egress_tell(struct kr_box_session *session, const struct kr_box_run *run)
{
    struct kr_egress_cell cell;
    int r;

    if (!session->cell)
        return;
    cell = cell_of(session, run);
    r = kr_egress_change(session->box->config.egress, &cell);
    wipe_secrets((json_t *)(uintptr_t)cell.secrets);
    if (r >= 0)
        return;
    kr_log(KR_LOG_ERROR, "session loses its way out", "session=%s errno=%d", session->name, -r);
    kr_box_egress_end(session); /* rather none than one under another rule */
}

void kr_box_egress_end(struct kr_box_session *session)
{
    if (session->cell)
        kr_egress_drop(session->box->config.egress, session->cell);
    session->cell = 0;
}

/* ---- what it tells ---- */

static struct kr_box_session *session_of_cell(struct kr_box *b, uint64_t cell)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    if (cell && session->cell == cell)
        return session;
    return NULL;
}

static const char *member(const json_t *row, const char *name)
{
    const char *text = json_string_value(json_object_get(row, name));

    return text ? text : "";
}

/* The first that was refused is what its author is told. */
static void note_refusal(struct kr_box_run *r, const json_t *row)
{
    if (r->refused_count++ > 0)
        return;
    kr_egress_row_refusal(row, r->refused, sizeof r->refused);
}

static void on_connection(void *data, const json_t *row)
{
    struct kr_box *b = data;
    uint64_t cell = (uint64_t)json_integer_value(json_object_get(row, "cell"));
    const char *verdict = member(row, "verdict"), *run = json_string_value(json_object_get(row, "run"));
    struct kr_box_run *r = run ? kr_box_run_by_id(b, run) : NULL;
    const struct kr_box_session *session = session_of_cell(b, cell);

    if (cell && session && strcmp(session->user->id, member(row, "user")) != 0)
        return; /* a cell's connections are its user's, whatever the process says */
    if (strcmp(verdict, "denied") == 0 && r && r->state != KR_BOX_RUN_OVER &&
        strcmp(r->user->id, member(row, "user")) == 0)
        note_refusal(r, row);
    kr_connections_take(b, row);
    kr_security_note_connection(b->security, row);
    if (b->calls.on_connection)
        b->calls.on_connection(b->data, row);
}

void kr_box_egress_open(struct kr_box *b)
{
    const struct kr_egress_calls calls = {on_connection, b};

    if (b->config.egress)
        kr_egress_set_calls(b->config.egress, &calls);
}

void kr_box_egress_close(struct kr_box *b)
{
    struct kr_box_session *session;

    TAILQ_FOREACH(session, &b->sessions, link)
    kr_box_egress_end(session);
    if (b->config.egress)
        kr_egress_set_calls(b->config.egress, &(struct kr_egress_calls){0});
}

void kr_box_egress_hint(struct kr_box_run *r)
{
    if (r->session->cell)
        kr_egress_catch_up(r->box->config.egress);
    if (r->refused_count == 0)
        return;
    snprintf(r->hint, sizeof r->hint, "%s", r->refused);
}

/* ---- the environment ---- */

/* Where programs look for the certificates that they trust. */
static const char *const trust_vars[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE",  "CURL_CA_BUNDLE",
                                         "PIP_CERT",      "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"};
#define TRUST_VARS (sizeof trust_vars / sizeof *trust_vars)

size_t kr_box_egress_env_most(const struct kr_box_session *session, const struct kr_session_spec *spec)
{
    return kr_egress_vars_of(&spec->network) + json_object_size(session->secrets) + TRUST_VARS;
}

static int add_var(struct kr_session_spec *spec, const char *name, const char *value)
{
    char *text;

    if (asprintf(&text, "%s=%s", name, value) < 0)
        return -ENOMEM;
    ((const char **)spec->env)[spec->env_count++] = text;
    return 0;
}

static int add_secret_vars(const struct kr_box_session *session, const json_t *env, struct kr_session_spec *spec)
{
    char placeholder[KR_SECRET_PLACEHOLDER_LEN + 1];
    const char *key;
    json_t *name;
    int r = 0;

    json_object_foreach(session->secrets, key, name)
    {
        kr_store_secret_placeholder(session->box->config.store, session->user->id, session->sandbox,
                                    json_string_value(name), placeholder);
        r |= add_var(spec, key, placeholder);
    }
    for (size_t i = 0; session->secrets_tls && i < TRUST_VARS; i++)
        if (!json_object_get(env, trust_vars[i]) && !json_object_get(session->secrets, trust_vars[i]))
            r |= add_var(spec, trust_vars[i], KR_BOX_CA_PATH);
    return r < 0 ? -ENOMEM : 0;
}

int kr_box_egress_env(const struct kr_box_session *session, const json_t *env, struct kr_session_spec *spec)
{
    for (size_t i = 0; i < kr_egress_vars_of(&spec->network); i++) {
        if (json_object_get(env, kr_egress_vars[i].name) || json_object_get(session->secrets, kr_egress_vars[i].name))
            continue;
        if (add_var(spec, kr_egress_vars[i].name, kr_egress_vars[i].value) < 0)
            return -ENOMEM;
    }
    return spec->network.kind >= KR_NET_EGRESS_MIN_ ? add_secret_vars(session, env, spec) : 0;
}
