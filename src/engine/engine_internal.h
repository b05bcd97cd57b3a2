/* What the files of this folder share: the structs behind session.h, run.h and engine.h. Not for other folders. */
#pragma once
#include "buf.h"
#include "claim.h"
#include "engine.h"
#include "frame.h"
#include "holder.h"
#include "loop.h"
#include "pool.h"
#include "run.h"
#include "session.h"
#include "sweep.h"
#include <sys/queue.h>

#define KR_SESSION_OPEN_MS 10000u     /* from OPENED to S_READY, from S_START to S_STARTED */
#define KR_SESSION_KILL_MS 10000u     /* from KILL to ENDED */
#define KR_SESSION_EXIT_MS 2000u      /* from a script's S_END to the end of its process */
#define KR_SESSION_TICK_MS 250u       /* looks at counters during a run */
#define KR_SESSION_IDLE_TICK_MS 8000u /* the longest time between two looks at the folder of an idle session */
#define KR_SESSION_NO_LOOK UINT64_MAX
#define KR_SESSION_HANGUP_MS 1000u   /* a closed channel whose process lives on */
#define KR_SESSION_GAP_MS 50u        /* an idle time shorter than this is not accounted apart */
#define KR_ENGINE_ZYGOTE_MS 60000u   /* how long an open waits for its zygote */
#define KR_ENGINE_OPENS_MAX 8u       /* OPENs under way at once, the pool's own not counted */
#define KR_ENGINE_FDS_PER_SESSION 3u /* channel, stdout, stderr; and stdin, where it has a pipe there */
#define KR_ENGINE_FDS_OF_LISTENER 2u /* the session's and the egress client's (egress_client.h) */
#define KR_ENGINE_FDS_RESERVE 32u    /* for everything else: folders that are swept, files that are written */

TAILQ_HEAD(kr_run_list, kr_run);
TAILQ_HEAD(kr_session_list, kr_session);
TAILQ_HEAD(kr_open_list, kr_open);
TAILQ_HEAD(kr_pool_list, kr_pool);

/* An open that waits for its session. */
struct kr_open {
    TAILQ_ENTRY(kr_open) link;
    struct kr_session_spec spec; /* env is owned */
    bool pooled;
    struct kr_session_calls calls;
    void *data;
    unsigned tries;       /* sessions that were lost before they were ready */
    uint64_t deadline_ns; /* for its zygote to be ready */
};

struct kr_session {
    TAILQ_ENTRY(kr_session) link;   /* of the engine's list or the graveyard */
    TAILQ_ENTRY(kr_session) parked; /* of its pool's list */
    struct kr_engine *engine;
    uint32_t number;
    enum kr_session_state state;
    struct kr_session_spec spec; /* env is owned */
    struct kr_session_calls calls;
    void *data;
    struct kr_open *open; /* that it is made for */
    struct kr_pool *pool; /* that it belongs to until it is handed over */
    bool handed_out;      /* on_open was called */
    bool attached;        /* on_started has come */
    bool confined;        /* S_STARTED has come */
    bool pooled;          /* it was parked before */
    bool of_pool;         /* it was begun for a pool, whether or not it was parked */

    struct kr_held *held; /* what its holder knows of it */
    struct kr_usage_ask ask;
    uint32_t layers, generation;
    struct kr_claim_ready claim;
    struct kr_watch *channel, *pipes[KR_STREAM_MAX_], *in;
    int listener; /* in its cell, where connections to the proxy arrive; -1: none */
    struct kr_outq *channel_out, *in_out;
    bool in_ends, paused;
    bool reading; /* its channel; a run begins after that: what it sent before that is of no run to come */
    struct kr_frame_reader reader;
    struct kr_timer *timer; /* what it means follows from the state */
    struct kr_timer *tick;  /* made when first needed */
    struct kr_timer *more;  /* frames wait in the reader for their turn; made when first needed */
    struct kr_timer *rest;  /* its output is not read until then; made when first needed */
    uint64_t read_ns;       /* when output was read last, or could be again */
    enum kr_stream read_stream;
    unsigned crumbs;     /* small reads that followed another at once, less those that did not */
    uint64_t hung_up_ns; /* when the channel was closed from inside, 0: it is open */

