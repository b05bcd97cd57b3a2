/* What changes.c and mirror.c share: a snapshot from the inside. Not for others. */
#pragma once
#include "changes.h"
#include <sys/stat.h>

/* Bytes of paths per file allowed, on average: a deep tree must not cost more memory than a wide one. */
#define KR_SNAPSHOT_PATH_EACH 256u

/* A regular file as it was seen. */
struct kr_seen {
    size_t path; /* in the snapshot's text */
    uint64_t size, mtime_ns, ctime_ns, ino;
    uint64_t hot_ns; /* of a mirror: when it was last known that a process may have it open; 0: never */
    bool linked;     /* it has other names */
};

/* Called for each folder before its entries are read. Negative: not any more. */
typedef int kr_snapshot_folder_fn(void *data, const char *path);

struct kr_snapshot {
    struct kr_seen *files; /* sorted by path */
    size_t count, room, max;
    char *text;
    size_t text_len, text_room, text_max;
    uint64_t taken_ns; /* on the clock of file times */
    uint64_t entries;  /* of every kind */
    bool incomplete, out_of_memory;
    kr_snapshot_folder_fn *on_folder;
    void *folder_data;
};

void kr_seen_set(struct kr_seen *ret, const struct stat *st);
bool kr_seen_differs(const struct kr_seen *a, const struct kr_seen *b);
/* Our own half of an upload, which is no file of the user's. */
bool kr_snapshot_is_temp(const char *path);
/* As kr_snapshot_take(). */
int kr_snapshot_take_folders(int ws, size_t max_files, uint64_t deadline_ns, kr_snapshot_folder_fn *on_folder,
                             void *data, struct kr_snapshot **ret);
/* At its end: kr_snapshot_sort() when all are added. 0, -ENOSPC (a bound), -ENOMEM. */
int kr_snapshot_add(struct kr_snapshot *s, const char *path, size_t path_len, const struct stat *st);
void kr_snapshot_sort(struct kr_snapshot *s);
/* NULL: it is not there. */
struct kr_seen *kr_snapshot_find(const struct kr_snapshot *s, const char *path);
