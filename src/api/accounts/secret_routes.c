/* Secrets over HTTP: /api/v1/secrets. Handlers of the route table.
 *
 * A secret is its owner's alone: an administrator sees those of no other user. Invariant: a value comes in once, by
 * PUT, and is in no reply, log, audit row or error. */
#include "accounts.h"
#include "body_read.h"
#include "buf.h"
#include "json.h"
#include "reply.h"
#include "store_secret.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (1u << 20)

/* clang-format off */
static const struct kr_api_prop secret_props[] = {
    { .name = "name", .type = KR_API_STRING, .help = "Its name.", .example = "service" },
    { .name = "hosts", .type = KR_API_STRINGS, .help = "Where its value goes.",
      .example = "[\"https://api.example.org:443\"]" },
    { .name = "created_at", .type = KR_API_NUMBER, .help = "When it was first stored, in seconds since 1970.",
      .example = "1800000000.25" },
    { .name = "changed_at", .type = KR_API_NUMBER, .help = "When it got the value that it has.",
      .example = "1800000000.25" },
};
static const struct kr_api_schema secret_schema = KR_API_SCHEMA("Secret", "A secret, without its value.", secret_props);
static const struct kr_api_prop list_props[] = {
    { .name = "secrets", .type = KR_API_ARRAY, .of = &secret_schema, .help = "By name." },
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Secrets", "One's own secrets.", list_props);

struct put {
    const char *value;
    json_t *hosts;
};
static const struct kr_api_field put_fields[] = {
    { .name = "value", .type = KR_API_STRING, KR_API_AT(struct put, value), .required = true, .secret = true,
      KR_API_LENGTH(KR_SECRET_VALUE_MIN, KR_SECRET_VALUE_MAX),
      .help = "Printable ASCII. It is never shown again.", .example = "sk-4f9k2m7q" },
    { .name = "hosts", .type = KR_API_STRINGS, KR_API_AT(struct put, hosts), .required = true,
      KR_API_RANGE(1, KR_SECRET_HOSTS_MAX),
      .help = "Where it may go: HOST or HOST:PORT over TLS (443 without a port), http://HOST:PORT in plain HTTP.",
      .example = "[\"api.example.org\"]" },
};
static const struct kr_api_table put_table = KR_API_TABLE("SecretPut", "A secret's value and its hosts.", put_fields,
    struct put);

static const struct kr_api_param secret_params[] = { { "secret_name", "A secret's name.", "service" }, { 0 } };

#define DOC(id_, summary_, needs_) .id = (id_), .tag = "secrets", .summary = (summary_), .voice = KR_API_KRAIT, \
    .needs = (needs_)
const struct kr_api_doc kr_secrets_list_doc = {
    DOC("list_secrets", "List secrets", KR_RIGHT_READ), .description = "One's own; never their values.",
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "All of them.", .schema = &list_schema}, {0}},
};
const struct kr_api_doc kr_secrets_put_doc = {
    DOC("put_secret", "Store a secret", KR_RIGHT_RUN), .params = secret_params, .body = &put_table,
    .description = "In place of what the name had; sessions that run have the new value at once. A sandbox is given it "
                   "by its setting `secrets`: its code has a placeholder, and the value goes to these hosts alone.",
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The secret, without its value.",
    .schema = &secret_schema}, {0}},
};
const struct kr_api_doc kr_secrets_read_doc = {
    DOC("read_secret", "Read a secret's hosts", KR_RIGHT_READ), .params = secret_params,
    .description = "Its value cannot be read.",
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The secret, without its value.",
    .schema = &secret_schema}, {0}},
};
const struct kr_api_doc kr_secrets_delete_doc = {
    DOC("delete_secret", "Delete a secret", KR_RIGHT_RUN), .params = secret_params,
    .description = "Sessions that run lose it at once: their placeholders go out as they are.",
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "It is gone."}, {0}},
};
/* clang-format on */

static void write_secret(struct kr_json *j, const struct kr_store_secret *secret)
{
    kr_json_object(j);
    kr_json_key_str(j, "name", secret->name);
    kr_json_key(j, "hosts");
    kr_json_raw(j, secret->hosts, strlen(secret->hosts));
    kr_accounts_time_json(j, "created_at", secret->created);
    kr_accounts_time_json(j, "changed_at", secret->changed);
    kr_json_object_end(j);
}

