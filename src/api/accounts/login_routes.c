/* Logging in by password, logging out, changing one's own password. Handlers of the route table;
 * mcp_sandbox_accounts.c uses the same for /api/token of document 004 (mcp-sandbox).
 *
 * Invariant: whether a user exists cannot be seen from the answer nor from the time it takes; wrong passwords are
 * counted against the address and against the name, and past the bounds nothing is compared any more until one of them
 * has been forgiven. A user who has logged in from an address before is counted apart, so that wrong passwords of
 * others do not lock that user out. */
#include "accounts.h"
#include "buf.h"
#include "clock.h"
#include "json.h"
#include "metrics.h"
#include "body_read.h"
#include "reply.h"
#include "throttle.h"
#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX 16384u

/* ---- shapes ---- */

/* clang-format off */
struct login {
    const char *name;
    struct kr_text password;
};
static const struct kr_api_field login_fields[] = {
    { .name = "name", .type = KR_API_STRING, KR_API_AT(struct login, name), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "The user's name.", .example = "alice",
      .aliases = (const char *const[]){"username", NULL} },
    { .name = "password", .type = KR_API_TEXT, KR_API_AT(struct login, password), .required = true, .secret = true,
     KR_API_LENGTH(1, KR_PASSWORD_MAX), .format = "password",
      .help = "The user's password.", .example = "correct horse battery" },
};
static const struct kr_api_table login_table = KR_API_TABLE("Login", "Name and password.", login_fields, struct login);

static const struct kr_api_prop token_props[] = {
    { .name = "token", .type = KR_API_STRING, .help = "Good wherever a key is; shown now and never again.",
     .example = "krt_4f9k2m7q0000000000000000000000000000000000000000000" },
    { .name = "expires_at", .type = KR_API_NUMBER, .help = "When it runs out, in seconds since 1970.",
     .example = "1800043200.25" },
    { .name = "user", .type = KR_API_OBJECT, .of = &kr_user_schema, .help = "Who logged in." },
};
static const struct kr_api_schema token_schema = KR_API_SCHEMA("LoginToken", "A login.", token_props);

const struct kr_api_doc kr_login_in_doc = {
    .id = "log_in", .tag = "account", .summary = "Log in by password", .open = true, .body = &login_table,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The login.", .schema = &token_schema}, {0}},
};
const struct kr_api_doc kr_login_out_doc = {
    .id = "log_out", .tag = "account", .summary = "Log out", .description = "Ends the login whose token is shown.",
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "The token is refused from now on."}, {0}},
};

struct password {
    struct kr_text old, fresh;
};
static const struct kr_api_field password_fields[] = {
    { .name = "old", .type = KR_API_TEXT, KR_API_AT(struct password, old), .required = true, .secret = true,
     KR_API_LENGTH(1, KR_PASSWORD_MAX), .format = "password",
      .help = "The password as it is.", .example = "correct horse battery" },
    { .name = "new", .type = KR_API_TEXT, KR_API_AT(struct password, fresh), .required = true, .secret = true,
     KR_API_LENGTH(KR_PASSWORD_LEAST, KR_PASSWORD_MAX), .format = "password",
      .help = "The password as it shall be.", .example = "correct donkey battery" },
};
static const struct kr_api_table password_table =
    KR_API_TABLE("PasswordChange", "Old and new password.", password_fields, struct password);

const struct kr_api_doc kr_login_password_doc = {
    .id = "change_password", .tag = "account", .summary = "Change one's own password",
    .description = "All logins of the user end, this one too; keys stay. A user without a password is given one by an "
                   "administrator.",
    .body = &password_table,
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "Changed."}, {0}},
};
/* clang-format on */

/* ---- wrong passwords ---- */

/* Names are the same whatever the case of their ASCII letters: so are their accounts of failures. */
static void fold(const char *name, char out[KR_STORE_NAME_ROOM])
{
    size_t i = 0;

    for (; i < KR_STORE_NAME_ROOM - 1 && name[i]; i++)
        out[i] = (char)((unsigned char)name[i] < 0x80 ? tolower((unsigned char)name[i]) : name[i]);
    out[i] = '\0';
}

/* What failures are counted by. */
struct account {
    char network[KR_THROTTLE_KEY_ROOM];
    char name[KR_STORE_NAME_ROOM];
    char both[KR_THROTTLE_KEY_ROOM + KR_STORE_NAME_ROOM];
};

static void account_of(const struct kr_http_ex *ex, const char *name, struct account *ret)
{
    char address[KR_HTTP_PEER_MAX];

    kr_throttle_network(kr_http_peer(ex, address), ret->network);
    fold(name, ret->name);
    snprintf(ret->both, sizeof ret->both, "%s %s", ret->network, ret->name);
}

