/* The engine: a holder, the zygotes as it reports them, the pools and the sessions. One per process, on one loop. */
#pragma once
#include "err.h"
#include "holder.h"
#include "proto.h"
#include "session.h"
#include "words.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_engine;
struct kr_holder;
struct uv_loop_s;

#define KR_ENGINE_ZYGOTES_MAX 8
#define KR_ENGINE_WORKSPACES_MAX 16
#define KR_STOPPING "krait is stopping" /* the error of every open from then on */

/* The same tables, in the same order, that the warden was given. */
struct kr_engine_config {
    size_t zygote_count;
    enum kr_preload preloads[KR_ENGINE_ZYGOTES_MAX];
    size_t template_count; /* zygotes for templates; their indices follow those of the others */
    size_t workspace_count;
    struct {
        const char *path; /* for the accounting of its size */
        bool read_only;
    } workspaces[KR_ENGINE_WORKSPACES_MAX];
    const char *shelf;    /* path of the folder of folders, NULL: none */
    uint32_t pool_size;   /* parked sessions per zygote (network none); 0: no pool */
    uint32_t pool_max;    /* as many where there is demand for them; pool_size or less: it does not grow */
    uint32_t pool_ebb_ms; /* what was parked for so long without need goes again; 0: the usual */
    bool egress;          /* the warden has an egress process: sessions may have networks beyond loopback */
    bool lazy;            /* as the warden's: a zygote is started when the first session is asked of it */
};

struct kr_engine_calls {
    void (*on_zygote)(void *data, const struct kr_holder_zygote *zygote); /* may be NULL */
    /* The holder is gone; every run has ended as `lost`. The program should exit. */
    void (*on_gone)(void *data, const struct kr_err *err);
    /* kr_engine_stop() is done. */
    void (*on_stopped)(void *data);
    /* The socket of an egress process that has started, the first or one after another; it is the callee's. May be
     * NULL. */
    void (*on_egress)(void *data, int fd);
};

/* What `info` shows of a zygote. */
struct kr_engine_zygote {
    enum kr_preload preload;
    enum kr_zygote_state state;
    bool given_up; /* it failed without ever being ready, and is not tried again */
    uint32_t generation;
    uint32_t parked, pool_size;
    uint32_t epoch;           /* of one for templates: how often it was told what to import */
    const struct kr_err *err; /* when FAILED; the engine's */
};

extern const char *const kr_preload_names[KR_PRELOAD_MAX_ + 1]; /* the last: KR_PRELOAD_TEMPLATE */
extern const char *const kr_zygote_state_names[KR_ZYG_STATE_MAX_];

/* Takes the holder, also when it fails. 0 or -errno. */
int kr_engine_new(struct uv_loop_s *loop, struct kr_holder *holder, const struct kr_engine_config *config,
                  const struct kr_engine_calls *calls, void *data, struct kr_engine **ret_engine);
/* Frees it and its holder, which ends the sessions that are left. Not from a callback of the engine: after the loop has
 * stopped. */
void kr_engine_free(struct kr_engine *e);
/* Kills every session and calls on_stopped when all are gone, at the latest after five seconds. */
void kr_engine_stop(struct kr_engine *e);

/* Opens a session; the spec is copied. From the pool if `pooled` and one is parked. on_open comes from the loop,
 * never from here. 0, or -errno with err and no callback will come. */
int kr_engine_open(struct kr_engine *e, const struct kr_session_spec *spec, bool pooled,
                   const struct kr_session_calls *calls, void *data, struct kr_err *err);

/* The owner (kr_session_spec) has no session left. */
void kr_engine_forget_owner(struct kr_engine *e, uint64_t owner);

/* Asks the holder about the folders of sandboxes (holder.h). 0 and fn is called once, or -errno. */
int kr_engine_shelf(struct kr_engine *e, const struct kr_w_shelf *question, struct kr_shelf_ask *ask, kr_shelf_fn *fn,
                    void *data);
void kr_engine_forget_shelf(struct kr_engine *e, struct kr_shelf_ask *ask);
/* Asks the holder whether it answers. 0 and fn is called once, or -errno. */
int kr_engine_ping(struct kr_engine *e, struct kr_ping_ask *ask, kr_ping_fn *fn, void *data);
void kr_engine_forget_ping(struct kr_engine *e, struct kr_ping_ask *ask);
/* What a caller whose session has no network may choose, as a clause for hints, which stays the caller's. NULL:
 * nothing. */
void kr_engine_offer(struct kr_engine *e, const char *clause);
/* Whether sessions with an environment may have packages installed, and which never: for hints. The words stay the
 * caller's. */
void kr_engine_installs(struct kr_engine *e, bool enabled, const struct kr_words *blocked);
/* What enforces the limits there; until it is called, nothing does and folders are measured. */
void kr_engine_shelf_is(struct kr_engine *e, enum kr_shelf_kind kind);

/* Of a lazy engine: sessions will be asked for. Starts the zygote of `basic`, and the others when it is ready. */
void kr_engine_wake(struct kr_engine *e);
/* The zygote for a session whose first run is this code: the wanted one, or that of `basic` while a lazy engine still
 * starts the wanted one and the code names no module of it. What it imports later, it imports itself. */
uint32_t kr_engine_zygote_for(const struct kr_engine *e, uint32_t wanted, const char *code, size_t len);
/* What its holder gives; NULL until it is known. */
const struct kr_holder_info *kr_engine_info(const struct kr_engine *e);
/* Those for templates not counted. */
size_t kr_engine_zygote_count(const struct kr_engine *e);
/* One for templates imports from this folder of the shelf from now on ("": it ends), and is STARTING until the holder
 * says otherwise. Sessions that name an earlier epoch come from the zygote that they name otherwise. */
void kr_engine_preload(struct kr_engine *e, uint32_t zygote, const char *folder);
struct kr_engine_zygote kr_engine_zygote(const struct kr_engine *e, size_t index);
