/* Counter files that stay open: those of the cells that were read last.
 *
 * The engine reads five of them at the end of every run, and to open and close one takes several times as long as to
 * read it. A file that is kept is read with pread(2), which makes the kernel count again. */
#pragma once
#include <stdint.h>

#define KR_KEPT_CELLS 16u
#define KR_KEPT_FILES 6u /* of one cell; what is read more rarely than these is opened each time */

struct kr_counter_files {
    unsigned cells; /* that it keeps files of: 0 where descriptors are scarce */
    struct kr_kept_cell {
        uint64_t id;
        unsigned count;
        struct kr_kept_file {
            const char *name; /* the caller's: it is the same pointer each time */
            unsigned hier;
            int fd;
        } files[KR_KEPT_FILES];
    } kept[KR_KEPT_CELLS];
};

/* Keeps none where RLIMIT_NOFILE is below what a server has. */
void kr_counter_files_init(struct kr_counter_files *f);
void kr_counter_files_done(struct kr_counter_files *f);
/* Descriptors that it may come to hold. */
unsigned kr_counter_files_most(const struct kr_counter_files *f);
/* The descriptor that is kept, or -1. */
int kr_counter_files_find(const struct kr_counter_files *f, uint64_t cell, unsigned hier, const char *name);
/* Takes the descriptor: it is kept instead of those of another cell, or closed. */
void kr_counter_files_keep(struct kr_counter_files *f, uint64_t cell, unsigned hier, const char *name, int fd);
/* The cell has ended. */
void kr_counter_files_forget(struct kr_counter_files *f, uint64_t cell);
