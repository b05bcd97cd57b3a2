/* Where values come from: flags, the environment, .env, krait.toml, and behind them what config_check.c fills in.
 *
 * kr_config_load() is called by `krait serve` and by commands that share its settings, before anything is started.
 * Invariant: origins are read in the order of their precedence, and the first that gives a value keeps it; but every
 * value is checked, also one that does not count. */
#include "config_rows.h"
#include "dotenv.h"
#include "fd.h"
#include "log.h"
#include "options.h"
#include "toml.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 256u
#define FOLDER_MAX 4096u

struct load {
    struct kr_config *c;
    const struct kr_config_how *how;
    char folder[FOLDER_MAX]; /* the current one; "" if it has no name */
    /* The file that is being read. */
    const char *file;
    char *file_folder; /* NULL: the current one */
};

static const char *folder_of(const struct load *l)
{
    return l->file_folder ? l->file_folder : l->folder[0] ? l->folder : NULL;
}

/* ", did you mean 'x'?" for a name that is near to one of ours, else "". */
static const char *did_you_mean(const char *name, const char *const *names, char *buf, size_t size)
{
    const char *near = kr_opt_nearest(name, names);

    if (near)
        snprintf(buf, size, ", did you mean '%s'?", near);
    else
        buf[0] = '\0';
    return buf;
}

/* ---- flags ---- */

static int unknown_flag(const char *name, struct kr_err *err)
{
    const char *names[NAMES_MAX + 1], *near;
    size_t count, n = 0;
    const struct kr_config_row *rows = kr_config_rows(&count);
    char quoted[64];

    for (size_t i = 0; i < count && n + 1 < NAMES_MAX; i++) {
        names[n++] = rows[i].flag;
        if (rows[i].old_flag)
            names[n++] = rows[i].old_flag;
    }
    names[n] = NULL;
    near = kr_opt_nearest(name, names);
    kr_log_quote(quoted, sizeof quoted, name, 40);
    if (near)
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: no such option; did you mean --%s?", quoted, near);
    else
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: no such option; `krait serve --help` lists them", quoted);
    return -EINVAL;
}

/* One argument and perhaps the one behind it. 0, KR_OPT_HELP or -EINVAL. */
static int take_flag(struct load *l, int *i, struct kr_err *err)
{
    const char *arg = l->how->argv[*i], *value;
    const struct kr_config_row *row;
    struct kr_config_origin origin = {.source = KR_FROM_FLAG, .folder = folder_of(l)};
    char name[64], quoted[64];

    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0)
        return KR_OPT_HELP;
    if (strncmp(arg, "--", 2) != 0 || !arg[2]) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%s is not an option; `krait serve --help` lists them",
                   kr_log_quote(quoted, sizeof quoted, arg, 40));
        return -EINVAL;
    }
    snprintf(name, sizeof name, "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    row = kr_config_row(name);
    if (!row)
        return unknown_flag(name, err);
    origin.name = strcmp(row->flag, name) == 0 ? row->flag : row->old_flag;
    value = strchr(arg, '=');
    if (value)
        value++;
    else if (row->type == KR_SET_BOOL)
        value = "true";
    else if (*i + 1 < l->how->argc)
        value = l->how->argv[++*i];
    else {
        kr_err_set(err, KR_ERR_INVALID, 0, "--%s: needs a value; for example %s", name, row->example);
        return -EINVAL;
    }
    return kr_config_set(l->c, row, value, &origin, err);
}

static int take_flags(struct load *l, struct kr_err *err)
{
    for (int i = 1; i < l->how->argc; i++) {
        int r = take_flag(l, &i, err);

        if (r != 0)
            return r;
    }
    return 0;
}

/* ---- names of the environment, in it and in .env ---- */

/* The value in our units: "512" in MAX_MEMORY_MB is 512M. */
static int set_named(struct load *l, const struct kr_config_row *row, const struct kr_config_alias *alias,
                     const char *value, const struct kr_config_origin *origin, struct kr_err *err)
{
    char with_unit[64];

    if (row->type == KR_SET_RULE && kr_config_bool(value) >= 0) /* the documents' names say whether there is one */
        value = kr_config_bool(value) ? kr_net_kind_names[KR_NET_OPEN] : kr_net_kind_names[KR_NET_NONE];
    if (alias && alias->unit && strspn(value, "0123456789.") == strlen(value) && strlen(value) < 32) {
        snprintf(with_unit, sizeof with_unit, "%s%s", value, alias->unit);
        value = with_unit;
    }
    return kr_config_set(l->c, row, value, origin, err);
}

