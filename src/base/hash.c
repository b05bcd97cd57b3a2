/* FNV-1a with 32 bits. Called by every hash table of the tree. */
#include "hash.h"
#include <string.h>

uint32_t kr_hash(uint32_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    return hash;
}

uint32_t kr_hash_text(uint32_t hash, const char *text)
{
    return kr_hash(hash, text, strlen(text));
}
