/* What the kernel counts for a cell: which files of its cgroup say it, and what they say.
 *
 * The warden reads them for a cell that ends, the engine for a run that ends: it has a descriptor of each hierarchy's
 * folder from HELLO, and a question to the warden would cost a short run more than its output does. */
#pragma once
#include "proto.h"
#include <stddef.h>
#include <stdint.h>

#define KR_GROUP_NAME_ROOM 48

/* A cell's folder in each hierarchy: of its own name, in that of its user if `user` is not 0. `group` 0: the user's. */
void kr_group_name(uint64_t user, uint64_t group, char buf[KR_GROUP_NAME_ROOM]);
/* A key: the value is the number of lines. Such a file is opened each time: v1 answers a descriptor that was read
 * before with the list of up to a second ago. */
#define KR_COUNTER_LINES "\n"
/* The number after `key ` in a file of "key number" lines, or the number the file starts with when key is NULL. 0, or
 * -errno. */
int kr_counter_look(int fd, const char *key, uint64_t *ret);

/* Processes besides the session's own; -1: that could not be counted. */
int64_t kr_usage_others(const struct kr_usage *u);

/* As kr_counter_look(), of a file of the cell's folder in hierarchy `hier`. */
typedef int kr_counters_look(const void *arg, unsigned hier, const char *file, const char *key, uint64_t *ret);
/* All that one hierarchy says, added to ret, which begins as zeros. 0, or -errno of the last file that should be there
 * and could not be read. */
int kr_counters_read(const struct kr_w_hier *h, unsigned hier, kr_counters_look *look, const void *arg,
                     struct kr_usage *ret);
