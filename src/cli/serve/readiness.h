/* Readiness: does what runs need work at this moment? For /ready and the metric. Loop thread only. */
#pragma once
#include <stdbool.h>

struct kr_engine;
struct kr_monitor_state;
struct kr_monitor_waiter;
struct kr_readiness;
struct kr_store;
struct uv_loop_s;

/* `ask_shelf`: the holder keeps the folders of sandboxes, and is asked about them, too. 0 or -ENOMEM. */
int kr_readiness_new(struct uv_loop_s *loop, struct kr_engine *engine, const struct kr_store *store, bool ask_shelf,
                     struct kr_readiness **ret_readiness);
/* Before the engine and the store go. Takes NULL. Waiters are not called. */
void kr_readiness_close(struct kr_readiness *r);

/* True: what is known is fresh. False: it is being looked at, and the waiter (may be NULL) is called once. */
bool kr_readiness_refresh(struct kr_readiness *r, struct kr_monitor_waiter *waiter);
void kr_readiness_forget(struct kr_readiness *r, struct kr_monitor_waiter *waiter);
/* Adds what did not work at the last look. */
void kr_readiness_tell(const struct kr_readiness *r, struct kr_monitor_state *state);
