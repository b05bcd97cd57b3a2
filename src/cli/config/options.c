/* The option parser and the three texts made from the same rows: help, error lines, Markdown.
 *
 * Called by each command with its own table. Invariant: a target is only ever written with a value that its row
 * allows, and every refusal names the flag, what came and what would be right, on one line. */
#include "options.h"
#include "log.h"
#include "nearest.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 48
#define NAMES_MAX_ 64

static int refuse_option(struct kr_err *err, const char *flag, const char *what, const char *value, const char *right)
{
    char quoted[96];

    if (value)
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s %s; %s", flag, kr_log_quote(quoted, sizeof quoted, value, 60), what,
                   right);
    else
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s; %s", flag, what, right);
    return -EINVAL;
}

/* "cpu_time" -> "cpu-time". */
static const char *limit_flag(const struct kr_limit_row *row, char *buf, size_t size)
{
    snprintf(buf, size, "%s", row->name);
    for (char *p = buf; *p; p++)
        if (*p == '_')
            *p = '-';
    return buf;
}

/* ---- nearest name ---- */

const char *kr_opt_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    unsigned least = 3;

    for (; *names; names++) {
        unsigned d = kr_edit_distance(word, *names);

        if (d < least && d < strlen(*names)) {
            least = d;
            best = *names;
        }
    }
    return best;
}

/* ---- parsing ---- */

struct found {
    const struct kr_opt_row *row;
    const struct kr_limit_row *limit;
};

static struct found find_long(const struct kr_opt_table *t, const char *name)
{
    struct found f = {0};
    char flag[NAME_MAX_];

    for (size_t i = 0; i < t->count && !f.row; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            f.row = &t->rows[i];
    for (size_t i = 0; t->limits != KR_OPT_NO_LIMITS && i < kr_limit_rows_count && !f.row && !f.limit; i++)
        if (strcmp(limit_flag(&kr_limit_rows[i], flag, sizeof flag), name) == 0)
            f.limit = &kr_limit_rows[i];
    return f;
}

static int unknown(const struct kr_opt_table *t, const char *name, struct kr_err *err)
{
    static char flags[16][NAME_MAX_];
    const char *names[NAMES_MAX_ + 1], *near;
    char right[96], flag[64];
    size_t n = 0;

    for (size_t i = 0; i < t->count && n < NAMES_MAX_; i++)
        names[n++] = t->rows[i].name;
    for (size_t i = 0; t->limits != KR_OPT_NO_LIMITS && i < kr_limit_rows_count && i < 16 && n < NAMES_MAX_; i++)
        names[n++] = limit_flag(&kr_limit_rows[i], flags[i], sizeof flags[i]);
    names[n] = NULL;
    near = kr_opt_nearest(name, names);
    if (near)
        snprintf(right, sizeof right, "did you mean --%s?", near);
    else
        snprintf(right, sizeof right, "`krait %s --help` lists them", t->command);
    return refuse_option(err, kr_log_quote(flag, sizeof flag, name, 40), "no such option", NULL, right);
}

static int store_choice(const struct kr_opt_row *row, const char *flag, const char *text, int *target,
                        struct kr_err *err)
{
    char right[128] = "it may be ";

    for (int i = 0; row->choices[i]; i++) {
        size_t len = strlen(right);

        if (strcmp(row->choices[i], text) == 0) {
            *target = i;
            return 0;
        }
        snprintf(right + len, sizeof right - len, "%s%s", i ? (row->choices[i + 1] ? ", " : " or ") : "",
                 row->choices[i]);
    }
    return refuse_option(err, flag, "is not known", text, right);
}

static int store_number(const struct kr_opt_row *row, const char *flag, const char *text, uint64_t *target,
                        struct kr_err *err)
{
    char right[96], *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && value >= row->min && value <= row->max) {
        *target = value;
        return 0;
    }
    snprintf(right, sizeof right, "it may be %" PRIu64 " to %" PRIu64 ", for example %s", row->min, row->max,
             row->example);
    return refuse_option(err, flag, "is not such a number", text, right);
}

static int store(const struct kr_opt_row *row, const char *flag, const char *text, void *target, struct kr_err *err)
{
    void *at = (char *)target + row->offset;
    struct kr_opt_list *list = at;

    switch (row->type) {
    case KR_OPT_FLAG:
        *(bool *)at = true;
        return 0;
    case KR_OPT_TEXT:
    case KR_OPT_LAST:
        *(const char **)at = text;
        return 0;
    case KR_OPT_LIST:
        if (list->count == KR_OPT_LIST_MAX)
            return refuse_option(err, flag, "given too often", NULL, "64 times at most");
        list->items[list->count++] = text;
        return 0;
    case KR_OPT_CHOICE:
        return store_choice(row, flag, text, at, err);
    case KR_OPT_NUMBER:
        return store_number(row, flag, text, at, err);
    case KR_OPT_MAX_:
        break;
    }
    return -EINVAL;
}

