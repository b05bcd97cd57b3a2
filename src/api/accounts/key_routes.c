/* Keys over HTTP: /api/v1/keys. Handlers of the route table.
 *
 * Users see their own keys, administrators all; another's id is as unknown as one that never was. Invariant: no key
 * makes a key that can more than itself, or lasts longer; the text of a key is in one answer, that of its making, and
 * nowhere else. */
#include "accounts.h"
#include "buf.h"
#include "json.h"
#include "body_read.h"
#include "reply.h"
#include <errno.h>
#include <sodium.h>
#include <string.h>

#define REPLY_MAX (1u << 20)
#define YEAR (INT64_C(366) * 86400)

/* clang-format off */
#define KEY_PROPS \
    { .name = "key_id", .type = KR_API_STRING, .help = "The key's id.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, \
    { .name = "id", .type = KR_API_STRING, .help = "The same as `key_id`.", .example = "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, \
    { .name = "user_id", .type = KR_API_STRING, .help = "Whose it is: a user's id.", \
      .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" }, \
    { .name = "user", .type = KR_API_STRING, .help = "The same as `user_id`.", \
      .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" }, \
    { .name = "name", .type = KR_API_STRING, .help = "What it is called.", .example = "laptop" }, \
    { .name = "prefix", .type = KR_API_STRING, .help = "The key's first characters, by which one knows it again.", \
      .example = "kr_4f9k2m7q" }, \
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words, \
     .help = "What it may do, as far as its user may.", \
      .example = "[\"read\",\"run\"]" }, \
    { .name = "created_at", .type = KR_API_NUMBER, .help = "When it was made, in seconds since 1970.", \
      .example = "1800000000.25" }, \
    { .name = "expires_at", .type = KR_API_NUMBER, .nullable = true, .help = "When it runs out; null: never.", \
      .example = "null" }, \
    { .name = "last_used_at", .type = KR_API_NUMBER, .nullable = true, \
      .help = "When it was last used, to the minute; null: never yet.", .example = "1800000060.0" }, \
    { .name = "revoked_at", .type = KR_API_NUMBER, .nullable = true, \
      .help = "Since when it is refused; null: it is good.", .example = "null" }

static const struct kr_api_prop key_props[] = { KEY_PROPS };
const struct kr_api_schema kr_key_schema = KR_API_SCHEMA("Key", "A key, without its text.", key_props);
static const struct kr_api_prop made_props[] = {
    KEY_PROPS,
    { .name = "key", .type = KR_API_STRING, .help = "The key itself: shown now and never again.",
      .example = "kr_4f9k2m7q0000000000000000000000000000000000000000000" },
};
static const struct kr_api_schema made_schema = KR_API_SCHEMA("KeyMade", "A key that was just made.", made_props);
static const struct kr_api_prop list_props[] = {
    { .name = "keys", .type = KR_API_ARRAY, .of = &kr_key_schema, .help = "Newest first; revoked ones too." },
    { .name = "next", .type = KR_API_STRING, .nullable = true,
      .help = "What to pass as `after` for the next page; null at the end.",
      .example = "1800000000000000.7zzzzzzzzzzzzzzzzzzzzzzzzz" },
};
static const struct kr_api_schema list_schema = KR_API_SCHEMA("Keys", "A page of keys.", list_props);

struct create {
    const char *name, *user;
    json_t *rights;
    int64_t expires_in;
};
static const struct kr_api_field create_fields[] = {
    { .name = "name", .type = KR_API_STRING, KR_API_AT(struct create, name), KR_API_LENGTH(1, KR_STORE_NAME_MAX),
      .def = "key", .nullable = true,
      .help = "What it is called.", .example = "laptop" },
    { .name = "rights", .type = KR_API_STRINGS, .choices = kr_account_right_words, KR_API_AT(struct create, rights),
     .nullable = true, KR_API_RANGE(1, 3),
      .help = "Some of read, run, admin; all that the caller may do without it.", .example = "[\"read\",\"run\"]" },
    { .name = "expires_in", .type = KR_API_INT, KR_API_AT(struct create, expires_in), .nullable = true, KR_API_RANGE(1,
      100 * YEAR),
      .help = "Seconds until it runs out; never without it.", .example = "2592000" },
    { .name = "user_id", .type = KR_API_STRING, KR_API_AT(struct create, user), .nullable = true,
      KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1), .aliases = (const char *const[]){"user", NULL},
      .help = "Whose it is to be: a user's id. Of another user only for administrators.",
      .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" },
};
static const struct kr_api_table create_table = KR_API_TABLE("KeyCreate", "A key to make.", create_fields,
    struct create);

