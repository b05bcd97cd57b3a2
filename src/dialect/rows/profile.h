/* A profile: the settings that hold for the clients of one dialect. The configuration makes one for each dialect: what
 * the administrator gave, else what the dialect's document says, else krait's default. A listener has the profile of
 * its dialect, and so has an MCP peer; it reaches the domain with struct kr_caller. Its address never changes while the
 * server runs; limits and a few others do, on SIGHUP (cli/serve/serve_reload.c).
 *
 * Other settings are the server's as a whole, also those that a dialect has a default for: pool-size and
 * cleanup-interval are taken from the dialect of --dialect. */
#pragma once
#include "dialect.h"
#include "limit.h"
#include "policy.h"

#define KR_PROFILE_SANDBOX_ROOM 32u

struct kr_profile {
    enum kr_dialect dialect;
    char sandbox[KR_PROFILE_SANDBOX_ROOM]; /* the stored name of the sandbox that is called `default` here */
    struct kr_limits limits, ceilings; /* of a run that asks for nothing, and the most one may ask for (0: no limit) */
    uint64_t max_sessions;             /* live ones of this profile; 0: no bound beside the server's own */
    uint64_t idle_timeout_ms;
    uint64_t max_sandboxes_per_user; /* 0: no bound */
    bool allow_registration;         /* a client may make an account for itself */
    uint64_t login_ttl_ms;
    int policy_mode;              /* enum kr_policy, as the settings have it */
    bool is_refused;              /* of a user who cannot be told (user_profiles.h): nothing runs */
    struct kr_policy_spec policy; /* what no sandbox and no run here can widen: made of the settings */
};
