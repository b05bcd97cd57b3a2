/* Measuring the store and removing from it. See package_store.h.
 *
 * What may go is decided and moved out of store/ with the lock held exclusively: no environment can begin to refer to
 * it in between, since kr_package_env_make() holds the lock shared while it looks at folders and until its generation
 * counts. What was moved out is removed afterwards, without the lock. */
#include "err.h"
#include "fd.h"
#include "package_store_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GONE "!"    /* begins the name of a folder that a sweep has moved out of store/ */
#define FRESH_S 60u /* a folder of tmp/ that is younger may not have its lock yet */

struct folder {
    char key[KR_PACKAGE_KEY_ROOM];
    uint64_t bytes;
    int64_t used; /* seconds since 1970 of the last ask */
};

struct folders {
    struct folder *items;
    size_t count, room;
};

/* ---- what is there ---- */

struct looking {
    const struct kr_package_store *s;
    struct folders *all;
};

/* What it takes on the disk: blocks of files, of bytecode that came later, of folders. What cannot be read, of a
 * damaged disk, counts as empty, and can be removed. */
static int add_blocks(int folder, const char *name, void *data)
{
    uint64_t *bytes = data;
    struct stat st;

    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    *bytes += (uint64_t)st.st_blocks * 512;
    if (S_ISDIR(st.st_mode)) { /* no deeper than the names that a wheel may have */
        cleanup_fd int fd = kr_package_open_folder(folder, name);

        if (fd >= 0)
            (void)kr_package_each_name(fd, add_blocks, data);
    }
    return 0;
}

