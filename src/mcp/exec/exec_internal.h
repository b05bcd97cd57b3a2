/* What the files of execution share. Not for others: exec.h is.
 *
 * exec.c           from the specification to the answer: one struct kr_mcp_exec per call
 * exec_take.c      events of the log become an outcome (run_outcome.h)
 * exec_progress.c  progress and log messages meanwhile
 * exec_input.c     questions of input(), in whichever way the client can be asked
 * exec_files.c     short texts among the changed files
 * exec_runs.c      runs without a call that waits for them */
#pragma once
#include "exec.h"
#include "call_input.h"
#include "loop.h"
#include "mcp_internal.h"
#include "run_outcome.h"

#define KR_MCP_DISPLAYS_BYTES (12u << 20) /* of a run's displays that are kept for its answer; the rest is said */

enum kr_mcp_exec_kind {
    KR_MCP_EXEC_RUNS,  /* a run of its own: it is stopped when the client leaves */
    KR_MCP_EXEC_READS, /* a run of another call, whose questions it asks */
    KR_MCP_EXEC_LOOKS, /* the same, and questions are left alone */
};

struct kr_mcp_exec {
    struct kr_mcp_call *call;
    struct kr_mcp *mcp;
    struct kr_box *box;
    struct kr_mcp_who who;
    struct kr_box_run *starting; /* until it is admitted */
    struct kr_runlog *log;       /* from there on */
    struct kr_runlog_reader *reader;
    struct kr_timer *timer;

    void (*render)(struct kr_mcp_call *c, const struct kr_mcp_outcome *o, void *data);
    void (*free_data)(void *data);
    void *data;

    struct kr_outcome run;   /* what its log brought so far */
    struct kr_mcp_outcome o; /* what the renderer sees: whole after kr_mcp_exec_close_outcome() */
    bool small_files;
    bool watching; /* counted among the run's readers */
    enum kr_mcp_exec_kind kind;

    bool ask_client;
    uint64_t asked;    /* number of the question that the client has; 0: none */
    uint64_t question; /* number of the last question's event; 0: none */
    uint64_t answered; /* questions up to this number are answered */
    char *prompt;      /* of it, owned */
    bool password;

    uint64_t answer_after_ms;
    bool start_only; /* answer_ns is the time of an early answer, for a run whose interpreter still starts */
    uint64_t begun_ns, answer_ns, task_ns; /* when to answer with what there is, when to become a task; 0: never */
    uint64_t page_max;                     /* characters after which a page of read_run is full; 0: no pages */
    uint64_t progress_ns;                  /* the last progress */
    double progress;
    struct kr_buf news; /* output since then */
};

/* ---- exec.c ---- */
/* Without an answer, or after another function gave it: the run is let go. */
void kr_mcp_exec_free(struct kr_mcp_exec *x);
/* Hands the outcome to the renderer, which answers; x is freed. */
void kr_mcp_exec_render(struct kr_mcp_exec *x);
/* A question was answered: what counts against the call counts anew. */
void kr_mcp_exec_go_on(struct kr_mcp_exec *x);

/* ---- exec_take.c ---- */
void kr_mcp_exec_init_outcome(struct kr_mcp_exec *x);
void kr_mcp_exec_take(struct kr_mcp_exec *x, const struct kr_event *e);
/* Moves what was collected into `o`, parsed. */
void kr_mcp_exec_close_outcome(struct kr_mcp_exec *x);
void kr_mcp_exec_done_outcome(struct kr_mcp_exec *x);

/* ---- exec_files.c ---- */
/* Reads short texts among the changed files, then renders. False: there is nothing to read, or it cannot be. */
bool kr_mcp_exec_read_files(struct kr_mcp_exec *x);

/* ---- exec_progress.c ---- */
#define KR_MCP_NEWS_MAX 1024u      /* bytes of one message of progress */
#define KR_MCP_BEAT_MS 5000u       /* how often a silent run is reported, so that clients do not give up */
#define KR_MCP_START_BEAT_MS 2000u /* the same before its session is open: some clients give up after 5 s */
bool kr_mcp_exec_reports(const struct kr_mcp_exec *x);
void kr_mcp_exec_news(struct kr_mcp_exec *x, const char *text, size_t len);
/* Sends what is due; returns when to come again (kr_clock_ns() scale), 0: not. */
uint64_t kr_mcp_exec_report(struct kr_mcp_exec *x, uint64_t now);
void kr_mcp_exec_log(struct kr_mcp_exec *x, enum kr_mcp_level level, const char *what, const char *text);

/* ---- exec_input.c ---- */
/* A question waits in the run: asks the client, or ends the input. True: the call is answered and x is gone. */
bool kr_mcp_exec_ask(struct kr_mcp_exec *x);
/* The call is a retry with its answer: hands it to the run. 0: follow it from its beginning; 1: asked again,
 * answered. */
int kr_mcp_exec_retry(struct kr_mcp_exec *x, const json_t *payload);

/* ---- exec_runs.c ---- */
enum kr_mcp_left {
    KR_MCP_LEFT_RUNNING, /* its call was answered with what there was */
    KR_MCP_LEFT_ASKING,  /* its question is with the client */
};
#define KR_MCP_LEFT_MS (10u * 60 * 1000) /* how long a run goes on that no call asks for */
#define KR_MCP_LEFT_MAX 4096u            /* at once; then a run ends with the call that left it */
/* Watches the run without a reader, for the time; one that is watched so starts anew. 0; -ENOMEM, -EBUSY. */
int kr_mcp_runs_leave(struct kr_mcp_exec *x, enum kr_mcp_left how, uint64_t ms);
/* Is its question with a client? */
bool kr_mcp_runs_asking(const struct kr_mcp *m, const char *run_id);
/* A call waits for it again. */
void kr_mcp_runs_take(struct kr_mcp *m, const char *run_id);
