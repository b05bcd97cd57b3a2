/* Python literals as JSON: what repr() wrote of a value, read back. Pure. */
#pragma once
#include <jansson.h>
#include <stddef.h>

#define KR_PYVALUE_DEPTH_MAX 32u /* of lists, tuples and dicts in each other */

/* The value, new, as Python's json module would write it: numbers, texts, True, False, None, lists, tuples, dicts
 * (whose keys become texts). NULL: the text is no such literal (an object's repr, nan, a set, bytes, an integer past
 * 64 bits, one that was cut), or there is no memory. */
json_t *kr_pyvalue(const char *text, size_t len);
