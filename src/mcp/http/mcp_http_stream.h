/* Streams of /mcp: the answer to a POST, or the GET that a session's own messages go to. One message goes out as JSON
 * or, from the first message that is not the answer on, as server-sent events.
 *
 * Of a session's streams the last events are kept, so that a client whose connection broke picks them up again by GET
 * with Last-Event-ID. docs/design/mcp.md has the bounds. Loop thread only; not for other folders. */
#pragma once
#include "buf.h"
#include "http.h"
#include "mcp_internal.h"

struct kr_mcp_session;

#define KR_MCP_REPLAY_EVENTS 256u      /* kept of one stream; the oldest go */
#define KR_MCP_REPLAY_BYTES (1u << 20) /* the same; the newest stays, however large */
#define KR_MCP_REPLAY_ALL (128u << 20) /* of all streams: those that ended longest ago go */
#define KR_MCP_REPLAY_KEPT 16u         /* ended streams of one session that can still be picked up */
#define KR_MCP_REPLAY_MS (60u * 1000)  /* … and for how long */
#define KR_MCP_JSON_MS 1000u           /* an answer that takes longer begins as a stream, if the client takes one */
#define KR_MCP_RETRY_MS 1000u          /* what a client waits before it comes back */

struct kr_mcp_event {
    TAILQ_ENTRY(kr_mcp_event) entry;
    uint64_t number;
    size_t len;
    char data[];
};

enum kr_mcp_stream_state {
    KR_STREAM_OPEN,    /* nothing went out */
    KR_STREAM_WAITING, /* the same, and it begins as events after KR_MCP_JSON_MS; in kr_mcp_sessions.waiting */
    KR_STREAM_EVENTS,  /* messages go out as events */
    KR_STREAM_ENDED,   /* nothing follows, its events can be picked up again; in kr_mcp_sessions.ended */
};

/* What an answer that is JSON looks like. */
enum kr_mcp_stream_form {
    KR_STREAM_MESSAGE, /* one message */
    KR_STREAM_BATCH,   /* an array of them */
    KR_STREAM_PLAIN,   /* without the envelope of JSON-RPC: mcp_http_tools.c */
};

struct kr_mcp_stream {
    TAILQ_ENTRY(kr_mcp_stream) entry;  /* of its session, or of the loose */
    TAILQ_ENTRY(kr_mcp_stream) waiter; /* of those that may yet be answered by JSON, or of the ended */
    struct kr_mcp *mcp;
    struct kr_mcp_session *session; /* NULL: of one request */
    struct kr_mcp_peer *peer;       /* its own if there is no session */
    struct kr_http_ex *ex;          /* NULL: no client is connected */
    enum kr_mcp_rev rev;
    uint64_t number;                /* in its session; 0: the GET stream */
    enum kr_mcp_stream_state state; /* changed by set_state() */
    enum kr_mcp_stream_form form;
    bool takes_events, takes_json; /* what the client accepts */
    bool opening;                  /* of `initialize`: the session's id goes out if it succeeds */
    unsigned due;                  /* answers that are still to come */
    uint64_t since_ns;
    struct kr_buf answers; /* of a batch */
    TAILQ_HEAD(, kr_mcp_event) events;
    uint64_t last_event; /* the newest one's number; 0: none yet */
    size_t event_count, event_bytes;
};

/* Did it begin as events? */
static inline bool kr_mcp_stream_begun(const struct kr_mcp_stream *s)
{
    return s->state >= KR_STREAM_EVENTS;
}

extern const struct kr_mcp_wire kr_mcp_http_wire; /* its data: the session, or NULL */

/* On an exchange that is not answered yet: defers it. NULL: no memory, and it is answered. `due` answers will come. */
struct kr_mcp_stream *kr_mcp_stream_new(struct kr_mcp *m, struct kr_mcp_session *session, struct kr_mcp_peer *peer,
                                        enum kr_mcp_rev rev, struct kr_http_ex *ex, unsigned due);
/* Its answers go out as one array (a batch): nothing goes out before. */
void kr_mcp_stream_collect(struct kr_mcp_stream *s);
/* Its one answer goes out as JSON and by kr_mcp_plain_answer(). */
void kr_mcp_stream_plain(struct kr_mcp_stream *s);
/* From now on events. */
void kr_mcp_stream_begin(struct kr_mcp_stream *s);
/* Another connection for it: what came after event `last` first. -ENOENT: that is not known any more. */
int kr_mcp_stream_resume(struct kr_mcp_stream *s, struct kr_http_ex *ex, uint64_t last);
/* One answer fewer is due (of a batch: one more holds it). May free it. */
void kr_mcp_stream_release(struct kr_mcp_stream *s);
/* Ends its connection if there is one, and frees it. */
void kr_mcp_stream_free(struct kr_mcp_stream *s);
/* An error that is no answer of a call, in the voice of the route. `id` may be NULL; data is taken. */
void kr_mcp_http_refuse(struct kr_http_ex *ex, int status, const json_t *id, int code, const char *text, json_t *data);