/* A document's name that we have no setting for. */
static int take_foreign(struct load *l, const struct kr_config_foreign *f, const char *value, struct kr_err *err)
{
    if (!value[0] || kr_config_bool(value) == 0 || f->quiet)
        return 0;
    if (f->refused) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s; leave it out", f->name, f->why);
        return -EINVAL;
    }
    if (l->file)
        kr_config_note(l->c, "%s: ignoring %s: %s", l->file, f->name, f->why);
    else
        kr_config_note(l->c, "ignoring %s (environment): %s", f->name, f->why);
    return 0;
}

/* Every name that means something, NULL terminated. */
static void known_names(const char *names[NAMES_MAX + 1])
{
    size_t count, n = 0;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count && n + KR_CONFIG_ALIASES_MAX < NAMES_MAX; i++) {
        names[n++] = kr_config_env_name(&rows[i]);
        for (size_t a = 0; a < KR_CONFIG_ALIASES_MAX && rows[i].env[a].name; a++)
            names[n++] = rows[i].env[a].name;
    }
    names[n] = NULL;
}

static const char *find_variable(char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=')
            return *environment + len + 1;
    return NULL;
}

/* A KRAIT_… that nothing is called: near to a setting it is a slip, and a slip in a key's name must not leave the
 * server open. Anything else (Kubernetes sets KRAIT_SERVICE_HOST for a service of our name) is noted and left alone. */
static int judge_strangers(struct load *l, struct kr_err *err)
{
    const char *names[NAMES_MAX + 1];
    const struct kr_config_alias *alias;
    char name[64], hint[80];

    known_names(names);
    for (char *const *e = l->how->environment; e && *e; e++) {
        size_t len = strcspn(*e, "=");

        if (strncmp(*e, "KRAIT_", 6) != 0 || len >= sizeof name)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)len, *e);
        if (kr_config_by_env(name, &alias))
            continue;
        if (did_you_mean(name, names, hint, sizeof hint)[0]) {
            kr_err_set(err, KR_ERR_INVALID, 0, "%s (environment): no setting is called so%s", name, hint);
            return -EINVAL;
        }
        kr_config_note(l->c, "ignoring %s (environment): no setting is called so", name);
    }
    return 0;
}

static int take_environment(struct load *l, struct kr_err *err)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);
    int r = 0;

    for (size_t i = 0; i < count && r >= 0; i++) {
        struct kr_config_origin origin = {
            .source = KR_FROM_ENVIRONMENT, .name = kr_config_env_name(&rows[i]), .folder = folder_of(l)};
        const char *value = find_variable(l->how->environment, origin.name);
        const struct kr_config_alias *alias = NULL;

        /* Ours hides a document's, which may be meant for another program: PORT, DEBUG, API_KEY are common names. */
        for (size_t a = 0; (!value || !*value) && a < KR_CONFIG_ALIASES_MAX && rows[i].env[a].name; a++) {
            alias = &rows[i].env[a];
            origin.name = alias->name;
            value = find_variable(l->how->environment, alias->name);
        }
        if (value && *value)
            r = set_named(l, &rows[i], alias, value, &origin, err);
    }
    for (size_t i = 0; i < kr_config_foreign_count && r >= 0; i++) {
        const char *value = find_variable(l->how->environment, kr_config_foreign_rows[i].name);

        if (value)
            r = take_foreign(l, &kr_config_foreign_rows[i], value, err);
    }
    return r < 0 ? r : judge_strangers(l, err);
}

static int on_dotenv_pair(void *data, const char *name, const char *value, unsigned line, struct kr_err *err)
{
    struct load *l = data;
    const struct kr_config_alias *alias;
    const struct kr_config_row *row = kr_config_by_env(name, &alias);
    const struct kr_config_foreign *foreign = row ? NULL : kr_config_foreign(name);
    const char *names[NAMES_MAX + 1];
    char hint[80];

    if (l->how->strange_env && strncmp(name, "KRAIT_", 6) != 0 && strncmp(name, "SANDBOX_", 8) != 0)
        return 0;
    if (row) {
        struct kr_config_origin origin = {.source = KR_FROM_DOTENV,
                                          .name = alias ? alias->name : kr_config_env_name(row),
                                          .file = l->file,
                                          .line = line,
                                          .folder = folder_of(l)};

        return value[0] ? set_named(l, row, alias, value, &origin, err) : 0;
    }
    if (foreign)
        return take_foreign(l, foreign, value, err);
    known_names(names);
    kr_err_set(err, KR_ERR_INVALID, 0, "unknown name '%.64s'%s", name, did_you_mean(name, names, hint, sizeof hint));
    return -EINVAL;
}

