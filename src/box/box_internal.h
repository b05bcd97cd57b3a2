/* What the files of the domain share: the structs behind box.h. Not for other folders. */
#pragma once
#include "box.h"
#include "buf.h"
#include "loop.h"
#include "mirror.h"
#include "run.h"
#include "sandbox_settings.h"
#include <sys/queue.h>
#include <time.h>

TAILQ_HEAD(kr_box_run_list, kr_box_run);
TAILQ_HEAD(kr_box_session_list, kr_box_session);
TAILQ_HEAD(kr_box_terminal_list, kr_box_terminal);

#define KR_BOX_OPENERS_MAX 16u
#define KR_BOX_BUCKETS 1024u
#define KR_BOX_REQUEST_ROOM 129u
#define KR_BOX_ADDRESS_ROOM 65u
#define KR_BOX_WAITING_MAX 4096u              /* sessions that wait for a slot, … */
#define KR_BOX_WAITING_USER_MAX 1024u         /* … of one user */
#define KR_BOX_QUEUED_BYTES (256u << 20)      /* of runs that have not begun, … */
#define KR_BOX_QUEUED_USER_BYTES (128u << 20) /* … of one user */
#define KR_BOX_RUN_BYTES 4096u                /* what one is counted with besides its code and input */

/* Which change is allowed is a table in box_sessions.c. */
enum kr_box_session_state {
    KR_BOX_SESSION_NEW,     /* in no list yet */
    KR_BOX_SESSION_WAITING, /* for a slot */
    KR_BOX_SESSION_OPENING, /* has a slot; the engine was asked for a process */
    KR_BOX_SESSION_LIVE,
    KR_BOX_SESSION_LEAVING, /* its process is ending; runs that come now wait for a new one */
    KR_BOX_SESSION_ENDED,   /* without a process and a slot: until the end of its last run is complete */
    KR_BOX_SESSION_GONE,    /* out of the lists; freed when no look is under way */
    KR_BOX_SESSION_STATE_MAX_,
};

/* The look at a session's folder that the changes of its next run are judged by. */
enum kr_box_look_state {
    KR_BOX_LOOK_NEEDED,
    KR_BOX_LOOK_UNDER_WAY, /* on the thread pool */
    KR_BOX_LOOK_STALE,     /* under way, and needed again after that */
    KR_BOX_LOOK_DONE,      /* or not possible, or there is no folder */
    KR_BOX_LOOK_STATE_MAX_,
};

struct kr_box_opener {
    void (*on_open)(void *data, const struct kr_box_session_info *info, const struct kr_err *err);
    void *data;
};

#define KR_BOX_NOTICE_ROOM 280u

