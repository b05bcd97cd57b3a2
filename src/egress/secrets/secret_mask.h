/* Covers values of secrets with asterisks in what a server answers. Pure, but for memory.
 *
 * Called by eg_http.c and the fuzzer. A value is found as it is and as a server that repeats it is likely to write it:
 * each of its characters as it is or escaped (secret_escape.h), all in hexadecimal digits, and inside base64 (both
 * alphabets, at any place). Letters are found in either case, but not those of base64, whose case is its meaning. What
 * a server has made of it otherwise (compressed, turned round, cut) is not.
 * Invariants: lengths stay what they were; what is found depends on the bytes alone, never on the pieces they came
 * in; a byte that may be part of a value that goes on is not let go before it is known; each byte is looked at once,
 * and what that costs is bounded, whatever the pieces. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct kr_secret_mask;

/* `steps`: NULL, or where comparisons are counted. 0 or -ENOMEM. */
int kr_secret_mask_new(uint64_t *steps, struct kr_secret_mask **ret_mask);
/* Takes NULL. */
void kr_secret_mask_free(struct kr_secret_mask *m);
/* The value, which was checked (secret_terms.h), is borrowed for as long as the mask lives. 0, or -E2BIG past
 * KR_SECRETS_MAX. */
int kr_secret_mask_add(struct kr_secret_mask *m, const char *value);
/* Covers a text that is whole, before or after a stream. 0 or -EOVERFLOW, as below. */
int kr_secret_mask_whole(struct kr_secret_mask *m, char *bytes, size_t len);
/* The next bytes of a stream, behind those that the call before did not let go. Covers in place, and returns how many
 * of the first may go. With `end` all may. -EOVERFLOW: more values may have begun at once than are followed, so that
 * what goes on could not be covered; nothing more may go. */
ssize_t kr_secret_mask_pass(struct kr_secret_mask *m, char *bytes, size_t len, bool end);
