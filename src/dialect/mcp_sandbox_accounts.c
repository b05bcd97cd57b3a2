/* The account routes of document 004 (mcp-sandbox): /api/register, /api/token, /api/users/me and the key. Handlers of
 * the route table, in the documents' voice; the sandboxes are in mcp_sandbox_sandboxes.c.
 *
 * Paths, fields and texts are the document's. What it does insecurely is done otherwise: passwords are hashed by
 * Argon2id, tokens are random and can be ended, keys are stored as a hash. So `api_key` has the key in the answer that
 * makes it and in answers to requests that show it, and is null else. Invariant: a caller reads and changes only the
 * caller's own account. */
#include "dialect_routes.h"
#include "accounts.h"
#include "buf.h"
#include "clock.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include "throttle.h"
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (1u << 20)
#define KEYS_OLD_MAX 16u /* keys called KR_ACCOUNT_KEY that are revoked for a new one; there is one but for races */

/* ---- shapes ---- */

static int check_email(const char *value, struct kr_err *err)
{
    const char *at = strchr(value, '@'), *dot = at ? strchr(at, '.') : NULL;

    if (at && at != value && dot && dot != at + 1 && dot[1] && !strchr(at + 1, '@') && !strpbrk(value, " ,;<>\"\\"))
        return 0;
    return kr_err_set(err, KR_ERR_INVALID, 0, "value is not a valid email address"), -EINVAL;
}

/* clang-format off */
static const struct kr_api_prop user_props[] = {
    { .name = "email", .type = KR_API_STRING, .nullable = true, .help = "Address, if there is one.",
     .example = "alice@example.org" },
    { .name = "username", .type = KR_API_STRING, .help = "Name, by which one logs in.", .example = "alice" },
    { .name = "id", .type = KR_API_STRING, .help = "The user's id.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "created_at", .type = KR_API_STRING, .format = "date-time", .help = "When it was made.",
     .example = "2027-01-15T08:00:00.250000Z" },
    { .name = "is_active", .type = KR_API_BOOL, .help = "False: disabled.", .example = "true" },
    { .name = "api_key", .type = KR_API_STRING, .nullable = true,
     .help = "The key, when it was just made or is the one shown; else null: a key is shown once.",
     .example = "kr_4f9k2m7q0000000000000000000000000000000000000000000" },
};
static const struct kr_api_schema user_schema = KR_API_SCHEMA("AccountUser",
    "A user, as document 004 (mcp-sandbox) writes it.", user_props);

static const struct kr_api_prop token_props[] = {
    { .name = "access_token", .type = KR_API_STRING, .help = "For `Authorization: Bearer`.",
     .example = "krt_4f9k2m7q0000000000000000000000000000000000000000000" },
    { .name = "token_type", .type = KR_API_STRING, .help = "Always bearer.", .example = "bearer" },
};
static const struct kr_api_schema token_schema = KR_API_SCHEMA("AccountToken",
    "A login, as document 004 (mcp-sandbox) writes it.", token_props);

static const struct kr_api_prop key_props[] = {
    { .name = "api_key", .type = KR_API_STRING, .nullable = true,
     .help = "The key, when it was just made or is the one shown; else null.",
     .example = "kr_4f9k2m7q0000000000000000000000000000000000000000000" },
    { .name = "prefix", .type = KR_API_STRING, .optional = true, .nullable = true,
     .help = "The first characters of the key there is.", .example = "kr_4f9k2m7q" },
    { .name = "message", .type = KR_API_STRING, .optional = true,
     .help = "Why there is no key here, and how to get one.", .example = "A key is shown once" },
};
static const struct kr_api_schema key_schema = KR_API_SCHEMA("AccountKey",
    "A key, as document 004 (mcp-sandbox) writes it.", key_props);

