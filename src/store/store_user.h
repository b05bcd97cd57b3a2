/* Users, in the store. */
#pragma once
#include "store.h"

#define KR_STORE_NAME_MAX 64u /* bytes of a name: UTF-8 without control characters, no space at either end */
#define KR_STORE_NAME_ROOM (KR_STORE_NAME_MAX + 1)
#define KR_STORE_EMAIL_ROOM 255 /* RFC 5321: 254 characters */

/* The local user, who is there from the start, has every right and no password, and is neither disabled nor deleted.
 * This is its id and its name. */
#define KR_STORE_ROOT "root"

enum kr_right {
    KR_RIGHT_READ = 1 << 0,
    KR_RIGHT_RUN = 1 << 1,
    KR_RIGHT_ADMIN = 1 << 2,
    KR_RIGHT_ALL = (1 << 3) - 1,
};
struct kr_right_row {
    unsigned bit;
    const char *name, *help;
};
extern const struct kr_right_row kr_right_rows[];
extern const size_t kr_right_rows_count;
#define KR_RIGHTS_ROOM 32
/* Reads "read,run" (a comma or a space between; "all" too). 0, or -EINVAL naming what is no right. */
int kr_rights_parse(const char *text, unsigned *ret_rights, struct kr_err *err);
/* Writes "read,run"; returns buf. */
const char *kr_rights_show(unsigned rights, char buf[KR_RIGHTS_ROOM]);

struct kr_store_user {
    char id[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM];
    char email[KR_STORE_EMAIL_ROOM]; /* "" if none */
    unsigned rights;
    bool has_password;
    int64_t created;
    int64_t disabled; /* since when; 0: is not */
};

struct kr_store_user_new {
    const char *name;     /* unique, whatever the case of its ASCII letters */
    const char *email;    /* NULL or "": none; else unique in the same way */
    const char *password; /* a kr_password_hash(); NULL: cannot log in by password */
    unsigned rights;
    int64_t now;
};

/* 0; -EINVAL with the field that is wrong; -EEXIST with "name: …" or "email: …" (kind invalid). ret_user may be
 * NULL. fsync. */
int kr_store_user_add(struct kr_store *s, const struct kr_store_user_new *user, struct kr_store_user *ret_user,
                      struct kr_err *err);
/* 0 or -ENOENT. */
int kr_store_user_get(struct kr_store *s, const char *id, struct kr_store_user *ret_user, struct kr_err *err);
/* By name. 0 or -ENOENT. ret_hash (KR_PASSWORD_ROOM bytes, or NULL) gets the password's hash, "" if there is none. On
 * -ENOENT let kr_password_verify() work on NULL all the same, so that the time does not tell who exists. */
int kr_store_user_find(struct kr_store *s, const char *name, struct kr_store_user *ret_user, char *ret_hash,
                       struct kr_err *err);
/* Changes it, NULL takes it away; ends the user's login tokens in the same transaction. 0 or -ENOENT. fsync. */
int kr_store_user_set_password(struct kr_store *s, const char *id, const char *hash, struct kr_err *err);
/* 0, -ENOENT, -EINVAL, -EEXIST; NULL or "" takes it away. */
int kr_store_user_set_email(struct kr_store *s, const char *id, const char *email, struct kr_err *err);
/* 0, -ENOENT, or -EPERM for root. fsync. */
int kr_store_user_set_rights(struct kr_store *s, const char *id, unsigned rights, struct kr_err *err);
/* Disables (their keys and tokens are refused from now on) or, with disabled 0, enables again. 0, -ENOENT, or -EPERM
 * for root. fsync. */
int kr_store_user_set_disabled(struct kr_store *s, const char *id, int64_t disabled, struct kr_err *err);
/* Deletes the user's runs, connections and security events (KR_STORE_PRUNE_MAX a call of each: 1 means call again;
 * on_run_gone, which may be NULL, gets the id of each run, as in kr_store_runs_prune()), and then in one transaction
 * the user with keys, tokens and sandboxes, whose folders become doomed (store_sandbox.h). 0 when gone, 1, -ENOENT,
 * -EPERM for root. Disable first, or new runs may come in between. fsync. */
int kr_store_user_delete(struct kr_store *s, const char *id, void (*on_run_gone)(void *data, const char *run),
                         void *data, struct kr_err *err);
/* Rows, or -errno. */
int kr_store_users_list(struct kr_store *s, struct kr_store_page *page,
                        void (*on_user)(void *data, const struct kr_store_user *user), void *data, struct kr_err *err);