    struct kr_run *run; /* the current one */
    struct kr_run_list queue;
    uint32_t last_run, last_name, warm_id;
    bool has_run;                        /* code of its user, in whole or in part */
    bool warm_last;                      /* warm_id is the second of its two warm-ups */
    struct kr_usage usage;               /* as last seen */
    uint64_t idle_since_ns, idle_cpu_ns; /* when its last run ended, and the CPU time of its cell then */
    struct kr_timer *background;         /* looks between two runs; made when first needed */
    struct kr_usage_ask background_ask;
    enum kr_pace pace;      /* as its holder was told */
    unsigned looks;         /* since its last run */
    bool spent;             /* frozen for its background_cpu */
    uint64_t others;        /* processes besides its own, when its last run had ended */
    bool has_dead;          /* processes of its last run were ended: it may be the parent that has to await them */
    struct kr_sweep *sweep; /* of its host folder */
    struct kr_shelf_ask shelf_ask;
    bool counts_only;      /* the sweep is for the entries: bytes are limited by the folder's filesystem */
    bool shelf_full;       /* the shelf had no room left when a write of the run was refused */
    uint64_t look_from_ns; /* a verdict is made only from a look that began then or later; NO_LOOK: none is due */
    uint64_t swept_cpu_ns; /* the CPU counter at the last look between two runs */
    uint64_t still_ns;     /* since when that counter stands still */
    unsigned idle_tick_ms; /* until the next look between two runs */
    bool tick_is_slow;     /* the tick is armed for that */
    struct kr_count_ask count_ask; /* for deleted files that are still open */
    uint64_t count_not_before_ns;  /* the next one */
    bool count_due;                /* a verdict between two runs waits for an answer */
    bool count_settles;            /* that of the question under way, which was asked since then */
    bool cannot_count;             /* its holder cannot tell */
    unsigned blind_counts;         /* answers in a row that were not whole */

    struct kr_output between; /* output that no run made */
    uint64_t between_cpu_ns, stale_frames;
    bool killed, broken, cpu_exceeded, closing;
    enum kr_measure_over disk_over; /* why it was ended for its folder */
    enum kr_measure_gap disk_gap;
    bool disk_short;   /* it was ended because the server's disk was almost full */
    struct kr_err why; /* when broken, or why it could not be opened */
};

enum kr_run_state {
    KR_RUN_QUEUED,
    KR_RUN_RUNNING,
    KR_RUN_ASKING,   /* input() waits for its line and the wall time stands still: the timer is that of the question */
    KR_RUN_STOPPING, /* it is to end: SIGINT is sent and the grace runs, or its session is killed */
    KR_RUN_ENDED,    /* S_END has come */
    KR_RUN_STATE_MAX_,
};

/* Which processes of its session are ended when a run has ended. */
enum kr_clearing {
    KR_CLEAR_NONE,
    KR_CLEAR_STARTED, /* those that it started */
    KR_CLEAR_ALL,
    KR_CLEAR_BOMB, /* all, and none can be started meanwhile */
};

struct kr_run {
    TAILQ_ENTRY(kr_run) link;
    struct kr_session *session;
    enum kr_run_state state;
    uint32_t id;
    struct kr_buf json; /* the S_RUN that waits to be sent */
    struct kr_run_calls calls;
    void *data;
    bool script;
    bool terminal; /* a program on a terminal: `json` is the payload of S_TERMINAL */
    bool exited;   /* that program has ended, as program_status tells */
    int program_status;
    uint64_t timeout_ms;
    struct kr_output output;
    const char *install_call; /* of its caller's voice */
    unsigned packages;        /* frames that asked for some */
    char *said; /* the last of a shell command's output, KR_HINT_SAID_MAX bytes at most; NULL: it is none */
    struct kr_claim_end claim;
    bool asked;           /* input() waits for its line, whether the wall time stands still or not */
    bool unanswered;      /* a question waited in vain, and had the end of input */
    unsigned asks;        /* questions since the last answer */
    uint64_t question_ns; /* when the last one came */
    uint64_t stood_ns;    /* how long the wall time stood still in all, before this question */
    uint64_t asked_ns;    /* since when it does, when ASKING */
    bool timed_out, interrupted, signal_again, cancelled;
    bool signalled; /* S_INTERRUPT was sent */
    uint32_t displays, displays_cut;
    uint64_t display_bytes, display_cap;
    uint64_t started_ns, ended_ns;
    struct kr_usage before;
    struct kr_usage_ask ask, ask_before;
    bool thawed; /* its session was frozen for its background_cpu when it began */
    enum kr_clearing clearing;
    unsigned clears, left_behind; /* questions for the end of the processes it left; how many those were */
    struct kr_shelf_ask shelf_ask;
};

