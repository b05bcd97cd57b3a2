/* What `krait keys` and `krait users` share.
 *
 * Called by cmd_keys.c and cmd_users.c. Invariant: nothing is opened before the whole command line was understood;
 * what is for a program (a key, JSON) goes to stdout, what is for a person to stderr. */
#include "verbs.h"
#include "buf.h"
#include "config.h"
#include "fd.h"
#include "serve.h"
#include "store_audit.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERBS_MAX 16

/* ---- the command line ---- */

static void verb_usage(const struct kr_verbs *v, FILE *out)
{
    char left[64];

    kr_opt_help(v->table, out);
    fprintf(out, "\nVerbs:\n");
    for (size_t i = 0; i < v->count; i++) {
        snprintf(left, sizeof left, "  %s%s%s", v->rows[i].name, v->rows[i].operands ? " " : "",
                 v->rows[i].operands ? v->rows[i].operands : "");
        kr_opt_help_line(out, left, v->rows[i].help);
    }
}

static int find_verb(const struct kr_verbs *v, const char *name, const struct kr_verb **ret, struct kr_err *err)
{
    const char *names[VERBS_MAX + 1] = {0}, *near;
    char list[160] = "";

    for (size_t i = 0; i < v->count && i < VERBS_MAX; i++) {
        size_t len = strlen(list);

        if (name && strcmp(v->rows[i].name, name) == 0) {
            *ret = &v->rows[i];
            return 0;
        }
        names[i] = v->rows[i].name;
        snprintf(list + len, sizeof list - len, "%s%s", i == 0 ? "" : i + 1 < v->count ? ", " : " or ", names[i]);
    }
    near = name ? kr_opt_nearest(name, names) : NULL;
    if (!name)
        kr_err_set(err, KR_ERR_INVALID, 0, "say what to do: %s", list);
    else
        kr_err_set(err, KR_ERR_INVALID, 0, "\"%.40s\" is none of %s%s%s%s", name, list, near ? "; did you mean " : "",
                   near ? near : "", near ? "?" : "");
    return -EINVAL;
}

