/* What the files of the store and of environments share. */
#pragma once
#include "package_store.h"
#include <jansson.h>

#define KR_PACKAGE_FACTS "krait.json" /* in a folder of the store, in a generation */
#define KR_PACKAGE_KEY_LEN 20u
#define KR_PACKAGE_JSON_MAX (8u << 20)

struct kr_package_store {
    int top, store, tmp, index; /* DATA/packages and three of its folders */
    unsigned char key[32];
};

/* A name of a folder of the store? */
bool kr_package_key_valid(const char *key);

/* Takes the lock of the store, LOCK_SH or LOCK_EX, waiting at most 30 s. A descriptor whose closing gives it back, or
 * -errno. Held for moments only. */
int kr_package_store_lock(const struct kr_package_store *s, int kind);

/* ---- package_files.c ---- */

/* Opens `name` in `dir` as a folder, without following a link. fd or -errno. */
int kr_package_open_folder(int dir, const char *name);
/* The same; it is made, with exactly this mode, if it is not there. */
int kr_package_make_folder(int dir, const char *name, unsigned mode);
/* Removes `name` in `dir` with all that is in it. Only for what the server alone writes. 0 or -errno; what is not there
 * is fine. */
int kr_package_remove(int dir, const char *name);
/* Writes a new file of mode 0644 and waits until it is on the disk. */
int kr_package_write_file(int dir, const char *name, const char *text, size_t len, bool syncs);
/* A file of JSON with an object in it, at most KR_PACKAGE_JSON_MAX bytes. New, or NULL with -errno in *ret_error. */
json_t *kr_package_read_json(int dir, const char *name, int *ret_error);
/* Calls fn for each name in a folder but . and .. until it returns other than 0. That, 0, or -errno. */
typedef int kr_package_name_fn(int dir, const char *name, void *data);
int kr_package_each_name(int dir, kr_package_name_fn *fn, void *data);
/* Takes flock() on fd within ms milliseconds. 0, -ETIMEDOUT or -errno. */
int kr_package_flock(int fd, int kind, unsigned ms);

/* ---- of one folder of unpacked files ---- */

/* Its facts as JSON; those that KR_PACKAGE_FACTS holds. */
json_t *kr_package_load_facts(int store, const char *key, int *ret_error);
