/* API keys.
 *
 * Called by the server's accounts and by `krait keys`; what a request brings is judged in store_grant.c. Invariant: a
 * key's text is in the caller's memory and nowhere else; a key is found by its owner's id and its own. */
#include "store_key.h"
#include "store_internal.h"
#include <errno.h>
#include <stdio.h>

static int no_such_key(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such key");
}

static int check(const struct kr_store_key_new *key, struct kr_err *err)
{
    int r = kr_store_text_check("name", key->name, KR_STORE_NAME_MAX, err);

    if (r < 0)
        return r;
    if (key->rights == 0 || key->rights & ~(unsigned)KR_RIGHT_ALL)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "rights: at least one of read, run, admin");
    if (key->expires < 0 || (key->expires && key->expires <= key->now))
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "expires: a time to come");
    return 0;
}

static int add(struct kr_store *s, const struct kr_store_key_new *key, const char *id, const char *text,
               struct kr_err *err)
{
    unsigned char hash[KR_STORE_HASH_BYTES];
    char shown[KR_STORE_SHOWN_ROOM];
    int r;

    kr_store_hash(s, "key", text, hash);
    snprintf(shown, sizeof shown, "%s", text); /* cut to its room */
    r = kr_st_exec(s, KR_ST_KEY_ADD, err, "ttbttiin", id, key->owner, hash, sizeof hash, shown, key->name,
                   (int64_t)key->rights, key->now, key->expires);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
    return r;
}

int kr_store_key_add(struct kr_store *s, const struct kr_store_key_new *key, char ret_text[KR_STORE_KEY_ROOM],
                     struct kr_store_key *ret_key, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    char id[KR_STORE_ID_ROOM];
    int64_t live;
    int r;

    if ((r = check(key, err)) < 0 || (r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    live = kr_st_int(s, KR_ST_KEY_COUNT, err, "ti", key->owner, key->now);
    if (live < 0)
        return (int)live;
    if (live >= KR_STORE_KEYS_MAX)
        return kr_store_err(err, KR_ERR_LIMIT, EDQUOT, "at most %u keys a user: revoke one first", KR_STORE_KEYS_MAX);
    kr_store_new_id(id);
    kr_store_new_key(KR_STORE_KEY_PREFIX, ret_text);
    /* Dead keys are kept to be seen, but no more of them than of live ones. */
    if ((r = add(s, key, id, ret_text, err)) < 0 ||
        (r = kr_st_exec(s, KR_ST_KEY_TRIM, err, "tii", key->owner, key->now, (int64_t)KR_STORE_KEYS_MAX)) < 0 ||
        (r = kr_txn_commit(&t, true, err)) < 0)
        return r;
    return ret_key ? kr_store_key_get(s, key->owner, id, ret_key, err) : 0;
}

static void fill(sqlite3_stmt *st, struct kr_store_key *key)
{
    kr_st_text(st, 0, key->id, sizeof key->id);
    kr_st_text(st, 1, key->owner, sizeof key->owner);
    kr_st_text(st, 2, key->name, sizeof key->name);
    kr_st_text(st, 3, key->shown, sizeof key->shown);
    key->rights = (unsigned)sqlite3_column_int64(st, 4);
    key->created = sqlite3_column_int64(st, 5);
    key->expires = sqlite3_column_int64(st, 6);
    key->last_used = sqlite3_column_int64(st, 7);
    key->revoked = sqlite3_column_int64(st, 8);
}

int kr_store_key_get(struct kr_store *s, const char *owner, const char *id, struct kr_store_key *ret_key,
                     struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_KEY_GET, &st, err, "tt", id, owner);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_key(err);
    fill(st, ret_key);
    return 0;
}

int kr_store_key_revoke(struct kr_store *s, const char *owner, const char *id, int64_t now, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_KEY_REVOKE, err, "tti", id, owner, now);

    if (r < 0)
        return r;
    return r == 0 ? no_such_key(err) : kr_store_sync(s, err);
}

int kr_store_key_owner(struct kr_store *s, const char *id, char ret_owner[KR_STORE_ID_ROOM], struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_KEY_OWNER, &st, err, "t", id);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_key(err);
    kr_st_text(st, 0, ret_owner, KR_STORE_ID_ROOM);
    return 0;
}

static int list(struct kr_store *s, sqlite3_stmt *st, struct kr_walk *w,
                void (*on_key)(void *data, const struct kr_store_key *key), void *data, struct kr_err *err)
{
    struct kr_store_key key;
    int r;

    while ((r = kr_st_step(s, st, err)) > 0 && kr_walk_more(w, true)) {
        fill(st, &key);
        kr_walk_at(w, key.created, key.id);
        on_key(data, &key);
    }
    return r < 0 ? r : (int)w->given;
}

int kr_store_keys_list(struct kr_store *s, const char *owner, struct kr_store_page *page,
                       void (*on_key)(void *data, const struct kr_store_key *key), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_KEY_LIST, &st, err, "tit", owner, w.time, w.id)) < 0)
        return r;
    return list(s, st, &w, on_key, data, err);
}

int kr_store_keys_list_all(struct kr_store *s, struct kr_store_page *page,
                           void (*on_key)(void *data, const struct kr_store_key *key), void *data, struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_walk w;
    int r = kr_walk_init(&w, page, false, err);

    if (r < 0 || (r = kr_st_open(s, KR_ST_KEY_LIST_ALL, &st, err, "it", w.time, w.id)) < 0)
        return r;
    return list(s, st, &w, on_key, data, err);
}
