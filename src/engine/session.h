/* An engine session: a live interpreter in a cell, with its variables, and the runs on it.
 * docs/design/engine.md has its states. Sessions are opened with kr_engine_open() (engine.h). */
#pragma once
#include "cause.h"
#include "err.h"
#include "output.h"
#include "proto.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_session;
struct kr_run;

enum kr_session_state {
    KR_SESSION_OPENING,  /* its process is asked for, or is there and S_READY has not come */
    KR_SESSION_READY,    /* in its cell; a session for the pool runs its warm-up snippet now */
    KR_SESSION_PARKED,   /* waits in the pool */
    KR_SESSION_STARTING, /* workspace and limits are asked for, S_START is sent */
    KR_SESSION_IDLE,
    KR_SESSION_RUNNING,
    KR_SESSION_INTERRUPTING, /* SIGINT is sent; the grace runs */
    KR_SESSION_KILLED,       /* the kill is sent, the report of its end is awaited */
    KR_SESSION_ENDING,       /* its process is gone; what it left in channel and pipes is read */
    KR_SESSION_ENDED,
    KR_SESSION_STATE_MAX_,
};
extern const char *const kr_session_state_names[KR_SESSION_STATE_MAX_];

/* What becomes of a session's processes when a run ends: they go on within the budget background_cpu; they and the
 * session are frozen until the next run; they are ended, the session stays. */
enum kr_background { KR_BACKGROUND_KEEP, KR_BACKGROUND_FREEZE, KR_BACKGROUND_END, KR_BACKGROUND_MAX_ };
extern const char *const kr_background_names[KR_BACKGROUND_MAX_ + 1]; /* NULL terminated */

struct kr_session_spec {
    uint32_t zygote;           /* index in the engine's table */
    uint32_t otherwise, epoch; /* of a zygote for templates: the zygote if that does not serve, and its epoch; else 0 */
    struct kr_net_rule network;
    int32_t workspace; /* index in the engine's table; KR_WORKSPACE_NONE: a sized tmpfs; KR_WORKSPACE_SHELF: `folder` */
    char folder[KR_FOLDER_ROOM]; /* of the shelf */
    bool venv;                   /* the environment in `folder` at /venv, whatever the workspace is */
    bool read_only;              /* its workspace, for this session */
    uint32_t mounts;             /* bits: the engine's data sets */
    struct kr_limits limits;
    enum kr_background background;
    uint64_t owner;         /* sessions of one share what an owner may have; 0: none */
    bool joins;             /* the owner has others: it is made or was parked beside them */
    uint64_t disk_left;     /* bytes that a folder of the shelf may grow by whatever its limit is; 0: no bound */
    bool script;            /* one program is run and the interpreter ends with it */
    bool stdin_pipe;        /* a pipe on descriptor 0; never from the pool */
    const char *const *env; /* "K=V", count of them; copied */
    size_t env_count;
};

struct kr_session_calls {
    /* The session takes runs (err NULL), or could not be made (session NULL). Once. */
    void (*on_open)(void *data, struct kr_session *s, const struct kr_err *err);
    /* It is gone, and the pointer with it when this returns. Only after a good on_open; its runs have ended before. */
    void (*on_ended)(void *data, struct kr_session *s, enum kr_cause cause, const char *message);
    /* Output that no run made: threads and daemons that live on. May be NULL. */
    void (*on_between)(void *data, struct kr_session *s, enum kr_stream stream, const char *text, size_t len);
    /* The stdin pipe has room again / its reader is gone. May be NULL without stdin_pipe. */
    void (*on_stdin_drained)(void *data, struct kr_session *s);
    void (*on_stdin_failed)(void *data, struct kr_session *s, int error);
};

enum kr_session_state kr_session_state(const struct kr_session *s);
const struct kr_limits *kr_session_limits(const struct kr_session *s);
/* The layers that hold it, as the holder gave and the session claims. */
uint32_t kr_session_layers(const struct kr_session *s);
int kr_session_landlock_abi(const struct kr_session *s);
const char *kr_session_python(const struct kr_session *s);
bool kr_session_pooled(const struct kr_session *s); /* it came from the pool */
/* The socket in its cell where its code reaches the proxy, which stays the session's; -1: its network has none. */
int kr_session_listener(const struct kr_session *s);
/* A number that no other session of this engine has or had: its cell's, for the egress process. */
uint64_t kr_session_cell(const struct kr_session *s);
/* It is frozen, because it has used up background_cpu since its last run. */
bool kr_session_spent(const struct kr_session *s);

bool kr_session_has_venv(const struct kr_session *s); /* an environment at /venv */

/* Kills it; on_ended follows. May be called at any time, also twice. */
void kr_session_close(struct kr_session *s);
/* Stops or resumes reading its output, when the reader of the output is full; the pipes then block the writer. */
void kr_session_pause(struct kr_session *s, bool paused);

#define KR_SESSION_STDIN_MAX (256u << 10)
/* 0, -ENOBUFS (wait for on_stdin_drained), or -errno when its reader is gone. */
int kr_session_stdin_write(struct kr_session *s, const void *data, size_t len);
/* Bytes that wait. */
size_t kr_session_stdin_pending(const struct kr_session *s);
/* End of input, once what waits is written. */
void kr_session_stdin_close(struct kr_session *s);
