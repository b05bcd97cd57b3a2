/* The domain of a server: users' sandboxes, their sessions, runs and run logs, over one engine and one store.
 *
 * All of it belongs to the loop thread. Every id that comes from outside is looked up together with its owner: another
 * user's is as unknown as one that never existed (KR_ERR_NOT_FOUND). Callbacks come from the loop, never from inside a
 * call of this header, unless said otherwise. docs/design/domain.md has the life of a run. */
#pragma once
#include "caller.h"
#include "cause.h"
#include "engine.h"
#include "err.h"
#include "policy.h"
#include "limit.h"
#include "profile.h"
#include "run_spec.h"
#include "runlog.h"
#include "security.h"
#include "store_run.h"
#include "store_sandbox.h"
#include "store_template.h"
#include "user_profiles.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct kr_box;
struct kr_box_run;     /* a run that has not ended yet, or whose starter has not heard of its end */
struct kr_box_session; /* a named session of a sandbox, live or about to be */
struct kr_json;
struct kr_package_python;
struct uv_loop_s;

/* ---- the whole ---- */

#define KR_BOX_PRELOADS_MAX KR_ENGINE_ZYGOTES_MAX

struct kr_box_config {
    struct kr_store *store; /* borrowed */
    const char *data;       /* the data directory: sandboxes/ and logs/ are in it; other processes may have it too */
    /* A folder of the host's, the first of the engine's and the warden's workspaces: here it is the folder of the
     * user's sandbox `default`, which can then neither be reset nor deleted. NULL: none. */
    const char *workspace;
    const struct kr_profile *profiles;      /* by enum kr_dialect; borrowed */
    const struct kr_user_rules *user_rules; /* of the policy file; borrowed */
    enum kr_dialect dialect;                /* whose profile a caller has that came with none */
    struct kr_net_rule network;             /* of sandboxes that choose none; never past max_network */
    struct kr_net_rule max_network;         /* the most that a sandbox may ask for */
    struct kr_net_rule fetch_network;       /* what is fetched into any sandbox by its address */
    uint32_t connection_rows;               /* kept in the store */
    uint32_t security_rows;                 /* the same of security events */
    struct kr_egress *egress;               /* borrowed; NULL: sandboxes have no network beyond loopback */
    const char *ca_bundle;                  /* PEM, for sandboxes with secrets_tls; borrowed; NULL: there are none */
    enum kr_preload preload;                /* of sandboxes that choose none */
    /* Names of shared templates, in the order of the engine's zygotes for them. */
    const char *const *preload_templates;
    size_t preload_count;
    const char *const *mounts;
    size_t mount_count;                     /* names of data sets, in the warden's order */
    const struct kr_package_python *python; /* borrowed: of the environments; NULL: sandboxes have none */

    uint32_t max_sessions; /* live ones, of all profiles together; 0: as many as the engine has room for */
    uint64_t cleanup_interval_ms;
    uint32_t queue_max;     /* runs waiting on one session */
    uint64_t queue_wait_ms; /* how long a session waits for a slot */
    uint64_t linger_ms;     /* how long a run goes on without a reader */

    bool user_groups;                                /* the sessions of one user have a control group together */
    uint32_t max_sessions_per_user, runs_per_minute; /* 0: no bound */
    uint64_t max_disk_per_user;                      /* 0: no bound */
    uint32_t max_templates_per_user;                 /* 0: no bound */
    uint32_t max_terminals, max_terminals_per_user, max_terminals_per_sandbox; /* 0: no bound */
    uint64_t terminal_idle_ms;       /* without a person's doing; 0: no bound */
    bool is_plain_shelf;             /* limits of folders are counted, and the holder need not be asked */
    bool accepts_loss;               /* damaged notes of runs are set aside, and do not stop the start */
    uint64_t image_dev, image_ino;   /* the image that is mounted over DATA/sandboxes; 0: it is a plain folder */
    uint64_t retention_ms, max_data; /* 0: no bound */
};

/* In whose name a program in a cell asks for packages. Texts are the run's or the terminal's. */
struct kr_box_asker {
    const char *id;       /* of the run or the terminal */
    const char *sandbox;  /* its sandbox's id */
    struct kr_caller who; /* who started it */
};

