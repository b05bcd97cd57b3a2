/* What the files of the room share: the structs behind install.h. Not for other folders. */
#pragma once
#include "buf.h"
#include "egress_client.h"
#include "install.h"
#include "install_answer.h"
#include "install_cell.h"
#include "work.h"
#include <sys/queue.h>

#define KR_INSTALL_RUNNING_MAX 8u      /* jobs under way; the next wait for their turn */
#define KR_INSTALL_RUNNING_USER_MAX 4u /* of one user */
#define KR_INSTALL_FETCHES_MAX 4u      /* of one job at a time */
#define KR_INSTALL_OUTPUT_MAX (64u << 10)
#define KR_INSTALL_TRIES_MAX 3u /* another process may make a generation first */
#define KR_INSTALL_ERROR_MAX 8192u

/* Which change is allowed is a table in install_job.c. */
enum kr_install_step {
    KR_STEP_WAITING, /* for its turn in the sandbox */
    KR_STEP_READING, /* what is installed, on the thread pool */
    KR_STEP_RESOLVING,
    KR_STEP_FETCHING, /* what the store lacks: looked up, fetched, unpacked, built */
    KR_STEP_MAKING,   /* the generation, on the thread pool; it cannot be cancelled any more */
    KR_STEP_LEAVING,  /* it has its outcome; what is under way ends */
    KR_STEP_MAX_,
};

/* A file of the answer on its way into the store. */
enum kr_install_row_state {
    KR_ROW_ASKED,   /* not looked for yet */
    KR_ROW_LACKING, /* the store has not got it */
    KR_ROW_FETCHING,
    KR_ROW_BUILDING,
    KR_ROW_UNPACKING,
    KR_ROW_READY,
    KR_ROW_STATE_MAX_,
};

struct kr_install_row {
    struct kr_install_job *job;
    const struct kr_answer_file *file;
    enum kr_install_row_state state;
    struct kr_egress_ask ask;
    struct kr_work work;
    struct kr_install_cell *cell;   /* that builds it */
    struct kr_install_wheel *wheel; /* as it comes from there */
    int fd;                         /* of the file that is fetched, no name leads to it; -1: none */
    uint64_t bytes, total;
    char name[KR_WHEEL_NAME_ROOM]; /* of the wheel: file->file, or what was built from it */
    char key[KR_PACKAGE_KEY_ROOM], sha256[KR_SHA256_ROOM];
    bool own;      /* no index vouches for it: it is the environment's own */
    bool is_fresh; /* it was unpacked, and not there before */
    struct kr_wheel_limits limits;
    int result; /* of the work */
    struct kr_err err;
};

/* How it ends. */
struct kr_install_outcome {
    bool is_set, ok;
    char kind[16]; /* "" if ok */
    char *text;    /* why, for a person */
    json_t *names;
};

struct kr_install_job {
    TAILQ_ENTRY(kr_install_job) link; /* of all, in order of their asking */
    struct kr_install *in;
    struct kr_job *job;
    enum kr_install_step step; /* changed by kr_install_set_step() alone */
    enum kr_install_op op;
    bool upgrade, build, cancelled;
    struct kr_requirements wanted;
    char sandbox[KR_STORE_ID_ROOM], user[KR_STORE_ID_ROOM];
    char folder_name[KR_STORE_ID_ROOM]; /* the sandbox's, when the turn came: a reset gives it another */
    unsigned rights;
    int folder; /* -1 before its turn */
    struct kr_timer *timer;
    uint64_t began_ns;
    unsigned pending; /* works and fetches under way */
    unsigned tries;
    volatile bool stop; /* for the functions on threads */
    struct kr_work work;
    int result; /* of the work */
    struct kr_err err;
    struct kr_package_list *before;
    struct kr_install_cell *cell;
    struct kr_answer answer;
    bool is_kept; /* the answer is one of the last minutes */
    bool again;   /* its links lead nowhere any more: once nothing is under way it is resolved anew */
    struct kr_install_row *rows;
    size_t row_count;
    struct kr_package_item *items; /* of the next generation; borrows from before, answer, rows */
    size_t item_count;
    struct kr_package_made made;
    uint64_t downloaded;
    unsigned cached;
    json_t *notes;        /* array of texts */
    struct kr_buf output; /* as pip would print it */
    struct kr_install_outcome outcome;
};

TAILQ_HEAD(kr_install_jobs, kr_install_job);

struct kr_install_user { /* who has asked lately */
    TAILQ_ENTRY(kr_install_user) link;
    char id[KR_STORE_ID_ROOM];
    double tokens;
    uint64_t tokens_ns;
};

