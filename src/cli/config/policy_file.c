/* Reading a policy file.
 *
 * Called by config_policy_file.c and `krait check`, and fuzzed by tests/fuzz/fuzz-policy-file.c. Invariants: a file
 * that is wrong in any place gives no rules at all; a key of [user-NAME] stands in the place of the same key of
 * [policy], and what that user has is whole in one rule; a module that is denied is in no list, and a denial that a
 * list could not keep is an error. */
#include "policy_file.h"
#include "options.h"
#include "toml.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define USER_PREFIX "user-"
#define SECTIONS_FIRST 4u /* there is room for, before more is made */

enum key { KEY_POLICY, KEY_PROFILES, KEY_ALLOW, KEY_DENY, KEY_NAME, KEY_MAX_ };
static const char *const key_names[] = {"policy", "profiles", "allow", "deny", "name"};
static_assert(sizeof key_names / sizeof *key_names == KEY_MAX_, "every key has its name");

/* A section as it stands in the file; lines[] is 0 where a key was not given. */
struct section {
    char label[KR_TOML_NAME_MAX + 1];
    char user[KR_USER_RULE_NAME_ROOM];
    unsigned lines[KEY_MAX_];
    enum kr_policy mode;
    uint32_t profiles;
    struct kr_policy_ask allow, deny; /* their imports */
    uint32_t limited;
    struct kr_limits ceilings;
};

struct reader {
    const char *name;
    struct section *sections; /* the first is [policy], given or not */
    size_t count, room;
};

/* ---- sections ---- */

static struct section *section_of(struct reader *r, const char *label)
{
    for (size_t i = 1; i < r->count; i++)
        if (strcmp(r->sections[i].label, label) == 0)
            return &r->sections[i];
    return NULL;
}

static int grow(struct reader *r, struct kr_err *err)
{
    size_t room = 2 * r->room;
    struct section *more;

    if (r->count < r->room)
        return 0;
    more = reallocarray(r->sections, room, sizeof *more);
    if (!more)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the policy file");
    r->sections = more;
    r->room = room;
    return 0;
}

static int add_section(struct reader *r, const char *label, struct kr_err *err)
{
    const char *user = label + strlen(USER_PREFIX);
    struct section *s;
    int e;

    if (strncmp(label, USER_PREFIX, strlen(USER_PREFIX)) != 0 || !*user)
        return kr_err_set(err, KR_ERR_INVALID, 0,
                          "[%.64s] is not a section of a policy file; [policy] and [user-NAME] are", label),
               -EINVAL;
    if (r->count == KR_USER_RULES_MAX)
        return kr_err_set(err, KR_ERR_INVALID, 0, "more than %u sections", KR_USER_RULES_MAX), -EINVAL;
    if ((e = grow(r, err)) < 0)
        return e;
    s = &r->sections[r->count++];
    *s = (struct section){0};
    snprintf(s->label, sizeof s->label, "%s", label);
    snprintf(s->user, sizeof s->user, "%.*s", (int)sizeof s->user - 1, user);
    return 0;
}

/* ---- keys ---- */

static int wrong_type(const char *key, const struct kr_toml_value *v, const char *right, struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "%s: a %s; %s is right", key, kr_toml_type_names[v->type], right),
           -EINVAL;
}

static int read_modules(struct kr_policy_ask *ask, const char *key, const struct kr_toml_value *v, struct kr_err *err)
{
    struct kr_err why;

    if (v->type != KR_TOML_ARRAY)
        return wrong_type(key, v, "an array of modules, as [\"yaml\"],", err);
    kr_policy_ask_no_imports(ask);
    for (size_t i = 0; i < v->count; i++) {
        int r = kr_policy_ask_import(ask, v->items[i], &why);

        if (r == -EINVAL)
            return kr_err_set(err, KR_ERR_INVALID, 0, "%s: \"%.60s\" is not the name of a module", key, v->items[i]),
                   -EINVAL;
        if (r < 0)
            return kr_err_set(err, KR_ERR_INVALID, 0, "%s: more than %u modules, or %d bytes", key,
                              KR_POLICY_IMPORTS_MAX, KR_POLICY_IMPORTS_ROOM - 1),
                   -EINVAL;
    }
    return 0;
}

