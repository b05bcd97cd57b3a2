/* The egress process of a command that has cells: what its engine tells it first. */
#pragma once
#include "err.h"

struct kr_egress;

/* The client's setup: credentials are "USER:PASSWORD" or NULL. 0 or -errno. */
int kr_cli_egress_setup(struct kr_egress *e, const char *credentials, const char *own_ca, struct kr_err *err);
