/* Code of the server's own in a cell of its own: the resolver, builds, looks at the system's Python. It has no
 * workspace; what it prints comes line by line. */
#pragma once
#include "err.h"
#include "net_rule.h"
#include "limit.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_install;
struct kr_install_cell;

struct kr_install_cell_calls {
    /* A line of what it prints, without its end; stderr has none. */
    void (*on_line)(void *data, const char *line, size_t len);
    /* Once, from the loop: its code has ended, or (err) could not run to its end. The cell is gone. */
    void (*on_end)(void *data, const struct kr_err *err);
};

struct kr_install_cell_spec {
    const char *sandbox, *user; /* ids, of the rows of its connections */
    const char *folder;         /* of the shelf, whose environment is /venv; NULL: none */
    enum kr_net_kind network;   /* KR_NET_NONE or KR_NET_INDEX */
    const char *code;
    json_t *variables; /* borrowed; NULL: none */
    uint64_t timeout_ms;
    uint64_t output_max; /* bytes that it may print */
    uint64_t line_max;   /* bytes of one line; longer ones end it */
    struct kr_limits limits;
};

/* 0 and on_end comes, from the loop; or -errno with err. */
int kr_install_cell_open(struct kr_install *in, const struct kr_install_cell_spec *spec,
                         const struct kr_install_cell_calls *calls, void *data, struct kr_install_cell **ret_cell,
                         struct kr_err *err);
/* It is not wanted any more: no calls come, its processes end. Takes NULL. */
void kr_install_cell_drop(struct kr_install_cell *cell);
/* Before `in` goes. */
void kr_install_cells_close(struct kr_install *in);
/* What a cell has that runs code of the server's for packages. */
void kr_install_cell_limits(struct kr_limits *l, uint64_t timeout_ms);