static int read_profiles(struct section *s, const struct kr_toml_value *v, struct kr_err *err)
{
    struct kr_policy_ask ask = {0};
    int r = 0;

    if (v->type != KR_TOML_ARRAY)
        return wrong_type("profiles", v, "an array, as [\"basic\", \"data_science\"],", err);
    kr_policy_ask_basic(&ask);
    for (size_t i = 0; i < v->count && r >= 0; i++)
        r = kr_policy_ask_profile(&ask, v->items[i], err);
    s->profiles = ask.profiles;
    return r;
}

static int read_mode(struct section *s, const struct kr_toml_value *v, struct kr_err *err)
{
    struct kr_policy_ask ask = {0};
    int r;

    if (v->type != KR_TOML_STRING)
        return wrong_type("policy", v, "\"open\" or \"restricted\"", err);
    r = kr_policy_ask_mode(&ask, v->string, err);
    s->mode = ask.mode;
    return r;
}

static int read_name(struct section *s, bool is_common, const struct kr_toml_value *v, struct kr_err *err)
{
    if (is_common)
        return kr_err_set(err, KR_ERR_INVALID, 0, "name: [policy] is for all users"), -EINVAL;
    if (v->type != KR_TOML_STRING || !v->string[0] || strlen(v->string) >= sizeof s->user)
        return wrong_type("name", v, "the name of a user, 1 to 64 bytes,", err);
    snprintf(s->user, sizeof s->user, "%s", v->string);
    return 0;
}

static int read_limit(struct section *s, const struct kr_limit_row *row, const struct kr_toml_value *v,
                      struct kr_err *err)
{
    char text[24];
    int r;

    if (v->type != KR_TOML_STRING && v->type != KR_TOML_INTEGER)
        return wrong_type(row->name, v, row->example, err);
    snprintf(text, sizeof text, "%" PRId64, v->integer);
    s->limited |= 1u << (row - kr_limit_rows);
    r = kr_limit_parse(row, v->type == KR_TOML_STRING ? v->string : text, kr_limit_at(&s->ceilings, row), err);
    if (r < 0 && strncmp(err->msg, "--", 2) == 0) /* it is no option here */
        memmove(err->msg, err->msg + 2, strlen(err->msg + 2) + 1);
    return r;
}

static int unknown_key(const char *key, struct kr_err *err)
{
    const char *names[KEY_MAX_ + 33] = {0};
    const char *near;
    size_t n = 0;

    for (size_t i = 0; i < KEY_MAX_; i++)
        names[n++] = key_names[i];
    for (size_t i = 0; i < kr_limit_rows_count && n + 1 < sizeof names / sizeof *names; i++)
        names[n++] = kr_limit_rows[i].name;
    near = kr_opt_nearest(key, names);
    return kr_err_set(err, KR_ERR_INVALID, 0, "%.64s is not a key of a policy file%s%s%s", key,
                      near ? "; did you mean " : "", near ? near : "", near ? "?" : ""),
           -EINVAL;
}

static int read_key(struct section *s, bool is_common, const char *key, const struct kr_toml_value *v, unsigned line,
                    struct kr_err *err)
{
    const struct kr_limit_row *row = strchr(key, '-') ? NULL : kr_limit_find(key);
    unsigned i;

    if (row)
        return read_limit(s, row, v, err);
    for (i = 0; i < KEY_MAX_ && strcmp(key_names[i], key) != 0; i++)
        ;
    if (i == KEY_MAX_)
        return unknown_key(key, err);
    s->lines[i] = line;
    switch ((enum key)i) {
    case KEY_POLICY:
        return read_mode(s, v, err);
    case KEY_PROFILES:
        return read_profiles(s, v, err);
    case KEY_ALLOW:
        return read_modules(&s->allow, key, v, err);
    case KEY_DENY:
        return read_modules(&s->deny, key, v, err);
    case KEY_NAME:
        return read_name(s, is_common, v, err);
    case KEY_MAX_:
        break;
    }
    return -EINVAL;
}