static int store_limit(const struct kr_opt_table *t, const struct kr_limit_row *row, const char *text, void *target,
                       struct kr_err *err)
{
    struct kr_opt_limits *l = (struct kr_opt_limits *)((char *)target + t->limits);

    l->given |= 1ul << (row - kr_limit_rows);
    return kr_limit_parse(row, text, kr_limit_at(&l->values, row), err);
}

#define ONE_LAST 1
#define ONE_HELP 2

/* -c CODE, -cCODE, -v. 0, ONE_HELP or -EINVAL. */
static int look_short(const struct kr_opt_table *t, const char *arg, struct found *ret, const char **ret_value,
                      struct kr_err *err)
{
    struct found f = {0};

    for (size_t k = 0; k < t->count; k++)
        if (t->rows[k].letter == arg[1])
            f.row = &t->rows[k];
    if (arg[1] == 'h' && !arg[2] && !f.row)
        return ONE_HELP;
    if (!f.row || (f.row->type == KR_OPT_FLAG && arg[2]))
        return unknown(t, arg, err);
    *ret = f;
    *ret_value = arg[2] ? arg + 2 : NULL;
    return 0;
}

/* --memory 1G, --memory=1G. */
static int look_long(const struct kr_opt_table *t, const char *arg, struct found *ret, const char **ret_value,
                     struct kr_err *err)
{
    size_t len = strcspn(arg + 2, "=");
    char name[NAME_MAX_ + 1];

    snprintf(name, sizeof name, "%.*s", (int)len, arg + 2);
    if (strcmp(name, "help") == 0)
        return ONE_HELP;
    *ret = find_long(t, name);
    if (!ret->row && !ret->limit)
        return unknown(t, name, err);
    *ret_value = arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL;
    return 0;
}

/* One argument that begins with a dash, and perhaps the one behind it. 0, ONE_LAST, ONE_HELP or -EINVAL. */
static int parse_one(const struct kr_opt_table *t, int argc, char **argv, int *i, void *target, struct kr_err *err)
{
    char flag[NAME_MAX_ + 3], right[64];
    const char *value = NULL;
    struct found f = {0};
    bool takes;
    int r;

    r = (argv[*i][1] == '-' ? look_long : look_short)(t, argv[*i], &f, &value, err);
    if (r != 0)
        return r;
    if (!f.row && !f.limit)
        return -EINVAL; /* cannot be: it was found */
    if (argv[*i][1] == '-')
        snprintf(flag, sizeof flag, "%.*s", (int)strcspn(argv[*i], "="), argv[*i]);
    else
        snprintf(flag, sizeof flag, "%.2s", argv[*i]);
    takes = f.limit || f.row->type != KR_OPT_FLAG;
    if (!takes && value)
        return refuse_option(err, flag, "is a value, and it takes none", value, "leave it out");
    if (takes && !value) {
        snprintf(right, sizeof right, "for example %s", f.limit ? f.limit->example : f.row->example);
        if (*i + 1 >= argc)
            return refuse_option(err, flag, "needs a value", NULL, right);
        value = argv[++*i];
    }
    r = f.limit ? store_limit(t, f.limit, value, target, err) : store(f.row, flag, value, target, err);
    return r < 0 ? r : f.row && f.row->type == KR_OPT_LAST ? ONE_LAST : 0;
}

int kr_opt_parse(const struct kr_opt_table *t, int argc, char **argv, void *target, int *ret_operand,
                 struct kr_err *err)
{
    int i = 1;

    for (; i < argc; i++) {
        int r;

        if (argv[i][0] != '-' || !argv[i][1])
            break;
        if (strcmp(argv[i], "--") == 0) {
            i++;
            break;
        }
        r = parse_one(t, argc, argv, &i, target, err);
        if (r < 0)
            return r;
        if (r == ONE_HELP)
            return KR_OPT_HELP;
        if (r == ONE_LAST) {
            i++;
            break;
        }
    }
    *ret_operand = i;
    return 0;
}

bool kr_opt_limit_given(const struct kr_opt_limits *l, const char *name)
{
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        if (strcmp(kr_limit_rows[i].name, name) == 0)
            return l->given >> i & 1;
    assert(!"a limit of that name");
    return false;
}
