/* A sandbox's settings: one row each. The row drives the check and the effect of a value, the JSON in the store, the
 * fields of REST and MCP (src/api/sandbox_fields.c), OpenAPI and docs/reference/sandbox-settings.md (`krait dump
 * sandbox-settings`). A new setting is a row here and the code that obeys it. docs/design/domain.md has the order in
 * which values count. */
#pragma once
#include "box.h"
#include <stdio.h>

#define KR_SANDBOX_SETTINGS_MAX 16u /* rows that the tables derived from this one have room for */

/* What a value is in JSON. */
enum kr_setting_type {
    KR_SETTING_WORD,   /* one of .words */
    KR_SETTING_RULE,   /* the text of a network rule (net_rule.h) */
    KR_SETTING_LIMITS, /* an object: limits by name (kr_limit_rows), numbers or texts */
    KR_SETTING_TEXTS,  /* an object: names and texts */
    KR_SETTING_NAMES,  /* an array of texts */
    KR_SETTING_TYPE_MAX_,
};

/* How a value meets the one it changes: the server's default, or what the sandbox had. */
enum kr_setting_merge {
    KR_SETTING_REPLACES, /* as a whole */
    KR_SETTING_JOINS,    /* member by member; a member that is null is taken away */
    KR_SETTING_MERGE_MAX_,
};

/* What the server allows; what a sandbox leaves out is the server's, too. */
struct kr_setting_server {
    const struct kr_box_config *config;
    const struct kr_profile *profile; /* the caller's: limits and ceilings */
    const struct kr_limits
        *highest;      /* a limit past the profile's ceiling, but not past this, counts as the ceiling; NULL:
                                       * it is refused */
    uint32_t preloads; /* bits of enum kr_preload: those that have a zygote */
};

struct kr_sandbox_setting {
    const char *name;
    enum kr_setting_type type;
    enum kr_setting_merge merge;
    const char *const *words; /* WORD: NULL terminated */
    unsigned max;             /* characters, members or items; 0: no bound of its own */
    bool secret;              /* texts in it leave the server in no reply, error or log */
    bool rest_only;           /* no tool of MCP takes it: what its owner decides, and no model */
    bool unlisted;            /* tools take it, and do not list it: every model would read it */
    const char *run_fields;   /* fields of a run that change it for that run, by comma; NULL: a run cannot */
    /* Makes the value what holds in the sandbox; NULL: the server's default. 0, or -errno with err naming the
     * setting. */
    int (*apply)(const struct kr_setting_server *server, const json_t *value, struct kr_sandbox *s, struct kr_err *err);
    /* Writes what holds; NULL: replies tell only what was set. */
    void (*tell)(struct kr_json *j, const struct kr_sandbox *s);
    const char *bound;   /* what is allowed, as a phrase */
    const char *help;    /* a sentence */
    const char *example; /* a word, or JSON */
};
extern const struct kr_sandbox_setting kr_sandbox_settings[];
extern const size_t kr_sandbox_settings_count;

/* Fills what the settings say; what they leave out is the server's, and NULL leaves out all. A member that is no
 * setting is refused by name. 0 or -errno. */
int kr_sandbox_settings_apply(const struct kr_setting_server *server, const json_t *settings, struct kr_sandbox *s,
                              struct kr_err *err);
/* The server's policy, narrowed by the settings as far as they can be read, or, if they cannot be, to no module at
 * all: for settings that are refused as a whole and must not widen anything by that. */
void kr_sandbox_settings_keep_policy(const struct kr_setting_server *server, const json_t *settings,
                                     struct kr_sandbox *s);
/* Changes as a client sends them, into the settings: null takes a setting away. 0 or -ENOMEM. */
int kr_sandbox_settings_change(json_t *settings, const json_t *changes);
/* As they were set; of a secret one only the names. */
void kr_sandbox_settings_json(struct kr_json *j, const json_t *settings);
/* Members of an open object: what holds, of the rows that tell it. */
void kr_sandbox_settings_tell(struct kr_json *j, const struct kr_sandbox *s);
/* Variables of an environment as a client may give them: 0 or -EINVAL. NULL is fine. */
int kr_box_env_check(const json_t *env, struct kr_err *err);
/* The reference page. */
void kr_sandbox_settings_dump(FILE *out);
