/* Snapshots of a workspace.
 *
 * Called by mirror.c. Invariant: memory and time are bounded by what the caller gave, and a bound that was met is said;
 * paths are in one block per snapshot, sorted, so that a comparison is one merge. */
#include "changes.h"
#include "changes_internal.h"
#include "files_internal.h"
#include "walk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const kr_change_names[KR_CHANGE_MAX_] = {
    [KR_CHANGE_CREATED] = "created",
    [KR_CHANGE_MODIFIED] = "modified",
    [KR_CHANGE_DELETED] = "deleted",
};

static uint64_t ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

void kr_seen_set(struct kr_seen *ret, const struct stat *st)
{
    ret->size = (uint64_t)st->st_size;
    ret->mtime_ns = ns(&st->st_mtim);
    ret->ctime_ns = ns(&st->st_ctim);
    ret->ino = st->st_ino;
    ret->linked = st->st_nlink > 1;
}

bool kr_seen_differs(const struct kr_seen *a, const struct kr_seen *b)
{
    return a->ino != b->ino || a->size != b->size || a->mtime_ns != b->mtime_ns || a->ctime_ns != b->ctime_ns;
}

static bool reserve_entry(struct kr_snapshot *s, size_t path_len)
{
    if (s->count == s->room) {
        size_t room = s->room ? s->room * 2 : 64;
        void *grown = reallocarray(s->files, room, sizeof *s->files);

        if (!grown)
            return false;
        s->files = grown;
        s->room = room;
    }
    if (s->text_room - s->text_len <= path_len) {
        size_t room = (s->text_room + path_len + 1) * 2;
        void *grown = realloc(s->text, room);

        if (!grown)
            return false;
        s->text = grown;
        s->text_room = room;
    }
    return true;
}

bool kr_snapshot_is_temp(const char *path)
{
    return !strchr(path, '/') && strncmp(path, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) == 0;
}

int kr_snapshot_add(struct kr_snapshot *s, const char *path, size_t path_len, const struct stat *st)
{
    struct kr_seen *f;

    if (s->count >= s->max || s->text_len + path_len + 1 > s->text_max)
        return -ENOSPC;
    if (!reserve_entry(s, path_len))
        return -ENOMEM;
    memcpy(s->text + s->text_len, path, path_len + 1);
    f = &s->files[s->count++];
    *f = (struct kr_seen){.path = s->text_len};
    kr_seen_set(f, st);
    s->text_len += path_len + 1;
    return 0;
}

static enum kr_walk_do on_file(void *arg, const struct kr_walk_entry *e)
{
    struct kr_snapshot *s = arg;
    int r = 0;

    if (S_ISDIR(e->st->st_mode) && s->on_folder && s->on_folder(s->folder_data, e->path) < 0)
        s->on_folder = NULL; /* said once */
    if (S_ISREG(e->st->st_mode) && !kr_snapshot_is_temp(e->path))
        r = kr_snapshot_add(s, e->path, e->path_len, e->st);
    if (r == -ENOMEM)
        s->out_of_memory = true;
    if (r == -ENOSPC)
        s->incomplete = true;
    return r < 0 ? KR_WALK_STOP : KR_WALK_ON;
}

static int compare_files(const void *a, const void *b, void *text)
{
    return strcmp((char *)text + ((const struct kr_seen *)a)->path, (char *)text + ((const struct kr_seen *)b)->path);
}

void kr_snapshot_sort(struct kr_snapshot *s)
{
    if (s->count > 0)
        qsort_r(s->files, s->count, sizeof *s->files, compare_files, s->text);
}

struct kr_seen *kr_snapshot_find(const struct kr_snapshot *s, const char *path)
{
    size_t low = 0, high = s->count;

    while (low < high) {
        size_t at = low + (high - low) / 2;
        int order = strcmp(path, s->text + s->files[at].path);

        if (order == 0)
            return &s->files[at];
        if (order < 0)
            high = at;
        else
            low = at + 1;
    }
    return NULL;
}

int kr_snapshot_take_folders(int ws, size_t max_files, uint64_t deadline_ns, kr_snapshot_folder_fn *on_folder,
                             void *data, struct kr_snapshot **ret)
{
    struct kr_snapshot *s = calloc(1, sizeof *s);
    struct kr_walk_result seen;
    struct kr_walk_max max;
    struct timespec now;
    int r;

    if (!s)
        return -ENOMEM;
    s->max = max_files ? max_files : KR_SNAPSHOT_FILES_MAX;
    s->text_max = s->max * KR_SNAPSHOT_PATH_EACH;
    s->on_folder = on_folder;
    s->folder_data = data;
    /* The kernel stamps files with this coarse clock; the fine one may be ahead of it. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    s->taken_ns = ns(&now);
    max = (struct kr_walk_max){.entries = s->max * 10, .deadline_ns = deadline_ns};
    r = kr_walk(ws, &max, on_file, s, &seen);
    if (r == 0 && s->out_of_memory)
        r = -ENOMEM;
    if (r < 0) {
        kr_snapshot_free(s);
        return r;
    }
    s->incomplete |= !kr_walk_complete(&seen);
    s->entries = seen.entries;
    kr_snapshot_sort(s);
    *ret = s;
    return 0;
}

int kr_snapshot_take(int ws, size_t max_files, uint64_t deadline_ns, struct kr_snapshot **ret)
{
    return kr_snapshot_take_folders(ws, max_files, deadline_ns, NULL, NULL, ret);
}

bool kr_snapshot_incomplete(const struct kr_snapshot *s)
{
    return s->incomplete;
}

size_t kr_snapshot_count(const struct kr_snapshot *s)
{
    return s->count;
}

void kr_snapshot_free(struct kr_snapshot *s)
{
    if (!s)
        return;
    free(s->files);
    free(s->text);
    free(s);
}

void kr_changes_done(struct kr_changes *c)
{
    free(c->files);
    *c = (struct kr_changes){.files = NULL};
}
