/* The texts that come from the table of settings: help, reference, the two example files, and the values in force.
 *
 * Called by cmd_dump.c and `krait serve`. Invariant: nothing about a setting is written here; every word comes from
 * its row. What the example files show parses (tests/integration/config.py), and a secret is never printed. */
#include "choices.h"
#include "config_rows.h"
#include "options.h"
#include <inttypes.h>
#include <string.h>

#define COMMENT_WIDTH 100u

static bool in_section(const struct kr_config_row *row, const char *section)
{
    return row->section == section || (row->section && section && strcmp(row->section, section) == 0);
}

/* The default for a person; "" if there is none to tell. */
static const char *show_default(const struct kr_config_row *row, char *buf, size_t size)
{
    uint64_t number;

    if (row->fallback_text)
        snprintf(buf, size, "%s", row->fallback_text);
    else if (kr_config_is_number(row) && kr_config_number(row, row->fallback, &number) == 0)
        kr_config_show_number(row, number, buf, size);
    else
        snprintf(buf, size, "%s", row->fallback ? row->fallback : "none");
    return buf;
}

/* Commas with a blank behind them, so that a long list can be wrapped. */
static void space_commas(const char *text, char *buf, size_t size)
{
    size_t n = 0;

    for (; *text && n + 3 < size; text++) {
        buf[n++] = *text;
        if (*text == ',' && text[1] != ' ')
            buf[n++] = ' ';
    }
    buf[n] = '\0';
}

/* ---- help ---- */

static void help_row(const struct kr_config_row *row, FILE *out)
{
    char left[96], text[512], fallback[200], spaced[256];

    if (row->value)
        snprintf(left, sizeof left, "  --%s %s", row->flag, row->value);
    else
        snprintf(left, sizeof left, "  --%s", row->flag);
    space_commas(show_default(row, fallback, sizeof fallback), spaced, sizeof spaced);
    if (row->type == KR_SET_BOOL && strcmp(row->fallback, "false") == 0)
        snprintf(text, sizeof text, "%s", row->help);
    else
        snprintf(text, sizeof text, "%s [%s]", row->help, spaced);
    kr_opt_help_line(out, left, text);
}

void kr_config_help(FILE *out)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    fprintf(out,
            "Usage: krait serve [options]\n\n"
            "Serves sandboxes over HTTP. Without options: on http://127.0.0.1:%s, for this machine only.\n",
            kr_config_row("port")->fallback);
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        fprintf(out, "\n%s:\n", kr_config_sections[s].help);
        for (size_t i = 0; i < count; i++)
            if (in_section(&rows[i], kr_config_sections[s].name))
                help_row(&rows[i], out);
        if (s == 0)
            kr_opt_help_line(out, "  -h, --help", "Show this.");
    }
    fprintf(out,
            "\nAn option may also be a variable, --max-memory as KRAIT_MAX_MEMORY, or a line of .env or krait.toml;\n"
            "the first of command line, environment, .env, krait.toml that gives it counts. A size may be 512M or\n"
            "1.5G, a time 30s, 5m or 4h; lists have commas. `krait dump config` has the names and ranges,\n"
            "`krait dump settings [options]` shows what is in force here and where it comes from.\n");
}

/* ---- the reference page ---- */

static void dump_names(const struct kr_config_row *row, FILE *out)
{
    fprintf(out, "`%s`", kr_config_env_name(row));
    for (size_t a = 0; a < KR_CONFIG_ALIASES_MAX && row->env[a].name; a++)
        fprintf(out, ", `%s`", row->env[a].name);
}

static void dump_row(const struct kr_config_row *row, FILE *out)
{
    char text[256], spaced[320];

    if (row->section)
        fprintf(out, "| `%s` | `--%s", row->key, row->flag);
    else
        fprintf(out, "| | `--%s", row->flag);
    fprintf(out, "%s%s`", row->value ? " " : "", row->value ? row->value : "");
    if (row->old_flag)
        fprintf(out, ", `--%s`", row->old_flag);
    fprintf(out, " | ");
    dump_names(row, out);
    fprintf(out, " | ");
    space_commas(show_default(row, text, sizeof text), spaced, sizeof spaced);
    kr_opt_cell(out, spaced);
    fprintf(out, " | %s | `", kr_config_range(row, text, sizeof text));
    kr_opt_cell(out, row->example);
    fprintf(out, "` | %s | ", row->reload ? "yes" : "");
    kr_opt_cell(out, row->help);
    fprintf(out, " |\n");
}

