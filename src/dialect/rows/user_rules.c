/* Rules for users. Called by `krait check`. */
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

void kr_user_rules_done(struct kr_user_rules *rules)
{
    free(rules->rules);
    *rules = (struct kr_user_rules){0};
}
