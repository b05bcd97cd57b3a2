/* Environments: reading the generation that counts, making the next one. See package_env.h.
 *
 *   env/pyvenv.cfg                     the same for every generation
 *   env/bin -> current/bin             so are lib, share, etc, include
 *   env/current -> gN                  renamed over when gN is complete and on the disk
 *   env/gN/krait.json                  what is installed
 *   env/gN/{bin,lib,share,etc,include}
 *   env/.new                           a generation being made
 *   env/own/KEY/                       wheels that were built for this sandbox
 *
 * The lock is flock() on the sandbox's folder, which its cells do not see: on a file of env/ they could take it. */
#include "package_env.h"
#include "err.h"
#include "fd.h"
#include "package_store_internal.h"
#include "package_tree.h"
#include "requirement.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_MS 30000u
#define NEW ".new"
#define OWN "own"
#define CURRENT "current"

static const char *const linked[] = {"bin", "etc", "include", "lib", "share"};

/* ---- generations ---- */

/* "g12" is 12; 0: not a generation. */
static uint32_t generation_number(const char *name)
{
    char *end = NULL;
    unsigned long n;

    if (name[0] != 'g' || name[1] < '1' || name[1] > '9' || strlen(name) > 10)
        return 0;
    n = strtoul(name + 1, &end, 10);
    return *end == '\0' ? (uint32_t)n : 0;
}

/* The generation that `current` leads to, 0: none yet; or -errno. */
static int64_t current_generation(int env)
{
    char name[16];
    ssize_t n = readlinkat(env, CURRENT, name, sizeof name - 1);

    if (n < 0)
        return errno == ENOENT ? 0 : -errno;
    name[n] = '\0';
    return generation_number(name) > 0 ? (int64_t)generation_number(name) : -EIO;
}

static int open_generation(int env, uint32_t number)
{
    char name[16];

    snprintf(name, sizeof name, "g%u", number);
    return kr_package_open_folder(env, name);
}

static int find_highest(int env, const char *name, void *data)
{
    uint32_t *highest = data, n = generation_number(name);

    (void)env;
    if (n > *highest)
        *highest = n;
    return 0;
}

/* ---- reading ---- */

/* What a list is behind the header: its texts belong to the tree. */
struct held_list {
    struct kr_package_list list;
    json_t *json;
};

static int read_item(const json_t *from, struct kr_package_item *to)
{
    const json_t *modules = json_object_get(from, "modules"), *module;
    const char **names;
    size_t i;

    to->name = json_string_value(json_object_get(from, "name"));
    to->version = json_string_value(json_object_get(from, "version"));
    to->key = json_string_value(json_object_get(from, "key"));
    to->sha256 = json_string_value(json_object_get(from, "sha256"));
    to->index = json_string_value(json_object_get(from, "index"));
    to->file = json_string_value(json_object_get(from, "file"));
    to->own = json_is_true(json_object_get(from, "own"));
    to->requested = json_is_true(json_object_get(from, "requested"));
    if (!to->name || !to->version || !to->key || !kr_package_key_valid(to->key) || !to->sha256 || !to->index ||
        !to->file)
        return -EIO;
    names = calloc(json_array_size(modules) + 1, sizeof *names);
    if (!names)
        return -ENOMEM;
    json_array_foreach(modules, i, module) if (json_is_string(module)) names[to->module_count++] =
        json_string_value(module);
    to->modules = names;
    return 0;
}

static int read_items(struct held_list *held)
{
    const json_t *items = json_object_get(held->json, "items"), *item;
    size_t i;
    int r = 0;

    if (!json_is_array(items) || json_array_size(items) > KR_PACKAGE_ITEMS_MAX)
        return -EIO;
    held->list.items = calloc(json_array_size(items) + 1, sizeof *held->list.items);
    if (!held->list.items)
        return -ENOMEM;
    json_array_foreach(items, i, item)
    {
        r = read_item(item, &held->list.items[i]);
        if (r < 0)
            return r;
        held->list.count++;
    }
    return 0;
}

