/* Covers values of secrets with asterisks in what a server answers. Pure, but for memory.
 *
 * Called by eg_http.c and the fuzzer. A value is found as it is, and as a server that repeats it is likely to write it:
 * percent-encoded, inside JSON or HTML, in hexadecimal digits, and inside base64 (both alphabets, at any place).
 * Letters are found in either case. What a server has made of it otherwise (compressed, turned round, cut) is not.
 * Invariants: lengths stay what they were; what is found depends on the bytes alone, never on the pieces they came
 * in; a byte that may be part of a value that goes on is not let go before it is known. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_secret_mask;

/* 0 or -ENOMEM. */
int kr_secret_mask_new(struct kr_secret_mask **ret_mask);
/* Takes NULL; wipes. */
void kr_secret_mask_free(struct kr_secret_mask *m);
/* 0 or -ENOMEM. */
int kr_secret_mask_add(struct kr_secret_mask *m, const char *value);
/* Covers a text that is whole; it is no part of what kr_secret_mask_pass() sees. */
void kr_secret_mask_whole(const struct kr_secret_mask *m, char *bytes, size_t len);
/* The next bytes of a stream, behind those that the call before did not let go. Covers in place, and returns how many
 * of the first may go. With `end` all may. */
size_t kr_secret_mask_pass(struct kr_secret_mask *m, char *bytes, size_t len, bool end);
