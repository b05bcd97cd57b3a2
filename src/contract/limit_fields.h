/* A session's limits as requests give them and as replies have them. Every limit of src/wire/limits.c has a row in both
 * (tests/unit/api/routes/test-routes.c compares them). */
#pragma once
#include "field.h"
#include "reply_schema.h"

#define KR_API_LIMITS_MAX 12u

/* What came, checked by the domain (kr_sandbox_settings_apply()), which knows the ceilings: numbers or texts. */
struct kr_api_limits_given {
    json_t *values[KR_API_LIMITS_MAX];
};
extern const struct kr_api_table kr_api_limits_table;
/* As kr_report_limits() writes them. */
extern const struct kr_api_schema kr_api_limits_schema;
