/* Packages of sandboxes: everything between a request and a new generation of a sandbox's /venv.
 *
 * An install is a job (src/job, kinds `packages.install` and `packages.uninstall`, subject: the sandbox's id). What can
 * be refused without the network is refused by kr_install_start(); the rest is the job's: a cell of its own runs the
 * resolver, what the store of wheels lacks is fetched and checked, a generation is made. One job of a sandbox runs at a
 * time, the next waits in order. Loop thread only; callbacks come from the loop, never from inside a call of this
 * header. docs/design/packages.md has the life of a job. */
#pragma once
#include "box.h"
#include "job.h"
#include "package_env.h"
#include "package_rules.h"
#include "words.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kr_buf;
struct kr_egress;
struct kr_install;
struct kr_metrics;
struct uv_loop_s;

#define KR_INSTALL_KIND "packages.install"
#define KR_UNINSTALL_KIND "packages.uninstall"

/* ---- the whole ---- */

struct kr_install_config {
    struct kr_store *store; /* borrowed, as all of these */
    struct kr_jobs *jobs;
    struct kr_box *box;
    struct kr_egress *egress; /* NULL: nothing can be installed */
    struct kr_package_store *packages;
    struct kr_metrics *metrics;                /* may be NULL */
    const struct kr_package_python *python;    /* NULL: it is not known, and nothing can be installed */
    const char *resolver, *builder, *compiler; /* texts of src/kernel/python: resolve.py, build.py, bytecode.py */
    const char *index;                         /* the address of the index, for results; without credentials */
    struct kr_words blocked;                   /* the setting blocked-packages; borrowed until the next reload */
    bool enabled;                              /* installs may be asked for */
    bool allow_build;                          /* sandboxes may be given leave to build from source */
    uint32_t per_minute;                       /* asks of a user; 0: no bound */
    uint64_t timeout_ms;                       /* of a job from its turn on */
    uint64_t download_max;                     /* bytes that a job may fetch */
    uint64_t installed_max;                    /* bytes of an environment, unpacked */
    uint32_t files_max;                        /* files of an environment */
    uint64_t store_max;                        /* bytes of the store, for the sweep; 0: no bound */
    const char *data;                          /* the folder with packages/ in it; NULL: the box's data */
    /* Takes parts of answers for programs in cells, as kr_box_packaged() does; NULL: that. */
    int (*answer)(void *data, const char *by, uint32_t number, const char *json, size_t len, bool is_last);
    void *answer_data;
};

/* Adds both kinds to the jobs. 0 or -errno with err. */
int kr_install_new(struct uv_loop_s *loop, const struct kr_install_config *config, struct kr_install **ret_install,
                   struct kr_err *err);
/* Takes what may change while the server runs: all but the borrowed parts. */
void kr_install_reload(struct kr_install *in, const struct kr_install_config *config);
/* After kr_jobs_close(), before the box and the engine go. Takes NULL. */
void kr_install_free(struct kr_install *in);
/* May installs be asked for: they are switched on, and there is a way to the index? */
bool kr_install_is_on(const struct kr_install *in);

/* ---- asking ---- */

enum kr_install_op { KR_INSTALL, KR_UNINSTALL };

/* Which packages: exactly one of the three members is given. */
struct kr_install_what {
    const char *line;    /* requirements between blanks or commas: "pandas numpy>=2" */
    const char *file;    /* the text of a requirements.txt */
    const json_t *texts; /* an array of texts, each one requirement */
};

/* Why an ask was refused, for voices that have an answer of their own for it. */
struct kr_install_refusal {
    enum kr_package_verdict verdict; /* KR_PACKAGE_FINE: refused for another reason, which err tells */
    char name[KR_REQ_NAME_ROOM];     /* of the package, as it was written */
    char resembles[KR_REQ_NAME_ROOM];
};

struct kr_install_ask {
    const char *sandbox; /* id or name; NULL: the default one */
    enum kr_install_op op;
    struct kr_install_what what;
    bool upgrade;       /* newer versions of what is installed, where there are */
    bool allow_similar; /* names that look like well-known ones are meant */
    bool build;         /* where there is no wheel, from source: refused unless the sandbox and the server allow it */
    struct kr_install_refusal *ret_refusal; /* filled when it is refused; may be NULL */
};