static void dump_dialects(FILE *out)
{
    fprintf(out,
            "### Dialects\n\nA dialect brings the defaults of its document to every listener that speaks it, and to "
            "MCP clients that ask for it (`krait mcp --dialect`, `?dialect=`); listeners of other dialects keep "
            "theirs. What is not here is as above, and a setting that is given anywhere holds for all. Two are the "
            "server's as a whole, from the dialect of `--dialect` alone: `pool-size` and `cleanup-interval`. "
            "`host` and `port` are those of a listener that names none.\n\n"
            "| dialect | document | defaults |\n|---|---|---|\n");
    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        const char *between = "";

        fprintf(out, "| `%s` | %s | ", kr_dialect_names[d], kr_dialects[d].document ? kr_dialects[d].document : "");
        for (const struct kr_dialect_default *one = kr_dialects[d].defaults; one->flag; one++) {
            fprintf(out, "%s%s %s", between, one->flag, one->value);
            between = ", ";
        }
        fprintf(out, " |\n");
    }
}

void kr_config_dump(FILE *out)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    fprintf(out,
            "## krait serve\n\n`krait serve [options]`\n\nEvery setting is an option, a variable of the environment or "
            "of `.env`, and a key of `krait.toml`; the first of these that gives it counts. Where several "
            "variables are named, the first that is set counts; an empty one is not set. `krait dump settings "
            "[options]` shows what is in force and where it comes from.\n\n"
            "On SIGHUP to the process that was started (`systemctl reload krait`) the files are read again. Settings "
            "with `reload` hold from then on, limits for new sessions and up to the ceilings of the start; others are "
            "named in the log and wait for a restart. Options and the environment are those of the start.\n\n");
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        const char *name = kr_config_sections[s].name;

        if (name)
            fprintf(out, "### [%s]: %s\n\n", name, kr_config_sections[s].help);
        else
            fprintf(out, "### %s\n\n", kr_config_sections[s].help);
        fprintf(out, "| key | option | variables | default | range | example | reload | |\n"
                     "|---|---|---|---|---|---|---|---|\n");
        for (size_t i = 0; i < count; i++)
            if (in_section(&rows[i], name))
                dump_row(&rows[i], out);
        fputc('\n', out);
    }
    dump_dialects(out);
    fprintf(out,
            "\n### Names that are known and not used\n\nThey may stand in an environment or a file made for another "
            "program.\n\n| name | | why |\n|---|---|---|\n");
    for (size_t i = 0; i < kr_config_foreign_count; i++)
        fprintf(out, "| `%s` | %s | %s |\n", kr_config_foreign_rows[i].name,
                kr_config_foreign_rows[i].refused ? "refused, unless it is false" : "ignored",
                kr_config_foreign_rows[i].why);
}

/* ---- values as they are written in a file ---- */

static void toml_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20 || *text == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* A value that was written as one text, as TOML has it. */
static void toml_text(const struct kr_config_row *row, const char *text, FILE *out)
{
    if (row->type == KR_SET_BOOL || row->type == KR_SET_COUNT) {
        fputs(text, out);
    } else if (kr_config_is_list(row)) {
        fputc('[', out);
        for (size_t len; *text; text += len + (text[len] == ',')) {
            len = strcspn(text, ",");
            fprintf(out, "\"%.*s\"%s", (int)len, text, text[len] ? ", " : "");
        }
        fputc(']', out);
    } else {
        toml_string(out, text);
    }
}

/* ---- example files ---- */

static const char *shown_in_example(const struct kr_config_row *row)
{
    return row->fallback ? row->fallback : row->example;
}

/* As comment lines of about 100 columns. */
static void comment(const char *text, FILE *out)
{
    size_t column = 1;

    fputc('#', out);
    while (*text) {
        size_t len = strcspn(text, " ");

        if (column + 1 + len > COMMENT_WIDTH && column > 1) {
            fprintf(out, "\n#");
            column = 1;
        }
        fprintf(out, " %.*s", (int)len, text);
        column += 1 + len;
        text += len + strspn(text + len, " ");
    }
    fputc('\n', out);
}

