/* Secrets of users, sealed.
 *
 * Called by the domain (src/box/box_secrets.c). Invariants: no value is in the database but sealed; no statement finds
 * a secret without its owner; what was a value in memory of this file is wiped before it is given back. */
#include "store_secret.h"
#include "fd.h"
#include "log.h"
#include "store_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define AUTHORITY "ca.pem"
#define AUTHORITY_MAX 16384u
#define SEALED_MAX (crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + KR_SECRET_VALUE_MAX)

static int no_such_secret(struct kr_err *err)
{
    return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "there is no secret of that name");
}

/* BLAKE2b of the texts, each with its NUL, under the key of secrets. */
static void derive(const struct kr_store *s, const char *const *texts, size_t count, unsigned char *out, size_t len)
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, s->secrets_key, sizeof s->secrets_key, len);
    for (size_t i = 0; i < count; i++)
        crypto_generichash_update(&state, (const unsigned char *)texts[i], strlen(texts[i]) + 1);
    crypto_generichash_final(&state, out, len);
    sodium_memzero(&state, sizeof state);
}

static void key_of(const struct kr_store *s, const char *owner, const struct kr_store_secret *secret,
                   unsigned char key[crypto_secretbox_KEYBYTES])
{
    const char *const texts[] = {"value of a secret", owner, secret->id, secret->name, secret->hosts};

    derive(s, texts, sizeof texts / sizeof *texts, key, crypto_secretbox_KEYBYTES);
}

void kr_store_secret_placeholder(const struct kr_store *s, const char *owner, const char *sandbox, const char *name,
                                 char ret_text[KR_SECRET_PLACEHOLDER_LEN + 1])
{
    const char *const texts[] = {"placeholder of a secret", owner, sandbox, name};
    unsigned char bytes[KR_SECRET_TAIL * 5 / 8];

    derive(s, texts, sizeof texts / sizeof *texts, bytes, sizeof bytes);
    kr_base32(bytes, sizeof bytes, stpcpy(ret_text, KR_SECRET_PREFIX));
}

/* ---- sealing ---- */

static size_t seal(const struct kr_store *s, const char *owner, const struct kr_store_secret *secret, const char *value,
                   unsigned char sealed[SEALED_MAX])
{
    unsigned char key[crypto_secretbox_KEYBYTES];
    size_t len = strlen(value);

    key_of(s, owner, secret, key);
    randombytes_buf(sealed, crypto_secretbox_NONCEBYTES);
    crypto_secretbox_easy(sealed + crypto_secretbox_NONCEBYTES, (const unsigned char *)value, len, sealed, key);
    sodium_memzero(key, sizeof key);
    return crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + len;
}

static int unseal(const struct kr_store *s, const char *owner, const struct kr_store_secret *secret,
                  const unsigned char *sealed, size_t len, char ret_value[KR_SECRET_VALUE_MAX + 1])
{
    const size_t around = crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES;
    unsigned char key[crypto_secretbox_KEYBYTES];
    int r;

    if (!s->has_secrets_key || !sealed || len < around || len > SEALED_MAX)
        return -EBADMSG;
    key_of(s, owner, secret, key);
    r = crypto_secretbox_open_easy((unsigned char *)ret_value, sealed + crypto_secretbox_NONCEBYTES,
                                   len - crypto_secretbox_NONCEBYTES, sealed, key);
    sodium_memzero(key, sizeof key);
    if (r < 0)
        return -EBADMSG;
    ret_value[len - around] = '\0';
    return kr_secret_value_check(ret_value, strlen(ret_value), NULL) < 0 ? -EBADMSG : 0;
}

/* ---- rows ---- */

static void fill_secret(sqlite3_stmt *st, struct kr_store_secret *secret)
{
    kr_st_text(st, 0, secret->id, sizeof secret->id);
    kr_st_text(st, 1, secret->name, sizeof secret->name);
    kr_st_text(st, 2, secret->hosts, sizeof secret->hosts);
    secret->created = sqlite3_column_int64(st, 3);
    secret->changed = sqlite3_column_int64(st, 4);
}

