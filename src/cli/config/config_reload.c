/* What another reading of the sources of settings changes while the server runs.
 *
 * Called by serve_reload.c. Invariants: a value moves only if its row says that it may (`reload`), a limit only
 * together with its ceiling and never past what the warden was started with; everything that differs is named, once,
 * as changed or as waiting for a restart. */
#include "config_rows.h"
#include <stdio.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_words(const struct kr_words *a, const struct kr_words *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    return a->count == b->count;
}

static bool same_mounts(const struct kr_config_mounts *a, const struct kr_config_mounts *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (strcmp(a->items[i].name, b->items[i].name) != 0 || strcmp(a->items[i].path, b->items[i].path) != 0)
            return false;
    return a->count == b->count;
}

/* A setting that differs by listener is the same only if it is in every profile. */
static bool same_value(const struct kr_config *a, const struct kr_config *b, const struct kr_config_row *row)
{
    const void *x = (const char *)a + row->offset, *y = (const char *)b + row->offset;
    size_t first = offsetof(struct kr_config, profile);

    switch (row->type) {
    case KR_SET_TEXT:
    case KR_SET_SECRET:
    case KR_SET_PATH:
    case KR_SET_ADDRESS:
    case KR_SET_URL:
    case KR_SET_INDEX:
        return same_text(kr_config_text_of(a, row), kr_config_text_of(b, row));
    case KR_SET_WORDS:
    case KR_SET_PATHS:
        return same_words(x, y);
    case KR_SET_MOUNTS:
        return same_mounts(x, y);
    case KR_SET_BOOL:
    case KR_SET_COUNT:
    case KR_SET_SIZE:
    case KR_SET_TIME:
    case KR_SET_CORES:
    case KR_SET_CHOICE:
    case KR_SET_RULE:
    case KR_SET_MAX_:
        break;
    }
    for (int d = 0; kr_config_is_of_profile(row) && d < KR_DIALECT_MAX_; d++)
        if (memcmp((const char *)&a->profiles[d] + (row->offset - first),
                   (const char *)&b->profiles[d] + (row->offset - first), row->size) != 0)
            return false;
    return memcmp(x, y, row->size) == 0;
}

/* The limit whose default or ceiling the row is, or NULL. */
static const struct kr_limit_row *limit_of(const struct kr_config_row *row)
{
    const char *name = row->section && strcmp(row->section, "limits") == 0 ? row->key : NULL;

    for (size_t i = 0; name && i < kr_limit_rows_count; i++)
        if (strcmp(name, kr_limit_rows[i].name) == 0 ||
            (strncmp(name, "max_", 4) == 0 && strcmp(name + 4, kr_limit_rows[i].name) == 0))
            return &kr_limit_rows[i];
    return NULL;
}

/* Does a ceiling stay within what the warden gives, in every profile? */
static bool is_within(const struct kr_config *from, const struct kr_limit_row *limit, const struct kr_limits *most)
{
    struct kr_limits highest = *most;

    for (int d = 0; d < KR_DIALECT_MAX_; d++)
        kr_limits_raise(&highest, &from->profiles[d].ceilings);
    return *kr_limit_at(&highest, limit) == *kr_limit_at((struct kr_limits *)most, limit);
}

/* Whether a key is asked for at all is fixed at the start: the gate, users' groups and the pages depend on it. */
static bool may_change(const struct kr_config *c, const struct kr_config *from, const struct kr_config_row *row,
                       const struct kr_limits *most)
{
    const struct kr_limit_row *limit = limit_of(row);

    if (!row->reload)
        return false;
    if (row->type == KR_SET_SECRET)
        return kr_config_text_of(c, row) && kr_config_text_of(from, row);
    return !limit || is_within(from, limit, most);
}

static void move_value(struct kr_config *c, struct kr_config *from, const struct kr_config_row *row)
{
    char *to = (char *)c + row->offset, *with = (char *)from + row->offset;
    struct kr_words words;
    const char *old;

    if (row->type == KR_SET_SECRET) { /* the other one is wiped with what it came from */
        old = kr_config_text_of(c, row);
        memcpy(to, with, sizeof old);
        memcpy(with, &old, sizeof old);
        return;
    }
    if (row->type == KR_SET_WORDS) { /* the other list is freed with what it came from */
        memcpy(&words, to, sizeof words);
        memcpy(to, with, sizeof words);
        memcpy(with, &words, sizeof words);
        return;
    }
    memcpy(to, with, row->size);
    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        void *in = kr_config_in_profile(&c->profiles[d], row);

        if (in)
            memcpy(in, kr_config_in_profile(&from->profiles[d], row), row->size);
    }
}

static void add_name(char *list, size_t size, const struct kr_config_row *row)
{
    size_t len = strlen(list);

    snprintf(list + len, size - len, "%s%s%s%s", len ? " " : "", row->section ? row->section : "",
             row->section ? "." : "--", row->section ? row->key : row->flag);
}

void kr_config_reload(struct kr_config *c, struct kr_config *from, const struct kr_limits *most,
                      struct kr_config_changes *ret)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    *ret = (struct kr_config_changes){0};
    for (size_t i = 0; i < count; i++) {
        if (same_value(c, from, &rows[i]))
            continue;
        if (may_change(c, from, &rows[i], most)) {
            move_value(c, from, &rows[i]);
            add_name(ret->changed, sizeof ret->changed, &rows[i]);
        } else {
            add_name(ret->waiting, sizeof ret->waiting, &rows[i]);
        }
    }
    if (kr_config_take_rules(c, from))
        add_name(ret->changed, sizeof ret->changed, kr_config_row("policy-file"));
}
