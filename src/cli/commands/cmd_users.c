/* `krait users add|list|disable|enable|delete|passwd|rights`: users in a data directory's store, whether the server
 * runs or not.
 *
 * Called from main.c. Invariant: a password comes from a terminal or stdin, never from the command line, and only its
 * hash is kept. */
#include "buf.h"
#include "fd.h"
#include "secret_input.h"
#include "store_sandbox.h"
#include "verbs.h"
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JSON_MAX (64u << 20)
#define PASSWORD_LEAST 8 /* characters, as over HTTP */

struct users_options {
    struct kr_verb_options common;
    const char *email, *rights;
    bool password, remove, yes;
};

/* clang-format off */
#define AT(field) offsetof(struct users_options, field)
static const struct kr_opt_row option_rows[] = {
    { .name = "rights", .type = KR_OPT_TEXT, .offset = AT(rights), .value = "LIST", .fallback = "read,run",
      .example = "read,run,admin", .help = "add: some of read, run, admin; or all." },
    { .name = "email", .type = KR_OPT_TEXT, .offset = AT(email), .value = "ADDRESS", .fallback = "none",
      .example = "alice@example.org", .help = "add: the user's address." },
    { .name = "password", .type = KR_OPT_FLAG, .offset = AT(password), .example = "--password",
      .help = "add: read a password, from the terminal or the first line of stdin. Without it the user has keys "
              "alone." },
    { .name = "remove", .type = KR_OPT_FLAG, .offset = AT(remove), .example = "--remove",
      .help = "passwd: take the password away." },
    { .name = "yes", .letter = 'y', .type = KR_OPT_FLAG, .offset = AT(yes), .example = "--yes",
      .help = "delete: do not ask." },
    KR_VERB_ROWS(struct users_options),
};
/* clang-format on */

const struct kr_opt_table kr_users_options_table = {
    .command = "users",
    .usage = "add|list|disable|enable|delete|passwd|rights [options] [NAME]",
    .about = "Changes users in the data folder of `krait serve`, which may be running: what a user may no longer do is "
             "refused two seconds later at the latest. NAME may be an id as well.",
    .notes = "Example: krait users add alice --password && krait keys create --user alice",
    .rows = option_rows,
    .count = sizeof option_rows / sizeof option_rows[0],
    .limits = KR_OPT_NO_LIMITS,
};

/* ---- showing ---- */

static void write_user(struct kr_json *j, const struct kr_store_user *user)
{
    kr_json_object(j);
    kr_json_key_str(j, "id", user->id);
    kr_json_key_str(j, "name", user->name);
    kr_json_key_str(j, "email", user->email[0] ? user->email : NULL);
    kr_verbs_json_rights(j, user->rights);
    kr_json_key_bool(j, "has_password", user->has_password);
    kr_verbs_json_time(j, "created_at", user->created);
    kr_verbs_json_time(j, "disabled_at", user->disabled);
    kr_json_object_end(j);
}

/* What became of the user: as JSON, or in a sentence. */
static int show(const struct kr_verb_call *c, const struct kr_store_user *user, const char *sentence,
                struct kr_err *err)
{
    const struct users_options *o = c->options;
    cleanup_buf struct kr_buf out;
    struct kr_json j;

    kr_buf_init(&out, JSON_MAX);
    if (!o->common.json) {
        fprintf(stderr, "krait users: %s (%s) %s\n", user->name, user->id, sentence);
        return 0;
    }
    kr_json_init(&j, &out);
    write_user(&j, user);
    return kr_verbs_print(&j, err);
}

static void on_user(void *data, const struct kr_store_user *user)
{
    char rights[KR_RIGHTS_ROOM], created[KR_VERBS_TIME_ROOM], disabled[KR_VERBS_TIME_ROOM];

    if (data)
        write_user(data, user);
    else
        printf("%-26s  %-20s  %-14s  %-8s  %-16s  %-16s  %s\n", user->id, user->name,
               kr_rights_show(user->rights, rights), user->has_password ? "yes" : "no",
               kr_verbs_time(user->created, created), kr_verbs_time(user->disabled, disabled), user->email);
}

