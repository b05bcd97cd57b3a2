/* A text with its length: what a client gave, which may have NUL characters in it where its field allows them. */
#pragma once
#include <stddef.h>

struct kr_text {
    const char *text; /* NUL after the last byte; NULL if absent */
    size_t len;
};