struct kr_box_session {
    TAILQ_ENTRY(kr_box_session) link;         /* of the box, least recently used first */
    TAILQ_ENTRY(kr_box_session) waiting_link; /* of the sessions that wait for a slot, while it does */
    TAILQ_ENTRY(kr_box_session) named_link;   /* of the bucket of its name, unless it is thrown away */
    struct kr_box *box;
    struct kr_box_user *user;
    const struct kr_profile *profile; /* of the caller who opened it */
    char sandbox[KR_STORE_ID_ROOM], sandbox_name[KR_STORE_NAME_ROOM];
    char name[KR_BOX_SESSION_NAME_MAX + 1];
    bool auto_install, secrets_tls;   /* of its sandbox (box.h) */
    json_t *secrets;                  /* variables and names of secrets, as its sandbox had them; NULL: none */
    struct kr_policy_ask *policy_ask; /* what the run that opened it asked for, owned; NULL: nothing */
    struct kr_policy_spec *policy;    /* what its process was opened with, owned; NULL: open */
    char home[KR_STORE_ID_ROOM];      /* the sandbox's folder on the shelf, whose environment it sees */
    bool thrown_away;                 /* with its one run */
    bool retired;                     /* it ends when no run is in it and none waits */
    bool restarted;                   /* it is a new process under a name that was used before; the first run says so */
    bool chatted;                     /* it wrote between runs, and that was logged */
    const char *end_reason;           /* of kr_box_session_end(); NULL: it has not been called */
    uint64_t cell;                    /* of its process, as the egress process knows it; 0: it does not */
    enum kr_box_session_state state;  /* changed by kr_box_session_set_state() alone */
    struct kr_session *engine_session; /* its process; NULL unless LIVE or LEAVING */
    struct kr_session_spec spec;       /* env is owned */
    int64_t created_us, used_us;
    uint64_t executions, asked_ns, deadline_ns; /* deadline: for room */
    bool needs_folder;                          /* in a pass of box_room.c: its folder is not ready */
    bool limit_asked; /* while it waits: the limits of its folder were set, or are being set (box_shelf.c) */
    struct kr_box_run *current;
    struct kr_box_terminal *terminal; /* its program, instead of runs; NULL: none, or it has ended */
    struct kr_box_run_list waiting;
    unsigned waiting_count;
    struct kr_box_opener openers[KR_BOX_OPENERS_MAX];
    unsigned opener_count;
    /* The rest is changed by box_changes.c alone. */
    struct kr_box_folder *folder; /* that it has looked at; NULL: none yet */
    LIST_ENTRY(kr_box_session) folder_link;
    TAILQ_ENTRY(kr_box_session) coded_link; /* of the folder's that have run code, while `coded` */
    bool coded;
    uint64_t code_ns;           /* when its process ran code first */
    struct kr_mirror_mark mark; /* from which on the changes are its next run's, or its current one's */
    enum kr_box_look_state look;
    unsigned relooks; /* that files stored meanwhile have caused */
    bool unsure;      /* they were stored during the last one, too */
};

/* Which change is allowed is a table in box_runs.c. */
enum kr_box_run_state {
    KR_BOX_RUN_WAITING,
    KR_BOX_RUN_RUNNING,
    KR_BOX_RUN_ENDING, /* its files are looked at */
    KR_BOX_RUN_OVER,   /* its log has its end, but on_admitted has not been called; it has no session any more */
    KR_BOX_RUN_STATE_MAX_,
};

/* What is known to its starter, through on_admitted. */
enum kr_box_run_news {
    KR_BOX_NEWS_NONE,    /* nothing is known yet */
    KR_BOX_NEWS_RUN,     /* on_admitted comes in this turn of the loop, with the run */
    KR_BOX_NEWS_REFUSED, /* on_admitted comes in this turn of the loop, with `refusal` */
    KR_BOX_NEWS_TOLD,    /* on_admitted has been called, or the starter has left */
    KR_BOX_NEWS_MAX_,
};

struct kr_box_run {
    TAILQ_ENTRY(kr_box_run) link;   /* of its session's queue */
    TAILQ_ENTRY(kr_box_run) all;    /* of the bucket of its id */
    TAILQ_ENTRY(kr_box_run) untold; /* of the runs with news, until on_admitted is called */
    struct kr_box *box;
    struct kr_box_session *session;
    struct kr_box_user *user;
    const struct kr_profile *profile; /* of the caller that started it */
    char id[KR_STORE_ID_ROOM];
    char sandbox[KR_STORE_ID_ROOM];
    char session_name[KR_BOX_SESSION_NAME_MAX + 1];
    char request[KR_BOX_REQUEST_ROOM]; /* the id of the request that started it; may be "" */
    char address[KR_BOX_ADDRESS_ROOM]; /* whose it was */
    unsigned rights;                   /* of the caller that started it */
    unsigned packages;                 /* asks of its cell for packages that are not answered yet */
    bool noted, touches;               /* the store knows that it started; its sandbox's use is to be noted */
    enum kr_box_run_state state;       /* changed by kr_box_run_set_state() alone */
    enum kr_box_run_news news;         /* changed by box_runs.c alone */
    struct kr_runlog *log;
    struct kr_run *run;      /* the engine's, while it is RUNNING */
    struct kr_run_spec spec; /* its own copy: texts and objects are freed when it has begun */
    size_t queued_bytes;     /* of the copy, until it has begun */
    bool cancelled, restarted;
    struct kr_net_rule *network;     /* that it asked for, owned; NULL: its session's */
    struct kr_policy_spec *policy;   /* what holds for it, owned; NULL: open */
    unsigned refused_count;          /* connections that its rule refused, … */
    char refused[KR_HINT_ROOM];      /* … and the first of them */
    char notice[KR_BOX_NOTICE_ROOM]; /* what happened to its session since the last run, "" if nothing */
    bool thawed;                     /* its session was frozen for its background_cpu */
    struct kr_err refusal;
    kr_box_admitted_fn *on_admitted;
    void *data;
    unsigned watchers;
    struct kr_timer *linger;
    int64_t asked_us, started_us;
    uint64_t asked_ns, waited_ns, wall_ns;
    enum kr_cause cause;
    struct kr_buf end;       /* members of the end's object so far */
    struct kr_buf log_bytes; /* its log, if it is small: kept with its row */
    struct kr_store_run_end row;
    char message[KR_STORE_MESSAGE_ROOM];
    char hint[KR_HINT_ROOM];
};

