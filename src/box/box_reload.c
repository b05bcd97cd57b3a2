/* Settings of the domain that change while the server runs.
 *
 * Called by the reload of `krait serve`, and at the start for what is made of the profiles. Invariant: what is copied
 * here is read at each use; nothing that is live is ended or changed by it. */
#include "box_internal.h"
#include "clock.h"
#include "hash.h"
#include "log.h"
#include "loop.h"
#include "store_user.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kr_box_find_ceilings(struct kr_box *b)
{
    b->ceilings = b->config.profiles[0].ceilings;
    for (size_t d = 1; d < KR_DIALECT_MAX_; d++)
        kr_limits_raise(&b->ceilings, &b->config.profiles[d].ceilings);
}

/* ---- users and their rules ---- */

#define USER_NAMES 256u

/* A user whose name was looked up; names do not change. */
struct kr_user_name {
    char id[KR_STORE_ID_ROOM];
    char name[KR_STORE_NAME_ROOM];
};

/* NULL: it cannot be told. */
static const char *name_of(const struct kr_box *b, const char *id)
{
    struct kr_user_name *known = &b->user_names[kr_hash_text(KR_HASH_START, id) % USER_NAMES];
    struct kr_store_user user;

    if (strcmp(known->id, id) == 0)
        return known->name;
    if (kr_store_user_get(b->config.store, id, &user, NULL) < 0)
        return NULL;
    snprintf(known->id, sizeof known->id, "%s", id);
    memcpy(known->name, user.name, sizeof known->name);
    return known->name;
}

/* A slip in a name would leave its user with what holds for all. */
static void warn_of_strangers(const struct kr_box *b)
{
    const struct kr_user_rules *rules = b->config.user_rules;
    struct kr_store_user user;

    for (size_t i = 1; rules && i < rules->count; i++)
        if (kr_store_user_find(b->config.store, rules->rules[i].user, &user, NULL, NULL) == -ENOENT)
            kr_log_with(KR_LOG_WARN, "policy file names a user that is not there",
                        KR_F_STR("user", rules->rules[i].user));
}

static int set_rules(struct kr_box *b)
{
    static const struct kr_user_rules none = {0};
    const struct kr_user_rules *rules = b->config.user_rules ? b->config.user_rules : &none;

    warn_of_strangers(b);
    return kr_user_profiles_set(b->user_profiles, rules, b->config.profiles);
}

int kr_box_users_open(struct kr_box *b)
{
    b->user_profiles = kr_user_profiles_new();
    b->user_names = calloc(USER_NAMES, sizeof *b->user_names);
    return b->user_profiles && b->user_names ? set_rules(b) : -ENOMEM;
}

void kr_box_users_close(struct kr_box *b)
{
    kr_user_profiles_free(b->user_profiles);
    free(b->user_names);
}

const struct kr_profile *kr_box_profile(const struct kr_box *b, const struct kr_caller *who)
{
    const struct kr_profile *base = who->profile ? who->profile : &b->config.profiles[b->config.dialect];

    if (!kr_user_profiles_rule(b->user_profiles))
        return base;
    return kr_user_profile(b->user_profiles, name_of(b, who->user), base->dialect);
}

int kr_box_may_run(const struct kr_box *b, const struct kr_caller *who, struct kr_err *err)
{
    if (!kr_box_profile(b, who)->is_refused)
        return 0;
    return kr_err_set(err, KR_ERR_DENIED, 0,
                      "the policy file has rules for users, and whose code this is cannot be told");
}

void kr_box_tell_offer(struct kr_box *b)
{
    static const char *const offers[] = {
        [KR_NET_NONE] = NULL,
        [KR_NET_LOOPBACK] = "a sandbox made with network=\"loopback\" has 127.0.0.1 of its own",
        [KR_NET_INDEX] = "a sandbox made with network=\"loopback\" has 127.0.0.1 of its own, one with \"index\" the "
                         "package index",
        [KR_NET_ALLOW] = "a sandbox made with network=\"allow:HOST\" reaches that host, where the server's max_network "
                         "names it",
        [KR_NET_OPEN] = "a sandbox made with network=\"allow:HOST\" reaches that host, one with \"open\" every public "
                        "address",
    };

    static_assert(sizeof offers / sizeof *offers == KR_NET_KIND_MAX_, "every kind has its offer");
    kr_engine_offer(b->engine, offers[b->config.max_network.kind]);
}

/* A user who was never counted begins with a full account. */
static void reload_users(struct kr_box *b, uint32_t old_runs_per_minute)
{
    struct kr_box_user *u;

    TAILQ_FOREACH(u, &b->users, link)
    {
        if (old_runs_per_minute == 0)
            u->tokens = b->config.runs_per_minute;
        u->tokens_ns = kr_clock_ns();
    }
}

void kr_box_reload(struct kr_box *b, const struct kr_box_config *config)
{
    uint32_t runs_per_minute = b->config.runs_per_minute;

    b->config.network = config->network;
    b->config.max_network = config->max_network;
    b->config.fetch_network = config->fetch_network;
    b->config.connection_rows = config->connection_rows;
    b->config.security_rows = config->security_rows;
    kr_security_set_rows(b->security, config->security_rows);
    b->config.cleanup_interval_ms = config->cleanup_interval_ms;
    b->config.queue_max = config->queue_max;
    b->config.queue_wait_ms = config->queue_wait_ms;
    b->config.linger_ms = config->linger_ms;
    b->config.max_sessions_per_user = config->max_sessions_per_user;
    b->config.runs_per_minute = config->runs_per_minute;
    b->config.max_terminals = config->max_terminals;
    b->config.max_terminals_per_user = config->max_terminals_per_user;
    b->config.max_terminals_per_sandbox = config->max_terminals_per_sandbox;
    b->config.terminal_idle_ms = config->terminal_idle_ms;
    b->config.max_templates_per_user = config->max_templates_per_user;
    b->config.max_disk_per_user = config->max_disk_per_user;
    b->config.retention_ms = config->retention_ms;
    b->config.max_data = config->max_data;
    if (runs_per_minute != config->runs_per_minute)
        reload_users(b, runs_per_minute);
    kr_box_find_ceilings(b);
    if (set_rules(b) < 0)
        kr_log(KR_LOG_ERROR, "no memory for the rules of the policy file, ignoring", NULL);
    kr_box_tell_offer(b);
    kr_sandbox_cache_clear(b->cache);
    kr_timer_arm(b->upkeep, b->config.cleanup_interval_ms);
    kr_box_sessions_admit(b);
}

void kr_box_set_preload(struct kr_box *b, enum kr_preload preload)
{
    b->config.preload = preload;
    kr_sandbox_cache_clear(b->cache);
}