static json_t *read_facts(int env, uint32_t number, int *ret_error)
{
    cleanup_fd int generation = open_generation(env, number);

    if (generation < 0) {
        *ret_error = generation;
        return NULL;
    }
    return kr_package_read_json(generation, KR_PACKAGE_FACTS, ret_error);
}

/* Reads the generation into *held, whose list is freed by the caller. 0 or -errno. */
static int read_generation(int folder, struct held_list *held)
{
    cleanup_fd int env = kr_package_open_folder(folder, "env");
    int r;

    if (env < 0)
        return env == -ENOENT ? 0 : env;
    for (int tries = 0; tries < 5; tries++) { /* one may go while it is read: two newer ones came meanwhile */
        int64_t number = current_generation(env);

        if (number <= 0)
            return (int)number;
        held->json = read_facts(env, (uint32_t)number, &r);
        if (held->json) {
            held->list.generation = (uint32_t)number;
            return read_items(held);
        }
        if (r != -ENOENT)
            return r;
    }
    return -EIO;
}

int kr_package_env_read(int folder, struct kr_package_list **ret_list, struct kr_err *err)
{
    struct held_list *held = calloc(1, sizeof *held);
    int r;

    if (!held)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "a list of packages");
    r = read_generation(folder, held);
    if (r < 0) {
        kr_package_list_free(&held->list);
        return kr_err_set_disk(err, r, "read the environment of a sandbox");
    }
    *ret_list = &held->list;
    return 0;
}

void kr_package_list_free(struct kr_package_list *list)
{
    struct held_list *held = (struct held_list *)list; /* its first member */

    if (!list)
        return;
    for (size_t i = 0; i < list->count; i++)
        free((void *)list->items[i].modules);
    free(list->items);
    json_decref(held->json);
    free(held);
}

const struct kr_package_item *kr_package_list_find(const struct kr_package_list *list, const char *canonical)
{
    for (size_t i = 0; i < list->count; i++) {
        char name[KR_REQ_NAME_ROOM];

        if (kr_requirement_canonical(list->items[i].name, strlen(list->items[i].name), name) &&
            strcmp(name, canonical) == 0)
            return &list->items[i];
    }
    return NULL;
}

/* ---- making ---- */

/* An item on its way into a generation. */
struct placed {
    const struct kr_package_item *item;
    char canonical[KR_REQ_NAME_ROOM];
    json_t *facts;
};

struct making {
    int folder, env, own;           /* own: -1 if there is none */
    struct kr_package_store *store; /* NULL: an empty generation */
    const struct kr_package_python *python;
    struct placed *items; /* in the caller's order */
    size_t count;
    bool syncs; /* not for an environment's first generation: it is empty, and made anew if a power failure broke it */
    struct kr_package_made *made;
    struct kr_err *err;
};

static int fail(struct making *m, int error)
{
    return kr_err_set_disk(m->err, error, "make an environment");
}

static int by_canonical(const void *a, const void *b)
{
    const struct placed *const *x = a, *const *y = b;

    return strcmp((*x)->canonical, (*y)->canonical);
}

static int load_item(struct making *m, const struct kr_package_item *item, struct placed *p)
{
    int r = -ENOENT;

    p->item = item;
    if (!kr_requirement_canonical(item->name, strlen(item->name), p->canonical))
        return kr_err_set(m->err, KR_ERR_INVALID, EINVAL, "%.100s is not the name of a distribution", item->name);
    if (item->own ? m->own >= 0 : m->store != NULL)
        p->facts = kr_package_load_facts(item->own ? m->own : m->store->store, item->key, &r);
    if (!p->facts)
        return kr_err_set(m->err, r == -ENOENT ? KR_ERR_NOT_FOUND : KR_ERR_SYSTEM, -r, "the unpacked wheel of %.100s",
                          item->name);
    return 0;
}