/* Is the word in a list of words with a blank between? */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p && (p = strstr(p, word)); p += len)
        if ((p == list || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
            return true;
    return false;
}

static bool is_given(const struct kr_opt_row *row, const void *options)
{
    const char *at = (const char *)options + row->offset;

    return row->type == KR_OPT_FLAG ? *(const bool *)at : *(const char *const *)at != NULL;
}

/* Options that this verb has no use for are mistakes. */
static int check_flags(const struct kr_verbs *v, const struct kr_verb *verb, const void *options, struct kr_err *err)
{
    for (size_t i = 0; i < v->table->count; i++) {
        const struct kr_opt_row *row = &v->table->rows[i];

        if (!is_given(row, options) || strcmp(row->name, "data") == 0 || strcmp(row->name, "json") == 0 ||
            has_word(verb->flags, row->name))
            continue;
        kr_err_set(err, KR_ERR_INVALID, 0, "--%s has no meaning for %s", row->name, verb->name);
        return -EINVAL;
    }
    return 0;
}

/* Options and operands in any order; argv[0] is the verb. 0, KR_OPT_HELP or -EINVAL. */
static int parse(const struct kr_verbs *v, const struct kr_verb *verb, int argc, char **argv, struct kr_verb_call *c,
                 struct kr_err *err)
{
    bool all = false; /* behind a `--` */

    while (argc > 0) {
        int operand = 1, r = all ? 0 : kr_opt_parse(v->table, argc, argv, c->options, &operand, err);

        if (r != 0)
            return r;
        all = all || (operand > 1 && strcmp(argv[operand - 1], "--") == 0);
        argc -= operand;
        argv += operand;
        if (argc == 0)
            break;
        if (c->count == verb->most) {
            kr_err_set(err, KR_ERR_INVALID, 0, "%s: \"%.60s\" is too much", verb->name, argv[0]);
            return -EINVAL;
        }
        c->operands[c->count++] = argv[0];
    }
    if (c->count < verb->least) {
        kr_err_set(err, KR_ERR_INVALID, 0, "%s: %s is missing", verb->name, verb->operands);
        return -EINVAL;
    }
    return check_flags(v, verb, c->options, err);
}

/* ---- the store ---- */

/* Where `krait serve` keeps its data, and whose it is: of the environment only what is about that, so that a wrong
 * PORT does not keep a user from revoking a key. */
int kr_verbs_config(const char *data, const char *shelf, struct kr_config **ret, struct kr_err *err)
{
    static const char *const names[] = {"KRAIT_DATA=", "KRAIT_USER=", "XDG_STATE_HOME=", "HOME="};
    char *environment[sizeof names / sizeof names[0] + 1] = {0}, *argv[6] = {"serve"};
    struct kr_config_how how = {.argv = argv, .environment = environment};
    size_t count = 0;
    int argc = 1;

    if (data) {
        argv[argc++] = "--data";
        argv[argc++] = (char *)data;
    }
    if (shelf) {
        argv[argc++] = "--shelf";
        argv[argc++] = (char *)shelf;
    }
    how.argc = argc > 1 ? argc : 0;

    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
        for (char **e = environ; *e; e++)
            if (strncmp(*e, names[k], strlen(names[k])) == 0) {
                environment[count++] = *e;
                break;
            }
    return kr_config_load(&how, ret, err);
}

/* A data directory that is made here is the server's: its user's, with all that belongs in it. */
static int open_store(const struct kr_verb *verb, struct kr_verb_call *c, struct kr_store **ret, struct kr_err *err)
{
    const struct kr_verb_options *o = c->options;
    cleanup_config struct kr_config *config = NULL;
    cleanup_free struct kr_serve *server = NULL;
    int r = kr_verbs_config(o->data, NULL, &config, err);

    if (r < 0)
        return r;
    if (verb->creates && access(config->data, F_OK) < 0 && errno == ENOENT) {
        server = calloc(1, sizeof *server);
        if (!server)
            return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the data directory");
        server->config = config;
        if ((r = kr_serve_prepare_data(server, err)) < 0)
            return r;
    }
    snprintf(c->data, sizeof c->data, "%s", config->data);
    return kr_store_open(config->data, verb->creates ? KR_STORE_CREATE : 0, ret, err);
}

int kr_verbs_begin(const struct kr_verbs *v, int argc, char **argv, struct kr_verb_call *c, struct kr_err *err)
{
    cleanup_config struct kr_config *config = NULL;
    int r = parse(v, v->rows, argc, argv, c, err);

    if (r == KR_OPT_HELP) {
        kr_opt_help(v->table, stdout);
        return fflush(stdout) != 0 ? kr_err_set(err, KR_ERR_SYSTEM, errno, "stdout") : KR_OPT_HELP;
    }
    if (r >= 0)
        r = kr_verbs_config(((const struct kr_verb_options *)c->options)->data, NULL, &config, err);
    if (r < 0)
        return r;
    snprintf(c->data, sizeof c->data, "%s", config->data);
    return 0;
}

int kr_verbs_main(const struct kr_verbs *v, int argc, char **argv, void *options)
{
    struct kr_verb_call call = {.options = options};
    const struct kr_verb *verb = NULL;
    cleanup_store struct kr_store *store = NULL;
    struct kr_err err;
    int r;

    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        verb_usage(v, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    r = find_verb(v, argc >= 2 && argv[1][0] != '-' ? argv[1] : NULL, &verb, &err);
    if (r >= 0)
        r = parse(v, verb, argc - 1, argv + 1, &call, &err);
    if (r == KR_OPT_HELP) {
        verb_usage(v, stdout);
        return fflush(stdout) != 0 ? KR_EXIT_OURS : 0;
    }
    if (r >= 0)
        r = open_store(verb, &call, &store, &err);
    call.store = store;
    if (r >= 0)
        r = verb->run(&call, &err);
    if (r >= 0 && fflush(stdout) != 0)
        r = kr_err_set(&err, KR_ERR_SYSTEM, errno, "stdout");
    return r < 0 ? kr_cli_fail(v->table->command, &err) : 0;
}

/* ---- what the verbs use ---- */

int kr_verbs_user(struct kr_store *s, const char *name, struct kr_store_user *ret_user, struct kr_err *err)
{
    int r = kr_store_user_find(s, name, ret_user, NULL, err);

    if (r == -ENOENT)
        r = kr_store_user_get(s, name, ret_user, err);
    if (r == -ENOENT)
        kr_err_set(err, KR_ERR_NOT_FOUND, 0, "no user is called \"%.64s\"", name);
    return r;
}

void kr_verbs_audit(struct kr_store *s, const char *what, const char *object)
{
    char detail[64];
    const struct kr_store_audit row = {.at = kr_store_now(),
                                       .who = KR_STORE_ROOT,
                                       .what = what,
                                       .object = object,
                                       .outcome = "ok",
                                       .address = "command line",
                                       .detail = detail};
    struct kr_err err;

    snprintf(detail, sizeof detail, "{\"uid\":%u}", (unsigned)getuid());
    if (kr_store_audit_add(s, &row, &err) < 0)
        fprintf(stderr, "krait: not in the audit log, ignoring: %s\n", err.msg);
}

const char *kr_verbs_time(int64_t us, char buf[KR_VERBS_TIME_ROOM])
{
    time_t seconds = (time_t)(us / 1000000);
    struct tm tm;

    if (us == 0 || !localtime_r(&seconds, &tm) || strftime(buf, KR_VERBS_TIME_ROOM, "%Y-%m-%d %H:%M", &tm) == 0)
        snprintf(buf, KR_VERBS_TIME_ROOM, "-");
    return buf;
}

void kr_verbs_json_time(struct kr_json *j, const char *key, int64_t us)
{
    if (us)
        kr_json_key_double(j, key, (double)us / 1e6);
    else
        kr_json_key_null(j, key);
}

void kr_verbs_json_rights(struct kr_json *j, unsigned rights)
{
    kr_json_key(j, "rights");
    kr_json_array(j);
    for (size_t i = 0; i < kr_right_rows_count; i++)
        if (rights & kr_right_rows[i].bit)
            kr_json_str(j, kr_right_rows[i].name);
    kr_json_array_end(j);
}

int kr_verbs_print(struct kr_json *j, struct kr_err *err)
{
    int r = kr_json_done(j);

    if (r < 0)
        return kr_err_set(err, KR_ERR_SYSTEM, -r, "the list");
    printf("%s\n", kr_buf_str(j->buf));
    return 0;
}
