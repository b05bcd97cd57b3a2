/* A strict reader of zip archives: what it takes means the same to every other reader.
 *
 * Called by wheel.c. Hostile input throughout. Invariants: the archive is, from its first byte to its last, entries in
 * a row, one directory of them and one end record; each entry's own header says what the directory says; names are
 * relative, in UTF-8, and no two of them meet in one file. docs/design/packages.md lists what is refused. */
#pragma once
#include "wheel.h"

#define KR_ZIP_NAME_MAX 1024u /* bytes of a name */
#define KR_ZIP_DEPTH_MAX 64u  /* folders within each other */
#define KR_ZIP_DIRECTORY_MAX (64u << 20)

struct kr_zip_entry {
    const char *name; /* without the slash at the end of a folder */
    uint64_t packed, bytes;
    uint64_t header; /* where its header is; its data is at `data` */
    uint64_t data;
    uint32_t crc;
    uint16_t method;
    bool folder;
    bool executable;
};

struct kr_zip {
    int fd; /* borrowed */
    uint64_t size;
    struct kr_zip_entry *entries; /* in order of the directory */
    uint32_t count;
    uint64_t bytes; /* of all, unpacked */
    char *names;
};

/* Reads and checks the directory and every entry's header; the contents are not read. KR_ERR_INVALID or
 * KR_ERR_LIMIT. kr_zip_done() in any case. */
int kr_zip_open(int fd, const struct kr_wheel_limits *limits, struct kr_zip *zip, struct kr_err *err);
void kr_zip_done(struct kr_zip *zip);

/* 0, or -errno which ends the reading. */
typedef int kr_zip_sink(void *data, const void *bytes, size_t len);
/* The contents in pieces. An error (size, CRC, compressed data) may come after pieces were handed out. */
int kr_zip_read(const struct kr_zip *zip, const struct kr_zip_entry *e, kr_zip_sink *sink, void *data,
                struct kr_err *err);
/* All of an entry of at most `max` bytes, with a NUL behind it. The caller frees it. */
int kr_zip_read_all(const struct kr_zip *zip, const struct kr_zip_entry *e, size_t max, char **ret_text,
                    size_t *ret_len, struct kr_err *err);

/* A name for an error text: bounded, nothing in it that a terminal could take for more. */
#define KR_ZIP_SHOWN_ROOM 96u
const char *kr_zip_show(const char *name, size_t len, char out[KR_ZIP_SHOWN_ROOM]);
