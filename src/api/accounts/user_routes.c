/* Users over HTTP: /api/v1/users. Handlers of the route table.
 *
 * Everything here but `me` is for administrators. Invariant: a change of what a user may do counts at once (the gate
 * forgets what it remembers), and a user who is disabled or deleted has nothing running any more. The password's own
 * route, logins and what document 004 calls an account are in login_routes.c and mcp_sandbox_accounts.c; deleting is
 * in user_delete.c. */
#include "accounts.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REPLY_MAX (1u << 20)

/* ---- shapes ---- */

/* clang-format off */
static const struct kr_api_prop user_props[] = {
    { .name = "user_id", .type = KR_API_STRING, .help = "The user's id.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "id", .type = KR_API_STRING, .help = "The same as `user_id`.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "name", .type = KR_API_STRING, .help = "Name, by which one logs in.", .example = "alice" },
    { .name = "email", .type = KR_API_STRING, .nullable = true, .help = "Address, if one was given.",
     .example = "alice@example.org" },
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words,
     .help = "What the user may do: read, run, admin. A key of the user's may have fewer.",
     .example = "[\"read\",\"run\"]" },
    { .name = "has_password", .type = KR_API_BOOL, .help = "Whether the user can log in by password.",
     .example = "true" },
    { .name = "created_at", .type = KR_API_NUMBER, .help = "When it was made, in seconds since 1970.",
     .example = "1800000000.25" },
    { .name = "disabled_at", .type = KR_API_NUMBER, .nullable = true,
     .help = "Since when the user's keys and logins are refused; null: they are not.", .example = "null" },
};
const struct kr_api_schema kr_user_schema = KR_API_SCHEMA("User", "A user.", user_props);

static const struct kr_api_prop list_props[] = {
    { .name = "users", .type = KR_API_ARRAY, .of = &kr_user_schema, .help = "Newest first." },
    { .name = "next", .type = KR_API_STRING, .nullable = true,
     .help = "What to pass as `after` for the next page; null at the end.",
     .example = "1800000000000000.7zzzzzzzzzzzzzzzzzzzzzzzzz" },
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Users", "A page of users.", list_props);

static const struct kr_api_prop me_props[] = {
    { .name = "user", .type = KR_API_OBJECT, .of = &kr_user_schema, .help = "The user." },
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words,
     .help = "What this key or login may do: what both it and its user have.", .example = "[\"read\",\"run\"]" },
    { .name = "known_by", .type = KR_API_ENUM, .choices = (const char *const[]){"off", "api_key", "key", "token", NULL},
      .help = "How the caller is known: authentication is off, the server's one key, a user's key, a login.",
      .example = "key" },
    { .name = "expires_at", .type = KR_API_NUMBER, .nullable = true,
     .help = "When the key or login runs out; null: never.", .example = "null" },
};
static const struct kr_api_schema me_schema = KR_API_SCHEMA("Me", "Who is asking.", me_props);

struct create {
    const char *name, *email;
    struct kr_text password;
    json_t *rights;
};
static const struct kr_api_field create_fields[] = {
    { .name = "name", .type = KR_API_STRING, KR_API_AT(struct create, name), .required = true,
     KR_API_LENGTH(1, KR_STORE_NAME_MAX),
      .help = "Unique, whatever the case of its letters.", .example = "alice" },
    { .name = "email", .type = KR_API_STRING, KR_API_AT(struct create, email), .nullable = true,
     KR_API_LENGTH(1, KR_STORE_EMAIL_ROOM - 1), .format = "email",
      .help = "Unique in the same way.", .example = "alice@example.org" },
    { .name = "password", .type = KR_API_TEXT, KR_API_AT(struct create, password), .nullable = true, .secret = true,
     KR_API_LENGTH(KR_PASSWORD_LEAST, KR_PASSWORD_MAX), .format = "password",
      .help = "Without one the user cannot log in, and has keys alone.", .example = "correct horse battery" },
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words, KR_API_AT(struct create, rights),
     .nullable = true, KR_API_RANGE(1, 3),
      .help = "Some of read, run, admin; read and run without it.", .example = "[\"read\",\"run\"]" },
};
static const struct kr_api_table create_table =
    KR_API_TABLE("UserCreate", "A user to make.", create_fields, struct create);