/* A user with sessions or runs, or with an allowance or a disk size to remember. */
struct kr_box_user {
    TAILQ_ENTRY(kr_box_user) link;
    char id[KR_STORE_ID_ROOM];
    uint64_t number;          /* no other user has had it */
    unsigned refs, sessions;  /* sessions: live or opening */
    unsigned leaving, coming; /* slots that will be free; of those, the ones not claimed in this pass */
    unsigned waiting;         /* sessions that wait for a slot */
    size_t queued_bytes;
    uint64_t disk, disk_ns;    /* bytes of all sandboxes when last measured; 0: never */
    struct kr_disk_walk *walk; /* while its folders are walked */
    double tokens;             /* runs that may start now */
    uint64_t tokens_ns;
};

/* Sessions of one profile; as the same members of a user. */
struct kr_box_share {
    unsigned sessions, leaving, coming;
};

/* A zygote for templates, in the order of the configuration. */
struct kr_box_preload_slot {
    char folder[KR_STORE_ID_ROOM]; /* whose environment it imports from; "": there is none */
    char *facts;                   /* of that environment, NUL terminated */
    size_t size;
    const char *why; /* there is none; a constant */
};

struct kr_box {
    struct uv_loop_s *loop;
    struct kr_engine *engine;
    struct kr_box_config config;
    struct kr_box_calls calls;
    void *data;
    int shelf, logs_dir; /* folders sandboxes/ and logs/ */
    struct kr_runlogs *logs;
    struct kr_box_session_list sessions, waiting_list;
    struct kr_box_terminal_list terminals; /* the newest last */
    struct kr_box_session_list named[KR_BOX_BUCKETS];
    bool live_openers; /* a live session has openers, who are told in the next turn */
    TAILQ_HEAD(, kr_box_user) users;
    uint64_t last_user; /* number */
    struct kr_box_run_list buckets[KR_BOX_BUCKETS];
    struct kr_box_run_list untold;
    size_t run_count, live, leaving, waiting; /* live: sessions open or opening; the others as of a user */
    struct kr_box_share shares[KR_DIALECT_MAX_];
    struct kr_limits ceilings; /* the highest of all profiles */
    size_t queued_bytes;
    size_t most;        /* sessions that the engine has room for, as a refusal has shown; 0: not known */
    struct kr_err full; /* that refusal */
    unsigned jobs;      /* of the thread pool */
    struct kr_soon *kick;
    struct kr_timer *upkeep, *stopper, *slot_timer, *pruner,
        *settler;                  /* slot_timer: the first deadline of the sessions that wait */
    bool stopping, stopped, freed; /* freed: the last job frees it */
    void (*on_stopped)(void *data);
    void *stop_data;
    uint64_t data_bytes;
    bool sweeping, trimming;
    bool notes_fail, settle_fail; /* at the last try; it has been said */
    bool was_alone;               /* no other process had the data directory when this one began */
    bool cleared;                 /* the shelf was looked through for what dead ones left */
    unsigned hurries;             /* upkeeps that came early */
    struct timespec born;
    bool keeper; /* retention is this process's */
    int host;    /* the folder of config.workspace (O_PATH), or -1 */
    struct kr_sandbox_cache *cache;
    struct kr_looks *looks;
    struct kr_notes *notes;       /* made when first needed */
    struct kr_box_shelf *shelves; /* NULL: nothing enforces limits of folders */
    struct kr_connections *connections;
    struct kr_security *security;
    struct kr_user_profiles *user_profiles;
    struct kr_user_name *user_names;   /* by a hash of the id */
    struct kr_strays *strays;          /* while the shelf is looked through */
    unsigned doomed_seen, doomed_skip; /* folders that could not be removed do not hold up the others */
    struct kr_timer *preloader;        /* NULL: no template is preloaded */
    struct kr_box_preload_slot preloads[KR_ENGINE_ZYGOTES_MAX];
};

