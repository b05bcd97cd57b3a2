/* What the files of this folder share: the one object, and the structs of peers and calls. Not for rooms outside
 * mcp. */
#pragma once
#include "api.h"
#include "jsonrpc.h"
#include "loop.h"
#include "mcp.h"
#include "rpc_method.h"
#include "peer.h"
#include "store.h"
#include "tasks.h"
#include <sys/queue.h>

struct kr_buf;
struct kr_mcp_listen;
struct kr_mcp_openapi;
struct kr_mcp_runs;
struct kr_mcp_sessions;
struct kr_mcp_states;
struct kr_mcp_tasks;
struct kr_mcp_tool;

struct kr_mcp {
    struct kr_api *api;
    struct kr_mcp_config config; /* texts are the caller's */
    bool stopping;
    TAILQ_HEAD(, kr_mcp_peer) peers;
    TAILQ_HEAD(, kr_mcp_call) detached; /* calls that go on as tasks */
    TAILQ_HEAD(kr_mcp_listens, kr_mcp_listen) listens;
    size_t listen_count;
    struct kr_mcp_sessions *sessions; /* of HTTP: mcp_http_session.c */
    struct kr_mcp_runs *runs;         /* exec_runs.c */
    struct kr_mcp_tasks *tasks;       /* tasks.c */
    struct kr_mcp_states *states;     /* request_state.c */
    struct kr_mcp_openapi *openapi;   /* mcp_http_openapi.c; NULL until a client asks */
    size_t in_flight;                 /* bytes of the messages of all calls: call_cost.c */
    size_t parsing;                   /* bytes of the bodies that threads parse: mcp_http_body.c */
    json_t *moved;                    /* users whose files came or went, who are not told yet; NULL: none */
    struct kr_timer *moved_timer;
};

/* Texts of a struct kr_caller, kept. */
struct kr_mcp_who {
    struct kr_caller caller;
    char user[KR_STORE_ID_ROOM];
    char address[KR_HTTP_PEER_MAX];
    char request[KR_HTTP_REQUEST_ID_MAX + 1];
};
void kr_mcp_who_copy(struct kr_mcp_who *who, const struct kr_caller *from);

/* What a peer and its calls share, and what a call that goes on without its peer keeps of it. */
struct kr_mcp_manner {
    unsigned refs;
    struct kr_mcp *mcp;
    enum kr_dialect dialect;
    bool structured, local, core;
    char session[KR_MCP_OWN_ROOM];      /* "": `main` */
    char terminal[KR_MCP_OWN_ROOM + 9]; /* `terminal`, or the other name and "-terminal" */
    char base_url[];                    /* "" for none */
};

/* A question of ours to the client. */
struct kr_mcp_question {
    TAILQ_ENTRY(kr_mcp_question) entry;
    uint64_t id;
    struct kr_mcp_call *call;
    kr_mcp_answer_fn *on_answer;
    void *data;
    struct kr_timer *look;
    uint64_t until_ns, absent_ns; /* its deadline; since when its client is seen to be gone, 0: it is there */
};

enum kr_mcp_era {
    KR_ERA_OPENING,
    KR_ERA_LEGACY, /* `initialize` came, or a request that needs no agreement with one */
    KR_ERA_MODERN, /* requests came with their envelope, and never an `initialize` */
};

struct kr_mcp_peer {
    TAILQ_ENTRY(kr_mcp_peer) entry; /* of kr_mcp.peers */
    struct kr_mcp_manner *manner;
    struct kr_mcp_who who;
    const struct kr_mcp_wire *wire;
    void *data;
    bool fleeting, dead;
    unsigned busy; /* calls of peer.h on the stack: memory stays */
    enum kr_mcp_era era;
    int rev;          /* agreed upon, or -1 */
    json_t *can;      /* capabilities of the client, or NULL */
    bool reads_first; /* kr_mcp_reads_first() */
    int level;        /* of log messages: those below are not sent */
    TAILQ_HEAD(, kr_mcp_call) calls;
    size_t call_count;
    TAILQ_HEAD(, kr_mcp_question) questions;
    uint64_t next_question;
    json_t *subscriptions; /* an object with a member for each URI, or NULL */
};

