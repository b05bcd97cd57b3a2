/* Markers of PEP 508: `python_version >= "3.9" and extra == "test"`. Read, and evaluated against a cell's Python.
 * Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum kr_marker_var {
    KR_MARKER_OS_NAME,
    KR_MARKER_SYS_PLATFORM,
    KR_MARKER_PLATFORM_MACHINE,
    KR_MARKER_PLATFORM_PYTHON_IMPLEMENTATION,
    KR_MARKER_PLATFORM_RELEASE,
    KR_MARKER_PLATFORM_SYSTEM,
    KR_MARKER_PLATFORM_VERSION,
    KR_MARKER_PYTHON_VERSION,
    KR_MARKER_PYTHON_FULL_VERSION,
    KR_MARKER_IMPLEMENTATION_NAME,
    KR_MARKER_IMPLEMENTATION_VERSION,
    KR_MARKER_EXTRA,
    KR_MARKER_VAR_MAX_,
};
extern const char *const kr_marker_var_names[KR_MARKER_VAR_MAX_];

#define KR_MARKER_VALUE_ROOM 128u
#define KR_MARKER_NODES_MAX 128u /* comparisons, `and`, `or` of one marker */
#define KR_MARKER_DEPTH_MAX 16u  /* parentheses within each other */

struct kr_marker_env {
    char values[KR_MARKER_VAR_MAX_][KR_MARKER_VALUE_ROOM];
};

/* That of CPython of this version ("3.11.2") in a cell of this machine. */
void kr_marker_env_init(struct kr_marker_env *env, const char *python_version);

struct kr_marker;

/* Reads a marker that begins at text; *ret_used: how many bytes it takes (blanks behind it not included). 0, -ENOMEM,
 * or -EINVAL with *ret_at (the offset of what is wrong) and *ret_why, a sentence. */
int kr_marker_parse(const char *text, size_t len, struct kr_marker **ret_marker, size_t *ret_used, size_t *ret_at,
                    const char **ret_why);
void kr_marker_free(struct kr_marker *m);
/* Written anew: one blank between words, quotes where they are needed. */
const char *kr_marker_text(const struct kr_marker *m);
/* Holds for this environment? NULL holds. */
bool kr_marker_holds(const struct kr_marker *m, const struct kr_marker_env *env);