/* What happens, for metrics and logs; any may be NULL. */
struct kr_box_calls {
    void (*on_session_opened)(void *data, bool pooled, uint64_t ns);
    void (*on_session_ended)(void *data, const char *why); /* asked idle evicted reset died stopping */
    void (*on_run_started)(void *data, const struct kr_box_run *run);
    void (*on_run_ended)(void *data, const struct kr_box_run *run, enum kr_cause cause, uint64_t wall_ns);
    void (*on_terminal_opened)(void *data);
    void (*on_terminal_ended)(void *data, const char *why); /* exit closed idle killed stopping */
    void (*on_refused)(void *data, const struct kr_err *err);
    void (*on_connection)(void *data, const json_t *row); /* of KR_E_CONNECTION, checked */
    /* is_told: for the log as well. */
    void (*on_security)(void *data, const struct kr_security_event *e, bool is_told);
    /* A program in the cell of a run or a terminal asks for packages: answer with kr_box_packaged(). ask NULL: the run
     * or terminal ends, and nothing that was asked for in it is wanted any more. */
    void (*on_packages)(void *data, const struct kr_box_asker *by, uint32_t number, const json_t *ask);
};

/* The engine is borrowed: its owner passes it the warden's events. Makes what is missing in the data directory, and
 * ends the runs that an earlier process left unfinished. 0 or -errno with err. */
int kr_box_new(struct uv_loop_s *loop, struct kr_engine *engine, const struct kr_box_config *config,
               const struct kr_box_calls *calls, void *data, struct kr_box **ret_box, struct kr_err *err);
/* Takes from `config` what may change while the server runs; the profiles it borrowed have been changed by their owner.
 * Sessions that are live keep their limits. */
void kr_box_reload(struct kr_box *b, const struct kr_box_config *config);
/* Another preload for sandboxes that choose none. */
void kr_box_set_preload(struct kr_box *b, enum kr_preload preload);
/* No new runs; those that run may go on for grace_ms, then they are cancelled; on_stopped comes when all have ended and
 * the logs are written. */
void kr_box_stop(struct kr_box *b, uint64_t grace_ms, void (*on_stopped)(void *data), void *data);
bool kr_box_stopping(const struct kr_box *b);
/* After on_stopped, or after the engine is gone. Takes NULL. */
void kr_box_free(struct kr_box *b);

struct kr_box_figures {
    size_t opening, sessions, busy; /* not live yet; live; with a run */
    size_t terminals;
    size_t runs_active, runs_queued; /* running; waiting for their session or for a slot */
    struct kr_runlogs_figures runlogs;
    uint64_t data_bytes; /* of the data directory, as last counted */
};
void kr_box_figures(const struct kr_box *b, struct kr_box_figures *ret);
struct kr_engine *kr_box_engine(const struct kr_box *b);
const struct kr_box_config *kr_box_config(const struct kr_box *b);
/* What holds for this caller: of its listener, as its user's rule in the policy file has it. */
const struct kr_profile *kr_box_profile(const struct kr_box *b, const struct kr_caller *who);
struct kr_runlogs *kr_box_runlogs(const struct kr_box *b);
/* A row of the audit log; `detail` is a JSON object or NULL. Failures are logged, never returned. */
void kr_box_audit(struct kr_box *b, const struct kr_caller *who, const char *what, const char *object,
                  const char *outcome, const char *detail);
/* The same, for rows that are made safe together with others, at the end of this turn of the loop. */
void kr_box_audit_soon(struct kr_box *b, const struct kr_caller *who, const char *what, const char *object,
                       const char *outcome, const char *detail);

/* ---- sandboxes ---- */

#define KR_BOX_ENV_MAX 64u           /* variables */
#define KR_BOX_ENV_BYTES (32u << 10) /* of all of them */