struct kr_zygote {
    enum kr_preload preload;
    enum kr_zygote_state state;
    uint32_t generation; /* of the one that forks now, or will */
    struct kr_err err;   /* when FAILED */
    uint32_t epoch;      /* of one for templates: how often it was told what to import */
    unsigned missed;     /* sessions of one for templates, in a row, that were not ready in time */
    bool was_ready;      /* once: then a failure is an outage, which the warden goes on to mend */
};

struct kr_engine {
    struct uv_loop_s *loop;
    struct kr_holder *holder;
    struct kr_engine_config config;
    struct kr_engine_calls calls;
    void *data;
    bool have_info, gone, stopping, stopped;
    bool woken[KR_ENGINE_ZYGOTES_MAX]; /* lazy: asked for */
    bool wakes_all;                    /* lazy: kr_engine_wake() was called */
    struct kr_holder_info info;
    struct kr_zygote zygotes[KR_ENGINE_ZYGOTES_MAX];
    struct kr_session_list sessions, graveyard;
    struct kr_pool_list pools;
    struct kr_open_list opens; /* that wait for a zygote or their turn */
    unsigned opens_in_flight, creations;
    uint32_t last_number;
    unsigned descriptors; /* open when it began: what is there besides its sessions */
    unsigned session_fds; /* of its sessions, those that wait for their OPENED among them */
    struct kr_timer *reaper, *waiter, *stopper;
    struct kr_sweeps *sweeps; /* of sessions' host folders */
    enum kr_shelf_kind shelf_kind;
    const char *offer; /* kr_engine_offer() */
    bool installs;     /* kr_engine_installs() */
    struct kr_words blocked;
};

/* ---- session.c ---- */
int kr_session_spec_copy(const struct kr_session_spec *from, struct kr_session_spec *ret);
void kr_session_spec_done(struct kr_session_spec *spec);
/* The one function that changes a state. */
void kr_session_set_state(struct kr_session *s, enum kr_session_state next);
/* Asks the holder for a new session, for an open or (open NULL) for a pool: 0 and it is the last of the engine's, or
 * -errno. */
int kr_session_create(struct kr_engine *e, struct kr_open *open, struct kr_pool *pool,
                      const struct kr_session_spec *spec, struct kr_err *err);
/* Hands a session of a pool to an open: one that is parked, or one that still comes. 0, or -errno and it is of no more
 * use. */
int kr_session_adopt(struct kr_session *s, struct kr_open *open);
/* Asks the holder to set limits and attach the workspace, and the session to confine itself once that is done. */
int kr_session_start(struct kr_session *s, struct kr_err *err);
void kr_session_kill(struct kr_session *s);
/* It broke the protocol: kill it, and its run is `lost`. */
void kr_session_violation(struct kr_session *s, const struct kr_err *err);
/* It could not be made: its open or its pool gets the error, and it is killed. */
void kr_session_open_failed(struct kr_session *s, const struct kr_err *err);
/* Path of the host's folder that is its workspace: 0, 1 for a read-only one, -1: it has none. */
int kr_session_host_folder(const struct kr_session *s, char *buf, size_t size);
/* Hands it out, if both have answered. */
void kr_session_started(struct kr_session *s);
/* Its process is gone; NULL: nothing is known of its end. */
void kr_session_ended(struct kr_session *s, const struct kr_held_end *ended);
void kr_session_on_opened(struct kr_session *s, const struct kr_held_opened *opened, const struct kr_err *err);
void kr_session_on_started(struct kr_session *s, const struct kr_err *err);
/* Its counters, read now: 0, or -errno: its holder must be asked. */
int kr_session_usage(const struct kr_session *s, struct kr_usage *ret);
void kr_session_free(struct kr_session *s);
void kr_session_arm_tick(struct kr_session *s);
/* The next of the queue, if it is idle. */
void kr_session_next_run(struct kr_session *s);

/* ---- session_wire.c ---- */
void kr_session_on_channel(void *session);
/* The same; true if nothing is left for now, false if this turn's share was not enough for what is there. */
bool kr_session_read_channel(struct kr_session *s);
/* Reads what is left in the channel of a session that is gone. */
void kr_session_last_frames(struct kr_session *s);
/* Writes "env":{…} of K=V texts. */
struct kr_json;
int kr_session_send(struct kr_session *s, uint16_t type, uint32_t id, const struct kr_buf *json);
int kr_session_send_start(struct kr_session *s, struct kr_err *err);

