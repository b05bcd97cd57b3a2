/* Random ids and keys, their text, and the keyed hash that the store knows a key by.
 *
 * Called by the other files of this folder; kr_store_new_id() by every room. Invariant: randomness is libsodium's,
 * which is the kernel's; the pepper leaves the process in no form. */
#include "secret.h"
#include "store_internal.h"
#include "store_key.h"
#include <sodium.h>
#include <string.h>
#include <time.h>

/* Crockford's: no letter that is taken for a digit, no case to lose. */
static const char alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

void kr_base32(const unsigned char *data, size_t len, char *out)
{
    unsigned bits = 0, held = 0;

    for (size_t i = 0; i < len; i++) {
        bits = (bits << 8 | data[i]) & 0xfff; /* at most 4 held and 8 new */
        held += 8;
        while (held >= 5) {
            held -= 5;
            *out++ = alphabet[bits >> held & 31];
        }
    }
    if (held)
        *out++ = alphabet[bits << (5 - held) & 31];
    *out = '\0';
}

void kr_store_new_id(char ret_id[KR_STORE_ID_ROOM])
{
    unsigned char raw[16];

    randombytes_buf(raw, sizeof raw);
    kr_base32(raw, sizeof raw, ret_id);
}

int64_t kr_store_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void kr_store_new_key(const char *prefix, char *out)
{
    unsigned char raw[32];

    randombytes_buf(raw, sizeof raw);
    kr_base32(raw, sizeof raw, stpcpy(out, prefix));
    sodium_memzero(raw, sizeof raw);
}

bool kr_store_key_looks(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(text, prefix, len) != 0)
        return false;
    text += len;
    len = strnlen(text, KR_STORE_KEY_ROOM);
    return len == 52 && strspn(text, alphabet) == len;
}

void kr_store_hash(const struct kr_store *s, const char *use, const char *text,
                   unsigned char ret_hash[KR_STORE_HASH_BYTES])
{
    crypto_generichash_state state;

    crypto_generichash_init(&state, s->pepper, sizeof s->pepper, KR_STORE_HASH_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)use, strlen(use) + 1); /* the NUL ends it */
    crypto_generichash_update(&state, (const unsigned char *)text, strlen(text));
    crypto_generichash_final(&state, ret_hash, KR_STORE_HASH_BYTES);
    sodium_memzero(&state, sizeof state);
}

/* ---- pure functions ---- */

/* Compares hashes under a key of the moment: lengths do not show, nor where the texts part. */
bool kr_secret_equal(const char *a, const char *b)
{
    unsigned char key[32], hash_a[32], hash_b[32];

    if (!a || !b)
        return false;
    randombytes_buf(key, sizeof key);
    crypto_generichash(hash_a, sizeof hash_a, (const unsigned char *)a, strlen(a), key, sizeof key);
    crypto_generichash(hash_b, sizeof hash_b, (const unsigned char *)b, strlen(b), key, sizeof key);
    return sodium_memcmp(hash_a, hash_b, sizeof hash_a) == 0;
}

void kr_sign(const unsigned char key[KR_SIGN_KEY_BYTES], const void *data, size_t len, char ret_text[KR_SIGN_ROOM])
{
    unsigned char mac[32];

    crypto_generichash(mac, sizeof mac, data, len, key, KR_SIGN_KEY_BYTES);
    kr_base32(mac, sizeof mac, ret_text);
}

bool kr_sign_check(const unsigned char key[KR_SIGN_KEY_BYTES], const void *data, size_t len, const char *text)
{
    char right[KR_SIGN_ROOM];

    if (!text || strnlen(text, sizeof right) != sizeof right - 1)
        return false;
    kr_sign(key, data, len, right);
    return sodium_memcmp(right, text, sizeof right) == 0;
}
