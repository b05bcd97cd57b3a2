/* Links to files as cells see them: "/index/file/MAC/SHA256/URL/NAME". Only links that this process wrote lead
 * anywhere, because MAC is made with a key that it alone has; so a cell can have nothing fetched that no page of the
 * index named.
 * Pure. */
#pragma once
#include "web_address.h"
#include <stdbool.h>
#include <stddef.h>

#define KR_INDEX_KEY_SIZE 32
#define KR_INDEX_FILE_PATH "/index/file/"
#define KR_INDEX_LINK_ROOM (sizeof KR_INDEX_FILE_PATH + 33 + 65 + 3 * KR_WEB_TEXT_ROOM)
#define KR_INDEX_HASH_ROOM 65

struct kr_index_link {
    char sha256[KR_INDEX_HASH_ROOM]; /* that the page promised, lower case; "": none */
    char url[KR_WEB_TEXT_ROOM];
    bool metadata; /* ".metadata" was behind it: PEP 658's, whose hash is not that of the file */
};

/* 64 hexadecimal digits? Lower case goes to ret (KR_INDEX_HASH_ROOM). */
bool kr_index_is_sha256(const char *text, size_t len, char *ret);
/* Writes the path; sha256 may be NULL or "". 0, or -ENOBUFS: it does not fit. */
int kr_index_link_write(const unsigned char key[KR_INDEX_KEY_SIZE], const char *url, const char *sha256, char *buf,
                        size_t size);
/* Reads a path that begins with KR_INDEX_FILE_PATH. 0; -EINVAL: it is none; -EACCES: this process did not write it. */
int kr_index_link_read(const unsigned char key[KR_INDEX_KEY_SIZE], const char *path, struct kr_index_link *ret);
