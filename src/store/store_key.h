/* API keys and login tokens, in the store.
 *
 * Both are 256 random bits as text, told once and never stored: the store has their BLAKE2b-256, keyed with the
 * pepper (a file beside the database), so that a copy of the database alone cannot even confirm a guess. A lookup
 * searches by that hash, which no client can steer, and compares it once more in constant time. */
#pragma once
#include "store_user.h"

#define KR_STORE_KEY_PREFIX "kr_"
#define KR_STORE_TOKEN_PREFIX "krt_"
#define KR_STORE_KEY_ROOM 60    /* of either text: prefix, 52 characters, NUL */
#define KR_STORE_SHOWN_ROOM 12  /* "kr_" and 8 characters, by which a person knows a key again */
#define KR_STORE_KEYS_MAX 200u  /* live keys of one user */
#define KR_STORE_TOKENS_MAX 50u /* tokens of one user: one more ends the oldest */

struct kr_store_key {
    char id[KR_STORE_ID_ROOM];
    char owner[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM];
    char shown[KR_STORE_SHOWN_ROOM];
    unsigned rights;
    int64_t created;
    int64_t expires;   /* 0: never */
    int64_t last_used; /* to the minute; 0: never yet */
    int64_t revoked;   /* 0: is not */
};

struct kr_store_key_new {
    const char *owner; /* a user's id */
    const char *name;
    unsigned rights;
    int64_t expires; /* 0: never */
    int64_t now;
};

/* Whose request it is. */
struct kr_store_grant {
    char user[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM]; /* the user's */
    char key[KR_STORE_ID_ROOM];    /* the key's id; "" for a login token */
    unsigned rights;               /* what both the key and its user have */
    int64_t expires;
};

/* Makes a key; ret_text is its one and only appearance (wipe it). 0, -ENOENT (no such user), -EINVAL, -EDQUOT (kind
 * limit: KR_STORE_KEYS_MAX). ret_key may be NULL. fsync. */
int kr_store_key_add(struct kr_store *s, const struct kr_store_key_new *key, char ret_text[KR_STORE_KEY_ROOM],
                     struct kr_store_key *ret_key, struct kr_err *err);
/* 0 or -ENOENT, also for another owner's. */
int kr_store_key_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_key *ret_key,
                     struct kr_err *err);
/* 0 (also when it was before) or -ENOENT, also for another owner's. fsync. */
int kr_store_key_revoke(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err);
/* Whose key that is, for administrators: 0 or -ENOENT. */
int kr_store_key_owner(struct kr_store *s, const char *id, char ret_owner[KR_STORE_ID_ROOM], struct kr_err *err);
/* The keys of one owner. Rows, or -errno. */
int kr_store_keys_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                       void (*on_key)(void *data, const struct kr_store_key *key), void *data, struct kr_err *err);
/* Those of all users, for administrators. */
int kr_store_keys_list_all(struct kr_store *s, struct kr_store_page *page,
                           void (*on_key)(void *data, const struct kr_store_key *key), void *data, struct kr_err *err);

/* Makes a login token for a user. 0, -ENOENT, -EINVAL. */
int kr_store_token_add(struct kr_store *s, const char *owner, int64_t expires, int64_t now,
                       char ret_text[KR_STORE_KEY_ROOM], struct kr_err *err);
/* Ends one (log out). 0 or -ENOKEY. fsync. */
int kr_store_token_revoke(struct kr_store *s, const char *text, struct kr_err *err);

/* Who is behind a key or a token (its prefix tells which). 0, or kind denied with -ENOKEY (unknown, or no key at all),
 * -EKEYREVOKED, -EKEYEXPIRED, -EACCES (the user is disabled); any other -errno is trouble of the store, not a refusal.
 * Notes the use of a key, at most once a minute; if that cannot be written it is logged and ignored. */
int kr_store_grant(struct kr_store *s, const char *text, int64_t now, struct kr_store_grant *ret_grant,
                   struct kr_err *err);
/* Deletes keys that were revoked or ran out before that time, and tokens that have run out, KR_STORE_PRUNE_MAX of each
 * at most. How many, or -errno. */
int kr_store_grants_prune(struct kr_store *s, int64_t before, int64_t now, struct kr_err *err);
