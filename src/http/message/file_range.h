/* What a request asks for of a file, and whether it has it already: Range, If-None-Match, If-Range (RFC 9110). Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stat;

enum kr_range {
    KR_RANGE_ALL,  /* none, several, another unit, malformed: the whole file is the answer */
    KR_RANGE_PART, /* from *ret_first up to, but not with, *ret_end */
    KR_RANGE_NONE, /* 416: nothing of the file is in it */
};
/* The header's value may be NULL. */
enum kr_range kr_range_read(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_end);

#define KR_ETAG_ROOM 72u
/* A strong one, with its quotes: of inode, size, mtime and ctime, which no program in a sandbox can set. */
const char *kr_etag_write(const struct stat *st, char out[static KR_ETAG_ROOM]);
/* Is it in a list as If-None-Match has it, or is that `*`? `weak`: W/"x" is as good as "x". NULL: no. */
bool kr_etag_in(const char *header, const char *etag, bool weak);
/* Does If-Range (NULL: none is given) allow a part? A date does not: we do not look at it. */
bool kr_etag_allows_range(const char *if_range, const char *etag);
