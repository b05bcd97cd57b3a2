/* Ranges and validators. Called by file_read.c and file_put.c.
 *
 * Invariant: whatever a header says, first <= end <= size; a header that cannot be read asks for nothing special. */
#include "file_range.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Reads digits; false if there are none or they are too many. Moves *at behind them. */
static bool read_number(const char **at, uint64_t *ret)
{
    uint64_t n = 0;
    const char *p = *at;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (n > (UINT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (uint64_t)(*p - '0');
    }
    if (p == *at)
        return false;
    *at = p;
    *ret = n;
    return true;
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

enum kr_range kr_range_read(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_end)
{
    uint64_t first = 0, last = 0;
    bool has_first, has_last;

    if (!header || strncmp(header, "bytes=", 6) != 0)
        return KR_RANGE_ALL;
    header = skip_blanks(header + 6);
    has_first = read_number(&header, &first);
    if (*header++ != '-')
        return KR_RANGE_ALL;
    has_last = read_number(&header, &last);
    if (*skip_blanks(header) || (!has_first && !has_last) || (has_first && has_last && last < first))
        return KR_RANGE_ALL;
    if (!has_first) { /* the last so many bytes */
        if (last == 0 || size == 0)
            return KR_RANGE_NONE;
        *ret_first = last >= size ? 0 : size - last;
        *ret_end = size;
        return KR_RANGE_PART;
    }
    if (first >= size)
        return KR_RANGE_NONE;
    *ret_first = first;
    *ret_end = has_last && last < size - 1 ? last + 1 : size;
    return KR_RANGE_PART;
}

static uint64_t nanoseconds(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

const char *kr_etag_write(const struct stat *st, char out[static KR_ETAG_ROOM])
{
    snprintf(out, KR_ETAG_ROOM, "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"", (uint64_t)st->st_ino,
             (uint64_t)st->st_size, nanoseconds(&st->st_mtim), nanoseconds(&st->st_ctim));
    return out;
}

bool kr_etag_in(const char *header, const char *etag, bool weak)
{
    size_t len = strlen(etag);

    if (!header)
        return false;
    header = skip_blanks(header);
    if (strcmp(header, "*") == 0)
        return true;
    while (*header) {
        bool is_weak = strncmp(header, "W/", 2) == 0;
        const char *tag = header + (is_weak ? 2 : 0), *end;

        if (*tag != '"' || !(end = strchr(tag + 1, '"')))
            return false;
        if ((weak || !is_weak) && (size_t)(end + 1 - tag) == len && memcmp(tag, etag, len) == 0)
            return true;
        header = end + 1;
        header += strspn(header, " \t,");
    }
    return false;
}

bool kr_etag_allows_range(const char *if_range, const char *etag)
{
    return !if_range || strcmp(if_range, etag) == 0;
}
