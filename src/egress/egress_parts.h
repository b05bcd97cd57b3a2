/* How the files of the process call each other: control, cells, rows, confinement. */
#pragma once
#include "egress_internal.h"

/* ---- egress_control.c ---- */

/* The socket becomes the process's. 0 or -errno. */
int kr_eg_control_open(struct kr_eg *eg, int fd);
void kr_eg_control_close(struct kr_eg *eg);
/* Ends the loop; `status` is the process's. */
void kr_eg_end(struct kr_eg *eg, int status);

/* ---- egress_cells.c: what E_CELL, E_RULE and E_DROP say. 0 or -errno with err; then the engine is not to be trusted
 * any more ---- */

int kr_eg_cell_add(struct kr_eg *eg, const json_t *cell, int listener, struct kr_err *err);
int kr_eg_cell_change(struct kr_eg *eg, const json_t *cell, struct kr_err *err);
void kr_eg_cell_drop(struct kr_eg *eg, uint64_t id);
void kr_eg_cells_close(struct kr_eg *eg);
/* A connection has closed: listeners that waited for one are watched again. */
void kr_eg_cells_resume(struct kr_eg *eg);

/* ---- egress_rows.c ---- */

int kr_eg_rows_new(struct kr_eg_rows **ret_rows);
void kr_eg_rows_free(struct kr_eg_rows *rows);
/* The control socket takes frames again. */
void kr_eg_rows_flush(struct kr_eg *eg);

/* ---- egress_confine.c ---- */

/* For good, and for all threads that come: files of the resolver and what the hooks read, no TCP but connect(), the
 * calls of egress_rules.c. 0 or -errno with err. */
int kr_eg_confine(const struct kr_eg *eg, struct kr_err *err);
