/* Small pure functions on secrets: equal or not, signed by us or not. No store, any thread; the time they take tells
 * nothing of the secret. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define KR_SIGN_KEY_BYTES 32
#define KR_SIGN_ROOM 53 /* 52 characters as in an id, and the NUL */

/* Are the two texts the same? For a single configured key. NULL is equal to nothing. */
bool kr_secret_equal(const char *a, const char *b);
/* Writes the signature of the bytes: keyed BLAKE2b-256 as text, safe in a URL. For links: the caller's bytes say what
 * the signature is for and until when. */
void kr_sign(const unsigned char key[KR_SIGN_KEY_BYTES], const void *data, size_t len, char ret_text[KR_SIGN_ROOM]);
/* Is this the signature of the bytes? NULL is none. */
bool kr_sign_check(const unsigned char key[KR_SIGN_KEY_BYTES], const void *data, size_t len, const char *text);
