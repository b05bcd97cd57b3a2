/* What the hooks keep for the process: kr_eg.second. */
#pragma once
#include "eg_ca.h"
#include "eg_fetch.h"
#include "eg_index.h"
#include "eg_tls.h"
#include "egress_internal.h"

struct kr_eg_second {
    struct kr_eg_tls_trust *trust; /* NULL: no certificates were found, and https is refused */
    struct kr_eg_ca *ca;           /* NULL: there is none, and TLS of tunnels never ends here */
    struct kr_eg_index *index;
    struct kr_eg_fetches *fetches;
};

static inline struct kr_eg_second *kr_eg_second(const struct kr_eg *eg)
{
    return eg->second;
}
