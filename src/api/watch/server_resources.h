/* What krait uses of the machine, for /health: memory, processes, processor, disk. Reads of /proc, /sys and statvfs(3)
 * alone, at most once a second; no state but the last figures. Belongs to one thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct kr_resources_reader;

/* Whose figure it is. */
enum kr_resources_of {
    KR_OF_NOBODY,    /* it cannot be known here */
    KR_OF_CGROUP_V2, /* krait's cgroup: the server, the warden and every cell */
    KR_OF_CGROUP_V1,
    KR_OF_RLIMIT,  /* of a limit: the server's own RLIMIT_AS or RLIMIT_NPROC */
    KR_OF_MACHINE, /* everything that runs here */
    KR_OF_MAX_,
};
extern const char *const kr_resources_of_names[KR_OF_MAX_];

#define KR_RESOURCES_UNKNOWN UINT64_MAX

/* A number that is not known is KR_RESOURCES_UNKNOWN, a double -1; a limit that is none is KR_RESOURCES_UNKNOWN too. */
struct kr_resources {
    struct {
        uint64_t used, limit; /* bytes; used is without the page cache that can be dropped at once */
        enum kr_resources_of used_of, limit_of;
    } memory;
    struct {
        uint64_t count, limit; /* tasks: threads count, as they do for the kernel's limit */
        enum kr_resources_of count_of, limit_of;
    } processes;
    struct {
        double cores;   /* that may be used: affinity and quota; 1.5 for a quota of one and a half */
        double used;    /* cores in use between this reading and the one before; -1 at the first */
        double load[3]; /* of the machine, 1, 5 and 15 minutes */
        enum kr_resources_of used_of;
    } cpu;
    struct {
        uint64_t total, used,
            free; /* bytes of the file system that holds the data folder; free is what we may still take */
    } disk;
};

/* `root` is where proc and sys are found ("" for the real ones), `data` the data folder (NULL: no figure of a disk).
 * Both are copied. 0 or -ENOMEM. */
int kr_resources_new(const char *root, const char *data, struct kr_resources_reader **ret_reader);
void kr_resources_free(struct kr_resources_reader *r);
/* The figures, at most a second old; valid until the next call. Takes NULL: nothing is known. */
const struct kr_resources *kr_resources_read(struct kr_resources_reader *r);
