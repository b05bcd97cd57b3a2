/* What is asked of a policy, as JSON has it. */
#pragma once
#include "policy.h"
#include <jansson.h>

/* A text and two lists of texts, each NULL if it is absent. 0, or negative with err (KR_ERR_INVALID) that names the
 * field. */
int kr_policy_ask_json(struct kr_policy_ask *ask, const json_t *mode, const json_t *profiles, const json_t *imports,
                       struct kr_err *err);
