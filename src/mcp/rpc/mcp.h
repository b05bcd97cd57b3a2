/* MCP: every transport and revision over the one domain. Made by `krait serve` and `krait mcp`; loop thread only. */
#pragma once
#include "caller.h"
#include "dialect.h"
#include "route.h"
#include "words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct kr_api;
struct kr_err;
struct kr_mcp;
struct kr_mcp_lines;
struct uv_loop_s;

/* Tools that are listed in krait's own dialect. */
enum kr_mcp_tool_set { KR_TOOLS_ALL, KR_TOOLS_CORE, KR_TOOLS_MAX_ };

struct kr_mcp_config {
    const char *version;
    enum kr_dialect dialect; /* of clients that come without a listener's: stdio */
    bool structured;         /* our dialect's execution tools answer with a structure too */
    enum kr_mcp_tool_set tools;
    const char *workspace; /* a host folder that is the sandbox's workspace (`krait mcp --workspace`): results name host
                                paths; NULL: none */
    struct kr_words authorization_servers; /* for protected-resource metadata */
    struct kr_words upload_roots;          /* folders whose files may be uploaded by their path */
    uint64_t answer_after_ms;              /* a run of ours that takes longer is answered with what it has; 0: 50 s */
    uint64_t session_idle_ms;              /* of a legacy HTTP session without request or stream; 0: 30 min */
    uint32_t max_sessions;                 /* legacy HTTP sessions of all users; 0: 4096 */
};

/* 0 or -errno with err. The api (its box, store, auth) is borrowed. */
int kr_mcp_new(struct kr_api *api, const struct kr_mcp_config *config, struct kr_mcp **ret_mcp, struct kr_err *err);
/* No new calls; open listen streams are ended with their result. Before the HTTP server stops. */
void kr_mcp_stop(struct kr_mcp *m);
/* After the HTTP server and every lines peer are gone. Takes NULL. */
void kr_mcp_free(struct kr_mcp *m);
const struct kr_mcp_config *kr_mcp_config(const struct kr_mcp *m);
/* Takes what may change while the server runs. */
void kr_mcp_reload(struct kr_mcp *m, const struct kr_mcp_config *config);

/* Routes of MCP, GET / among them. api->mcp is the struct kr_mcp. */
extern const struct kr_http_route kr_mcp_routes[];
extern const size_t kr_mcp_routes_count;
/* The body of an error that the HTTP engine answers by itself on a path of MCP: as JSON-RPC has it. False: another
 * path. */
struct kr_buf;
bool kr_mcp_engine_error(const char *path, int status, const char *text, struct kr_buf *out);

/* ---- stdio, and the socket in the data directory: one message a line ---- */

struct kr_mcp_lines_spec {
    struct uv_loop_s *loop;
    int in, out;                 /* taken on success; may be one, twice, if it has readiness (a socket) */
    const struct kr_caller *who; /* copied */
    enum kr_dialect dialect;
    bool structured;
    bool local; /* the peer is on this machine as the owner of these files: kr_mcp_is_local() */
    /* Once, from the loop: the input has ended, or the peer is gone. Its calls were cancelled then, and what was
     * answered before is written. kr_mcp_lines_close() is still to be called, which may happen here. */
    void (*on_closed)(void *data);
    /* NULL, or once: the first message came, and was answered if it could be at once. */
    void (*on_first)(void *data);
    void *data;
};
/* Speaks MCP over two descriptors. 0 or -errno. */
int kr_mcp_lines_open(struct kr_mcp *m, const struct kr_mcp_lines_spec *spec, struct kr_mcp_lines **ret_lines);
/* At once; no on_closed. Takes NULL. */
void kr_mcp_lines_close(struct kr_mcp_lines *l);

/* ---- notifications of subscribers ---- */

/* A resource of this user's changed, came or went. */
void kr_mcp_resource_updated(struct kr_mcp *m, const char *user, const char *uri);
/* Files of this user's came or went: peers that list them are told within KR_MCP_MOVED_MS, once for all that came in
 * that time. */
#define KR_MCP_MOVED_MS 100u
void kr_mcp_files_moved(struct kr_mcp *m, const char *user);
void kr_mcp_list_changed(struct kr_mcp *m, const char *kind /* "tools", "prompts", "resources" */);

/* ---- `krait dump tools` ---- */

void kr_mcp_tools_dump(FILE *out);
