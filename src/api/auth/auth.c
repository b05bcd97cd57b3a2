/* The gate: Host and Origin, then the key, then the right. Called by the HTTP engine for every request with a good
 * head, and by handlers for who asks.
 *
 * Invariant: a route whose doc does not say `open` is reached with a good key that has its rights, or with
 * authentication off. A good key is let in whatever else came from its address, so that one client cannot lock out
 * others behind it; wrong keys are counted by address, and past a bound each waits for its refusal. */
#include "auth.h"
#include "clock.h"
#include "credential.h"
#include "route_doc.h"
#include "err.h"
#include "grants.h"
#include "guard.h"
#include "json.h"
#include "buf.h"
#include "log.h"
#include "metrics.h"
#include "reply.h"
#include "secret.h"
#include "slow.h"
#include "throttle.h"
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define ACCOUNT_ROUTES "/api/users/me"

struct kr_auth {
    struct kr_auth_config config;
    char *api_key;
    struct kr_grants *grants;
    struct kr_throttle *failures; /* by network */
    struct kr_throttle *rows;     /* of the audit log: one account for all */
    struct kr_slow *slow;         /* refusals that are kept back */
    uint64_t single_noted;        /* when the use of the configured key was last written down */
    uint64_t (*clock)(void);
};

/* ---- making ---- */

int kr_auth_new(const struct kr_auth_config *config, struct kr_auth **ret_auth, struct kr_err *err)
{
    struct kr_auth *a = calloc(1, sizeof *a);

    if (!a)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "authentication");
    a->config = *config;
    a->config.api_key = NULL;
    a->clock = kr_clock_ns;
    if ((config->api_key && !(a->api_key = strdup(config->api_key))) ||
        kr_grants_new(KR_AUTH_REMEMBER_MS * MS, &a->grants) < 0 ||
        kr_throttle_new(KR_AUTH_FAILURES_MAX, KR_AUTH_FAILURE_MS * MS, &a->failures) < 0 ||
        kr_throttle_new(KR_AUTH_AUDIT_MAX, KR_AUTH_AUDIT_MS * MS, &a->rows) < 0 ||
        kr_slow_new(config->loop, &a->slow) < 0) {
        kr_auth_free(a);
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "authentication");
    }
    *ret_auth = a;
    return 0;
}

static void forget_key(struct kr_auth *a)
{
    if (a->api_key)
        sodium_memzero(a->api_key, strlen(a->api_key));
    free(a->api_key);
    a->api_key = NULL;
}

int kr_auth_set_key(struct kr_auth *a, const char *api_key)
{
    char *copy = strdup(api_key);

    if (!copy)
        return -ENOMEM;
    forget_key(a);
    a->api_key = copy;
    a->single_noted = 0;
    return 0;
}

void kr_auth_free(struct kr_auth *a)
{
    if (!a)
        return;
    forget_key(a);
    kr_grants_free(a->grants);
    kr_throttle_free(a->failures);
    kr_throttle_free(a->rows);
    kr_slow_free(a->slow);
    free(a);
}

void kr_auth_set_clock(struct kr_auth *a, uint64_t (*clock)(void))
{
    a->clock = clock;
}

void kr_auth_forget(struct kr_auth *a)
{
    kr_grants_forget(a->grants);
}

/* ---- verdicts ---- */

enum verdict {
    V_GOOD,
    V_MISSING,
    V_CLASH,
    V_INVALID,
    V_EXPIRED,
    V_REVOKED,
    V_DISABLED,
    V_RIGHTS,
    V_THROTTLED,
    V_TROUBLE, /* the store's; err says what */
    V_MAX_,
};

#define HOW "send it as `Authorization: Bearer KEY` or `X-API-Key: KEY`; `krait keys create` makes one"

/* What is said of each: to our clients, to those of the documents, to those of the account routes of document 004
 * (mcp-sandbox). */
/* clang-format off */
static const struct {
    const char *reason; /* of the metric, and the outcome in the audit log; NULL: not counted */
    bool audited;       /* a request without a key is only counted: there are many */
    enum kr_err_kind kind;
    const char *ours, *document, *account;
} verdicts[V_MAX_] = {
    [V_MISSING]   = { "missing",   false, KR_ERR_UNAUTHORIZED, "API key required: " HOW, "API key required",
        "Could not validate credentials" },
    [V_CLASH]     = { "invalid",   true,  KR_ERR_INVALID, "two different keys in one request: " HOW, NULL, NULL },
    [V_INVALID]   = { "invalid",   true,  KR_ERR_UNAUTHORIZED, "this API key is not known: " HOW, "Invalid API key",
        "Could not validate credentials" },
    [V_EXPIRED]   = { "expired",   true,  KR_ERR_UNAUTHORIZED,
        "this API key or login has run out; `krait keys create` makes a key", "Invalid API key",
        "Could not validate credentials" },
    [V_REVOKED]   = { "revoked",   true,  KR_ERR_UNAUTHORIZED, "this API key is revoked; `krait keys create` makes one",
        "Invalid API key", "Could not validate credentials" },
    [V_DISABLED]  = { "disabled",  true,  KR_ERR_FORBIDDEN, "this user is disabled", NULL, "Inactive user" },
    [V_RIGHTS]    = { "rights",    true,  KR_ERR_FORBIDDEN, NULL, NULL, NULL },
    [V_THROTTLED] = { "throttled", false, KR_ERR_TOO_MANY, "too many wrong keys from this address: try again later",
        NULL, NULL },
};
/* clang-format on */

