/* A generation's folders and links. See package_tree.h. */
#include "package_tree.h"
#include "err.h"
#include "fd.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_MAX 1000000u /* names of one folder */
#define LINKS_MAX 1000000u   /* of a generation */
#define PATH_ROOM 2048u      /* a wheel's paths have at most 1024 bytes */
#define POINTS 5u
#define PIP_OF_CELLS "/krait/pip_command.py" /* what `python -m pip` is: a request to the server */

/* A folder that every generation has; `part` is that of a wheel which is put there. */
struct point {
    char path[64];
    const char *part; /* NULL: only what data/ brings */
};

struct tree {
    const struct kr_package_source *sources;
    size_t count;
    struct point points[POINTS];
    char bin_names[3][24]; /* in bin: ours */
    struct kr_package_made *made;
    struct kr_err *err;
};

/* A folder of a wheel that a folder of the generation is made of. */
struct layer {
    const struct kr_package_source *source;
    char path[PATH_ROOM]; /* below KEY: "site/numpy" */
};

struct entry {
    char *name;
    size_t layer;
    bool folder;
};

struct entries {
    struct entry *items;
    size_t count, room;
};

static int fail(struct tree *t, int error)
{
    return kr_err_set_disk(t->err, error, "make an environment");
}

static int add_entry(struct entries *all, const char *name, size_t layer, bool folder)
{
    char *copy;

    if (all->count >= ENTRIES_MAX)
        return -E2BIG;
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct entry *items = realloc(all->items, room * sizeof *items);

        if (!items)
            return -ENOMEM;
        all->items = items;
        all->room = room;
    }
    if (!(copy = strdup(name)))
        return -ENOMEM;
    all->items[all->count++] = (struct entry){copy, layer, folder};
    return 0;
}

static void free_entries(struct entries *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].name);
    free(all->items);
}

static int by_name(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    int r = strcmp(x->name, y->name);

    return r ? r : (x->layer > y->layer) - (x->layer < y->layer);
}

/* ---- what stands where ---- */

/* Does the path lie on the way to `below`, or is it that? */
static bool leads_to(const char *path, const char *below)
{
    size_t len = strlen(path);

    return len == 0 || (strncmp(path, below, len) == 0 && (below[len] == '/' || below[len] == '\0'));
}

static bool is_fixed(const struct tree *t, const char *path)
{
    for (size_t i = 0; i < POINTS; i++)
        if (leads_to(path, t->points[i].path))
            return true;
    return false;
}

/* Names that a wheel may not take. */
static bool is_reserved(const struct tree *t, const char *folder, const char *name)
{
    if (strcmp(folder, t->points[3].path) == 0)
        return strcmp(name, "pip") == 0 || strcmp(name, "pip.py") == 0;
    if (folder[0] == '\0')
        return strcmp(name, KR_PACKAGE_FACTS) == 0 || strcmp(name, "pyvenv.cfg") == 0;
    for (size_t i = 0; i < 3 && strcmp(folder, "bin") == 0; i++)
        if (strcmp(name, t->bin_names[i]) == 0)
            return true;
    return false;
}

/* Must this folder of a single wheel be made, for a library in it or below that looks beside its wheel? */
static bool is_spread(const struct layer *l, const char *name)
{
    char path[PATH_ROOM + 256];
    const json_t *one;
    size_t i;

    assert(l->source);
    if (json_array_size(l->source->spread) == 0 || strncmp(l->path, "site", 4) != 0)
        return false;
    snprintf(path, sizeof path, "%s%s%s", l->path[4] ? l->path + 5 : "", l->path[4] ? "/" : "", name);
    json_array_foreach(l->source->spread, i,
                       one) if (json_is_string(one) && leads_to(path, json_string_value(one))) return true;
    return false;
}

/* ---- reading ---- */