/* ---- krait.toml ---- */

static int unknown_key(const char *section, const char *key, struct kr_err *err)
{
    const char *keys[NAMES_MAX + 1], *sections[NAMES_MAX + 1], *elsewhere = NULL;
    size_t count, n = 0, s = 0;
    const struct kr_config_row *rows = kr_config_rows(&count);
    char hint[80];

    for (size_t i = 1; i < kr_config_sections_count; i++)
        sections[s++] = kr_config_sections[i].name;
    sections[s] = NULL;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].section && strcmp(rows[i].key, key) == 0 && !elsewhere)
            elsewhere = rows[i].section;
        if (rows[i].section && (strcmp(rows[i].section, section) == 0 || !section[0]))
            keys[n++] = rows[i].key;
    }
    keys[n] = NULL;
    if (n == 0)
        kr_err_set(err, KR_ERR_INVALID, 0, "unknown section '%s'%s", section,
                   did_you_mean(section, sections, hint, sizeof hint));
    else if (elsewhere)
        kr_err_set(err, KR_ERR_INVALID, 0, "'%s' belongs to [%s]", key, elsewhere);
    else
        kr_err_set(err, KR_ERR_INVALID, 0, "unknown key '%s'%s", key, did_you_mean(key, keys, hint, sizeof hint));
    return -EINVAL;
}

/* Is a value of this type what the row takes? NULL, or what it should be. */
static const char *wrong_type(const struct kr_config_row *row, enum kr_toml_type type)
{
    if (kr_config_is_list(row))
        return type == KR_TOML_ARRAY ? NULL : "an array of strings";
    if (row->type == KR_SET_BOOL)
        return type == KR_TOML_BOOLEAN ? NULL : "true or false";
    if (row->type == KR_SET_COUNT)
        return type == KR_TOML_INTEGER ? NULL : "a whole number";
    if (kr_config_is_number(row))
        return type == KR_TOML_INTEGER || type == KR_TOML_STRING ? NULL : "a string or a whole number";
    return type == KR_TOML_STRING ? NULL : "a string";
}

static int set_toml(struct load *l, const struct kr_config_row *row, const struct kr_toml_value *v,
                    const struct kr_config_origin *origin, struct kr_err *err)
{
    const char *right = wrong_type(row, v->type);
    char number[32];

    if (right) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%s.%s is %s, and not a%s %s; for example %s", row->section, row->key, right,
                   v->type == KR_TOML_ARRAY ? "n" : "", kr_toml_type_names[v->type], row->example);
        return -EINVAL;
    }
    if (v->type == KR_TOML_ARRAY)
        return kr_config_set_items(l->c, row, v->items, v->count, origin, err);
    snprintf(number, sizeof number, "%lld", (long long)v->integer);
    return kr_config_set(l->c, row,
                         v->type == KR_TOML_STRING    ? v->string
                         : v->type == KR_TOML_BOOLEAN ? (v->boolean ? "true" : "false")
                                                      : number,
                         origin, err);
}

static int on_toml_pair(void *data, const char *section, const char *key, const struct kr_toml_value *v, unsigned line,
                        struct kr_err *err)
{
    struct load *l = data;
    const struct kr_config_row *row = kr_config_by_key(section, key);
    const struct kr_config_foreign *foreign;
    struct kr_config_origin origin = {.source = KR_FROM_TOML, .file = l->file, .line = line, .folder = folder_of(l)};
    char full[2 * KR_TOML_NAME_MAX + 2];

    if (row)
        return set_toml(l, row, v, &origin, err);
    snprintf(full, sizeof full, "%s.%s", section, key);
    foreign = kr_config_foreign(full);
    if (foreign)
        return take_foreign(l, foreign, v->type == KR_TOML_BOOLEAN && !v->boolean ? "false" : "true", err);
    return unknown_key(section, key, err);
}

/* ---- files ---- */

static int parse_text(struct load *l, const char *file, char *text, size_t len, bool is_toml, struct kr_err *err)
{
    struct kr_words *files = &l->c->origins->files;
    int r = kr_config_list_add(files, file);

    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the configuration");
    l->file = files->items[files->count - 1];
    r = is_toml ? kr_toml_parse(l->file, text, len, on_toml_pair, l, err)
                : kr_dotenv_parse(l->file, text, len, on_dotenv_pair, l, err);
    explicit_bzero(text, len); /* keys stand there */
    l->file = NULL;
    return r < 0 ? r : 1;
}

