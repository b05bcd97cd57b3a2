/* The policy file: what its rules are, what it refuses with which words. */
#include "check.h"
#include "policy_file.h"
#include <errno.h>
#include <stdlib.h>

static struct kr_err err;
static struct kr_user_rules rules;

static int load(const char *text)
{
    kr_user_rules_done(&rules);
    return kr_policy_file_parse("p.toml", text, strlen(text), &rules, &err);
}

static bool refuses(const char *text, const char *says)
{
    int r = load(text);

    if (r == -EINVAL && strcmp(err.msg, says) == 0 && rules.count == 0)
        return true;
    printf("  %d, it says: %s\n", r, r < 0 ? err.msg : "nothing");
    return false;
}

static bool allows(const char *user, const char *module)
{
    const struct kr_user_rule *rule = kr_user_rule_of(&rules, user);

    return rule && rule->has_policy && kr_policy_allows(&rule->policy, module);
}

static void what_a_file_says(void)
{
    CHECK(load("") == 0 && rules.count == 1 && !rules.rules[0].has_policy && !rules.rules[0].limited);
    CHECK(load("[policy]\npolicy = \"restricted\"\n") == 0 && allows("ada", "math") && !allows("ada", "os"));
    CHECK(!allows("ada", "numpy"));
    CHECK(load("[policy]\npolicy = \"restricted\"\nprofiles = [\"data_science\"]\n") == 0 && allows("ada", "numpy"));
    CHECK(allows("ada", "math")); /* basic is always there */
    CHECK(load("[policy]\npolicy = \"restricted\"\nallow = [\"yaml\", \"os.path\"]\ndeny = [\"urllib\", \"re\"]\n") ==
          0);
    CHECK(allows("ada", "yaml.nodes") && allows("ada", "os.path") && !allows("ada", "os") && allows("ada", "math"));
    CHECK(!allows("ada", "urllib.parse") && !allows("ada", "re") && allows("ada", "reprlib"));
    CHECK(load("[policy]\npolicy = \"open\"\nmemory = \"256M\"\ntimeout = 10\n") == 0);
    CHECK(rules.rules[0].ceilings.memory == 256u << 20 && rules.rules[0].ceilings.timeout_ms == 10000);
}

static void users_have_rules_of_their_own(void)
{
    CHECK(load("[user-ada]\nallow = [\"yaml\"]\nmemory = \"1G\"\n[policy]\npolicy = \"restricted\"\n"
               "deny = [\"csv\"]\nmemory = \"256M\"\nprocesses = 8\n[user-root]\npolicy = \"open\"\n"
               "[user-zoe]\nname = \"Zoë B.\"\ndeny = []\n") == 0);
    CHECK(rules.count == 4 && allows("ada", "yaml") && !allows("ada", "csv") && !allows("bob", "yaml"));
    CHECK(!allows("bob", "csv") && allows("ADA", "yaml") && allows("Zoë B.", "csv") && !allows("zoe", "csv"));
    CHECK(kr_user_rule_of(&rules, "root")->policy.mode == KR_POLICY_OPEN && !kr_user_rule_of(&rules, "bob")->user[0]);
    CHECK(kr_user_rule_of(&rules, "ada")->ceilings.memory == 1u << 30);
    CHECK(kr_user_rule_of(&rules, "ada")->ceilings.processes == 8);
    CHECK(kr_user_rule_of(&rules, "root")->ceilings.memory == 256u << 20);
}

