/* The policy file of an administrator: what code of all users, and of single ones, may do. A strict subset of TOML, as
 * krait.toml: [policy] is for all users, [user-NAME] for one. docs/policy.md has its keys. */
#pragma once
#include "user_rules.h"

/* Reads the text of a file; `name` is what it is called in errors, which name the line and the key as well. 0, or
 * -EINVAL or -ENOMEM with err. */
int kr_policy_file_parse(const char *name, const char *text, size_t len, struct kr_user_rules *ret, struct kr_err *err);