static int list_users(struct kr_verb_call *c, struct kr_err *err)
{
    const struct users_options *o = c->options;
    struct kr_store_page page = {.limit = KR_STORE_PAGE_MAX};
    cleanup_buf struct kr_buf out;
    struct kr_json j;
    int r;

    kr_buf_init(&out, JSON_MAX);
    kr_json_init(&j, &out);
    kr_json_object(&j);
    kr_json_key(&j, "users");
    kr_json_array(&j);
    if (!o->common.json)
        printf("%-26s  %-20s  %-14s  %-8s  %-16s  %-16s  %s\n", "ID", "NAME", "RIGHTS", "PASSWORD", "CREATED",
               "DISABLED", "EMAIL");
    do {
        r = kr_store_users_list(c->store, &page, on_user, o->common.json ? &j : NULL, err);
        page.after = page.next;
    } while (r >= 0 && page.next[0]);
    kr_json_array_end(&j);
    kr_json_object_end(&j);
    return r < 0 ? r : o->common.json ? kr_verbs_print(&j, err) : 0;
}

/* ---- passwords ---- */

/* Characters, not bytes: those that do not go on from the one before. */
static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Reads one and hashes it. 0 or -errno. */
static int ask_hash(char hash[KR_PASSWORD_ROOM], struct kr_err *err)
{
    char text[KR_PASSWORD_MAX + 1] = "";
    size_t len = 0;
    int r = kr_secret_read("New password", text, &len, err);

    if (r == 0 && characters(text) < PASSWORD_LEAST) {
        kr_err_set(err, KR_ERR_INVALID, 0, "the password has fewer than %d characters", PASSWORD_LEAST);
        r = -EINVAL;
    }
    if (r == 0)
        r = kr_password_hash(text, len, hash, err);
    sodium_memzero(text, sizeof text);
    return r;
}

static int passwd(struct kr_verb_call *c, struct kr_err *err)
{
    const struct users_options *o = c->options;
    char hash[KR_PASSWORD_ROOM];
    struct kr_store_user user;
    int r = kr_verbs_user(c->store, c->operands[0], &user, err);

    if (r >= 0 && !o->remove)
        r = ask_hash(hash, err);
    if (r >= 0)
        r = kr_store_user_set_password(c->store, user.id, o->remove ? NULL : hash, err);
    if (r >= 0)
        r = kr_store_user_get(c->store, user.id, &user, err);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, "user.password", user.id);
    return show(c, &user, o->remove ? "has no password any more" : "has a new password; all logins have ended", err);
}

/* ---- making and changing ---- */

static int add_user(struct kr_verb_call *c, struct kr_err *err)
{
    const struct users_options *o = c->options;
    struct kr_store_user_new new = {
        .name = c->operands[0], .email = o->email, .rights = KR_RIGHT_READ | KR_RIGHT_RUN, .now = kr_store_now()};
    char hash[KR_PASSWORD_ROOM];
    struct kr_store_user user;
    int r = o->rights ? kr_rights_parse(o->rights, &new.rights, err) : 0;

    if (r >= 0 && kr_store_user_find(c->store, new.name, &user, NULL, err) == 0) {
        kr_err_set(err, KR_ERR_INVALID, 0, "name: already registered");
        return -EEXIST;
    }
    if (r >= 0 && o->password) {
        r = ask_hash(hash, err);
        new.password = hash;
    }
    if (r >= 0)
        r = kr_store_user_add(c->store, &new, &user, err);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, "user.create", user.id);
    return show(c, &user, "is made; `krait keys create --user` makes a key", err);
}

static int set_disabled(struct kr_verb_call *c, bool disabled, struct kr_err *err)
{
    struct kr_store_user user;
    int r = kr_verbs_user(c->store, c->operands[0], &user, err);

    if (r >= 0)
        r = kr_store_user_set_disabled(c->store, user.id, disabled ? kr_store_now() : 0, err);
    if (r >= 0)
        r = kr_store_user_get(c->store, user.id, &user, err);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, disabled ? "user.disable" : "user.enable", user.id);
    return show(c, &user, disabled ? "is disabled; sessions that run go on until they are idle" : "is enabled", err);
}

