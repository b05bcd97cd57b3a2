/* The profiles that follow from a policy file. */
#include "check.h"
#include "policy_file.h"
#include "user_profiles.h"

static struct kr_err err;
static struct kr_user_rules rules;

static int load(const char *text)
{
    kr_user_rules_done(&rules);
    return kr_policy_file_parse("p.toml", text, strlen(text), &rules, &err);
}

static struct kr_profile bases[KR_DIALECT_MAX_];

static void profiles_follow(void)
{
    struct kr_user_profiles *p = kr_user_profiles_new();
    const struct kr_profile *ada, *bob, *unknown;

    for (int d = 0; d < KR_DIALECT_MAX_; d++) {
        bases[d] = (struct kr_profile){.dialect = (enum kr_dialect)d};
        kr_limits_default(&bases[d].limits);
        bases[d].ceilings.memory = 512u << 20;
        bases[d].limits.memory = 512u << 20;
    }
    CHECK(p && load("[policy]\npolicy = \"restricted\"\nmemory = \"256M\"\n[user-ada]\nmemory = \"1G\"\n") == 0);
    CHECK(kr_user_profiles_set(p, &rules, bases) == 0 && kr_user_profiles_rule(p));
    ada = kr_user_profile(p, "Ada", KR_DIALECT_KRAIT);
    bob = kr_user_profile(p, "bob", KR_DIALECT_KRAIT);
    unknown = kr_user_profile(p, NULL, KR_DIALECT_KRAIT);
    CHECK(ada != bob && ada->policy.mode == KR_POLICY_RESTRICTED && !ada->is_refused && !bob->is_refused);
    CHECK(ada->ceilings.memory == 512u << 20 && ada->limits.memory == 512u << 20); /* never past the server's own */
    CHECK(bob->ceilings.memory == 256u << 20 && bob->limits.memory == 256u << 20);
    CHECK(unknown->is_refused && !kr_policy_allows(&unknown->policy, "math"));
    CHECK(kr_user_profile(p, "bob", KR_DIALECT_PYTHON_SANDBOX)->dialect == KR_DIALECT_PYTHON_SANDBOX);

    /* Another file: the profiles stay where they are. Ada's rule is gone, so she has that of all. */
    CHECK(load("[policy]\npolicy = \"open\"\nmemory = \"128M\"\n") == 0);
    CHECK(kr_user_profiles_set(p, &rules, bases) == 0 && kr_user_profile(p, "ada", KR_DIALECT_KRAIT) == ada);
    CHECK(ada->policy.mode == KR_POLICY_OPEN && ada->ceilings.memory == 128u << 20 && bob->limits.memory == 128u << 20);
    kr_user_rules_done(&rules);
    CHECK(kr_user_profiles_set(p, &rules, bases) == 0 && !kr_user_profiles_rule(p));
    CHECK(ada->ceilings.memory == 512u << 20);
    kr_user_profiles_free(p);
}

int main(void)
{
    RUN(profiles_follow);
    CHECK_DONE();
}
