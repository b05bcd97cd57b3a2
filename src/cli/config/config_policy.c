/* The policies of the profiles, made of the settings of [policy].
 *
 * Called by config_check.c, when the listeners are known. Invariants: what was given holds in every profile; a document
 * that has no listener here is not wider than those that have one, because an MCP client may choose its dialect; a
 * setting that would narrow something and cannot is an error. */
#include "config_rows.h"
#include <errno.h>
#include <string.h>

#define PROFILES_MAX 3u

/* The setting of each profile but `basic`. */
static const char *const flags[PROFILES_MAX] = {"policy-data-science", "policy-network", "policy-filesystem"};

static int refuse(const struct kr_config *c, const char *flag, const char *why, struct kr_err *err)
{
    char where[96];

    kr_err_set(err, KR_ERR_INVALID, 0, "%s: %.160s", kr_config_origin(c, flag, where, sizeof where), why);
    return -EINVAL;
}

/* What the settings ask for where the policy is restricted. */
static int ask_restricted(const struct kr_config *c, struct kr_policy_ask *ask, struct kr_err *err)
{
    bool reaches = kr_config_given(c, "policy-network")
                       ? c->policy_network
                       : kr_config_given(c, "network") && c->box.network.kind != KR_NET_NONE;
    int r = 0;

    ask->has_mode = true;
    ask->mode = KR_POLICY_RESTRICTED;
    kr_policy_ask_basic(ask);
    ask->profiles |= (c->policy_data_science ? KR_POLICY_BIT(KR_POLICY_DATA_SCIENCE) : 0) |
                     (reaches ? KR_POLICY_BIT(KR_POLICY_NETWORK) : 0) |
                     (c->policy_filesystem ? KR_POLICY_BIT(KR_POLICY_FILESYSTEM) : 0);
    if (c->allowed_imports.count > 0) /* an empty list is the default as it is shown: those of the profiles */
        kr_policy_ask_no_imports(ask);
    for (size_t i = 0; i < c->allowed_imports.count && r >= 0; i++)
        r = kr_policy_ask_import(ask, c->allowed_imports.items[i], err);
    return r;
}

static bool has_listener(const struct kr_config *c, int dialect)
{
    for (size_t i = 0; i < c->listener_count; i++)
        if ((int)c->listeners[i].dialect == dialect)
            return true;
    return false;
}

/* The restricted policy of a listener if all of them have one; else NULL. */
static const struct kr_policy_spec *listeners_policy(const struct kr_config *c)
{
    const struct kr_policy_spec *first = NULL;

    for (size_t i = 0; i < c->listener_count; i++) {
        const struct kr_policy_spec *p = &c->profiles[c->listeners[i].dialect].policy;

        if (p->mode == KR_POLICY_OPEN)
            return NULL;
        first = first ? first : p;
    }
    return first;
}

/* Settings that no listener's policy can keep, where open was not chosen in so many words. */
static int check_open(const struct kr_config *c, struct kr_err *err)
{
    static const char why[] =
        "false is for the policy restricted, and no listener has it; set policy, or leave this out";
    const bool values[PROFILES_MAX] = {c->policy_data_science, c->policy_network, c->policy_filesystem};

    if (kr_config_given(c, "policy"))
        return 0;
    for (size_t i = 0; i < c->listener_count; i++)
        if (c->profiles[c->listeners[i].dialect].policy.mode != KR_POLICY_OPEN)
            return 0;
    for (size_t i = 0; i < PROFILES_MAX; i++)
        if (kr_config_given(c, flags[i]) && !values[i])
            return refuse(c, flags[i], why, err);
    return 0;
}

int kr_config_fit_policies(struct kr_config *c, struct kr_err *err)
{
    static const struct kr_policy_spec open_policy = {.mode = KR_POLICY_OPEN};
    const struct kr_policy_spec *common;
    bool lists = c->allowed_imports.count > 0;
    struct kr_policy_ask ask = {0};
    struct kr_err why;
    int r;

    if (lists && kr_config_given(c, "policy") && c->profile.policy_mode == KR_POLICY_OPEN)
        return refuse(c, "allowed-imports", "needs the policy restricted, and open was given as well", err);
    r = ask_restricted(c, &ask, &why);
    if (r < 0)
        return refuse(c, "allowed-imports", why.msg, err);
    for (int d = 0; d < KR_DIALECT_MAX_ && r >= 0; d++) {
        struct kr_profile *profile = &c->profiles[d];

        profile->policy = open_policy;
        if (profile->policy_mode == KR_POLICY_RESTRICTED || lists)
            r = kr_policy_narrow(&open_policy, &ask, "krait", &profile->policy, err);
    }
    common = r < 0 ? NULL : listeners_policy(c);
    for (int d = 0; common && d < KR_DIALECT_MAX_; d++)
        if (!has_listener(c, d))
            c->profiles[d].policy = *common;
    c->profile.policy = c->profiles[c->dialect].policy;
    return r < 0 ? r : check_open(c, err);
}
