/* The table of settings, for the files of the configuration alone: config.c has the rows, config_store.c turns texts
 * into values, config_load.c finds the texts, config_check.c makes a whole of them, config_text.c prints. */
#pragma once
#include "config.h"

enum kr_config_type {
    KR_SET_BOOL,    /* bool */
    KR_SET_COUNT,   /* uint64_t or uint32_t in min..max; so are the next three */
    KR_SET_SIZE,    /* bytes */
    KR_SET_TIME,    /* milliseconds */
    KR_SET_CORES,   /* thousandths */
    KR_SET_CHOICE,  /* int or enum: index in choices */
    KR_SET_TEXT,    /* char *: a word without blanks; so are the next four */
    KR_SET_SECRET,  /* never shown */
    KR_SET_PATH,    /* made absolute */
    KR_SET_ADDRESS, /* IP literal */
    KR_SET_URL,     /* http or https */
    KR_SET_INDEX,   /* the same, with "USER:PASSWORD@" or without; or a folder, as file:// */
    KR_SET_WORDS,   /* struct kr_words; from choices, if it has some */
    KR_SET_PATHS,   /* struct kr_words of absolute paths */
    KR_SET_MOUNTS,  /* struct kr_config_mounts */
    KR_SET_RULE,    /* struct kr_net_rule; the environment may say true (open) and false (none), too */
    KR_SET_MAX_,
};

/* A name of the documents' own. */
struct kr_config_alias {
    const char *name;
    const char *unit; /* what a bare number there is in, if not in ours: "M" */
};
#define KR_CONFIG_ALIASES_MAX 3u

struct kr_config_row {
    const char *section, *key;                         /* in krait.toml; section NULL: it is no setting of a file */
    const char *flag;                                  /* "max-sessions"; KRAIT_MAX_SESSIONS is made of it */
    struct kr_config_alias env[KR_CONFIG_ALIASES_MAX]; /* looked at behind ours, in this order */
    const char *old_flag;                              /* a document's name of the flag */
    enum kr_config_type type;
    size_t offset, size; /* of its member of struct kr_config */
    const char *value;
    uint64_t min, max;
    const char *zero; /* what 0 means; NULL: 0 is like any number */
    const char *const *choices;
    const char *const (*synonyms)[2]; /* other words for a choice; ends with NULL */
    const char *fallback;             /* the default as a text that parses; NULL: none, see fallback_text */
    const char *fallback_text;        /* how it is shown, if not by itself */
    const char *example, *help;
    bool reload;      /* SIGHUP may change it: what reads it reads it at each use (serve_reload.c) */
    const char *test; /* "suite:check" that gives it two values and sees a difference (tools/tree_gates.py) */
};

/* Every row, section by section in the order of kr_config_sections: those of config.c, and for each limit of
 * kr_limit_rows its default and its ceiling. */
const struct kr_config_row *kr_config_rows(size_t *ret_count);
const struct kr_config_row *kr_config_row(const char *flag); /* NULL if there is none */
struct kr_config_section {
    const char *name, *help;
};
extern const struct kr_config_section kr_config_sections[];
extern const size_t kr_config_sections_count;

/* "KRAIT_MAX_MEMORY"; of a row of kr_config_rows(). */
const char *kr_config_env_name(const struct kr_config_row *row);
/* The setting of this environment name and, if it is a document's, its alias (else NULL). */
const struct kr_config_row *kr_config_by_env(const char *name, const struct kr_config_alias **ret_alias);
const struct kr_config_row *kr_config_by_key(const char *section, const char *key);

/* Names of the documents' that krait knows and has no setting for. */
struct kr_config_foreign {
    const char *name; /* of the environment, or section.key of a file; section.* is all of them */
    bool refused;     /* it would have narrowed something: ignoring it would be unsafe */
    bool quiet;       /* nothing needs to be said */
    const char *why;
};
extern const struct kr_config_foreign kr_config_foreign_rows[];
extern const size_t kr_config_foreign_count;
const struct kr_config_foreign *kr_config_foreign(const char *name);

/* ---- origins ---- */

