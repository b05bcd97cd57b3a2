/* What a file is, for Content-Type: by the extension of its name, then by its first bytes. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_media {
    const char *extension; /* lower case, without the dot; NULL: found by the bytes */
    const char *type;
    bool text;   /* takes `; charset=utf-8` when the bytes are UTF-8 */
    bool active; /* a browser would run it: never inline without a sandboxing Content-Security-Policy */
};

#define KR_MEDIA_SNIFF 1024u /* bytes worth giving */

/* Never NULL. `head` (may be NULL) are the first bytes of the file; `whole` if there are no more. */
const struct kr_media *kr_media_of(const char *name, const void *head, size_t len, bool whole);
/* True if the bytes are UTF-8 text without control characters other than white space and escape; a character cut off at
 * the end is fine unless `whole`. */
bool kr_media_is_text(const void *head, size_t len, bool whole);
/* Writes the header's value, charset included where it is true; returns out. */
const char *kr_media_header(const struct kr_media *m, const void *head, size_t len, bool whole, char *out, size_t size);
