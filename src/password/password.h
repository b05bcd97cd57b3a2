/* Passwords: Argon2id, as pure functions for the thread pool (each takes some 100 ms and 64 MiB). They touch no
 * store and may run in several threads at once; the caller that queues them bounds how many. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>

/* Argon2id v1.3: 64 MiB, 2 passes, 1 lane; salt 16 bytes, tag 32 (libsodium's "interactive" level, above the least
 * that OWASP asks for). They are written into each hash, so a change here leaves old hashes good. */
#define KR_PASSWORD_MEMORY (64u << 20)
#define KR_PASSWORD_PASSES 2u
#define KR_PASSWORD_MAX 1024u /* bytes */
#define KR_PASSWORD_ROOM 128  /* of a hash, as text */

/* Hashes. 0, -EINVAL (empty or too long; names the field), or -ENOMEM. */
int kr_password_hash(const char *password, size_t len, char ret_hash[KR_PASSWORD_ROOM], struct kr_err *err);
/* Compares. 0, or -EKEYREJECTED (also for a hash that is NULL, "" or no hash: after the same work, against a hash
 * that no password has), or -ENOMEM. */
int kr_password_verify(const char *hash, const char *password, size_t len);
/* Was it made with other parameters than today's? Then hash again at the next good login. */
bool kr_password_is_old(const char *hash);
