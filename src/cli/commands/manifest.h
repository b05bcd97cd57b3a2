/* The list of a backup: every file beneath a folder with its hash, a line each. */
#pragma once
#include "buf.h"
#include "err.h"
#include <stdbool.h>

#define KR_MANIFEST "MANIFEST"
#define KR_MANIFEST_MAX (1u << 30) /* bytes: some ten million files */

/* The lines of a folder, the list itself left out, in the order of their paths:
 *     f HASH SIZE PATH     a file          l HASH SIZE PATH   a link: of its target
 *     d - 0 PATH           a folder        o - 0 PATH         anything else
 * Bytes of a path that are no letters of a line are %XX. With `says`, progress goes to stderr. May block for long. */
int kr_manifest_make(const char *dir, struct kr_buf *ret, bool says, struct kr_err *err);
/* Writes the list as the last file of a backup, with `head` (lines) in front and the hash of all of it at its end. */
int kr_manifest_write(const char *dir, const char *head, const struct kr_buf *lines, struct kr_err *err);
/* Reads it. -EUCLEAN: it is damaged. `ret_lines` begins at the first line of a file. */
int kr_manifest_read(const char *dir, struct kr_buf *ret, const char **ret_lines, struct kr_err *err);
/* Calls fn for each difference: "changed", "missing", "unknown". Returns how many there are. */
size_t kr_manifest_compare(const char *listed, const char *found,
                           void (*fn)(void *data, const char *what, const char *path, size_t len), void *data);
/* stderr is a terminal. */
bool kr_manifest_may_say(void);
