/* Options of the commands: one table per command, one row per flag. The row parses, refuses, helps and documents. */
#pragma once
#include "err.h"
#include "limit.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum kr_opt_type {
    KR_OPT_FLAG,   /* bool */
    KR_OPT_TEXT,   /* const char *: the argument as it came */
    KR_OPT_LAST,   /* the same, and everything behind it belongs to the program (-c) */
    KR_OPT_LIST,   /* struct kr_opt_list */
    KR_OPT_CHOICE, /* int: index in choices */
    KR_OPT_NUMBER, /* uint64_t in min..max */
    KR_OPT_MAX_,
};

#define KR_OPT_LIST_MAX 64
struct kr_opt_list {
    const char *items[KR_OPT_LIST_MAX];
    size_t count;
};

struct kr_opt_row {
    const char *name; /* long flag, without its dashes */
    char letter;      /* short flag, or 0 */
    enum kr_opt_type type;
    size_t offset;              /* in the command's struct */
    const char *value;          /* name of the value in help; NULL for a flag */
    const char *const *choices; /* NULL terminated */
    uint64_t min, max;
    const char *fallback; /* what holds without the flag, for help */
    const char *example, *help;
};

/* The limits of a command: every row of kr_limit_rows is a flag. */
struct kr_opt_limits {
    struct kr_limits values;
    unsigned long given; /* bit i: row i was given */
};

#define KR_OPT_NO_LIMITS ((size_t)-1)
struct kr_opt_table {
    const char *command; /* "run" */
    const char *usage;   /* what follows the name: "[options] FILE|-|-c CODE [args…]" */
    const char *about;   /* a paragraph */
    const char *notes;   /* printed after the options, or NULL */
    const struct kr_opt_row *rows;
    size_t count;
    size_t limits; /* offset of a struct kr_opt_limits, or KR_OPT_NO_LIMITS */
};

#define KR_OPT_HELP 1 /* kr_opt_parse(): --help was asked for */

/* Parses argv[1…] into target, which holds the defaults. Stops at the first operand, at `--` and behind a KR_OPT_LAST
 * row. 0 and the index of the first operand, KR_OPT_HELP, or -EINVAL with one line that names flag, value and what
 * would be right. */
int kr_opt_parse(const struct kr_opt_table *t, int argc, char **argv, void *target, int *ret_operand,
                 struct kr_err *err);
/* Was this limit given on the command line? */
bool kr_opt_limit_given(const struct kr_opt_limits *l, const char *name);
/* The `--help` text. */
void kr_opt_help(const struct kr_opt_table *t, FILE *out);
/* The same as a Markdown table, for `krait dump config`. */
void kr_opt_dump(const struct kr_opt_table *t, FILE *out);
/* The table of limits as Markdown, for `krait dump limits`. */
void kr_opt_dump_limits(FILE *out);
/* Two columns of a help text: what is typed, and what it does, wrapped. */
void kr_opt_help_line(FILE *out, const char *left, const char *text);
/* Prints text for a cell of a Markdown table: a bar would end it. */
void kr_opt_cell(FILE *out, const char *text);
/* The name nearest to word if it is near at all (two slips at most), else NULL. names is NULL terminated. */
const char *kr_opt_nearest(const char *word, const char *const *names);
