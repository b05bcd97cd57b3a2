/* Tables of arguments and shapes of results as JSON Schema 2020-12, nothing referenced: many clients follow no $ref. */
#pragma once
#include "field.h"
#include "reply_schema.h"

/* {"type":"object","properties":…}; table NULL: no arguments. `strict`: others are refused. New; NULL: no memory. */
json_t *kr_mcp_input_schema(const struct kr_api_table *table, bool strict);
/* Sets the maximum of its `timeout`, if it has one, to what is configured; 0: there is no ceiling. */
void kr_mcp_bound_timeout(json_t *schema, uint64_t most_ms);
json_t *kr_mcp_output_schema(const struct kr_api_schema *schema);