/* The names of one layer. */
static int list_layer(struct tree *t, const struct layer *l, size_t index, const char *folder, struct entries *all)
{
    char path[PATH_ROOM + KR_PACKAGE_KEY_ROOM + 2];
    struct dirent *e;
    int fd, r = 0;
    DIR *d;

    snprintf(path, sizeof path, "%s/%s", l->source->key, l->path);
    fd = kr_package_open_folder(l->source->base, path);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd; /* a wheel without commands, or data */
    d = fdopendir(fd);
    if (!d) {
        r = -errno;
        close(fd);
        return r;
    }
    while (r == 0 && (errno = 0, e = readdir(d))) {
        struct stat st;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_reserved(t, folder, e->d_name))
            continue;
        if (e->d_type != DT_UNKNOWN)
            r = add_entry(all, e->d_name, index, e->d_type == DT_DIR);
        else if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            r = -errno;
        else
            r = add_entry(all, e->d_name, index, S_ISDIR(st.st_mode));
    }
    if (r == 0 && errno != 0)
        r = -errno;
    closedir(d);
    return r;
}

/* The next part of each fixed folder below this one: with the layer behind all, as a folder of no wheel. */
static int list_fixed(const struct tree *t, const char *folder, size_t layer, struct entries *all)
{
    size_t len = strlen(folder);
    int r = 0;

    for (size_t i = 0; i < POINTS && r == 0; i++) {
        const char *rest = t->points[i].path + len + (len > 0);
        char name[64];

        if (!leads_to(folder, t->points[i].path) || t->points[i].path[len] == '\0')
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(rest, "/"), rest);
        r = add_entry(all, name, layer, true);
    }
    return r;
}

/* ---- making ---- */

static void note(struct tree *t, const char *folder, const char *name, const struct layer *lost,
                 const struct layer *won)
{
    size_t len = strlen(t->made->notes), room = sizeof t->made->notes - len;
    int n;

    assert(lost->source && won->source);
    n = snprintf(t->made->notes + len, room, "%s and %s have %.300s/%.255s; that of %s is used\n", lost->source->name,
                 won->source->name, folder, name, won->source->name);

    if (n < 0 || (size_t)n >= room)
        t->made->notes[len] = '\0'; /* whole lines, as many as fit */
}

static int make_link(struct tree *t, int fd, const struct layer *l, const char *name)
{
    char target[PATH_ROOM + 400];

    assert(l->source);
    if (t->made->links >= LINKS_MAX)
        return fail(t, -E2BIG);
    snprintf(target, sizeof target, "%s/%s/%s/%s", l->source->at, l->source->key, l->path, name);
    if (symlinkat(target, fd, name) < 0)
        return fail(t, errno);
    t->made->links++;
    return 0;
}

static int fill_folder(struct tree *t, int fd, const char *folder, const struct layer *layers, size_t count);

/* A folder of ours, of these entries (all of one name; those that are folders count) and what belongs there always. */
static int make_folder(struct tree *t, int parent, const char *path, const struct layer *layers,
                       const struct entry *entries, size_t count)
{
    cleanup_free struct layer *below = calloc(count + t->count, sizeof *below);
    cleanup_fd int fd = -1;
    size_t n = 0;
    int r;

    if (!below)
        return fail(t, -ENOMEM);
    for (size_t i = 0; i < POINTS; i++)
        for (size_t k = 0; k < t->count && t->points[i].part && strcmp(path, t->points[i].path) == 0; k++) {
            below[n].source = &t->sources[k];
            snprintf(below[n++].path, PATH_ROOM, "%s", t->points[i].part);
        }
    for (size_t i = 0; i < count; i++)
        if (entries[i].folder && entries[i].layer != SIZE_MAX) {
            const struct layer *l = &layers[entries[i].layer];

            below[n].source = l->source;
            if (snprintf(below[n++].path, PATH_ROOM, "%s/%s", l->path, entries[i].name) >= (int)PATH_ROOM)
                return fail(t, -ENAMETOOLONG);
        }
    fd = kr_package_make_folder(parent, entries[0].name, 0755);
    if (fd < 0)
        return fail(t, fd);
    t->made->folders++;
    r = fill_folder(t, fd, path, below, n);
    if (r == 0 && strcmp(path, t->points[3].path) == 0 && symlinkat(PIP_OF_CELLS, fd, "pip.py") < 0)
        return fail(t, errno);
    return r == 0 && t->count > 0 && fsync(fd) < 0 ? fail(t, errno) : r; /* an empty one can be made anew */
}

