/* Names of files from an archive: whether each is a path beneath a folder, and whether all can stand beside each other
 * on any filesystem. Pure.
 *
 * Called for the names of an archive and again for where its files are put. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct kr_err;

/* NULL if this is a relative path of plain parts in UTF-8; otherwise what is wrong with it: "is absolute". */
const char *kr_path_flaw(const char *name, size_t len);

struct kr_path_item {
    const char *path; /* relative, without a slash at its end */
    bool folder;
};
/* 0 if no two are the same, also where upper and lower case are not told apart, and none lies within a file; -EINVAL
 * with err, or -ENOMEM. */
int kr_path_list_check(const struct kr_path_item *items, size_t count, struct kr_err *err);
