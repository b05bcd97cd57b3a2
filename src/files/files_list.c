/* Lists of a folder and how much is in it.
 *
 * Called on the thread pool. Invariant: memory is that of one page, whatever the size of the folder: the walk keeps the
 * `limit` smallest entries behind `after` in a heap whose top is the largest. The order is that of the parts of a path
 * compared as bytes, which is the same as comparing whole paths with '/' below every other byte. */
#include "fd.h"
#include "files_internal.h"
#include "measure.h"
#include "walk.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_DEFAULT 1000u
#define LIMIT_MAX 10000u
#define ENTRIES_DEFAULT 200000u

struct listing {
    const struct kr_files_list_spec *spec;
    const char *prefix, *after; /* both relative to the workspace */
    size_t limit, room;
    struct kr_files_list *list; /* entries are a heap while we walk */
    char path[KR_FILES_PATH_MAX];
    bool too_long, out_of_memory;
};

/* < 0, 0, > 0 as strcmp(3), with '/' below all other bytes. */
static int compare_paths(const char *a, const char *b)
{
    int x, y;
    while (*a && *a == *b) {
        a++;
        b++;
    }
    x = *a == '/' ? 1 : *a ? (unsigned char)*a + 1 : 0;
    y = *b == '/' ? 1 : *b ? (unsigned char)*b + 1 : 0;
    return x - y;
}

static int compare_entries(const void *a, const void *b)
{
    return compare_paths(((const struct kr_files_entry *)a)->path, ((const struct kr_files_entry *)b)->path);
}

static void swap(struct kr_files_entry *a, struct kr_files_entry *b)
{
    struct kr_files_entry t = *a;

    *a = *b;
    *b = t;
}

