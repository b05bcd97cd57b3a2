/* Tasks: calls that live on without their request, in one table for both designs (2025-11-25's own, and the
 * extension of 2026-07-28). Made and freed with the struct kr_mcp; a restart forgets all of them. Loop thread only.
 *
 * A task belongs to a user: for another user it does not exist. docs/design/mcp.md has the states. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct kr_mcp;
struct kr_mcp_tasks;
struct uv_loop_s;

#define KR_MCP_TASKS_EXTENSION "io.modelcontextprotocol/tasks"
#define KR_MCP_RELATED_TASK "io.modelcontextprotocol/related-task"

/* Where one more does not fit, the finished one whose end is longest ago goes (of the user, or of all); if none is
 * finished there is no room: -EBUSY. */
#define KR_MCP_TASKS_PER_USER 64u
#define KR_MCP_TASKS_MAX 1024u
#define KR_MCP_TASKS_BYTES_MAX (128u << 20) /* of kept results, in all: the oldest go when it is passed */
/* From its creation. The default leaves an hour after the longest run. */
#define KR_MCP_TASK_TTL_MS (2u * 3600 * 1000)
#define KR_MCP_TASK_TTL_MIN_MS 1000u
#define KR_MCP_TASK_TTL_MAX_MS (24u * 3600 * 1000)
#define KR_MCP_TASK_POLL_MS 500u      /* how often clients are asked to poll */
#define KR_MCP_TASK_QUESTIONS_MAX 16u /* open at once in one task; more are refused */
#define KR_MCP_TASK_WAITERS_MAX 16u   /* tasks/result that wait for one task; more are refused */

/* 0 or -errno. */
int kr_mcp_tasks_new(struct kr_mcp *m, struct uv_loop_s *loop, struct kr_mcp_tasks **ret_tasks);
/* Ends what still runs as if it were cancelled. Before the box goes; peers may be gone already. Takes NULL. */
void kr_mcp_tasks_free(struct kr_mcp_tasks *t);
struct kr_mcp_tasks *kr_mcp_tasks_of(const struct kr_mcp *m); /* mcp.c */

/* ---- for subscriptions.c ---- */

/* Is there such a task of this user's? Only then a listen stream's taskIds has it. */
bool kr_mcp_task_known(const struct kr_mcp *m, const char *user, const char *id);