static int disable(struct kr_verb_call *c, struct kr_err *err)
{
    return set_disabled(c, true, err);
}

static int enable(struct kr_verb_call *c, struct kr_err *err)
{
    return set_disabled(c, false, err);
}

static int rights(struct kr_verb_call *c, struct kr_err *err)
{
    struct kr_store_user user;
    unsigned wanted;
    int r = kr_rights_parse(c->operands[1], &wanted, err);

    if (r >= 0)
        r = kr_verbs_user(c->store, c->operands[0], &user, err);
    if (r >= 0)
        r = kr_store_user_set_rights(c->store, user.id, wanted, err);
    if (r >= 0)
        r = kr_store_user_get(c->store, user.id, &user, err);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, "user.rights", user.id);
    return show(c, &user, "has other rights now", err);
}

/* ---- deleting ---- */

static int confirm(const struct kr_verb_call *c, const struct kr_store_user *user, struct kr_err *err)
{
    const struct users_options *o = c->options;
    int sandboxes = kr_store_sandboxes_count(c->store, user->id, err);
    char answer[16];

    if (sandboxes < 0 || o->yes)
        return sandboxes < 0 ? sandboxes : 0;
    if (!isatty(STDIN_FILENO)) {
        kr_err_set(err, KR_ERR_INVALID, 0, "delete: no terminal to ask on; --yes confirms it");
        return -EINVAL;
    }
    fprintf(stderr, "Delete %s with all keys, runs and files (sandboxes: %d, and the default one)? [y/N] ", user->name,
            sandboxes);
    fflush(stderr);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    kr_err_set(err, KR_ERR_DENIED, 0, "%s stays", user->name);
    return -ECANCELED;
}

/* The log of a run that is gone: the server, if there is one, forgets it with the run. */
static void on_run_gone(void *data, const char *run)
{
    char name[KR_STORE_ID_ROOM + 8];

    snprintf(name, sizeof name, "%s.log", run);
    if (*(int *)data >= 0)
        unlinkat(*(int *)data, name, 0); /* a run may have none */
}

static int delete_user(struct kr_verb_call *c, struct kr_err *err)
{
    cleanup_free char *logs = NULL;
    cleanup_fd int dir = -1;
    struct kr_store_user user;
    int r = kr_verbs_user(c->store, c->operands[0], &user, err);

    if (r >= 0)
        r = confirm(c, &user, err);
    if (r >= 0) /* first: no new run comes in between */
        r = kr_store_user_set_disabled(c->store, user.id, kr_store_now(), err);
    if (r < 0)
        return r;
    if (asprintf(&logs, "%s/logs", kr_store_dir(c->store)) < 0)
        logs = NULL;
    dir = logs ? open(logs, O_DIRECTORY | O_PATH | O_NOFOLLOW | O_CLOEXEC) : -1;
    do
        r = kr_store_user_delete(c->store, user.id, on_run_gone, &dir, err);
    while (r == 1);
    if (r < 0)
        return r;
    kr_verbs_audit(c->store, "user.delete", user.id);
    return show(c, &user, "is deleted; the server removes the files", err);
}

/* clang-format off */
static const struct kr_verb verb_rows[] = {
    {"add", "NAME", 1, 1, true, "rights email password", add_user, "Make a user."},
    {"list", NULL, 0, 0, false, "", list_users, "List users."},
    {"disable", "NAME", 1, 1, false, "", disable, "Refuse the user's keys and logins from now on."},
    {"enable", "NAME", 1, 1, false, "", enable, "Accept them again."},
    {"delete", "NAME", 1, 1, false, "yes", delete_user, "Delete the user with keys, sandboxes, files and runs."},
    {"passwd", "NAME", 1, 1, false, "remove", passwd, "Give the user a new password, or none."},
    {"rights", "NAME LIST", 2, 2, false, "", rights, "Give the user other rights: some of read, run, admin; or all."},
};
/* clang-format on */

int kr_cmd_users(int argc, char **argv)
{
    static const struct kr_verbs verbs = {&kr_users_options_table, verb_rows, sizeof verb_rows / sizeof verb_rows[0]};
    struct users_options options = {0};

    return kr_verbs_main(&verbs, argc, argv, &options);
}
