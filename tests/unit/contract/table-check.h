/* What is wrong with a table itself: rows without help or example, names that mean two things, routes whose docs are
 * not complete. Each returns 0, or -EINVAL with err naming the row. */
#pragma once
#include "reply_schema.h"

struct kr_err;
struct kr_http_route;

int table_check(const struct kr_api_table *table, struct kr_err *err);
int schema_check(const struct kr_api_schema *schema, struct kr_err *err);
/* Every route has a doc with id, tag, summary, an answer, rows for its parameters, helps and examples. */
int docs_check(const struct kr_http_route *routes, size_t count, struct kr_err *err);