struct registration {
    const char *username, *email;
    struct kr_text password;
};
static const struct kr_api_field registration_fields[] = {
    { .name = "username", .type = KR_API_STRING, KR_API_AT(struct registration, username), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "Unique.", .example = "alice" },
    { .name = "email", .type = KR_API_STRING, KR_API_AT(struct registration, email), .required = true,
     KR_API_LENGTH(3, KR_STORE_EMAIL_ROOM - 1), .check = check_email, .format = "email",
      .help = "Unique.", .example = "alice@example.org" },
    { .name = "password", .type = KR_API_TEXT, KR_API_AT(struct registration, password), .required = true,
     .secret = true, KR_API_LENGTH(1, KR_PASSWORD_MAX), .format = "password",
      .help = "To log in with.", .example = "correct horse battery" },
};
static const struct kr_api_table registration_table = KR_API_TABLE("AccountRegister", "An account to make.",
    registration_fields, struct registration);

struct token {
    const char *username;
    struct kr_text password;
};
static const struct kr_api_field token_fields[] = {
    { .name = "username", .type = KR_API_STRING, KR_API_AT(struct token, username), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX), .help = "The user's name.", .example = "alice" },
    { .name = "password", .type = KR_API_TEXT, KR_API_AT(struct token, password), .required = true, .secret = true,
     KR_API_LENGTH(1, KR_PASSWORD_MAX), .format = "password",
      .help = "The user's password.", .example = "correct horse battery" },
};
static const struct kr_api_table token_table = KR_API_TABLE("AccountLogin", "Name and password.", token_fields,
    struct token);

#define DOCUMENT .voice = KR_API_DOCUMENT
const struct kr_api_doc kr_account_register_doc = {
    .id = "account_register", .tag = KR_API_TAG_004, .summary = "Make an account (document 004)", DOCUMENT,
    .open = true,
    .body = &registration_table,
    .description = "Only where the administrator allows it (`allow_registration`).",
    .responses = (const struct kr_api_response[]){
        {.status = 200, .help = "The user, with the key.", .schema = &user_schema},
        {.status = 400, .help = "Username or e-mail already registered.", .schema = &kr_api_detail_schema}, {0}},
};
const struct kr_api_doc kr_account_token_doc = {
    .id = "account_token", .tag = KR_API_TAG_004, .summary = "Log in (document 004)", DOCUMENT, .open = true,
    .bodies = (const struct kr_api_media[]){{.type = "application/x-www-form-urlencoded", .table = &token_table,
    .help = "A form, as OAuth2's password grant sends it."}, {0}},
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The token.", .schema = &token_schema}, {0}},
};
const struct kr_api_doc kr_account_me_doc = {
    .id = "account_me", .tag = KR_API_TAG_004, .summary = "Who am I (document 004)", DOCUMENT, .needs = KR_RIGHT_READ,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The user.", .schema = &user_schema}, {0}},
};
const struct kr_api_doc kr_account_key_doc = {
    .id = "account_key", .tag = KR_API_TAG_004, .summary = "The caller's key (document 004)", DOCUMENT,
    .needs = KR_RIGHT_READ,
    .description = "krait keeps keys as a hash and cannot tell one again: the answer has the key if the request shows "
    "it.",
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The key.", .schema = &key_schema}, {0}},
};
const struct kr_api_doc kr_account_new_key_doc = {
    .id = "account_new_key", .tag = KR_API_TAG_004,
    .summary = "A new key instead of the old one (document 004)", DOCUMENT,
    .needs = KR_RIGHT_RUN,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The new key.", .schema = &key_schema}, {0}},
};
/* clang-format on */

static void reply_user(struct kr_http_ex *ex, const struct kr_store_user *user, const char *key)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "email", user->email[0] ? user->email : NULL);
    kr_json_key_str(&j, "username", user->name);
    kr_json_key_str(&j, "id", user->id);
    kr_accounts_date_json(&j, "created_at", user->created);
    kr_json_key_bool(&j, "is_active", user->disabled == 0);
    kr_json_key_str(&j, "api_key", key);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

/* ---- registering ---- */

struct registering {
    struct kr_wait wait;
    char name[KR_STORE_NAME_ROOM * 4], email[KR_STORE_EMAIL_ROOM * 4]; /* characters are counted, not bytes */
};

static void refuse_registration(struct kr_http_ex *ex, const struct kr_err *err)
{
    if (err->code == EEXIST)
        kr_api_fail_status(ex, 400, "%s",
                           strncmp(err->msg, "email", 5) == 0 ? "Email already registered"
                                                              : "Username already registered");
    else
        kr_accounts_fail(ex, err);
}

