/* The environment by which programs in a cell find their way out: the proxy, and the package index. */
#pragma once
#include "net_rule.h"
#include <stddef.h>

struct kr_egress_var {
    const char *name, *value;
};
extern const struct kr_egress_var kr_egress_vars[];
extern const size_t kr_egress_vars_count;
/* How many of them a cell of this rule has: all, or none. */
size_t kr_egress_vars_of(const struct kr_net_rule *rule);
