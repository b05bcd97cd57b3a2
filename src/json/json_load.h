/* JSON of clients and sessions as trees, in which integers of any size keep their digits. jansson holds integers of 64
 * bits and doubles and refuses what does not fit; json_keep.h says how such a number travels in its trees. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* json_loadb() for text from outside: takes every JSON number of at most 4,300 bytes, and unpaired surrogates as
 * U+FFFD. New, or NULL with *where. May be called from any thread. */
json_t *kr_json_load(const char *text, size_t len, size_t flags, json_error_t *where);
/* json_dumps() with JSON_COMPACT and these flags, kept numbers as numbers. The caller's, or NULL. */
char *kr_json_dump(const json_t *value, size_t flags);

/* The text of a number that did not fit, or NULL: it is something else. */
const char *kr_json_kept(const json_t *value);
/* A number in its own text, for a value that has to be echoed as it came. New, or NULL: it is none. */
json_t *kr_json_number(const char *text, size_t len);
/* An object, and not a kept number. */
bool kr_json_is_object(const json_t *value);