static int load_items(struct making *m, const struct kr_package_item *items)
{
    cleanup_free struct placed **order = calloc(m->count + 1, sizeof(void *));
    int r;

    if (!order)
        return fail(m, -ENOMEM);
    for (size_t i = 0; i < m->count; i++) {
        if ((r = load_item(m, &items[i], &m->items[i])) < 0)
            return r;
        order[i] = &m->items[i];
    }
    qsort(order, m->count, sizeof(void *), by_canonical);
    for (size_t i = 0; i + 1 < m->count; i++)
        if (strcmp(order[i]->canonical, order[i + 1]->canonical) == 0)
            return kr_err_set(m->err, KR_ERR_INVALID, EINVAL, "%.100s twice in an environment", order[i]->item->name);
    return 0;
}

static json_t *item_json(const struct placed *p)
{
    const struct kr_package_item *i = p->item;
    json_t *modules = json_object_get(p->facts, "modules");

    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:s, s:s, s:b, s:O}", "name", i->name, "version", i->version, "key",
                     i->key, "own", (int)i->own, "sha256", i->sha256 ? i->sha256 : "", "index",
                     i->index ? i->index : "", "file", i->file ? i->file : "", "requested", (int)i->requested,
                     "modules", modules ? modules : json_null());
}

static int write_items(struct making *m, int generation)
{
    cleanup_free struct placed **order = calloc(m->count + 1, sizeof(void *));
    json_t *items = json_array(), *all = json_pack("{s:s, s:o}", "python", m->python->version, "items", items);
    cleanup_free char *text = NULL;
    int r = order && all ? 0 : -ENOMEM;

    for (size_t i = 0; i < m->count && r == 0; i++)
        order[i] = &m->items[i];
    if (r == 0)
        qsort(order, m->count, sizeof(void *), by_canonical);
    for (size_t i = 0; i < m->count && r == 0; i++)
        r = json_array_append_new(items, item_json(order[i])) < 0 ? -ENOMEM : 0;
    if (r == 0 && !(text = json_dumps(all, JSON_COMPACT)))
        r = -ENOMEM;
    if (r == 0)
        r = strlen(text) > KR_PACKAGE_JSON_MAX
                ? -E2BIG
                : kr_package_write_file(generation, KR_PACKAGE_FACTS, text, strlen(text), m->syncs);
    json_decref(all);
    return r < 0 ? fail(m, r) : 0;
}

static int fill_generation(struct making *m, int generation)
{
    cleanup_free struct kr_package_source *sources = calloc(m->count + 1, sizeof *sources);
    int r;

    if (!sources)
        return fail(m, -ENOMEM);
    for (size_t i = 0; i < m->count; i++) {
        const struct kr_package_item *item = m->items[i].item;

        assert(item && (item->own || m->store));
        sources[i] = (struct kr_package_source){item->name, item->own ? m->own : m->store->store, item->key,
                                                item->own ? "/venv/" OWN : "/krait/packages",
                                                json_object_get(m->items[i].facts, "spread")};
    }
    if ((r = kr_package_tree_make(generation, m->python, sources, m->count, m->made, m->err)) < 0 ||
        (r = write_items(m, generation)) < 0)
        return r;
    return m->syncs && fsync(generation) < 0 ? fail(m, errno) : 0;
}

/* Writes a file of env/ anew unless it has this text. */
static int settle_file(int env, const char *name, const char *text, bool syncs)
{
    char is[512], temporary[64];
    ssize_t n = kr_fd_read_file_at(env, name, is, sizeof is);
    int r;

    if (n >= 0 && strcmp(is, text) == 0)
        return 0;
    snprintf(temporary, sizeof temporary, ".%s", name);
    unlinkat(env, temporary, 0);
    r = kr_package_write_file(env, temporary, text, strlen(text), syncs);
    return r < 0 ? r : renameat(env, temporary, env, name) < 0 ? -errno : 0;
}

