/* Joining a server that is running: what both ends of the socket in a data directory agree on, and the client's end.
 *
 * The client says one line of ours first, {"krait":{"version":1,"dialect":"krait","structured":false}}; the server
 * answers with KR_JOIN_WELCOME, and everything from there on, both ways, is MCP, one message a line. */
#pragma once
#include "config.h"
#include <stdbool.h>

struct kr_err;
struct sockaddr_un;

#define KR_JOIN_SOCKET "mcp.sock"
#define KR_JOIN_VERSION 1
#define KR_JOIN_LINE_MAX 512u
#define KR_JOIN_WELCOME "{\"krait\":{\"version\":1}}\n"

/* Of the socket in the folder behind this descriptor, whatever the length of its path. */
void kr_join_address(int folder, struct sockaddr_un *ret);
/* A connection to the server that runs on this data directory, which has welcomed us: a descriptor, or -errno: there is
 * none, or none that answers within two seconds. */
int kr_join_connect(const char *data, enum kr_dialect dialect, bool structured);
/* Passes lines between stdin, stdout and the server until one of them ends; closes the descriptor. The exit status.
 * Blocks. */
int kr_join_pump(int fd, const char *data);
