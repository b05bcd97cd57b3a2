/* What the parsers of request heads (parse.c) and of answer heads (answer.c) share. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Is it the field's name? `name` in lower case. */
bool kr_http_name_is(const char *text, size_t len, const char *name);
/* Whether a list with commas has the word (lower case). */
bool kr_http_list_has(const char *p, size_t len, const char *word);
/* A Content-Length: digits alone. Negative: it is none. */
int64_t kr_http_length_of(const char *p, size_t len);