/* A sandbox as the domain sees it. */
struct kr_sandbox {
    struct kr_store_sandbox row;
    json_t *settings; /* as they were set (sandbox_settings.h); what is absent is the server's */
    struct kr_limits limits;
    struct kr_net_rule network;
    enum kr_preload preload;
    enum kr_background background;
    uint32_t mounts;              /* bits of the data sets */
    struct kr_policy_spec policy; /* without its profile `network`, `network` above is none */
    bool allow_build;             /* packages without a wheel may be built from source, if the server allows it */
    bool auto_install;            /* a module that a run does not find is installed, once, and the run begins anew */
    bool secrets_tls;             /* TLS to hosts of its secrets ends in the egress process */
};
void kr_sandbox_done(struct kr_sandbox *s);
#define cleanup_box_sandbox __attribute__((cleanup(kr_sandbox_done)))

/* What holds in a sandbox that sets nothing: fills the settings' members of ret, which need no kr_sandbox_done(). */
void kr_box_sandbox_defaults(const struct kr_box *b, const struct kr_caller *who, struct kr_sandbox *ret);
/* By id or by name; NULL, "" or `default`: the user's default sandbox in the caller's dialect (kr_profile.sandbox),
 * which is made if it is missing. 0 or -ENOENT. */
int kr_box_sandbox_find(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_sandbox *ret,
                        struct kr_err *err);
/* name NULL: one is made up. settings may be NULL; they are checked by their rows (sandbox_settings.h). 0, -EEXIST,
 * -EINVAL naming the setting, KR_ERR_LIMIT. */
int kr_box_sandbox_create(struct kr_box *b, const struct kr_caller *who, const char *name, const json_t *settings,
                          struct kr_sandbox *ret, struct kr_err *err);
/* A user's secrets have changed: the sessions that have one are told. */
void kr_box_secrets_changed(struct kr_box *b, const char *user);
int kr_box_sandbox_rename(struct kr_box *b, const struct kr_caller *who, const char *id, const char *name,
                          struct kr_err *err);
/* Members that are null are taken away, others replace what is there. Live sessions keep what they have. */
int kr_box_sandbox_configure(struct kr_box *b, const struct kr_caller *who, const char *id, const json_t *changes,
                             struct kr_err *err);
/* Ends its sessions; its files are gone. */
int kr_box_sandbox_reset(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err);
int kr_box_sandbox_delete(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err);
/* Is its folder the host's (kr_box_config.workspace)? */
bool kr_box_is_host(const struct kr_box *b, const struct kr_sandbox *s);
/* A descriptor (O_PATH) of its folder of files, made if it is missing; the caller's to close. Or -errno. */
int kr_box_sandbox_folder(struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err);
/* A descriptor of the folder on the shelf that has its files and its environment (package_env.h); the caller's to
 * close. Or -errno. */
int kr_box_sandbox_home(struct kr_box *b, const struct kr_sandbox *s, struct kr_err *err);
/* The folder of all of them, which was checked when the box was opened: its descriptor, the box's own. */
int kr_box_shelf(const struct kr_box *b);
/* Its environment, made if it is missing, for a session that is not the box's own: `venv`, `folder` and the zygote that
 * fits, for a spec that has the wanted one. 0 or -errno with err. */
int kr_box_sandbox_env(const struct kr_box *b, const struct kr_sandbox *s, struct kr_session_spec *spec,
                       struct kr_err *err);
/* Has a zygote imported modules of this package (canonical name) before it forks, so that a live session finds those? A
 * session whose environment has such a module comes from a zygote without. */
bool kr_box_preloads(const char *package);
/* Files were changed from outside a run: the next run does not report them as its own. */
void kr_box_sandbox_touched(struct kr_box *b, const struct kr_sandbox *s);
/* {"id","name","state","created_at","last_used_at","settings","sessions"} and each setting that tells what holds. */
void kr_box_sandbox_json(const struct kr_box *b, struct kr_json *j, const struct kr_sandbox *s);

/* ---- templates: sandboxes as they were saved, which new ones begin with ---- */

/* Asks for the zygotes of config.preload_templates, and sees to it that each is that of the template as it is. Once the
 * server is ready. 0 or -ENOMEM. */
