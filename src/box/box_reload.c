/* Settings of the domain that change while the server runs.
 *
 * Called by the reload of `krait serve`, and at the start for what is made of the profiles. Invariant: what is copied
 * here is read at each use; nothing that is live is ended or changed by it. */
#include "box_internal.h"
#include "clock.h"
#include "loop.h"
#include <assert.h>

void kr_box_find_ceilings(struct kr_box *b)
{
    b->ceilings = b->config.profiles[0].ceilings;
    for (size_t d = 1; d < KR_DIALECT_MAX_; d++)
        kr_limits_raise(&b->ceilings, &b->config.profiles[d].ceilings);
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
