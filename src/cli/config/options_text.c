/* The texts that come from option rows: `--help` and the Markdown of `krait dump`.
 *
 * Called by the commands and cmd_dump.c. Invariant: nothing about a flag is written here; every word comes from its
 * row. */
#include "options.h"
#include <string.h>

#define LEFT 30
#define WIDTH 100

/* Prints text wrapped at WIDTH, continued at column `at`. */
static void wrap(FILE *out, const char *text, int at)
{
    int column = at;

    while (*text) {
        int len = (int)strcspn(text, " ");

        if (column + len > WIDTH && column > at) {
            fprintf(out, "\n%*s", at, "");
            column = at;
        }
        fprintf(out, "%.*s", len, text);
        column += len;
        text += len;
        while (*text == ' ')
            text++;
        if (*text && column < WIDTH) {
            fputc(' ', out);
            column++;
        }
    }
    fputc('\n', out);
}

void kr_opt_help_line(FILE *out, const char *left, const char *text)
{
    if ((int)strlen(left) > LEFT - 2)
        fprintf(out, "%s\n%*s", left, LEFT, "");
    else
        fprintf(out, "%-*s", LEFT, left);
    wrap(out, text, LEFT);
}

static void flag_of(const struct kr_opt_row *row, char *buf, size_t size)
{
    char value[48] = "";

    if (row->value)
        snprintf(value, sizeof value, " %s", row->value);
    if (row->letter)
        snprintf(buf, size, "-%c, --%s%s", row->letter, row->name, value);
    else
        snprintf(buf, size, "--%s%s", row->name, value);
}

static void limit_flag_of(const struct kr_limit_row *row, char *buf, size_t size)
{
    static const char *const values[] = {
        [KR_UNIT_BYTES] = "SIZE", [KR_UNIT_MILLI] = "CORES", [KR_UNIT_MS] = "TIME", [KR_UNIT_COUNT] = "N"};
    char name[32];

    snprintf(name, sizeof name, "%s", row->name);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = '-';
    snprintf(buf, size, "--%s %s", name, values[row->unit]);
}

void kr_opt_help(const struct kr_opt_table *t, FILE *out)
{
    char left[80], text[320], shown[32];

    fprintf(out, "Usage: krait %s %s\n\n", t->command, t->usage);
    wrap(out, t->about, 0);
    fprintf(out, "\nOptions:\n");
    for (size_t i = 0; i < t->count; i++) {
        const struct kr_opt_row *row = &t->rows[i];

        snprintf(left, sizeof left, "  ");
        flag_of(row, left + 2, sizeof left - 2);
        snprintf(text, sizeof text, "%s%s%s%s", row->help, row->fallback ? " [" : "",
                 row->fallback ? row->fallback : "", row->fallback ? "]" : "");
        kr_opt_help_line(out, left, text);
    }
    kr_opt_help_line(out, "  -h, --help", "Show this.");
    if (t->limits != KR_OPT_NO_LIMITS)
        fprintf(out, "\nLimits:\n");
    for (size_t i = 0; t->limits != KR_OPT_NO_LIMITS && i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];

        snprintf(left, sizeof left, "  ");
        limit_flag_of(row, left + 2, sizeof left - 2);
        snprintf(text, sizeof text, "%s [%s; for example %s]", row->help,
                 kr_limit_show(row, row->value, shown, sizeof shown), row->example);
        kr_opt_help_line(out, left, text);
    }
    if (t->notes)
        fprintf(out, "\n%s\n", t->notes);
}

void kr_opt_cell(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            fputc('\\', out);
        fputc(*text, out);
    }
}

void kr_opt_dump(const struct kr_opt_table *t, FILE *out)
{
    char flag[80];

    fprintf(out, "## krait %s\n\n`krait %s %s`\n\n", t->command, t->command, t->usage);
    fprintf(out, "%s\n\n| option | default | example | |\n|---|---|---|---|\n", t->about);
    for (size_t i = 0; i < t->count; i++) {
        const struct kr_opt_row *row = &t->rows[i];

        flag_of(row, flag, sizeof flag);
        fprintf(out, "| `");
        kr_opt_cell(out, flag);
        fprintf(out, "` | ");
        kr_opt_cell(out, row->fallback ? row->fallback : "");
        fprintf(out, " | `");
        kr_opt_cell(out, row->example);
        fprintf(out, "` | ");
        kr_opt_cell(out, row->help);
        fprintf(out, " |\n");
    }
    if (t->limits != KR_OPT_NO_LIMITS)
        fprintf(out, "\nAnd every limit as a flag: see `krait dump limits`.\n");
    fputc('\n', out);
}

void kr_opt_dump_limits(FILE *out)
{
    char flag[48], value[32], min[32], max[32];

    fprintf(out, "| limit | flag | default | least | most | example | |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < kr_limit_rows_count; i++) {
        const struct kr_limit_row *row = &kr_limit_rows[i];

        limit_flag_of(row, flag, sizeof flag);
        fprintf(out, "| `%s` | `%s` | %s | %s | %s | `%s` | %s |\n", row->name, flag,
                kr_limit_show(row, row->value, value, sizeof value), kr_limit_show(row, row->min, min, sizeof min),
                kr_limit_show(row, row->max, max, sizeof max), row->example, row->help);
    }
}