int kr_box_preloads_begin(struct kr_box *b);
struct kr_box_preload {
    const char *template; /* its name, as in the configuration */
    const char *state;    /* absent starting ready failed …: sessions come from it when it is ready */
    const char *why;      /* it is absent or failed; else NULL */
};
size_t kr_box_preload_count(const struct kr_box *b);
void kr_box_preload_get(const struct kr_box *b, size_t i, struct kr_box_preload *ret);

struct kr_box_task; /* of a caller that waits; the work goes on when it has left */
/* The caller has left: its function is not called any more. */
void kr_box_task_forget(struct kr_box_task *task);

struct kr_box_template {
    const char *sandbox;     /* id or name, as of kr_box_sandbox_find() */
    const char *name;        /* NULL: one is made up */
    const char *description; /* NULL: none */
    bool shared;             /* administrators only */
};
typedef void kr_box_template_fn(void *data, const struct kr_store_template *t, const struct kr_err *err);
/* Saves the sandbox as a template: its files, its packages, its settings. The sandbox goes on; where no filesystem
 * takes snapshots, what code changes meanwhile may be in the copy or not. 0 and fn is called once; or -errno:
 * KR_ERR_DENIED, KR_ERR_LIMIT, KR_ERR_CONFLICT (the folder is the host's), -ENOENT. */
int kr_box_template_save(struct kr_box *b, const struct kr_caller *who, const struct kr_box_template *t,
                         kr_box_template_fn *fn, void *data, struct kr_box_task **ret_task, struct kr_err *err);
/* By id or name, among the caller's own and those that are shared. 0 or -ENOENT. */
int kr_box_template_find(struct kr_box *b, const struct kr_caller *who, const char *id_or_name,
                         struct kr_store_template *ret, struct kr_err *err);
/* NULL leaves as it is. shared: -1 leaves as it is. */
int kr_box_template_change(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, const char *name,
                           const char *description, int shared, struct kr_err *err);
/* Sandboxes that began with it stay. */
int kr_box_template_delete(struct kr_box *b, const struct kr_caller *who, const char *id_or_name, struct kr_err *err);
/* {"id","name","description","shared","own","bytes","created_at"} */
void kr_box_template_json(struct kr_json *j, const struct kr_caller *who, const struct kr_store_template *t);

typedef void kr_box_made_fn(void *data, const struct kr_sandbox *s, const struct kr_err *err);
/* As kr_box_sandbox_create(), with the template's files and packages, and its settings where `settings` says nothing.
 * 0 and fn is called once; or -errno. */
int kr_box_sandbox_create_from(struct kr_box *b, const struct kr_caller *who, const char *template, const char *name,
                               const json_t *settings, kr_box_made_fn *fn, void *data, struct kr_box_task **ret_task,
                               struct kr_err *err);

/* ---- sessions ---- */

#define KR_BOX_SESSION_NAME_MAX 128u /* bytes: UTF-8 without control characters and slashes */
#define KR_BOX_MAIN "main"           /* the session of a sandbox for clients that name none */

struct kr_box_session_info {
    const char *name;    /* as the client knows it */
    const char *sandbox; /* id */
    const char *sandbox_name;
    const char *owner;
    bool live, busy;
    int64_t created_us, last_activity_us;
    uint64_t executions;
    unsigned queued;
    struct kr_session *session; /* the engine's, NULL unless live */
};
/* Calls back for each of the caller's sessions (of one sandbox, or of all with NULL). */
void kr_box_sessions(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                     void (*on_session)(void *data, const struct kr_box_session_info *info), void *data);
/* By name; sandbox NULL: in any of the caller's sandboxes, one of the caller's own dialect first, the most recently
 * used before others. 0 or -ENOENT. The pointers in ret live until the return to the loop. */
int kr_box_session_find(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        struct kr_box_session_info *ret, struct kr_err *err);
/* Opens one without running anything; name NULL: one is made up. on_open comes later with the name, or err. */
int kr_box_session_open(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                        void (*on_open)(void *data, const struct kr_box_session_info *info, const struct kr_err *err),
                        void *data, struct kr_err *err);