struct change {
    const char *email;
    struct kr_text password;
    json_t *rights;
    bool disabled;
    uint8_t email_given, password_given, disabled_given;
};
static const struct kr_api_field change_fields[] = {
    { .name = "email", .type = KR_API_STRING, KR_API_AT(struct change, email), KR_API_GIVEN(struct change, email_given),
     .nullable = true, KR_API_LENGTH(1, KR_STORE_EMAIL_ROOM - 1), .format = "email",
      .help = "null takes it away.", .example = "alice@example.org" },
    { .name = "password", .type = KR_API_TEXT, KR_API_AT(struct change, password),
     KR_API_GIVEN(struct change, password_given), .nullable = true, .secret = true,
     KR_API_LENGTH(KR_PASSWORD_LEAST, KR_PASSWORD_MAX), .format = "password",
      .help = "null takes it away. Either way all logins of the user end.", .example = "correct horse battery" },
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words, KR_API_AT(struct change, rights),
     KR_API_RANGE(1, 3),
      .help = "Some of read, run, admin, instead of those it has.", .example = "[\"read\"]" },
    { .name = "disabled", .type = KR_API_BOOL, KR_API_AT(struct change, disabled),
     KR_API_GIVEN(struct change, disabled_given),
      .help = "true: keys and logins are refused from now on, and what runs is ended.", .example = "true" },
};
static const struct kr_api_table change_table =
    KR_API_TABLE("UserChange", "What to change of a user; what is left out stays.", change_fields, struct change);

struct list {
    struct kr_accounts_page page;
};
static const struct kr_api_field list_fields[] = { KR_ACCOUNTS_PAGE_FIELDS(struct list) };
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Paging.", list_fields, struct list);

static const struct kr_api_param user_params[] = {
    { "user_id", "A user's id.", "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, { 0 },
};

const struct kr_api_doc kr_users_list_doc = {
    .id = "list_users", .tag = "users", .summary = "List users", .needs = KR_RIGHT_ADMIN, .query = &list_table,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "A page of users.", .schema = &list_schema},
    {0}},
};
const struct kr_api_doc kr_users_create_doc = {
    .id = "create_user", .tag = "users", .summary = "Make a user", .needs = KR_RIGHT_ADMIN, .body = &create_table,
    .description = "The user has no key yet: `POST /api/v1/keys` with `user` makes one.",
    .responses = (const struct kr_api_response[]){{.status = 201, .help = "The user.", .schema = &kr_user_schema}, {0}},
};
const struct kr_api_doc kr_users_me_doc = {
    .id = "read_me", .tag = "account", .summary = "Who am I",
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The caller.", .schema = &me_schema}, {0}},
};
const struct kr_api_doc kr_users_read_doc = {
    .id = "read_user", .tag = "users", .summary = "Read a user", .needs = KR_RIGHT_ADMIN, .params = user_params,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The user.", .schema = &kr_user_schema}, {0}},
};
const struct kr_api_doc kr_users_change_doc = {
    .id = "change_user", .tag = "users", .summary = "Change a user: disable, enable, rights, e-mail, password",
    .needs = KR_RIGHT_ADMIN,
    .body = &change_table, .params = user_params,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The user as it is now.",
    .schema = &kr_user_schema}, {0}},
};
/* clang-format on */

void kr_users_json(struct kr_json *j, const struct kr_store_user *user)
{
    kr_json_object(j);
    kr_json_key_str(j, "user_id", user->id);
    kr_json_key_str(j, "id", user->id); /* as clients knew it before */
    kr_json_key_str(j, "name", user->name);
    kr_json_key_str(j, "email", user->email[0] ? user->email : NULL);
    kr_accounts_rights_json(j, "rights", user->rights);
    kr_json_key_bool(j, "has_password", user->has_password);
    kr_accounts_time_json(j, "created_at", user->created);
    kr_accounts_time_json(j, "disabled_at", user->disabled);
    kr_json_object_end(j);
}

static void reply_user(struct kr_http_ex *ex, int status, const struct kr_store_user *user)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    kr_users_json(&j, user);
    kr_api_reply(ex, status, &out);
}