struct judgement {
    enum verdict verdict;
    uint64_t wait_ns; /* of V_THROTTLED */
    char prefix[KR_STORE_SHOWN_ROOM];
    struct kr_err err; /* of V_TROUBLE */
};

static bool is_open(const struct kr_auth *a, const struct kr_api_doc *doc)
{
    return doc && (doc->open || (a->config.open_too && strcmp(doc->id, a->config.open_too) == 0));
}

static bool looks_stored(const char *text)
{
    return strncmp(text, KR_STORE_KEY_PREFIX, strlen(KR_STORE_KEY_PREFIX)) == 0 ||
           strncmp(text, KR_STORE_TOKEN_PREFIX, strlen(KR_STORE_TOKEN_PREFIX)) == 0;
}

static void be_root(struct kr_api_who *who, enum kr_auth_how how)
{
    who->how = how;
    snprintf(who->user, sizeof who->user, "%s", KR_STORE_ROOT);
    snprintf(who->name, sizeof who->name, "%s", KR_STORE_ROOT);
    who->caller.rights = KR_RIGHT_ALL;
}

static void be_granted(struct kr_api_who *who, const struct kr_store_grant *grant)
{
    who->how = grant->key[0] ? KR_AUTH_KEY : KR_AUTH_TOKEN;
    memcpy(who->user, grant->user, sizeof who->user);
    memcpy(who->name, grant->name, sizeof who->name);
    memcpy(who->key, grant->key, sizeof who->key);
    who->expires = grant->expires;
    who->caller.rights = grant->rights;
}

static void audit_key(struct kr_auth *a, const struct kr_api_who *who, const char *what, const char *object,
                      const char *outcome, const char *detail)
{
    if (a->config.audit)
        a->config.audit(a->config.data, &who->caller, what, object, outcome, detail);
}

/* Asks the store about a text that looks like a key of its. */
static enum verdict ask_store(struct kr_auth *a, const char *text, struct kr_api_who *who, struct kr_err *err)
{
    uint64_t now = a->clock();
    int64_t now_us = kr_store_now();
    struct kr_store_grant grant;
    int r;

    if (kr_grants_find(a->grants, text, now, now_us, &grant)) {
        be_granted(who, &grant);
        return V_GOOD;
    }
    r = kr_store_grant(a->config.store, text, now_us, &grant, err);
    if (r == 0) {
        be_granted(who, &grant);
        if (kr_grants_keep(a->grants, text, &grant, now, KR_AUTH_USE_MS * MS) && grant.key[0])
            audit_key(a, who, "key.use", grant.key, "ok", NULL);
        return V_GOOD;
    }
    return r == -ENOKEY        ? V_INVALID
           : r == -EKEYREVOKED ? V_REVOKED
           : r == -EKEYEXPIRED ? V_EXPIRED
           : r == -EACCES      ? V_DISABLED
                               : V_TROUBLE;
}

/* Is it the configured key? It is compared whatever its address owes: in constant time, for less than the request's
 * head costs. `guarded`: a wrong one is counted. */
static enum verdict try_single(struct kr_auth *a, const char *text, bool guarded, struct kr_api_who *who,
                               uint64_t *ret_wait)
{
    uint64_t now = a->clock();
    char network[KR_THROTTLE_KEY_ROOM];

    if (a->api_key && kr_secret_equal(a->api_key, text)) {
        be_root(who, KR_AUTH_SINGLE);
        if (a->single_noted == 0 || now - a->single_noted >= KR_AUTH_USE_MS * MS) {
            a->single_noted = now;
            audit_key(a, who, "key.use", "api_key", "ok", NULL);
        }
        return V_GOOD;
    }
    if (!guarded)
        return V_INVALID;
    kr_throttle_network(who->address, network);
    *ret_wait = kr_throttle_wait(a->failures, network, now);
    if (*ret_wait == 0)
        kr_throttle_fail(a->failures, network, now);
    return *ret_wait > 0 ? V_THROTTLED : V_INVALID;
}

static void judge_key(struct kr_auth *a, const struct kr_http_ex *ex, bool guarded, struct kr_api_who *who,
                      struct judgement *j)
{
    cleanup_credential struct kr_credential c;

