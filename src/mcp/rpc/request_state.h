/* What lasts of results that ask (call_input.h): which request states are out, and the key they are sealed with. Made
 * and freed with the struct kr_mcp; a restart forgets all of them. Loop thread only. */
#pragma once
#include <stddef.h>

struct kr_mcp;
struct kr_mcp_states;

#define KR_MCP_STATES_PER_USER 256u /* a user's oldest is forgotten for one more: its retry is refused */
#define KR_MCP_STATES_MAX 8192u     /* of all users; the oldest of all is forgotten */
#define KR_MCP_STATE_PAYLOAD_MAX 8192u
#define KR_MCP_STATE_TEXT_MAX 16384u /* of the text that comes back; longer ones are refused unread */

/* 0 or -errno. */
int kr_mcp_states_new(struct kr_mcp_states **ret_states);
void kr_mcp_states_free(struct kr_mcp_states *s);               /* takes NULL */
struct kr_mcp_states *kr_mcp_states_of(const struct kr_mcp *m); /* mcp.c */