struct list {
    struct kr_accounts_page page;
    const char *user;
    bool all;
};
static const struct kr_api_field list_fields[] = {
    { .name = "user_id", .type = KR_API_STRING, KR_API_AT(struct list, user), KR_API_LENGTH(1, KR_STORE_ID_ROOM - 1),
      .aliases = (const char *const[]){"user", NULL},
      .help = "Whose: a user's id; one's own without it. Of another user only for administrators.",
      .example = "6zzzzzzzzzzzzzzzzzzzzzzzzz" },
    { .name = "all", .type = KR_API_BOOL, KR_API_AT(struct list, all), .def = "false",
      .help = "Of all users; for administrators.", .example = "true" },
    KR_ACCOUNTS_PAGE_FIELDS(struct list),
};
static const struct kr_api_table list_table = KR_API_TABLE(NULL, "Whose keys.", list_fields, struct list);

static const struct kr_api_param key_params[] = {
    { "key_id", "A key's id.", "7zzzzzzzzzzzzzzzzzzzzzzzzz" }, { 0 },
};

const struct kr_api_doc kr_keys_list_doc = {
    .id = "list_keys", .tag = "keys", .summary = "List keys", .description = "Needs the right read, or admin.",
    .query = &list_table,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "A page of keys.", .schema = &list_schema},
    {0}},
};
const struct kr_api_doc kr_keys_create_doc = {
    .id = "create_key", .tag = "keys", .summary = "Make a key",
    .description = "The key's text is in this answer and nowhere else. Needs the right run, or admin. A key made by a "
      "key has no more rights than that, and "
                   "runs out no later.",
    .body = &create_table,
    .responses = (const struct kr_api_response[]){{.status = 201, .help = "The key.", .schema = &made_schema}, {0}},
};
const struct kr_api_doc kr_keys_read_doc = {
    .id = "read_key", .tag = "keys", .summary = "Read a key's properties",
    .description = "Needs the right read, or admin.", .params = key_params,
    .responses = (const struct kr_api_response[]){{.status = 200, .help = "The key, without its text.",
    .schema = &kr_key_schema}, {0}},
};
const struct kr_api_doc kr_keys_revoke_doc = {
    .id = "revoke_key", .tag = "keys", .summary = "Revoke a key", .params = key_params,
    .description = "It is refused from now on, for good; also when it was revoked before. Needs the right run, or "
      "admin.",
    .responses = (const struct kr_api_response[]){{.status = 204, .help = "Revoked."}, {0}},
};
/* clang-format on */

/* `text`: the key itself, once; NULL: not. */
static void write_key(struct kr_json *j, const struct kr_store_key *key, const char *text)
{
    kr_json_object(j);
    kr_json_key_str(j, "key_id", key->id);
    kr_json_key_str(j, "id", key->id); /* as clients knew it before */
    kr_json_key_str(j, "user_id", key->owner);
    kr_json_key_str(j, "user", key->owner);
    kr_json_key_str(j, "name", key->name);
    kr_json_key_str(j, "prefix", key->shown);
    kr_accounts_rights_json(j, "rights", key->rights);
    kr_accounts_time_json(j, "created_at", key->created);
    kr_accounts_time_json(j, "expires_at", key->expires);
    kr_accounts_time_json(j, "last_used_at", key->last_used);
    kr_accounts_time_json(j, "revoked_at", key->revoked);
    if (text)
        kr_json_key_str(j, "key", text);
    kr_json_object_end(j);
}

static void reply_key(struct kr_http_ex *ex, int status, const struct kr_store_key *key, const char *text)
{
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, REPLY_MAX);
    kr_json_init(&j, &out);
    write_key(&j, key, text);
    kr_api_reply(ex, status, &out);
    if (text && out.data)
        sodium_memzero(out.data, out.cap);
}

static bool is_admin(const struct kr_api_who *who)
{
    return who->caller.rights & KR_RIGHT_ADMIN;
}

/* The caller, who has this right or is an administrator. False: answered. */
static bool caller_may(struct kr_api *api, struct kr_http_ex *ex, unsigned right, struct kr_api_who *who)
{
    char has[KR_RIGHTS_ROOM], needs[KR_RIGHTS_ROOM];

    if (!kr_api_caller(api, ex, who))
        return false;
    if (who->caller.rights & (right | KR_RIGHT_ADMIN))
        return true;
    kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "the key has the right to %s; this needs %s",
                     kr_rights_show(who->caller.rights, has), kr_rights_show(right, needs));
    return false;
}

/* ---- lists ---- */

static void on_key(void *data, const struct kr_store_key *key)
{
    write_key(data, key, NULL);
}