static void register_then(struct kr_wait *w, int r, const char *hash)
{
    const struct registering *g = (struct registering *)w;
    const unsigned rights = KR_RIGHT_READ | KR_RIGHT_RUN;
    const struct kr_store_user_new new = {
        .name = g->name, .email = g->email, .password = hash, .rights = rights, .now = kr_store_now()};
    char text[KR_STORE_KEY_ROOM] = "", address[KR_HTTP_PEER_MAX];
    struct kr_store_key_new key = {.name = KR_ACCOUNT_KEY, .rights = rights, .now = new.now};
    struct kr_caller caller = {.address = kr_http_peer(w->ex, address), .request = kr_http_request_id(w->ex)};
    struct kr_store_user user;
    struct kr_err err;

    if (r < 0) {
        kr_api_fail_with(w->ex, KR_ERR_BUSY, "the password cannot be hashed now; try again in a moment");
        return;
    }
    r = kr_store_user_add(w->api->store, &new, &user, &err);
    if (r >= 0) {
        key.owner = user.id;
        r = kr_store_key_add(w->api->store, &key, text, NULL, &err);
    }
    if (r < 0) {
        refuse_registration(w->ex, &err);
        return;
    }
    caller.user = user.id;
    kr_box_audit(w->api->box, &caller, "user.register", user.id, "ok", NULL);
    reply_user(w->ex, &user, text);
    sodium_memzero(text, sizeof text);
}

/* Each costs memory for good: counted by network. True: answered. */
static bool registers_too_often(struct kr_api *api, struct kr_http_ex *ex)
{
    struct kr_accounts *a = api->accounts;
    char address[KR_HTTP_PEER_MAX], network[KR_THROTTLE_KEY_ROOM];
    uint64_t now = kr_clock_ns(), wait;
    struct kr_err err;

    kr_throttle_network(kr_http_peer(ex, address), network);
    wait = kr_throttle_wait(a->registrations, network, now);
    if (wait == 0) {
        kr_throttle_fail(a->registrations, network, now);
        return false;
    }
    kr_err_set(&err, KR_ERR_TOO_MANY, 0, "too many accounts from this address: try again later");
    kr_api_fail_later(ex, &err, (unsigned)(wait / 1000000000u) + 1);
    return true;
}

static void on_register(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct registration *q = request;
    struct kr_api *api = app;
    struct kr_store_user user;
    struct registering *g;
    struct kr_err err;

    (void)in;
    if (kr_store_user_find(api->store, q->username, &user, NULL, &err) == 0) {
        kr_api_fail_status(ex, 400, "Username already registered");
        return;
    }
    if (registers_too_often(api, ex))
        return;
    g = calloc(1, sizeof *g);
    if (!g) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for an account");
        return;
    }
    g->wait = (struct kr_wait){.api = api, .ex = ex, .then = register_then, .size = sizeof *g};
    strncat(g->name, q->username, sizeof g->name - 1);
    strncat(g->email, q->email, sizeof g->email - 1);
    kr_wait_start(&g->wait, &(struct kr_password_ask){.fresh = q->password.text, .fresh_len = q->password.len});
}

void kr_account_register(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    if (kr_api_profile(api, ex)->allow_registration)
        kr_api_read_body(api->loop, ex, app, &registration_table, on_register);
    else
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "Registration is not open here: an administrator makes accounts");
}

/* ---- logging in ---- */

static void answer_token(struct kr_http_ex *ex, const struct kr_store_user *user, const char *token, int64_t expires)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    (void)user, (void)expires;
    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "access_token", token);
    kr_json_key_str(&j, "token_type", "bearer");
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

void kr_account_token(struct kr_http_ex *ex, void *app)
{
    cleanup_input struct kr_api_input in;
    struct token q;
    struct kr_err err;
    size_t len;
    const char *body = kr_http_body(ex, &len);

    kr_api_input_init(&in, KR_API_DOCUMENT);
    if (kr_api_parse_form(&token_table, body, len, &q, &in, &err) < 0)
        kr_api_fail_input(ex, &in, &err);
    else
        kr_login_start(app, ex, q.username, q.password.text, q.password.len, answer_token);
}

/* ---- oneself ---- */

