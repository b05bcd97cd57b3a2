/* Code that is judged and not run: POST /api/v1/validate, and what all voices read of such a run's end. */
#pragma once
#include "http.h"
#include "reply_schema.h"
#include "route_doc.h"
#include "run_spec.h"
#include <jansson.h>

kr_http_handler kr_api_validate;
extern const struct kr_api_doc kr_api_validate_doc;
extern const struct kr_api_schema kr_api_validation_schema;

/* {"valid","findings","analysis","recommendations"} of the end of a run with judge_only; NULL: no memory. A run that
 * came to no verdict is not valid, and its one finding says why. */
json_t *kr_api_validation(const json_t *end);
