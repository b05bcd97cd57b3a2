/* Files of a sandbox's workspace, from the server's side, while hostile code works in the same folder.
 *
 * Every function takes a descriptor of the workspace folder (O_PATH will do) and a path from outside; the path is
 * resolved beneath it, through no symbolic link and no mount. Everything here is pure: no shared state, safe on the
 * thread pool, and may block on the disk, never on a FIFO. Errors name the path and the reason; their texts may be
 * shown.
 *
 * Paths: relative to the workspace, or absolute beneath /workspace or another name that a cell has for it. `.`,
 * empty parts and a trailing slash are dropped; `..` is refused. "" is the workspace itself. Bytes need not be
 * UTF-8. */
#pragma once
#include "err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timespec;

struct kr_json;

#define KR_FILES_PATH_MAX 4096u /* with the NUL */

enum kr_file_type {
    KR_FILE_REGULAR,
    KR_FILE_FOLDER,
    KR_FILE_LINK,  /* a symbolic link: shown, never followed */
    KR_FILE_OTHER, /* FIFO, socket, device: shown, never opened */
    KR_FILE_TYPE_MAX_,
};
extern const char *const kr_file_type_names[KR_FILE_TYPE_MAX_]; /* file, folder, link, other */

struct kr_file_info {
    enum kr_file_type type;
    uint64_t size, mtime_ns, ino;
    unsigned mode;  /* permission bits */
    uint64_t links; /* names of it */
};

/* Checks a path and writes its relative form. 0; -EINVAL with the reason. */
int kr_files_path(const char *path, char out[static KR_FILES_PATH_MAX], struct kr_err *err);
/* The same for a name that is to be made: also UTF-8 without control characters, not one of our own temporary names,
 * not the workspace itself. */
int kr_files_new_path(const char *path, char out[static KR_FILES_PATH_MAX], struct kr_err *err);
/* Writes key: path in which invalid UTF-8 is U+FFFD; and then, if it was, key_b64: base64 of the true bytes, and a
 * client can name it by percent-encoding those. */
void kr_files_json_path(struct kr_json *j, const char *key, const char *path);

int kr_files_stat(int ws, const char *path, struct kr_file_info *ret, struct kr_err *err);
/* Opens a regular file for reading. Nonblocking, so that a FIFO that replaced it meanwhile cannot block the caller. */
int kr_files_open(int ws, const char *path, int *ret_fd, struct kr_file_info *ret_info, struct kr_err *err);
/* Makes a folder and those above it, and waits for the disk. One that is there is fine. */
int kr_files_mkdir(int ws, const char *path, struct kr_err *err);

/* ---- uploads ---- */

struct kr_files_upload;

/* Starts one of at most max bytes (0: none allowed at all). Its bytes are in a temporary file in the workspace until
 * the commit; keeps a copy of `ws` and the path. */
int kr_files_upload_begin(int ws, const char *path, uint64_t max, struct kr_files_upload **ret_upload,
                          struct kr_err *err);
/* 0; KR_ERR_LIMIT with EFBIG past the maximum, ENOSPC, EDQUOT …: then only abort is left. */
int kr_files_upload_write(struct kr_files_upload *u, const void *data, size_t len, struct kr_err *err);
uint64_t kr_files_upload_size(const struct kr_files_upload *u);
/* For another process that writes in place of kr_files_upload_write(): the descriptor, borrowed; how many bytes the
 * filesystem takes, at most u's maximum; and at its end how many there are and which path the file gets: 0 or
 * -errno. */
int kr_files_upload_fd(const struct kr_files_upload *u);
uint64_t kr_files_upload_room(const struct kr_files_upload *u);
int kr_files_upload_settle(struct kr_files_upload *u, const char *path, struct kr_err *err);
/* The file gets its name; an existing one keeps its mode, a folder is not replaced. A power cut does not take it any
 * more when this returns 0: waits for the disk. Frees u, also on failure, when nothing is left behind unless the sync
 * failed. */
int kr_files_upload_commit(struct kr_files_upload *u, struct kr_err *err);
/* The same, but replaces nothing: -EEXIST if something of that name is there. */
int kr_files_upload_create(struct kr_files_upload *u, struct kr_err *err);
/* Removes what was written and frees. Takes NULL. */
void kr_files_upload_abort(struct kr_files_upload *u);
/* Removes temporary files that a killed process left in the workspace: those older than `before` (by
 * CLOCK_REALTIME), or with NULL all. 1: nothing else is there; 0: something is; or -errno. */
int kr_files_clean(int ws, const struct timespec *before, struct kr_err *err);

/* ---- delete ---- */

struct kr_files_budget {
    uint64_t steps;       /* removals and moves at most; 0: 10,000 */
    uint64_t deadline_ns; /* kr_clock_ns() scale; 0: none */
};

/* Deletes a file, link or folder; "" empties the workspace. A folder that is not empty needs `tree`. 0: done; 1: the
 * budget was used up and something is left: call again (each call starts anew at the top). Any depth; folders
 * without permission bits are given them. */
int kr_files_delete(int ws, const char *path, bool tree, const struct kr_files_budget *budget, struct kr_err *err);

/* ---- list and usage ---- */

struct kr_files_list_spec {
    bool recursive;
    unsigned depth;       /* of folders entered; 0: KR_WALK_DEPTH_MAX */
    size_t limit;         /* entries returned; 0: 1000, at most 10,000 */
    const char *after;    /* path of the last entry of the page before, NULL: the first page */
    uint64_t entries_max; /* looked at; 0: 200,000 */
    uint64_t deadline_ns; /* kr_clock_ns() scale; 0: none */
};

struct kr_files_entry {
    char *path; /* from the workspace */
    struct kr_file_info info;
};

struct kr_files_list {
    struct kr_files_entry *entries; /* sorted by the bytes of each part of the path; a folder before what is in it */
    size_t count;
    bool more;       /* another page follows: `after` = the last path */
    bool incomplete; /* a bound was met or a folder could not be read: there may be entries that no page shows */
};

/* Lists a folder. A page is the `limit` smallest entries behind `after` at this moment: no state between pages, memory
 * for one page. Our own temporary files are not shown. */
int kr_files_list(int ws, const char *path, const struct kr_files_list_spec *spec, struct kr_files_list *ret,
                  struct kr_err *err);
void kr_files_list_done(struct kr_files_list *list);

/* ---- copies of whole folders ---- */

struct kr_files_copy_max {
    uint64_t entries;     /* 0: no bound */
    uint64_t deadline_ns; /* kr_clock_ns() scale; 0: none */
};
/* Copies what is beneath the folder `from` into the empty folder `to` of the same filesystem: files (sharing their
 * blocks where the filesystem can), folders and links as they are, with their modes and times; a file of several names
 * becomes several files. What is neither of them (FIFO, socket) is left out. Code may change `from` meanwhile: what is
 * copied is then of no one moment. 0; -errno with err, and `to` has a part of it. */
int kr_files_copy(int from, int to, const struct kr_files_copy_max *max, struct kr_err *err);

struct kr_measure;
struct kr_measure_max;
/* Disk use beneath a folder, within the measurement's bounds (NULL: 200,000 entries). */
int kr_files_usage(int ws, const char *path, const struct kr_measure_max *max, struct kr_measure *ret,
                   struct kr_err *err);

/* Bytes of a filesystem of that size that uploads and programs leave free: the store needs them. */
uint64_t kr_files_reserve(uint64_t size);
