/* A mirror and its journal.
 *
 * Called by box_changes.c, on the thread pool or, for little, on the loop. Invariants:
 * - After a sync each regular file of the folder is in the snapshot as fstatat(2) shows it, unless `incomplete`.
 * - A file that is not hot cannot have changed without an event: a process must open it by one of its names first, or
 *   name it in a call, and has not. A file is hot from the moment it is opened, made, renamed or found changed until
 *   every process has ended that ran at that moment: whatever was opened may be written through a mapping, which no
 *   event tells of. When the watch begins, all files are hot in this sense. A file with several names is always hot.
 * - What names cannot say (folders that come, go or move; a name that came and went unseen, which may have been a
 *   second name of another file; a first second name) is answered by a walk. Whatever link(2) reached has another
 *   ctime then, so the walk finds it and makes it hot. */
#include "mirror.h"
#include "changes_internal.h"
#include "clock.h"
#include "fd.h"
#include "files.h"
#include "files_internal.h"
#include "tree_watch.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define FEW_FILES 16u /* and ten times as many entries: walked on the loop */
#define FEW_MS 1u
#define HERE_MAX 128u /* names looked at on the loop */
#define HERE_BYTES (256u << 10)
#define JOURNAL_MAX 60000u
#define MOVE_MAX 16u                  /* new files that are put in their positions one by one */
#define SUM_FEW 1000u                 /* files that are added up at every change, … */
#define SUM_NS UINT64_C(1000000000)   /* … more of them after so long */
#define REST_NS UINT64_C(10000000000) /* after events were lost: no watch */

/* A file as it was before it became different. */
struct entry {
    char *path;
    struct kr_seen old;
    bool existed;
};

struct kr_mirror {
    struct kr_snapshot *now; /* NULL: not looked at yet */
    struct kr_tree_watch *watch;
    struct entry *journal;
    size_t journal_count, journal_room, path_bytes;
    uint64_t first;            /* what journal[0] is counted as */
    uint64_t sync, incomplete; /* looks so far; the last one that was incomplete */
    uint64_t lost_ns;          /* when events were lost; 0: never */
    bool many_files;           /* it is not walked on the loop any more */
    bool needs_walk;           /* the names that were touched did not say enough */
    uint64_t sum, summed_ns;   /* bytes of its files when they were last added up */
    bool sum_is_old;
};

int kr_mirror_new(struct kr_mirror **ret)
{
    struct kr_mirror *m = calloc(1, sizeof *m);

    if (!m)
        return -ENOMEM;
    *ret = m;
    return 0;
}

static void drop_journal(struct kr_mirror *m, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        m->path_bytes -= strlen(m->journal[i].path) + 1;
        free(m->journal[i].path);
    }
    m->journal_count -= count;
    m->first += count;
    memmove(m->journal, m->journal + count, m->journal_count * sizeof *m->journal);
}

void kr_mirror_free(struct kr_mirror *m)
{
    if (!m)
        return;
    if (m->journal)
        drop_journal(m, m->journal_count);
    free(m->journal);
    kr_snapshot_free(m->now);
    kr_tree_watch_free(m->watch);
    free(m);
}

static void unwatch(struct kr_mirror *m)
{
    kr_tree_watch_free(m->watch);
    m->watch = NULL;
    m->lost_ns = kr_clock_ns();
}

static bool is_hot(const struct kr_seen *f, uint64_t oldest_ns)
{
    return f->linked || (f->hot_ns > 0 && f->hot_ns >= oldest_ns);
}

struct kr_mirror_mark kr_mirror_mark(const struct kr_mirror *m)
{
    return (struct kr_mirror_mark){.sync = m->sync, .at = m->first + m->journal_count};
}

size_t kr_mirror_kept(const struct kr_mirror *m)
{
    return m->journal_count;
}

bool kr_mirror_watched(const struct kr_mirror *m)
{
    return m->watch != NULL;
}

