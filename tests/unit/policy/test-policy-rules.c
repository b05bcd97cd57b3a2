/* src/policy/policy_rules.c: the rows. tests/unit/kernel/test_policy.py compares them with the Python side's. Run by
 * tests/run. */
#include "check.h"
#include "policy_rules.h"
#include <stdbool.h>
#include <string.h>

static bool is_sentence(const char *text)
{
    size_t len = strlen(text);

    return len > 10 && text[0] >= 'A' && text[0] <= 'Z' && text[len - 1] == '.';
}

static void rows_are_sorted_and_whole(void)
{
    for (size_t i = 0; i < kr_policy_rules_count; i++) {
        const struct kr_policy_rule *r = &kr_policy_rules[i];

        CHECK(strlen(r->id) == 4 && r->id[0] == 'P' && (r->id[1] == '1' || r->id[1] == '2'));
        CHECK(i == 0 || strcmp(r[-1].id, r->id) < 0);
        CHECK(r->name[0] && is_sentence(r->what) && is_sentence(r->mend) && strlen(r->why) > 10 && r->example[0]);
    }
}

int main(void)
{
    RUN(rows_are_sorted_and_whole);
    CHECK_DONE();
}
