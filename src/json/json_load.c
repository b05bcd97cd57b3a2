/* Trees that keep every number. Called for each body, message and payload of a session.
 *
 * jansson looks first: the common text costs nothing more. Only what it refuses is looked at again with the numbers
 * that it cannot hold kept as text. Invariant: a tree made here and written with kr_json_dump() or kr_json_restore()
 * has every digit of an integer. A real that a double can hold is the nearest double, and is written with the 17 digits
 * that name it: as Python or JavaScript would have read it. */
#include "json_load.h"
#include "buf.h"
#include "json_keep.h"
#include <stdlib.h>
#include <string.h>

#define GROWTH 24u /* bytes that a kept number or surrogate adds, at most */

json_t *kr_json_load(const char *text, size_t len, size_t flags, json_error_t *where)
{
    cleanup_buf struct kr_buf kept;
    json_error_t first;
    json_t *root = json_loadb(text, len, flags, &first);

    kr_buf_init(&kept, 8 * len + GROWTH); /* the shortest such number is 1e309: of 5 bytes */
    if (!root && json_error_code(&first) != json_error_out_of_memory && kr_json_keep(text, len, &kept) > 0)
        root = json_loadb(kept.data, kept.len, flags, &first);
    if (where)
        *where = first;
    return root;
}

char *kr_json_dump(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, JSON_COMPACT | flags);

    if (text)
        text[kr_json_restore(text, strlen(text))] = '\0';
    return text;
}

const char *kr_json_kept(const json_t *value)
{
    const char *text =
        json_object_size(value) == 1 ? json_string_value(json_object_get(value, KR_JSON_KEPT_KEY)) : NULL;

    return text && kr_json_is_number(text, strlen(text)) ? text : NULL;
}

json_t *kr_json_number(const char *text, size_t len)
{
    return kr_json_is_number(text, len) ? json_pack("{s:s%}", KR_JSON_KEPT_KEY, text, len) : NULL;
}

bool kr_json_is_object(const json_t *value)
{
    return json_is_object(value) && !kr_json_kept(value);
}