/* Has this user logged in from this network within a day? */
static bool is_known(const struct kr_accounts *a, const struct account *who)
{
    return kr_throttle_wait(a->known, who->both, kr_clock_ns()) > 0;
}

/* True: answered, this address or name has to wait. */
static bool is_throttled(struct kr_api *api, struct kr_http_ex *ex, const char *name)
{
    const struct kr_accounts *a = api->accounts;
    uint64_t now = kr_clock_ns(), wait, other;
    struct account who;
    struct kr_err err;

    account_of(ex, name, &who);
    wait = kr_throttle_wait(a->addresses, who.network, now);
    other = kr_throttle_wait(a->names, who.name, now);
    wait = other > wait ? other : wait;
    if (is_known(a, &who))
        wait = kr_throttle_wait(a->addresses, who.both, now);
    if (wait == 0)
        return false;
    kr_metrics_inc(api->metrics, KR_M_AUTH_FAILURES, KR_AT("throttled"));
    kr_err_set(&err, KR_ERR_TOO_MANY, 0, "too many wrong passwords: try again later");
    kr_api_fail_later(ex, &err, (unsigned)(wait / 1000000000u) + 1);
    return true;
}

static void note_failure(struct kr_api *api, struct kr_http_ex *ex, const char *name, const char *reason)
{
    struct kr_accounts *a = api->accounts;
    char address[KR_HTTP_PEER_MAX];
    struct account who;
    const struct kr_caller unknown = {
        .user = "", .address = kr_http_peer(ex, address), .request = kr_http_request_id(ex)};

    account_of(ex, name, &who);
    if (is_known(a, &who)) {
        kr_throttle_fail(a->addresses, who.both, kr_clock_ns());
    } else {
        kr_throttle_fail(a->addresses, who.network, kr_clock_ns());
        kr_throttle_fail(a->names, who.name, kr_clock_ns());
    }
    kr_metrics_inc(api->metrics, KR_M_AUTH_FAILURES, KR_AT(reason));
    kr_box_audit(api->box, &unknown, "login", name, reason, NULL);
}

/* ---- logging in ---- */

static void refuse_login(struct kr_login *l, const char *reason)
{
    bool document = kr_api_voice_of(l->wait.ex) == KR_API_DOCUMENT;
    struct kr_http_ex *ex = l->wait.ex;

    note_failure(l->wait.api, ex, l->name, reason);
    if (strcmp(reason, "disabled") == 0 && document)
        kr_api_fail_status(ex, 400, "Inactive user"); /* as document 004 does */
    else if (strcmp(reason, "disabled") == 0)
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "this user is disabled");
    else
        kr_api_fail_with(ex, KR_ERR_UNAUTHORIZED, "%s",
                         document ? "Incorrect username or password" : "wrong name or password");
}

static int make_token(struct kr_api *api, uint64_t ttl_ms, const struct kr_store_user *user, const char *better_hash,
                      char token[KR_STORE_KEY_ROOM], int64_t *ret_expires, struct kr_err *err)
{
    int64_t now = kr_store_now();
    int r = 0;

    *ret_expires = now + (int64_t)ttl_ms * 1000;
    if (better_hash) /* first: it ends the user's other logins */
        r = kr_store_user_set_password(api->store, user->id, better_hash, err);
    if (r >= 0)
        r = kr_store_token_add(api->store, user->id, *ret_expires, now, token, err);
    return r < 0 ? r : 0;
}

static void login_then(struct kr_wait *w, int r, const char *hash)
{
    struct kr_login *l = (struct kr_login *)w;
    char token[KR_STORE_KEY_ROOM] = "", now_hash[KR_PASSWORD_ROOM] = "", address[KR_HTTP_PEER_MAX];
    struct kr_caller caller = {.address = kr_http_peer(w->ex, address), .request = kr_http_request_id(w->ex)};
    struct kr_store_user user;
    struct account who;
    struct kr_err err;
    int64_t expires;

    if (r == -ENOMEM || r == -EIO) {
        kr_api_fail_with(w->ex, KR_ERR_BUSY, "the password cannot be checked now; try again in a moment");
        return;
    }
    /* The user may have been deleted, or have another password, since the thread began. */
    if (r < 0 || kr_store_user_find(w->api->store, l->name, &user, now_hash, &err) < 0 ||
        strcmp(now_hash, l->hash) != 0) {
        refuse_login(l, "password");
        return;
    }
    if (user.disabled) {
        refuse_login(l, "disabled");
        return;
    }
    if (make_token(w->api, kr_api_profile(w->api, w->ex)->login_ttl_ms, &user, hash, token, &expires, &err) < 0) {
        kr_accounts_fail(w->ex, &err);
        return;
    }
    account_of(w->ex, l->name, &who);
    kr_throttle_fail(w->api->accounts->known, who.both, kr_clock_ns());
    caller.user = user.id;
    kr_box_audit(w->api->box, &caller, "login", user.name, "ok", NULL);
    l->answer(w->ex, &user, token, expires);
    sodium_memzero(token, sizeof token);
}

