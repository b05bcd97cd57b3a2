/* Who is behind a key or a login token; and login tokens.
 *
 * Called by the server for every request that brings one: a hash, a lookup by it, a comparison in constant time.
 * Invariant: what is refused is refused after the same steps whatever it is, but for text that cannot be a key at
 * all. */
#include "store_internal.h"
#include "store_key.h"
#include "log.h"
#include <errno.h>
#include <sodium.h>
#include <string.h>

static int refuse(struct kr_err *err, int code, const char *text)
{
    return kr_store_err(err, KR_ERR_DENIED, code, "%s", text);
}

/* Another process may be writing: then the next request notes it. */
static void touch(struct kr_store *s, const char *key, int64_t now)
{
    struct kr_err err;
    int r;

    sqlite3_busy_timeout(s->db, 0);
    r = kr_st_exec(s, KR_ST_KEY_TOUCH, &err, "ti", key, now);
    sqlite3_busy_timeout(s->db, KR_STORE_BUSY_MS);
    if (r < 0 && r != -EBUSY && now - s->touch_warned >= KR_STORE_MINUTE) {
        s->touch_warned = now;
        kr_log(KR_LOG_WARN, "the use of a key is not noted, ignoring", "key=%s error=\"%s\"", key, err.msg);
    }
}

/* The row of KR_ST_KEY_GRANT or KR_ST_TOKEN_GRANT. 1: its use is to be noted. */
static int judge(sqlite3_stmt *st, const unsigned char *hash, int64_t now, struct kr_store_grant *grant,
                 struct kr_err *err)
{
    int64_t expires = sqlite3_column_int64(st, 3), last_used = sqlite3_column_int64(st, 5);

    if (sqlite3_column_bytes(st, 0) != KR_STORE_HASH_BYTES ||
        sodium_memcmp(sqlite3_column_blob(st, 0), hash, KR_STORE_HASH_BYTES) != 0)
        return refuse(err, ENOKEY, "the key is not known");
    if (sqlite3_column_type(st, 4) != SQLITE_NULL)
        return refuse(err, EKEYREVOKED, "the key is revoked");
    if (expires && expires <= now)
        return refuse(err, EKEYEXPIRED, "the key has run out");
    if (sqlite3_column_type(st, 8) != SQLITE_NULL)
        return refuse(err, EACCES, "the user is disabled");
    memset(grant, 0, sizeof *grant);
    kr_st_text(st, 1, grant->key, sizeof grant->key);
    kr_st_text(st, 6, grant->user, sizeof grant->user);
    kr_st_text(st, 7, grant->name, sizeof grant->name);
    grant->rights = (unsigned)sqlite3_column_int64(st, 2);
    grant->expires = expires;
    return grant->key[0] && now - last_used >= KR_STORE_MINUTE;
}

static int look_up(struct kr_store *s, enum kr_st which, const unsigned char *hash, int64_t now,
                   struct kr_store_grant *grant, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, which, &st, err, "b", hash, (size_t)KR_STORE_HASH_BYTES);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    return r == 0 ? refuse(err, ENOKEY, "the key is not known") : judge(st, hash, now, grant, err);
}

int kr_store_grant(struct kr_store *s, const char *text, int64_t now, struct kr_store_grant *ret_grant,
                   struct kr_err *err)
{
    bool key = kr_store_key_looks(text, KR_STORE_KEY_PREFIX);
    unsigned char hash[KR_STORE_HASH_BYTES];
    int r;

    if (!key && !kr_store_key_looks(text, KR_STORE_TOKEN_PREFIX))
        return refuse(err, ENOKEY, "the key is not known");
    kr_store_hash(s, key ? "key" : "token", text, hash);
    r = look_up(s, key ? KR_ST_KEY_GRANT : KR_ST_TOKEN_GRANT, hash, now, ret_grant, err);
    if (r > 0)
        touch(s, ret_grant->key, now);
    return r < 0 ? r : 0;
}

int kr_store_token_add(struct kr_store *s, const char *owner, int64_t expires, int64_t now,
                       char ret_text[KR_STORE_KEY_ROOM], struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    unsigned char hash[KR_STORE_HASH_BYTES];
    int r;

    if (expires <= now)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "expires: a time to come");
    kr_store_new_key(KR_STORE_TOKEN_PREFIX, ret_text);
    kr_store_hash(s, "token", ret_text, hash);
    if ((r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    r = kr_st_exec(s, KR_ST_TOKEN_ADD, err, "btii", hash, sizeof hash, owner, now, expires);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
    if (r < 0 || (r = kr_st_exec(s, KR_ST_TOKEN_TRIM, err, "ti", owner, (int64_t)KR_STORE_TOKENS_MAX)) < 0)
        return r;
    return kr_txn_commit(&t, false, err);
}

int kr_store_token_revoke(struct kr_store *s, const char *text, struct kr_err *err)
{
    unsigned char hash[KR_STORE_HASH_BYTES];
    int r;

    kr_store_hash(s, "token", text, hash);
    r = kr_st_exec(s, KR_ST_TOKEN_REVOKE, err, "b", hash, sizeof hash);
    if (r < 0)
        return r;
    return r == 0 ? refuse(err, ENOKEY, "the key is not known") : kr_store_sync(s, err);
}

int kr_store_grants_prune(struct kr_store *s, int64_t before, int64_t now, struct kr_err *err)
{
    int keys = kr_st_exec(s, KR_ST_KEY_PRUNE, err, "ii", before, (int64_t)KR_STORE_PRUNE_MAX), tokens;

    if (keys < 0)
        return keys;
    tokens = kr_st_exec(s, KR_ST_TOKEN_PRUNE, err, "ii", now, (int64_t)KR_STORE_PRUNE_MAX);
    return tokens < 0 ? tokens : keys + tokens;
}