size_t kr_mirror_bytes(const struct kr_mirror *m)
{
    size_t bytes = sizeof *m + m->journal_room * sizeof *m->journal + m->path_bytes;

    if (m->now)
        bytes += m->now->room * sizeof *m->now->files + m->now->text_room;
    return m->watch ? bytes + kr_tree_watch_bytes(m->watch) : bytes;
}

uint64_t kr_mirror_sum(struct kr_mirror *m, bool changed)
{
    uint64_t now = kr_clock_ns();

    m->sum_is_old |= changed;
    if (!m->now || !m->sum_is_old || (m->now->count > SUM_FEW && now - m->summed_ns < SUM_NS))
        return m->sum;
    m->sum = 0;
    for (size_t i = 0; i < m->now->count; i++)
        m->sum += m->now->files[i].size;
    m->summed_ns = now;
    m->sum_is_old = false;
    return m->sum;
}

/* ---- the journal ---- */

/* What cannot be kept makes the changes since older marks incomplete. */
static void note(struct kr_mirror *m, const char *path, const struct kr_seen *old)
{
    struct entry e = {.existed = old != NULL};

    if (m->journal_count == JOURNAL_MAX)
        drop_journal(m, JOURNAL_MAX / 2);
    if (m->journal_count == m->journal_room) {
        size_t room = m->journal_room ? 2 * m->journal_room : 16;
        void *grown = reallocarray(m->journal, room, sizeof *m->journal);

        if (!grown) {
            m->incomplete = m->sync;
            return;
        }
        m->journal = grown;
        m->journal_room = room;
    }
    e.path = strdup(path);
    if (!e.path) {
        m->incomplete = m->sync;
        return;
    }
    if (old)
        e.old = *old;
    m->journal[m->journal_count++] = e;
    m->path_bytes += strlen(path) + 1;
}

void kr_mirror_trim(struct kr_mirror *m, const struct kr_mirror_mark *oldest)
{
    uint64_t count = oldest->at > m->first ? oldest->at - m->first : 0;

    if (count > 0 && m->journal)
        drop_journal(m, count < m->journal_count ? (size_t)count : m->journal_count);
}

static int compare_entries(const void *a, const void *b, void *journal)
{
    const struct entry *x = (const struct entry *)journal + *(const size_t *)a;
    const struct entry *y = (const struct entry *)journal + *(const size_t *)b;
    int order = strcmp(x->path, y->path);

    return order ? order : (x > y) - (x < y); /* the oldest of a path first */
}

/* Adds what became of the path since the entry, if it is different now. */
static void add_change(const struct kr_mirror *m, const struct entry *e, struct kr_changes *c)
{
    const struct kr_seen *now = kr_snapshot_find(m->now, e->path);
    const struct kr_seen *shown = now ? now : &e->old;

    if ((!now && (!e->existed || m->now->incomplete)) || (now && e->existed && !kr_seen_differs(&e->old, now)))
        return;
    if (c->count == KR_CHANGES_MAX) {
        c->incomplete = true;
        return;
    }
    c->files[c->count++] = (struct kr_changed){
        .change = !now         ? KR_CHANGE_DELETED
                  : e->existed ? KR_CHANGE_MODIFIED
                               : KR_CHANGE_CREATED,
        .path = e->path,
        .size = shown->size,
        .mtime_ns = shown->mtime_ns,
    };
}

