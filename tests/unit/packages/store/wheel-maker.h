/* Makes wheels in memory, right ones and wrong ones: every byte of the archive can be reached afterwards. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAKER_ENTRIES 24u
#define MAKER_NAME "good-1.0-py3-none-any.whl"
#define MAKER_INFO "good-1.0.dist-info/"

struct made_entry {
    const char *name;
    size_t name_len; /* 0: that of the text */
    const char *text;
    size_t len;      /* 0: that of the text */
    uint32_t mode;   /* 0: 0100644 */
    bool stored;     /* else deflated */
    bool streamed;   /* sizes and checksum follow the data */
    bool wide;       /* zip64: in the directory and in its own header */
    bool local_wide; /* zip64 in its own header alone */
    bool plain;      /* the name is not marked as UTF-8 */
    bool unrecorded; /* RECORD has no line for it */
    const char *extra;
    size_t extra_len; /* in the directory */
};

struct made_wheel {
    unsigned char *data;
    size_t len;
    size_t count;
    size_t local[MAKER_ENTRIES], central[MAKER_ENTRIES], directory, end;
};

/* What a wheel is made of; NULL is what a good one has, "" leaves it out. */
struct made_texts {
    const char *metadata, *wheel, *points, *record;
    bool end64; /* with the end records of zip64 */
};

/* good/__init__.py, good/more.py, then `more` (until an entry without a name), then *.dist-info. */
struct made_wheel *maker_make(const struct made_entry *more, const struct made_texts *texts);
/* Of `more` alone, for another name: NAME-1.0.dist-info. */
struct made_wheel *maker_make_named(const char *name, const struct made_entry *more, const struct made_texts *texts);
/* An archive of these entries and nothing else. */
struct made_wheel *maker_make_bare(const struct made_entry *entries);
void maker_free(struct made_wheel *w);
/* Puts bytes in at `at` and corrects every number that counts from the start, so that all is right but for them. */
void maker_insert(struct made_wheel *w, size_t at, const void *bytes, size_t len);
void maker_put16(struct made_wheel *w, size_t at, uint16_t value);
void maker_put32(struct made_wheel *w, size_t at, uint32_t value);
/* An open file with these bytes; to be closed. */
int maker_file(const void *data, size_t len);
/* The SHA-256 of these bytes in hex. */
const char *maker_sha256(const void *data, size_t len);