/* 0: *ret_job is a new job; 1: it is one under way that was asked for the same. Watch it with kr_job_watch(), follow it
 * with kr_jobs_open_log(), cancel it with kr_jobs_cancel(). Or -errno with err: KR_ERR_INVALID (grammar, with the
 * position; a standard module; a look-alike, and how to insist), KR_ERR_DENIED (blocked; installs are switched off),
 * KR_ERR_TOO_MANY (rate), KR_ERR_UNAVAILABLE, -ENOENT (the sandbox). */
int kr_install_start(struct kr_install *in, const struct kr_caller *who, const struct kr_install_ask *ask,
                     struct kr_job **ret_job, struct kr_err *err);

/* The result of a job that has ended, from its row: a new object, or NULL (another kind, gone, or lost by a crash).
 *
 *   {"op": "install", "ok": true, "sandbox": ID,
 *    "installed": [{"name", "version", "was": "1.0" or null, "requested": true, "sha256", "file", "index"}],
 *    "removed": [{"name", "version"}], "satisfied": [{"name", "version"}],
 *    "notes": [text], "restart": false (a session has imported what was replaced, or a preloaded module is shadowed),
 *    "downloaded": bytes, "cached": wheels that the store had, "seconds": 1.25, "output": "Collecting …\nSuccess…",
 *    "asked": [canonical names]}
 *
 * and, where ok is false, {"kind": a word, "error": text, "names": [name]} beside op, sandbox, output, seconds, asked.
 * Kinds: those of resolve.py (invalid not_found no_version needs_build python conflict index build resolver), and
 * blocked, hash, broken, too_large, timeout, cancelled, no_space, failed. */
json_t *kr_install_result(struct kr_install *in, const struct kr_store_job *row);

/* A program in the cell of a run or a terminal asks (box.h's on_packages): for its sandbox, in the name of who started
 * it. The answers go by kr_box_packaged(). */
void kr_install_on_session(struct kr_install *in, const struct kr_box_asker *by, uint32_t number, const json_t *ask);

/* ---- looking ---- */

struct kr_install_task; /* of a caller that waits */
/* The caller has left: its function is not called any more. */
void kr_install_task_forget(struct kr_install_task *task);

/* Borrowed for the call of the function. */
struct kr_install_listing {
    const struct kr_package_list *environment;
    const struct kr_package_system *system; /* what the server's Python has and cells see; empty if not asked for */
    size_t system_count;
};
typedef void kr_install_list_fn(void *data, const struct kr_install_listing *listing, const struct kr_err *err);
/* What is installed in a sandbox, for kr_package_list_columns() and its like. 0 and fn is called once; or -errno. */
int kr_install_list(struct kr_install *in, const struct kr_caller *who, const char *sandbox, bool with_system,
                    kr_install_list_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err);

enum kr_install_state {
    KR_INSTALL_NOT_FOUND,  /* not installed, and no job that is known has named it */
    KR_INSTALL_INSTALLED,  /* it is there, and no job that is known has named it */
    KR_INSTALL_INSTALLING, /* a job that names it waits or runs */
    KR_INSTALL_SUCCESS,    /* the last job that named it has ended well, and it is there */
    KR_INSTALL_FAILED,     /* the last job that named it has failed */
    KR_INSTALL_STATE_MAX_,
};
extern const char *const kr_install_state_names[KR_INSTALL_STATE_MAX_ + 1]; /* ends with NULL: choices of a field */

struct kr_install_status {
    enum kr_install_state state;
    const char *version;          /* installed now, or "" */
    const char *job;              /* id of the job that named it last, or "" */
    const char *text;             /* INSTALLING: how far; FAILED: why; else "" */
    int64_t started_us, ended_us; /* of that job; 0: none, or not ended */
};
typedef void kr_install_status_fn(void *data, const struct kr_install_status *status, const struct kr_err *err);
/* How it stands with one package of a sandbox. A name with specifiers is read as its name. */
int kr_install_status(struct kr_install *in, const struct kr_caller *who, const char *sandbox, const char *name,
                      kr_install_status_fn *fn, void *data, struct kr_install_task **ret_task, struct kr_err *err);
