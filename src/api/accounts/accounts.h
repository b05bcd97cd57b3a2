/* Users, keys, logins and the audit log over HTTP: what their files share, and their rows of the route table.
 *
 * user_routes.c, key_routes.c, audit_routes.c and login_routes.c speak krait's voice beneath /api/v1. The account
 * routes of document 004 (mcp-sandbox) are in src/dialect and use what is here. Loop thread only. */
#pragma once
#include "api.h"
#include "route_doc.h"
#include "err.h"
#include "passwords.h"
#include <jansson.h>

struct kr_job_kind;
struct kr_json;
struct kr_throttle;

extern const char *const kr_account_right_words[]; /* the words, for the rows of replies and requests */

#define KR_PASSWORD_LEAST 8 /* characters of a new one; the documents' registration takes any */

/* kr_api.account */
struct kr_accounts {
    struct kr_passwords *passwords;
    struct kr_throttle *addresses;     /* wrong passwords of one network: 10, then one in 6 s */
    struct kr_throttle *names;         /* wrong passwords for one user: 50, then one in 10 s */
    struct kr_throttle *known;         /* who logged in from which network within a day: throttled by itself */
    struct kr_throttle *registrations; /* of one network: 10, then one a minute */
};

/* Fills api->accounts and adds the job kinds of this folder. 0 or -errno. */
int kr_accounts_new(struct kr_api *api, struct kr_err *err);
/* After the server has stopped, before the loop has: threads may be at work. */
void kr_accounts_close(struct kr_api *api);
/* The job that DELETE of a user starts. */
extern const struct kr_job_kind kr_users_delete_kind;

/* ---- an answer that waits for a password's work ---- */

struct kr_wait;
/* The work is done and the peer is still there: answers. r and hash as in kr_password_done_fn. */
typedef void kr_wait_then(struct kr_wait *w, int r, const char *hash);

/* The head of a heap object of the handler's own, which is zeroed at first, wiped and freed when it is over. */
struct kr_wait {
    struct kr_api *api;
    struct kr_http_ex *ex;
    struct kr_password_job *job;
    kr_wait_then *then;
    size_t size; /* of the whole object */
};
/* Defers the exchange and does the work; `then` comes later unless the peer leaves. On failure (0 otherwise) it has
 * answered, and the object is gone. */
int kr_wait_start(struct kr_wait *w, const struct kr_password_ask *ask);
/* Gives up before it was started: wipes and frees. */
void kr_wait_drop(struct kr_wait *w);

/* ---- small things ---- */

/* ["read","run"] or a field of that kind; NULL: `otherwise`. 0 or -EINVAL with err. */
int kr_accounts_rights(const json_t *words, unsigned otherwise, unsigned *ret_rights, struct kr_err *err);
void kr_accounts_rights_json(struct kr_json *j, const char *key, unsigned rights);
/* A time of the store: seconds since 1970, with a fraction; 0 is null. */
void kr_accounts_time_json(struct kr_json *j, const char *key, int64_t us);
/* The same as the documents write it: "2027-01-15T08:00:00.250000Z". */
void kr_accounts_date_json(struct kr_json *j, const char *key, int64_t us);
/* A row of the audit log about what the caller did. `detail` a JSON object or NULL. */
void kr_accounts_audit(struct kr_api *api, const struct kr_api_who *who, const char *what, const char *object,
                       const char *outcome, const char *detail);
/* Ends what the user has going: sessions, and runs that have none. */
void kr_accounts_end_work(struct kr_api *api, const char *user, const struct kr_api_who *who);
/* Answers with a store's or the box's error. A field that the text names ("email: …") is the field of the reply. */
void kr_accounts_fail(struct kr_http_ex *ex, const struct kr_err *err);

/* Pages: limit and after of a list's query, as the member `page` of its struct. */
struct kr_accounts_page {
    int64_t limit;
    const char *after;
};
/* clang-format off */
#define KR_ACCOUNTS_PAGE_FIELDS(type_) \
    { .name = "limit", .type = KR_API_INT, KR_API_AT(type_, page.limit), KR_API_RANGE(1, KR_STORE_PAGE_MAX), \
     .def = "50", \
      .help = "Rows of this page.", .example = "50" }, \
    { .name = "after", .type = KR_API_STRING, KR_API_AT(type_, page.after), KR_API_LENGTH(1, \
      KR_STORE_CURSOR_ROOM - 1), \
      .help = "The `next` of the page before.", .example = "1800000000000000.7zzzzzzzzzzzzzzzzzzzzzzzzz" }
/* clang-format on */

/* A user as our voice writes it. */
void kr_users_json(struct kr_json *j, const struct kr_store_user *user);
extern const struct kr_api_schema kr_user_schema, kr_key_schema;

/* The name of the key that the account routes of document 004 (mcp-sandbox) read and replace. */
#define KR_ACCOUNT_KEY "account"
/* Makes a key that has no more rights than the caller and lasts no longer than the caller's own key. 0 or -errno. */
int kr_keys_make(struct kr_api *api, const struct kr_api_who *who, const char *owner, const char *name, unsigned rights,
                 int64_t expires, char ret_text[KR_STORE_KEY_ROOM], struct kr_store_key *ret_key, struct kr_err *err);