    kr_credential_read(ex, &c);
    if (c.state == KR_CREDENTIAL_NONE || c.state == KR_CREDENTIAL_CLASH) {
        j->verdict = c.state == KR_CREDENTIAL_NONE ? V_MISSING : V_CLASH;
        return;
    }
    j->verdict = V_INVALID;
    if (c.state == KR_CREDENTIAL_ONE && looks_stored(c.text)) {
        snprintf(j->prefix, sizeof j->prefix, "%.*s", (int)sizeof j->prefix - 1, c.text);
        j->verdict = ask_store(a, c.text, who, &j->err);
    }
    if (j->verdict == V_INVALID) /* also one that is too long for a key: it is a wrong one */
        j->verdict = try_single(a, c.state == KR_CREDENTIAL_ONE ? c.text : "", guarded, who, &j->wait_ns);
}

/* Who asks, and whether they may use the route. `guarded`: this is the first time that the request's key is looked
 * at. */
static void judge_request(struct kr_auth *a, const struct kr_http_ex *ex, bool guarded, struct kr_api_who *who,
                          struct judgement *j)
{
    const struct kr_api_doc *doc = kr_api_doc_of(ex);

    *j = (struct judgement){.verdict = V_GOOD};
    *who = (struct kr_api_who){.how = KR_AUTH_NOBODY};
    who->caller = (struct kr_caller){
        .user = who->user, .address = kr_http_peer(ex, who->address), .request = kr_http_request_id(ex)};
    if (!a->config.on)
        be_root(who, KR_AUTH_OFF);
    else
        judge_key(a, ex, guarded, who, j);
    if (j->verdict == V_GOOD && doc && (who->caller.rights & doc->needs) != doc->needs)
        j->verdict = V_RIGHTS;
}

/* ---- refusals ---- */

static void note_refusal(struct kr_auth *a, const struct kr_http_ex *ex, const struct kr_api_who *who,
                         const struct judgement *j)
{
    const char *reason = verdicts[j->verdict].reason;
    char quoted[160];
    struct kr_json json;
    struct kr_buf detail;

    kr_metrics_inc(a->config.metrics, KR_M_AUTH_FAILURES, KR_AT(reason));
    kr_log(verdicts[j->verdict].audited ? KR_LOG_WARN : KR_LOG_DEBUG, "request refused", "reason=%s address=%s path=%s",
           reason, who->address, kr_log_quote(quoted, sizeof quoted, kr_http_path(ex), 100));
    if (!verdicts[j->verdict].audited || kr_throttle_wait(a->rows, "", a->clock()) > 0)
        return;
    kr_throttle_fail(a->rows, "", a->clock());
    kr_buf_init(&detail, KR_STORE_NAME_MAX * 4);
    kr_json_init(&json, &detail);
    kr_json_object(&json);
    kr_json_key_str(&json, "method", kr_http_method_name(kr_http_method(ex)));
    if (j->prefix[0])
        kr_json_key_str(&json, "prefix", j->prefix);
    kr_json_object_end(&json);
    audit_key(a, who, "auth.refused", kr_http_path(ex), reason, kr_json_done(&json) < 0 ? NULL : kr_buf_str(&detail));
    kr_buf_done(&detail);
}

/* "the key has the rights read; this needs run" */
static void rights_text(unsigned rights, unsigned needs, struct kr_err *err)
{
    char has[KR_RIGHTS_ROOM], lacks[KR_RIGHTS_ROOM];

    kr_err_set(err, KR_ERR_FORBIDDEN, 0, "the key has the right to %s; this needs %s",
               rights ? kr_rights_show(rights, has) : "nothing", kr_rights_show(needs, lacks));
}

static void refuse_key(struct kr_auth *a, struct kr_http_ex *ex, const struct kr_api_who *who,
                       const struct judgement *j)
{
    bool account = strncmp(kr_http_path(ex), ACCOUNT_ROUTES, strlen(ACCOUNT_ROUTES)) == 0;
    bool document = kr_api_voice_of(ex) == KR_API_DOCUMENT;
    const char *text = verdicts[j->verdict].ours;
    struct kr_err err;

    if (j->verdict == V_TROUBLE) {
        kr_api_fail(ex, &j->err);
        return;
    }
    note_refusal(a, ex, who, j);
    if (document && verdicts[j->verdict].document)
        text = verdicts[j->verdict].document;
    if (document && account && verdicts[j->verdict].account)
        text = verdicts[j->verdict].account;
    if (j->verdict == V_RIGHTS)
        rights_text(who->caller.rights, kr_api_doc_of(ex)->needs, &err);
    else
        kr_err_set(&err, verdicts[j->verdict].kind, 0, "%s", text);
    if (a->config.challenge && verdicts[j->verdict].kind == KR_ERR_UNAUTHORIZED)
        kr_http_set_header(ex, "WWW-Authenticate", a->config.challenge);
    if (j->verdict == V_THROTTLED)
        kr_slow_refuse(a->slow, ex, &err, (unsigned)(j->wait_ns / (1000 * MS)) + 1);
    else if (j->verdict == V_DISABLED && document && account)
        kr_api_fail_status(ex, 400, "%s", text); /* as document 004 does */
    else
        kr_api_fail(ex, &err);
}

