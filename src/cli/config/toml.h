/* A strict subset of TOML 1.0, read in one pass over a text in memory: `[section]` headers, `key = value` lines,
 * comments; values are basic and literal strings on one line, decimal integers, booleans and arrays of strings (which
 * may go over several lines). Everything else of TOML is refused by name. UTF-8 throughout, no NUL. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KR_TOML_TEXT_MAX (256u << 10) /* bytes of a file */
#define KR_TOML_NAME_MAX 64u          /* bytes of a key or section */
#define KR_TOML_STRING_MAX 4096u      /* bytes of a string, unescaped */
#define KR_TOML_ITEMS_MAX 64u         /* strings of an array */
#define KR_TOML_KEYS_MAX 512u         /* keys and sections of a file */

enum kr_toml_type { KR_TOML_STRING, KR_TOML_INTEGER, KR_TOML_BOOLEAN, KR_TOML_ARRAY, KR_TOML_TYPE_MAX_ };

/* A value; what it points to is valid until the call returns. Strings are valid UTF-8 without NUL. */
struct kr_toml_value {
    enum kr_toml_type type;
    const char *string;
    int64_t integer;
    bool boolean;
    const char *const *items; /* of an array */
    size_t count;
};

/* A `key = value`. section is "" before the first header. Returns 0, or a negative errno with *err set, whose text gets
 * file and line in front: the parse ends there. */
typedef int kr_toml_pair(void *data, const char *section, const char *key, const struct kr_toml_value *value,
                         unsigned line, struct kr_err *err);

/* Reads the text; `name` is what it is called in errors. 0, what `pair` returned, -EINVAL or -ENOMEM with "name:line:
 * what is wrong". A key or section that is there twice is an error. */
int kr_toml_parse(const char *name, const char *text, size_t len, kr_toml_pair *pair, void *data, struct kr_err *err);
extern const char *const kr_toml_type_names[KR_TOML_TYPE_MAX_]; /* "string", "whole number" … */
