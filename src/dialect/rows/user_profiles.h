/* The profiles of users, where a policy file has rules for them: each caller has the profile of its listener as its
 * user's rule has it: another policy, lower ceilings. */
#pragma once
#include "profile.h"
#include "user_rules.h"

struct kr_user_profiles;

struct kr_user_profiles *kr_user_profiles_new(void); /* NULL: no memory */
void kr_user_profiles_free(struct kr_user_profiles *p);
/* Makes all profiles anew: of these rules (borrowed; they may be empty), and of these profiles by enum kr_dialect.
 * Those that were given out stay where they are and change. 0 or -ENOMEM, and nothing has changed. */
int kr_user_profiles_set(struct kr_user_profiles *p, const struct kr_user_rules *rules,
                         const struct kr_profile *profiles);
/* Are there rules at all? */
bool kr_user_profiles_rule(const struct kr_user_profiles *p);
/* The profile for a user of this name with a listener of this dialect. NULL: whose name it is cannot be told: the
 * profile allows nothing, and `is_refused` is set. Lives as long as the table. */
const struct kr_profile *kr_user_profile(const struct kr_user_profiles *p, const char *user, enum kr_dialect dialect);
