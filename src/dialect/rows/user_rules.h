/* What an administrator's policy file says of users. The file is read by cli/config (policy_file.c);
 * user_profiles.h makes profiles of it. docs/design/policy.md. */
#pragma once
#include "limit.h"
#include "policy.h"

#define KR_USER_RULES_MAX 256u     /* sections of a file */
#define KR_USER_RULE_NAME_ROOM 65u /* of a user's name, as the store has them */

struct kr_user_rule {
    char user[KR_USER_RULE_NAME_ROOM]; /* "": of all users without a rule of their own */
    bool has_policy;                   /* else the server's own settings say it */
    struct kr_policy_spec policy;
    uint32_t limited; /* bit i: `ceilings` has the ceiling of row i of kr_limit_rows */
    struct kr_limits ceilings;
};

/* The first is that of all users; each of the others is whole by itself. */
struct kr_user_rules {
    struct kr_user_rule *rules;
    size_t count;
};

/* The user's rule, by name, whatever the case of its ASCII letters, or that of all; NULL without rules. */
const struct kr_user_rule *kr_user_rule_of(const struct kr_user_rules *rules, const char *user);
bool kr_user_rules_same(const struct kr_user_rules *a, const struct kr_user_rules *b);
void kr_user_rules_done(struct kr_user_rules *rules);