static void example_comment(const struct kr_config_row *row, FILE *out)
{
    char text[640], range[128];
    size_t len = (size_t)snprintf(text, sizeof text, "%s", row->help);

    if (row->fallback_text)
        len += (size_t)snprintf(text + len, sizeof text - len, " By default: %s.", row->fallback_text);
    if (!row->choices && kr_config_range(row, range, sizeof range)[0])
        snprintf(text + len, sizeof text - len, " May be %s.", range);
    comment(text, out);
}

void kr_config_env_example(FILE *out)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    fprintf(
        out,
        "# Settings of `krait serve`, as variables. Copy this file to .env and uncomment what you need: .env of the\n"
        "# current folder counts if it is yours (chmod 600 .env). What is shown is the default, or an example\n"
        "# where there is none. The environment itself comes first. Made by `krait dump env-example`.\n");
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        if (!kr_config_sections[s].name)
            continue;
        fprintf(out, "\n# ---- %s ----\n", kr_config_sections[s].help);
        for (size_t i = 0; i < count; i++) {
            if (!in_section(&rows[i], kr_config_sections[s].name))
                continue;
            fputc('\n', out);
            example_comment(&rows[i], out);
            if (rows[i].env[0].name) {
                fprintf(out, "# Also read: ");
                for (size_t a = 0; a < KR_CONFIG_ALIASES_MAX && rows[i].env[a].name; a++)
                    fprintf(out, "%s%s", a ? ", " : "", rows[i].env[a].name);
                fputc('\n', out);
            }
            fprintf(out, "#%s=%s\n", kr_config_env_name(&rows[i]), shown_in_example(&rows[i]));
        }
    }
}

void kr_config_toml_example(FILE *out)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    fprintf(
        out,
        "# Settings of `krait serve`. Copy this file to krait.toml in the folder krait is started in, or name it by\n"
        "# --config, and uncomment what you need. What is shown is the default, or an example where there is\n"
        "# none. The command line, the environment and .env come first. Made by `krait dump toml-example`.\n");
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        if (!kr_config_sections[s].name)
            continue;
        fprintf(out, "\n# ---- %s ----\n[%s]\n", kr_config_sections[s].help, kr_config_sections[s].name);
        for (size_t i = 0; i < count; i++) {
            if (!in_section(&rows[i], kr_config_sections[s].name))
                continue;
            fputc('\n', out);
            example_comment(&rows[i], out);
            fprintf(out, "#%s = ", rows[i].key);
            toml_text(&rows[i], shown_in_example(&rows[i]), out);
            fputc('\n', out);
        }
    }
}

/* ---- the values in force ---- */

static void show_list(const struct kr_words *l, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < l->count; i++) {
        fputs(i ? ", " : "", out);
        toml_string(out, l->items[i]);
    }
    fputc(']', out);
}

static void show_mounts(const struct kr_config_mounts *m, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < m->count; i++) {
        fprintf(out, "%s\"%s=", i ? ", " : "", m->items[i].name);
        for (const char *p = m->items[i].path; *p; p++)
            fprintf(out, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
        fputc('"', out);
    }
    fputc(']', out);
}

static void show_value(const struct kr_config *c, const struct kr_config_row *row, FILE *out)
{
    const void *at = (const char *)c + row->offset;
    char buf[48], rule[KR_NET_RULE_ROOM];

    switch (row->type) {
    case KR_SET_BOOL:
        fputs(*(const bool *)at ? "true" : "false", out);
        break;
    case KR_SET_COUNT:
        fprintf(out, "%" PRIu64, kr_config_number_of(c, row));
        break;
    case KR_SET_SIZE:
    case KR_SET_TIME:
    case KR_SET_CORES:
        fprintf(out, "\"%s\"", kr_config_plain(row, kr_config_number_of(c, row), buf, sizeof buf));
        break;
    case KR_SET_CHOICE:
        toml_string(out, row->choices[*(const int *)at]);
        break;
    case KR_SET_RULE:
        toml_string(out, kr_net_rule_text(at, rule, sizeof rule));
        break;
    case KR_SET_SECRET:
        fputs("\"…\"", out);
        break;
    case KR_SET_TEXT:
    case KR_SET_PATH:
    case KR_SET_ADDRESS:
    case KR_SET_URL:
    case KR_SET_INDEX:
        toml_string(out, kr_config_text_of(c, row));
        break;
    case KR_SET_WORDS:
    case KR_SET_PATHS:
        show_list(at, out);
        break;
    case KR_SET_MOUNTS:
        show_mounts(at, out);
        break;
    case KR_SET_MAX_:
        break;
    }
}