/* Makes a link of env/ anew, by way of another name: there is no moment without it. */
static int settle_link(int env, const char *name, const char *target)
{
    char is[64], temporary[64];
    ssize_t n = readlinkat(env, name, is, sizeof is - 1);

    if (n >= 0 && (is[n] = '\0', strcmp(is, target) == 0))
        return 0;
    snprintf(temporary, sizeof temporary, ".%s", name);
    unlinkat(env, temporary, 0);
    if (symlinkat(target, env, temporary) < 0 || renameat(env, temporary, env, name) < 0)
        return -errno;
    return 0;
}

/* What env/ has beside generations. */
static int settle_env(struct making *m)
{
    char text[512], target[32];
    int r;

    snprintf(text, sizeof text, "home = %s\ninclude-system-site-packages = true\nversion = %s\n", m->python->home,
             m->python->version);
    r = settle_file(m->env, "pyvenv.cfg", text, m->syncs);
    for (size_t i = 0; i < sizeof linked / sizeof *linked && r == 0; i++) {
        snprintf(target, sizeof target, CURRENT "/%s", linked[i]);
        r = settle_link(m->env, linked[i], target);
    }
    return r < 0 ? fail(m, r) : 0;
}

/* .new becomes gN, then what counts. */
static int put_in_place(struct making *m)
{
    uint32_t number = 0;
    char name[16];
    int r = kr_package_each_name(m->env, find_highest, &number);

    if (r < 0 || number >= 999999999u)
        return fail(m, r < 0 ? r : -ERANGE);
    m->made->generation = ++number;
    snprintf(name, sizeof name, "g%u", number);
    if (renameat2(m->env, NEW, m->env, name, RENAME_NOREPLACE) < 0 || (m->syncs && fsync(m->env) < 0))
        return fail(m, errno);
    if ((r = settle_env(m)) < 0)
        return r;
    r = settle_link(m->env, CURRENT, name);
    return r < 0 || (m->syncs && fsync(m->env) < 0) ? fail(m, r < 0 ? r : -errno) : 0;
}

static int make_generation(struct making *m)
{
    cleanup_fd int generation = -1;
    int r = kr_package_remove(m->env, NEW); /* of a process that was killed: we have the lock */

    if (r < 0 || (r = generation = kr_package_make_folder(m->env, NEW, 0755)) < 0)
        return fail(m, r);
    r = fill_generation(m, generation);
    if (r == 0)
        r = put_in_place(m);
    if (r < 0)
        kr_package_remove(m->env, NEW);
    return r;
}

/* ---- what is not needed any more ---- */

struct leaving {
    uint32_t keep[2];
    const json_t *needed; /* object: keys of own folders */
};

static int drop_generation(int env, const char *name, void *data)
{
    const struct leaving *l = data;
    uint32_t n = generation_number(name);

    if (n > 0 && n != l->keep[0] && n != l->keep[1])
        kr_package_remove(env, name); /* what cannot be removed now goes with the next generation */
    return 0;
}

static int drop_own(int own, const char *name, void *data)
{
    const struct leaving *l = data;

    if (!json_object_get(l->needed, name))
        kr_package_remove(own, name);
    return 0;
}

/* Adds the own folders of a generation to the object. */
static int need_own(int env, uint32_t number, json_t *needed)
{
    int r;
    json_t *all = read_facts(env, number, &r), *item;
    size_t i;

    if (!all)
        return r == -ENOENT ? 0 : r;
    json_array_foreach(json_object_get(all, "items"), i, item) if (json_is_true(json_object_get(item, "own")))
        json_object_set_new(needed, json_string_value(json_object_get(item, "key")), json_true());
    json_decref(all);
    return 0;
}

/* Failing costs room, nothing else: it is tried again with the next generation. */
static void clear_old(struct making *m, uint32_t previous)
{
    json_t *needed = json_object();
    struct leaving l = {{m->made->generation, previous}, needed};

    if (m->own >= 0 && needed && need_own(m->env, l.keep[0], needed) == 0 &&
        (previous == 0 || need_own(m->env, previous, needed) == 0))
        kr_package_each_name(m->own, drop_own, &l);
    kr_package_each_name(m->env, drop_generation, &l);
    json_decref(needed);
}

