/* THE table of methods. Invariant: sorted by name; of one name no two rows share a revision. */
#include "mcp_internal.h"
#include <string.h>

#define FIRST KR_REV_2024_11_05
#define HANDSHAKE KR_REV_2025_11_25 /* the last revision with one */
#define TASKS KR_REV_2025_11_25     /* the only one that has them without an extension */
#define LAST KR_REV_2026_07_28
#define LIST_MS (5u * 60 * 1000) /* lists that change with the program only */

/* clang-format off */
const struct kr_mcp_method kr_mcp_methods[] = {
    {.name = "completion/complete", .since = FIRST, .until = LAST, .handle = kr_mcp_complete},
    {.name = "initialize", .since = FIRST, .until = HANDSHAKE, .handle = kr_mcp_initialize},
    {.name = "logging/setLevel", .since = FIRST, .until = HANDSHAKE, .handle = kr_mcp_set_level},
    {.name = "ping", .since = FIRST, .until = HANDSHAKE, .handle = kr_mcp_ping},
    {.name = "prompts/get", .since = FIRST, .until = LAST, .named_by = "name", .handle = kr_mcp_prompts_get},
    {.name = "prompts/list", .since = FIRST, .until = LAST, .cache = "public", .ttl_ms = LIST_MS,
     .handle = kr_mcp_prompts_list},
    {.name = "resources/list", .since = FIRST, .until = LAST, .cache = "private", .handle = kr_mcp_resources_list},
    {.name = "resources/read", .since = FIRST, .until = LAST, .named_by = "uri", .cache = "private",
     .handle = kr_mcp_resources_read},
    {.name = "resources/subscribe", .since = FIRST, .until = HANDSHAKE, .handle = kr_mcp_subscribe},
    {.name = "resources/templates/list", .since = FIRST, .until = LAST, .cache = "public", .ttl_ms = LIST_MS,
     .handle = kr_mcp_templates_list},
    {.name = "resources/unsubscribe", .since = FIRST, .until = HANDSHAKE, .handle = kr_mcp_unsubscribe},
    {.name = "server/discover", .since = LAST, .until = LAST, .cache = "public", .ttl_ms = LIST_MS,
     .handle = kr_mcp_discover},
    {.name = "subscriptions/listen", .since = LAST, .until = LAST, .handle = kr_mcp_listen},
    {.name = "tasks/cancel", .since = TASKS, .until = LAST, .named_by = "taskId", .extension = true,
     .handle = kr_mcp_tasks_cancel},
    {.name = "tasks/get", .since = TASKS, .until = LAST, .named_by = "taskId", .extension = true,
     .handle = kr_mcp_tasks_get},
    {.name = "tasks/list", .since = TASKS, .until = TASKS, .handle = kr_mcp_tasks_list},
    {.name = "tasks/result", .since = TASKS, .until = TASKS, .handle = kr_mcp_tasks_result},
    {.name = "tasks/update", .since = LAST, .until = LAST, .named_by = "taskId", .extension = true,
     .handle = kr_mcp_tasks_update},
    {.name = "tools/call", .since = FIRST, .until = LAST, .named_by = "name", .handle = kr_mcp_tools_call},
    {.name = "tools/list", .since = FIRST, .until = LAST, .cache = "public", .ttl_ms = LIST_MS,
     .handle = kr_mcp_tools_list},
};
/* clang-format on */
const size_t kr_mcp_methods_count = sizeof kr_mcp_methods / sizeof kr_mcp_methods[0];

const struct kr_mcp_method *kr_mcp_method_find(const char *name, enum kr_mcp_rev rev)
{
    for (size_t i = 0; i < kr_mcp_methods_count; i++) {
        const struct kr_mcp_method *m = &kr_mcp_methods[i];

        if (rev >= m->since && rev <= m->until && strcmp(m->name, name) == 0)
            return m;
    }
    return NULL;
}