/* Ends it and what runs in it (`cancelled`). 0 or -ENOENT. */
int kr_box_session_close(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                         struct kr_err *err);
/* Ends the caller's sessions of this name, in any sandbox, as soon as no run is in them and none waits. */
void kr_box_sessions_retire(struct kr_box *b, const struct kr_caller *who, const char *name);
/* KeyboardInterrupt in what runs in it; nothing if nothing does. 0 or -ENOENT. */
int kr_box_session_interrupt(struct kr_box *b, const struct kr_caller *who, const char *sandbox, const char *name,
                             struct kr_err *err);

/* ---- runs ---- */

/* Starts a run. on_admitted comes exactly once, later: with the run (its log has its first event), or with err (no
 * room within queue_wait_ms, no such sandbox any more, …) and the run is nothing. 0, or -errno with err and no
 * callback: -ENOENT, KR_ERR_INVALID, KR_ERR_LIMIT (queue full, runs per minute). ret_run may be cancelled meanwhile.
 * What the spec borrows is copied. */
typedef void kr_box_admitted_fn(void *data, struct kr_box_run *run, const struct kr_err *err);
int kr_box_run_start(struct kr_box *b, const struct kr_caller *who, const struct kr_run_spec *spec,
                     kr_box_admitted_fn *on_admitted, void *data, struct kr_box_run **ret_run, struct kr_err *err);
/* Its starter is not to wait until its session is open: on_admitted comes in this turn, with the run. */
void kr_box_run_show(struct kr_box_run *r);
/* The starter has left: on_admitted does not come any more. */
void kr_box_run_forget(struct kr_box_run *r);

const char *kr_box_run_id(const struct kr_box_run *r);
const char *kr_box_run_session(const struct kr_box_run *r); /* its name */
const char *kr_box_run_sandbox(const struct kr_box_run *r); /* id */
const char *kr_box_run_user(const struct kr_box_run *r);    /* id of its owner */
const char *kr_box_run_files(const struct kr_box_run *r);   /* once it has ended: JSON, what it changed; or NULL */
const char *kr_box_run_request(const struct kr_box_run *r); /* id of the request that started it, or "" */
uint64_t kr_box_run_waited_ns(const struct kr_box_run *r);  /* from kr_box_run_start() to its begin; 0 before */
const char *kr_box_run_code(const struct kr_box_run *r, size_t *ret_len); /* all of it, until it has begun */
const struct kr_profile *kr_box_run_profile(const struct kr_box_run *r);  /* of the caller that started it */
struct kr_runlog *kr_box_run_log(const struct kr_box_run *r);             /* borrowed */
/* A part of the answer to on_packages of the run or terminal of that id, or the last one (JSON on one line). 0; -ESRCH:
 * it has ended; -ENOBUFS: a part that was dropped. */
int kr_box_packaged(struct kr_box *b, const char *id, uint32_t number, const char *json, size_t len, bool is_last);

/* A reader of the run comes, and leaves. When the last has left and the run goes on, it is cancelled at once
 * (leave_cancels) or after linger_ms. By id, because a run may be over by the time its reader leaves. */
void kr_box_run_watch(struct kr_box *b, const char *id);
void kr_box_run_unwatch(struct kr_box *b, const char *id);

/* The caller's live run of that id, or NULL. Valid until the return to the loop. */
struct kr_box_run *kr_box_run_find(struct kr_box *b, const struct kr_caller *who, const char *id);
/* Its log, live or kept; a reference. 0 or -ENOENT, also for another user's. */
int kr_box_run_open_log(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_runlog **ret_log,
                        struct kr_err *err);
/* Ends it: a queued one at once, a running one by killing its session (`insist`) or by KeyboardInterrupt. 0;
 * -ENOENT: unknown; -EALREADY: it is over. */