static int on_pair(void *data, const char *section, const char *key, const struct kr_toml_value *v, unsigned line,
                   struct kr_err *err)
{
    struct reader *r = data;
    bool is_common = strcmp(section, "policy") == 0;
    int e = 0;

    if (!section[0])
        return kr_err_set(err, KR_ERR_INVALID, 0, "%.64s: stands in no section; [policy] is for all users", key),
               -EINVAL;
    if (!is_common && !section_of(r, section))
        e = add_section(r, section, err);
    return e < 0 ? e : read_key(is_common ? &r->sections[0] : section_of(r, section), is_common, key, v, line, err);
}

/* ---- what follows ---- */

/* The section's own keys in the place of those of all users. */
static struct section merge(const struct section *common, const struct section *own)
{
    struct section m = *own;
    struct kr_limits from = common->ceilings;
    bool is_open = own->lines[KEY_POLICY] && own->mode == KR_POLICY_OPEN; /* lists of others do not concern it */

    if (!m.lines[KEY_POLICY])
        m.mode = common->mode;
    if (!m.lines[KEY_PROFILES])
        m.profiles = common->profiles;
    if (!m.lines[KEY_ALLOW])
        m.allow = common->allow;
    if (!m.lines[KEY_DENY])
        m.deny = common->deny;
    for (unsigned i = 0; i < KEY_MAX_ && !is_open; i++)
        if (!m.lines[i])
            m.lines[i] = common->lines[i];
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        if (!(m.limited & 1u << i))
            *kr_limit_at(&m.ceilings, &kr_limit_rows[i]) = *kr_limit_at(&from, &kr_limit_rows[i]);
    m.limited |= common->limited;
    return m;
}

static int refuse(const struct reader *r, const struct section *s, enum key key, const char *why, struct kr_err *err)
{
    return kr_err_set(err, KR_ERR_INVALID, 0, "%.80s:%u: %s: %s", r->name, s->lines[key], key_names[key], why), -EINVAL;
}

/* Whether `module` is `item` or below it. */
static bool is_below(const char *module, const char *item)
{
    size_t len = strlen(item);

    return strncmp(module, item, len) == 0 && (module[len] == '\0' || module[len] == '.');
}

/* Calls back with each module of a list with commas, until it returns other than 0. */
static int each_module(const char *list, int (*fn)(void *data, const char *module), void *data)
{
    char module[KR_POLICY_MODULE_MAX + 1];
    int r = 0;

    while (*list && r == 0) {
        size_t len = strcspn(list, ",");

        snprintf(module, sizeof module, "%.*s", (int)len, list);
        r = fn(data, module);
        list += len + (list[len] == ',');
    }
    return r;
}

struct listing {
    const struct section *section;
    struct kr_policy_ask made;
    const char *module; /* that is looked at */
    char part[KR_POLICY_MODULE_MAX + 1];
    struct kr_err err;
};

/* 1: the module is denied; -EINVAL: a part of it is. */
static int judge_denial(void *data, const char *denied)
{
    struct listing *l = data;

    if (is_below(l->module, denied))
        return 1;
    if (!is_below(denied, l->module))
        return 0;
    snprintf(l->part, sizeof l->part, "%s", denied);
    return -EINVAL;
}

static int take_module(void *data, const char *module)
{
    struct listing *l = data;
    int r;

    l->module = module;
    r = each_module(l->section->deny.imports, judge_denial, l);
    if (r == -EINVAL)
        kr_err_set(&l->err, KR_ERR_INVALID, 0, "%.60s is a part of %.60s, which is allowed as a whole; deny that",
                   l->part, module);
    return r < 0 ? r : r == 1 ? 0 : kr_policy_ask_import(&l->made, module, &l->err);
}