void kr_login_start(struct kr_api *api, struct kr_http_ex *ex, const char *name, const char *password, size_t len,
                    void (*answer)(struct kr_http_ex *ex, const struct kr_store_user *user, const char *token,
                                   int64_t expires))
{
    struct kr_store_user user;
    struct kr_login *l;
    struct kr_err err;

    if (is_throttled(api, ex, name))
        return;
    l = calloc(1, sizeof *l);
    if (!l) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a login");
        return;
    }
    l->wait = (struct kr_wait){.api = api, .ex = ex, .then = login_then, .size = sizeof *l};
    l->answer = answer;
    snprintf(l->name, sizeof l->name, "%s", name);
    kr_store_user_find(api->store, name, &user, l->hash, &err); /* no such user: no hash, and the same work */
    kr_wait_start(&l->wait,
                  &(struct kr_password_ask){.check = true, .hash = l->hash, .password = password, .len = len});
}

static void answer_login(struct kr_http_ex *ex, const struct kr_store_user *user, const char *token, int64_t expires)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "token", token);
    kr_accounts_time_json(&j, "expires_at", expires);
    kr_json_key(&j, "user");
    kr_users_json(&j, user);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

static void on_login(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct login *q = request;

    (void)in;
    kr_login_start(app, ex, q->name, q->password.text, q->password.len, answer_login);
}

void kr_login_in(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &login_table, on_login);
}

void kr_login_out(struct kr_http_ex *ex, void *app)
{
    char text[KR_AUTH_TEXT_MAX + 1] = "";
    struct kr_api *api = app;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (who.how != KR_AUTH_TOKEN || kr_auth_shown(ex, text) < 0) {
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "this credential is a key, not a login: revoke it instead");
        return;
    }
    r = kr_store_token_revoke(api->store, text, &err);
    sodium_memzero(text, sizeof text);
    kr_auth_forget(api->auth);
    if (r < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_accounts_audit(api, &who, "logout", who.name, "ok", NULL);
    kr_api_reply_nothing(ex);
}

/* ---- one's own password ---- */

struct changing {
    struct kr_wait wait;
    char user[KR_STORE_ID_ROOM], name[KR_STORE_NAME_ROOM];
};

static void on_password_hashed(struct kr_wait *w, int r, const char *hash)
{
    struct changing *c = (struct changing *)w;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(w->api, w->ex, &who))
        return;
    if (r == -EKEYREJECTED) {
        note_failure(w->api, w->ex, c->name, "password");
        kr_api_fail_with(w->ex, KR_ERR_FORBIDDEN, "the old password is wrong");
        return;
    }
    if (r < 0) {
        kr_api_fail_with(w->ex, KR_ERR_BUSY, "the password cannot be hashed now; try again in a moment");
        return;
    }
    r = kr_store_user_set_password(w->api->store, c->user, hash, &err);
    kr_auth_forget(w->api->auth);
    if (r < 0) {
        kr_accounts_fail(w->ex, &err);
        return;
    }
    kr_accounts_audit(w->api, &who, "user.password", c->user, "ok", NULL);
    kr_api_reply_nothing(w->ex);
}

static void on_password(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct password *q = request;
    char hash[KR_PASSWORD_ROOM] = "";
    struct kr_store_user user;
    struct kr_api_who who;
    struct changing *c;
    struct kr_err err;

    (void)in;
    if (!kr_api_caller(app, ex, &who) || is_throttled(app, ex, who.name))
        return;
    if (kr_store_user_find(((struct kr_api *)app)->store, who.name, &user, hash, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    if (!user.has_password) {
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "this user has no password: an administrator can give one");
        return;
    }
    c = calloc(1, sizeof *c);
    if (!c) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a password");
        return;
    }
    c->wait = (struct kr_wait){.api = app, .ex = ex, .then = on_password_hashed, .size = sizeof *c};
    memcpy(c->user, user.id, sizeof c->user);
    memcpy(c->name, user.name, sizeof c->name);
    kr_wait_start(&c->wait, &(struct kr_password_ask){.check = true,
                                                      .hash = hash,
                                                      .password = q->old.text,
                                                      .len = q->old.len,
                                                      .fresh = q->fresh.text,
                                                      .fresh_len = q->fresh.len});
}

void kr_login_password(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &password_table, on_password);
}