/* ---- box.c ---- */
struct kr_box_user *kr_box_user_get(struct kr_box *b, const char *id);
void kr_box_user_drop(struct kr_box *b, struct kr_box_user *u);
/* Takes one of the runs per minute. 0, or KR_ERR_LIMIT. */
int kr_box_user_may_run(struct kr_box *b, struct kr_box_user *u, struct kr_err *err);
/* Asks for on_kick() in this turn of the loop: callbacks to the voices come from there. */
void kr_box_kick(struct kr_box *b);
/* Makes what was noted in the store safe from kill -9: at once, or at the end of this turn of the loop. */
void kr_box_noted(struct kr_box *b, bool at_once);
/* Would a row of a run be kept? 0, or -errno with one line for the caller. */
int kr_box_can_note(struct kr_box *b, struct kr_err *err);
void kr_box_check_stopped(struct kr_box *b);
/* Work on the thread pool begins, and ends. False: the box was freed meanwhile, and must not be used. */
void kr_box_job_begin(struct kr_box *b);
bool kr_box_job_end(struct kr_box *b);

/* ---- box_env.c ---- */
void kr_box_preloads_close(struct kr_box *b);

/* ---- box_sandbox_cache.c ---- */
int kr_sandbox_cache_new(struct kr_sandbox_cache **ret);
void kr_sandbox_cache_free(struct kr_sandbox_cache *c);
/* box_reload.c: the highest ceilings of all profiles. */
void kr_box_find_ceilings(struct kr_box *b);
/* The same file: what hints may name of the network. */
void kr_box_tell_offer(struct kr_box *b);
/* All is looked up anew: what the server sets for sandboxes has changed. */
void kr_sandbox_cache_clear(struct kr_sandbox_cache *c);
/* As kr_box_sandbox_find(), from memory if it is known; borrowed until the return to the loop. */
int kr_box_sandbox_use(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_sandbox **ret,
                       struct kr_err *err);

/* ---- box_sessions.c ---- */
/* A name as a client may give it: 0 or -EINVAL. NULL is fine. */
int kr_box_session_check_name(const char *name, struct kr_err *err);
struct kr_box_session *kr_box_session_by_name(struct kr_box *b, const char *sandbox, const char *name);
/* A new one, WAITING. 0 or -errno. */
struct kr_box_session_how {
    const char *name;
    bool thrown_away;                   /* with its one run */
    bool in_folder;                     /* its workspace is the sandbox's folder */
    const struct kr_policy_ask *policy; /* what its run asks for; NULL: nothing */
};
int kr_box_session_new(struct kr_box *b, struct kr_box_user *u, const struct kr_profile *profile,
                       const struct kr_sandbox *s, const struct kr_box_session_how *how, struct kr_box_session **ret,
                       struct kr_err *err);
/* What runs in this session may do now: the sandbox's policy and what the session was opened with. */
void kr_box_session_policy_now(const struct kr_box_session *session, const struct kr_sandbox *s,
                               struct kr_policy_spec *ret);
