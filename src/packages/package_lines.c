/* Lists of packages for people: `pip list`'s columns, `pip freeze`'s lines. Called by the voices. Pure.
 *
 * Weak: package_env.c takes these over with the rest of package_env.h. */
#include "package_env.h"
#include "buf.h"
#include "requirement.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WEAK __attribute__((weak))

struct line {
    const char *name, *version;
    char canonical[KR_REQ_NAME_ROOM];
};

static void set_line(struct line *line, const char *name, const char *version)
{
    line->name = name;
    line->version = version;
    if (!kr_requirement_canonical(name, strlen(name), line->canonical))
        line->canonical[0] = '\0';
}

WEAK const struct kr_package_item *kr_package_list_find(const struct kr_package_list *list, const char *canonical)
{
    char name[KR_REQ_NAME_ROOM];

    for (size_t i = 0; i < list->count; i++)
        if (kr_requirement_canonical(list->items[i].name, strlen(list->items[i].name), name) &&
            strcmp(name, canonical) == 0)
            return &list->items[i];
    return NULL;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->canonical, ((const struct line *)b)->canonical);
}

/* By canonical name; a package of the system is hidden by the environment's. NULL: no memory. */
static struct line *merge_lines(const struct kr_package_list *list, const struct kr_package_system *system,
                                size_t system_count, size_t *ret_count)
{
    struct line *lines = calloc(list->count + system_count + 1, sizeof *lines);
    size_t n = 0;

    if (!lines)
        return NULL;
    for (size_t i = 0; i < list->count; i++)
        set_line(&lines[n++], list->items[i].name, list->items[i].version);
    for (size_t i = 0; i < system_count; i++) {
        set_line(&lines[n], system[i].name, system[i].version);
        n += !kr_package_list_find(list, lines[n].canonical);
    }
    qsort(lines, n, sizeof *lines, compare_lines);
    *ret_count = n;
    return lines;
}

static void add_rule(struct kr_buf *out, size_t width)
{
    for (size_t i = 0; i < width; i++)
        kr_buf_add_str(out, "-");
}

WEAK int kr_package_list_columns(const struct kr_package_list *list, const struct kr_package_system *system,
                                 size_t system_count, struct kr_buf *out)
{
    size_t n, name_width = strlen("Package"), version_width = strlen("Version");
    struct line *lines = merge_lines(list, system, system_count, &n);

    if (!lines)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        name_width = strlen(lines[i].name) > name_width ? strlen(lines[i].name) : name_width;
        version_width = strlen(lines[i].version) > version_width ? strlen(lines[i].version) : version_width;
    }
    if (n > 0) {
        kr_buf_printf(out, "%-*s Version\n", (int)name_width, "Package");
        add_rule(out, name_width);
        kr_buf_add_str(out, " ");
        add_rule(out, version_width);
        kr_buf_add_str(out, "\n");
    }
    for (size_t i = 0; i < n; i++)
        kr_buf_printf(out, "%-*s %s\n", (int)name_width, lines[i].name, lines[i].version);
    free(lines);
    return out->failed ? -ENOMEM : 0;
}

WEAK int kr_package_list_freeze(const struct kr_package_list *list, const struct kr_package_system *system,
                                size_t system_count, struct kr_buf *out)
{
    size_t n;
    struct line *lines = merge_lines(list, system, system_count, &n);

    if (!lines)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        kr_buf_printf(out, "%s==%s\n", lines[i].name, lines[i].version);
    free(lines);
    return out->failed ? -ENOMEM : 0;
}
