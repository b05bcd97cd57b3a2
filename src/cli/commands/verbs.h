/* Commands with verbs that work on a data directory's store: `krait keys create`, `krait users add`. What they share:
 * finding the verb, options before and behind its operands, the store, lists, JSON. */
#pragma once
#include "commands.h"
#include "exit_status.h"
#include "json.h"
#include "store_user.h"
#include <stdbool.h>

struct kr_config;

#define KR_VERB_OPERANDS_MAX 2

/* The head of each command's struct of options. */
struct kr_verb_options {
    const char *data; /* NULL: krait serve's default */
    bool json;
};

struct kr_verb_call {
    void *options; /* the command's struct */
    const char *operands[KR_VERB_OPERANDS_MAX];
    int count;
    struct kr_store *store;
    char data[4096]; /* the data directory */
};

struct kr_verb {
    const char *name;
    const char *operands; /* "NAME", for help */
    int least, most;      /* operands */
    bool creates;         /* makes the data directory's store if there is none */
    const char *flags;    /* the options it takes beyond --data and --json, a blank between */
    int (*run)(struct kr_verb_call *c, struct kr_err *err); /* 0, or -errno with err */
    const char *help;
};

struct kr_verbs {
    const struct kr_opt_table *table;
    const struct kr_verb *rows;
    size_t count;
};

/* The rows of the table of every such command. */
/* clang-format off */
#define KR_VERB_ROWS(type_) \
    { .name = "data", .type = KR_OPT_TEXT, .offset = offsetof(type_, common.data), .value = "DIR", \
      .fallback = "KRAIT_DATA; /var/lib/krait as root, else ~/.local/state/krait", .example = "/srv/krait", \
      .help = "The data folder of `krait serve`." }, \
    { .name = "json", .type = KR_OPT_FLAG, .offset = offsetof(type_, common.json), .example = "--json", \
      .help = "Print one JSON object." }
/* clang-format on */

/* Does the whole command; `options` is zeroed. Returns the exit status. */
int kr_verbs_main(const struct kr_verbs *v, int argc, char **argv, void *options);

/* A command without verbs, which has one row: its options and operands, and the data directory; no store is opened. 0,
 * KR_OPT_HELP (the help was printed), or -errno with err. */
int kr_verbs_begin(const struct kr_verbs *v, int argc, char **argv, struct kr_verb_call *c, struct kr_err *err);

/* The settings of the server that say where its data is, and its shelf; NULL: not given. 0 and *ret, or -errno. */
int kr_verbs_config(const char *data, const char *shelf, struct kr_config **ret, struct kr_err *err);

/* The user of that name or, failing that, of that id. 0 or -ENOENT. */
int kr_verbs_user(struct kr_store *s, const char *name, struct kr_store_user *ret_user, struct kr_err *err);
/* A row of the audit log: root did it, at the command line. A failure is printed on stderr and ignored. */
void kr_verbs_audit(struct kr_store *s, const char *what, const char *object);
/* "2027-01-15 08:00", local time; "-" for 0. Returns buf. */
#define KR_VERBS_TIME_ROOM 24
const char *kr_verbs_time(int64_t us, char buf[KR_VERBS_TIME_ROOM]);
/* A time as the HTTP API writes it: seconds since 1970, null for 0. */
void kr_verbs_json_time(struct kr_json *j, const char *key, int64_t us);
void kr_verbs_json_rights(struct kr_json *j, unsigned rights);
/* Prints what was written, a line. 0 or -EIO. */
int kr_verbs_print(struct kr_json *j, struct kr_err *err);
