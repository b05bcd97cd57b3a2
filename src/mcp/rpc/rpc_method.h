/* Methods of the protocol: one row each, for every revision that has them. */
#pragma once
#include "call.h"
#include <stddef.h>

struct kr_mcp_method {
    const char *name;
    enum kr_mcp_rev since, until; /* both included */
    const char *named_by;         /* the member of params that the header Mcp-Name repeats: "name", "uri", "taskId" */
    const char *cache; /* "public" or "private": complete results carry ttlMs and cacheScope; NULL: no hints */
    uint64_t ttl_ms;
    bool extension; /* of io.modelcontextprotocol/tasks: in 2026-07-28 for clients that declared it */
    void (*handle)(struct kr_mcp_call *c);
};
extern const struct kr_mcp_method kr_mcp_methods[];
extern const size_t kr_mcp_methods_count;

typedef void kr_mcp_handler(struct kr_mcp_call *c);
/* handshake.c */
kr_mcp_handler kr_mcp_initialize, kr_mcp_discover, kr_mcp_ping, kr_mcp_set_level;
/* subscriptions.c */
kr_mcp_handler kr_mcp_subscribe, kr_mcp_unsubscribe, kr_mcp_listen;
/* tools.c */
kr_mcp_handler kr_mcp_tools_list, kr_mcp_tools_call;
/* resources.c */
kr_mcp_handler kr_mcp_resources_list, kr_mcp_templates_list, kr_mcp_resources_read;
/* prompts.c */
kr_mcp_handler kr_mcp_prompts_list, kr_mcp_prompts_get;
/* complete.c */
kr_mcp_handler kr_mcp_complete;
/* tasks.c */
kr_mcp_handler kr_mcp_tasks_get, kr_mcp_tasks_result, kr_mcp_tasks_list, kr_mcp_tasks_cancel, kr_mcp_tasks_update;