/* One that was named, by its absolute path. */
static int take_named(struct load *l, const char *path, bool is_toml, struct kr_err *err)
{
    cleanup_free char *text = NULL, *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    size_t len;
    int r;

    if (!slash) /* the path is absolute: there is one */
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the configuration");
    r = kr_config_read_named(l->how->tray, path, is_toml ? KR_TOML_TEXT_MAX : KR_DOTENV_TEXT_MAX, &text, &len, err);
    if (r < 0)
        return r;
    slash[slash == folder] = '\0';
    l->file_folder = folder;
    r = parse_text(l, path, text, len, is_toml, err);
    l->file_folder = NULL;
    return r;
}

/* Does .env of the current folder count? */
static bool reads_dotenv(const struct load *l)
{
    return l->how->files ||
           (l->how->strange_env && kr_config_given(l->c, "dialect") && kr_dialects[l->c->dialect].mcp_reads_dotenv);
}

/* One of the current folder, if there is one that counts. 1 if it was read, 0 or -errno. */
static int take_here(struct load *l, const char *name, bool is_toml, struct kr_err *err)
{
    cleanup_free char *text = NULL;
    char why[192];
    size_t len;
    int r;

    if (!(is_toml ? l->how->files : reads_dotenv(l)) || l->c->no_files)
        return 0;
    r = kr_config_read_here(l->how->tray, name, is_toml ? KR_TOML_TEXT_MAX : KR_DOTENV_TEXT_MAX, &text, &len, why,
                            sizeof why, err);
    if (why[0])
        kr_config_note(l->c, "%s", why);
    return r == 1 ? parse_text(l, name, text, len, is_toml, err) : r;
}

static int take_files(struct load *l, struct kr_err *err)
{
    int r = l->c->env_file ? take_named(l, l->c->env_file, false, err) : take_here(l, ".env", false, err);

    if (r < 0)
        return r;
    if (l->c->config_file)
        return take_named(l, l->c->config_file, true, err);
    r = take_here(l, "krait.toml", true, err);
    /* The one document with a file of settings calls it so. */
    if (r == 0 && kr_config_given(l->c, "dialect") && kr_dialects[l->c->dialect].reads_config_toml)
        r = take_here(l, "config.toml", true, err);
    return r;
}

/* ---- all of it ---- */

static struct kr_config *new_config(void)
{
    struct kr_config *c = calloc(1, sizeof *c);
    size_t count;

    kr_config_rows(&count);
    if (!c)
        return NULL;
    c->cells.level = -1;
    c->origins = calloc(1, sizeof *c->origins);
    if (c->origins)
        c->origins->rows = calloc(count, sizeof *c->origins->rows);
    if (c->origins && c->origins->rows) {
        c->origins->count = count;
        return c;
    }
    free(c->origins);
    free(c);
    return NULL;
}

int kr_config_load(const struct kr_config_how *how, struct kr_config **ret, struct kr_err *err)
{
    cleanup_config struct kr_config *c = new_config();
    struct load l = {.c = c, .how = how};
    int r;

    if (!c)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the configuration");
    if (!getcwd(l.folder, sizeof l.folder) || l.folder[0] != '/')
        l.folder[0] = '\0';
    c->origins->tray = how->tray;
    r = take_flags(&l, err);
    if (r != 0)
        return r;
    r = take_environment(&l, err);
    if (r >= 0)
        r = take_files(&l, err);
    if (r >= 0)
        r = kr_config_finish(c, how->environment, err);
    c->origins->tray = NULL;
    if (r < 0)
        return r;
    *ret = steal_ptr(&c);
    return 0;
}

void kr_config_free(struct kr_config *c)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    if (!c)
        return;
    for (size_t i = 0; i < count; i++)
        kr_config_clear(c, &rows[i]);
    kr_user_rules_done(&c->user_rules);
    kr_config_list_free(&c->notes);
    kr_config_list_free(&c->origins->files);
    free(c->origins->rows);
    free(c->origins);
    free(c);
}

void kr_config_forget_secrets(struct kr_config *c)
{
    size_t count;
    const struct kr_config_row *rows = kr_config_rows(&count);

    for (size_t i = 0; i < count; i++)
        if (rows[i].type == KR_SET_SECRET)
            kr_config_clear(c, &rows[i]);
}

void kr_config_cleanup_(struct kr_config **c)
{
    kr_config_free(*c);
}
