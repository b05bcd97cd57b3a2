/* Fuzzes the reader of policy files with any bytes: a refusal names the file; rules that come out are whole, and no
 * module of a list is there that the rule's own text could not have. */
#include "policy_file.h"
#include "replay.h"

#define NAME "p.toml"

static void check_rule(const struct kr_user_rule *rule, bool is_first)
{
    const char *list = rule->policy.imports;

    must(is_first == (rule->user[0] == '\0'), "the first rule is that of all users, and no other is");
    must(strlen(rule->user) < sizeof rule->user, "a name ends");
    must(rule->policy.mode < KR_POLICY_MAX_ && strlen(list) < sizeof rule->policy.imports, "a policy is whole");
    must(rule->has_policy || (!rule->policy.has_imports && rule->policy.mode == KR_POLICY_OPEN), "lists need a policy");
    must(!rule->policy.has_imports || rule->policy.mode == KR_POLICY_RESTRICTED, "an open policy has no list");
    must(rule->policy.mode == KR_POLICY_OPEN || (rule->policy.profiles & KR_POLICY_BIT(KR_POLICY_BASIC)),
         "basic is always there");
    must(rule->limited >> kr_limit_rows_count == 0, "each ceiling has its row");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kr_user_rules rules = {0};
    struct kr_err err = {0};
    int r = kr_policy_file_parse(NAME, (const char *)data, size, &rules, &err);

    must(r == 0 || r == -22, "it is read or refused");
    must(r == 0 || (err.kind == KR_ERR_INVALID && strncmp(err.msg, NAME, strlen(NAME)) == 0 && !rules.rules),
         "a refusal names the file, and leaves nothing");
    must(r < 0 || (rules.count > 0 && rules.count <= KR_USER_RULES_MAX), "there is a rule for all users");
    for (size_t i = 0; i < rules.count; i++)
        check_rule(&rules.rules[i], i == 0);
    kr_user_rules_done(&rules);
    return 0;
}
