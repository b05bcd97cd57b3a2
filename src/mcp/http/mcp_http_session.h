/* Sessions of Streamable HTTP, 2025-03-26 to 2025-11-25: made by `initialize`, named by a header, ended by DELETE, by
 * time or for want of room. A session belongs to the user who made it; to another it is not there. Not for other
 * folders. */
#pragma once
#include "mcp_http_stream.h"

#define KR_MCP_SESSION_IDLE_MS (30u * 60 * 1000)
#define KR_MCP_SESSIONS_MAX 4096u
#define KR_MCP_SESSIONS_PER_USER 1024u

struct kr_mcp_session {
    TAILQ_ENTRY(kr_mcp_session) entry; /* least recently used first */
    LIST_ENTRY(kr_mcp_session) bucket;
    char id[KR_STORE_ID_ROOM];
    char user[KR_STORE_ID_ROOM];
    struct kr_mcp *mcp;
    struct kr_mcp_peer *peer;
    uint64_t used_ns, next_stream;
    TAILQ_HEAD(, kr_mcp_stream) streams;
    size_t kept; /* of them, ended */
};

#define KR_MCP_BUCKETS 1024u
struct kr_mcp_sessions {
    struct kr_mcp *mcp;
    TAILQ_HEAD(, kr_mcp_session) all;
    LIST_HEAD(, kr_mcp_session) buckets[KR_MCP_BUCKETS];
    size_t count;
    TAILQ_HEAD(, kr_mcp_stream) loose;   /* without a session: one a request */
    TAILQ_HEAD(, kr_mcp_stream) waiting; /* oldest first: may yet be answered by JSON */
    TAILQ_HEAD(, kr_mcp_stream) ended;   /* oldest first: kept for who comes back */
    TAILQ_HEAD(, kr_mcp_sse) sse;        /* 2024-11-05: mcp_http_sse.c */
    size_t sse_count;
    size_t replay_bytes;
    struct kr_timer *tick;
    uint64_t tick_ns;   /* when it comes */
    uint64_t looked_ns; /* when the keys of streams were last looked at */
};

int kr_mcp_sessions_new(struct kr_mcp *m);
void kr_mcp_sessions_free(struct kr_mcp_sessions *s); /* takes NULL; HTTP is gone */
/* No more: standing streams are ended. */
void kr_mcp_sessions_stop(struct kr_mcp_sessions *s);
/* There is something to look after: what waits, within KR_MCP_JSON_MS; keys of streams, within a few seconds. */
void kr_mcp_sessions_tick(struct kr_mcp_sessions *s);

/* A name for the session in which the calls of a new MCP session run, or NULL: in those that all share. */
const char *kr_mcp_own_name(enum kr_dialect dialect, char name[static KR_MCP_OWN_ROOM]);
/* A new one for this client. -EBUSY: there is no room, and none that is idle could go; -ENOMEM. */
int kr_mcp_session_new(struct kr_mcp *m, const struct kr_mcp_peer_config *config, struct kr_mcp_session **ret);
/* That user's of that id, used now; or NULL. */
struct kr_mcp_session *kr_mcp_session_find(struct kr_mcp *m, const char *id, const char *user);
struct kr_mcp_stream *kr_mcp_session_stream(struct kr_mcp_session *s, uint64_t number);
/* Cancels its calls, ends its streams, and with a `who`, its user, the sessions that were made up for it, as
 * kr_mcp_peer_end() does. */
void kr_mcp_session_free(struct kr_mcp_session *s, const struct kr_caller *who);