static int add_folder(int store, const char *key, void *data)
{
    struct looking *l = data;
    struct folders *all = l->all;
    struct stat st;

    if (!kr_package_key_valid(key))
        return 0;
    if (fstatat(store, key, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        return 0; /* just removed */
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct folder *items = realloc(all->items, room * sizeof *items);

        if (!items)
            return -ENOMEM;
        all->items = items;
        all->room = room;
    }
    all->items[all->count] = (struct folder){.bytes = 0};
    add_blocks(store, key, &all->items[all->count].bytes);
    memcpy(all->items[all->count].key, key, strlen(key) + 1);
    if (fstatat(l->s->index, key, &st, AT_SYMLINK_NOFOLLOW) == 0 || fstatat(store, key, &st, AT_SYMLINK_NOFOLLOW) == 0)
        all->items[all->count].used = st.st_mtim.tv_sec;
    all->count++;
    return 0;
}

static int list_folders(const struct kr_package_store *s, struct folders *all)
{
    return kr_package_each_name(s->store, add_folder, &(struct looking){s, all});
}

int kr_package_store_measure(struct kr_package_store *s, struct kr_package_store_size *ret_size)
{
    struct kr_package_store_size size = {0};
    struct folders all = {0};
    int r = list_folders(s, &all);

    for (size_t i = 0; i < all.count; i++)
        size.bytes += all.items[i].bytes;
    size.folders = (uint32_t)all.count;
    free(all.items);
    if (r == 0)
        *ret_size = size;
    return r;
}

/* ---- what is referred to ---- */

/* Adds the keys of one generation. Every error ends the sweep: what cannot be read may refer to anything. */
static int need_generation(int env, const char *name, void *data)
{
    cleanup_fd int generation = -1;
    json_t *needed = data, *all, *item;
    size_t i;
    int r;

    if (name[0] != 'g')
        return 0;
    generation = kr_package_open_folder(env, name);
    if (generation < 0)
        return generation == -ENOENT ? 0 : generation; /* an older one, removed by a job */
    all = kr_package_read_json(generation, KR_PACKAGE_FACTS, &r);
    if (!all) {
        struct stat st;

        return r == -ENOENT && fstat(generation, &st) == 0 && st.st_nlink == 0 ? 0 : r == -ENOENT ? -EIO : r;
    }
    r = json_is_array(json_object_get(all, "items")) ? 0 : -EIO;
    json_array_foreach(json_object_get(all, "items"), i, item)
    {
        const char *key = json_string_value(json_object_get(item, "key"));

        if (!key || json_object_set_new(needed, key, json_true()) < 0)
            r = -EIO;
    }
    json_decref(all);
    return r;
}

static int need_env(int root, const char *id, void *data)
{
    cleanup_fd int folder = kr_package_open_folder(root, id), env = -1;

    if (folder == -ENOTDIR || folder == -ENOENT || folder == -ELOOP)
        return 0; /* a file of the shelf's own; a sandbox that has just gone */
    if (folder < 0)
        return folder;
    env = kr_package_open_folder(folder, "env");
    if (env < 0)
        return env == -ENOENT ? 0 : env;
    return kr_package_each_name(env, need_generation, data);
}

/* ---- what goes ---- */

static int by_use(const void *a, const void *b)
{
    const struct folder *x = a, *y = b;

    return (x->used > y->used) - (x->used < y->used);
}

/* time(2) is some milliseconds behind the times of files, which would then be younger than now. */
static int64_t now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

/* Moves folders out of the store, the longest unused first, until it is small enough. The lock is held. */
static int take_out(struct kr_package_store *s, const struct kr_package_sweep *sweep, const json_t *needed,
                    uint64_t *freed)
{
    int64_t youngest = now_s() - sweep->grace_s;
    struct folders all = {0};
    uint64_t bytes = 0;
    int r = list_folders(s, &all);

    for (size_t i = 0; i < all.count; i++)
        bytes += all.items[i].bytes;
    if (all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, by_use);
    for (size_t i = 0; i < all.count && r == 0 && bytes > sweep->bytes_max; i++) {
        const struct folder *f = &all.items[i];
        char name[KR_PACKAGE_KEY_ROOM + 16];

        if (f->used > youngest || json_object_get(needed, f->key))
            continue;
        snprintf(name, sizeof name, GONE "%s-%08x", f->key, randombytes_random());
        if (renameat(s->store, f->key, s->tmp, name) < 0) {
            r = -errno;
            break;
        }
        unlinkat(s->index, f->key, 0);
        bytes -= f->bytes < bytes ? f->bytes : bytes;
        *freed += f->bytes;
    }
    free(all.items);
    return r;
}

/* ---- what killed processes left ---- */

/* In tmp/: a folder of unpacking is locked by who fills it, as long as that process lives. Files are downloads, which
 * are left alone for the time of grace. */
static int clear_one(int tmp, const char *name, void *data)
{
    const struct kr_package_sweep *sweep = data;
    cleanup_fd int fd = -1;
    int64_t now = now_s();
    struct stat st;

    if (fstatat(tmp, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISDIR(st.st_mode)) {
        if (name[0] != GONE[0] && st.st_mtim.tv_sec > now - (sweep->grace_s < FRESH_S ? sweep->grace_s : FRESH_S))
            return 0;
        fd = kr_package_open_folder(tmp, name);
        if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
            return 0;
    } else if (st.st_mtim.tv_sec > now - sweep->grace_s) {
        return 0;
    }
    kr_package_remove(tmp, name); /* what stays is found by the next sweep */
    return 0;
}

/* In index/: marks of folders that never came to be, or are gone. */
static int clear_mark(int index, const char *key, void *data)
{
    const struct looking *l = data;
    struct stat st;

    (void)index;
    if (fstatat(l->s->store, key, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        unlinkat(index, key, 0);
    return 0;
}

/* What happens with the lock held. */
static int make_room(struct kr_package_store *s, const struct kr_package_sweep *sweep, uint64_t *freed)
{
    cleanup_fd int lock = kr_package_store_lock(s, LOCK_EX);
    json_t *needed = json_object();
    int r = lock < 0 ? lock : needed ? 0 : -ENOMEM;

    for (size_t i = 0; i < sweep->root_count && r == 0; i++)
        r = kr_package_each_name(sweep->roots[i], need_env, needed);
    if (r == 0)
        r = take_out(s, sweep, needed, freed);
    json_decref(needed);
    return r;
}

static int clear_marks(struct kr_package_store *s)
{
    cleanup_fd int lock = kr_package_store_lock(s, LOCK_EX);
    struct looking l = {.s = s};

    return lock < 0 ? lock : kr_package_each_name(s->index, clear_mark, &l);
}

/* Installs wait for the lock: a store that is small enough is measured without it. */
static int sweep_store(struct kr_package_store *s, const struct kr_package_sweep *sweep, uint64_t *freed)
{
    struct kr_package_store_size size = {0};
    int r = kr_package_store_measure(s, &size);

    if (r == 0 && size.bytes > sweep->bytes_max)
        r = make_room(s, sweep, freed);
    return r < 0 ? r : clear_marks(s);
}

int kr_package_store_sweep(struct kr_package_store *s, const struct kr_package_sweep *sweep, uint64_t *ret_freed,
                           struct kr_err *err)
{
    uint64_t freed = 0;
    int r = sweep_store(s, sweep, &freed);

    if (r == 0)
        r = kr_package_each_name(s->tmp, clear_one, (void *)sweep);
    if (r < 0)
        return kr_err_set(err, r == -ETIMEDOUT ? KR_ERR_BUSY : KR_ERR_SYSTEM, -r, "clearing the store of packages");
    *ret_freed = freed;
    return 0;
}
