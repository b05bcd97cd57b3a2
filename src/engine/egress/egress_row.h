/* What the egress process says, as JSON, before the engine believes it, and in words. Pure. */
#pragma once
#include "egress_client.h"

/* The words of a row's `how` and `verdict`; end with NULL. */
extern const char *const kr_egress_hows[], *const kr_egress_verdicts[];

/* A row of a connection: every member is there, of its type and within its bounds, and no other is. 0, or -EPROTO with
 * err. `row` may be NULL: it was no JSON. */
int kr_egress_row_check(const json_t *row, struct kr_err *err);

/* "HOST:PORT was refused: WHY", of a row that was checked. */
void kr_egress_row_refusal(const json_t *row, char *buf, size_t size);

/* The end of a fetch. 0: it has one, and *ret_fetched points into `end`. Negative: it failed, and *ret_failed says why;
 * an end that makes no sense is a failure, too. `end` may be NULL. */
int kr_egress_fetched_read(const json_t *end, struct kr_egress_fetched *ret_fetched, struct kr_err *ret_failed);