int kr_store_secret_put(struct kr_store *s, const char *owner, const char *name, const char *hosts, const char *value,
                        int64_t now, struct kr_err *err)
{
    cleanup_txn struct kr_txn t = {0};
    unsigned char sealed[SEALED_MAX];
    struct kr_store_secret row = {.created = now};
    int64_t others;
    size_t len;
    int r;

    if (!s->has_secrets_key)
        return kr_store_err(err, KR_ERR_INTERNAL, ENOKEY, "this store was opened without its key of secrets");
    if (snprintf(row.name, sizeof row.name, "%s", name) >= (int)sizeof row.name ||
        snprintf(row.hosts, sizeof row.hosts, "%s", hosts) >= (int)sizeof row.hosts)
        return kr_store_err(err, KR_ERR_INVALID, EINVAL, "a name or hosts that are too long");
    kr_store_new_id(row.id);
    if ((r = kr_txn_begin(&t, s, err)) < 0)
        return r;
    others = kr_st_int(s, KR_ST_SECRET_COUNT, err, "tt", owner, name);
    if (others < 0)
        return (int)others;
    if (others >= KR_STORE_SECRETS_MAX)
        return kr_store_err(err, KR_ERR_LIMIT, EDQUOT, "at most %u secrets a user: delete one first",
                            KR_STORE_SECRETS_MAX);
    len = seal(s, owner, &row, value, sealed);
    r = kr_st_exec(s, KR_ST_SECRET_PUT, err, "ttttbi", row.id, owner, name, hosts, sealed, len, now);
    if (r == -ENOENT)
        return kr_store_err(err, KR_ERR_NOT_FOUND, ENOENT, "no such user");
    return r < 0 ? r : kr_txn_commit(&t, true, err);
}

int kr_store_secret_open(struct kr_store *s, const char *owner, const char *name, struct kr_store_secret *ret_secret,
                         char ret_value[KR_SECRET_VALUE_MAX + 1], struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    int r = kr_st_open(s, KR_ST_SECRET_GET, &st, err, "tt", owner, name);

    if (r < 0 || (r = kr_st_step(s, st, err)) < 0)
        return r;
    if (r == 0)
        return no_such_secret(err);
    fill_secret(st, ret_secret);
    if (!ret_value)
        return 0;
    r = unseal(s, owner, ret_secret, sqlite3_column_blob(st, 5), (size_t)sqlite3_column_bytes(st, 5), ret_value);
    if (r < 0)
        return kr_store_err(err, KR_ERR_INTERNAL, EBADMSG,
                            "the secret %s does not open with the key of this server: store its value anew", name);
    return 0;
}

int kr_store_secret_get(struct kr_store *s, const char *owner, const char *name, struct kr_store_secret *ret_secret,
                        struct kr_err *err)
{
    return kr_store_secret_open(s, owner, name, ret_secret, NULL, err);
}

int kr_store_secrets_list(struct kr_store *s, const char *owner,
                          void (*on_secret)(void *data, const struct kr_store_secret *secret), void *data,
                          struct kr_err *err)
{
    cleanup_st sqlite3_stmt *st = NULL;
    struct kr_store_secret secret;
    int r = kr_st_open(s, KR_ST_SECRET_LIST, &st, err, "t", owner), count = 0;

    while (r >= 0 && (r = kr_st_step(s, st, err)) > 0) {
        fill_secret(st, &secret);
        on_secret(data, &secret);
        count++;
    }
    return r < 0 ? r : count;
}

int kr_store_secret_delete(struct kr_store *s, const char *owner, const char *name, struct kr_err *err)
{
    int r = kr_st_exec(s, KR_ST_SECRET_DELETE, err, "tt", owner, name);

    if (r < 0)
        return r;
    return r == 0 ? no_such_secret(err) : kr_store_sync(s, err);
}

/* ---- the authority ---- */

/* 0 or -errno; -EUCLEAN: it is no plain file, empty or too long. */
static int read_authority(const struct kr_store *s, char **ret_pem)
{
    cleanup_fd int fd = openat(s->dir_fd, AUTHORITY, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    char *pem;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size >= AUTHORITY_MAX)
        return -EUCLEAN;
    if ((st.st_mode & 077) && fchmod(fd, 0600) < 0)
        kr_log(KR_LOG_WARN, "a file of the data folder can be read by others, ignoring", "dir=%s file=" AUTHORITY,
               s->dir);
    pem = calloc(1, AUTHORITY_MAX);
    if (!pem)
        return -ENOMEM;
    r = kr_fd_read_all(fd, pem, (size_t)st.st_size);
    if (r < 0)
        free(pem);
    else
        *ret_pem = pem;
    return r < 0 ? r : 0;
}

int kr_store_authority(struct kr_store *s, int (*make)(char **ret_pem), char **ret_pem, struct kr_err *err)
{
    char *made = NULL;
    int r = read_authority(s, ret_pem);

    if (r == -ENOENT && (r = make(&made)) == 0) {
        r = kr_store_file_make(s, AUTHORITY, made, strlen(made));
        sodium_memzero(made, strlen(made));
        free(made);
        if (r == 0)
            r = read_authority(s, ret_pem);
    }
    return r < 0 ? kr_err_set(err, KR_ERR_SYSTEM, -r, "cannot use %.150s/" AUTHORITY, s->dir) : 0;
}
