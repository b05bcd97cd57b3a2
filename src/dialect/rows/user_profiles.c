/* Profiles that follow from the rules of users.
 *
 * Called by the domain. Invariants: a profile that was given out is never freed and never moves, because sessions keep
 * it; a user whose name cannot be told gets the profile that allows nothing, never that of all users, which may be
 * wider than the user's own. */
#include "user_profiles.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>

#define ENTRIES_MAX 4096u /* names that a server has had rules for, over all readings of its file */

/* The profile as the rule has it: its policy replaces the profile's, its ceilings lower those of the profile, and the
 * defaults with them. */
static void apply_rule(const struct kr_user_rule *rule, struct kr_profile *profile)
{
    struct kr_limits ceilings = profile->ceilings, mine = rule->ceilings;

    if (rule->has_policy)
        profile->policy = rule->policy;
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        if (rule->limited & 1u << i)
            *kr_limit_at(&ceilings, &kr_limit_rows[i]) = *kr_limit_at(&mine, &kr_limit_rows[i]);
    kr_limits_lower(&ceilings, &profile->ceilings); /* never past the server's own */
    profile->ceilings = ceilings;
    kr_limits_lower(&profile->limits, &ceilings);
}

struct entry {
    SLIST_ENTRY(entry) link;
    char user[KR_USER_RULE_NAME_ROOM];
    struct kr_profile profiles[KR_DIALECT_MAX_];
};

struct kr_user_profiles {
    const struct kr_user_rules *rules;
    struct entry common, unknown; /* of users without a rule of their own; of those that cannot be told */
    SLIST_HEAD(, entry) entries;
    unsigned count;
};

struct kr_user_profiles *kr_user_profiles_new(void)
{
    struct kr_user_profiles *p = calloc(1, sizeof *p);

    if (p)
        SLIST_INIT(&p->entries);
    return p;
}

void kr_user_profiles_free(struct kr_user_profiles *p)
{
    struct entry *e;

    while (p && (e = SLIST_FIRST(&p->entries))) {
        SLIST_REMOVE_HEAD(&p->entries, link);
        free(e);
    }
    free(p);
}

static struct entry *entry_of(const struct kr_user_profiles *p, const char *user)
{
    struct entry *e;

    SLIST_FOREACH(e, &p->entries, link)
    if (strcasecmp(e->user, user) == 0)
        return e;
    return NULL;
}

static int add_entry(struct kr_user_profiles *p, const char *user)
{
    struct entry *e = p->count < ENTRIES_MAX ? calloc(1, sizeof *e) : NULL;

    if (!e)
        return -ENOMEM;
    memcpy(e->user, user, sizeof e->user);
    SLIST_INSERT_HEAD(&p->entries, e, link);
    p->count++;
    return 0;
}

static void fill_entry(struct entry *e, const struct kr_user_rule *rule, const struct kr_profile *profiles)
{
    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        e->profiles[d] = profiles[d];
        if (rule)
            apply_rule(rule, &e->profiles[d]);
    }
}

/* Nothing at all: a policy without a module, for what does not ask whether the profile is refused. */
static void fill_unknown(struct entry *e, const struct kr_profile *profiles)
{
    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        e->profiles[d] = profiles[d];
        e->profiles[d].is_refused = true;
        e->profiles[d].policy = (struct kr_policy_spec){
            .mode = KR_POLICY_RESTRICTED, .profiles = KR_POLICY_BIT(KR_POLICY_BASIC), .has_imports = true};
    }
}

int kr_user_profiles_set(struct kr_user_profiles *p, const struct kr_user_rules *rules,
                         const struct kr_profile *profiles)
{
    struct entry *e;

    for (size_t i = 1; i < rules->count; i++)
        if (!entry_of(p, rules->rules[i].user) && add_entry(p, rules->rules[i].user) < 0)
            return -ENOMEM;
    p->rules = rules;
    fill_entry(&p->common, rules->count > 0 ? &rules->rules[0] : NULL, profiles);
    fill_unknown(&p->unknown, profiles);
    SLIST_FOREACH(e, &p->entries, link)
    fill_entry(e, kr_user_rule_of(rules, e->user), profiles);
    return 0;
}

bool kr_user_profiles_rule(const struct kr_user_profiles *p)
{
    return p->rules && p->rules->count > 0;
}

const struct kr_profile *kr_user_profile(const struct kr_user_profiles *p, const char *user, enum kr_dialect dialect)
{
    const struct entry *e = user ? entry_of(p, user) : &p->unknown;

    return &(e ? e : &p->common)->profiles[dialect];
}
