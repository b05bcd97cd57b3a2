/* Tables of arguments and shapes of results as JSON Schema 2020-12, nothing referenced: many clients follow no $ref. */
#pragma once
#include "field.h"
#include "reply_schema.h"

/* {"type":"object","properties":…}; table NULL: no arguments. `strict`: others are refused. New; NULL: no memory. */
json_t *kr_mcp_input_schema(const struct kr_api_table *table, bool strict);
json_t *kr_mcp_output_schema(const struct kr_api_schema *schema);