/* ---- logins ---- */

struct kr_login {
    struct kr_wait wait;
    char name[KR_STORE_NAME_ROOM];
    char hash[KR_PASSWORD_ROOM]; /* what was compared with */
    void (*answer)(struct kr_http_ex *ex, const struct kr_store_user *user, const char *token, int64_t expires);
};
/* Checks name and password off the loop, makes a token and lets `answer` say so; answers every refusal itself. */
void kr_login_start(struct kr_api *api, struct kr_http_ex *ex, const char *name, const char *password, size_t len,
                    void (*answer)(struct kr_http_ex *ex, const struct kr_store_user *user, const char *token,
                                   int64_t expires));

/* ---- the routes ---- */

kr_http_handler kr_users_list, kr_users_create, kr_users_me, kr_users_read, kr_users_change, kr_users_delete;
kr_http_handler kr_keys_list, kr_keys_create, kr_keys_read, kr_keys_revoke;
kr_http_handler kr_audit_list;
kr_http_handler kr_secrets_list, kr_secrets_put, kr_secrets_read, kr_secrets_delete;
kr_http_handler kr_login_in, kr_login_out, kr_login_password;

extern const struct kr_api_doc kr_users_list_doc, kr_users_create_doc, kr_users_me_doc, kr_users_read_doc,
    kr_users_change_doc, kr_users_delete_doc, kr_keys_list_doc, kr_keys_create_doc, kr_keys_read_doc,
    kr_keys_revoke_doc, kr_audit_list_doc, kr_secrets_list_doc, kr_secrets_put_doc, kr_secrets_read_doc,
    kr_secrets_delete_doc, kr_login_in_doc, kr_login_out_doc, kr_login_password_doc;

#define KR_ACCOUNTS_BODY_MAX 16384u
/* Rows of the one table (routes.c), sorted by path. */
/* clang-format off */
#define KR_ACCOUNTS_ROUTES \
    { KR_HTTP_GET,    "/api/v1/audit",             0, 0, kr_audit_list, &kr_audit_list_doc }, \
    { KR_HTTP_GET,    "/api/v1/keys",              0, 0, kr_keys_list, &kr_keys_list_doc }, \
    { KR_HTTP_POST,   "/api/v1/keys",              KR_ACCOUNTS_BODY_MAX, 0, kr_keys_create, &kr_keys_create_doc }, \
    { KR_HTTP_GET,    "/api/v1/keys/{key_id}",     0, 0, kr_keys_read, &kr_keys_read_doc }, \
    { KR_HTTP_DELETE, "/api/v1/keys/{key_id}",     0, 0, kr_keys_revoke, &kr_keys_revoke_doc }, \
    { KR_HTTP_POST,   "/api/v1/login",             KR_ACCOUNTS_BODY_MAX, 0, kr_login_in, &kr_login_in_doc }, \
    { KR_HTTP_POST,   "/api/v1/logout",            0, 0, kr_login_out, &kr_login_out_doc }, \
    { KR_HTTP_GET,    "/api/v1/secrets",           0, 0, kr_secrets_list, &kr_secrets_list_doc }, \
    { KR_HTTP_GET,    "/api/v1/secrets/{secret_name}", 0, 0, kr_secrets_read, &kr_secrets_read_doc }, \
    { KR_HTTP_PUT,    "/api/v1/secrets/{secret_name}", KR_ACCOUNTS_BODY_MAX, 0, kr_secrets_put, &kr_secrets_put_doc }, \
    { KR_HTTP_DELETE, "/api/v1/secrets/{secret_name}", 0, 0, kr_secrets_delete, &kr_secrets_delete_doc }, \
    { KR_HTTP_GET,    "/api/v1/users",             0, 0, kr_users_list, &kr_users_list_doc }, \
    { KR_HTTP_POST,   "/api/v1/users",             KR_ACCOUNTS_BODY_MAX, 0, kr_users_create, &kr_users_create_doc }, \
    { KR_HTTP_GET,    "/api/v1/users/me",          0, KR_HTTP_ALONE, kr_users_me, &kr_users_me_doc }, \
    { KR_HTTP_PUT,    "/api/v1/users/me/password", KR_ACCOUNTS_BODY_MAX, 0, kr_login_password, \
      &kr_login_password_doc }, \
    { KR_HTTP_GET,    "/api/v1/users/{user_id}",   0, 0, kr_users_read, &kr_users_read_doc }, \
    { KR_HTTP_PATCH,  "/api/v1/users/{user_id}",   KR_ACCOUNTS_BODY_MAX, 0, kr_users_change, &kr_users_change_doc }, \
    { KR_HTTP_DELETE, "/api/v1/users/{user_id}",   0, 0, kr_users_delete, &kr_users_delete_doc }
/* clang-format on */