struct kr_mcp_call {
    TAILQ_ENTRY(kr_mcp_call) entry; /* of its peer's, or of kr_mcp.detached */
    struct kr_mcp_peer *peer;       /* NULL: detached */
    struct kr_mcp_manner *manner;
    void *stream;
    struct kr_mcp_who who;
    const struct kr_mcp_method *method;
    enum kr_mcp_rev rev;
    json_t *id, *params, *can, *token; /* token: NULL without */
    size_t cost;                       /* of params, in bytes */
    int refused;                       /* enum kr_err_kind of a result that says why nothing was done; 0: none */
    int level;                         /* KR_MCP_LEVEL_MAX_: no log messages */
    double progress;
    uint64_t progress_ns; /* when the last one went out; 0: none did */
    void (*on_cancel)(void *data, struct kr_mcp_call *c);
    void *cancel_data;
    kr_mcp_status_fn *on_status;
    const struct kr_mcp_outlet *outlet; /* of a detached one */
    void *outlet_data;
    bool reads_first; /* kr_mcp_client_reads_first() */
    void *tool;       /* tools.c: what it keeps of a tools/call; freed by free_tool */
    void (*free_tool)(void *tool);
};

/* ---- call.c ---- */

/* Makes the call of a request and hands it to its method. Answers whatever is wrong. */
void kr_mcp_call_begin(struct kr_mcp_peer *p, const struct kr_mcp_message *m, enum kr_mcp_rev rev, void *stream);
void kr_mcp_call_free(struct kr_mcp_call *c);
/* Out of every list; its questions are forgotten. */
void kr_mcp_call_unlink(struct kr_mcp_call *c);
/* on_cancel, then gone. `tell`: the wire gets a SILENCE in place of the answer. */
void kr_mcp_call_cancel(struct kr_mcp_call *c, bool tell);
/* A notification on the stream of the call, whatever it is for. params is taken. */
void kr_mcp_call_note(struct kr_mcp_call *c, const char *method, json_t *params);

/* ---- call_cost.c ---- */

#define KR_MCP_LARGE (64u << 10) /* from here on a request counts; capabilities of `initialize` are smaller */
#define KR_MCP_IN_FLIGHT_PER_USER (64u << 20) /* of large requests in flight, in memory; -32603 that says so */
#define KR_MCP_IN_FLIGHT_MAX (256u << 20)     /* the same of all users */
/* Bytes of memory that a value takes, roughly. It is nested no deeper than a message. */
size_t kr_mcp_cost(const json_t *value);
/* May this user have a request of that cost in flight, beside those that are? */
bool kr_mcp_has_room(const struct kr_mcp *m, const char *user, size_t cost);

/* ---- peer.c ---- */

/* Sends an error that answers no call. */
void kr_mcp_peer_fail(struct kr_mcp_peer *p, void *stream, const json_t *id, int code, const char *text, json_t *data);
/* A notification that belongs to no request. params is borrowed. */
void kr_mcp_peer_note(struct kr_mcp_peer *p, const char *method, const json_t *params);
void kr_mcp_question_drop(struct kr_mcp_peer *p, struct kr_mcp_question *q);

/* ---- rpc_method.c ---- */

/* The row of that name in that revision, or NULL. */
const struct kr_mcp_method *kr_mcp_method_find(const char *name, enum kr_mcp_rev rev);

/* ---- handshake.c ---- */

/* {"name":"krait",…} with the members that the revision has; new. */
json_t *kr_mcp_server_info(const struct kr_mcp *m, enum kr_mcp_rev rev);
/* Is the client, by its `clientInfo`, one that may show a model the first block of a result alone? Takes NULL. */
bool kr_mcp_reads_first(const json_t *info);

/* ---- subscriptions.c ---- */

/* A task's state changed: clients of this user that listen to it are notified (`params` is that of notifications/tasks,
 * borrowed), and the user's open clients of 2025-11-25 by notifications/tasks/status with `legacy` (borrowed; NULL:
 * not). */
void kr_mcp_task_changed(struct kr_mcp *m, const char *user, const char *task, const json_t *params,
                         const json_t *legacy);
/* Ends every listen stream with its result. */
void kr_mcp_listens_end(struct kr_mcp *m);
