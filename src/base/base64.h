/* Base64 of RFC 4648, section 4, with padding. */
#pragma once
#include <stddef.h>
#include <sys/types.h>

/* Room for the text of n bytes, its NUL included. */
#define KR_BASE64_ROOM(n) (((size_t)(n) + 2) / 3 * 4 + 1)

/* Writes the text of len bytes and a NUL to out (KR_BASE64_ROOM(len) bytes). Returns its length. */
size_t kr_base64_encode(const void *data, size_t len, char *out);
/* Reads back. Strict: whole padding, no white space, no bits left over. Length, -EINVAL, or -ENOBUFS when out (size
 * bytes) is too small; text and out may be the same memory. */
ssize_t kr_base64_decode(const char *text, size_t len, void *out, size_t size);