int kr_box_run_cancel(struct kr_box *b, const struct kr_caller *who, const char *id, bool insist, struct kr_err *err);
/* KeyboardInterrupt, and nothing more. 0; -ENOENT: unknown or over; KR_ERR_CONFLICT: it waits for its turn. */
int kr_box_run_interrupt(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_err *err);
/* Does it wait for a line now? False also for another's, or one that is over. */
bool kr_box_run_asks(struct kr_box *b, const struct kr_caller *who, const char *id);
/* What a run that waits for its turn waits for: the run that its session executes. */
struct kr_box_behind {
    char run[KR_STORE_ID_ROOM];
    bool asks; /* that one waits for a line of input, for so long */
    uint64_t asks_ms;
};
/* False: it does not wait, its session executes none yet, or it is another's. */
bool kr_box_run_behind(struct kr_box *b, const struct kr_caller *who, const char *id, struct kr_box_behind *ret);
/* Does it wait until the modules that its interpreter is forked with are imported? */
bool kr_box_run_awaits_modules(struct kr_box *b, const struct kr_caller *who, const char *id);
/* As text: "queued behind run …, which waits for input since 12 s", "waits until …"; "" if it does not wait. */
#define KR_BOX_BEHIND_ROOM 112
const char *kr_box_run_behind_text(struct kr_box *b, const struct kr_caller *who, const char *id,
                                   char buf[KR_BOX_BEHIND_ROOM]);
/* Answers input(); text NULL: end of input. 0, -ENOENT, -EINVAL: nothing was asked. */
int kr_box_run_reply(struct kr_box *b, const struct kr_caller *who, const char *id, const char *text, size_t len,
                     struct kr_err *err);
/* No client will answer: it has the end of input, and its end says so. */
void kr_box_run_unanswered(struct kr_box *b, const struct kr_caller *who, const char *id);

/* ---- connections to the outside (box_connections.c) ---- */

/* Rows that wait reach the store now, for a list that is about to be read (store_connection.h). */
void kr_box_connections_settle(struct kr_box *b);
struct kr_box_connection_figures {
    uint64_t dropped;   /* rows for which there was no room while the store took none */
    uint64_t unaudited; /* refused ones that the audit log has only as a number */
};
void kr_box_connection_figures(const struct kr_box *b, struct kr_box_connection_figures *ret);

/* ---- security events (src/security) ---- */

/* Events that wait reach the store now, for a list that is about to be read (security_store.h). */
void kr_box_security_settle(struct kr_box *b);
struct kr_security_figures kr_box_security_figures(const struct kr_box *b);

/* ---- the disk of a user (box_disk.c) ---- */

struct kr_disk_walk;
#define KR_DISK_UNKNOWN (UINT64_MAX / 4) /* of a user whose files cannot be measured whole: more than any limit */

/* Embedded by a caller that waits for a measurement. */
struct kr_disk_ask {
    TAILQ_ENTRY(kr_disk_ask) link;
    struct kr_disk_walk *walk; /* NULL: it does not wait */
    void (*on_measured)(struct kr_disk_ask *ask, uint64_t bytes);
};
/* Measures the files of all the user's sandboxes, on the thread pool. on_measured comes once, with the sum of a walk
 * that began after this call; before this returns if the user has no files. 0, or -errno with err and no call. */
int kr_box_disk_measure(struct kr_box *b, const char *user, struct kr_disk_ask *ask, struct kr_err *err);
/* No call any more. Also of an ask that does not wait. */
void kr_box_disk_forget(struct kr_disk_ask *ask);

/* ---- terminals (box_terminals.c) ---- */

/* A program on a pseudo-terminal, its output numbered by bytes, and who follows it.
 *
 * A terminal has a slot like a session, and a cell of its own. Its last KR_TERMINAL_KEPT bytes of output are kept: a
 * reader begins or resumes at a byte, and is told how many it missed if those are gone. The reader that is furthest
 * ahead holds back the program, so it loses nothing; others may lose what it has had; without any the program runs on.
 * Ended ones are kept for a minute, for their last bytes and how they ended. Ids are looked up with their owner. Loop
 * thread only; callbacks as everywhere here. docs/design/terminal.md. */
struct kr_box_terminal;

#define KR_TERMINAL_KEPT (256u << 10)     /* bytes of output */
#define KR_TERMINAL_WRITE_MAX (64u << 10) /* bytes of input at once */

