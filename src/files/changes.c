/* Snapshots of a workspace and what differs between two.
 *
 * Called on the thread pool around a run. Invariant: memory and time are bounded by what the caller gave, and a bound
 * that was met is said; paths are in one block per snapshot, sorted, so that the comparison is one merge. */
#include "changes.h"
#include "files_internal.h"
#include "walk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATH_BYTES_EACH                                                                                                \
    256u /* of paths per file allowed, on average: a deep tree must not cost more memory than a wide one */

const char *const kr_change_names[KR_CHANGE_MAX_] = {
    [KR_CHANGE_CREATED] = "created",
    [KR_CHANGE_MODIFIED] = "modified",
    [KR_CHANGE_DELETED] = "deleted",
};

struct file {
    size_t path; /* in the snapshot's text */
    uint64_t size, mtime_ns, ctime_ns, ino;
};

struct kr_snapshot {
    struct file *files;
    size_t count, room, max;
    char *text;
    size_t text_len, text_room, text_max;
    uint64_t taken_ns; /* on the clock of file times */
    bool incomplete, out_of_memory;
};

static uint64_t ns(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
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

static enum kr_walk_do on_file(void *arg, const struct kr_walk_entry *e)
{
    struct kr_snapshot *s = arg;

    if (!S_ISREG(e->st->st_mode))
        return KR_WALK_ON;
    if (e->depth == 1 && strncmp(e->name, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) == 0)
        return KR_WALK_ON;
    if (s->count >= s->max || s->text_len + e->path_len + 1 > s->text_max) {
        s->incomplete = true;
        return KR_WALK_STOP;
    }
    if (!reserve_entry(s, e->path_len)) {
        s->out_of_memory = true;
        return KR_WALK_STOP;
    }
    memcpy(s->text + s->text_len, e->path, e->path_len + 1);
    s->files[s->count++] = (struct file){
        .path = s->text_len,
        .size = (uint64_t)e->st->st_size,
        .mtime_ns = ns(&e->st->st_mtim),
        .ctime_ns = ns(&e->st->st_ctim),
        .ino = e->st->st_ino,
    };
    s->text_len += e->path_len + 1;
    return KR_WALK_ON;
}

static int compare_files(const void *a, const void *b, void *text)
{
    return strcmp((char *)text + ((const struct file *)a)->path, (char *)text + ((const struct file *)b)->path);
}

int kr_snapshot_take(int ws, size_t max_files, uint64_t deadline_ns, struct kr_snapshot **ret)
{
    struct kr_snapshot *s = calloc(1, sizeof *s);
    struct kr_walk_result seen;
    struct kr_walk_max max;
    struct timespec now;
    int r;

    if (!s)
        return -ENOMEM;
    s->max = max_files ? max_files : KR_SNAPSHOT_FILES_MAX;
    s->text_max = s->max * PATH_BYTES_EACH;
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
    if (s->count > 0)
        qsort_r(s->files, s->count, sizeof *s->files, compare_files, s->text);
    *ret = s;
    return 0;
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

/* ---- comparing ---- */

struct finding {
    struct kr_changes *changes;
    size_t room, max;
};

/* False if there is no memory for it; past the maximum it is dropped and said. */
static bool found(struct finding *f, enum kr_change change, const struct kr_snapshot *s, const struct file *file)
{
    struct kr_changes *c = f->changes;

    if (c->count >= f->max) {
        c->incomplete = true;
        return true;
    }
    if (c->count == f->room) {
        size_t room = f->room ? f->room * 2 : 16;
        void *grown = reallocarray(c->files, room, sizeof *c->files);

        if (!grown)
            return false;
        c->files = grown;
        f->room = room;
    }
    c->files[c->count++] = (struct kr_changed){
        .change = change,
        .path = s->text + file->path,
        .size = file->size,
        .mtime_ns = file->mtime_ns,
    };
    return true;
}

static bool differs(const struct file *a, const struct file *b)
{
    return a->ino != b->ino || a->size != b->size || a->mtime_ns != b->mtime_ns || a->ctime_ns != b->ctime_ns;
}

/* The pair at the front of both; either may be NULL. */
static bool compare_pair(struct finding *f, const struct kr_snapshot *before, const struct kr_snapshot *after,
                         const struct file *old, const struct file *now)
{
    if (old && now)
        return !differs(old, now) || found(f, KR_CHANGE_MODIFIED, after, now);
    if (now && before->incomplete && now->ctime_ns < before->taken_ns)
        return true; /* it was there; the snapshot had not got to it */
    if (now)
        return found(f, KR_CHANGE_CREATED, after, now);
    return !old || after->incomplete || found(f, KR_CHANGE_DELETED, before, old);
}

int kr_changes_find(const struct kr_snapshot *before, const struct kr_snapshot *after, size_t max,
                    struct kr_changes *ret)
{
    struct kr_changes changes = {.incomplete = before->incomplete || after->incomplete};
    struct finding f = {.changes = &changes, .max = max ? max : KR_CHANGES_MAX};
    size_t i = 0, k = 0;

    while (i < before->count || k < after->count) {
        const struct file *old = i < before->count ? &before->files[i] : NULL;
        const struct file *now = k < after->count ? &after->files[k] : NULL;

        if (old && now) {
            int order = strcmp(before->text + old->path, after->text + now->path);

            if (order < 0)
                now = NULL;
            else if (order > 0)
                old = NULL;
        }
        if (!compare_pair(&f, before, after, old, now)) {
            kr_changes_done(&changes);
            return -ENOMEM;
        }
        i += old != NULL;
        k += now != NULL;
    }
    *ret = changes;
    return 0;
}

void kr_changes_done(struct kr_changes *c)
{
    free(c->files);
    *c = (struct kr_changes){.files = NULL};
}
