/* What is said of an import that found nothing. See import_name.h.
 *
 * Invariants: a session's words are read by a grammar (letters, digits, underscores, dots), so that nothing else of
 * them reaches a line; a name is recommended only if it may be installed. */
#include "import_name.h"
#include "package_rules.h"
#include "package_rules_internal.h"
#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *key, const void *row)
{
    return strcmp(key, ((const struct kr_import_row *)row)->module);
}

static const char *find_row(const char *module, const struct kr_import_row *rows, size_t count)
{
    const struct kr_import_row *row = bsearch(module, rows, count, sizeof *rows, compare);

    return row ? row->other : NULL;
}

/* The distribution of a module by the table, the longest part of a dotted name first; NULL: not in it. */
static const char *find_distribution(const char *module)
{
    char name[KR_IMPORT_MODULE_ROOM];
    const char *found;
    char *dot;

    if ((size_t)snprintf(name, sizeof name, "%s", module) >= sizeof name)
        return NULL;
    while (!(found = find_row(name, kr_import_rows, kr_import_rows_count)) && (dot = strrchr(name, '.')))
        *dot = '\0';
    return found;
}

/* Distributions of the table that have a module of their own name, too. */
static bool has_own_module(const char *canonical)
{
    static const char *const names[] = {"cython", "future",  "lightning",  "matplotlib", "moviepy",  "peewee",
                                        "pydot",  "pymongo", "setuptools", "toolz",      "zstandard"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(canonical, names[i]) == 0)
            return true;
    return false;
}

/* The module that a distribution of the table is imported as, by its canonical name; NULL: not in it, or imported by
 * its own name. */
static const char *find_module_of(const char *canonical)
{
    char name[KR_REQ_NAME_ROOM];

    if (has_own_module(canonical))
        return NULL;

    for (size_t i = 0; i < kr_import_rows_count; i++)
        if (kr_requirement_canonical(kr_import_rows[i].other, strlen(kr_import_rows[i].other), name) &&
            strcmp(name, canonical) == 0)
            return kr_import_rows[i].module;
    return NULL;
}

/* ---- what a session sends ---- */

static bool is_module(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= KR_IMPORT_MODULE_MAX && !isdigit((unsigned char)text[0]) && text[0] != '.' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == len;
}

/* "numpy,pandas" as "numpy, pandas". False: something else is in it, or it is too long. */
static bool read_there(char *text, struct kr_import_miss *miss)
{
    size_t len = 0;
    char *rest = NULL;

    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        int n =
            is_module(one) ? snprintf(miss->there + len, sizeof miss->there - len, "%s%s", len ? ", " : "", one) : -1;
        if (n < 0 || (size_t)n >= sizeof miss->there - len)
            return false;
        len += (size_t)n;
    }
    return true;
}

bool kr_import_miss_read(const char *text, struct kr_import_miss *ret_miss)
{
    char line[512], *rest = NULL, *word, *module, *near, *there;
    struct kr_import_miss miss = {0};

    if ((size_t)snprintf(line, sizeof line, "%s", text) >= sizeof line)
        return false;
    word = strtok_r(line, " ", &rest);
    module = strtok_r(NULL, " ", &rest);
    if (!word || !module || !is_module(module))
        return false;
    miss.standard = strcmp(word, "standard") == 0;
    if (!miss.standard && strcmp(word, "module") != 0)
        return false;
    near = strtok_r(NULL, " ", &rest);
    there = strtok_r(NULL, " ", &rest);
    if ((near == NULL) != miss.standard || (there == NULL) != miss.standard || strtok_r(NULL, " ", &rest))
        return false;
    snprintf(miss.module, sizeof miss.module, "%s", module);
    if (near && strcmp(near, "-") != 0) {
        if (!is_module(near))
            return false;
        snprintf(miss.near, sizeof miss.near, "%s", near);
    }
    if (there && strcmp(there, "-") != 0 && !read_there(there, &miss))
        return false;
    *ret_miss = miss;
    return true;
}

/* ---- what is said ---- */

static bool is_blocked(const char *name, const struct kr_words *blocked)
{
    struct kr_package_rules rules = {.blocked = *blocked};
    struct kr_package_judgement judged;

    kr_package_judge_name(&rules, name, &judged);
    return judged.verdict != KR_PACKAGE_FINE;
}

/* The name that it would be published under: by the table, else its own. False: it can be none. */
static bool name_of(const char *module, char ret_name[KR_REQ_NAME_ROOM], bool *ret_known)
{
    const char *found = find_distribution(module);
    char canonical[KR_REQ_NAME_ROOM];

    *ret_known = true;
    if (found) {
        snprintf(ret_name, KR_REQ_NAME_ROOM, "%s", found);
        return true;
    }
    if (strchr(module, '.') || !kr_requirement_canonical(module, strlen(module), canonical))
        return false;
    *ret_known = kr_package_is_popular(canonical);
    snprintf(ret_name, KR_REQ_NAME_ROOM, "%s", canonical);
    return true;
}

