/* The egress process of a command that has cells: that there is one, and what its engine tells it first. */
#pragma once
#include "egress.h"
#include "err.h"

struct kr_egress;
struct kr_warden_config;

/* The warden is to have one. `egress` is borrowed for the life of both. */
void kr_cli_egress_use(struct kr_warden_config *warden, const struct kr_egress_config *egress);

/* The client's setup: credentials are "USER:PASSWORD" or NULL, own_ca the PEM of kr_eg_ca_make() or NULL. 0 or
 * -errno. */
int kr_cli_egress_setup(struct kr_egress *e, const char *credentials, const char *own_ca, struct kr_err *err);