/* It was opened with that policy, or has the same rights under another list. */
bool kr_box_session_has_rights(const struct kr_box_session *session, const struct kr_policy_spec *policy);
/* Does what is next: a run, a new process, its end. */
void kr_box_session_proceed(struct kr_box_session *session);
/* The only function that changes its state. */
void kr_box_session_set_state(struct kr_box_session *session, enum kr_box_session_state next);
/* Takes a slot and asks the engine for a process. */
void kr_box_session_start(struct kr_box_session *session);
/* Its process is ending: no run begins in it any more, and its slot will be free. */
void kr_box_session_leave(struct kr_box_session *session);
/* A run or opener that waited for it has left: it ends unless others wait. */
void kr_box_session_release(struct kr_box_session *session);
/* It cannot be opened: refuses all runs and openers that wait for it, and removes it. */
void kr_box_session_fail(struct kr_box_session *session, enum kr_cause cause, const struct kr_err *err);
void kr_box_session_free(struct kr_box_session *session);
/* `why` is a word of the metric krait_sessions_ended_total. */
void kr_box_session_end(struct kr_box_session *session, const char *why);
void kr_box_session_get_info(const struct kr_box_session *session, struct kr_box_session_info *ret);
/* Cancels what waits for it, and ends it. */
void kr_box_session_cancel(struct kr_box_session *session, const char *why);
/* Ends all sessions of a sandbox. */
void kr_box_sessions_end_sandbox(struct kr_box *b, const char *sandbox);

/* ---- box_egress.c ---- */
/* The certificates that a session with secrets_tls trusts: a file of its sandbox's environment, read-only to it. */
#define KR_BOX_CA_FILE "krait-ca.pem"
#define KR_BOX_CA_PATH "/venv/" KR_BOX_CA_FILE
void kr_box_egress_open(struct kr_box *b);
void kr_box_egress_close(struct kr_box *b);
/* A session's process is there: its listener is handed over. It is gone. */
void kr_box_egress_begin(struct kr_box_session *session);
void kr_box_egress_end(struct kr_box_session *session);
/* What holds from now on: the rule of this run, which is about to begin, or (NULL) the session's own. */
void kr_box_egress_tell(struct kr_box_session *session, const struct kr_box_run *run);
/* The hint of a run that has ended, if it had connections refused. */
void kr_box_egress_hint(struct kr_box_run *r);
/* Adds to the environment what its network needs and `env` does not set; there is room. 0 or -ENOMEM. */
int kr_box_egress_env(const struct kr_box_session *session, const json_t *env, struct kr_session_spec *spec);
/* How many variables the call above may add. */
size_t kr_box_egress_env_most(const struct kr_box_session *session, const struct kr_session_spec *spec);
/* The names in the setting `secrets` are those of secrets that the user has. 0 or -EINVAL. */
int kr_box_secrets_check(const struct kr_box *b, const char *user, const json_t *settings, struct kr_err *err);

/* ---- box_connections.c ---- */
int kr_connections_open(struct kr_box *b);
/* A connection has ended or was refused: its row, checked. */
void kr_connections_take(struct kr_box *b, const json_t *row);
/* Writes what waits. */
void kr_connections_flush(struct kr_box *b);
void kr_connections_close(struct kr_box *b);
/* Removes a small piece of what is past retention (since 0: no bound by age) or too many. How many rows, or -errno,
 * which was logged. */
int kr_connections_prune(struct kr_box *b, int64_t since);

int kr_box_security_open(struct kr_box *b);

/* ---- box_reload.c: users and their rules ---- */
int kr_box_users_open(struct kr_box *b);
void kr_box_users_close(struct kr_box *b);
/* May this caller run code at all? 0, or KR_ERR_DENIED: whose code it is cannot be told, and rules differ by user. */
int kr_box_may_run(const struct kr_box *b, const struct kr_caller *who, struct kr_err *err);

/* The zygote with this preload, else the first (box_sessions.c). */
uint32_t kr_box_zygote_of(const struct kr_box *b, enum kr_preload preload);