static void reply_keys(struct kr_api *api, struct kr_http_ex *ex, const struct kr_api_who *who, const struct list *q)
{
    struct kr_store_page page = {.after = q->page.after, .limit = (unsigned)q->page.limit};
    cleanup_buf struct kr_buf out;
    struct kr_err err;
    struct kr_json j;
    int r;

    kr_buf_init(&out, REPLY_MAX);
    kr_api_page_begin(&j, &out, "keys");
    r = q->all ? kr_store_keys_list_all(api->store, &page, on_key, &j, &err)
               : kr_store_keys_list(api->store, q->user ? q->user : who->user, &page, on_key, &j, &err);
    if (r < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_api_page_end(&j, page.next);
    kr_api_reply(ex, 200, &out);
}

void kr_keys_list(struct kr_http_ex *ex, void *app)
{
    struct kr_api_input in;
    struct kr_api_who who;
    struct list q;

    if (!caller_may(app, ex, KR_RIGHT_READ, &who) || !kr_api_read_query(ex, &list_table, &q, &in))
        return;
    if ((q.all || (q.user && strcmp(q.user, who.user) != 0)) && !is_admin(&who))
        kr_api_fail_with(ex, KR_ERR_FORBIDDEN, "the keys of others are for administrators");
    else
        reply_keys(app, ex, &who, &q);
    kr_api_input_done(&in);
}

/* ---- making ---- */

int kr_keys_make(struct kr_api *api, const struct kr_api_who *who, const char *owner, const char *name, unsigned rights,
                 int64_t expires, char ret_text[KR_STORE_KEY_ROOM], struct kr_store_key *ret_key, struct kr_err *err)
{
    struct kr_store_key_new new = {
        .owner = owner, .name = name, .rights = rights, .expires = expires, .now = kr_store_now()};
    bool own = strcmp(owner, who->user) == 0;
    int r;

    if (!is_admin(who) && !own)
        return kr_err_set(err, KR_ERR_FORBIDDEN, 0, "keys for others are made by administrators"), -EPERM;
    if (!is_admin(who) && rights & ~who->caller.rights)
        return kr_err_set(err, KR_ERR_FORBIDDEN, 0, "a key cannot be given rights that its maker does not have"),
               -EPERM;
    if (own && who->how == KR_AUTH_KEY && who->expires && (expires == 0 || expires > who->expires))
        new.expires = who->expires;
    r = kr_store_key_add(api->store, &new, ret_text, ret_key, err);
    if (r >= 0)
        kr_accounts_audit(api, who, "key.create", ret_key->id, "ok", NULL);
    return r < 0 ? r : 0;
}

static void on_key_body(struct kr_http_ex *ex, void *app, void *request, struct kr_api_input *in)
{
    const struct create *q = request;
    char text[KR_STORE_KEY_ROOM] = "";
    struct kr_store_key key;
    struct kr_api_who who;
    unsigned rights;
    struct kr_err err;
    const char *owner;
    int r;

    (void)in;
    if (!caller_may(app, ex, KR_RIGHT_RUN, &who))
        return;
    owner = q->user ? q->user : who.user;
    r = kr_accounts_rights(q->rights, strcmp(owner, who.user) == 0 ? who.caller.rights : KR_RIGHT_READ | KR_RIGHT_RUN,
                           &rights, &err);
    if (r >= 0)
        r = kr_keys_make(app, &who, owner, q->name, rights,
                         q->expires_in ? kr_store_now() + q->expires_in * INT64_C(1000000) : 0, text, &key, &err);
    if (r < 0)
        kr_accounts_fail(ex, &err);
    else
        reply_key(ex, 201, &key, text);
    sodium_memzero(text, sizeof text);
}

void kr_keys_create(struct kr_http_ex *ex, void *app)
{
    struct kr_api *api = app;

    kr_api_read_body(api->loop, ex, app, &create_table, on_key_body);
}

/* ---- one key ---- */

/* Whose key the path names, as far as the caller may know. 0 or -ENOENT. */
static int owner_of(struct kr_api *api, const struct kr_api_who *who, const char *id, char owner[KR_STORE_ID_ROOM],
                    struct kr_err *err)
{
    if (is_admin(who))
        return kr_store_key_owner(api->store, id, owner, err);
    memcpy(owner, who->user, KR_STORE_ID_ROOM);
    return 0;
}

void kr_keys_read(struct kr_http_ex *ex, void *app)
{
    const char *id = kr_http_param(ex, "key_id");
    struct kr_api *api = app;
    char owner[KR_STORE_ID_ROOM];
    struct kr_store_key key;
    struct kr_api_who who;
    struct kr_err err;

    if (!caller_may(api, ex, KR_RIGHT_READ, &who))
        return;
    if (owner_of(api, &who, id, owner, &err) < 0 || kr_store_key_get(api->store, owner, id, &key, &err) < 0)
        kr_accounts_fail(ex, &err);
    else
        reply_key(ex, 200, &key, NULL);
}

void kr_keys_revoke(struct kr_http_ex *ex, void *app)
{
    const char *id = kr_http_param(ex, "key_id");
    struct kr_api *api = app;
    char owner[KR_STORE_ID_ROOM];
    struct kr_api_who who;
    struct kr_err err;

    if (!caller_may(api, ex, KR_RIGHT_RUN, &who))
        return;
    if (owner_of(api, &who, id, owner, &err) < 0 ||
        kr_store_key_revoke(api->store, owner, id, kr_store_now(), &err) < 0) {
        kr_accounts_fail(ex, &err);
        return;
    }
    kr_auth_forget(api->auth);
    kr_accounts_audit(api, &who, "key.revoke", id, "ok", NULL);
    kr_api_reply_nothing(ex);
}
