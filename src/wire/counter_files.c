/* Kept counter files. See counter_files.h. Called by the engine's warden_holder.c.
 *
 * Invariant: a cell has one place, by its index (the low bits of its id), and a place has files of one cell. A folder
 * that was removed fails to be read (ENODEV), one that another cell has since is not read: its cell's id is another. */
#include "counter_files.h"
#include "fd.h"
#include <stddef.h>
#include <sys/resource.h>

#define NOFILE_LEAST 2048u /* descriptors of a process that can spare those kept */

static struct kr_kept_cell *place_of(const struct kr_counter_files *f, uint64_t cell)
{
    return (struct kr_kept_cell *)&f->kept[cell % KR_KEPT_CELLS];
}

static void close_place(struct kr_kept_cell *k)
{
    while (k->count > 0)
        kr_fd_close(k->files[--k->count].fd);
    k->id = 0;
}

void kr_counter_files_init(struct kr_counter_files *f)
{
    struct rlimit most;
    *f = (struct kr_counter_files){0};
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && most.rlim_cur >= NOFILE_LEAST)
        f->cells = KR_KEPT_CELLS;
}

void kr_counter_files_done(struct kr_counter_files *f)
{
    for (unsigned i = 0; i < KR_KEPT_CELLS; i++)
        close_place(&f->kept[i]);
    f->cells = 0;
}

unsigned kr_counter_files_most(const struct kr_counter_files *f)
{
    return f->cells * KR_KEPT_FILES;
}

int kr_counter_files_find(const struct kr_counter_files *f, uint64_t cell, unsigned hier, const char *name)
{
    const struct kr_kept_cell *k = place_of(f, cell);
    if (k->id != cell)
        return -1;
    for (unsigned i = 0; i < k->count; i++)
        if (k->files[i].name == name && k->files[i].hier == hier)
            return k->files[i].fd;
    return -1;
}

void kr_counter_files_keep(struct kr_counter_files *f, uint64_t cell, unsigned hier, const char *name, int fd)
{
    struct kr_kept_cell *k = place_of(f, cell);
    if (f->cells > 0 && k->id != cell)
        close_place(k);
    if (f->cells == 0 || k->count == KR_KEPT_FILES) {
        kr_fd_close(fd);
        return;
    }
    k->id = cell;
    k->files[k->count++] = (struct kr_kept_file){.name = name, .hier = hier, .fd = fd};
}

void kr_counter_files_forget(struct kr_counter_files *f, uint64_t cell)
{
    struct kr_kept_cell *k = place_of(f, cell);
    if (k->id == cell)
        close_place(k);
}
