/* UTF-8, strictly as RFC 3629: no overlong forms, no surrogates, nothing past U+10FFFF. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Looks at the sequence that starts at s (len > 0 bytes are there).
 * > 0: that many bytes are one valid character, *ret_char is it (ret_char may be NULL).
 * 0: what is there is a valid beginning that the end of the bytes cuts off.
 * < 0: invalid; the first -n bytes are what one U+FFFD stands for (the longest valid beginning, at least 1). */
int kr_utf8_next(const unsigned char *s, size_t len, uint32_t *ret_char);

/* Writes a character of at most U+10FFFF. How many bytes. */
size_t kr_utf8_put(uint32_t c, char out[4]);
/* How many of the len bytes may be handed on now so that no character is cut: all of them, or all but an unfinished,
 * so far valid sequence of at most 3 bytes at the end. Invalid bytes are handed on: they will never become valid. */
size_t kr_utf8_complete(const void *data, size_t len);

/* A stream of bytes in chunks, made into valid UTF-8 text. Holds at most 3 bytes between chunks. */
struct kr_utf8 {
    unsigned char held[4];
    unsigned held_len;
};

/* Room that the text of a chunk of n bytes can take: every byte invalid is 3 bytes of U+FFFD, and 3 may be held. */
#define KR_UTF8_ROOM(n) (3 * ((size_t)(n) + 3))

/* Appends to out (KR_UTF8_ROOM(len) bytes) the text that is complete with this chunk; each run of truly invalid bytes
 * becomes U+FFFD as Unicode's chapter 3.9 recommends. Returns its length. */
size_t kr_utf8_feed(struct kr_utf8 *u, const void *data, size_t len, char *out);
/* The stream is over: what is held is cut for good. Writes at most 3 bytes (one U+FFFD) to out; returns how many. */
size_t kr_utf8_finish(struct kr_utf8 *u, char *out);
