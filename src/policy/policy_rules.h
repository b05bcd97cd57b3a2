/* The rules of `restricted`: what findings and refusals quote by their ids. docs/design/judge.md. */
#pragma once
#include <stddef.h>

struct kr_policy_rule {
    const char *id;      /* stable: "P101" before the run, "P201" while it runs */
    const char *name;    /* one or two words */
    const char *what;    /* what is refused: a sentence */
    const char *why;     /* what a finding says of it */
    const char *mend;    /* what to write instead: a sentence */
    const char *example; /* code that it refuses */
};
extern const struct kr_policy_rule kr_policy_rules[]; /* sorted by id */
extern const size_t kr_policy_rules_count;
