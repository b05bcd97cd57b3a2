/* Ids of users, sandboxes, runs, keys, jobs: texts that are safe as a file name, in a URL and in a header. Only this
 * file says what an id looks like; everything else carries it as text of KR_ID_ROOM bytes. */
#pragma once
#include <stdbool.h>

/* The longest id and its NUL. Ids are 26 characters today; the rest is for a suffix, such as a node's number. */
#define KR_ID_ROOM 32

/* Can this be an id: 1 to KR_ID_ROOM - 1 lower-case letters and digits? NULL is none. Whether it exists is another
 * question. */
bool kr_id_valid(const char *text);