/* ---- the whole ---- */

static int begin(struct making *m, int *ret_lock)
{
    cleanup_fd int lock = openat(m->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = lock < 0 ? -errno : kr_package_flock(lock, LOCK_EX, LOCK_MS);

    if (r == -ETIMEDOUT)
        return kr_err_set(m->err, KR_ERR_BUSY, EAGAIN, "another process works on the sandbox's environment");
    if (r == 0)
        r = m->env = kr_package_make_folder(m->folder, "env", 0755);
    if (r < 0)
        return fail(m, r);
    m->own = kr_package_open_folder(m->env, OWN);
    *ret_lock = steal_fd(&lock);
    return 0;
}

/* What a power failure has left of an empty generation, which was not synced. */
static bool is_broken(const struct making *m, uint32_t number)
{
    char path[48];
    struct stat st;

    snprintf(path, sizeof path, "g%u/" KR_PACKAGE_FACTS, number);
    return fstatat(m->env, path, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno == ENOENT : st.st_size == 0;
}

static int make_of(struct making *m, const struct kr_package_item *items, int64_t based_on)
{
    cleanup_fd int lock = -1, store_lock = -1;
    int64_t is;
    int r = begin(m, &lock);

    if (r < 0)
        return r;
    is = current_generation(m->env);
    if (is < 0)
        return fail(m, (int)is);
    if (based_on < 0 && is > 0 && !is_broken(m, (uint32_t)is)) /* only if there is none */
        return settle_env(m);
    if (based_on >= 0 && is != based_on)
        return kr_err_set(m->err, KR_ERR_CONFLICT, ESTALE, "the sandbox's packages have changed meanwhile");
    if (m->store && (store_lock = kr_package_store_lock(m->store, LOCK_SH)) < 0)
        return fail(m, store_lock);
    if ((r = load_items(m, items)) < 0 || (r = make_generation(m)) < 0)
        return r;
    clear_old(m, (uint32_t)is);
    return 0;
}

static int make_env(int folder, struct kr_package_store *store, const struct kr_package_python *python,
                    const struct kr_package_item *items, size_t count, int64_t based_on,
                    struct kr_package_made *ret_made, struct kr_err *err)
{
    cleanup_free struct placed *placed = calloc(count + 1, sizeof *placed);
    struct kr_package_made made = {0};
    struct making m = {.folder = folder,
                       .env = -1,
                       .own = -1,
                       .store = store,
                       .python = python,
                       .items = placed,
                       .count = count,
                       .syncs = based_on >= 0,
                       .made = &made,
                       .err = err};
    int r = placed ? make_of(&m, items, based_on) : fail(&m, -ENOMEM);

    for (size_t i = 0; placed && i < count; i++)
        json_decref(placed[i].facts);
    kr_fd_close(m.own);
    kr_fd_close(m.env);
    if (r == 0)
        *ret_made = made;
    return r;
}

int kr_package_env_ensure(int folder, const struct kr_package_python *python, struct kr_err *err)
{
    struct kr_package_made made;

    return make_env(folder, NULL, python, NULL, 0, -1, &made, err);
}

int kr_package_env_make(int folder, struct kr_package_store *store, const struct kr_package_python *python,
                        const struct kr_package_item *items, size_t count, uint32_t based_on,
                        struct kr_package_made *ret_made, struct kr_err *err)
{
    if (count > KR_PACKAGE_ITEMS_MAX) {
        kr_err_set(err, KR_ERR_LIMIT, 0, "%zu packages in an environment, and %u are taken", count,
                   KR_PACKAGE_ITEMS_MAX);
        return -E2BIG;
    }
    return make_env(folder, store, python, items, count, based_on, ret_made, err);
}