static void what_is_refused(void)
{
    CHECK(
        refuses("[policy]\npolcy = \"open\"\n", "p.toml:2: polcy is not a key of a policy file; did you mean policy?"));
    CHECK(refuses("[users]\npolicy = \"open\"\n",
                  "p.toml:2: [users] is not a section of a policy file; [policy] and [user-NAME] are"));
    CHECK(refuses("policy = \"open\"\n", "p.toml:1: policy: stands in no section; [policy] is for all users"));
    CHECK(refuses("[policy]\npolicy = \"strict\"\n", "p.toml:2: policy: \"strict\" is neither open nor restricted"));
    CHECK(refuses("[policy]\npolicy = true\n", "p.toml:2: policy: a boolean; \"open\" or \"restricted\" is right"));
    CHECK(refuses("[policy]\nallow = [\"yaml\"]\n", "p.toml:2: allow: needs policy = \"restricted\" beside it"));
    CHECK(refuses("[policy]\npolicy = \"open\"\n\ndeny = [\"os\"]\n",
                  "p.toml:4: deny: needs policy = \"restricted\" beside it"));
    CHECK(refuses("[policy]\npolicy = \"restricted\"\nallow = [\"yaml\", \"a-b\"]\n",
                  "p.toml:3: allow: \"a-b\" is not the name of a module"));
    CHECK(refuses("[policy]\npolicy = \"restricted\"\nallow = \"yaml\"\n",
                  "p.toml:3: allow: a string; an array of modules, as [\"yaml\"], is right"));
    CHECK(refuses("[policy]\npolicy = \"restricted\"\ndeny = [\"collections.abc\"]\n",
                  "p.toml:3: deny: collections.abc is a part of collections, which is allowed as a whole; deny that"));
    CHECK(refuses("[policy]\nname = \"ada\"\n", "p.toml:2: name: [policy] is for all users"));
    CHECK(refuses("[user-ada]\nmemory = \"64M\"\n[user-x]\nname = \"Ada\"\n",
                  "p.toml: [user-ada] and [user-x] are both for the user Ada"));
    CHECK(load("[policy]\nmemory = \"much\"\n") == -EINVAL && strncmp(err.msg, "p.toml:2: memory: ", 18) == 0 &&
          strstr(err.msg, "much"));
    CHECK(load("[policy]\npolicy = \"restricted\"\nprofiles = [\"everything\"]\n") == -EINVAL &&
          strncmp(err.msg, "p.toml:3: profiles: \"everything\"", 32) == 0);
    CHECK(load("[policy]\npolicy = \"open\"\npolicy = \"open\"\n") == -EINVAL && strstr(err.msg, "p.toml:3"));
}

static void lists_and_sections_are_bounded(void)
{
    char *text = malloc(1u << 20), *at = text;

    at += sprintf(at, "[policy]\npolicy = \"restricted\"\n");
    for (int s = 0; s < 3; s++) {
        at += sprintf(at, s == 0 ? "allow = [" : s == 1 ? "[user-a]\nallow = [" : "[user-b]\nallow = [");
        for (int i = 0; i < 60; i++)
            at += sprintf(at, "\"m%d_%d%s\",", s, i, s == 2 ? "_and_a_name_that_is_rather_long" : "");
        at += sprintf(at, "]\n");
    }
    CHECK(load(text) == -EINVAL && strstr(err.msg, "p.toml:7: allow: ") == err.msg);
    at = text + sprintf(text, "[policy]\npolicy = \"restricted\"\nprofiles = [\"data_science\", \"network\", "
                              "\"filesystem\"]\nallow = [");
    for (int i = 0; i < 60; i++)
        at += sprintf(at, "\"m%d\",", i);
    sprintf(at, "]\n");
    CHECK(load(text) == -EINVAL && strstr(err.msg, "p.toml:4: allow: ") == err.msg); /* with those of the profiles */
    at = text;
    for (unsigned i = 0; i < KR_USER_RULES_MAX - 1; i++)
        at += sprintf(at, "[user-u%u]\nmemory = \"64M\"\n", i);
    CHECK(load(text) == 0 && rules.count == KR_USER_RULES_MAX);
    sprintf(at, "[user-one]\nmemory = \"64M\"\n");
    CHECK(load(text) == -EINVAL && strstr(err.msg, "more than 256 sections"));
    free(text);
}

static void sameness(void)
{
    struct kr_user_rules before;

    CHECK(load("[policy]\npolicy = \"restricted\"\nmemory = 33554432\n") == 0);
    before = rules;
    rules = (struct kr_user_rules){0};
    CHECK(load("[policy]\npolicy = \"restricted\"\nmemory = \"33554432\"\n") == 0 &&
          kr_user_rules_same(&before, &rules));
    CHECK(load("[policy]\npolicy = \"restricted\"\nmemory = \"33554433\"\n") == 0 &&
          !kr_user_rules_same(&before, &rules));
    CHECK(load("[policy]\npolicy = \"restricted\"\nprofiles = [\"network\"]\nmemory = 33554432\n") == 0 &&
          !kr_user_rules_same(&before, &rules));
    CHECK(load("") == 0 && !kr_user_rules_same(&before, &rules));
    kr_user_rules_done(&before);
}

int main(void)
{
    RUN(what_a_file_says);
    RUN(users_have_rules_of_their_own);
    RUN(what_is_refused);
    RUN(lists_and_sections_are_bounded);
    RUN(sameness);
    kr_user_rules_done(&rules);
    CHECK_DONE();
}