/* ---- Host, Origin ---- */

/* False: answered. */
static bool pass_guard(struct kr_auth *a, struct kr_http_ex *ex)
{
    char quoted[160], address[KR_HTTP_PEER_MAX];
    struct kr_guard_request request = {
        .method = kr_http_method_name(kr_http_method(ex)),
        .path = kr_http_path(ex),
        .host = kr_http_header(ex, "host"),
        .address = kr_http_peer(ex, address),
        .origin = kr_http_header(ex, "origin"),
        .sec_fetch_site = kr_http_header(ex, "sec-fetch-site"),
        .sec_fetch_mode = kr_http_header(ex, "sec-fetch-mode"),
        .sec_fetch_dest = kr_http_header(ex, "sec-fetch-dest"),
        .ac_request_method = kr_http_header(ex, "access-control-request-method"),
        .ac_request_private_network = kr_http_header(ex, "access-control-request-private-network"),
        .is_link = a->config.is_link && a->config.is_link(a->config.data, ex),
    };
    struct kr_guard_header headers[KR_GUARD_HEADERS_MAX];
    struct kr_guard_verdict verdict;
    size_t count;

    kr_guard_judge(a->config.guard, &request, &verdict);
    count = kr_guard_cors_headers(a->config.guard, &verdict, headers);
    for (size_t i = 0; i < count; i++)
        kr_http_set_header(ex, headers[i].name, headers[i].value);
    if (verdict.status == 0)
        return true;
    if (verdict.status == 204) {
        kr_http_reply(ex, 204, NULL, NULL, 0);
        return false;
    }
    kr_log(KR_LOG_WARN, "request refused", "reason=%s host=%s hint=\"%s\"", verdict.status == 403 ? "origin" : "host",
           kr_log_quote(quoted, sizeof quoted, request.host ? request.host : "", 100),
           verdict.hint ? verdict.hint : "");
    kr_api_fail_status(ex, verdict.status, "%s", verdict.text);
    return false;
}

/* ---- the two doors ---- */

static bool gate(struct kr_auth *a, struct kr_http_ex *ex)
{
    const struct kr_http_route *route = kr_http_route(ex);
    struct kr_api_who who;
    struct judgement j;

    if (a->config.guard && !pass_guard(a, ex))
        return false;
    if (!route || is_open(a, kr_api_doc_of(ex)))
        return true; /* without a route: 404 or 405, which need no key */
    judge_request(a, ex, true, &who, &j);
    if (j.verdict == V_GOOD)
        return true;
    refuse_key(a, ex, &who, &j);
    return false;
}

bool kr_auth_gate(struct kr_auth *a, struct kr_http_ex *ex)
{
    bool passed;

    kr_log_set_request(kr_http_request_id(ex));
    passed = gate(a, ex);
    kr_log_set_request(NULL);
    return passed;
}

bool kr_auth_caller(struct kr_auth *a, struct kr_http_ex *ex, struct kr_api_who *ret)
{
    bool open = is_open(a, kr_api_doc_of(ex));
    struct judgement j;

    judge_request(a, ex, open, ret, &j);
    if (j.verdict == V_GOOD)
        return true;
    if (!open) {
        refuse_key(a, ex, ret, &j);
        return false;
    }
    ret->how = KR_AUTH_NOBODY; /* nothing of a key that lacks the right is left, either */
    ret->user[0] = ret->name[0] = ret->key[0] = '\0';
    ret->caller.rights = 0;
    return true;
}

bool kr_auth_still(struct kr_auth *a, const struct kr_http_ex *ex, const char *user)
{
    struct kr_api_who who;
    struct judgement j;

    judge_request(a, ex, false, &who, &j);
    return j.verdict == V_TROUBLE || (j.verdict == V_GOOD && (!user || strcmp(who.user, user) == 0));
}

int kr_auth_shown(const struct kr_http_ex *ex, char text[KR_AUTH_TEXT_MAX + 1])
{
    cleanup_credential struct kr_credential c;

    static_assert(KR_AUTH_TEXT_MAX == KR_CREDENTIAL_MAX, "one bound for a key's text");
    kr_credential_read(ex, &c);
    if (c.state != KR_CREDENTIAL_ONE)
        return -ENOENT;
    memcpy(text, c.text, sizeof c.text);
    return 0;
}