/* The modules of its profiles, and what is allowed beside them, without what is denied. */
static int list_modules(const struct reader *r, const struct section *s, struct kr_policy_spec *ret, struct kr_err *err)
{
    struct listing l = {.section = s};
    int e = 0;

    if (!s->lines[KEY_ALLOW] && !s->lines[KEY_DENY])
        return 0;
    kr_policy_ask_no_imports(&l.made);
    for (int i = 0; i < KR_POLICY_PROFILE_MAX_; i++)
        for (const char *const *m = kr_policy_profiles[i].modules; (ret->profiles & KR_POLICY_BIT(i)) && *m && e >= 0;
             m++)
            e = take_module(&l, *m);
    if (e >= 0)
        e = each_module(s->allow.imports, take_module, &l);
    if (e < 0)
        return refuse(r, s, s->lines[KEY_DENY] && e == -EINVAL ? KEY_DENY : KEY_ALLOW, l.err.msg, err);
    ret->has_imports = true;
    memcpy(ret->imports, l.made.imports, sizeof ret->imports);
    return 0;
}

static int make_policy(const struct reader *r, const struct section *s, struct kr_user_rule *rule, struct kr_err *err)
{
    static const enum key restricting[] = {KEY_PROFILES, KEY_ALLOW, KEY_DENY};

    for (size_t i = 0; i < sizeof restricting / sizeof *restricting; i++)
        if (s->lines[restricting[i]] && !(s->lines[KEY_POLICY] && s->mode == KR_POLICY_RESTRICTED))
            return refuse(r, s, restricting[i], "needs policy = \"restricted\" beside it", err);
    rule->has_policy = s->lines[KEY_POLICY] != 0;
    rule->policy.mode = s->mode;
    if (s->mode == KR_POLICY_OPEN)
        return 0;
    rule->policy.profiles = s->profiles | KR_POLICY_BIT(KR_POLICY_BASIC);
    return list_modules(r, s, &rule->policy, err);
}

static int make_rule(const struct reader *r, const struct section *own, struct kr_user_rule *rule, struct kr_err *err)
{
    struct section s = own == r->sections ? *own : merge(&r->sections[0], own);

    *rule = (struct kr_user_rule){.limited = s.limited, .ceilings = s.ceilings};
    memcpy(rule->user, s.user, sizeof rule->user);
    return make_policy(r, &s, rule, err);
}

static int check_names(const struct reader *r, struct kr_err *err)
{
    for (size_t i = 1; i < r->count; i++)
        for (size_t k = 1; k < i; k++)
            if (strcasecmp(r->sections[i].user, r->sections[k].user) == 0)
                return kr_err_set(err, KR_ERR_INVALID, 0, "%.80s: [%.64s] and [%.64s] are both for the user %.64s",
                                  r->name, r->sections[k].label, r->sections[i].label, r->sections[i].user),
                       -EINVAL;
    return 0;
}

/* The sections, whole and by themselves. 0 or -errno. */
static int read_sections(struct reader *r, const char *text, size_t len, struct kr_err *err)
{
    int e;

    r->sections = calloc(SECTIONS_FIRST, sizeof *r->sections);
    if (!r->sections)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the policy file");
    r->room = SECTIONS_FIRST;
    r->count = 1;
    snprintf(r->sections[0].label, sizeof r->sections[0].label, "policy");
    e = kr_toml_parse(r->name, text, len, on_pair, r, err);
    return e < 0 ? e : check_names(r, err);
}

static int make_rules(const struct reader *r, struct kr_user_rules *ret, struct kr_err *err)
{
    struct kr_user_rule *rules = calloc(r->count + 1, sizeof *rules); /* never of nothing */
    int e = 0;

    if (!rules)
        return kr_err_set(err, KR_ERR_SYSTEM, ENOMEM, "the policy file");
    for (size_t i = 0; i < r->count && e >= 0; i++)
        e = make_rule(r, &r->sections[i], &rules[i], err);
    if (e < 0) {
        free(rules);
        return e;
    }
    *ret = (struct kr_user_rules){.rules = rules, .count = r->count};
    return 0;
}

int kr_policy_file_parse(const char *name, const char *text, size_t len, struct kr_user_rules *ret, struct kr_err *err)
{
    struct reader r = {.name = name};
    int e = read_sections(&r, text, len, err);

    if (e >= 0)
        e = make_rules(&r, ret, err);
    free(r.sections);
    return e;
}
