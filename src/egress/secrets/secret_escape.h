/* One escaped character in a text: percent-encoded, or as strings of JSON and of programs, or HTML have it. Pure.
 *
 * Called by secret_mask.c. */
#pragma once
#include <stddef.h>

#define KR_SECRET_ESCAPE_MAX 11u /* bytes of the longest: "&#x", 7 digits, ";" */

/* Whether an escape can begin with this character. */
#define KR_SECRET_ESCAPES "%\\&"

/* Reads %XX, \uXXXX, \xXX, a character after \ that is neither a letter nor a digit, &#N;, &#xN;, and &amp; &lt; &gt;
 * &quot; &apos;. Returns its length and sets *ret_char, of printable ASCII; 0: there is none; -EAGAIN: more than `left`
 * bytes are needed to know. */
int kr_secret_escape_read(const char *bytes, size_t left, char *ret_char);