/* ---- session_pipes.c ---- */
int kr_session_take_pipes(struct kr_session *s, int *fds, unsigned count);
/* A new run: what the last one wrote, and how, is no reason to let this one's output wait. */
void kr_session_calm(struct kr_session *s);
/* Reads what both pipes hold at this moment, and no more. */
void kr_session_drain(struct kr_session *s);
/* Reads all that is left in the pipes of a session that is gone. */
void kr_session_last_bytes(struct kr_session *s);
void kr_session_close_pipes(struct kr_session *s);

/* ---- run.c ---- */
void kr_run_start(struct kr_run *r);
void kr_run_on_timer(struct kr_run *r);
/* Whether a display of so many bytes is still handed on. If not, it is counted as cut and need not be parsed. */
bool kr_run_takes_display(struct kr_run *r, size_t len);
/* frame_len: bytes that count against the bound, as the session sent them. */
void kr_run_on_display(struct kr_run *r, const char *json, size_t len, size_t frame_len);
/* 0, or -EPROTO with err: too many questions are not answered. */
int kr_run_on_input(struct kr_run *r, const char *prompt, bool password, struct kr_err *err);
/* 0, or -EPROTO with err: too many. */
int kr_run_on_packages(struct kr_run *r, uint32_t number, const json_t *ask, struct kr_err *err);
/* The program of a terminal has ended; `status` is as waitpid gives it. */
void kr_run_on_exited(struct kr_run *r, int status);
/* Takes the claim. */
void kr_run_on_end(struct kr_run *r, struct kr_claim_end *claim);
/* The counters of its end came, or could not be read: it is over, and the next one begins. */
void kr_run_settle(struct kr_run *r, const struct kr_usage *usage);
/* How it ends, by what is known now, its session being alive. */
struct kr_verdict kr_run_judge(const struct kr_run *r);
/* Over: decides and calls on_end. ended is NULL while its session lives. Frees the run. */
void kr_run_finish(struct kr_run *r, const struct kr_held_end *ended);
/* Without a callback, when the engine itself is freed. */
void kr_run_free(struct kr_run *r);
/* Never started. */
void kr_run_drop(struct kr_run *r, enum kr_cause cause, const char *message);
/* How a session ended that had no run. */
/* Is less free than the server needs, where the session's folder lies? */
bool kr_session_disk_is_short(const struct kr_session *s);
/* Why a session that has no run was ended, "" if its cause says it all. */
const char *kr_session_end_text(const struct kr_session *s, enum kr_cause cause, char *buf, size_t size);
enum kr_cause kr_run_cause_without(const struct kr_session *s, const struct kr_held_end *ended);

/* ---- background.c ---- */
/* A run has ended, and none follows it at once; the next one has begun. */
void kr_background_begin(struct kr_session *s);
void kr_background_end(struct kr_session *s);
/* Ends what a run that has ended left behind, if its sandbox wants that: 0, and kr_run_settle() follows, or -errno. */
int kr_background_clear(struct kr_run *r);
/* When a run began, by the clock that processes' starts are told in: CLOCK_BOOTTIME, nanoseconds. */
uint64_t kr_run_boot_time(const struct kr_run *r);
/* The same for what a run has started that ended through a limit; its counters have come, or could not be read. */
int kr_background_clear_started(struct kr_run *r, bool counted);

/* ---- engine.c ---- */
/* How many descriptors it has, or will have. */
unsigned kr_session_fds(const struct kr_session *s);
/* Out of every table; freed when the loop comes round. */
void kr_engine_bury(struct kr_engine *e, struct kr_session *s);
/* A session that was made for an open is ready (err NULL) or failed. */
void kr_engine_open_done(struct kr_engine *e, struct kr_session *s, struct kr_open *open, const struct kr_err *err);
/* Its hand-over failed: a new one is made for the open. */
void kr_engine_open_again(struct kr_engine *e, struct kr_open *open);
/* A session with this specification was not ready in time. A zygote for templates of which several in a row were not is
 * no longer asked, until it is told anew what to import. */
void kr_engine_missed(struct kr_engine *e, const struct kr_session_spec *spec);
/* One was. */
void kr_engine_came(struct kr_engine *e, const struct kr_session_spec *spec);
void kr_engine_free_open(struct kr_open *open);
/* Whether there are descriptors for one more session: 0, or -EMFILE with err. */
int kr_engine_has_room(const struct kr_engine *e, struct kr_err *err);