/* ---- box_env.c ---- */
/* The sandbox's environment for a session that is about to be opened: made if it is missing. Without one it begins all
 * the same. */
void kr_box_env_show(const struct kr_box *b, const struct kr_box_session *session, struct kr_session_spec *spec);

/* ---- box_disk.c ---- */
/* Measures the user's disk on the thread pool, unless that was done a moment ago. */
void kr_disk_look(struct kr_box *b, struct kr_box_user *u);
/* What the user has left, for a new session's folder; 0: no bound. */
uint64_t kr_disk_left(const struct kr_box *b, const struct kr_box_user *u);

/* ---- box_shelf.c ---- */
/* Asks what the shelf is, and begins to keep spare folders if limits are enforced there. 0 or -errno. */
int kr_shelf_begin(struct kr_box *b);
/* The box stops: spares are removed. */
void kr_shelf_stop(struct kr_box *b);
void kr_shelf_end(struct kr_box *b);
bool kr_shelf_enforces(const struct kr_box *b);
/* A spare folder gets this name, unless it is there. 0; 1: there is none yet, and one is being made. */
int kr_shelf_place(struct kr_box *b, const char *folder);
/* May a session begin? False: it waits for a folder with its limits, and on_kick() comes when there is one, or none
 * will be. */
bool kr_shelf_ready(struct kr_box *b, struct kr_box_session *session);
/* Sets the limits of a folder: its sandbox's, or what the user has left, if that is less. Costs little if they are
 * set already. */
void kr_shelf_limit(struct kr_box *b, const char *user, const char *folder, const struct kr_limits *limits);
/* What a folder was found to use. */
void kr_shelf_used(struct kr_box *b, const char *folder, uint64_t bytes);
/* Asks about a folder. 0 and fn is called once, or -errno. */
int kr_shelf_ask(struct kr_box *b, enum kr_shelf_op op, const char *folder, struct kr_shelf_ask *ask, kr_shelf_fn *fn,
                 void *data);

/* ---- box_sandboxes.c ---- */
/* Could a sandbox of this name (NULL: any) with these settings (NULL: none) be made? Its limits; or -errno. */
int kr_box_sandbox_check(const struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                         struct kr_limits *ret_limits, struct kr_err *err);
/* As kr_box_sandbox_create(), in a folder that was leased (NULL: a new one). */
int kr_box_sandbox_make(struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                        const char *folder, struct kr_sandbox *ret, struct kr_err *err);

/* ---- box_copy.c ---- */
/* Copies a folder of the shelf into a new one with these limits, which is on lease until a row takes it. 0 and fn is
 * called once, from the loop, unless the box is freed before; or -errno. `bytes` is what the copied folder held. */
typedef void kr_folder_copied_fn(void *data, const char *folder, uint64_t bytes, const struct kr_err *err);
int kr_folder_copy(struct kr_box *b, const char *from, const struct kr_limits *limits, kr_folder_copied_fn *fn,
                   void *data, struct kr_err *err);

/* ---- box_terminals.c ---- */
/* Its program takes input again. */
void kr_box_terminal_takes(struct kr_box_terminal *t);
/* The box goes: no reader is left. */
void kr_box_terminals_free(struct kr_box *b);
/* The program of the terminal of that id, and how many asks of its are not answered. NULL: there is none, or it has
 * ended. */
struct kr_run *kr_box_terminal_program(struct kr_box *b, const char *id, unsigned **ret_packages);

/* ---- box_notes.c ---- */
/* Keeps why a session was ended between two runs. */
void kr_notes_add(struct kr_box *b, const struct kr_box_session *session, const char *text);
/* What was kept for this session, "" if nothing; it is told once. */
void kr_notes_take(struct kr_box *b, const struct kr_box_session *session, char text[KR_BOX_NOTICE_ROOM]);

