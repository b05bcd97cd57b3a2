/* `.env` files: NAME=value lines, read strictly. `export ` may stand in front; blanks around `=` and whole-line
 * comments are skipped. A value is 'literal', "with \n \r \t \" \\ \$" or bare, which ends at ` #` or the line's end.
 * Nothing is substituted: a `$` that a shell would replace is refused outside of single quotes. UTF-8, one line each,
 * no NUL. */
#pragma once
#include "err.h"
#include <stddef.h>

#define KR_DOTENV_TEXT_MAX (64u << 10) /* bytes of a file */
#define KR_DOTENV_NAME_MAX 64u
#define KR_DOTENV_VALUE_MAX 4096u
#define KR_DOTENV_NAMES_MAX 512u

/* One line; both strings are valid until the call returns. Returns 0, or a negative errno with *err set, whose text
 * gets file and line in front. */
typedef int kr_dotenv_pair(void *data, const char *name, const char *value, unsigned line, struct kr_err *err);

/* Reads the text; `file` is what it is called in errors. 0, what `pair` returned, or -EINVAL with "file:line: what is
 * wrong". A name that is there twice is an error. */
int kr_dotenv_parse(const char *file, const char *text, size_t len, kr_dotenv_pair *pair, void *data,
                    struct kr_err *err);