/* ---- reading ---- */

static void on_user(void *data, const struct kr_store_user *user)
{
    kr_users_json(data, user);
}

static void reply_users(struct kr_api *api, struct kr_http_ex *ex, const struct list *q)
{
    struct kr_store_page page = {.after = q->page.after, .limit = (unsigned)q->page.limit};
    cleanup_buf struct kr_buf out;
    struct kr_err err;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_api_page_begin(&j, &out, "users");
    if (kr_store_users_list(api->store, &page, on_user, &j, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_api_page_end(&j, page.next);
    kr_api_reply(ex, 200, &out);
}

void kr_users_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api_input in;
    struct kr_api_who who;
    struct list q;

    if (!kr_api_caller(app, ex, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    reply_users(app, ex, &q);
    kr_api_input_done(&in);
}

void kr_users_me(struct kr_http_ex *ex, void *app)
{
    static const char *const hows[] = {[KR_AUTH_OFF] = "off", "api_key", "key", "token"};
    struct kr_api *api = app;
    cleanup_buf struct kr_buf out;
    struct kr_store_user user;
    struct kr_api_who who;
    struct kr_err err;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_store_user_get(api->store, who.user, &user, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key(&j, "user");
    kr_users_json(&j, &user);
    kr_accounts_rights_json(&j, "rights", who.caller.rights);
    kr_json_key_str(&j, "known_by", hows[who.how]);
    kr_accounts_time_json(&j, "expires_at", who.expires);
    kr_json_object_end(&j);
    kr_api_reply(ex, 200, &out);
}

void kr_users_read(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;
    struct kr_store_user user;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_store_user_get(api->store, kr_http_param(ex, "user_id"), &user, &err) < 0)
        kr_accounts_fail(ex, &err);
    else
        reply_user(ex, 200, &user);
}

/* ---- making ---- */

struct creating {
    struct kr_wait wait;
    char name[KR_STORE_NAME_ROOM * 4], email[KR_STORE_EMAIL_ROOM * 4]; /* characters are counted, not bytes */
    unsigned rights;
};

static void make_user(struct kr_api *api, struct kr_http_ex *ex, const struct kr_store_user_new *new)
{
    struct kr_store_user user;
    struct kr_api_who who;
    struct kr_err err;

    if (!kr_api_caller(api, ex, &who))
        return;
    if (kr_store_user_add(api->store, new, &user, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_accounts_audit(api, &who, "user.create", user.id, "ok", NULL);
    reply_user(ex, 201, &user);
}

static void make_then(struct kr_wait *w, int r, const char *hash)
{
    struct creating *c = (struct creating *)w;

    if (r < 0)
        kr_api_fail_with(w->ex, KR_ERR_BUSY, "the password cannot be hashed now; try again in a moment");
    else
        make_user(
            w->api, w->ex,
            &(struct kr_store_user_new){
                .name = c->name, .email = c->email, .password = hash, .rights = c->rights, .now = kr_store_now()});
}

static void on_user_body(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct create *q = request;
    struct kr_store_user_new new = {.name = q->name, .email = q->email, .now = kr_store_now()};
    struct creating *c;
    struct kr_err err;

    (void)in;
    if (kr_accounts_rights(q->rights, KR_RIGHT_READ | KR_RIGHT_RUN, &new.rights, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    if (!q->password.text) {
        make_user(app, ex, &new);
        return;
    }
    c = calloc(1, sizeof *c);
    if (!c) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a user");
        return;
    }
    c->wait = (struct kr_wait){.api = app, .ex = ex, .then = make_then, .size = sizeof *c};
    strncat(c->name, q->name, sizeof c->name - 1);
    strncat(c->email, q->email ? q->email : "", sizeof c->email - 1);
    c->rights = new.rights;
    kr_wait_start(&c->wait, &(struct kr_password_ask){.fresh = q->password.text, .fresh_len = q->password.len});
}

void kr_users_create(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &create_table, on_user_body);
}

/* ---- changing ---- */

struct changing {
    struct kr_wait wait;
    char user[KR_STORE_ID_ROOM];
    char email[KR_STORE_EMAIL_ROOM * 4];
    bool has_email, has_password, has_disabled, disabled;
    unsigned rights; /* 0: as they are */
};

/* One after the other, what is likeliest to be refused first. `hash` is that of the new password, NULL to take it
 * away. */
static int apply_user_change(struct kr_store *s, const struct changing *c, const char *hash, struct kr_err *err)
{
    int r = 0;

    if (c->has_email)
        r = kr_store_user_set_email(s, c->user, c->email, err);
    if (r >= 0 && c->rights)
        r = kr_store_user_set_rights(s, c->user, c->rights, err);
    if (r >= 0 && c->has_disabled)
        r = kr_store_user_set_disabled(s, c->user, c->disabled ? kr_store_now() : 0, err);
    if (r >= 0 && c->has_password)
        r = kr_store_user_set_password(s, c->user, hash, err);
    return r;
}

static const char *detail_of(const struct changing *c, struct kr_buf *out)
{
    struct kr_json j;

    kr_json_init(&j, out);
    kr_json_object(&j);
    if (c->has_email)
        kr_json_key_bool(&j, "email", true);
    if (c->rights)
        kr_accounts_rights_json(&j, "rights", c->rights);
    if (c->has_disabled)
        kr_json_key_bool(&j, "disabled", c->disabled);
    if (c->has_password)
        kr_json_key_bool(&j, "password", true);
    kr_json_object_end(&j);
    return kr_json_done(&j) < 0 ? NULL : kr_buf_str(out);
}

static void change(const struct changing *c, struct kr_api *api, struct kr_http_ex *ex, const char *hash)
{
    cleanup_buf struct kr_buf detail;
    struct kr_store_user user;
    struct kr_api_who who;
    struct kr_err err;
    int r;

    kr_buf_init(&detail, 1024);
    if (!kr_api_caller(api, ex, &who))
        return;
    if (strcmp(who.user, c->user) == 0 && c->has_disabled && c->disabled) {
        kr_api_fail_with(ex, KR_ERR_CONFLICT, "users cannot disable themselves: another administrator can");
        return;
    }
    r = apply_user_change(api->store, c, hash, &err);
    kr_auth_forget(api->auth);
    if (r < 0 || kr_store_user_get(api->store, c->user, &user, &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    if (c->has_disabled && c->disabled)
        kr_accounts_end_work(api, c->user, &who);
    kr_accounts_audit(api, &who, "user.change", c->user, "ok", detail_of(c, &detail));
    reply_user(ex, 200, &user);
}

static void on_user_hashed(struct kr_wait *w, int r, const char *hash)
{
    if (r < 0)
        kr_api_fail_with(w->ex, KR_ERR_BUSY, "the password cannot be hashed now; try again in a moment");
    else
        change((struct changing *)w, w->api, w->ex, hash);
}

static void on_change(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct change *q = request;
    struct kr_api *api = app;
    struct changing *c = calloc(1, sizeof *c);
    struct kr_store_user user;
    struct kr_err err;

    (void)in;
    if (!c) {
        kr_api_fail_with(ex, KR_ERR_INTERNAL, "no memory for a change");
        return;
    }
    c->wait = (struct kr_wait){.api = api, .ex = ex, .then = on_user_hashed, .size = sizeof *c};
    if (kr_store_user_get(api->store, kr_http_param(ex, "user_id"), &user, &err) < 0 ||
        kr_accounts_rights(q->rights, 0, &c->rights, &err) < 0) {
        kr_wait_drop(&c->wait);
        kr_accounts_fail(ex, &err);
        return;
    }
    memcpy(c->user, user.id, sizeof c->user);
    strncat(c->email, q->email ? q->email : "", sizeof c->email - 1);
    c->has_email = q->email_given != KR_API_ABSENT;
    c->has_password = q->password_given != KR_API_ABSENT;
    c->has_disabled = q->disabled_given != KR_API_ABSENT;
    c->disabled = q->disabled;
    if (q->password.text) {
        kr_wait_start(&c->wait, &(struct kr_password_ask){.fresh = q->password.text, .fresh_len = q->password.len});
        return;
    }
    change(c, api, ex, NULL);
    kr_wait_drop(&c->wait);
}

void kr_users_change(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &change_table, on_change);
}