/* ---- box_room.c ---- */
/* Gives slots to sessions that wait, and refuses those whose deadline has passed. */
void kr_box_sessions_admit(struct kr_box *b);
/* The engine has no room for its process: it waits for a slot again. False: no other session could make room. */
bool kr_box_session_wait_again(struct kr_box_session *session, const struct kr_err *why);
/* The box stops: cancels what waits, ends idle sessions. */
void kr_box_sessions_stop(struct kr_box *b);

/* ---- box_packages.c ---- */
/* of_engine asks in the name of `by`; *open counts what is not answered yet. */
void kr_box_packages_ask(struct kr_box *b, const struct kr_box_asker *by, unsigned *open, struct kr_run *of_engine,
                         uint32_t number, const json_t *ask);
/* It ends: what it has asked for is not wanted any more. */
void kr_box_packages_over(struct kr_box *b, const struct kr_box_asker *by, unsigned *open);
void kr_box_run_on_packages(void *run, struct kr_run *of_engine, uint32_t number, const json_t *ask);
void kr_box_run_packages_over(struct kr_box_run *r);

/* ---- box_runs.c ---- */
struct kr_json;
/* Of any user. */
struct kr_box_run *kr_box_run_by_id(struct kr_box *b, const char *id);
void kr_box_run_log_json(struct kr_box_run *r, enum kr_event_type type, struct kr_buf *buf, struct kr_json *j);
void kr_box_run_log_started(struct kr_box_run *r);
/* Its row and its line in the audit log, unless they are there. */
void kr_box_run_note_start(struct kr_box_run *r, const struct kr_text *code);
/* The only function that changes its state. */
void kr_box_run_set_state(struct kr_box_run *r, enum kr_box_run_state next);
/* Its starter: of the run or of the refusal in this turn of the loop, now (from the loop alone), or not any more. */
void kr_box_run_tell_later(struct kr_box_run *r);
void kr_box_run_refuse_later(struct kr_box_run *r, const struct kr_err *err);
void kr_box_run_tell_now(struct kr_box_run *r);
void kr_box_run_tell_never(struct kr_box_run *r);
void kr_box_tell_admitted(struct kr_box *b);
/* Frees its texts: the engine has them, or they are not needed any more. */
void kr_box_run_free_texts(struct kr_box_run *r);
void kr_box_run_free(struct kr_box_run *r);

/* ---- box_run_events.c ---- */
/* Begins the first run of a live session's queue. False: it could not begin, and is over. */
bool kr_box_run_begin(struct kr_box_run *r);
/* Ends a run that never began. If its starter does not know of it yet, on_admitted comes with err in this turn. */
void kr_box_run_drop(struct kr_box_run *r, enum kr_cause cause, const struct kr_err *err);
/* Its end is complete: `files` is the JSON array of changed files or NULL. */
void kr_box_run_finish(struct kr_box_run *r, const char *files, bool files_incomplete, uint64_t files_bytes);

/* ---- box_changes.c ---- */
/* 0 or -errno; closed in either case. After the sessions, and after the box was marked as freed. */
int kr_changes_open(struct kr_box *b);
void kr_changes_close(struct kr_box *b);
/* A run begins in the session: what it changes is awaited. */
void kr_changes_begin(struct kr_box_session *session);
/* What it ran has ended, and no list of what that changed is wanted. */
void kr_changes_end(struct kr_box_session *session);
/* Looks at the session's folder: before its first run, or (run) after that one, whose end it completes. At once if
 * there is little to look at, else on the thread pool, and goes on with the session then. */
void kr_changes_look(struct kr_box_session *session, struct kr_box_run *run);
/* Is a look under way? */
bool kr_changes_looking(const struct kr_box_session *session);
/* Its next run needs a new look first, or, if it has no folder, none. */
void kr_changes_forget(struct kr_box_session *session);
/* It goes. */
void kr_changes_leave(struct kr_box_session *session);

/* ---- box_strays.c ---- */
/* Takes away what a killed process left on the shelf: on the thread pool, then in small pieces. */
void kr_strays_look(struct kr_box *b);
void kr_strays_close(struct kr_box *b);
