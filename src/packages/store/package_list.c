/* Lists of packages as pip prints them. See package_env.h. */
#include "buf.h"
#include "package_env.h"
#include "requirement.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct line {
    const char *name, *version;
    char canonical[KR_REQ_NAME_ROOM];
};

struct lines {
    struct line *items;
    size_t count;
};

static int by_canonical(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->canonical, ((const struct line *)b)->canonical);
}

static void add_line(struct lines *all, const char *name, const char *version)
{
    struct line *l = &all->items[all->count];

    l->name = name;
    l->version = version;
    if (kr_requirement_canonical(name, strlen(name), l->canonical))
        all->count++;
}

/* Both lists in one order; of a name that both have, the environment's. The caller frees items. */
static int merge(const struct kr_package_list *list, const struct kr_package_system *system, size_t system_count,
                 struct lines *ret_lines)
{
    struct lines all = {calloc(list->count + system_count + 1, sizeof *all.items), 0};
    size_t own;

    if (!all.items)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++)
        add_line(&all, list->items[i].name, list->items[i].version);
    own = all.count;
    qsort(all.items, own, sizeof *all.items, by_canonical);
    for (size_t i = 0; i < system_count; i++) {
        size_t before = all.count;

        add_line(&all, system[i].name, system[i].version);
        if (all.count > before && bsearch(&all.items[before], all.items, own, sizeof *all.items, by_canonical))
            all.count = before;
    }
    qsort(all.items, all.count, sizeof *all.items, by_canonical);
    *ret_lines = all;
    return 0;
}

static void add_dashes(struct kr_buf *out, size_t count)
{
    while (count-- > 0)
        kr_buf_add_str(out, "-");
}

int kr_package_list_columns(const struct kr_package_list *list, const struct kr_package_system *system,
                            size_t system_count, struct kr_buf *out)
{
    size_t name = strlen("Package"), version = strlen("Version");
    struct lines all;
    int r = merge(list, system, system_count, &all);

    if (r < 0)
        return r;
    for (size_t i = 0; i < all.count; i++) {
        if (strlen(all.items[i].name) > name)
            name = strlen(all.items[i].name);
        if (strlen(all.items[i].version) > version)
            version = strlen(all.items[i].version);
    }
    if (all.count > 0) { /* pip prints nothing for an empty list */
        kr_buf_printf(out, "%-*s Version\n", (int)name, "Package");
        add_dashes(out, name);
        kr_buf_add_str(out, " ");
        add_dashes(out, version);
        kr_buf_add_str(out, "\n");
    }
    for (size_t i = 0; i < all.count; i++)
        kr_buf_printf(out, "%-*s %s\n", (int)name, all.items[i].name, all.items[i].version);
    free(all.items);
    return out->failed;
}

/* pip's own tools are not what a program needs: pip leaves them out, too. */
static bool is_tool(const char *canonical)
{
    return strcmp(canonical, "pip") == 0 || strcmp(canonical, "setuptools") == 0 || strcmp(canonical, "wheel") == 0 ||
           strcmp(canonical, "distribute") == 0;
}

int kr_package_list_freeze(const struct kr_package_list *list, const struct kr_package_system *system,
                           size_t system_count, struct kr_buf *out)
{
    struct lines all;
    int r = merge(list, system, system_count, &all);

    if (r < 0)
        return r;
    for (size_t i = 0; i < all.count; i++)
        if (!is_tool(all.items[i].canonical))
            kr_buf_printf(out, "%s==%s\n", all.items[i].name, all.items[i].version);
    free(all.items);
    return out->failed;
}