static void sift_up(struct kr_files_entry *heap, size_t i)
{
    while (i > 0 && compare_entries(&heap[i], &heap[(i - 1) / 2]) > 0) {
        swap(&heap[i], &heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static void sift_down(struct kr_files_entry *heap, size_t count)
{
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= count)
            return;
        if (child + 1 < count && compare_entries(&heap[child + 1], &heap[child]) > 0)
            child++;
        if (compare_entries(&heap[child], &heap[i]) <= 0)
            return;
        swap(&heap[i], &heap[child]);
        i = child;
    }
}

/* True if the new entry belongs to the page. */
static bool make_room_in_page(struct listing *g)
{
    struct kr_files_list *list = g->list;

    if (list->count == g->room) {
        size_t room = g->room ? g->room * 2 : 64;
        void *grown = reallocarray(list->entries, room, sizeof *list->entries);

        if (!grown)
            return false;
        list->entries = grown;
        g->room = room;
    }
    return true;
}

static bool keep_entry(struct listing *g, const struct stat *st)
{
    struct kr_files_list *list = g->list;
    struct kr_files_entry e = {.path = NULL};

    if (list->count == g->limit) {
        list->more = true;
        if (compare_paths(g->path, list->entries[0].path) >= 0)
            return true;
    } else if (!make_room_in_page(g)) {
        return false;
    }
    e.path = strdup(g->path);
    if (!e.path)
        return false;
    kr_files_info_of(st, &e.info);
    if (list->count == g->limit) {
        free(list->entries[0].path);
        list->entries[0] = e;
        sift_down(list->entries, list->count);
    } else {
        list->entries[list->count] = e;
        sift_up(list->entries, list->count++);
    }
    return true;
}

/* Whether anything beneath the folder g->path can be on this page. */
static bool worth_entering(const struct listing *g)
{
    size_t len = strlen(g->path);

    /* All of it is before `after`, unless `after` is within. */
    if (g->after && compare_paths(g->path, g->after) < 0)
        return strncmp(g->after, g->path, len) == 0 && g->after[len] == '/';
    /* The last of a full page is entered too: what is in it makes another page. */
    return g->list->count < g->limit || compare_paths(g->path, g->list->entries[0].path) <= 0;
}

static enum kr_walk_do on_listed(void *arg, const struct kr_walk_entry *e)
{
    struct listing *g = arg;
    size_t prefix = strlen(g->prefix), slash = prefix > 0;

    if (prefix + slash + e->path_len >= sizeof g->path) {
        g->too_long = true;
        return KR_WALK_PASS;
    }
    memcpy(g->path, g->prefix, prefix);
    if (slash)
        g->path[prefix] = '/';
    memcpy(g->path + prefix + slash, e->path, e->path_len);
    g->path[prefix + slash + e->path_len] = '\0';
    if (strncmp(g->path, KR_FILES_TEMP, strlen(KR_FILES_TEMP)) == 0 && S_ISREG(e->st->st_mode))
        return KR_WALK_PASS;
    if ((!g->after || compare_paths(g->path, g->after) > 0) && !keep_entry(g, e->st)) {
        g->out_of_memory = true;
        return KR_WALK_STOP;
    }
    if (!g->spec->recursive || (g->spec->depth > 0 && e->depth >= g->spec->depth))
        return KR_WALK_PASS;
    return worth_entering(g) ? KR_WALK_ON : KR_WALK_PASS;
}

static int list_folder(int fd, struct listing *g)
{
    const struct kr_files_list_spec *spec = g->spec;
    struct kr_walk_max max = {.entries = spec->entries_max ? spec->entries_max : ENTRIES_DEFAULT,
                              .deadline_ns = spec->deadline_ns};
    struct kr_walk_result seen;
    int r = kr_walk(fd, &max, on_listed, g, &seen);

    if (r == 0 && g->out_of_memory)
        r = -ENOMEM;
    if (r < 0)
        return r;
    g->list->incomplete = !kr_walk_complete(&seen) || g->too_long;
    if (g->list->count > 0)
        qsort(g->list->entries, g->list->count, sizeof *g->list->entries, compare_entries);
    return 0;
}

int kr_files_list(int ws, const char *path, const struct kr_files_list_spec *spec, struct kr_files_list *ret,
                  struct kr_err *err)
{
    char prefix[KR_FILES_PATH_MAX], after[KR_FILES_PATH_MAX];
    struct kr_files_list list = {.entries = NULL};
    struct listing g = {.spec = spec, .prefix = prefix, .list = &list};
    cleanup_fd int fd = -1;
    int r = kr_files_path(path, prefix, err);

    if (r == 0 && spec->after)
        r = kr_files_path(spec->after, after, err);
    if (r < 0)
        return r;
    g.after = spec->after ? after : NULL;
    g.limit = spec->limit == 0 ? LIMIT_DEFAULT : spec->limit > LIMIT_MAX ? LIMIT_MAX : spec->limit;
    fd = kr_files_at(ws, prefix, O_PATH | O_DIRECTORY, 0);
    r = fd < 0 ? fd : list_folder(fd, &g);
    if (r < 0) {
        kr_files_list_done(&list);
        return kr_files_fail(err, r, path);
    }
    *ret = list;
    return 0;
}

void kr_files_list_done(struct kr_files_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->entries[i].path);
    free(list->entries);
    *list = (struct kr_files_list){.entries = NULL};
}

/* ---- usage ---- */

int kr_files_usage(int ws, const char *path, const struct kr_measure_max *max, struct kr_measure *ret,
                   struct kr_err *err)
{
    const struct kr_measure_max usual = {0};
    char relative[KR_FILES_PATH_MAX];
    cleanup_fd int fd = -1;
    int r = kr_files_path(path, relative, err);

    if (r < 0)
        return r;
    fd = kr_files_at(ws, relative, O_PATH | O_DIRECTORY, 0);
    r = fd < 0 ? fd : kr_measure(fd, max ? max : &usual, ret);
    return r < 0 ? kr_files_fail(err, r, path) : 0;
}
