/* Text of JSON in which a parser of 64-bit numbers finds nothing that it has to refuse or round. Pure.
 *
 * A number that such a parser cannot hold is kept as the object {"U+FFFF number": "its text"}, and becomes that number
 * again wherever the tree is written. A client that sends such an object itself gets a number: nothing but a number is
 * ever written for one. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_buf;

#define KR_JSON_KEPT_KEY "\xef\xbf\xbfnumber"
#define KR_JSON_KEPT_MAX 4300u /* bytes of one number: Python reads no integer of more digits */

/* One number in the grammar of JSON, of at most KR_JSON_KEPT_MAX bytes. */
bool kr_json_is_number(const char *text, size_t len);
/* Appends the text to `out`: integers past 64 bits and reals past a double as kept numbers, unpaired surrogates as
 * U+FFFD, all else as it is, JSON or not. 1 if something is different, 0 if nothing is, -errno of the buffer. */
int kr_json_keep(const char *text, size_t len, struct kr_buf *out);
/* The reverse for text that was written compactly: kept numbers become numbers, in place. The new length. */
size_t kr_json_restore(char *text, size_t len);
