/* The store of unpacked wheels, DATA/packages: one folder for each wheel, shared by all sandboxes, written only here.
 *
 * Called by package jobs on the thread pool; every function may block on the disk. A store is fixed once it is open and
 * may be used by several threads, and by several processes beside each other (`krait mcp` beside `krait serve`).
 * Invariants: a folder of the store is complete or absent, after kill -9 and after the power failed; its name tells no
 * one which wheel it is; what an environment refers to is not removed. */
#pragma once
#include "wheel.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;

#define KR_PACKAGE_KEY_ROOM 32u
#define KR_SHA256_ROOM 65u /* 64 hex digits and a NUL */

struct kr_package_store;

/* Opens DATA/packages beneath the folder `data`, and makes what is missing: store/ (0711), key, index/, lock. */
int kr_package_store_open(int data, struct kr_package_store **ret_store, struct kr_err *err);
void kr_package_store_free(struct kr_package_store *s);

/* The wheel with this hash. 1: it is there, *ret_key is its folder, and it is not evicted within the next hour; 0: it
 * is not; or -errno. */
int kr_package_store_has(struct kr_package_store *s, const char *sha256, char ret_key[KR_PACKAGE_KEY_ROOM]);
/* Unpacks the wheel in `fd` (the whole file), which must have this hash, unless it is there already. `index` says where
 * it came from ("" : unknown). Not evicted within the next hour. 0, -ECANCELED by *stop, or -errno with err:
 * KR_ERR_INVALID (hash, archive), KR_ERR_LIMIT, KR_ERR_NO_SPACE. */
int kr_package_store_add(struct kr_package_store *s, int fd, const char *file_name, const char *sha256,
                         const struct kr_wheel_limits *limits, const volatile bool *stop,
                         char ret_key[KR_PACKAGE_KEY_ROOM], struct kr_err *err);
/* The same for a wheel that was built in a cell and that no index vouches for: into the own folder of one environment
 * (ENV/own/KEY), whose hash only says which it is. `env` is the folder FOLDER/env of the sandbox. */
int kr_package_own_add(int env, int fd, const char *file_name, const struct kr_wheel_limits *limits,
                       const volatile bool *stop, char ret_key[KR_PACKAGE_KEY_ROOM], char ret_sha256[KR_SHA256_ROOM],
                       struct kr_err *err);

/* What the store knows of a folder. */
struct kr_package_facts {
    char name[101], version[128], file[KR_WHEEL_NAME_ROOM], sha256[KR_SHA256_ROOM];
    uint64_t bytes;
    uint32_t files;
};
/* 0, -ENOENT or -errno. */
int kr_package_store_facts(struct kr_package_store *s, const char *key, struct kr_package_facts *ret_facts);
/* The same of a wheel that is the environment's own. */
int kr_package_own_facts(int env, const char *key, struct kr_package_facts *ret_facts);

/* Bytecode: fd is a zip archive that a run in a cell made of site/ of this folder, with names as in it:
 * "numpy/__pycache__/x.cpython-311.pyc", in PEP 552's unchecked form. What does not belong to a source file of the
 * wheel is refused; what is there stays. 0 or -errno with err; a part may have been added then, which is whole. */
int kr_package_store_add_bytecode(struct kr_package_store *s, const char *key, int fd, struct kr_err *err);

struct kr_package_store_size {
    uint64_t bytes; /* of all folders, as blocks on the disk */
    uint32_t folders;
};
int kr_package_store_measure(struct kr_package_store *s, struct kr_package_store_size *ret_size);

/* Removes folders that nothing refers to, longest unused first, until the store has at most bytes_max. Those that were
 * asked for in the last grace_s seconds stay. `roots`: folders whose children ID hold environments ID/env (the shelf of
 * sandboxes, the templates): all of their generations are read; one that cannot be read ends the sweep. Also clears
 * what killed processes left. */
struct kr_package_sweep {
    uint64_t bytes_max;
    uint32_t grace_s; /* at least as long as a job may take; 3600 */
    const int *roots;
    size_t root_count;
};
int kr_package_store_sweep(struct kr_package_store *s, const struct kr_package_sweep *sweep, uint64_t *ret_freed,
                           struct kr_err *err);