enum kr_config_source {
    KR_FROM_NONE,
    KR_FROM_DEFAULT,
    KR_FROM_DIALECT,
    KR_FROM_TOML,
    KR_FROM_DOTENV,
    KR_FROM_ENVIRONMENT,
    KR_FROM_FLAG,
};
struct kr_config_origin {
    enum kr_config_source source;
    const char *name; /* the flag without dashes, or the name of the environment, as it was written; static */
    const char *file; /* owned by the origins */
    unsigned line;
    const char *folder; /* what a relative path is relative to; only while it is stored */
};
struct kr_config_origins {
    size_t count;
    struct kr_config_origin *rows; /* by row */
    struct kr_words files;         /* names of files that were read */
    struct kr_config_tray *tray;   /* only while it is loaded; NULL: none */
};
struct kr_config_origin *kr_config_origin_of(const struct kr_config *c, const struct kr_config_row *row);
/* "--port", "KRAIT_PORT (environment)", "PORT", "server.port": how the row is called there, without the file. */
const char *kr_config_origin_name(const struct kr_config_row *row, const struct kr_config_origin *origin, char *buf,
                                  size_t size);

/* ---- values ---- */

/* Makes the text (or, for a list, the items) the row's value, unless an origin before this one gave it already: it is
 * checked in any case. Flags add to a list that flags began. 0, -EINVAL or -ENOMEM; the error names the row as it is
 * called at this origin, and not the file. */
int kr_config_set(struct kr_config *c, const struct kr_config_row *row, const char *text,
                  const struct kr_config_origin *origin, struct kr_err *err);
int kr_config_set_items(struct kr_config *c, const struct kr_config_row *row, const char *const *items, size_t count,
                        const struct kr_config_origin *origin, struct kr_err *err);
bool kr_config_is_list(const struct kr_config_row *row);
bool kr_config_is_number(const struct kr_config_row *row);
/* One of the five words for yes, one for no? 1, 0, or -EINVAL. */
int kr_config_bool(const char *text);
/* The number of the choice that it names, or -EINVAL. */
int kr_config_choice(const struct kr_config_row *row, const char *text);
/* The number that the text means in this row, in range; 0 or -EINVAL. */
int kr_config_number(const struct kr_config_row *row, const char *text, uint64_t *ret);
/* A number of this row's kind as a text that parses: "512M", "4h", "0.5". Returns buf. */
const char *kr_config_plain(const struct kr_config_row *row, uint64_t value, char *buf, size_t size);
/* The same for a person; 0 as what it means. */
const char *kr_config_show_number(const struct kr_config_row *row, uint64_t value, char *buf, size_t size);
/* "a size from 4 KiB to 64 KiB". Returns buf. */
const char *kr_config_range(const struct kr_config_row *row, char *buf, size_t size);
void kr_config_clear(struct kr_config *c, const struct kr_config_row *row);
int kr_config_list_add(struct kr_words *l, const char *text); /* 0 or -ENOMEM */
void kr_config_list_free(struct kr_words *l);
/* What a row of numbers or texts has now. */
uint64_t kr_config_number_of(const struct kr_config *c, const struct kr_config_row *row);
const char *kr_config_text_of(const struct kr_config *c, const struct kr_config_row *row);
/* Notes a line for the log. */
__attribute__((format(printf, 2, 3))) void kr_config_note(struct kr_config *c, const char *fmt, ...);

/* May it differ between listeners (struct kr_profile)? Other settings are the server's as a whole. */
bool kr_config_is_of_profile(const struct kr_config_row *row);
/* The row's value in this profile, or NULL: the setting is the server's as a whole. */
void *kr_config_in_profile(struct kr_profile *profile, const struct kr_config_row *row);
/* Makes the policy of each profile of the settings; behind the listeners. 0 or -errno (config_policy.c). */
int kr_config_fit_policies(struct kr_config *c, struct kr_err *err);
/* Fills what was not given, and checks values against each other. 0 or -errno. */
int kr_config_finish(struct kr_config *c, char *const *environment, struct kr_err *err);

/* Reads the policy file, if there is one; box.user_rules are its rules. 0 or -errno. */
int kr_config_read_policy_file(struct kr_config *c, struct kr_err *err);
/* The rules of another reading of the same file take the place of those of `c`. True if they differ. */
bool kr_config_take_rules(struct kr_config *c, struct kr_config *from);

/* ---- files: opened and, with a tray, kept; or answered out of a tray that is full (config_tray.h) ---- */

/* Reads a file of the current folder that is ours or root's and that no other user can write; anything else is left
 * alone. 1 and *ret_text (to be freed, NUL behind it), 0: there is none, or it does not count and `why` says so (else
 * ""); or -errno. */
int kr_config_read_here(struct kr_config_tray *tray, const char *name, size_t max, char **ret_text, size_t *ret_len,
                        char *why, size_t why_size, struct kr_err *err);
/* Reads a file that was named: any owner will do, but not one that every user can write. 0 or -errno. */
int kr_config_read_named(struct kr_config_tray *tray, const char *path, size_t max, char **ret_text, size_t *ret_len,
                         struct kr_err *err);