/* The call with the name in its place. */
static void write_call(const char *call, const char *name, char *buf, size_t size)
{
    const char *at = strstr(call, KR_IMPORT_NAME);

    if (at)
        snprintf(buf, size, "%.*s%s%s", (int)(at - call), call, name, at + strlen(KR_IMPORT_NAME));
    else
        snprintf(buf, size, "%s", call);
}

static void say_missing(const struct kr_import_miss *miss, const struct kr_import_rules *rules, const char *name,
                        bool known, char *buf, size_t size)
{
    const char *like = known ? NULL : kr_package_lookalike(name);
    char what[2 * KR_REQ_NAME_ROOM + 32], call[512];

    if (!find_distribution(miss->module))
        snprintf(what, sizeof what, "module %s", miss->module);
    else
        snprintf(what, sizeof what, "module %s (package %s)", miss->module, name);
    if (!rules->call) {
        snprintf(buf, size,
                 "%s is not installed, and packages cannot be installed here; `pip list` names those that are "
                 "there%s%s%s",
                 what, miss->there[0] ? ": " : "", miss->there, miss->there[0] ? " …" : "");
        return;
    }
    if (is_blocked(name, &rules->blocked)) {
        snprintf(buf, size, "%s is not installed, and this server does not allow it to be installed", what);
        return;
    }
    write_call(rules->call, like ? like : name, call, sizeof call);
    if (like)
        snprintf(buf, size, "there is no module %s; did you mean %s? %s installs that", miss->module, like, call);
    else if (known)
        snprintf(buf, size, "%s is not installed: %s", what, call);
    else
        snprintf(buf, size, "%s is not installed; if there is a package of that name, this installs it: %s", what,
                 call);
}

void kr_import_advise(const struct kr_import_miss *miss, const struct kr_import_rules *rules, char *buf, size_t size)
{
    const char *old = find_row(miss->module, kr_import_old, kr_import_old_count), *module;
    char name[KR_REQ_NAME_ROOM];
    bool known;

    *buf = '\0';
    if (old) {
        snprintf(buf, size, "module %s is one of older Pythons; its place has %s", miss->module, old);
        return;
    }
    if (miss->standard && !find_distribution(miss->module)) {
        snprintf(buf, size,
                 "module %s belongs to Python itself, and the Python here was built without it; no package "
                 "brings it",
                 miss->module);
        return;
    }
    if (strcmp(miss->module, "IPython") == 0) {
        snprintf(buf, size, "module IPython is not installed here; display(object) needs no import");
        return;
    }
    if (!name_of(miss->module, name, &known))
        return; /* a part of something that is there */
    if (!find_distribution(miss->module) && (module = find_module_of(name)))
        snprintf(buf, size, "the package %s is imported as %s", name, module);
    else if (miss->near[0] && !known)
        snprintf(buf, size, "there is no module %s; did you mean %s?", miss->module, miss->near);
    else
        say_missing(miss, rules, name, known, buf, size);
}

bool kr_import_installable(const struct kr_import_miss *miss, const struct kr_words *blocked,
                           char ret_distribution[KR_REQ_NAME_ROOM])
{
    char name[KR_REQ_NAME_ROOM];
    bool known;

    if ((!find_distribution(miss->module) && (miss->standard || kr_package_is_stdlib(miss->module))) ||
        find_row(miss->module, kr_import_old, kr_import_old_count) || !name_of(miss->module, name, &known) ||
        is_blocked(name, blocked))
        return false;
    if ((!known && (miss->near[0] || kr_package_lookalike(name))) ||
        (!find_distribution(miss->module) && find_module_of(name)))
        return false;
    snprintf(ret_distribution, KR_REQ_NAME_ROOM, "%s", name);
    return true;
}

void kr_import_dump(FILE *out)
{
    fprintf(out,
            "# What to install for an import\n\n"
            "Made by `krait dump imports` from `src/packages/import_table.c`. A run that ends with\n"
            "`ModuleNotFoundError` is told the package that has the module. A module that is not in this table is\n"
            "looked for under its own name.\n\n"
            "| `import` | package |\n|---|---|\n");
    for (size_t i = 0; i < kr_import_rows_count; i++)
        fprintf(out, "| `%s` | `%s` |\n", kr_import_rows[i].module, kr_import_rows[i].other);
    fprintf(out, "\n## Modules of older Pythons\n\n| `import` | its place has |\n|---|---|\n");
    for (size_t i = 0; i < kr_import_old_count; i++)
        fprintf(out, "| `%s` | `%s` |\n", kr_import_old[i].module, kr_import_old[i].other);
}