/* Is there nothing to show? */
static bool is_unset(const struct kr_config *c, const struct kr_config_row *row)
{
    const void *at = (const char *)c + row->offset;

    switch (row->type) {
    case KR_SET_TEXT:
    case KR_SET_SECRET:
    case KR_SET_PATH:
    case KR_SET_ADDRESS:
    case KR_SET_URL:
    case KR_SET_INDEX:
        return !kr_config_text_of(c, row);
    case KR_SET_CHOICE:
        return *(const int *)at < 0;
    case KR_SET_BOOL:
    case KR_SET_COUNT:
    case KR_SET_SIZE:
    case KR_SET_TIME:
    case KR_SET_CORES:
    case KR_SET_WORDS:
    case KR_SET_PATHS:
    case KR_SET_MOUNTS:
    case KR_SET_RULE:
    case KR_SET_MAX_:
        break;
    }
    return false;
}

/* Was a limit's default or ceiling moved because the other one was given? */
static bool was_moved(const struct kr_config *c, const struct kr_config_row *row)
{
    const char *text = kr_dialect_default((enum kr_dialect)c->dialect, row->flag);
    uint64_t number;

    return strcmp(row->section, "limits") == 0 && !kr_config_given(c, row->flag) &&
           kr_config_number(row, text ? text : row->fallback, &number) == 0 && kr_config_number_of(c, row) != number;
}

static void show_row(const struct kr_config *c, const struct kr_config_row *row, FILE *out)
{
    char origin[320], fallback[200];

    kr_config_origin(c, row->flag, origin, sizeof origin);
    if (was_moved(c, row))
        snprintf(origin, sizeof origin, "follows %s%s", strncmp(row->key, "max_", 4) == 0 ? "" : "max_",
                 strncmp(row->key, "max_", 4) == 0 ? row->key + 4 : row->key);
    if (is_unset(c, row)) {
        fprintf(out, "#%s =  # %s\n", row->key, show_default(row, fallback, sizeof fallback));
        return;
    }
    fprintf(out, "%s = ", row->key);
    show_value(c, row, out);
    fprintf(out, "  # %s\n", origin);
}

/* What a listener of another dialect has that the settings below do not say. */
static void show_dialect(const struct kr_config *c, enum kr_dialect dialect, FILE *out)
{
    for (const struct kr_dialect_default *d = kr_dialects[dialect].defaults; d->flag; d++) {
        const struct kr_config_row *row = kr_config_row(d->flag);

        if (kr_config_is_of_profile(row) && !kr_config_given(c, d->flag))
            fprintf(out, "#   there %s.%s = %s\n", row->section, row->key, d->value);
    }
}

void kr_config_show(const struct kr_config *c, FILE *out)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < c->listener_count; i++) {
        fprintf(out, "# listens on %s%s%s:%u, dialect %s\n", strchr(c->listeners[i].address, ':') ? "[" : "",
                c->listeners[i].address, strchr(c->listeners[i].address, ':') ? "]" : "", c->listeners[i].port,
                kr_dialect_names[c->listeners[i].dialect]);
        if ((int)c->listeners[i].dialect != c->dialect)
            show_dialect(c, c->listeners[i].dialect, out);
    }
    for (size_t i = 0; i < c->notes.count; i++)
        fprintf(out, "# note: %s\n", c->notes.items[i]);
    for (size_t s = 0; s < kr_config_sections_count; s++) {
        if (!kr_config_sections[s].name)
            continue;
        fprintf(out, "\n[%s]\n", kr_config_sections[s].name);
        for (size_t i = 0; i < count; i++)
            if (in_section(&rows[i], kr_config_sections[s].name))
                show_row(c, &rows[i], out);
    }
}
