/* Rules for users. Called by the configuration, by user_profiles.c and by `krait check`. */
#include "user_rules.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct kr_user_rule *kr_user_rule_of(const struct kr_user_rules *rules, const char *user)
{
    for (size_t i = 1; i < rules->count; i++)
        if (strcasecmp(rules->rules[i].user, user) == 0)
            return &rules->rules[i];
    return rules->count > 0 ? &rules->rules[0] : NULL;
}

static bool is_same_rule(const struct kr_user_rule *a, const struct kr_user_rule *b)
{
    struct kr_limits x = a->ceilings, y = b->ceilings;

    if (strcmp(a->user, b->user) != 0 || a->has_policy != b->has_policy || a->limited != b->limited ||
        (a->has_policy && !kr_policy_is_same(&a->policy, &b->policy)))
        return false;
    for (size_t i = 0; i < kr_limit_rows_count; i++)
        if ((a->limited & 1u << i) && *kr_limit_at(&x, &kr_limit_rows[i]) != *kr_limit_at(&y, &kr_limit_rows[i]))
            return false;
    return true;
}

bool kr_user_rules_same(const struct kr_user_rules *a, const struct kr_user_rules *b)
{
    for (size_t i = 0; a->count == b->count && i < a->count; i++)
        if (!is_same_rule(&a->rules[i], &b->rules[i]))
            return false;
    return a->count == b->count;
}

void kr_user_rules_done(struct kr_user_rules *rules)
{
    free(rules->rules);
    *rules = (struct kr_user_rules){0};
}