struct kr_box_terminal_new {
    const char *sandbox; /* id or name, as of kr_box_sandbox_find() */
    struct kr_run_terminal how;
};
typedef void kr_box_terminal_fn(void *data, struct kr_box_terminal *t, const struct kr_err *err);
/* Starts a program. fn comes once, later, with the terminal or err. 0; or -errno with err and no callback: -ENOENT,
 * KR_ERR_INVALID, KR_ERR_TOO_MANY (bounds of sandbox, user, server). */
int kr_box_terminal_open(struct kr_box *b, const struct kr_caller *who, const struct kr_box_terminal_new *how,
                         kr_box_terminal_fn *fn, void *data, struct kr_box_terminal **ret, struct kr_err *err);
/* The starter has left before fn came: it does not come any more, and the terminal is closed. */
void kr_box_terminal_abandon(struct kr_box_terminal *t);

struct kr_box_terminal_info {
    const char *id, *sandbox, *sandbox_name;
    uint32_t cols, rows;
    int64_t created_us, used_us;
    uint64_t first, next; /* the oldest byte of output that is kept, the one that comes next */
    unsigned readers;
    bool running;
    enum kr_cause cause; /* once it has ended, and the rest: */
    int exit_code;
    const char *message; /* "" if the cause says it all */
};
/* The caller's, also for a minute after its end. NULL with err. Valid until the return to the loop. */
struct kr_box_terminal *kr_box_terminal_find(struct kr_box *b, const struct kr_caller *who, const char *id,
                                             struct kr_err *err);
void kr_box_terminals(struct kr_box *b, const struct kr_caller *who, const char *sandbox,
                      void (*on_terminal)(void *data, const struct kr_box_terminal_info *info), void *data);
void kr_box_terminal_get_info(const struct kr_box_terminal *t, struct kr_box_terminal_info *ret);
/* {"terminal_id","sandbox_id","sandbox",…} */
void kr_box_terminal_json(struct kr_json *j, const struct kr_box_terminal_info *info);

/* Input of the program, all or nothing. 0; -EAGAIN: too much waits for it; -ESRCH: it has ended. */
int kr_box_terminal_write(struct kr_box_terminal *t, const void *data, size_t len, struct kr_err *err);
/* Does it take KR_TERMINAL_WRITE_MAX bytes now, and as many that are on their way already? Else on_more of its readers
 * comes when it does. */
bool kr_box_terminal_wants(const struct kr_box_terminal *t);
/* 0, -EINVAL, -ESRCH, or -EAGAIN. */
int kr_box_terminal_resize(struct kr_box_terminal *t, uint32_t cols, uint32_t rows, struct kr_err *err);
/* Ends the program and what it started; of one that has ended, forgets it. */
void kr_box_terminal_close(struct kr_box_terminal *t, const struct kr_caller *who);
/* All that run and are theirs. */
void kr_box_terminals_close(struct kr_box *b, const struct kr_caller *who);

/* ---- readers ---- */

/* Embedded by who follows. */
struct kr_terminal_reader {
    TAILQ_ENTRY(kr_terminal_reader) link;
    struct kr_box_terminal *terminal; /* NULL: it does not read */
    uint64_t at;                      /* the next byte that it wants */
    /* There is more to peek, or the terminal has ended, or it takes input again. May close this reader, no other. */
    void (*on_more)(struct kr_terminal_reader *r);
};
#define KR_TERMINAL_NOW UINT64_MAX
/* From this byte on (0: the oldest that is kept; KR_TERMINAL_NOW: the next one). The terminal lives until it is closed.
 * on_more does not come for what is there already. */
void kr_terminal_read(struct kr_box_terminal *t, struct kr_terminal_reader *r, uint64_t from);
/* Bytes in one piece; *ret_lost: how many before it were lost. False: there are none at the moment. */
bool kr_terminal_peek(struct kr_terminal_reader *r, const char **ret_data, size_t *ret_len, uint64_t *ret_lost);
/* So many bytes of the last peek, and what was lost before them, are taken. */
void kr_terminal_take(struct kr_terminal_reader *r, size_t len);
/* The program has ended and all of its output is taken. */
bool kr_terminal_done(const struct kr_terminal_reader *r);
/* Also of one that does not read. */
void kr_terminal_leave(struct kr_terminal_reader *r);
