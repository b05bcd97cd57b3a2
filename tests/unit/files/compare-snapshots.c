/* The comparison of two whole snapshots, by a merge: the plain way, which test-mirror.c compares mirrors with. */
#include "compare-snapshots.h"
#include "changes_internal.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct finding {
    struct kr_changes *changes;
    size_t room, max;
};

/* False if there is no memory for it; past the maximum it is dropped and said. */
static bool found(struct finding *f, enum kr_change change, const struct kr_snapshot *s, const struct kr_seen *file)
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

/* The pair at the front of both; either may be NULL. */
static bool compare_pair(struct finding *f, const struct kr_snapshot *before, const struct kr_snapshot *after,
                         const struct kr_seen *old, const struct kr_seen *now)
{
    if (old && now)
        return !kr_seen_differs(old, now) || found(f, KR_CHANGE_MODIFIED, after, now);
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
        const struct kr_seen *old = i < before->count ? &before->files[i] : NULL;
        const struct kr_seen *now = k < after->count ? &after->files[k] : NULL;

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