int kr_mirror_changes(struct kr_mirror *m, const struct kr_mirror_mark *since, struct kr_changes *ret)
{
    struct kr_changes c = {.incomplete = !m->now || m->incomplete >= since->sync || since->at < m->first};
    size_t from = since->at > m->first ? (size_t)(since->at - m->first) : 0;
    size_t count = m->journal_count > from ? m->journal_count - from : 0;
    const struct entry *e, *last = NULL;
    size_t *list;

    if (count == 0 || !m->now) {
        *ret = c;
        return 0;
    }
    list = calloc(count, sizeof *list);
    c.files = calloc(count < KR_CHANGES_MAX ? count : KR_CHANGES_MAX, sizeof *c.files);
    if (!list || !c.files) {
        free(list);
        free(c.files);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        list[i] = from + i;
    qsort_r(list, count, sizeof *list, compare_entries, m->journal);
    for (size_t i = 0; i < count; i++) {
        e = &m->journal[list[i]];
        if (!last || strcmp(e->path, last->path) != 0)
            add_change(m, e, &c);
        last = e;
    }
    free(list);
    *ret = c;
    return 0;
}

/* ---- a walk ---- */

/* The pair at the front of both; either may be NULL. */
static void compare_pair(struct kr_mirror *m, const struct kr_snapshot *after, const struct kr_seen *old,
                         struct kr_seen *now)
{
    const struct kr_snapshot *before = m->now;

    if (old && now && !kr_seen_differs(old, now)) {
        now->hot_ns = old->hot_ns;
        return;
    }
    if (now)
        now->hot_ns = kr_clock_ns();
    if (old && !now && after->incomplete)
        return;
    if (now && !old && before->incomplete && now->ctime_ns < before->taken_ns)
        return; /* it was there; the walk had not got to it */
    if (old)
        note(m, before->text + old->path, old);
    else if (now)
        note(m, after->text + now->path, NULL);
}

static void compare_snapshots(struct kr_mirror *m, struct kr_snapshot *after)
{
    const struct kr_snapshot *before = m->now;
    size_t i = 0, k = 0;

    while (i < before->count || k < after->count) {
        const struct kr_seen *old = i < before->count ? &before->files[i] : NULL;
        struct kr_seen *now = k < after->count ? &after->files[k] : NULL;

        if (old && now) {
            int order = strcmp(before->text + old->path, after->text + now->path);

            if (order < 0)
                now = NULL;
            else if (order > 0)
                old = NULL;
        }
        compare_pair(m, after, old, now);
        i += old != NULL;
        k += now != NULL;
    }
}

struct watching {
    struct kr_mirror *m;
    int ws;
};

static int on_walked_folder(void *data, const char *path)
{
    struct watching *watching = data;
    int r = kr_tree_watch_add(watching->m->watch, watching->ws, path);

    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP ? 0 : r;
}

/* Of the names that were touched, those that are there may be open. */
static void heat_touched(struct kr_mirror *m)
{
    uint64_t now_ns = kr_clock_ns();
    struct kr_tree_name name;
    struct kr_seen *f;

    for (size_t i = 0; i < kr_tree_watch_touched_count(m->watch); i++) {
        f = kr_tree_watch_touched(m->watch, i, &name) ? kr_snapshot_find(m->now, name.path) : NULL;
        if (f)
            f->hot_ns = now_ns;
    }
}

/* Of what was open before the watch began nothing was told. */
static void heat_all(struct kr_mirror *m)
{
    uint64_t now_ns = kr_clock_ns();

    for (size_t i = 0; i < m->now->count; i++)
        m->now->files[i].hot_ns = now_ns;
}

static void take_snapshot(struct kr_mirror *m, struct kr_snapshot *after, bool is_new_watch)
{
    if (m->now)
        compare_snapshots(m, after);
    if (after->incomplete || (m->now && m->now->incomplete))
        m->incomplete = m->sync;
    kr_snapshot_free(m->now);
    m->now = after;
    if (m->watch && (after->incomplete || kr_tree_watch_lost(m->watch)))
        unwatch(m);
    if (!m->watch)
        return;
    if (is_new_watch)
        heat_all(m);
    heat_touched(m);
    kr_tree_watch_forget(m->watch);
}

/* Watches are added before the entries of a folder are read: what comes later is told. */
static int walk_all(struct kr_mirror *m, int ws, const struct kr_mirror_max *max)
{
    struct watching watching = {.m = m, .ws = ws};
    struct kr_snapshot *after;
    bool is_new;
    int r;

    if (m->watch && kr_tree_watch_lost(m->watch))
        unwatch(m);
    is_new = !m->watch && m->many_files && (!m->lost_ns || kr_clock_ns() - m->lost_ns > REST_NS);
    if (is_new && kr_tree_watch_new(&m->watch) < 0)
        m->watch = NULL; /* a walk each time, then */
    if (m->watch && kr_tree_watch_add(m->watch, ws, "") < 0)
        unwatch(m);
    r = kr_snapshot_take_folders(ws, 0, max->deadline_ns, m->watch ? on_walked_folder : NULL, &watching, &after);
    if (r < 0) {
        unwatch(m);
        return r;
    }
    m->sync++;
    m->needs_walk = false;
    take_snapshot(m, after, is_new);
    return 0;
}

static int walk_few(struct kr_mirror *m, int ws)
{
    struct kr_snapshot *after;
    int r;

    if (m->many_files || m->watch)
        return -EAGAIN;
    r = kr_snapshot_take(ws, FEW_FILES, kr_clock_after_ms(FEW_MS), &after);
    if (r < 0)
        return r;
    if (kr_snapshot_incomplete(after)) {
        kr_snapshot_free(after);
        m->many_files = true;
        return -EAGAIN;
    }
    m->sync++;
    take_snapshot(m, after, false);
    return 0;
}

/* ---- a look at the names that were touched ---- */

/* The folder of the last name looked at: names come sorted. */
struct place {
    int ws, fd;
    char folder[KR_FILES_PATH_MAX];
    bool is_open;
};

/* 1: it is there; 0: there is no such name; -errno. */
static int look_at(struct place *p, const char *path, struct stat *st)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    if (!p->is_open || strncmp(p->folder, path, len) != 0 || p->folder[len]) {
        if (p->is_open)
            p->fd = kr_fd_close(p->fd);
        p->is_open = false;
        memcpy(p->folder, path, len);
        p->folder[len] = '\0';
        p->fd = kr_files_at(p->ws, p->folder, O_PATH | O_DIRECTORY, 0);
        if (p->fd < 0)
            return p->fd; /* the folder has moved: that needs a walk */
        p->is_open = true;
    }
    if (fstatat(p->fd, slash ? slash + 1 : path, st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    return 1;
}

/* 0; 1: a walk is needed, as it has got a second name. */
static int see_again(struct kr_mirror *m, struct kr_seen *f, const struct stat *st)
{
    struct kr_seen seen = {.path = f->path, .hot_ns = f->hot_ns};
    bool had_one = !f->linked;

    kr_seen_set(&seen, st);
    if (kr_seen_differs(f, &seen)) {
        note(m, m->now->text + f->path, f);
        seen.hot_ns = kr_clock_ns();
    }
    *f = seen;
    return had_one && seen.linked;
}

/* 0; 1: a walk is needed. */
static int look_at_hot(struct kr_mirror *m, struct place *p, uint64_t oldest_ns)
{
    struct kr_snapshot *s = m->now;
    size_t kept = 0;
    struct stat st;
    int r = 0;

    for (size_t i = 0; i < s->count; i++) {
        struct kr_seen *f = &s->files[i];

        if (r == 0 && is_hot(f, oldest_ns)) {
            int there = look_at(p, s->text + f->path, &st);

            if (there == 0 || (there > 0 && !S_ISREG(st.st_mode))) {
                note(m, s->text + f->path, f);
                continue;
            }
            r = there < 0; /* as it was: the walk decides */
            if (there > 0)
                r = see_again(m, f, &st);
        }
        s->files[kept++] = *f;
    }
    s->count = kept;
    return r;
}

/* Puts what was added at the end where it belongs. */
static void sort_added(struct kr_snapshot *s, size_t sorted)
{
    if (s->count - sorted > MOVE_MAX) {
        kr_snapshot_sort(s);
        return;
    }
    for (size_t i = sorted; i < s->count; i++) {
        struct kr_seen added = s->files[i];
        size_t at = i;

        for (; at > 0 && strcmp(s->text + s->files[at - 1].path, s->text + added.path) > 0; at--)
            s->files[at] = s->files[at - 1];
        s->files[at] = added;
    }
}

/* A name that was touched and is not in the snapshot. 0; 1: a walk is needed. */
static int look_at_new(struct kr_mirror *m, struct place *p, const struct kr_tree_name *name)
{
    struct stat st;
    int there = look_at(p, name->path, &st);

    if (there < 0)
        return 1;
    if (there == 0)
        return name->appeared || !name->moved_away; /* it came and went unseen */
    if (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink > 1))
        return 1;
    if (!S_ISREG(st.st_mode) || kr_snapshot_is_temp(name->path))
        return 0;
    if (kr_snapshot_add(m->now, name->path, strlen(name->path), &st) < 0)
        return 1;
    m->now->files[m->now->count - 1].hot_ns = kr_clock_ns();
    note(m, name->path, NULL);
    return 0;
}

/* Which of the touched names are not in the snapshot: bits by number, since a known one may be gone after the look at
 * it. NULL: no memory. */
static bool *find_new(const struct kr_mirror *m, size_t count)
{
    bool *is_new = calloc(count + 1, sizeof *is_new);
    struct kr_tree_name name;

    for (size_t i = 0; i < count && is_new; i++)
        is_new[i] = !kr_tree_watch_touched(m->watch, i, &name) || !kr_snapshot_find(m->now, name.path);
    return is_new;
}

/* 0; 1: a walk is needed. */
static int look_at_names(struct kr_mirror *m, int ws, uint64_t oldest_ns)
{
    size_t count = kr_tree_watch_touched_count(m->watch), before;
    bool *is_new = find_new(m, count);
    struct place p = {.ws = ws, .fd = -1};
    struct kr_tree_name name;
    struct stat st;
    int r;

    if (!is_new)
        return 1;
    r = look_at_hot(m, &p, oldest_ns);
    before = m->now->count;
    for (size_t i = 0; i < count && r == 0; i++) {
        if (!kr_tree_watch_touched(m->watch, i, &name))
            r = 1;
        else if (is_new[i])
            r = look_at_new(m, &p, &name);
        else if (name.appeared)
            r = look_at(&p, name.path, &st) != 1; /* it came and went unseen */
    }
    sort_added(m->now, before);
    if (p.is_open)
        kr_fd_close(p.fd);
    free(is_new);
    return r;
}

/* 0; 1: a walk is needed; -EAGAIN: it is too much for the loop. */
static int look(struct kr_mirror *m, int ws, const struct kr_mirror_max *max)
{
    size_t count = 0;

    if (!m->watch || !m->now)
        return 1;
    if (kr_tree_watch_drain(m->watch, max->here ? HERE_BYTES : SIZE_MAX))
        return -EAGAIN;
    if (m->needs_walk || kr_tree_watch_lost(m->watch) || kr_tree_watch_doubt(m->watch))
        return max->here ? -EAGAIN : 1;
    heat_touched(m);
    for (size_t i = 0; i < m->now->count; i++)
        count += is_hot(&m->now->files[i], max->oldest_ns);
    if (max->here && count + kr_tree_watch_touched_count(m->watch) > HERE_MAX)
        return -EAGAIN;
    m->sync++;
    m->needs_walk = look_at_names(m, ws, max->oldest_ns) != 0;
    if (m->needs_walk)
        return max->here ? -EAGAIN : 1;
    kr_tree_watch_forget(m->watch);
    return 0;
}

int kr_mirror_sync(struct kr_mirror *m, int ws, const struct kr_mirror_max *max)
{
    int r = look(m, ws, max);

    if (r == 1)
        r = max->here ? walk_few(m, ws) : walk_all(m, ws, max);
    return r;
}

void kr_mirror_drain(struct kr_mirror *m)
{
    if (m->watch)
        (void)kr_tree_watch_drain(m->watch, HERE_BYTES);
}
