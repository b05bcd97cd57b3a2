/* The files the program carries in itself: the extension and the kernel's Python side. */
#pragma once
#include <stddef.h>

struct kr_embed {
    const char *name; /* "boot.py", "_krait.abi3.so" */
    const unsigned char *data;
    size_t len;
};
extern const struct kr_embed kr_embed_files[];
extern const size_t kr_embed_files_count;