struct kr_install_resolution;

struct kr_install {
    struct uv_loop_s *loop;
    struct kr_install_config config;
    char *index; /* own copy of config.index */
    struct kr_install_jobs jobs;
    struct kr_install_job *coming; /* of the ask that is about to start it */
    struct kr_soon *soon;          /* turns are given from the loop */
    struct kr_lane *lane;          /* of unpacking and making */
    TAILQ_HEAD(kr_install_users, kr_install_user) users;
    TAILQ_HEAD(kr_install_resolutions, kr_install_resolution) resolutions;
    size_t resolution_count;
    LIST_HEAD(, kr_install_cell) cells;
    LIST_HEAD(, kr_install_task) tasks;
    LIST_HEAD(, kr_install_session) sessions; /* asks of cells that have their job */
    int tmp;                                  /* DATA/packages/tmp, -1: not opened yet */
    struct kr_install_system *system;
    struct kr_install_sweeper *sweeper;
    struct kr_install_compiler *compiler;
    bool is_closing;
    unsigned works; /* on threads, of jobs, tasks and the sweep */
};

/* ---- install_job.c: the life of a job ---- */
extern const struct kr_job_kind kr_install_kinds[];
extern const size_t kr_install_kinds_count;
int kr_install_turns_open(struct kr_install *in, struct kr_err *err);
/* The only function that changes its step. */
void kr_install_set_step(struct kr_install_job *j, enum kr_install_step next);
/* It has failed: what is under way is ended, and the job with it. */
void kr_install_fail(struct kr_install_job *j, const char *kind, const json_t *names, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same, with an error's own kind. */
void kr_install_fail_with(struct kr_install_job *j, const struct kr_err *err);
/* What was made is the sandbox's. */
void kr_install_succeed(struct kr_install_job *j);
/* A work or fetch of it begins, and has ended. False: the job is on its way out, and the caller does no more with it;
 * it may be gone. */
void kr_install_begin(struct kr_install_job *j);
bool kr_install_end(struct kr_install_job *j);
/* A line of its output and log. */
void kr_install_say(struct kr_install_job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kr_install_note(struct kr_install_job *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void kr_install_job_free(struct kr_install_job *j);

/* ---- install_steps.c ---- */
void kr_install_read(struct kr_install_job *j);
/* It has an answer: what is to be installed is judged, then fetched. */
void kr_install_answered(struct kr_install_job *j);
/* All rows are ready. */
void kr_install_make(struct kr_install_job *j);

/* ---- install_resolve.c ---- */
void kr_install_resolve(struct kr_install_job *j);
void kr_install_resolutions_clear(struct kr_install *in);

/* ---- install_fetch.c ---- */
void kr_install_fetch(struct kr_install_job *j);
/* The row has its wheel, in its descriptor. */
void kr_install_unpack(struct kr_install_row *row);
/* How far all of them are. */
void kr_install_fetch_progress(struct kr_install_job *j, const char *what);
/* Ends its fetches and builds. */
void kr_install_fetch_stop(struct kr_install_job *j);
void kr_install_rows_free(struct kr_install_job *j);
/* A file without a name in DATA/packages/tmp, or -errno. */
int kr_install_temp(struct kr_install *in, struct kr_err *err);

/* ---- install_build.c ---- */
/* Builds a wheel of the row's source in a cell of its own; goes on with kr_install_unpack(). */
void kr_install_build(struct kr_install_row *row);
void kr_install_build_stop(struct kr_install_row *row);

/* ---- install_result.c ---- */
/* The object of kr_install_result(), and the rows of audit log and metrics. */
char *kr_install_result_text(const struct kr_install_job *j, bool with_output);
void kr_install_account(const struct kr_install_job *j);

/* ---- install_session.c ---- */
void kr_install_sessions_close(struct kr_install *in);

/* ---- install_look.c ---- */
void kr_install_looks_close(struct kr_install *in);

/* ---- install_bytecode.c ---- */
int kr_install_compiler_open(struct kr_install *in, struct kr_err *err);
/* Compiles what the job has brought into the store, in the background. */
void kr_install_compile(struct kr_install *in, const struct kr_install_job *j);
/* Once nothing is under way. */
void kr_install_compiler_close(struct kr_install *in);

/* ---- install_sweep.c ---- */
int kr_install_sweep_open(struct kr_install *in, struct kr_err *err);
/* No new one; then, once none is under way. */
/* The bound of the store has changed. */
void kr_install_sweep_soon(struct kr_install *in);
void kr_install_sweep_stop(struct kr_install *in);
void kr_install_sweep_close(struct kr_install *in);
