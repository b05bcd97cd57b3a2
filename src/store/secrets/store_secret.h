/* Secrets of users, in the store: a value with a name, and the hosts that may have it (wire/secret_terms.h).
 *
 * A value is sealed (XSalsa20-Poly1305) under a key made of the file `secrets.key`, its owner, its id and its hosts, so
 * that a row which was changed by hand, or moved to another user or other hosts, does not open. */
#pragma once
#include "secret_terms.h"
#include "store.h"

#define KR_STORE_SECRETS_MAX 100u /* of a user */
#define KR_STORE_SECRET_HOSTS_ROOM (KR_SECRET_HOSTS_MAX * (KR_SECRET_HOST_ROOM + 3) + 3)

struct kr_store_secret {
    char id[KR_STORE_ID_ROOM]; /* another one with each value */
    char name[KR_SECRET_NAME_MAX + 1];
    char hosts[KR_STORE_SECRET_HOSTS_ROOM]; /* a JSON array of texts */
    int64_t created, changed;
};

/* Keeps a value, in place of what the name had. Name, value and hosts have been checked. 0; -EDQUOT (kind limit);
 * -ENOENT (no such user). fsync. */
int kr_store_secret_put(struct kr_store *s, const char *owner, const char *name, const char *hosts, const char *value,
                        int64_t now, struct kr_err *err);
/* 0 or -ENOENT. */
int kr_store_secret_get(struct kr_store *s, const char *owner, const char *name, struct kr_store_secret *ret_secret,
                        struct kr_err *err);
/* The value as well, which the caller wipes. -EBADMSG: it does not open. */
int kr_store_secret_open(struct kr_store *s, const char *owner, const char *name, struct kr_store_secret *ret_secret,
                         char ret_value[KR_SECRET_VALUE_MAX + 1], struct kr_err *err);
/* By name; KR_STORE_SECRETS_MAX at most. Rows or -errno. */
int kr_store_secrets_list(struct kr_store *s, const char *owner,
                          void (*on_secret)(void *data, const struct kr_store_secret *secret), void *data,
                          struct kr_err *err);
/* 0 or -ENOENT. fsync. */
int kr_store_secret_delete(struct kr_store *s, const char *owner, const char *name, struct kr_err *err);
/* The server's own certificate authority, the file `ca.pem`: what is there, or what `make` makes. *ret_pem is to be
 * wiped and freed. 0 or -errno. */
int kr_store_authority(struct kr_store *s, int (*make)(char **ret_pem), char **ret_pem, struct kr_err *err);
/* The text that stands for the secret in this sandbox: always the same, and not to be guessed. */
void kr_store_secret_placeholder(const struct kr_store *s, const char *owner, const char *sandbox, const char *name,
                                 char ret_text[KR_SECRET_PLACEHOLDER_LEN + 1]);