/* The caller and their row of the store. False: answered. */
static bool find_me(struct kr_api *api, struct kr_http_ex *ex, struct kr_api_who *who, struct kr_store_user *user)
{
    struct kr_err err;

    if (!kr_api_caller(api, ex, who))
        return false;
    if (kr_store_user_get(api->store, who->user, user, &err) == 0)
        return true;
    kr_accounts_fail(ex, &err);
    return false;
}

/* The key that the request shows, if a key is what it shows. */
static const char *shown_key(const struct kr_http_ex *ex, const struct kr_api_who *who, char text[KR_AUTH_TEXT_MAX + 1])
{
    bool key = who->how == KR_AUTH_KEY || who->how == KR_AUTH_SINGLE;

    return key && kr_auth_shown(ex, text) == 0 ? text : NULL;
}

void kr_account_me(struct kr_http_ex *ex, void *app)
{
    char text[KR_AUTH_TEXT_MAX + 1];
    struct kr_store_user user;
    struct kr_api_who who;

    if (find_me(app, ex, &who, &user))
        reply_user(ex, &user, shown_key(ex, &who, text));
}

/* ---- the key ---- */

/* Live keys called KR_ACCOUNT_KEY. */
struct account_keys {
    unsigned count;
    char ids[KEYS_OLD_MAX][KR_STORE_ID_ROOM];
    char shown[KR_STORE_SHOWN_ROOM]; /* of the newest */
};

static void on_key(void *data, const struct kr_store_key *key)
{
    struct account_keys *keys = data;

    if (key->revoked || strcmp(key->name, KR_ACCOUNT_KEY) != 0 || keys->count == KEYS_OLD_MAX)
        return;
    if (keys->count == 0)
        memcpy(keys->shown, key->shown, sizeof keys->shown);
    memcpy(keys->ids[keys->count++], key->id, KR_STORE_ID_ROOM);
}

static int find_keys(struct kr_api *api, const char *owner, struct account_keys *ret, struct kr_err *err)
{
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};

    *ret = (struct account_keys){0};
    return kr_store_keys_list(api->store, owner, &page, on_key, ret, err); /* 400 at most: one page */
}

static void reply_key(struct kr_http_ex *ex, const char *key, const char *prefix, const char *message)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key_str(&j, "api_key", key);
    if (message) {
        kr_json_key_str(&j, "prefix", prefix && prefix[0] ? prefix : NULL);
        kr_json_key_str(&j, "message", message);
    }
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

void kr_account_key(struct kr_http_ex *ex, void *app)
{
    char text[KR_AUTH_TEXT_MAX + 1];
    struct account_keys keys;
    struct kr_api_who who;
    struct kr_err err;
    const char *key;

    if (!kr_api_caller(app, ex, &who))
        return;
    key = shown_key(ex, &who, text);
    if (key)
        reply_key(ex, key, NULL, NULL);
    else if (find_keys(app, who.user, &keys, &err) < 0)
        kr_accounts_fail(ex, &err);
    else
        reply_key(ex, NULL, keys.shown,
                  keys.count
                      ? "A key is shown once, when it is made; POST /api/users/me/api-key/regenerate makes a new "
                        "one instead"
                      : "There is no key yet; POST /api/users/me/api-key/regenerate makes one");
}

void kr_account_new_key(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    char text[KR_STORE_KEY_ROOM] = "";
    struct account_keys old;
    struct kr_store_key key;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    if (!kr_api_caller(api, ex, &who))
        return;
    r = find_keys(api, who.user, &old, &err);
    if (r >= 0)
        r = kr_keys_make(api, &who, who.user, KR_ACCOUNT_KEY, who.caller.rights, 0, text, &key, &err);
    for (unsigned i = 0; i < old.count && r >= 0; i++) {
        r = kr_store_key_revoke(api->store, who.user, old.ids[i], kr_store_now(), &err);
        if (r >= 0)
            kr_accounts_audit(api, &who, "key.revoke", old.ids[i], "ok", NULL);
    }
    kr_auth_forget(api->auth);
    if (r < 0)
        kr_accounts_fail(ex, &err);
    else
        reply_key(ex, text, NULL, NULL);
    sodium_memzero(text, sizeof text);
}
