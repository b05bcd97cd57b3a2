/* Passwords by Argon2id.
 *
 * Called on the thread pool. Invariant: no state; the work done does not depend on whether there is a hash to compare
 * with. */
#include "password.h"
#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static_assert(KR_PASSWORD_ROOM == crypto_pwhash_argon2id_STRBYTES, "the room is libsodium's");
static_assert(KR_PASSWORD_MEMORY >= crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE &&
                  KR_PASSWORD_PASSES >= crypto_pwhash_argon2id_OPSLIMIT_INTERACTIVE,
              "no weaker than libsodium's lowest level");

int kr_password_hash(const char *password, size_t len, char ret_hash[KR_PASSWORD_ROOM], struct kr_err *err)
{
    if (len == 0 || len > KR_PASSWORD_MAX)
        return kr_err_set(err, KR_ERR_INVALID, EINVAL, "password: 1 to %u bytes", KR_PASSWORD_MAX);
    if (sodium_init() < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, EIO, "libsodium cannot start");
    if (crypto_pwhash_argon2id_str(ret_hash, password, len, KR_PASSWORD_PASSES, KR_PASSWORD_MEMORY) != 0)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a password cannot be hashed");
    return 0;
}

/* A hash with today's parameters that no password is known for: its tag is not the end of any computation. */
static void make_dummy(char hash[KR_PASSWORD_ROOM])
{
    snprintf(hash, KR_PASSWORD_ROOM,
             "$argon2id$v=19$m=%u,t=%u,p=1$a3JhaXQgbm9ib2R5IDE2Yg$a3JhaXQga25vd3Mgbm8gcGFzc3dvcmQgb2YgdGhpcyE",
             KR_PASSWORD_MEMORY / 1024, KR_PASSWORD_PASSES);
}

int kr_password_verify(const char *hash, const char *password, size_t len)
{
    static const char prefix[] = crypto_pwhash_argon2id_STRPREFIX;
    char dummy[KR_PASSWORD_ROOM];
    int real = hash && strncmp(hash, prefix, strlen(prefix)) == 0, r;

    if (sodium_init() < 0)
        return -EIO;
    if (!real)
        make_dummy(dummy);
    if (len > KR_PASSWORD_MAX)
        return -EKEYREJECTED; /* no hash was ever made of it */
    errno = 0;
    r = crypto_pwhash_argon2id_str_verify(real ? hash : dummy, password, len);
    if (r == 0 && real)
        return 0;
    return errno == ENOMEM ? -ENOMEM : -EKEYREJECTED;
}

bool kr_password_is_old(const char *hash)
{
    return crypto_pwhash_argon2id_str_needs_rehash(hash, KR_PASSWORD_PASSES, KR_PASSWORD_MEMORY) != 0;
}
