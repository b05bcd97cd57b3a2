/* A list of words as settings have it; the words belong to the configuration. */
#pragma once
#include <stddef.h>

struct kr_words {
    const char *const *items;
    size_t count;
};