static void reply_secret(struct kr_api *api, struct kr_http_ex *ex, const char *owner, const char *name)
{
    cleanup_buf struct kr_buf out;
    struct kr_store_secret secret;
    struct kr_json j;
    struct kr_err err;

    kr_buf_init(&out, REPLY_MAX);
    if (kr_store_secret_get(api->store, owner, name, &secret, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_json_init(&j, &out);
    write_secret(&j, &secret);
    kr_api_reply(ex, 200, &out);
}

static void on_listed_secret(void *data, const struct kr_store_secret *secret)
{
    write_secret(data, secret);
}

void kr_secrets_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    cleanup_buf struct kr_buf out;
    struct kr_api_who who;
    struct kr_json j;
    struct kr_err err;

    kr_buf_init(&out, REPLY_MAX);
    if (!kr_api_caller(api, ex, &who))
        return;
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key(&j, "secrets");
    kr_json_array(&j);
    if (kr_store_secrets_list(api->store, who.user, on_listed_secret, &j, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

void kr_secrets_read(struct kr_http_ex *ex, void *app)
{
    struct kr_api_who who;

    if (kr_api_caller(app, ex, &who))
        reply_secret(app, ex, who.user, kr_http_param(ex, "secret_name"));
}

/* ---- storing ---- */

/* The hosts in their one spelling, each once, as JSON; to be freed. NULL with err, which names the field. */
static char *spell_hosts(const json_t *hosts, struct kr_err *err)
{
    json_t *spelled = json_array(), *host;
    struct kr_err why;
    char *text = NULL;
    size_t i, k;
    bool bad = false;

    json_array_foreach(hosts, i, host)
    {
        char one[KR_SECRET_HOST_ROOM];
        struct kr_secret_host read;

        if (kr_secret_host_read(json_string_value(host), &read, &why) < 0) {
            kr_err_set(err, KR_ERR_INVALID, 0, "hosts: %.60s: %s", json_string_value(host), why.msg);
            bad = true;
            break;
        }
        kr_secret_host_text(&read, one, sizeof one);
        for (k = 0; k < json_array_size(spelled) && strcmp(json_string_value(json_array_get(spelled, k)), one) != 0;
             k++)
            ;
        if (k == json_array_size(spelled))
            json_array_append_new(spelled, json_string(one));
    }
    if (!bad && !(text = json_dumps(spelled, JSON_COMPACT)))
        kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "hosts");
    json_decref(spelled);
    return text;
}

static int keep_secret(struct kr_api *api, const struct kr_api_who *who, const char *name, const struct put *q,
                       struct kr_err *err)
{
    struct kr_err why;
    char *hosts;
    int r;

    if (kr_secret_name_check(name, &why) < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "secret_name: %s", why.msg), -EINVAL;
    if (kr_secret_value_check(q->value, strlen(q->value), &why) < 0)
        return kr_err_set(err, KR_ERR_INVALID, 0, "value: %s", why.msg), -EINVAL;
    hosts = spell_hosts(q->hosts, err);
    if (!hosts)
        return -EINVAL;
    r = kr_store_secret_put(api->store, who->user, name, hosts, q->value, kr_store_now(), err);
    free(hosts);
    return r;
}

static void on_secret_body(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const char *name = kr_http_param(ex, "secret_name");
    const struct put *q = request;
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    (void)in;
    if (!kr_api_caller(api, ex, &who))
        return;
    r = keep_secret(api, &who, name, q, &err);
    explicit_bzero((char *)(uintptr_t)q->value, strlen(q->value));
    if (r < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_accounts_audit(api, &who, "secret.put", name, "ok", NULL);
    kr_box_secrets_changed(api->box, who.user);
    reply_secret(api, ex, who.user, name);
}

void kr_secrets_put(struct kr_http_ex *ex, void *app)
{
    kr_api_read_body(((struct kr_api *)app)->loop, ex, app, &put_table, on_secret_body);
}

void kr_secrets_delete(struct kr_http_ex *ex, void *app)
{
    const char *name = kr_http_param(ex, "secret_name");
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_store_secret_delete(api->store, who.user, name, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_accounts_audit(api, &who, "secret.delete", name, "ok", NULL);
    kr_box_secrets_changed(api->box, who.user);
    kr_api_reply_nothing(ex);
}