/* What one name of a folder becomes: `count` entries, in order of the wheels. */
static int make_name(struct tree *t, int fd, const char *folder, const struct layer *layers,
                     const struct entry *entries, size_t count)
{
    const struct entry *last = &entries[count - 1];
    char path[PATH_ROOM];
    bool folders = true;

    if (snprintf(path, sizeof path, "%s%s%s", folder, folder[0] ? "/" : "", last->name) >= (int)sizeof path)
        return fail(t, -ENAMETOOLONG);
    for (size_t i = 0; i < count; i++)
        folders = folders && entries[i].folder;
    if (is_fixed(t, path) || (folders && (count > 1 || is_spread(&layers[last->layer], last->name))))
        return make_folder(t, fd, path, layers, entries, count);
    for (size_t i = 0; i + 1 < count; i++)
        note(t, folder, last->name, &layers[entries[i].layer], &layers[last->layer]);
    return make_link(t, fd, &layers[last->layer], last->name);
}

static int fill_folder(struct tree *t, int fd, const char *folder, const struct layer *layers, size_t count)
{
    struct entries all = {0};
    int r = list_fixed(t, folder, SIZE_MAX, &all);

    for (size_t i = 0; i < count && r == 0; i++)
        r = list_layer(t, &layers[i], i, folder, &all);
    if (r < 0)
        fail(t, r);
    else if (all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, by_name);
    for (size_t i = 0, n; i < all.count && r == 0; i += n) {
        for (n = 1; i + n < all.count && strcmp(all.items[i].name, all.items[i + n].name) == 0; n++)
            continue;
        r = make_name(t, fd, folder, layers, &all.items[i], n);
    }
    free_entries(&all);
    return r;
}

/* ---- the whole ---- */

/* bin/python and its two other names. */
static int make_interpreter(struct tree *t, int generation, const struct kr_package_python *python)
{
    cleanup_fd int bin = kr_package_make_folder(generation, "bin", 0755);

    if (bin < 0)
        return fail(t, bin);
    for (size_t i = 0; i < 3; i++)
        if (symlinkat(i == 0 ? python->link : t->bin_names[0], bin, t->bin_names[i]) < 0)
            return fail(t, errno);
    return 0;
}

int kr_package_tree_make(int generation, const struct kr_package_python *python,
                         const struct kr_package_source *sources, size_t count, struct kr_package_made *made,
                         struct kr_err *err)
{
    struct tree t = {.sources = sources, .count = count, .made = made, .err = err};
    cleanup_free struct layer *layers = calloc(count + 1, sizeof *layers);
    unsigned major, minor;
    int r;

    if (!layers)
        return fail(&t, -ENOMEM);
    if (sscanf(python->version, "%2u.%3u", &major, &minor) != 2)
        return kr_err_set(err, KR_ERR_INTERNAL, EINVAL, "Python's version %.20s", python->version);
    t.points[0] = (struct point){"bin", "bin"};
    t.points[1] = (struct point){"etc", NULL};
    snprintf(t.points[2].path, sizeof t.points[2].path, "include/site/python%u.%u", major, minor);
    t.points[2].part = "headers";
    snprintf(t.points[3].path, sizeof t.points[3].path, "lib/python%u.%u/site-packages", major, minor);
    t.points[3].part = "site";
    t.points[4] = (struct point){"share", NULL};
    snprintf(t.bin_names[0], sizeof t.bin_names[0], "python");
    snprintf(t.bin_names[1], sizeof t.bin_names[1], "python3");
    snprintf(t.bin_names[2], sizeof t.bin_names[2], "python%u.%u", major, minor);
    for (size_t i = 0; i < count; i++) {
        layers[i].source = &sources[i];
        snprintf(layers[i].path, sizeof layers[i].path, "data");
    }
    if ((r = make_interpreter(&t, generation, python)) < 0)
        return r;
    return fill_folder(&t, generation, "", layers, count);
}
